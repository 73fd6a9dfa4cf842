/** Sentences in the reader's language. The English sentence is the key; `zh.ts` has the Chinese ones. */

import { zh } from "./zh";

type Values = Record<string, string | number>;
export type Language = "en" | "zh";

const KEY = "pegboard.language";

export const language = (): Language => (document.documentElement.lang === "zh" ? "zh" : "en");

/** For dates and figures: 24 hours and the day before the month, as the console's English has them. */
export const locale = () => (language() === "zh" ? "zh-CN" : "en-GB");

export function chooseLanguage(chosen: Language) {
  localStorage.setItem(KEY, chosen);
  document.documentElement.lang = chosen;
}

/**
 * A whole sentence with its values, as ICU writes them: `{name}` and `{n, plural, one {# change} other {# changes}}`.
 */
export function t(sentence: string, values: Values = {}): string {
  const text = language() === "zh" ? (zh[sentence] ?? sentence) : sentence;
  return text.includes("{") ? format(text, values) : text;
}

function format(text: string, values: Values): string {
  let out = "";
  for (let at = 0; at < text.length; ) {
    if (text[at] !== "{") {
      out += text[at++];
      continue;
    }
    const end = closing(text, at);
    out += placeholder(text.slice(at + 1, end), values);
    at = end + 1;
  }
  return out;
}

function placeholder(inside: string, values: Values): string {
  const [name = "", kind, ...rest] = inside.split(",");
  const value = values[name.trim()] ?? "";
  if (kind?.trim() !== "plural") return typeof value === "number" ? number(value) : value;
  const forms = new Map<string, string>();
  const source = rest.join(",");
  for (let at = source.indexOf("{"), from = 0; at >= 0; at = source.indexOf("{", from)) {
    const end = closing(source, at);
    forms.set(source.slice(from, at).trim(), source.slice(at + 1, end));
    from = end + 1;
  }
  const count = Number(value);
  const form = forms.get(`=${count}`) ?? forms.get(new Intl.PluralRules(language()).select(count)) ?? forms.get("other");
  return format((form ?? "").replaceAll("#", number(count)), values);
}

function closing(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "{") depth++;
    if (text[at] === "}" && --depth === 0) return at;
  }
  return text.length;
}

// -- figures and times ------------------------------------------------------------------------------------------

export const number = (value: number) => value.toLocaleString(locale());

export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "–";
  const digits = usd !== 0 && Math.abs(usd) < 0.01 ? 4 : 2;
  return new Intl.NumberFormat(locale(), { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(usd);
}

export const compact = (value: number) => new Intl.NumberFormat(locale(), { notation: "compact", maximumFractionDigits: 1 }).format(value);

export function bytes(count: number): string {
  return count < 1024 ? t("{n} B", { n: count }) : count < 1048576 ? t("{n} kB", { n: Math.round(count / 1024) }) : t("{n} MB", { n: Math.round(count / 104857.6) / 10 });
}

/** A length of time: `38 ms`, `3.1 s`, `4 min`, `2 h`. */
export function took(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || seconds < 0) return "";
  if (seconds < 1) return t("{n} ms", { n: Math.round(seconds * 1000) });
  if (seconds < 60) return t("{n} s", { n: seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds) });
  if (seconds < 3600) return t("{n} min", { n: Math.round(seconds / 60) });
  if (seconds < 86400) return t("{n} h", { n: Math.round(seconds / 3600) });
  return t("{n, plural, one {# day} other {# days}}", { n: Math.round(seconds / 86400) });
}

/** How long ago: relative under a day, then the date. `at` is in seconds since the epoch. */
export function ago(at: number, now = Date.now() / 1000): string {
  const past = Math.max(0, now - at);
  if (past < 60) return t("now");
  return past < 86400 ? took(past) : date(at);
}

export const date = (at: number) => new Date(at * 1000).toLocaleDateString(locale(), { day: "numeric", month: "short" });
export const clock = (at: number) => new Date(at * 1000).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit" });
export const moment = (at: number) => (Date.now() / 1000 - at < 86400 ? clock(at) : `${date(at)}, ${clock(at)}`);
