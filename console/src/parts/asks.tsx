/** What waits for a person: the same question in the chat, above the composer and in the inbox. */

import { type ReactNode, useEffect, useRef, useState } from "react";
import { change, refresh, useConnection, useMe, useResource } from "../api";
import { t } from "../i18n";
import { useKeys } from "../keys";
import type { Approval, Decision, Effect as EffectValue, Policy } from "../types";
import { Delta, Effect, EffectBadge, Path, Verdict } from "./basic";
import { ChangeCard } from "./diff";
import { Icon } from "./icons";
import { toast, toastError } from "./overlay";

/** What an approval is about, in a few words. */
export function askTitle(ask: Approval): string {
  if (ask.kind !== "approval") return ask.question || t("A question of the agent");
  const counts = (kind: string) => ask.effects.filter((e) => e.kind === kind).length;
  if (counts("send")) return t("Send a message");
  if (counts("delete")) return t("{n, plural, one {Delete a file} other {Delete # files}}", { n: counts("delete") });
  if (counts("write")) return t("{n, plural, one {Change a file} other {Change # files}}", { n: counts("write") });
  if (counts("exec")) return t("Run a command");
  if (counts("connect")) return t("Connect to a host");
  if (counts("schedule")) return t("Change a schedule");
  if (counts("spend")) return t("Spend money");
  return t("Run {tool}", { tool: ask.tool });
}

/** An effect from its text. */
export function effectOf(text: string): EffectValue {
  const [kind = "", ...target] = text.split(" ");
  return { kind, target: target.join(" ") };
}

/** The effect to name first: the one that asks. */
export function askedEffect(ask: Approval): EffectValue | undefined {
  return ask.effects.find((e) => verdictOf(ask, e) === "ask" && e.kind !== "connect") ?? ask.effects.find((e) => verdictOf(ask, e) === "ask") ?? ask.effects[0];
}

export function verdictOf(ask: Approval, effect: EffectValue): Decision | undefined {
  return ask.verdicts?.[ask.effects.indexOf(effect)]?.decision ?? effect.verdict ?? effect.at_least ?? undefined;
}

export function Reasons({ ask }: { ask: Approval }) {
  const asking = (ask.verdicts ?? []).filter((v) => v.decision !== "allow");
  const reasons = new Map([[ask.reason, ""], ...asking.map((v) => [v.reason || v.rule, v.reason ? v.rule : ""] as const)].filter(([why]) => why) as [string, string][]);
  return (
    <section className="callout" data-tone="ask" aria-labelledby="why">
      <Icon name="ask" />
      <h3 id="why">{t("Why it asks")}</h3>
      <ul>
        {[...reasons].map(([why, rule]) => <li key={why}>{why}{rule && <> <span className="meta second">{t("Rule")} <code>{rule}</code></span></>}</li>)}
        {ask.novel.length > 0 && <li>{t("First time in this workspace: {what}", { what: ask.novel.join(", ") })}</li>}
        {!reasons.size && !ask.novel.length && <li>{t("The mode of this workspace asks for it.")}</li>}
      </ul>
    </section>
  );
}

export function EffectTable({ ask }: { ask: Approval }) {
  return (
    <div className="card">
      <div className="card-head">
        <h3>{t("What it will do")}</h3>
        <span className="grow" />
        <span className="meta wide">{t("Checked again just before it runs")}</span>
      </div>
      <div className="table-wrap">
        <table>
          <tbody>
            {ask.effects.map((effect, n) => {
              const verdict = verdictOf(ask, effect);
              const changed = ask.changes.filter((c) => c.path === effect.target);
              return (
                <tr key={n} data-tone={verdict === "ask" ? "ask" : undefined}>
                  <td className="fit"><EffectBadge kind={effect.kind} /></td>
                  <td><Path path={effect.target} /></td>
                  <td className="right fit"><Delta diffs={changed.map((c) => c.diff)} /></td>
                  <td className="right fit">{verdict && <Verdict verdict={verdict} />}</td>
                </tr>
              );
            })}
            {!ask.effects.length && <tr><td className="second">{t("No effects are known before it runs.")}</td></tr>}
          </tbody>
        </table>
      </div>
    </div>
  );
}

export const AskChanges = ({ ask, open }: { ask: Approval; open?: boolean }) => (
  <>{ask.changes.map((one, n) => <ChangeCard key={`${one.path} ${open}`} change={one} open={open ?? n < 3} />)}</>
);

// -- answering -------------------------------------------------------------------------------------------------

type Body = Record<string, unknown>;

export async function answer(ask: Approval, body: Body, said: string) {
  try {
    await change("POST", `/api/approvals/${encodeURIComponent(ask.approval)}`, body);
    toast(said);
  } catch (error) {
    toastError(error);
  }
  await refresh("/api/approvals", "/api/sessions", "/api/runs", "/api/policy");
}

/** A key answers only a question that has been in view for this long, so that typing on never says yes. */
const SEEN_MS = 700;

function useSeen(key: string): () => boolean {
  const since = useRef(Date.now());
  useEffect(() => {
    since.current = Date.now();
  }, [key]);
  return () => Date.now() - since.current >= SEEN_MS;
}

/** The answers to an approval, or the field for an answer to a question. */
export function AnswerBar({ ask, compact, keys, onExplain, extra }: { ask: Approval; compact?: boolean; keys?: boolean; onExplain?: () => void; extra?: ReactNode }) {
  const me = useMe();
  if (!me.may(ask.kind === "approval" ? "approve" : "talk")) {
    return <div className="callout" data-tone="ask"><Icon name="lock" /><h3>{t("You can look, not answer")}</h3><p className="second">{t("Your role is {role}. Ask the owner to answer.", { role: me.role })}</p></div>;
  }
  if (ask.kind !== "approval") return <QuestionBar ask={ask} compact={compact} />;
  return <ApprovalBar ask={ask} compact={compact} keys={keys} onExplain={onExplain} extra={extra} />;
}

function ApprovalBar({ ask, compact, keys, onExplain, extra }: { ask: Approval; compact?: boolean; keys?: boolean; onExplain?: () => void; extra?: ReactNode }) {
  const { offline } = useConnection();
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const always = useRef<HTMLDetailsElement>(null);
  const reasonField = useRef<HTMLInputElement>(null);
  const seen = useSeen(ask.approval);
  useEffect(() => {
    setBusy(false);
    setReason("");
    if (always.current) always.current.open = false;
  }, [ask.approval]);
  const off = offline || busy;
  const send = (body: Body, said: string) => {
    setBusy(true);
    void answer(ask, body, said).finally(() => setBusy(false));
  };
  const once = () => send({ decision: "allow", scope: "once" }, t("Allowed once. The run goes on."));
  const run = () => send({ decision: "allow", scope: "run" }, t("Allowed for this run."));
  const session = () => send({ decision: "allow", scope: "session" }, t("Allowed for this session."));
  const deny = () => send({ decision: "deny", reason }, t("Denied. The agent was told."));
  const me = useMe();
  // Only the owner says always.
  const may = (scope: string) => (!ask.scopes || ask.scopes.includes(scope)) && (scope !== "always" || me.may("administer"));
  useKeys(
    keys
      ? {
          y: () => !off && seen() && once(),
          r: () => !off && seen() && may("run") && run(),
          s: () => !off && seen() && may("session") && session(),
          a: () => seen() && may("always") && always.current && (always.current.open = true),
          n: () => (reasonField.current ? reasonField.current.focus() : deny()),
          e: () => onExplain?.(),
          Escape: () => (always.current?.open ? (always.current.open = false) : false),
        }
      : {},
  );
  const small = compact ? " btn-sm" : "";
  const key = (letter: string) => keys && <kbd>{letter}</kbd>;
  return (
    <form className={compact ? "answer-row" : "answer"} aria-label={t("Answer")} onSubmit={(event) => event.preventDefault()}>
      <div className="answer-row">
        <button className={`btn btn-primary${small}`} type="button" disabled={off} onClick={once}>{t("Allow once")} {key("Y")}</button>
        {may("run") && <button className={`btn${small}`} type="button" disabled={off} onClick={run}>{t("This run")} {key("R")}</button>}
        {may("session") && <button className={`btn${small}`} type="button" disabled={off} onClick={session}>{t("This session")} {key("S")}</button>}
        {may("always") && (
          <details className="pop" ref={always}>
            <summary className={`btn${small}`}>{t("Always…")} {key("A")}</summary>
            <AlwaysPanel ask={ask} off={off} send={send} />
          </details>
        )}
        <span className="grow wide" />
        {!compact && (
          <label className="reason wide">
            <span className="hide">{t("Reason for the agent")}</span>
            <input className="input" ref={reasonField} value={reason} placeholder={t("Reason for the agent")} onChange={(event) => setReason(event.target.value)}
              onKeyDown={(event) => event.key === "Enter" && (event.preventDefault(), deny())} />
          </label>
        )}
        {extra}
        <button className={`btn btn-danger${small}`} type="button" disabled={off} onClick={deny}>{t("Deny")} {key("N")}</button>
      </div>
      {!compact && <p className="help wide">{t("Once means exactly this call. If a file changes before it runs, your answer is void and you are asked again. What you deny stays denied for this run, whichever tool tries it.")}</p>}
    </form>
  );
}

const DAY = 86400;

function AlwaysPanel({ ask, off, send }: { ask: Approval; off: boolean; send: (body: Body, said: string) => void }) {
  const [expires, setExpires] = useState(30 * DAY);
  const [uses, setUses] = useState(0);
  const allow = () => send({ decision: "always", expires_s: expires, ...(uses ? { uses } : {}) }, t("Always allowed. You can take it back under Remembered."));
  return (
    <div className="pop-panel stack">
      <h3>{t("Always allow")}</h3>
      <ul className="lines">{ask.effects.slice(0, 6).map((one, n) => <li key={n}><Effect effect={one} /></li>)}</ul>
      <div className="row">
        <label className="field grow">
          <span className="label">{t("For")}</span>
          <select className="input" value={expires} onChange={(event) => setExpires(Number(event.target.value))}>
            <option value={7200}>{t("2 hours")}</option>
            <option value={DAY}>{t("1 day")}</option>
            <option value={30 * DAY}>{t("30 days")}</option>
            <option value={365 * DAY}>{t("1 year")}</option>
          </select>
        </label>
        <label className="field grow">
          <span className="label">{t("At most")}</span>
          <select className="input" value={uses} onChange={(event) => setUses(Number(event.target.value))}>
            <option value={0}>{t("No limit")}</option>
            <option value={5}>{t("5 uses")}</option>
            <option value={20}>{t("20 uses")}</option>
          </select>
        </label>
      </div>
      <p className="help">{t("Only for {tool} with these targets in this workspace. You can take it back under Remembered.", { tool: ask.tool })}</p>
      <div className="row"><span className="grow" /><button className="btn btn-primary" type="button" disabled={off} onClick={allow}>{t("Allow always")}</button></div>
    </div>
  );
}

function QuestionBar({ ask, compact }: { ask: Approval; compact?: boolean }) {
  const [said, setSaid] = useState("");
  const field = `answer-${ask.approval}`;
  const send = () => said.trim() && void answer(ask, { answer: said }, t("Answered. The run goes on."));
  return (
    <form className={compact ? "answer-row" : "answer"} aria-label={t("Answer")} onSubmit={(event) => { event.preventDefault(); send(); }}>
      <div className="answer-row">
        <label className="hide" htmlFor={field}>{t("Your answer")}</label>
        <input className="input grow" id={field} value={said} placeholder={t("Your answer")} onChange={(event) => setSaid(event.target.value)} />
        <button className="btn btn-primary" disabled={!said.trim()}>{t("Send answer")}</button>
      </div>
    </form>
  );
}

/** The question in the conversation. */
export function AskCard({ ask }: { ask: Approval }) {
  return (
    <section className="calls ask-card" aria-label={askTitle(ask)} role="alert">
      <div className="ask-head">
        <span className="state" data-tone="ask"><Icon name="ask" /></span>
        <span className="call-name">{ask.tool}</span>
        <span className="grow strong clip">{askTitle(ask)}</span>
      </div>
      <div className="call-body">
        {ask.question && <p>{ask.question}</p>}
        {ask.effects.length > 0 && (
          <ul className="lines">
            {ask.effects.map((one, n) => {
              const verdict = verdictOf(ask, one);
              return <li key={n}><Effect effect={one} /><span className="grow" />{verdict && <Verdict verdict={verdict} />}</li>;
            })}
          </ul>
        )}
        {ask.reason && <p className="second">{t("Asks because: {reason}", { reason: ask.reason })}</p>}
        <AskChanges ask={ask} />
      </div>
      <div className="call-foot"><AnswerBar ask={ask} compact keys={false} /></div>
    </section>
  );
}

export const usePolicy = (everyS = 0) => useResource<Policy>("/api/policy", everyS);
