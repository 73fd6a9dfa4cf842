/** Tool calls: a line while all is well, a card when they changed something, wait or failed. */

import { memo, useState } from "react";
import { type Call, changesOf, text } from "../conversation";
import { t, took } from "../i18n";
import { Link, to } from "../router";
import type { CallResult, Effect as EffectValue } from "../types";
import { Delta, Effect, Tone } from "./basic";
import { ChangeCard, Diff } from "./diff";
import { Icon } from "./icons";
import { ServerPage, pageOf } from "./page";
import { UndoButton } from "./undo";

const STATES: Record<Call["state"], [tone: string, icon: string]> = {
  next: ["plain", "ring"],
  running: ["plain", "busy"],
  waits: ["ask", "ask"],
  done: ["allow", "allow"],
  failed: ["deny", "error"],
  denied: ["deny", "deny"],
  unknown: ["ask", "ask"],
};

/** What a call changes or has changed; what was denied or failed changed nothing. */
const shownChanges = (call: Call) => (call.state === "done" || call.state === "running" ? changesOf(call) : []);

/** The effect that says most about a call: what changes before what is read. */
const ORDER = ["send", "delete", "write", "spend", "exec", "spawn", "schedule", "control", "call", "connect", "read"];
function mainEffect(effects: EffectValue[]): EffectValue | undefined {
  return [...effects].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))[0];
}

function noteOf(call: Call): { text: string; tone?: string } {
  const data = call.result?.data as Record<string, unknown> | null;
  switch (call.state) {
    case "next": return { text: t("next") };
    case "waits": return { text: t("waits for you"), tone: "ask" };
    case "unknown": return { text: t("outcome unknown"), tone: "ask" };
    case "denied": return { text: call.approver ? t("denied by you") : t("denied by rule"), tone: "deny" };
    case "failed": return { text: call.result?.error?.code === "timed_out" ? t("timed out") : t("failed"), tone: "deny" };
    case "done":
      if (typeof data?.exit_code === "number") return { text: t("exit {code}", { code: String(data.exit_code) }), tone: data.exit_code ? "ask" : undefined };
      if (call.approver) return { text: t("allowed by {who}", { who: call.approver }) };
      if (Array.isArray(data?.matches)) return { text: t("{n, plural, one {# match} other {# matches}}", { n: Number(data.total ?? data.matches.length) }) };
      return { text: "" };
    default: return { text: "" };
  }
}

export const CallCard = memo(function CallCard({ call }: { call: Call }) {
  const changes = shownChanges(call);
  const byItself = call.state === "running" || call.state === "failed" || call.state === "unknown" || changes.length > 0;
  const [chosen, choose] = useState<boolean | null>(null);
  const open = chosen ?? byItself;
  const [tone, icon] = STATES[call.state];
  const main = mainEffect(call.effects);
  const same = main?.kind === call.tool;
  const note = noteOf(call);
  const untrusted = call.result?.notes.labels.some((label) => label.startsWith("untrusted")) ?? false;
  return (
    <details className="call" open={open}>
      <summary onClick={(event) => { event.preventDefault(); choose(!open); }}>
        <span className="chev"><Icon name="chev" small /></span>
        <span className="state" data-tone={tone}><Icon name={icon} spin={call.state === "running"} /></span>
        {!same && <span className="call-name">{call.tool}</span>}
        <span className="grow clip">
          {main && <Effect effect={main} />}
          {call.effects.length > 1 && <span className="meta call-more">{t("and {n} more", { n: call.effects.length - 1 })}</span>}
        </span>
        {untrusted && <span className="badge wide">{t("untrusted")}</span>}
        {changes.length > 0 && <Delta diffs={changes.map((one) => one.diff)} />}
        {note.text && <span className={note.tone ? "call-note tone" : "call-note wide"} data-tone={note.tone}>{note.text}</span>}
        {call.result && <span className="call-note num">{took(call.result.notes.duration_s)}</span>}
      </summary>
      {open && <CallBody call={call} untrusted={untrusted} />}
    </details>
  );
});

function CallBody({ call, untrusted }: { call: Call; untrusted: boolean }) {
  const changes = shownChanges(call);
  const result = call.result;
  if (result?.error) {
    return (
      <div className="call-body">
        <div className="stack tight">
          <p>{call.state === "unknown" ? t("Pegboard was stopped while this ran. It may have happened, so it is not done again.") : result.error.message}</p>
          {result.error.hint && <p className="meta">{t("Hint for the agent: {hint}", { hint: result.error.hint })}</p>}
        </div>
        <Arguments value={call.arguments} />
      </div>
    );
  }
  return (
    <div className={changes.length ? "call-body flush" : "call-body"}>
      {changes.length === 1 ? <Diff diff={changes[0]!.diff} path={changes[0]!.path} /> : changes.map((one) => <ChangeCard key={one.path} change={one} open={changes.length < 4} />)}
      {!changes.length && call.effects.length > 1 && <ul className="lines">{call.effects.map((one, n) => <li key={n}><Effect effect={one} /></li>)}</ul>}
      {pageOf(call) && <ServerPage call={call} />}
      {!changes.length && <Output call={call} result={result} untrusted={untrusted} />}
      {changes.length > 0 && result && (
        <div className="call-foot">
          <span className="grow">{allowedBy(call)}</span>
          <UndoButton target={call.id} />
        </div>
      )}
      {!changes.length && <Arguments value={call.arguments} />}
    </div>
  );
}

function allowedBy(call: Call): string {
  if (call.approver) return t("Allowed by {who}. You can undo this.", { who: call.approver });
  return call.rule ? t("Allowed by {rule}. You can undo this.", { rule: call.rule }) : t("You can undo this.");
}

/** What a call gave; text of strangers is fenced, and never more than text. */
function Output({ call, result, untrusted }: { call: Call; result?: CallResult; untrusted: boolean }) {
  const shown = result ? text(result.content) : call.output;
  if (!shown) return null;
  const clipped = shown.length > 20000 ? `${shown.slice(0, 20000)}\n…` : shown;
  const block = <pre className="code output" tabIndex={0} aria-label={result ? t("Output of {tool}", { tool: call.tool }) : t("Live output of {tool}", { tool: call.tool })}>{ansi(clipped)}</pre>;
  if (!untrusted) return block;
  return (
    <div className="untrusted stack tight">
      <p className="untrusted-label"><Icon name="alert" small />{t("Untrusted text. The agent reads it as data, not as instructions.")}</p>
      {block}
    </div>
  );
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal's colours are.
const ESCAPE = /\u001b\[([0-9;]*)m/;

/** ANSI colours as ink, good and bad; other control sequences are left out. */
function ansi(output: string) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: see above.
  const parts = output.replace(/\u001b\[[0-9;?]*[A-Za-ln-z]|\u001b\][^\u0007]*\u0007/g, "").split(ESCAPE);
  let tone: string | undefined;
  return parts.map((part, n) => {
    if (n % 2) {
      const codes = part.split(";");
      if (codes.some((code) => code === "31" || code === "91")) tone = "bad";
      else if (codes.some((code) => code === "32" || code === "92")) tone = "good";
      else if (codes.some((code) => code === "" || code === "0" || code === "39")) tone = undefined;
      return null;
    }
    return tone ? <span key={n} className={tone}>{part}</span> : part;
  });
}

export function Arguments({ value }: { value: unknown }) {
  if (!value || !Object.keys(value).length) return null;
  return (
    <details className="arguments">
      <summary className="row second"><Icon name="chev" small />{t("Arguments")}</summary>
      <pre className="code" tabIndex={0} aria-label={t("Arguments")}>{JSON.stringify(value, null, 2)}</pre>
    </details>
  );
}

export function RunLink({ run, children }: { run: string; children: string }) {
  return <Link href={to("runs", run, "timeline")}>{children}</Link>;
}

export const Failed = () => <Tone tone="deny" icon="error">{t("failed")}</Tone>;
