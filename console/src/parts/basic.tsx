/** The small parts: effects, verdicts, states, counts, keys, paths and times. */

import { Fragment, type ReactNode } from "react";
import { ago, locale, moment, t } from "../i18n";
import type { Decision, Effect as EffectValue } from "../types";
import { Icon } from "./icons";

const KINDS = new Set(["read", "write", "delete", "exec", "connect", "send", "control", "spawn", "schedule", "spend", "call"]);
const kindIcon = (kind: string) => (KINDS.has(kind) ? kind : "dot");

const kindWord = (kind: string): string => {
  switch (kind) {
    case "read": return t("read");
    case "write": return t("write");
    case "delete": return t("delete");
    case "exec": return t("exec");
    case "connect": return t("connect");
    case "send": return t("send");
    case "spawn": return t("spawn");
    case "schedule": return t("schedule");
    case "spend": return t("spend");
    case "control": return t("control");
    case "call": return t("call");
    default: return kind;
  }
};

/** Icon, kind and target; the kind's word is left out where the tool says it already. */
export function Effect({ effect, word = true }: { effect: EffectValue; word?: boolean }) {
  return (
    <span className="effect" data-kind={effect.kind}>
      <Icon name={kindIcon(effect.kind)} />
      {word ? <b>{kindWord(effect.kind)}</b> : <span className="hide">{kindWord(effect.kind)}</span>}
      <code title={effect.target}>{effect.target}</code>
    </span>
  );
}

export function EffectKind({ kind }: { kind: string }) {
  return (
    <span className="effect" data-kind={kind}>
      <Icon name={kindIcon(kind)} />
      <b>{kindWord(kind)}</b>
    </span>
  );
}

export function EffectBadge({ kind }: { kind: string }) {
  return (
    <span className="effect-badge" data-kind={kind}>
      <Icon name={kindIcon(kind)} />
      {kindWord(kind)}
    </span>
  );
}

const LETTERS: Record<string, string> = { create: "A", modify: "M", delete: "D", move: "R" };

/** A change as one letter. */
export function ChangeLetter({ kind }: { kind: string }) {
  const effect = kind === "delete" ? "delete" : "write";
  return (
    <span className="effect-badge letter" data-kind={effect} title={kindWord(effect)}>
      {LETTERS[kind] ?? "M"}
    </span>
  );
}

export function Verdict({ verdict }: { verdict: Decision }) {
  const word = verdict === "allow" ? t("allow") : verdict === "ask" ? t("ask") : t("deny");
  return (
    <span className="verdict" data-tone={verdict}>
      <Icon name={verdict} />
      {word}
    </span>
  );
}

interface StateShape {
  tone: string;
  icon: string;
  word: string;
}

export function stateOf(status: string): StateShape {
  switch (status) {
    case "running": return { tone: "plain", icon: "busy", word: t("Running") };
    case "suspended":
    case "waiting": return { tone: "ask", icon: "ask", word: t("Waits for you") };
    case "done": return { tone: "allow", icon: "allow", word: t("Done") };
    case "limit": return { tone: "plain", icon: "alert", word: t("Limit reached") };
    case "denied": return { tone: "deny", icon: "deny", word: t("Denied") };
    case "interrupted": return { tone: "plain", icon: "offline", word: t("Interrupted") };
    case "cancelled": return { tone: "plain", icon: "stop", word: t("Stopped") };
    case "failed": return { tone: "deny", icon: "error", word: t("Failed") };
    default: return { tone: "plain", icon: "ring", word: status };
  }
}

export function State({ status, note, bare }: { status: string; note?: string; bare?: boolean }) {
  const { tone, icon, word } = stateOf(status);
  return (
    <span className="state" data-tone={tone}>
      <Icon name={icon} spin={status === "running"} />
      {bare ? <span className="hide">{word}</span> : <>{word}{note ? `, ${note}` : ""}</>}
    </span>
  );
}

export const Tone = ({ tone, icon, children }: { tone: string; icon: string; children?: ReactNode }) => (
  <span className="state" data-tone={tone}>
    <Icon name={icon} />
    {children}
  </span>
);

export const Count = ({ n, ask, label }: { n: number; ask?: boolean; label?: string }) => (
  <span className={ask ? "count count-ask" : "count"}>
    <span aria-hidden={label ? "true" : undefined}>{n}</span>
    {label && <span className="hide">{label}</span>}
  </span>
);

/** A path that breaks after its slashes only. */
export function Path({ path }: { path: string }) {
  const parts = path.split("/");
  return (
    <code title={path}>
      {parts.map((part, n) => (
        <Fragment key={n}>
          {part}
          {n < parts.length - 1 && <>/<wbr /></>}
        </Fragment>
      ))}
    </code>
  );
}

export const Ago = ({ at }: { at: number }) => (
  <time dateTime={new Date(at * 1000).toISOString()} title={new Date(at * 1000).toLocaleString(locale())}>
    {ago(at)}
  </time>
);

export const Moment = ({ at }: { at: number }) => (
  <time dateTime={new Date(at * 1000).toISOString()} title={new Date(at * 1000).toLocaleString(locale())}>
    {moment(at)}
  </time>
);

/** How many lines a diff adds and takes away. */
export function deltaOf(diff: string): [number, number] {
  let added = 0;
  let removed = 0;
  for (const line of diff.split("\n")) {
    if (line.startsWith("+") && !line.startsWith("+++")) added++;
    else if (line.startsWith("-") && !line.startsWith("---")) removed++;
  }
  return [added, removed];
}

export function Delta({ diffs }: { diffs: string[] }) {
  const [added, removed] = diffs.map(deltaOf).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
  if (!added && !removed) return null;
  return (
    <span className="delta">
      {added > 0 && <ins>+{added}</ins>} {removed > 0 && <del>−{removed}</del>}
    </span>
  );
}
