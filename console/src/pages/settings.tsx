/** Settings: how this browser shows the console, the model, what this machine can do; and the first run. */

import { type ReactNode, useState } from "react";
import { signOut, useResource } from "../api";
import { type Language, chooseLanguage, language, t } from "../i18n";
import { lettersOn, setLetters } from "../keys";
import { usePolicy } from "../parts/asks";
import { Tone } from "../parts/basic";
import { Icon, Logo } from "../parts/icons";
import { type Models, ready, setConfig, useConfig } from "../parts/settings";
import { Page, switchTheme, useWorkspace } from "../parts/shell";
import { Load } from "../parts/states";
import { Link, go } from "../router";
import { Access } from "./access";
import { modeSentence } from "./chat";

interface Doctor {
  pegboard: string;
  python: string;
  platform: string;
  workspace: string;
  mode: string;
  config: string[];
  ignored: string[];
  sandbox: Record<string, unknown>;
  programs: Record<string, string | null>;
  extras: Record<string, boolean>;
  browser: { program: string; sandbox: boolean; reason: string };
  history: { error: string; damaged: string };
  folders: Record<string, string>;
}

export function SettingsPage({ view }: { view: string }) {
  return (
    <Page tabTitle={t("Settings")} title={<h1>{t("Settings")}</h1>} bar={<><span className="grow" /><Link className="btn" href="/setup">{t("Set up again")}</Link></>}>
      <nav className="tabs" aria-label={t("Settings")}>
        <Link href="/settings" aria-current={view === "" ? "page" : undefined}>{t("General")}</Link>
        <Link href="/settings/access" aria-current={view === "access" ? "page" : undefined}>{t("Access")}</Link>
      </nav>
      <div className="page">
        <div className="page-in reading">
          {view === "access" ? <Access /> : <><ThisBrowser /><ModelCard /><Keys /><ConfigCard /><Machine /></>}
        </div>
      </div>
    </Page>
  );
}

/** Which keys of models are set and where they come from; never what they are. */
function Keys() {
  const models = useResource<Models>("/api/models");
  return (
    <section className="card" aria-labelledby="keys">
      <div className="card-head"><h2 id="keys">{t("Provider keys")}</h2></div>
      <Load from={models} path="/api/models" what={t("keys")}>
        {({ keys }) => (
          <div className="table-wrap">
            <table>
              <thead><tr><th>{t("Provider")}</th><th>{t("State")}</th><th>{t("From")}</th></tr></thead>
              <tbody>{keys.map((one) => <tr key={one.provider}><td>{one.provider}</td><td className="fit"><KeyState set={one.set} /></td><td><code>{one.source}</code></td></tr>)}</tbody>
            </table>
          </div>
        )}
      </Load>
      <p className="card-foot second">{t("Keys stay where they are. They are never shown here.")}</p>
    </section>
  );
}

const KeyState = ({ set }: { set: boolean }) => <Tone tone={set ? "allow" : "plain"} icon={set ? "allow" : "ring"}>{set ? t("set") : t("not set")}</Tone>;

const THEME = "pegboard.theme";

function ThisBrowser() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "system");
  const [letters, setOn] = useState(lettersOn());
  const choose = (chosen: string) => {
    if (chosen === "system") {
      localStorage.removeItem(THEME);
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem(THEME, chosen);
      document.documentElement.dataset.theme = chosen;
    }
    setTheme(chosen);
  };
  const speak = (chosen: Language) => {
    chooseLanguage(chosen);
    dispatchEvent(new Event("pegboard:language"));
  };
  const themes: [string, string][] = [["system", t("System")], ["light", t("Light")], ["dark", t("Dark")]];
  return (
    <section className="card" aria-labelledby="browser">
      <div className="card-head"><h2 id="browser">{t("This browser")}</h2></div>
      <div className="card-body stack">
        <div className="row row-wrap"><span className="grow" id="theme-label">{t("Theme")}</span><div className="segment" role="group" aria-labelledby="theme-label">{themes.map(([name, label]) => <button key={name} aria-pressed={theme === name} onClick={() => choose(name)}>{label}</button>)}</div></div>
        <div className="row row-wrap"><span className="grow" id="language-label">{t("Language")}</span><div className="segment" role="group" aria-labelledby="language-label">
          <button lang="en" aria-pressed={language() === "en"} onClick={() => speak("en")}>English</button>
          <button lang="zh" aria-pressed={language() === "zh"} onClick={() => speak("zh")}>中文</button>
        </div></div>
        <label className="row"><span className="grow">{t("Single letters are keys")}<br /><span className="meta">{t("Y allows, N denies, G then C opens Chat. ? lists them.")}</span></span><input className="switch" type="checkbox" role="switch" checked={letters} onChange={(event) => { setLetters(event.target.checked); setOn(event.target.checked); }} /></label>
      </div>
      <div className="card-foot"><span className="grow second">{t("The token is kept in this tab until you close it.")}</span><button className="btn btn-sm" onClick={signOut}>{t("Forget the token")}</button></div>
    </section>
  );
}

function ModelCard() {
  const models = useResource<Models>("/api/models");
  const config = useConfig();
  return (
    <section className="card" aria-labelledby="model">
      <div className="card-head"><h2 id="model">{t("Model")}</h2><span className="grow" />{models.data?.default && <code className="meta clip">{models.data.default}</code>}</div>
      <Load from={models} path="/api/models" what={t("models")}>
        {(found) => (
          <div className="table-wrap">
            <table>
              <thead><tr><th>{t("Model")}</th><th>{t("State")}</th><th><span className="hide">{t("Use")}</span></th></tr></thead>
              <tbody>
                {found.models.map((one) => (
                  <tr key={one.name} aria-selected={found.default === one.name}>
                    <td><code>{one.name}</code></td>
                    <td className="second">{one.status}</td>
                    <td className="fit">{config.data && ready(one) && found.default !== one.name && !one.name.includes("NAME") && <button className="btn btn-quiet btn-sm" aria-label={t("Use {name}", { name: one.name })} onClick={() => void setConfig(config.data!, { model: one.name })}>{t("Use")}</button>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Load>
    </section>
  );
}

function ConfigCard() {
  const config = useConfig();
  return (
    <section className="card" aria-labelledby="config">
      <div className="card-head"><h2 id="config">{t("Settings files")}</h2><span className="grow" />{config.data && <code className="meta clip">{config.data.file}</code>}</div>
      <Load from={config} path="/api/config" what={t("settings")}>
        {({ values, file }) => Object.keys(values).length ? (
          <div className="table-wrap">
            <table>
              <thead><tr><th>{t("Key")}</th><th>{t("Value")}</th><th className="wide">{t("From")}</th></tr></thead>
              <tbody>{Object.entries(values).map(([key, one]) => <tr key={key}><td className="fit"><code>{key}</code></td><td><code>{typeof one.value === "string" ? one.value : JSON.stringify(one.value)}</code></td><td className="wide meta">{one.file === file ? t("you") : one.file}</td></tr>)}</tbody>
            </table>
          </div>
        ) : <p className="card-body second">{t("Nothing is set. Everything has its default.")}</p>}
      </Load>
    </section>
  );
}

function facts(doctor: Doctor): { ok: boolean; text: string }[] {
  const backend = String(doctor.sandbox.backend ?? doctor.sandbox.name ?? "");
  const level = doctor.sandbox.error || doctor.sandbox.reason;
  return [
    { ok: backend !== "" && backend !== "none", text: backend && backend !== "none" ? t("Sandbox: {name}", { name: backend }) : t("No sandbox: commands ask. {why}", { why: String(level ?? "") }) },
    { ok: !doctor.history.error && !doctor.history.damaged, text: doctor.history.error || doctor.history.damaged || t("History and undo are kept") },
    { ok: doctor.browser.program !== "", text: doctor.browser.program ? t("Browser tools: {program}", { program: doctor.browser.program }) : t("No Chromium: browser tools are off") },
  ];
}

function Facts({ doctor }: { doctor: Doctor }) {
  return <ul className="lines">{facts(doctor).map((one) => <li key={one.text}><Tone tone={one.ok ? "allow" : "ask"} icon={one.ok ? "allow" : "alert"} /><span>{one.text}</span></li>)}</ul>;
}

function Machine() {
  const doctor = useResource<Doctor>("/api/doctor");
  const row = (name: string, value: ReactNode) => <div className="dl-row" key={name}><dt>{name}</dt><dd>{value}</dd></div>;
  return (
    <section className="card" aria-labelledby="machine">
      <div className="card-head"><h2 id="machine">{t("This machine")}</h2></div>
      <div className="card-body">
        <Load from={doctor} path="/api/doctor" what={t("checks")}>
          {(found) => (
            <div className="stack">
              <Facts doctor={found} />
              <dl className="dl">
                {row("Pegboard", found.pegboard)}
                {row(t("Folder"), <code>{found.workspace}</code>)}
                {row(t("State"), <code>{found.folders.state}</code>)}
                {row(t("Programs"), Object.entries(found.programs).filter(([, path]) => path).map(([name]) => name).join(", "))}
                {row(t("Extras"), Object.entries(found.extras).filter(([, has]) => has).map(([name]) => name).join(", "))}
                {found.ignored.length > 0 && row(t("Not trusted"), found.ignored.join(", "))}
              </dl>
            </div>
          )}
        </Load>
      </div>
    </section>
  );
}

// -- the first run ---------------------------------------------------------------------------------------------

const PROVIDERS = [
  { name: "Anthropic", prefix: "anthropic:", host: "api.anthropic.com" },
  { name: "OpenAI", prefix: "openai:", host: "api.openai.com" },
  { name: "Google", prefix: "gemini:", host: "generativelanguage.googleapis.com" },
];

export function SetupPage({ step }: { step: string }) {
  const folder = useWorkspace();
  const doctor = useResource<Doctor>("/api/doctor");
  const steps: [string, string][] = [["folder", t("Folder")], ["model", t("Model")], ["permissions", t("Permissions")]];
  const place = Math.max(0, steps.findIndex(([name]) => name === step));
  const title = [t("The folder"), t("Choose a model"), t("What the agent may do")][place]!;
  return (
    <main className="setup setup-two" id="main" tabIndex={-1}>
      <header className="stack stack-lg">
        <div className="row"><Logo /><b className="strong grow">Pegboard</b><button type="button" className="btn btn-quiet btn-icon" aria-label={t("Switch theme")} onClick={switchTheme}><Icon name="sun" /></button></div>
        <ol className="progress" aria-label={t("Steps")}>
          {steps.map(([name, label], n) => <li key={name} aria-current={n === place ? "step" : undefined}>{n < place ? <Tone tone="allow" icon="allow" /> : <span className="num">{n + 1}</span>}{label}</li>)}
        </ol>
        <h1>{title}</h1>
      </header>
      {place === 0 ? <FolderStep folder={doctor.data?.workspace ?? folder} /> : place === 1 ? <ModelStep /> : <PermissionStep />}
      <aside className="setup-side" aria-label={t("What this means")}>
        {place === 1 && <section className="stack"><h2 className="section-title">{t("Leaves this machine")}</h2><p className="meta">{t("With a hosted model: messages, tool results and the parts of files that tools read, to that provider alone. Secrets are taken out first.")}</p></section>}
        <section className="stack"><h2 className="section-title">{t("Stays here")}</h2><p className="meta">{t("History, undo, artifacts and keys, for you alone to read.")} {doctor.data && <code>{doctor.data.folders.state}</code>}</p></section>
        {doctor.data && <section className="stack"><h2 className="section-title">{t("Checked on this machine")}</h2><Facts doctor={doctor.data} /></section>}
      </aside>
    </main>
  );
}

function Steps({ back, next, label, disabled }: { back?: string; next: () => void; label: string; disabled?: boolean }) {
  return <div className="row">{back && <Link className="btn" href={back}>{t("Back")}</Link>}<span className="grow" /><button className="btn btn-primary" type="button" disabled={disabled} onClick={next}>{label}</button></div>;
}

function FolderStep({ folder }: { folder: string }) {
  return (
    <div className="stack stack-lg">
      <section className="card card-body stack"><p><code>{folder}</code></p><p className="meta">{t("The agent works in this folder and sees nothing else unless you allow it. To serve another one, start pegboard serve there.")}</p></section>
      <Steps next={() => go("/setup/model")} label={t("Continue")} />
    </div>
  );
}

const variable = (source: string) => source.replace(/^env:/, "");

function ModelStep() {
  const models = useResource<Models>("/api/models");
  const config = useConfig();
  const [chosen, choose] = useState("");
  const found = models.data?.models ?? [];
  const hosted = PROVIDERS.flatMap((one) => found.filter((model) => model.name.startsWith(one.prefix) && !model.name.includes("@")).slice(0, 1).map((model) => ({ ...one, model })));
  const others = found.filter((one) => ready(one) && one.name !== "local" && !hosted.some((h) => h.model === one));
  const current = chosen || models.data?.default || "local";
  const provider = hosted.find((one) => one.model.name === current);
  const key = provider && models.data?.keys.find((one) => provider.prefix === `${one.provider}:`);
  const save = async () => {
    if (current === models.data?.default || (config.data && (await setConfig(config.data, { model: current })))) go("/setup/permissions");
  };
  const option = (model: string, name: string, note: string, badge: string) => (
    <label className="option" key={model}><input type="radio" name="model" checked={current === model} onChange={() => choose(model)} /><span><b className="strong">{name}</b><br /><span className="meta">{note}</span></span><span className="badge">{badge}</span></label>
  );
  return (
    <Load from={models} path="/api/models" what={t("models")}>
      {() => (
        <form className="stack stack-lg" onSubmit={(event) => event.preventDefault()}>
          <fieldset className="card">
            <legend className="hide">{t("Model")}</legend>
            {hosted.map((one) => option(one.model.name, one.name, one.model.name, models.data?.keys.some((k) => k.set && one.prefix === `${k.provider}:`) ? t("Key set") : t("No key")))}
            {provider && key && (
              <div className="option-more second">
                {key.set ? t("The key is set in {key}. It is sent to {host} alone.", { key: variable(key.source), host: provider.host }) : t("Set {key} where pegboard serve runs and start it again. It is sent to {host} alone.", { key: variable(key.source), host: provider.host })}
                {!ready(provider.model) && key.set && <> {provider.model.status}</>}
              </div>
            )}
            {others.map((one) => option(one.name, one.name, one.status, t("Local")))}
            {option("local", t("No model yet"), t("Run tools by hand. A keyword router understands simple requests."), t("Local"))}
          </fieldset>
          <Steps back="/setup" next={() => void save()} label={t("Continue")} disabled={!config.data} />
        </form>
      )}
    </Load>
  );
}

function PermissionStep() {
  const policy = usePolicy();
  const config = useConfig();
  const [chosen, choose] = useState("");
  const current = chosen || policy.data?.mode || "workspace";
  const save = async () => {
    if (current === policy.data?.mode || (config.data && (await setConfig(config.data, { mode: current })))) go("/chat");
  };
  return (
    <form className="stack stack-lg" onSubmit={(event) => event.preventDefault()}>
      <fieldset className="card">
        <legend className="hide">{t("Mode")}</legend>
        {["read-only", "ask", "workspace", "auto", "full"].map((mode) => (
          <label className="option" key={mode}><input type="radio" name="mode" checked={current === mode} onChange={() => choose(mode)} /><span><b className="strong">{mode}</b><br /><span className="meta">{modeSentence(mode)}</span></span>{mode === "workspace" && <span className="badge">{t("Default")}</span>}</label>
        ))}
      </fieldset>
      <Steps back="/setup/model" next={() => void save()} label={t("Open the console")} disabled={!config.data} />
    </form>
  );
}
