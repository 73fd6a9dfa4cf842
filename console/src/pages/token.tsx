/** The token: asked for once a tab, kept until it is closed; or asked for at the owner, who approves a code. */

import { useEffect, useState } from "react";
import { ApiError, change, signIn, useConnection } from "../api";
import { t } from "../i18n";
import { Icon, Logo } from "../parts/icons";

const LOOK_MS = 2000;

export function TokenPage() {
  const { refused, token } = useConnection();
  const [typed, setTyped] = useState("");
  const [asking, ask] = useState(false);
  const wrong = refused && token !== "";
  return (
    <main className="setup" id="main">
      <header className="stack stack-lg">
        <div className="row"><Logo /><b className="strong grow">Pegboard</b></div>
        <div className="stack tight">
          <h1>{asking ? t("Ask for access") : t("Enter the token")}</h1>
          <p className="second">{asking ? t("The owner approves the code in their console, under Settings, Access.") : t("pegboard serve printed it when it started, or it is what PEGBOARD_TOKEN was set to. It is kept in this tab until you close it.")}</p>
        </div>
      </header>
      {asking ? <AskAccess onClose={() => ask(false)} /> : (
        <form className="stack" onSubmit={(event) => { event.preventDefault(); signIn(typed.trim()); }}>
          <div className="field">
            <label htmlFor="token">{t("Token")}</label>
            <input className="input mono" id="token" type="password" autoComplete="current-password" autoFocus value={typed} aria-invalid={wrong || undefined}
              aria-describedby={wrong ? "token-wrong" : undefined} onChange={(event) => setTyped(event.target.value)} />
            {wrong && <p className="field-error" id="token-wrong"><Icon name="alert" />{t("The gateway does not know this token.")}</p>}
          </div>
          <div className="row"><button className="btn btn-quiet" type="button" onClick={() => ask(true)}>{t("I have no token")}</button><span className="grow" /><button className="btn btn-primary" disabled={!typed.trim()}>{t("Open the console")}</button></div>
        </form>
      )}
    </main>
  );
}

/** Asks for a token of this browser's own: the code is shown to the owner, the secret stays here and fetches the token. */
function AskAccess({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [waiting, setWaiting] = useState<{ code: string; secret: string } | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!waiting) return;
    const timer = setInterval(async () => {
      try {
        const found = await change<{ token?: string }>("POST", "/api/pairing/token", { secret: waiting.secret });
        if (found.token) signIn(found.token);
      } catch (told) {
        if (told instanceof ApiError && told.status === 0) return;
        setError(told instanceof ApiError ? [told.message, told.hint].filter(Boolean).join(". ") : String(told));
        setWaiting(null);
      }
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [waiting]);
  const ask = async () => {
    setError("");
    try {
      setWaiting(await change("POST", "/api/pairing", { name: name.trim() }));
    } catch (told) {
      setError(told instanceof ApiError ? [told.message, told.hint].filter(Boolean).join(" ") : String(told));
    }
  };
  if (waiting) {
    return (
      <div className="stack" role="status">
        <p className="pair-code large"><code>{waiting.code}</code></p>
        <p className="second">{t("Show this code to the owner. This page opens the console once they approve it.")}</p>
        <div className="row"><button className="btn" onClick={() => { setWaiting(null); onClose(); }}>{t("Cancel")}</button></div>
      </div>
    );
  }
  return (
    <form className="stack" onSubmit={(event) => { event.preventDefault(); void ask(); }}>
      <div className="field">
        <label htmlFor="device">{t("Name of this browser")}</label>
        <input className="input" id="device" autoFocus required maxLength={100} placeholder={t("Ann’s phone")} value={name} aria-invalid={error !== "" || undefined} aria-describedby={error ? "device-wrong" : undefined} onChange={(event) => setName(event.target.value)} />
        {error && <p className="field-error" id="device-wrong"><Icon name="alert" />{error}</p>}
      </div>
      <div className="row"><button className="btn btn-quiet" type="button" onClick={onClose}>{t("Enter a token instead")}</button><span className="grow" /><button className="btn btn-primary" disabled={!name.trim()}>{t("Show a code")}</button></div>
    </form>
  );
}
