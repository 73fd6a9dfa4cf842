/** MCP servers: what they offer, and what of it changed since it was approved. */

import { useState } from "react";
import { ApiError, change, refresh, useResource } from "../api";
import { t } from "../i18n";
import { Tone } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Icon } from "../parts/icons";
import { Dialog, toast, toastError } from "../parts/overlay";
import { Page } from "../parts/shell";
import { Empty, Load } from "../parts/states";
import type { Server } from "../types";

interface Found {
  servers: Server[];
  ignored?: string[];
}

export function ServersPage() {
  const found = useResource<Found>("/api/servers", 10);
  const [adding, add] = useState(false);
  return (
    <Page tabTitle={t("Servers")} title={<h1>{t("MCP servers")}</h1>} bar={<><span className="grow" /><button className="btn" onClick={() => add(true)}><Icon name="plus" />{t("Add server")}</button></>}>
      <div className="page">
        <div className="page-in reading">
          <Load from={found} path="/api/servers" what={t("servers")}>
            {({ servers, ignored }) => (
              <>
                {servers.length ? <section className="calls" aria-label={t("Servers")}>{servers.map((one) => <ServerRow key={one.name} server={one} />)}</section> : (
                  <Empty icon="servers" title={t("No servers")}><p>{t("An MCP server gives the agent more tools. What they may do is decided by the same policy.")}</p><button className="btn" onClick={() => add(true)}>{t("Add server")}</button></Empty>
                )}
                {ignored && ignored.length > 0 && <div className="callout" data-tone="ask"><Icon name="lock" /><h2>{t("Found, not trusted yet")}</h2><ul>{ignored.map((one) => <li key={one}>{one}</li>)}</ul></div>}
              </>
            )}
          </Load>
        </div>
      </div>
      {adding && <AddServer onClose={() => add(false)} />}
    </Page>
  );
}

function state(server: Server): { tone: string; icon: string; word: string } {
  if (server.changed.length) return { tone: "ask", icon: "lock", word: t("{n, plural, one {# tool changed, blocked} other {# tools changed, blocked}}", { n: server.changed.length }) };
  switch (server.status) {
    case "ok": return { tone: "allow", icon: "allow", word: t("Answers") };
    case "failed": return { tone: "deny", icon: "error", word: t("Failed") };
    case "disabled": return { tone: "plain", icon: "ring", word: t("Off") };
    default: return { tone: "plain", icon: "ring", word: t("Not tested yet") };
  }
}

function ServerRow({ server }: { server: Server }) {
  const { tone, icon, word } = state(server);
  const [busy, setBusy] = useState(false);
  const [asking, ask] = useState<"accept" | "remove" | null>(null);
  const path = `/api/servers/${encodeURIComponent(server.name)}`;
  const act = async (what: () => Promise<unknown>, said: string) => {
    setBusy(true);
    ask(null);
    try {
      await what();
      if (said) toast(said);
    } catch (error) {
      toastError(error);
    }
    await refresh("/api/servers");
    setBusy(false);
  };
  return (
    <details className="call server" open={server.changed.length > 0 || server.error !== ""}>
      <summary>
        <Icon name="chev" small />
        <span className="server-name"><b className="strong">{server.name}</b><span className="meta clip">{server.runs}</span></span>
        <span className="grow" />
        {busy ? <Tone tone="plain" icon="busy">{t("Starting")}</Tone> : <Tone tone={tone} icon={icon}>{word}</Tone>}
        {server.tools.length > 0 && <span className="call-note wide num">{t("{n, plural, one {# tool} other {# tools}}", { n: server.tools.length })}</span>}
      </summary>
      <div className="call-body">
        {server.error && <p className="tone" data-tone="deny">{server.error}</p>}
        {server.warnings.map((one) => <p key={one} className="row tone" data-tone="ask"><Icon name="alert" small />{one}</p>)}
        {server.changed.map((one) => (
          <div className="stack" key={one.tool}>
            <p>{t("The definition of {tool} is not the one that you approved. Calls to it are blocked until you decide.", { tool: one.tool })}</p>
            <div className="card"><Diff diff={one.diff} path={t("{tool}, definition", { tool: one.tool })} /></div>
          </div>
        ))}
        <dl className="dl">
          <div className="dl-row"><dt>{t("Runs")}</dt><dd><code>{server.runs}</code></dd></div>
          <div className="dl-row"><dt>{t("From")}</dt><dd>{server.source}</dd></div>
          <div className="dl-row"><dt>{t("Tools")}</dt><dd>{server.tools.join(", ") || t("known after a test")}</dd></div>
          <div className="dl-row"><dt>{t("Approved")}</dt><dd>{server.pinned.length ? server.pinned.join(", ") : t("nothing yet; the first use approves")}</dd></div>
        </dl>
        <div className="row row-wrap">
          <button className="btn btn-sm" disabled={busy} onClick={() => void act(() => change("POST", `${path}/test`), "")}><Icon name="play" small />{t("Test")}</button>
          {server.changed.length > 0 && <button className="btn btn-sm btn-danger" disabled={busy} onClick={() => ask("accept")}>{t("Accept the new text…")}</button>}
          <span className="grow" />
          <button className="btn btn-quiet btn-sm btn-danger" disabled={busy} onClick={() => ask("remove")}>{t("Remove…")}</button>
        </div>
      </div>
      {asking === "accept" && (
        <Dialog title={t("Accept the new definitions?")} onClose={() => ask(null)}>
          <p className="second">{t("The agent reads this text as instructions for the tools of {name}. Accept it only if you expected the change.", { name: server.name })}</p>
          <div className="dialog-foot"><button className="btn" onClick={() => ask(null)}>{t("Keep blocked")}</button><button className="btn btn-danger" onClick={() => void act(() => change("POST", `${path}/accept`), t("Accepted."))}>{t("Accept the new text")}</button></div>
        </Dialog>
      )}
      {asking === "remove" && (
        <Dialog title={t("Remove {name}?", { name: server.name })} onClose={() => ask(null)}>
          <p className="second">{t("Its tools are gone from the next run on, with the approved definitions.")}</p>
          <div className="dialog-foot"><button className="btn" onClick={() => ask(null)}>{t("Cancel")}</button><button className="btn btn-danger" onClick={() => void act(() => change("DELETE", path), t("Removed."))}>{t("Remove server")}</button></div>
        </Dialog>
      )}
    </details>
  );
}

function AddServer({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [runs, setRuns] = useState("");
  const [error, setError] = useState("");
  const add = async () => {
    const url = /^https?:\/\//.test(runs.trim());
    const [command = "", ...args] = runs.trim().split(/\s+/);
    try {
      await change("POST", "/api/servers", url ? { name, url: runs.trim() } : { name, command, args });
      toast(t("Added. Nothing was started yet."));
      onClose();
      await refresh("/api/servers");
    } catch (told) {
      setError(told instanceof ApiError ? [told.message, told.hint].filter(Boolean).join(" ") : String(told));
    }
  };
  return (
    <Dialog title={t("Add server")} onClose={onClose}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); void add(); }}>
        <div className="field"><label htmlFor="server-name">{t("Name")}</label><input className="input" id="server-name" required value={name} onChange={(event) => setName(event.target.value)} /></div>
        <div className="field">
          <label htmlFor="server-runs">{t("Command or address")}</label>
          <input className="input mono" id="server-runs" required placeholder="npx tickets-mcp" value={runs} aria-invalid={error !== "" || undefined} aria-describedby="server-help" onChange={(event) => setRuns(event.target.value)} />
          {error ? <p className="field-error" id="server-help"><Icon name="alert" />{error}</p> : <p className="help" id="server-help">{t("It runs as you, in the sandbox where it can. Variables and headers are set in the file or with pegboard mcp add.")}</p>}
        </div>
        <div className="dialog-foot"><button className="btn" type="button" onClick={onClose}>{t("Cancel")}</button><button className="btn btn-primary" disabled={!name.trim() || !runs.trim()}>{t("Add server")}</button></div>
      </form>
    </Dialog>
  );
}
