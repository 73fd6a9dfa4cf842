/** Chat: one session; what is said, what is done, and what waits. */

import { type ReactNode, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { ApiError, at, change, follow, get, refresh, session as sessionPath, useResource } from "../api";
import { type AttachedFile, type Call, Conversation, type Item } from "../conversation";
import { ago, bytes, money, t } from "../i18n";
import { useKeys } from "../keys";
import { AskCard, askTitle, askedEffect, usePolicy } from "../parts/asks";
import { Effect, State, stateOf } from "../parts/basic";
import { CallCard } from "../parts/calls";
import { Composer, type Message } from "../parts/composer";
import { Facts } from "../parts/facts";
import { EmptyArt, Icon } from "../parts/icons";
import { toast, toastError } from "../parts/overlay";
import { Prose } from "../parts/prose";
import { Page, nameOf, titleOf, useApprovals, useSessions, useWorkspace, waitingOf } from "../parts/shell";
import { Callout, Failure, Skeleton } from "../parts/states";
import { Link, go, to } from "../router";
import type { Approval, Notice, Run, RunEvent } from "../types";

interface History {
  runs: Run[];
  events: RunEvent[];
  total: number;
}

/** The session's conversation: its stored events, and those of the run that goes on as they happen. */
function useConversation(key: string, newest: string): { talk: Conversation; error?: ApiError; loading: boolean } {
  const talk = useMemo(() => new Conversation(), [key]);
  const [state, setState] = useState<{ error?: ApiError; loading: boolean }>({ loading: true });
  const follows = useRef({ stop: new AbortController(), runs: new Set<string>() });
  const followOnce = async (run: string) => {
    const { stop, runs } = follows.current;
    if (runs.has(run)) return;
    runs.add(run);
    await follow(run, (events) => {
      talk.apply(events);
      if (events.some((e) => e.type === "run.finished" || e.type === "run.started")) void refresh("/api/approvals", "/api/sessions", "/api/undo");
      else if (events.some((e) => e.type === "call.finished" && e.result?.error === null)) void refresh("/api/undo");
    }, stop.signal);
  };
  useEffect(() => {
    const stop = new AbortController();
    follows.current = { stop, runs: new Set() };
    const load = async () => {
      let loaded: History;
      const events: RunEvent[] = [];
      do {
        loaded = await get(`${sessionPath(key)}?after=${events.length}&limit=500`);
        events.push(...loaded.events);
      } while (loaded.events.length && events.length < loaded.total);
      if (stop.signal.aborted) return;
      const last = loaded.runs[0];
      // What goes on is followed from its start; the rest is as it is stored.
      const live = last && ["running", "suspended", "interrupted"].includes(last.status) ? last.run : "";
      const upto = live ? events.findLastIndex((e) => e.type === "run.started" && e.run === live) : -1;
      talk.apply(upto >= 0 ? events.slice(0, upto) : events);
      for (const run of loaded.runs) if (run.run !== live) follows.current.runs.add(run.run);
      setState({ loading: false });
      if (live) await followOnce(live);
    };
    load().catch((error: unknown) => {
      if (!stop.signal.aborted) setState({ loading: false, error: error instanceof ApiError ? error : new ApiError(0, "error", String(error)) });
    });
    return () => stop.abort();
  }, [key, talk]);
  // A run that starts later. One that is followed already goes on being followed.
  useEffect(() => {
    if (newest && !state.loading) void followOnce(newest);
  }, [newest, state.loading]);
  useSyncExternalStore(talk.subscribe, () => talk.version);
  return { talk, ...state };
}

export function ChatPage({ sessionKey }: { sessionKey?: string }) {
  return sessionKey ? <SessionPage key={sessionKey} sessionKey={sessionKey} /> : <NewChat />;
}

function NewChat() {
  const folder = useWorkspace();
  const policy = usePolicy();
  const [busy, setBusy] = useState(false);
  const name = nameOf(folder);
  const start = async ({ text, ...more }: Message) => {
    setBusy(true);
    try {
      const started = await change<{ session: string }>("POST", "/api/runs", { task: text, ...more });
      void refresh("/api/sessions", "/api/runs");
      go(to("chat", started.session));
    } catch (error) {
      toastError(error);
      setBusy(false);
    }
  };
  const examples = [t("Explain what this project does and how to run its tests."), t("Find a bug in the code that changed last, and propose a fix.")];
  return (
    <Page title={<h1>{t("New session")}</h1>} tabTitle={t("New session")}>
      <div className="chat-new">
        <div className="empty">
          <EmptyArt icon="chat" />
          <h2>{t("What should be done in {name}?", { name })}</h2>
          <p>{modeSentence(policy.data?.mode)}</p>
          <div className="stack examples">
            {examples.map((one) => <button className="btn" key={one} disabled={busy} onClick={() => void start({ text: one, files: [] })}>{one}</button>)}
          </div>
        </div>
        <RecentSessions />
      </div>
      <Composer placeholder={t("Describe a task")} onSend={start} busy={busy} />
    </Page>
  );
}

/** Narrow screens have no sidebar: the sessions stand here. */
function RecentSessions() {
  const sessions = useSessions().data?.sessions ?? [];
  if (!sessions.length) return null;
  return (
    <nav className="narrow-block recent" aria-labelledby="recent">
      <h2 className="nav-title" id="recent">{t("Sessions")}</h2>
      <ul className="nav">
        {sessions.slice(0, 12).map((one) => (
          <li key={one.session}><Link href={to("chat", one.session)}><span className="clip grow">{titleOf(one)}</span><State status={one.status} bare /><span className="meta num">{ago(one.last)}</span></Link></li>
        ))}
      </ul>
    </nav>
  );
}

export function modeSentence(mode?: string): string {
  switch (mode) {
    case "read-only": return t("The agent can read this folder. It changes nothing.");
    case "ask": return t("The agent can read this folder. Anything else asks you first.");
    case "auto": return t("The agent can read and change this folder. A second model may allow what undo can restore, and hosts that you named. Anything else asks you first.");
    case "full": return t("The agent does what it wants without asking. Only deny rules stop it.");
    default: return t("The agent can read and change this folder. Commands run in the sandbox. Anything else asks you first.");
  }
}

function SessionPage({ sessionKey }: { sessionKey: string }) {
  const sessions = useSessions();
  const info = sessions.data?.sessions.find((one) => one.session === sessionKey);
  const runs = useResource<{ runs: Run[] }>(`/api/runs?session=${encodeURIComponent(sessionKey)}&limit=1`, 3);
  const newest = runs.data?.runs[0]?.run ?? "";
  const { talk, error, loading } = useConversation(sessionKey, newest);
  const notices = useResource<{ notices: Notice[] }>(`${sessionPath(sessionKey)}/notices`, 3).data?.notices ?? [];
  const approvals = waitingOf(useApprovals().data).filter((one) => one.session === sessionKey);
  const title = info ? titleOf(info) : sessionKey;
  const run = talk.run || newest;
  const running = talk.status === "running";
  const [armed, setArmed] = useState(false);
  const stop = async () => {
    try {
      await change("POST", `/api/runs/${run}/stop`);
      toast(t("Stopped."), "plain");
    } catch (error) {
      toastError(error);
    }
    await refresh("/api/runs", "/api/sessions");
  };
  useKeys({
    Escape: () => {
      if (!running) return false;
      if (armed) void stop();
      setArmed(!armed);
      setTimeout(() => setArmed(false), 2000);
      return true;
    },
  });
  const send = async ({ text, ...more }: Message) => {
    await change("POST", `${sessionPath(sessionKey)}/messages`, { content: text, ...more });
    await refresh("/api/runs", "/api/sessions");
  };
  return (
    <Page
      tabTitle={title}
      title={<h1 className="clip" title={title}>{title}</h1>}
      bar={
        <>
          {talk.status && <State status={talk.status} />}
          {armed && <span className="meta wide" role="status">{t("Esc again stops the run")}</span>}
          <span className="grow" />
          {run && <Link className="btn btn-quiet wide" href={to("runs", run, "timeline")}><Icon name="runs" />{t("Timeline")}</Link>}
          {running && <button className="btn" onClick={() => void stop()}><Icon name="stop" />{t("Stop")}</button>}
        </>
      }
    >
      <div className="split split-chat">
        <div className="main chat-main">
          <Thread talk={talk} loading={loading} error={error} asks={approvals} notices={notices} />
          <Dock asks={approvals}>
            <Composer placeholder={running ? t("Add to the task while it runs") : t("Say something")} onSend={send} last={lastSaid(talk.items)} model={talk.model} running={running}
              note={<Meters talk={talk} />} />
          </Dock>
        </div>
        <Facts talk={talk} run={run} asks={approvals} />
      </div>
    </Page>
  );
}

const lastSaid = (items: Item[]) => {
  const found = items.findLast((item) => item.kind === "user" && item.by === "user");
  return found?.kind === "user" ? found.text : "";
};

function Meters({ talk }: { talk: Conversation }) {
  const parts = [
    talk.contextTokens > 0 && talk.windowTokens > 0 && t("{n} % context", { n: Math.round((100 * talk.contextTokens) / talk.windowTokens) }),
    talk.cost !== null && money(talk.cost),
  ].filter(Boolean);
  return <span className="meta wide">{parts.join(", ")}</span>;
}

/** The conversation. It stays at its end while a reader has not scrolled up. */
function Thread({ talk, loading, error, asks, notices }: { talk: Conversation; loading: boolean; error?: ApiError; asks: Approval[]; notices: Notice[] }) {
  // What waits is asked below; its line would say it twice.
  const asked = new Set(asks.map((one) => one.approval));
  const turns = turnsOf(talk.items.filter((item) => item.kind !== "call" || item.state !== "waits" || !asked.has(item.approval)));
  const slow = useSlow(talk.status === "running" && !talk.items.some((i) => i.kind === "text" && i.live), talk.version);
  return (
    <div className="log" tabIndex={0} role="log" aria-label={t("Conversation")}>
      <div className="thread">
        {loading && <Skeleton what={t("the conversation")} />}
        {error && <Failure error={error} />}
        {turns.map((turn) =>
          turn[0]!.kind === "user" ? (
            <Group key={turn[0]!.key} items={turn} />
          ) : (
            <article className="msg" key={turn[0]!.key} aria-label={t("Agent")}>
              {grouped(turn).map((group) => <Group key={group[0]!.key} items={group} />)}
            </article>
          ),
        )}
        {notices.map((one) => (
          <article className="msg" key={one.id} aria-label={t("Message")}>
            <p className="meta">{one.from ? t("Message from {session}, {when}", { session: one.from, when: ago(one.at) }) : t("Message, {when}", { when: ago(one.at) })}</p>
            <Prose text={one.text} />
          </article>
        ))}
        {asks.map((one) => <AskCard key={one.approval} ask={one} />)}
        {slow && <p className="meta" role="status">{t("Waiting for {model}", { model: talk.model })}</p>}
      </div>
    </div>
  );
}

/** True after two seconds in which nothing came. */
function useSlow(active: boolean, version: number): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    setSlow(false);
    if (!active) return;
    const timer = setTimeout(() => setSlow(true), 2000);
    return () => clearTimeout(timer);
  }, [active, version]);
  return slow;
}

/** What the agent says and does between two messages is one turn. */
function turnsOf(items: Item[]): Item[][] {
  const out: Item[][] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (item.kind !== "user" && last && last[0]!.kind !== "user") last.push(item);
    else out.push([item]);
  }
  return out;
}

/** Neighbouring calls share one frame. */
function grouped(items: Item[]): Item[][] {
  const out: Item[][] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (item.kind === "call" && last?.[0]!.kind === "call") last.push(item);
    else out.push([item]);
  }
  return out;
}

function Group({ items }: { items: Item[] }): ReactNode {
  const first = items[0]!;
  switch (first.kind) {
    case "user":
      return (
        <article className="msg msg-user" aria-label={first.by === "user" ? t("You") : first.by}>
          {first.by !== "user" && <p className="meta">{first.by}{first.labels.length > 0 && `, ${first.labels.join(", ")}`}</p>}
          <div className="prose"><p className="pre">{first.text}</p><Attached files={first.files} />{first.queued && <p className="meta">{t("Waits until the agent reads it")}</p>}</div>
        </article>
      );
    case "text":
      if (first.thinking) {
        return (
          <details className="thinking">
            <summary className="row meta"><Icon name="chev" small />{first.live ? t("Thinking") : t("Thought about it")}</summary>
            <p className="second pre">{first.text}</p>
          </details>
        );
      }
      return <Prose text={first.text} caret={first.live} />;
    case "call":
      return <div className="calls">{(items as Call[]).map((call) => <CallCard key={call.key} call={call} />)}</div>;
    case "notice":
      return <p className="meta notice">{first.text}</p>;
    case "end": {
      const { tone, icon, word } = stateOf(first.status);
      return <Callout tone={tone} icon={icon} title={word}>{first.error && <p className="second">{first.error}</p>}</Callout>;
    }
  }
}

function Attached({ files }: { files: AttachedFile[] }) {
  if (!files.length) return null;
  return (
    <ul className="row row-wrap" aria-label={t("Attached files")}>
      {files.map((one) => (
        <li key={one.path}><Link className="file-chip" href={at("/files/browse", { path: one.path })} title={one.path}><Icon name="clip" small /><span className="clip">{one.name}</span><span className="muted num">{bytes(one.bytes)}</span></Link></li>
      ))}
    </ul>
  );
}

function Dock({ asks, children }: { asks: Approval[]; children: ReactNode }) {
  const first = asks[0];
  const effect = first && askedEffect(first);
  return (
    <>
      {first && (
        <div className="dock dock-waiting">
          <div className="dock-in">
            <div className="waiting" role="status">
              <Icon name="ask" />
              <span className="grow clip">{askTitle(first)} {effect && <Effect effect={effect} />}</span>
              <Link className="btn btn-sm" href={to("approvals", first.approval)}>{t("Review")}</Link>
            </div>
          </div>
        </div>
      )}
      {children}
    </>
  );
}
