/** Approvals: what waits, what was answered, and what is remembered. */

import { type ReactNode, useEffect, useState } from "react";
import { ApiError, change, refresh, useResource } from "../api";
import { ago, date, t } from "../i18n";
import { useKeys } from "../keys";
import { AnswerBar, AskChanges, EffectTable, Reasons, askTitle, askedEffect, effectOf, usePolicy } from "../parts/asks";
import { Ago, Count, Effect, Verdict } from "../parts/basic";
import { Arguments } from "../parts/calls";
import { Icon } from "../parts/icons";
import { Dialog, toast, toastError } from "../parts/overlay";
import { Page, titleOf, useApprovals, useSessions, waitingOf } from "../parts/shell";
import { Callout, Empty, Load } from "../parts/states";
import { Link, go, to, useRoute } from "../router";
import type { Approval, Explained, Grant, RunEvent, Session } from "../types";
import { session as sessionPath } from "../api";

export function ApprovalsPage({ id }: { id?: string }) {
  const { query } = useRoute();
  const view = query.get("view") ?? "waiting";
  const approvals = useApprovals();
  const waiting = waitingOf(approvals.data);
  const policy = usePolicy();
  const at = Math.max(0, waiting.findIndex((one) => one.approval === id));
  const ask = waiting[at];
  const move = (step: number) => {
    const next = waiting[at + step];
    if (next) go(to("approvals", next.approval), true);
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  const grants = policy.data?.grants.length ?? 0;
  const tab = (name: string, label: ReactNode, path: string) => <Link href={path} aria-current={view === name ? "page" : undefined}>{label}</Link>;
  return (
    <Page
      tabTitle={t("Approvals")}
      title={<h1>{t("Approvals")}</h1>}
      bar={
        <>
          <span className="grow" />
          {view === "waiting" && waiting.length > 1 && (
            <span className="narrow row">
              <span className="meta num">{t("{n} of {all}", { n: at + 1, all: waiting.length })}</span>
              <button className="btn btn-quiet btn-icon turned" aria-label={t("Previous question")} disabled={at === 0} onClick={() => move(-1)}><Icon name="chev" /></button>
              <button className="btn btn-quiet btn-icon" aria-label={t("Next question")} disabled={at === waiting.length - 1} onClick={() => move(1)}><Icon name="chev" /></button>
            </span>
          )}
          <span className="meta wide key-hints"><kbd>J</kbd> <kbd>K</kbd> {t("move")} <kbd>X</kbd> {t("open a diff")} <kbd>E</kbd> {t("explain")} <kbd>?</kbd> {t("all keys")}</span>
        </>
      }
    >
      <nav className="tabs" aria-label={t("Approvals")}>
        {tab("waiting", <>{t("Waiting")} {waiting.length > 0 && <Count n={waiting.length} ask />}</>, "/approvals")}
        {tab("answered", t("Answered"), "/approvals?view=answered")}
        {tab("remembered", <>{t("Remembered")} {grants > 0 && <Count n={grants} />}</>, "/approvals?view=remembered")}
      </nav>
      {view === "answered" ? <Answered /> : view === "remembered" ? <Remembered /> : (
        <Load from={approvals} path="/api/approvals" what={t("approvals")}>
          {() => (ask ? <Inbox waiting={waiting} ask={ask} /> : (
            <div className="page">
              <Empty icon="approvals" title={t("Nothing waits for you")}>
                <p>{t("When an agent wants to do something that needs your yes, it appears here, in the chat and in the tab’s title.")}</p>
              </Empty>
            </div>
          ))}
        </Load>
      )}
    </Page>
  );
}

function Inbox({ waiting, ask }: { waiting: Approval[]; ask: Approval }) {
  const sessions = useSessions().data?.sessions;
  const [open, setOpen] = useState<boolean | undefined>(undefined);
  const [explain, setExplain] = useState(false);
  useEffect(() => {
    setOpen(undefined);
    setExplain(false);
  }, [ask.approval]);
  useKeys({ x: () => setOpen(open === undefined ? false : !open) });
  const title = (one: Approval) => where(one, sessions);
  return (
    <div className="split split-inbox">
      <section className="split-list" aria-label={t("Waiting")}>
        {waiting.map((one) => {
          const effect = askedEffect(one);
          return (
            <Link key={one.approval} className="inbox-item" href={to("approvals", one.approval)} aria-current={one === ask ? "true" : undefined}>
              <span className="row"><b className="strong grow clip">{askTitle(one)}</b><span className="meta num"><Ago at={one.since} /></span></span>
              {effect && <Effect effect={effect} word={false} />}
              <span className="meta clip">{title(one)}</span>
            </Link>
          );
        })}
      </section>
      <div className="inbox-main">
        <div className="page" tabIndex={0} role="region" aria-label={t("Question")}>
          <div className="page-in reading">
            <header className="stack tight">
              <h2 className="detail-title">{askTitle(ask)}</h2>
              <p className="second">
                {ask.kind === "approval" ? t("{who} wants to run {tool}.", { who: ask.agent || t("The agent"), tool: ask.tool }) : ask.tool}{" "}
                <Link href={to("chat", ask.session)}>{title(ask)}</Link>. {t("Waits since {time}.", { time: ago(ask.since) })}
              </p>
            </header>
            {ask.kind === "approval" && <Reasons ask={ask} />}
            {ask.question && <Callout tone="ask" icon="ask" title={t("The agent asks")}><p>{ask.question}</p></Callout>}
            {ask.kind === "approval" && <EffectTable ask={ask} />}
            {ask.changes.length > 0 && <section className="stack" aria-label={t("Changes")}><AskChanges ask={ask} open={open} /></section>}
            <Arguments value={ask.arguments} />
          </div>
        </div>
        <AnswerBar ask={ask} keys onExplain={() => setExplain(true)} />
      </div>
      {explain && <Explain ask={ask} onClose={() => setExplain(false)} />}
    </div>
  );
}

function where(ask: Approval, sessions?: Session[]): string {
  const found = sessions?.find((one) => one.session === ask.session);
  return found ? titleOf(found) : ask.task;
}

function Explain({ ask, onClose }: { ask: Approval; onClose: () => void }) {
  const [found, setFound] = useState<Explained | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    change<Explained>("POST", "/api/policy/explain", { tool: ask.tool, arguments: ask.arguments ?? {} }).then(setFound, setError);
  }, [ask]);
  return (
    <Dialog title={t("How this was decided")} onClose={onClose} wide>
      {found && <Verdicts found={found} />}
      {error && <p className="second">{[error.message, error.hint].join(" ")}</p>}
      <div className="dialog-foot"><button className="btn btn-primary" onClick={onClose}>{t("Close")}</button></div>
    </Dialog>
  );
}

export function Verdicts({ found }: { found: Explained }) {
  return (
    <div className="stack" role="status">
      <div className="row"><Verdict verdict={found.decision} /><span>{found.reason || found.rule}</span></div>
      <ul className="lines verdicts">
        {found.verdicts.map((one, n) => (
          <li key={n}>
            <Effect effect={effectOf(one.effect)} />
            <span className="grow" />
            <code className="meta clip">{one.rule}</code>
            <Verdict verdict={one.verdict} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What was asked and answered in the newest sessions, from their records. */
function Answered() {
  const sessions = useSessions();
  const shown = sessions.data?.sessions.slice(0, 12) ?? [];
  return (
    <div className="page">
      <div className="page-in">
        <Load from={sessions} path="/api/sessions" what={t("approvals")}>
          {() => (shown.length ? <>{shown.map((one) => <AnsweredIn key={one.session} one={one} />)}</> : <Empty icon="approvals" title={t("Nothing was asked yet")} />)}
        </Load>
      </div>
    </div>
  );
}

function AnsweredIn({ one }: { one: Session }) {
  const found = useResource<{ events: RunEvent[] }>(`${sessionPath(one.session)}?limit=500`);
  const asked = new Map((found.data?.events ?? []).filter((e) => e.type === "permission.request").map((e) => [e.call_id as string, e]));
  if (!asked.size) return null;
  const events = found.data!.events;
  return (
    <section className="card" aria-label={titleOf(one)}>
      <div className="card-head"><h2 className="grow clip"><Link href={to("chat", one.session)}>{titleOf(one)}</Link></h2><span className="meta"><Ago at={one.last} /></span></div>
      <div className="table-wrap">
        <table>
          <tbody>
            {[...asked.values()].map((request) => {
              const started = events.find((e) => e.type === "call.started" && e.call_id === request.call_id);
              const denied = events.find((e) => e.type === "call.finished" && e.result.call_id === request.call_id && e.result.error?.code === "permission_denied");
              return (
                <tr key={request.approval}>
                  <td className="fit"><code>{request.tool}</code></td>
                  <td>{request.effects[0] && <Effect effect={request.effects[0]} />}</td>
                  <td className="fit right meta">{started ? t("allowed by {who}", { who: started.approver || t("a rule") }) : denied ? t("denied") : t("not answered")}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Remembered() {
  const policy = usePolicy(4);
  const revoke = async (grant: Grant) => {
    try {
      await change("DELETE", `/api/policy/grants/${encodeURIComponent(grant.id)}`);
      toast(t("Taken back. The next such call asks again."));
    } catch (error) {
      toastError(error);
    }
    await refresh("/api/policy");
  };
  return (
    <div className="page">
      <div className="page-in">
        <Load from={policy} path="/api/policy" what={t("Remembered answers")}>
          {(found) =>
            found.grants.length ? (
              <section className="card" aria-label={t("Remembered answers")}>
                <div className="table-wrap">
                  <table>
                    <thead><tr><th>{t("Rule")}</th><th>{t("Scope")}</th><th className="wide">{t("Ends")}</th><th className="right wide">{t("Uses left")}</th><th><span className="hide">{t("Take back")}</span></th></tr></thead>
                    <tbody>
                      {found.grants.map((grant) => (
                        <tr key={grant.id}>
                          <td><div className="rule">{grant.rule}</div>{grant.session && <div className="meta clip">{grant.session}</div>}</td>
                          <td className="second">{grant.scope}</td>
                          <td className="wide second">{grant.expires ? date(grant.expires) : t("never")}</td>
                          <td className="wide right num">{grant.uses ?? "–"}</td>
                          <td className="fit"><button className="btn btn-quiet btn-sm" aria-label={t("Take back {rule}", { rule: grant.rule })} onClick={() => void revoke(grant)}>{t("Take back")}</button></td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              </section>
            ) : <Empty icon="policy" title={t("No answer is remembered")}><p>{t("Answers for a session or for always appear here, and can be taken back.")}</p></Empty>
          }
        </Load>
      </div>
    </div>
  );
}
