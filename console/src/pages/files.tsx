/** Files: what agents changed with its undo, artifacts, and the folder to look at. */

import { type ReactNode, useEffect, useState } from "react";
import { ApiError, at, change, useResource } from "../api";
import { bytes, t } from "../i18n";
import { useKeys } from "../keys";
import { ChangeLetter, Count, Moment } from "../parts/basic";
import { ChangeCard, Diff } from "../parts/diff";
import { Icon } from "../parts/icons";
import { Page, titleOf, useSessions } from "../parts/shell";
import { Callout, Empty, Failure, Load, Skeleton } from "../parts/states";
import { UndoButton, UndoDialog, redo, useUndo } from "../parts/undo";
import { Link, go, setQuery, to, useRoute } from "../router";
import type { Artifact, Run, UndoEntry, UndoReport } from "../types";

export function FilesPage({ view }: { view: string }) {
  const undo = useUndo();
  const tab = (name: string, label: ReactNode) => <Link href={`/files/${name}`} aria-current={view === name ? "page" : undefined}>{label}</Link>;
  const holds = undo.data?.entries.filter((e) => e.holds).length ?? 0;
  return (
    <Page
      tabTitle={t("Files")}
      title={<h1>{t("Files")}</h1>}
      bar={
        <>
          <span className="grow" />
          <button className="btn btn-quiet wide" disabled={!undo.data?.entries.some((e) => !e.holds)} onClick={() => void redo()}><Icon name="redo" />{t("Redo")}</button>
          {holds > 0 && <UndoButton label={t("Undo last")} small={false} />}
        </>
      }
    >
      <nav className="tabs" aria-label={t("Files")}>
        {tab("changes", <>{t("Changes")} {undo.data && <Count n={undo.data.entries.length} />}</>)}
        {tab("artifacts", t("Artifacts"))}
        {tab("browse", t("Browse"))}
      </nav>
      {view === "artifacts" ? <Artifacts /> : view === "browse" ? <Browse /> : (
        <Load from={undo} path="/api/undo" what={t("changes")}>
          {({ entries }) => (entries.length ? <Changes entries={entries} /> : <div className="page"><Empty icon="files" title={t("Nothing was changed by an agent")}><p>{t("Each change of a file appears here with its undo.")}</p></Empty></div>)}
        </Load>
      )}
    </Page>
  );
}

// -- changes ---------------------------------------------------------------------------------------------------

function Changes({ entries }: { entries: UndoEntry[] }) {
  const { query } = useRoute();
  const runs = useResource<{ runs: Run[] }>("/api/runs?limit=500").data?.runs ?? [];
  const words = (query.get("q") ?? "").toLowerCase();
  const name = (run: string) => runs.find((one) => one.run === run)?.task ?? "";
  const shown = entries.filter((e) => `${e.files.map((f) => f.path).join(" ")} ${name(e.run)} ${e.tool}`.toLowerCase().includes(words));
  const groups = new Map<string, UndoEntry[]>();
  for (const entry of shown) groups.set(entry.run || entry.entry, [...(groups.get(entry.run || entry.entry) ?? []), entry]);
  const chosen = query.get("entry");
  const selected = shown.find((e) => e.entry === chosen) ?? shown[0];
  const move = (step: number) => {
    const next = shown[shown.findIndex((e) => e === selected) + step];
    if (next) setQuery("entry", next.entry);
  };
  useKeys({ j: () => move(1), k: () => move(-1), u: () => document.querySelector<HTMLButtonElement>("#undo-selected button")?.click() });
  return (
    <div className={chosen ? "split split-files chosen" : "split split-files"}>
      <section className="split-list" aria-label={t("Changes by run")}>
        <div className="list-filter">
          <div className="search">
            <Icon name="search" small />
            <input className="input" aria-label={t("Filter changes")} placeholder={t("Filter by path or run")} value={query.get("q") ?? ""} onChange={(event) => setQuery("q", event.target.value)} />
          </div>
        </div>
        {!shown.length && <p className="group second">{t("No change matches.")}</p>}
        {[...groups].map(([run, all]) => {
          const first = all[0]!;
          const held = all.filter((e) => e.holds).length;
          return (
            <div key={run}>
              <div className="group">
                <div className="row">
                  <b className="strong grow clip">{name(first.run) || first.tool || t("By hand")}</b>
                  {held > 0 && first.run && <UndoButton target={first.run} label={t("Undo {n}", { n: held })} />}
                </div>
                <span className="meta"><Moment at={first.time} /></span>
              </div>
              <ul>
                {all.map((entry) => (
                  <li key={entry.entry}>
                    <Link className="change" href={at("/files/changes", { entry: entry.entry, q: query.get("q") ?? "" })} aria-current={entry === selected ? "true" : undefined}>
                      <ChangeLetter kind={entry.files[0]?.kind ?? "modify"} />
                      <code className="clip grow">{entry.files[0]?.path ?? entry.type}</code>
                      {entry.files.length > 1 && <span className="meta">{t("and {n} more", { n: entry.files.length - 1 })}</span>}
                      {!entry.holds && <span className="meta">{t("undone")}</span>}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
      </section>
      {selected && <Selected key={`${selected.entry} ${selected.holds}`} entry={selected} entries={entries} name={name(selected.run)} />}
    </div>
  );
}

function Selected({ entry, entries, name }: { entry: UndoEntry; entries: UndoEntry[]; name: string }) {
  const [report, setReport] = useState<UndoReport | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [asking, ask] = useState(false);
  const target = entry.call || entry.run;
  useEffect(() => {
    if (entry.holds && target) change<UndoReport>("POST", "/api/undo", { target, preview: true }).then(setReport, setError);
  }, [entry, target]);
  const earlier = entries.filter((e) => e.entry !== entry.entry && e.files.some((f) => entry.files.some((g) => g.path === f.path)));
  return (
    <div className="page">
      <div className="page-in reading">
        <header className="row row-wrap">
          <Link className="btn btn-quiet btn-icon narrow turned" href="/files/changes" aria-label={t("Back to all changes")}><Icon name="chev" /></Link>
          <div className="grow stack tight">
            <h2 className="detail-title"><code>{entry.files[0]?.path ?? entry.type}</code></h2>
            <p className="meta">
              {t("Changed by {tool}", { tool: entry.tool || entry.type })}, <Moment at={entry.time} />
              {entry.run && <>, <Link href={to("runs", entry.run, "timeline")}>{name || entry.run}</Link></>}
            </p>
          </div>
        </header>
        {!entry.holds && <Callout tone="allow" icon="undo" title={t("Undone")}><p className="second">{t("The file is as before this change. Redo brings it back.")}</p></Callout>}
        {error && <Callout tone="ask" icon="alert" title={error.message}><p className="second">{error.hint}</p></Callout>}
        {entry.holds && !report && !error && <Skeleton what={t("the change")} />}
        {report && (
          <>
            {report.kept.length > 0 && <Callout icon="undo" title={t("Undo keeps your edits")}><ul>{report.kept.map((one) => <li key={one}>{one}</li>)}</ul></Callout>}
            {report.conflicts.map((one) => <Callout key={one.path} tone="deny" icon="alert" title={t("Changed in the same place since")}><p className="second"><code>{one.path}</code>: {one.reason}</p></Callout>)}
            <h3 className="section-title">{t("What undo does")}</h3>
            {report.changes.map((one) => <ChangeCard key={one.path} change={one} />)}
            <div className="row" id="undo-selected">
              <span className="grow second">{t("The file as it is now is kept, so you can redo this.")}</span>
              <button className="btn" disabled={report.conflicts.length > 0 || !report.changes.length} onClick={() => ask(true)}><Icon name="undo" />{t("Undo this change")}</button>
            </div>
            {asking && <UndoDialog report={report} target={target} onClose={() => ask(false)} />}
          </>
        )}
        {earlier.length > 0 && (
          <section className="card" aria-labelledby="earlier">
            <div className="card-head"><h3 id="earlier">{t("Other changes of this file")}</h3></div>
            <div className="table-wrap"><table><tbody>
              {earlier.slice(0, 20).map((one) => (
                <tr key={one.entry}><td className="fit"><ChangeLetter kind={one.files[0]?.kind ?? "modify"} /></td><td><Link href={at("/files/changes", { entry: one.entry })}>{one.tool || one.type}</Link></td><td className="meta">{one.holds ? "" : t("undone")}</td><td className="right meta num fit"><Moment at={one.time} /></td></tr>
              ))}
            </tbody></table></div>
          </section>
        )}
      </div>
    </div>
  );
}

// -- artifacts -------------------------------------------------------------------------------------------------

function Artifacts() {
  const sessions = useSessions();
  const { query } = useRoute();
  const list = sessions.data?.sessions ?? [];
  const session = query.get("session") ?? list[0]?.session;
  return (
    <Load from={sessions} path="/api/sessions" what={t("artifacts")}>
      {() => session ? (
        <div className={query.get("id") ? "split split-files chosen" : "split split-files"}>
          <section className="split-list" aria-label={t("Artifacts")}>
            <div className="list-filter">
              <label className="field"><span className="label">{t("Session")}</span>
                <select className="input" value={session} onChange={(event) => go(at("/files/artifacts", { session: event.target.value }), true)}>
                  {list.map((one) => <option key={one.session} value={one.session}>{titleOf(one)}</option>)}
                </select>
              </label>
            </div>
            <ArtifactList session={session} />
          </section>
          {query.get("id") ? <ArtifactView key={query.get("id")} session={session} id={query.get("id")!} /> : (
            <div className="page"><Empty icon="doc" title={t("No artifact is open")}><p>{t("What agents make for you to keep, such as reports and pages, appears here with its versions.")}</p></Empty></div>
          )}
        </div>
      ) : <div className="page"><Empty icon="doc" title={t("No artifacts")}><p>{t("What agents make for you to keep, such as reports and pages, appears here with its versions.")}</p></Empty></div>}
    </Load>
  );
}

function ArtifactList({ session }: { session: string }) {
  const path = at("/api/artifacts", { session });
  const found = useResource<{ artifacts: Artifact[] }>(path, 5);
  const { query } = useRoute();
  return (
    <Load from={found} path={path} what={t("artifacts")}>
      {({ artifacts }) => artifacts.length ? (
        <ul>
          {artifacts.map((one) => (
            <li key={one.id}>
              <Link className="change" href={at("/files/artifacts", { session, id: one.id })} aria-current={query.get("id") === one.id ? "true" : undefined}>
                <Icon name="doc" /><span className="clip grow">{one.title || one.id}</span><span className="meta">{t("version {n}", { n: one.version })}</span>
              </Link>
            </li>
          ))}
        </ul>
      ) : <p className="group second">{t("This session made no artifacts.")}</p>}
    </Load>
  );
}

function ArtifactView({ session, id }: { session: string; id: string }) {
  const { query } = useRoute();
  const newest = useResource<Artifact>(at(`/api/artifacts/${encodeURIComponent(id)}`, { session }), 5);
  const last = newest.data?.version ?? 1;
  const version = Math.min(last, Number(query.get("version") ?? last) || last);
  const compare = query.get("compare") === "1" && version > 1;
  const path = at(`/api/artifacts/${encodeURIComponent(id)}`, { session, version, diff: compare ? version - 1 : undefined });
  const found = useResource<Artifact>(newest.data ? path : null);
  return (
    <div className="page">
      <div className="page-in reading">
        {newest.error && !newest.data ? <Failure error={newest.error} /> : (
          <Load from={found} path={path} what={t("the artifact")}>
            {(one) => (
              <>
                <header className="row row-wrap">
                  <Link className="btn btn-quiet btn-icon narrow turned" href={at("/files/artifacts", { session })} aria-label={t("Back to all artifacts")}><Icon name="chev" /></Link>
                  <div className="grow stack tight"><h2 className="detail-title">{one.title || one.id}</h2><p className="meta">{one.content_type}, {bytes(one.bytes)}, <code>{one.id}</code></p></div>
                  <label className="row"><span className="hide">{t("Version")}</span>
                    <select className="input" value={version} onChange={(event) => setQuery("version", event.target.value)}>
                      {Array.from({ length: last }, (_, n) => last - n).map((n) => <option key={n} value={n}>{n === last ? t("Version {n}, newest", { n }) : t("Version {n}", { n })}</option>)}
                    </select>
                  </label>
                  <div className="segment" role="group" aria-label={t("View")}>
                    <button aria-pressed={!compare} onClick={() => setQuery("compare", "")}>{t("Content")}</button>
                    <button aria-pressed={compare} disabled={version < 2} onClick={() => setQuery("compare", "1")}>{t("Changes")}</button>
                  </div>
                </header>
                <section className="card">{compare ? <Diff diff={one.diff ?? ""} path={one.title || one.id} /> : <ArtifactContent one={one} />}</section>
              </>
            )}
          </Load>
        )}
      </div>
    </div>
  );
}

function ArtifactContent({ one }: { one: Artifact }) {
  const content = typeof one.content === "string" ? one.content : JSON.stringify(one.content, null, 2);
  return <div className="card-body"><pre className="code artifact" tabIndex={0} aria-label={t("Content")}>{content}</pre></div>;
}

// -- the folder ------------------------------------------------------------------------------------------------

interface Entry {
  path: string;
  kind: string;
  size: number | null;
}

interface Listing {
  path: string;
  kind: "dir" | "file";
  entries?: Entry[];
  text?: string;
  more?: boolean;
  size?: number;
}

const isFolder = (entry: Entry) => entry.kind === "dir";

function Browse() {
  const { query } = useRoute();
  const path = query.get("path") ?? ".";
  const url = at("/api/files", { path });
  const found = useResource<Listing>(url);
  const parts = path === "." ? [] : path.split("/").filter(Boolean);
  return (
    <div className="page">
      <div className="page-in">
        <nav className="row row-wrap crumbs" aria-label={t("Folder")}>
          <Link href="/files/browse">{t("Workspace")}</Link>
          {parts.map((part, n) => <span key={n}>/ <Link href={at("/files/browse", { path: parts.slice(0, n + 1).join("/") })}><code>{part}</code></Link></span>)}
        </nav>
        <Load from={found} path={url} what={t("Files")} rows={8}>
          {(one) => one.entries ? (
            <section className="card" aria-label={path}>
              <div className="table-wrap"><table><tbody>
                {one.entries.map((entry) => {
                  const name = entry.path.split("/").at(-1)!;
                  const inside = [...parts, name].join("/");
                  return (
                    <tr key={entry.path}>
                      <td className="fit"><Icon name={isFolder(entry) ? "files" : "doc"} /></td>
                      <td><Link href={at("/files/browse", { path: inside })}><code>{name}{isFolder(entry) ? "/" : ""}</code></Link></td>
                      <td className="right meta num">{isFolder(entry) || entry.size === null ? "" : bytes(entry.size)}</td>
                    </tr>
                  );
                })}
                {!one.entries.length && <tr><td className="second">{t("This folder is empty.")}</td></tr>}
              </tbody></table></div>
            </section>
          ) : (
            <section className="card"><div className="card-head"><h2><code>{path}</code></h2><span className="grow" /><span className="meta">{one.size !== undefined && bytes(one.size)}</span></div>
              <div className="card-body"><pre className="code artifact" tabIndex={0} aria-label={path}>{one.text ?? ""}</pre>{one.more && <p className="meta">{t("The rest of the file is not shown.")}</p>}</div></section>
          )}
        </Load>
      </div>
    </div>
  );
}

