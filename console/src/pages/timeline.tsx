/** The timeline of a run: about 40 rows in the page however many events there are, with a map, a filter and a replay. */

import { type KeyboardEvent, type ReactNode, memo, useEffect, useMemo, useRef, useState } from "react";
import { useResource } from "../api";
import { changesOf, text } from "../conversation";
import { number, t, took } from "../i18n";
import { useKeys } from "../keys";
import { Delta, Effect, EffectBadge, Tone, Verdict, stateOf } from "../parts/basic";
import { Arguments } from "../parts/calls";
import { ChangeCard, Diff } from "../parts/diff";
import { Icon } from "../parts/icons";
import { Dialog } from "../parts/overlay";
import { Skeleton } from "../parts/states";
import { UndoButton } from "../parts/undo";
import { setQuery, useRoute } from "../router";
import type { CallResult, Change, Effect as EffectValue, RunEvent } from "../types";

export interface Row {
  at: number;
  kind: string;
  what: string;
  text: string;
  /** Seconds since the run began, null if the record has no times. */
  time: number | null;
  took: number | null;
  failed: boolean;
  asked: string;
  effects: EffectValue[];
  changes: Change[];
  call?: { id: string; started: RunEvent; result?: CallResult };
  event: RunEvent;
}

/**
 * One row for each call, message and turn of the run.
 *
 * @param times of the stored events, in seconds since the epoch.
 */
export function rowsOf(events: RunEvent[], times: number[] = []): Row[] {
  const rows: Row[] = [];
  const calls = new Map<string, Row>();
  const asked = new Map<string, RunEvent>();
  const timeOf = (event: RunEvent) => (event.number === undefined ? undefined : times[event.number - 1]);
  const begin = events[0] ? timeOf(events[0]) : undefined;
  const add = (event: RunEvent, kind: string, what: string, text: string, more: Partial<Row> = {}) => {
    const at = timeOf(event);
    const time = begin !== undefined && at !== undefined ? at - begin : null;
    const row: Row = { at: rows.length, kind, what, text: text.replace(/\s+/g, " ").slice(0, 300), time, took: null, failed: false, asked: "", effects: [], changes: [], event, ...more };
    rows.push(row);
    return row;
  };
  for (const event of events) {
    switch (event.type) {
      case "run.started": add(event, "control", t("started"), event.model); break;
      case "run.resumed": add(event, "control", t("resumed"), event.model ?? ""); break;
      case "message.told": break;
      case "message.user": add(event, "text", event.by && event.by !== "user" ? event.by : t("you"), text(event.message.content)); break;
      case "model.replied": {
        const said = event.message.content.filter((part: { type: string }) => part.type === "text").map((part: { text: string }) => part.text).join(" ");
        if (said) add(event, "text", t("agent"), said);
        break;
      }
      case "permission.judged": add(event, "control", "auto", event.reason); break;
      case "permission.request": asked.set(event.call_id, event); break;
      case "call.started": {
        const effects: EffectValue[] = event.effects ?? [];
        const main = effects.find((e) => e.kind !== "read" && e.kind !== "connect") ?? effects[0];
        const approved = asked.has(event.call_id) ? (event.approver ? t("allowed by {who}", { who: event.approver }) : t("asked")) : "";
        const started = { effects, changes: event.changes ?? [], asked: approved, failed: event.decision === "deny", call: { id: event.call_id, started: event } };
        calls.set(event.call_id, add(event, main?.kind ?? "call", event.tool, main?.target ?? "", started));
        break;
      }
      case "call.finished": {
        const result: CallResult = event.result;
        const row = calls.get(result.call_id);
        const request = asked.get(result.call_id);
        if (result.error?.code === "suspended") {
          const effects: EffectValue[] = request?.effects ?? [];
          const call = { id: result.call_id, started: request ?? { type: "call.started", arguments: {} } };
          add(event, effects[0]?.kind ?? "call", result.tool, effects[0]?.target ?? "", { effects, asked: t("asks"), call });
        } else if (row) {
          const done: Row = { ...row, took: result.notes.duration_s, failed: row.failed || result.error !== null, call: { ...row.call!, result } };
          done.changes = result.error ? [] : changesOf({ changes: row.changes, result });
          rows[row.at] = done;
          calls.set(result.call_id, done);
        } else add(event, "call", result.tool, result.error?.message ?? "", { failed: result.error !== null, took: result.notes.duration_s });
        break;
      }
      case "call.destination": add(event, "connect", event.tool || t("network"), `${event.host}:${event.port}`, { failed: !event.allowed }); break;
      case "notice": add(event, "control", t("notice"), event.text); break;
      case "context.compacted": add(event, "control", t("shortened"), (event.dropped ?? []).join(" ")); break;
      case "run.finished": add(event, "control", stateOf(event.status).word, event.error || event.answer || "", { failed: event.status === "failed" }); break;
      default: add(event, "control", event.type, "");
    }
  }
  return rows;
}

const FILTERS: [name: string, label: () => string, test: (row: Row) => boolean][] = [
  ["", () => t("All"), () => true],
  ["changes", () => t("Changes"), (row) => row.changes.length > 0],
  ["calls", () => t("Calls"), (row) => row.call !== undefined],
  ["messages", () => t("Messages"), (row) => row.kind === "text"],
  ["asked", () => t("Asked"), (row) => row.asked !== ""],
  ["failed", () => t("Failed"), (row) => row.failed],
];

const STEP_MS = [1000, 500, 125, 30];
const SPEEDS = [1, 2, 8, 32];

export function Timeline({ run, events, version, loading, running }: { run: string; events: RunEvent[]; version: number; loading: boolean; running: boolean }) {
  const { query } = useRoute();
  const filter = query.get("show") ?? "";
  const words = (query.get("q") ?? "").toLowerCase();
  const times = useResource<{ times: number[] }>(`/api/runs/${encodeURIComponent(run)}/times`, running ? 3 : 0).data?.times;
  const rows = useMemo(() => rowsOf(events, times), [events, version, times]);
  const [selected, select] = useState<number | null>(null);
  const [playing, play] = useState(false);
  const [speed, setSpeed] = useState(2);
  const at = Math.min(selected ?? rows.length - 1, rows.length - 1);
  const shown = useMemo(() => {
    const test = FILTERS.find(([name]) => name === filter)?.[2] ?? (() => true);
    return rows.filter((row) => test(row) && `${row.what} ${row.text}`.toLowerCase().includes(words));
  }, [rows, filter, words]);
  const go = (to: number) => select(Math.max(0, Math.min(rows.length - 1, to)));
  const current = useRef(at);
  current.current = at;
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => {
      if (current.current >= rows.length - 1) play(false);
      else go(current.current + 1);
    }, STEP_MS[speed]);
    return () => clearInterval(timer);
  }, [playing, speed, rows.length]);
  const step = (by: number) => {
    const here = shown.findIndex((row) => row.at >= at);
    const next = shown[Math.max(0, Math.min(shown.length - 1, (here < 0 ? shown.length - 1 : here) + by))];
    if (next) go(next.at);
  };
  // Where there is no room beside the list, a touch opens the event.
  const [opened, open] = useState(false);
  const pick = (to: number) => {
    go(to);
    if (small.matches) open(true);
  };
  useKeys({
    " ": () => play(!playing),
    ArrowLeft: () => (document.activeElement?.tagName === "INPUT" ? false : go(at - 1)),
    ArrowRight: () => (document.activeElement?.tagName === "INPUT" ? false : go(at + 1)),
    j: () => step(1),
    k: () => step(-1),
  });
  const row = rows[at];
  const last = rows.at(-1)?.time ?? 0;
  const counts = useMemo(() => FILTERS.map(([, , test]) => rows.filter(test).length), [rows]);
  if (!rows.length) return <div className="page">{loading ? <Skeleton what={t("events")} rows={10} /> : <p className="second">{t("This run has no events.")}</p>}</div>;
  return (
    <div className="split split-timeline">
      <div className="timeline-main">
        <section className="stack pad replay" aria-label={t("Replay")}>
          <div className="map">
            <RunMap rows={rows} />
            <label className="hide" htmlFor="position">{t("Position in the run")}</label>
            <input className="scrub" id="position" type="range" min={0} max={Math.max(1, rows.length - 1)} value={at} aria-valuetext={t("event {n} of {all}", { n: at + 1, all: rows.length })} onChange={(event) => go(Number(event.target.value))} />
          </div>
          <div className="row row-wrap">
            <div className="player">
              <button className="btn btn-icon btn-sm" aria-label={t("Previous event")} onClick={() => go(at - 1)}><Icon name="prev" small /></button>
              <button className="btn btn-icon btn-sm" aria-label={playing ? t("Pause") : t("Play")} onClick={() => play(!playing)}><Icon name={playing ? "stop" : "play"} small /></button>
              <button className="btn btn-icon btn-sm" aria-label={t("Next event")} onClick={() => go(at + 1)}><Icon name="next" small /></button>
              <button className="btn btn-quiet btn-sm" aria-label={t("Speed, {n} times", { n: SPEEDS[speed]! })} onClick={() => setSpeed((speed + 1) % SPEEDS.length)}>{SPEEDS[speed]}×</button>
              <span className="num second">{t("{n} of {all}", { n: at + 1, all: rows.length })}</span>
            </div>
            <div className="search grow">
              <Icon name="search" small />
              <input className="input" aria-label={t("Filter events")} placeholder={t("Filter by tool, path, host or word")} value={query.get("q") ?? ""} onChange={(event) => setQuery("q", event.target.value)} />
            </div>
          </div>
          <div className="chips" role="group" aria-label={t("Show only")}>
            {FILTERS.map(([name, label], n) => (
              <button className="chip" key={name} aria-pressed={filter === name} onClick={() => setQuery("show", name)}>{label()} <span className="muted num">{number(counts[n]!)}</span></button>
            ))}
          </div>
        </section>
        {shown.length ? <List rows={shown} at={at} last={last} onSelect={pick} onStep={step} /> : (
          <div className="page"><p className="second">{t("No event matches.")} <button className="btn btn-quiet btn-sm" onClick={() => { setQuery("q", ""); setQuery("show", ""); }}>{t("Clear the filter")}</button></p></div>
        )}
        <div className="row pad timeline-foot">
          <span className="meta grow" role="status">{shown.length === rows.length ? t("{n, plural, one {# event} other {# events}}", { n: rows.length }) : t("{n} of {all, plural, one {# event} other {# events}}", { n: shown.length, all: rows.length })}</span>
          <span className="meta wide">{t("Replay runs no tool; results come from the record.")}</span>
        </div>
      </div>
      {row && <aside className="split-aside detail" aria-label={t("Event")} tabIndex={0}><Detail row={row} last={last} /></aside>}
      {row && opened && <Dialog title={t("Event")} onClose={() => open(false)}><div className="detail"><Detail row={row} last={last} /></div><div className="dialog-foot"><button className="btn" onClick={() => open(false)}>{t("Close")}</button></div></Dialog>}
    </div>
  );
}

const BINS = 100;

const RunMap = memo(function RunMap({ rows }: { rows: Row[] }) {
  const bins = useMemo(() => {
    const made = Array.from({ length: BINS }, () => ({ changes: 0, others: 0 }));
    const last = rows.at(-1)?.time ?? null;
    for (const row of rows) {
      const place = last && row.time !== null ? row.time / last : row.at / Math.max(1, rows.length - 1);
      made[Math.min(BINS - 1, Math.floor(place * BINS))]![row.changes.length ? "changes" : "others"] += row.kind === "text" ? 0.4 : 1;
    }
    return made;
  }, [rows]);
  const tall = Math.max(1, ...bins.map((bin) => bin.changes + bin.others)) / 54;
  return (
    <svg viewBox="0 0 1000 56" preserveAspectRatio="none" aria-hidden="true">
      {bins.map((bin, x) => (
        <g key={x}>
          <rect x={x * 10 + 1} y={56 - bin.others / tall} width="8" height={bin.others / tall} fill="var(--fill-3)" />
          <rect x={x * 10 + 1} y={55 - (bin.others + bin.changes) / tall} width="8" height={bin.changes / tall} fill="var(--effect-write)" />
        </g>
      ))}
    </svg>
  );
});

const small = matchMedia("(max-width: 1100px)");
const narrow = matchMedia("(max-width: 760px)");

/** Rows before and after those in view. */
const SPARE = 4;

/**
 * A virtual list: rows stand at their place, and only those in view are in the page. A row that comes into view takes the
 * element of one that has left it, which is about twice as fast as a new one.
 */
function List({ rows, at, last, onSelect, onStep }: { rows: Row[]; at: number; last: number; onSelect: (at: number) => void; onStep: (by: number) => void }) {
  const list = useRef<HTMLDivElement>(null);
  const [seen, see] = useState(0);
  const [height, setHeight] = useState(600);
  const tall = narrow.matches ? 44 : 32;
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setHeight(entry!.contentRect.height));
    watch.observe(list.current!);
    return () => watch.disconnect();
  }, []);
  const place = rows.findIndex((row) => row.at >= at);
  useEffect(() => {
    const box = list.current!;
    const y = place * tall;
    if (place >= 0 && (y < box.scrollTop || y > box.scrollTop + box.clientHeight - tall)) box.scrollTop = y - box.clientHeight / 3;
  }, [place, tall]);
  const size = Math.ceil(height / tall) + 1 + 2 * SPARE;
  const first = Math.max(0, Math.min(seen - SPARE, rows.length - size));
  const shown = rows.slice(first, first + size);
  const press = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -rows.length, End: rows.length }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onStep(by);
  };
  return (
    <div className="timeline" ref={list} role="grid" aria-label={t("Events")} aria-rowcount={rows.length} tabIndex={0} aria-activedescendant={shown.some((row) => row.at === at) ? `event-${at}` : undefined}
      onScroll={(event) => see(Math.floor(event.currentTarget.scrollTop / tall))} onKeyDown={press}>
      <div role="presentation" style={{ height: rows.length * tall }} />
      {shown.map((row, n) => <Line key={(first + n) % size} row={row} last={last} index={first + n} top={(first + n) * tall} selected={row.at === at} later={row.at > at} onSelect={onSelect} />)}
    </div>
  );
}

const ICONS: Record<string, string> = { text: "chat" };

const Line = memo(function Line({ row, last, index, top, selected, later, onSelect }: { row: Row; last: number; index: number; top: number; selected: boolean; later: boolean; onSelect: (at: number) => void }) {
  const message = row.kind === "text" || row.call === undefined;
  return (
    <div className={later ? "event event-later" : "event"} role="row" id={`event-${row.at}`} aria-selected={selected} aria-rowindex={index + 1} data-kind={row.kind} style={{ top }} onClick={() => onSelect(row.at)}>
      <span className="at" role="gridcell">{row.time === null || last < 1 ? number(row.at + 1) : clock(row.time, last)}</span>
      <span role="gridcell" className={row.failed ? "event-icon tone" : "event-icon"} data-tone={row.failed ? "deny" : undefined}><Icon name={row.failed ? "error" : (ICONS[row.kind] ?? row.kind)} small /></span>
      <span className="what clip" role="gridcell">{row.what}</span>
      <span role="gridcell" className={message ? "clip second" : "clip mono"}>{row.text}</span>
      <span className="row" role="gridcell">
        {row.asked && <Tone tone="ask" icon="ask">{row.asked}</Tone>}
        {row.failed && <span className="state" data-tone="deny">{t("failed")}</span>}
        {row.changes.length > 0 && <Delta diffs={row.changes.map((one) => one.diff)} />}
      </span>
      <span className="took" role="gridcell">{took(row.took)}</span>
    </div>
  );
});

/** A place in the run: `1:05`, or `4.2` in a run of less than a minute. */
const clock = (seconds: number, last: number) => last < 60 ? seconds.toFixed(1) : `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

function Detail({ row, last }: { row: Row; last: number }) {
  const { call, event } = row;
  const result = call?.result;
  const shown = result ? text(result.content).slice(0, 6000) : "";
  return (
      <div className="stack stack-lg">
        <header className="stack tight">
          <span className="meta num">{t("Event {n}", { n: row.at + 1 })}{row.time !== null && last >= 1 && `, ${clock(row.time, last)}`}</span>
          <h2>{call ? <><code>{row.what}</code> {row.text}</> : row.what}</h2>
        </header>
        {call && (
          <div className="row row-wrap">
            {row.effects[0] && <EffectBadge kind={row.effects[0].kind} />}
            <Verdict verdict={call.started.decision ?? "ask"} />
            <span className="meta">{[call.started.rule, took(row.took)].filter(Boolean).join(", ")}</span>
          </div>
        )}
        {row.changes.length === 1 ? (
          <div className="card"><Diff diff={row.changes[0]!.diff} path={row.changes[0]!.path} wrap /><div className="card-foot"><span className="grow" /><UndoButton target={call?.id} label={t("Undo this change")} /></div></div>
        ) : row.changes.map((one) => <ChangeCard key={one.path} change={one} open={false} />)}
        {!call && <p className="pre">{message(event) || row.text}</p>}
        {result?.error && <div className="stack tight"><p>{result.error.message}</p><p className="meta">{result.error.hint}</p></div>}
        {!result?.error && !row.changes.length && shown && <pre className="code" tabIndex={0} aria-label={t("Output")}>{shown}</pre>}
        {call && <Facts row={row} />}
        {call && <Arguments value={call.started.arguments} />}
      </div>
  );
}

const message = (event: RunEvent): string => (event.message ? text(event.message.content.filter((part: { type: string }) => part.type === "text")) : (event.answer ?? ""));

function Facts({ row }: { row: Row }) {
  const { started, result } = row.call!;
  const facts: [string, ReactNode][] = [
    [t("Effects"), <ul className="lines" key="e">{row.effects.map((one, n) => <li key={n}><Effect effect={one} /></li>)}</ul>],
    [t("Rule"), started.rule || "–"],
    [t("Asked"), started.approver ? t("allowed by {who}", { who: started.approver }) : t("no")],
    [t("Labels"), result?.notes.labels.join(", ") || t("none")],
    [t("Call"), <code key="c">{row.call!.id}</code>],
  ];
  return <dl className="dl">{facts.map(([name, value]) => <div className="dl-row" key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}
