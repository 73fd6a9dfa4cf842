/** Access: who asks to be let in, who is, and the tokens that were given out. For owners. */

import { useState } from "react";
import { ApiError, change, refresh, useMe, useResource } from "../api";
import { t } from "../i18n";
import { Moment } from "../parts/basic";
import { Icon } from "../parts/icons";
import { Dialog, toast, toastError } from "../parts/overlay";
import { Callout, Load } from "../parts/states";

interface Asking {
  code: string;
  kind: string;
  who: string;
  name: string;
  at: number;
}

interface Paired {
  kind: string;
  who: string;
  name: string;
  role: string;
  by: string;
  at: number;
}

interface Token {
  name: string;
  role: string;
  created: number;
  by: string;
}

const ROLES = ["owner", "operator", "user", "viewer"];

const roleSentence = (role: string): string => {
  switch (role) {
    case "owner": return t("May do everything that you may.");
    case "operator": return t("Starts runs, calls tools and answers approvals of its own sessions.");
    case "viewer": return t("Sees everything and changes nothing.");
    default: return t("Starts runs and answers questions in its own sessions.");
  }
};

function RoleField({ role, onChange }: { role: string; onChange: (role: string) => void }) {
  return (
    <div className="field">
      <label htmlFor="role">{t("Role")}</label>
      <select className="input" id="role" value={role} aria-describedby="role-help" onChange={(event) => onChange(event.target.value)}>{ROLES.map((one) => <option key={one}>{one}</option>)}</select>
      <p className="help" id="role-help">{roleSentence(role)}</p>
    </div>
  );
}

export function Access() {
  const me = useMe();
  if (!me.may("administer")) return <Callout tone="ask" icon="lock" title={t("Only owners manage access")}><p className="second">{t("Your role is {role}.", { role: me.role })}</p></Callout>;
  return <><Pairings /><Tokens /></>;
}

// -- pairing ---------------------------------------------------------------------------------------------------

function Pairings() {
  const found = useResource<{ pending: Asking[]; paired: Paired[] }>("/api/pairings", 4);
  const [letting, letIn] = useState<Asking | null>(null);
  const [removing, remove] = useState<Paired | null>(null);
  return (
    <>
      <section className="card" aria-labelledby="asking">
        <div className="card-head"><h2 id="asking">{t("Requests for access")}</h2></div>
        <Load from={found} path="/api/pairings" what={t("requests")}>
          {({ pending }) => pending.length ? (
            <div className="table-wrap"><table>
              <thead><tr><th>{t("Code")}</th><th>{t("Who")}</th><th className="wide">{t("Asked")}</th><th><span className="hide">{t("Answer")}</span></th></tr></thead>
              <tbody>{pending.map((one) => (
                <tr key={one.code}>
                  <td className="fit"><code className="pair-code">{one.code}</code></td>
                  <td>{one.name || one.who}<div className="meta">{one.kind}</div></td>
                  <td className="wide meta num fit"><Moment at={one.at} /></td>
                  <td className="fit"><button className="btn btn-sm" onClick={() => letIn(one)}>{t("Answer…")}</button></td>
                </tr>
              ))}</tbody>
            </table></div>
          ) : <p className="card-body second">{t("No requests. A browser without a token can ask for access at this address; its code appears here for 10 minutes.")}</p>}
        </Load>
      </section>
      <section className="card" aria-labelledby="paired">
        <div className="card-head"><h2 id="paired">{t("Paired senders and devices")}</h2></div>
        <Load from={found} path="/api/pairings" what={t("pairings")}>
          {({ paired }) => paired.length ? (
            <div className="table-wrap"><table>
              <thead><tr><th>{t("Who")}</th><th>{t("Role")}</th><th className="wide">{t("Since")}</th><th><span className="hide">{t("Remove")}</span></th></tr></thead>
              <tbody>{paired.map((one) => (
                <tr key={`${one.kind} ${one.who}`}>
                  <td>{one.name || one.who}<div className="meta">{one.kind}</div></td>
                  <td className="second">{one.kind === "node" ? "–" : one.role}</td>
                  <td className="wide meta num fit"><Moment at={one.at} /></td>
                  <td className="fit"><button className="btn btn-quiet btn-sm btn-danger" onClick={() => remove(one)}>{t("Remove…")}</button></td>
                </tr>
              ))}</tbody>
            </table></div>
          ) : <p className="card-body second">{t("None yet. Chat senders and nodes appear here once you have approved them.")}</p>}
        </Load>
      </section>
      {letting && <LetIn asking={letting} onClose={() => letIn(null)} />}
      {removing && (
        <Dialog title={t("Remove {name}?", { name: removing.name || removing.who })} onClose={() => remove(null)}>
          <p className="second">{t("It has no access until you approve a new code.")}</p>
          <div className="dialog-foot"><button className="btn" onClick={() => remove(null)}>{t("Cancel")}</button>
            <button className="btn btn-danger" onClick={() => void act(() => change("DELETE", `/api/pairings/${encodeURIComponent(removing.kind)}/${encodeURIComponent(removing.who)}`), t("Removed."), () => remove(null))}>{t("Remove pairing")}</button></div>
        </Dialog>
      )}
    </>
  );
}

async function act(what: () => Promise<unknown>, said: string, done: () => void) {
  try {
    await what();
    toast(said);
    done();
  } catch (error) {
    toastError(error);
  }
  await refresh("/api/pairings", "/api/tokens");
}

function LetIn({ asking, onClose }: { asking: Asking; onClose: () => void }) {
  const [role, setRole] = useState("user");
  const answer = (decision: string, said: string) => act(() => change("POST", `/api/pairings/${encodeURIComponent(asking.code)}`, { decision, ...(decision === "approve" ? { role } : {}) }), said, onClose);
  return (
    <Dialog title={t("Give {name} access?", { name: asking.name || asking.who })} onClose={onClose}>
      <p className="pair-code large"><code>{asking.code}</code></p>
      <p className="second">{t("Approve it only if the device or chat in front of you shows exactly this code. Anyone who reaches this address can ask, under any name.")}</p>
      {asking.kind !== "node" && <RoleField role={role} onChange={setRole} />}
      <div className="dialog-foot">
        <button className="btn btn-danger" onClick={() => void answer("refuse", t("Refused."))}>{t("Refuse")}</button>
        <span className="grow" />
        <button className="btn" onClick={onClose}>{t("Cancel")}</button>
        <button className="btn btn-primary" onClick={() => void answer("approve", t("Access given."))}>{t("The codes match: give access")}</button>
      </div>
    </Dialog>
  );
}

// -- tokens ----------------------------------------------------------------------------------------------------

function Tokens() {
  const found = useResource<{ tokens: Token[] }>("/api/tokens", 15);
  const [making, make] = useState(false);
  const [removing, remove] = useState<Token | null>(null);
  return (
    <section className="card" aria-labelledby="tokens">
      <div className="card-head"><h2 id="tokens">{t("Tokens")}</h2><span className="grow" /><button className="btn btn-sm" onClick={() => make(true)}><Icon name="plus" small />{t("New token")}</button></div>
      <Load from={found} path="/api/tokens" what={t("tokens")}>
        {({ tokens }) => tokens.length ? (
          <div className="table-wrap"><table>
            <thead><tr><th>{t("Name")}</th><th>{t("Role")}</th><th className="wide">{t("Made by")}</th><th className="wide">{t("Made")}</th><th><span className="hide">{t("Revoke")}</span></th></tr></thead>
            <tbody>{tokens.map((one) => (
              <tr key={one.name}>
                <td><b className="strong">{one.name}</b></td><td className="second">{one.role}</td><td className="wide second">{one.by}</td><td className="wide meta num fit"><Moment at={one.created} /></td>
                <td className="fit"><button className="btn btn-quiet btn-sm btn-danger" aria-label={t("Revoke {name}…", { name: one.name })} onClick={() => remove(one)}>{t("Revoke…")}</button></td>
              </tr>
            ))}</tbody>
          </table></div>
        ) : <p className="card-body second">{t("None. The token that pegboard serve printed, or PEGBOARD_TOKEN, is not listed here.")}</p>}
      </Load>
      {making && <NewToken onClose={() => make(false)} />}
      {removing && (
        <Dialog title={t("Revoke {name}?", { name: removing.name })} onClose={() => remove(null)}>
          <p className="second">{t("The token stops working within seconds. Its sessions stay.")}</p>
          <div className="dialog-foot"><button className="btn" onClick={() => remove(null)}>{t("Cancel")}</button>
            <button className="btn btn-danger" onClick={() => void act(() => change("DELETE", `/api/tokens/${encodeURIComponent(removing.name)}`), t("Revoked."), () => remove(null))}>{t("Revoke token")}</button></div>
        </Dialog>
      )}
    </section>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("user");
  const [error, setError] = useState("");
  const [token, setToken] = useState("");
  const make = async () => {
    try {
      setToken((await change<{ token: string }>("POST", "/api/tokens", { name: name.trim(), role })).token);
      await refresh("/api/tokens");
    } catch (told) {
      setError(told instanceof ApiError ? [told.message, told.hint].filter(Boolean).join(" ") : String(told));
    }
  };
  if (token) {
    return (
      <Dialog title={t("The token of {name}", { name })} onClose={onClose}>
        <p className="second">{t("It is shown this once. Hand it over where nobody else reads it.")}</p>
        <div className="row"><input className="input mono grow" readOnly aria-label={t("Token")} value={token} onFocus={(event) => event.target.select()} />
          <button className="btn" onClick={() => void navigator.clipboard?.writeText(token).then(() => toast(t("Copied.")))}><Icon name="copy" small />{t("Copy")}</button></div>
        <div className="dialog-foot"><button className="btn btn-primary" onClick={onClose}>{t("Close")}</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title={t("New token")} onClose={onClose}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); void make(); }}>
        <div className="field">
          <label htmlFor="token-name">{t("Name")}</label>
          <input className="input" id="token-name" required maxLength={40} value={name} aria-invalid={error !== "" || undefined} aria-describedby="token-help" onChange={(event) => setName(event.target.value)} />
          {error ? <p className="field-error" id="token-help"><Icon name="alert" />{error}</p> : <p className="help" id="token-help">{t("Shown in the record, such as ann or build-server.")}</p>}
        </div>
        <RoleField role={role} onChange={setRole} />
        <div className="dialog-foot"><button className="btn" type="button" onClick={onClose}>{t("Cancel")}</button><button className="btn btn-primary" disabled={!name.trim()}>{t("Make token")}</button></div>
      </form>
    </Dialog>
  );
}
