/** Overview: cost, runs, calls, what waits, and whether the record is whole. */

import { useEffect, useRef, useState } from "react";
import { at, get, useResource } from "../api";
import { compact, locale, money, number, t, took } from "../i18n";
import { Tone } from "../parts/basic";
import { Budgets } from "../parts/budgets";
import { toastError } from "../parts/overlay";
import { Page, useApprovals, waitingOf } from "../parts/shell";
import { Load } from "../parts/states";
import { Link, setQuery, useRoute } from "../router";
import type { Run, UsageReport } from "../types";
import { RunTable } from "./runs";

const RANGES: [string, number, () => string][] = [
  ["1", 1, () => t("Day")],
  ["7", 7, () => t("Week")],
  ["30", 30, () => t("30 days")],
];

export function OverviewPage() {
  const { query } = useRoute();
  const days = Number(query.get("days") ?? 30) || 30;
  const path = at("/api/usage", { days });
  const usage = useResource<UsageReport>(path, 15);
  const runs = useResource<{ runs: Run[] }>("/api/runs?limit=500", 10);
  const waiting = waitingOf(useApprovals().data).length;
  return (
    <Page
      tabTitle={t("Overview")}
      title={<h1>{t("Overview")}</h1>}
      bar={<><span className="grow" /><div className="segment" role="group" aria-label={t("Range")}>{RANGES.map(([name, n, label]) => <button key={name} aria-pressed={days === n} onClick={() => setQuery("days", name)}>{label()}</button>)}</div></>}
    >
      <div className="page">
        <div className="page-in">
          <Load from={usage} path={path} what={t("figures")}>
            {(found) => (
              <>
                <Figures found={found} runs={runs.data?.runs ?? []} days={days} waiting={waiting} />
                <div className="charts">
                  <DayChart found={found} days={days} />
                  <ToolBars found={found} />
                </div>
                <Models found={found} />
                <Budgets />
              </>
            )}
          </Load>
          {runs.data && runs.data.runs.length > 0 && (
            <div className="stack"><div className="row"><h2 className="section-title">{t("Recent runs")}</h2><span className="grow" /><Link className="meta" href="/runs">{t("All")}</Link></div><RunTable runs={runs.data.runs.slice(0, 6)} /></div>
          )}
          <Audit />
        </div>
      </div>
    </Page>
  );
}

const sum = (values: (number | null)[]) => values.reduce<number>((all, one) => all + (one ?? 0), 0);

function Figures({ found, runs, days, waiting }: { found: UsageReport; runs: Run[]; days: number; waiting: number }) {
  const costs = Object.values(found.days).map((day) => day.cost_usd);
  const known = costs.some((cost) => cost !== null);
  const tools = Object.values(found.tools);
  const calls = sum(tools.map((tool) => tool.calls));
  const failed = sum(tools.map((tool) => tool.failed));
  const since = Date.now() / 1000 - days * 86400;
  const states = runs.filter((run) => run.started >= since);
  const count = (status: string) => states.filter((run) => run.status === status).length;
  const tokens = sum(Object.values(found.models).map((one) => one.input_tokens + one.output_tokens));
  return (
    <section className="card stats" aria-label={t("Figures")}>
      <div><span className="meta">{t("Cost")}</span><span className="big">{known ? money(sum(costs)) : "–"}</span><span className="meta">{known ? t("{n} tokens", { n: compact(tokens) }) : t("no price is known; {n} tokens", { n: compact(tokens) })}</span></div>
      <div><span className="meta">{t("Runs")}</span><span className="big">{number(found.runs)}</span><span className="meta">{t("{done} done, {failed} failed", { done: count("done"), failed: count("failed") })}</span></div>
      <div><span className="meta">{t("Calls")}</span><span className="big">{number(calls)}</span><span className="meta">{calls ? t("{n} % failed", { n: Math.round((1000 * failed) / calls) / 10 }) : t("none yet")}</span></div>
      <div><span className="meta">{t("Waiting for you")}</span><span className="big">{number(waiting)}</span><span className="meta">{waiting ? <Link href="/approvals">{t("Open Approvals")}</Link> : t("nothing to answer")}</span></div>
    </section>
  );
}

/** A chart is drawn at its container's width, so that its text stays 12 px. */
function useWidth() {
  const ref = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.round(entry!.contentRect.width))));
    watch.observe(ref.current!);
    return () => watch.disconnect();
  }, []);
  return [ref, width] as const;
}

function DayChart({ found, days }: { found: UsageReport; days: number }) {
  const [ref, width] = useWidth();
  const money_ = Object.values(found.days).some((day) => day.cost_usd);
  const keys = Array.from({ length: Math.max(7, days) }, (_, n) => dayKey(Math.max(7, days) - 1 - n));
  const shown = width < 420 ? keys.slice(-14) : keys;
  const value = (key: string) => {
    const day = found.days[key];
    return day ? (money_ ? (day.cost_usd ?? 0) : day.input_tokens + day.output_tokens) : 0;
  };
  const top = nice(Math.max(...shown.map(value), money_ ? 0.01 : 1));
  const label = (amount: number) => (money_ ? money(amount) : compact(amount));
  const left = 44;
  const step = (width - left) / shown.length;
  const y = (amount: number) => 158 - (amount / top) * 144;
  const title = money_ ? t("Cost per day") : t("Tokens per day");
  const best = shown.reduce((a, b) => (value(b) > value(a) ? b : a), shown[0]!);
  const every = Math.ceil(shown.length / Math.max(2, Math.floor(width / 90)));
  return (
    <figure className="card figure" ref={ref}>
      <figcaption><h2 className="section-title">{title}</h2></figcaption>
      {!shown.some((key) => value(key) > 0) ? <p className="second">{t("Charts appear after the first run.")}</p> : <svg className="chart" viewBox={`0 0 ${width} 186`} role="img" aria-label={t("{title} over {n} days, highest on {day} with {most}", { title, n: shown.length, day: shortDay(best), most: label(value(best)) })}>
        <g className="grid">{[1, 2 / 3, 1 / 3].map((part) => <path key={part} d={`M${left} ${y(top * part)}H${width}`} />)}</g>
        <path className="axis" d={`M${left} 158.5H${width}`} />
        {[1, 2 / 3, 1 / 3].map((part) => <text key={part} x="0" y={y(top * part) + 4}>{label(top * part)}</text>)}
        {shown.map((key, n) => value(key) > 0 && <rect key={key} x={left + n * step + step * 0.15} y={y(value(key))} width={Math.max(2, step * 0.7)} height={Math.max(1, 158 - y(value(key)))} fill="var(--fill)"><title>{`${shortDay(key)}: ${label(value(key))}`}</title></rect>)}
        {shown.map((key, n) => n % every === 0 && <text key={key} x={left + n * step + step / 2} y="180" textAnchor={n === 0 ? "start" : "middle"}>{shortDay(key)}</text>)}
      </svg>}
    </figure>
  );
}

function dayKey(back: number): string {
  const day = new Date(Date.now() - back * 86400000);
  return `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
}

const shortDay = (key: string) => new Date(`${key}T12:00`).toLocaleDateString(locale(), { day: "numeric", month: "short" });

/** The next number above that is easy to read and to divide by three: 3, 6, 15, 30 … */
function nice(most: number): number {
  const scale = 10 ** Math.floor(Math.log10(most));
  return [1.5, 3, 6, 9, 15].map((n) => n * scale).find((n) => n >= most) ?? most;
}

function ToolBars({ found }: { found: UsageReport }) {
  const tools = Object.entries(found.tools).filter(([, tool]) => tool.calls > 0).sort(([, a], [, b]) => b.calls - a.calls).slice(0, 8);
  const most = tools[0]?.[1].calls ?? 1;
  return (
    <figure className="card figure tool-bars">
      <figcaption><h2 className="section-title">{t("Tools")}</h2><span className="meta">{t("calls, and how many failed")}</span></figcaption>
      {tools.length ? (
        <div>
          {tools.map(([name, tool]) => (
            <div className="hbar" key={name}>
              <code className="clip" title={name}>{name}</code>
              <span className="hbar-track"><i style={{ width: `${Math.max(1, (100 * tool.calls) / most)}%` }} /></span>
              <span className="num right"><span className="hide">{t("{n} calls, {failed} failed, {time} each", { n: tool.calls, failed: tool.failed, time: took(tool.median_s) })}</span><span aria-hidden="true">{number(tool.calls)}</span></span>
              <span className="num right muted" aria-hidden="true">{number(tool.failed)}</span>
            </div>
          ))}
        </div>
      ) : <p className="second">{t("Charts appear after the first run.")}</p>}
    </figure>
  );
}

function Models({ found }: { found: UsageReport }) {
  const rows = Object.entries(found.models);
  if (!rows.length) return null;
  return (
    <section className="card" aria-labelledby="models">
      <div className="card-head"><h2 id="models">{t("Models")}</h2></div>
      <div className="table-wrap">
        <table>
          <thead><tr><th>{t("Model")}</th><th className="right">{t("Requests")}</th><th className="right wide">{t("Tokens in")}</th><th className="right wide">{t("Read from cache")}</th><th className="right wide">{t("Tokens out")}</th><th className="right">{t("Cost")}</th></tr></thead>
          <tbody>
            {rows.map(([name, one]) => (
              <tr key={name}><td><code>{name}</code></td><td className="right num">{number(one.requests)}</td><td className="right num wide">{compact(one.input_tokens)}</td><td className="right num wide">{compact(one.cache_read_tokens)}</td><td className="right num wide">{compact(one.output_tokens)}</td><td className="right num">{money(one.cost_usd)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface Verified {
  ok: boolean;
  sessions: number;
  verified: number;
  faults: { session: string; seq: number; problem: string; accepted: boolean }[];
}

function Audit() {
  const [found, setFound] = useState<Verified | null>(null);
  const [busy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    try {
      setFound(await get<Verified>("/api/audit/verify"));
    } catch (error) {
      toastError(error);
    }
    setBusy(false);
  };
  const tone = !found ? "plain" : found.ok ? "allow" : "deny";
  return (
    <section className="card" aria-labelledby="audit">
      <div className="card-head audit-head">
        <Tone tone={tone} icon={!found ? "ring" : found.ok ? "allow" : "alert"} />
        <h2 id="audit">{!found ? t("The record") : found.ok ? t("The record is complete") : t("The record was changed")}</h2>
        <span className="meta wide" role="status">{!found ? t("Each event is chained to the one before it.") : found.ok ? t("{n} of {all, plural, one {# session} other {# sessions}} verified. No event was changed, removed or moved.", { n: found.verified, all: found.sessions }) : t("{n} of {all} sessions verified.", { n: found.verified, all: found.sessions })}</span>
        <span className="grow" />
        <button className="btn btn-sm" disabled={busy} onClick={() => void verify()}>{t("Verify now")}</button>
      </div>
      {found && !found.ok && <ul className="card-body lines">{found.faults.filter((f) => !f.accepted).map((f, n) => <li key={n}><Tone tone="deny" icon="error" /><span className="grow">{f.problem}</span><code className="meta">{f.session} {f.seq}</code></li>)}</ul>}
    </section>
  );
}

