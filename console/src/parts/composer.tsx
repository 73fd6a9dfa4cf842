/** The field for a message, with files beside it and the model that answers. */

import { type ReactNode, useRef, useState } from "react";
import { useConnection, useMe, useResource } from "../api";
import { bytes, t } from "../i18n";
import { Link } from "../router";
import { usePolicy } from "./asks";
import { Icon } from "./icons";
import { toast, toastError } from "./overlay";
import { type Models, ready } from "./settings";
import { Callout } from "./states";

/** A message as the gateway takes it; the content of files is base64. */
export interface Message {
  text: string;
  model?: string;
  files: { name: string; media_type: string; content: string }[];
}

const MOST_FILES = 10;
const MOST_BYTES = 20 * 1024 * 1024;

const encode = (file: File) =>
  new Promise<Message["files"][number]>((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, media_type: file.type, content: String(reader.result).split(",")[1] ?? "" });
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });

interface Props {
  placeholder: string;
  onSend: (message: Message) => Promise<void>;
  busy?: boolean;
  last?: string;
  note?: ReactNode;
  /** The model of the session's last run. */
  model?: string;
  /** A run goes on and reads the message with its own model. */
  running?: boolean;
}

export function Composer({ placeholder, onSend, busy, last, note, model = "", running }: Props) {
  const [said, setSaid] = useState("");
  const [files, setFiles] = useState<File[]>([]);
  const [chosen, choose] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const { offline } = useConnection();
  const policy = usePolicy();
  const me = useMe();
  const models = useModels();
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const wanted = chosen ?? (models.names.includes(model) ? model : "");
  const attach = (added: File[]) => {
    const all = [...files, ...added];
    if (all.length > MOST_FILES) return toast(t("A message can have {n} files.", { n: MOST_FILES }), "deny");
    if (all.reduce((sum, one) => sum + one.size, 0) > MOST_BYTES) return toast(t("The files of a message can have {size} in all. Put larger ones into the folder and name them in the message.", { size: bytes(MOST_BYTES) }), "deny");
    setFiles(all);
  };
  const send = async () => {
    const text = said.trim();
    if (!text || sending || offline) return;
    setSending(true);
    try {
      await onSend({ text, files: await Promise.all(files.map(encode)), ...(wanted && !running ? { model: wanted } : {}) });
      setSaid("");
      setFiles([]);
    } catch (error) {
      toastError(error);
    }
    setSending(false);
    field.current?.focus();
  };
  if (!me.may("talk")) return <div className="dock"><div className="dock-in"><Callout tone="ask" icon="lock" title={t("You can look, not write")}><p className="second">{t("Your role is {role}.", { role: me.role })}</p></Callout></div></div>;
  return (
    <div className="dock">
      <div className="dock-in">
        <form className="composer" onSubmit={(event) => { event.preventDefault(); void send(); }}
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => { event.preventDefault(); attach([...event.dataTransfer.files]); }}>
          <label className="hide" htmlFor="say">{t("Message")}</label>
          <textarea id="say" ref={field} rows={Math.min(8, Math.max(2, said.split("\n").length))} placeholder={placeholder} value={said}
            onChange={(event) => setSaid(event.target.value)}
            onPaste={(event) => {
              if (event.clipboardData.files.length) { event.preventDefault(); attach([...event.clipboardData.files]); }
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) { event.preventDefault(); void send(); }
              if (event.key === "ArrowUp" && !said && last) { event.preventDefault(); setSaid(last); }
            }} />
          {files.length > 0 && (
            <ul className="composer-files" aria-label={t("Attached files")}>
              {files.map((one, n) => (
                <li className="file-chip" key={n}>
                  <Icon name="clip" small /><span className="clip" title={one.name}>{one.name}</span><span className="muted num">{bytes(one.size)}</span>
                  <button type="button" className="chip-close" aria-label={t("Remove {name}", { name: one.name })} onClick={() => setFiles(files.filter((_, k) => k !== n))}><Icon name="close" small /></button>
                </li>
              ))}
            </ul>
          )}
          <div className="composer-foot">
            <input ref={picker} type="file" multiple hidden aria-label={t("Attach files")} onChange={(event) => { attach([...(event.target.files ?? [])]); event.target.value = ""; }} />
            <button type="button" className="btn btn-quiet btn-icon btn-sm" aria-label={t("Attach files")} title={t("Attach files")} onClick={() => picker.current?.click()}><Icon name="clip" /></button>
            {models.names.length > 0 && (
              <select className="composer-model" aria-label={t("Model")} value={wanted} disabled={running} title={running ? t("The run goes on with its model.") : undefined} onChange={(event) => choose(event.target.value)}>
                <option value="">{models.standard || t("No model yet")}</option>
                {models.names.map((name) => <option key={name}>{name}</option>)}
              </select>
            )}
            {policy.data && <Link className="btn btn-quiet btn-sm wide" href="/policy"><Icon name="lock" small />{policy.data.mode}</Link>}
            <span className="grow" />
            {note}
            <button className="btn btn-primary btn-icon" aria-label={t("Send")} disabled={busy || sending || offline || !said.trim()}><Icon name="up" /></button>
          </div>
        </form>
      </div>
    </div>
  );
}

/** The models that can be chosen beside the default one; none if the token may not see them. */
function useModels(): { standard: string; names: string[] } {
  const me = useMe();
  const found = useResource<Models>(me.may("administer") ? "/api/models" : null).data;
  if (!found) return { standard: "", names: [] };
  const usable = found.models.filter((one) => ready(one) && one.name !== found.default && !one.name.includes("NAME")).map((one) => one.name);
  return { standard: found.default, names: usable };
}
