/** Runs: all of them, and one with its timeline, changes and agents. */

import { useState } from "react";
import { ApiError, change, download, refresh, useResource } from "../api";
import { number, t, took } from "../i18n";
import { Ago, Count, State } from "../parts/basic";
import { ChangeCard } from "../parts/diff";
import { AgentTree } from "../parts/facts";
import { Icon } from "../parts/icons";
import { toast, toastError } from "../parts/overlay";
import { Page } from "../parts/shell";
import { Empty, Load } from "../parts/states";
import { UndoButton, useUndo } from "../parts/undo";
import { Link, setQuery, to, useRoute } from "../router";
import type { Agent, Run, RunDetail } from "../types";
import { Compare } from "./compare";
import { changesIn, useEvents } from "./events";
import { Timeline } from "./timeline";

const FILTERS = ["", "running", "suspended", "done", "failed", "interrupted"];

export function RunsPage() {
  const runs = useResource<{ runs: Run[] }>("/api/runs?limit=500", 5);
  const { query } = useRoute();
  const status = query.get("status") ?? "";
  const words = (query.get("q") ?? "").toLowerCase();
  const label = (one: string) => (one === "" ? t("All") : one === "running" ? t("Running") : one === "suspended" ? t("Waits for you") : one === "done" ? t("Done") : one === "failed" ? t("Failed") : t("Interrupted"));
  return (
    <Page tabTitle={t("Runs")} title={<h1>{t("Runs")}</h1>}>
      <div className="page">
        <div className="page-in">
          <Load from={runs} path="/api/runs" what={t("runs")} rows={8}>
            {({ runs: all }) => {
              const matching = all.filter((one) => `${one.task} ${one.model} ${one.session}`.toLowerCase().includes(words));
              const shown = matching.filter((one) => !status || one.status === status);
              if (!all.length) return <Empty icon="runs" title={t("No runs yet")}><p>{t("A run appears here when you give the agent a task.")}</p><Link className="btn btn-primary" href="/chat">{t("Open Chat")}</Link></Empty>;
              return (
                <>
                  <div className="row row-wrap">
                    <div className="search grow">
                      <Icon name="search" small />
                      <input className="input" aria-label={t("Filter runs")} placeholder={t("Filter by task, model or session")} value={query.get("q") ?? ""} onChange={(event) => setQuery("q", event.target.value)} />
                    </div>
                    <div className="chips" role="group" aria-label={t("Show only")}>
                      {FILTERS.map((one) => (
                        <button className="chip" key={one} aria-pressed={status === one} onClick={() => setQuery("status", one)}>
                          {label(one)} <span className="muted num">{number(matching.filter((run) => !one || run.status === one).length)}</span>
                        </button>
                      ))}
                    </div>
                  </div>
                  {shown.length ? <RunTable runs={shown} /> : <p className="second" role="status">{t("No run matches.")} <button className="btn btn-quiet btn-sm" onClick={() => { setQuery("q", ""); setQuery("status", ""); }}>{t("Clear the filter")}</button></p>}
                </>
              );
            }}
          </Load>
        </div>
      </div>
    </Page>
  );
}

export function RunTable({ runs }: { runs: Run[] }) {
  return (
    <section className="card" aria-label={t("Runs")}>
      <div className="table-wrap">
        <table>
          <thead><tr><th>{t("Run")}</th><th>{t("State")}</th><th className="wide">{t("Model")}</th><th className="right wide">{t("Time")}</th><th className="right">{t("Started")}</th></tr></thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.run}>
                <td><Link className="run-task" href={to("runs", run.run, "timeline")}>{run.task.split("\n")[0] || run.run}</Link><div className="meta wide clip">{run.agent}, {run.session}</div></td>
                <td className="fit"><State status={run.status} /></td>
                <td className="wide second"><span className="clip model">{run.model || "–"}</span></td>
                <td className="right num wide">{run.ended ? took(run.ended - run.started) : ""}</td>
                <td className="right meta fit num"><Ago at={run.started} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function RunPage({ id, view }: { id: string; view: string }) {
  const path = `/api/runs/${encodeURIComponent(id)}`;
  const run = useResource<RunDetail>(path, 3);
  const agents = useResource<{ agents: Agent[] }>(`${path}/agents`);
  const { events, version, loading } = useEvents(id);
  const changes = changesIn(events);
  const [busy, setBusy] = useState(false);
  const title = run.data?.task.split("\n")[0] || id;
  const replay = async () => {
    setBusy(true);
    try {
      const done = await change<{ same: boolean; event?: number }>("POST", `${path}/replay`);
      if (done.same) toast(t("The run comes out the same when it is done again."));
      else toast(t("The run comes out different from event {n} on.", { n: done.event ?? 0 }), "deny");
    } catch (error) {
      toastError(error);
    }
    setBusy(false);
  };
  const stop = async () => {
    try {
      await change("POST", `${path}/stop`);
    } catch (error) {
      toastError(error);
    }
    await refresh(path, "/api/runs");
  };
  const tab = (name: string, label: string, n?: number) => (
    <Link href={to("runs", id, name)} aria-current={view === name ? "page" : undefined}>{label} {n ? <Count n={n} /> : null}</Link>
  );
  return (
    <Page
      tabTitle={title}
      title={<h1 className="clip" title={title}><span className="wide"><Link className="crumb" href="/runs">{t("Runs")}</Link> <span className="muted">/</span> </span>{title}</h1>}
      bar={
        <>
          {run.data && <State status={run.data.status} />}
          <span className="grow" />
          {run.data?.status === "running" && <button className="btn" onClick={() => void stop()}><Icon name="stop" />{t("Stop")}</button>}
          <button className="btn btn-quiet wide" disabled={busy || !run.data?.ended} onClick={() => void replay()}><Icon name="play" />{t("Replay")}</button>
          <button className="btn btn-quiet wide" onClick={() => download(`${path}/export`, `${id}.jsonl`).catch((error) => toastError(error instanceof ApiError ? error : t("The run could not be exported.")))}><Icon name="download" />{t("Export")}</button>
          {changes.length > 0 && <UndoButton target={id} label={t("Undo run…")} small={false} />}
        </>
      }
    >
      <nav className="tabs" aria-label={t("Run")}>
        {tab("timeline", t("Timeline"))}
        {tab("changes", t("Changes"), changes.length)}
        {tab("agents", t("Agents"), agents.data?.agents.length)}
        {tab("compare", t("Compare"))}
        {run.data && <Link href={to("chat", run.data.session)}>{t("Conversation")}</Link>}
      </nav>
      {view === "changes" ? <Changes run={id} changes={changes} /> : view === "agents" ? <Agents run={id} /> : view === "compare" ? (run.data && <Compare run={run.data} />) : <Timeline run={id} events={events} version={version} loading={loading} running={run.data?.status === "running"} />}
    </Page>
  );
}

function Changes({ run, changes }: { run: string; changes: ReturnType<typeof changesIn> }) {
  const undo = useUndo();
  return (
    <div className="page">
      <div className="page-in reading">
        {changes.length ? changes.map((one, n) => (
          <ChangeCard key={n} change={one.change} open={changes.length < 8}>
            <div className="card-foot"><span className="grow second">{t("Changed by {tool}", { tool: one.tool })}</span>{undo.data && <UndoButton target={one.call} />}</div>
          </ChangeCard>
        )) : <Empty icon="files" title={t("This run changed no file")} />}
        {changes.length > 8 && <div className="row"><UndoButton target={run} label={t("Undo run…")} small={false} /></div>}
      </div>
    </div>
  );
}

function Agents({ run }: { run: string }) {
  const path = `/api/runs/${encodeURIComponent(run)}/agents`;
  const agents = useResource<{ agents: Agent[] }>(path, 5);
  return (
    <div className="page">
      <div className="page-in reading">
        <Load from={agents} path={path} what={t("Subagents")}>
          {(found) => found.agents.length
            ? <div className="card card-body"><ul className="tree"><li><div><Icon name="dot" small /><span className="strong">main</span></div><AgentTree agents={found.agents} /></li></ul></div>
            : <Empty icon="spawn" title={t("This run started no other agent")} />}
        </Load>
      </div>
    </div>
  );
}
