/** The frame of every page: sidebar, bar at the top, and the bar at the thumb on narrow screens. */

import { type ReactNode, useEffect, useState } from "react";
import { at, refresh, useConnection, useMe, useResource } from "../api";
import { ago, t } from "../i18n";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { Link, go, to, useRoute } from "../router";
import type { Approval, Policy, Session } from "../types";
import { Count, State } from "./basic";
import { Canvas } from "./canvas";
import { Icon, Logo } from "./icons";
import { type Command, Dialog, Palette, Toasts } from "./overlay";

/** Changes come by themselves while the connection stands; otherwise they are asked for. */
export const useApprovals = () => useResource<{ approvals: Approval[] }>("/api/approvals", useLive() ? 0 : 4);
export const useSessions = () => useResource<{ sessions: Session[] }>("/api/sessions", 4);
export const waitingOf = (found: { approvals: Approval[] } | undefined) => found?.approvals.filter((one) => !one.answer) ?? [];

const firstLine = (text: string) => text.trimStart().split("\n")[0]!;
export const titleOf = (session: Session) => session.label || firstLine(session.task) || session.session;

export const PAGES = () => [
  { path: "/chat", icon: "chat", name: t("Chat"), key: "g c" },
  { path: "/approvals", icon: "approvals", name: t("Approvals"), key: "g a" },
  { path: "/runs", icon: "runs", name: t("Runs"), key: "g r" },
  { path: "/files", icon: "files", name: t("Files"), key: "g f" },
  { path: "/schedules", icon: "schedule", name: t("Schedules"), key: "g s" },
  { path: "/policy", icon: "policy", name: t("Policy"), key: "g p" },
  { path: "/servers", icon: "servers", name: t("Servers"), key: "g m" },
  { path: "/overview", icon: "overview", name: t("Overview"), key: "g o" },
  { path: "/settings", icon: "settings", name: t("Settings"), key: "g e" },
];

export function Shell({ children }: { children: ReactNode }) {
  const { parts } = useRoute();
  const approvals = useApprovals();
  const sessions = useSessions();
  const waiting = waitingOf(approvals.data).length;
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  useKeys({
    "mod+k": () => setPalette(true),
    "?": () => setHelp(true),
    n: () => (parts[0] === "approvals" ? false : go("/chat")),
    "/": () => {
      const input = document.querySelector<HTMLInputElement>("main .search input");
      return input ? input.focus() : false;
    },
    ...Object.fromEntries(PAGES().map((page) => [page.key, () => go(page.path)])),
  });
  const commands: Command[] = [
    ...PAGES().map((page) => ({ label: page.name, icon: page.icon, run: () => go(page.path) })),
    { label: t("Search messages"), icon: "search", run: () => go("/search") },
    { label: t("New session"), icon: "plus", run: () => go("/chat") },
    { label: t("Switch theme"), icon: "sun", run: switchTheme },
    { label: t("Keys"), icon: "menu", run: () => setHelp(true) },
    ...(sessions.data?.sessions ?? []).map((one) => ({ label: titleOf(one), icon: "chat", note: ago(one.last), run: () => go(to("chat", one.session)) })),
  ];
  const open = parts[0] === "chat" ? parts[1] : undefined;
  const item = (page: ReturnType<typeof PAGES>[number]) => (
    <li key={page.path}>
      <Link href={page.path} aria-current={page.path === `/${parts[0] ?? "chat"}` ? (open ? "true" : "page") : undefined}>
        <Icon name={page.icon} />
        <span className="grow">{page.name}</span>
        {page.path === "/approvals" && waiting > 0 && <Count n={waiting} ask label={t("{n} waiting", { n: waiting })} />}
      </Link>
    </li>
  );
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>{t("Skip to content")}</a>
      <aside className="sidebar" aria-label={t("Sidebar")}>
        <Workspace />
        <button className="jump" onClick={() => setPalette(true)}>
          <Icon name="search" />
          <span className="grow clip">{t("Search or jump")}</span>
          <kbd>{navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        <nav aria-label={t("Main")}><ul className="nav">{PAGES().slice(0, 5).map(item)}</ul></nav>
        <nav aria-label={t("Manage")}><ul className="nav">{PAGES().slice(5).map(item)}</ul></nav>
        <nav className="sidebar-sessions" aria-labelledby="sessions">
          <div className="nav-title">
            <h2 id="sessions">{t("Sessions")}</h2>
            <Link className="btn btn-quiet btn-sm btn-icon" href="/chat" aria-label={t("New session")}><Icon name="plus" small /></Link>
          </div>
          <ul className="nav">
            {sessions.data?.sessions.slice(0, 30).map((one) => (
              <li key={one.session}>
                <Link href={to("chat", one.session)} aria-current={open === one.session ? "page" : undefined} title={titleOf(one)}>
                  <span className="clip grow">{titleOf(one)}</span>
                  {one.status === "running" || one.status === "suspended" ? <State status={one.status} bare /> : <span className="meta num">{ago(one.last)}</span>}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <Foot />
      </aside>
      {children}
      <nav className="tabbar" aria-label={t("Main, small screen")}>
        {PAGES().slice(0, 4).map((page) => (
          <Link key={page.path} href={page.path} aria-current={page.path === `/${parts[0]}` ? "page" : undefined}>
            <Icon name={page.icon} />
            {page.name}
            {page.path === "/approvals" && waiting > 0 && <Count n={waiting} ask label={t("{n} waiting", { n: waiting })} />}
          </Link>
        ))}
        <Link href="/more" aria-current={parts[0] === "more" ? "page" : undefined}>
          <Icon name="menu" />
          {t("More")}
        </Link>
      </nav>
      <Canvas />
      {palette && <Palette commands={commands} more={searchFor} onClose={() => setPalette(false)} />}
      {help && <Keys onClose={() => setHelp(false)} />}
      <Toasts />
    </div>
  );
}

const searchFor = (query: string): Command[] => [{ label: t("Search messages for “{query}”", { query }), icon: "search", run: () => go(at("/search", { q: query })) }];

const WORKSPACE = "/api/runs?limit=1";

/** The folder's name and path, of the newest run or the policy's mode. */
export function useWorkspace(): string {
  const health = useResource<{ workspace?: string }>("/api/health");
  const runs = useResource<{ runs: { workspace: string }[] }>(health.data && !health.data.workspace ? WORKSPACE : null);
  return health.data?.workspace ?? runs.data?.runs[0]?.workspace ?? "";
}

export const nameOf = (folder: string) => folder.split("/").filter(Boolean).at(-1) ?? "Pegboard";

function Workspace() {
  const folder = useWorkspace();
  return (
    <Link className="workspace" href="/overview">
      <Logo />
      <span className="grow">
        <b className="clip">{nameOf(folder)}</b>
        <span className="meta clip" title={folder}>{folder || location.host}</span>
      </span>
    </Link>
  );
}

export function switchTheme() {
  const root = document.documentElement;
  const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("pegboard.theme", root.dataset.theme);
}

function Foot() {
  const policy = useResource<Policy>("/api/policy");
  const me = useMe();
  return (
    <div className="sidebar-foot">
      {policy.data && (
        <div className="row">
          <span className="state" data-tone="allow"><Icon name="lock" /></span>
          <span className="grow">{t("Mode {mode}", { mode: policy.data.mode })}</span>
        </div>
      )}
      <div className="row">
        <span className="grow clip">{[location.host, me.name].filter(Boolean).join(" · ")}</span>
        <button className="btn btn-quiet btn-sm btn-icon" aria-label={t("Switch theme")} onClick={switchTheme}><Icon name="sun" /></button>
      </div>
    </div>
  );
}

/** A page: its title in the bar and in the tab, what can be done, and its content. */
export function Page({ title, tabTitle, bar, children }: { title: ReactNode; tabTitle: string; bar?: ReactNode; children: ReactNode }) {
  const { offline } = useConnection();
  const waiting = waitingOf(useApprovals().data).length;
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${tabTitle} · Pegboard`;
  }, [tabTitle, waiting]);
  return (
    <main className="main" id="main" tabIndex={-1}>
      <header className="topbar">
        {title}
        {bar}
      </header>
      {offline && <Offline />}
      {children}
    </main>
  );
}

function Offline() {
  useEffect(() => {
    const timer = setInterval(() => void refresh("/api/approvals"), 4000);
    return () => clearInterval(timer);
  }, []);
  return (
    <div className="banner" data-tone="ask" role="status">
      <Icon name="offline" />
      <span className="grow"><b className="strong">{t("Not connected.")}</b> {t("Runs go on without you. Trying again every 4 s.")}</span>
      <button className="btn btn-sm" onClick={() => void refresh("/api/")}>{t("Try now")}</button>
    </div>
  );
}

/** Narrow screens: the pages that have no place in the bar at the thumb. */
export function MorePage() {
  return (
    <Page title={<h1>{t("More")}</h1>} tabTitle={t("More")}>
      <div className="page">
        <ul className="nav">
          {PAGES().slice(4).map((page) => (
            <li key={page.path}><Link href={page.path}><Icon name={page.icon} /><span className="grow">{page.name}</span><Icon name="chev" small /></Link></li>
          ))}
        </ul>
        <div className="more-foot"><Foot /></div>
      </div>
    </Page>
  );
}

function Keys({ onClose }: { onClose: () => void }) {
  const keys: [string, string][] = [
    ["Ctrl K", t("Search or jump to")],
    ["G C A R F S P O", t("Pages: Chat, Approvals, Runs, Files, Schedules, Policy, Overview")],
    ["N", t("New session; in Approvals: deny")],
    ["/", t("Filter")],
    ["J K", t("Next, previous")],
    ["X", t("Open or close the diffs")],
    ["U", t("Undo the selected change; asks first")],
    ["Esc", t("Close; in Chat, twice: stop the run")],
    ["Y R S A", t("Approvals: allow once, this run, this session, always")],
    ["E", t("Approvals: explain")],
    ["Space ← →", t("Timeline: play, one event back, one on; with Shift ten")],
  ];
  return (
    <Dialog title={t("Keys")} onClose={onClose}>
      <dl className="dl">
        {keys.map(([key, what]) => (
          <div className="dl-row" key={key}><dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{what}</dd></div>
        ))}
      </dl>
      <p className="help">{t("Letters work outside inputs. Settings can turn them off.")}</p>
      <div className="dialog-foot"><button className="btn btn-primary" onClick={onClose}>{t("Close")}</button></div>
    </Dialog>
  );
}
