/** What lies over the page: dialogs, toasts and the command palette. */

import { type ReactNode, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { ApiError } from "../api";
import { t } from "../i18n";
import { Icon } from "./icons";

/** A modal dialog; the browser traps the focus and gives it back. */
export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ReactNode; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current!;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog ref={ref} className={wide ? "dialog dialog-wide" : "dialog"} aria-labelledby="dialog-title"
      onCancel={(event) => { event.preventDefault(); onClose(); }}
      onClick={(event) => event.target === ref.current && onClose()}>
      <div className="dialog-in stack">
        <h2 id="dialog-title">{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

// -- toasts ----------------------------------------------------------------------------------------------------

interface ToastValue {
  id: number;
  text: string;
  tone: "allow" | "deny" | "plain";
  action?: { label: string; run: () => void };
}

let toasts: ToastValue[] = [];
let nextToast = 1;
const watchers = new Set<() => void>();

function setToasts(value: ToastValue[]) {
  toasts = value;
  for (const watch of watchers) watch();
}

const close = (id: number) => setToasts(toasts.filter((one) => one.id !== id));

/** Says what happened, for 6 seconds; with an action until it is closed. */
export function toast(text: string, tone: ToastValue["tone"] = "allow", action?: ToastValue["action"]) {
  const id = nextToast++;
  setToasts([...toasts.slice(-2), { id, text, tone, action }]);
  if (!action) setTimeout(() => close(id), 6000);
}

export function toastError(error: unknown) {
  const told = error instanceof ApiError ? [error.message, error.hint].filter(Boolean).join(" ") : String(error);
  toast(told, "deny");
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (watch) => (watchers.add(watch), () => watchers.delete(watch)),
    () => toasts,
  );
  return (
    <div className="toasts" role="region" aria-label={t("Messages")} aria-live="polite">
      {shown.map((one) => (
        <div className="toast" data-tone={one.tone} key={one.id} role={one.tone === "deny" ? "alert" : "status"}>
          <Icon name={one.tone === "deny" ? "alert" : "allow"} />
          <span>{one.text}</span>
          {one.action && <button className="btn btn-quiet btn-sm" onClick={() => { one.action!.run(); close(one.id); }}>{one.action.label}</button>}
          <button className="btn btn-quiet btn-sm btn-icon" aria-label={t("Close")} onClick={() => close(one.id)}>
            <Icon name="close" small />
          </button>
        </div>
      ))}
    </div>
  );
}

// -- the palette -----------------------------------------------------------------------------------------------

export interface Command {
  label: string;
  icon: string;
  note?: string;
  run: () => void;
}

/** @param more commands for what was typed, after those that match it. */
export function Palette({ commands, more, onClose }: { commands: Command[]; more: (query: string) => Command[]; onClose: () => void }) {
  const [query, setQuery] = useState("");
  const [active, setActive] = useState(0);
  const found = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = commands.filter((c) => words.every((word) => `${c.label} ${c.note ?? ""}`.toLowerCase().includes(word))).slice(0, 12);
    return words.length ? [...matching, ...more(query.trim())] : matching;
  }, [commands, query]);
  const pick = (command?: Command) => {
    if (!command) return;
    onClose();
    command.run();
  };
  return (
    <Dialog title={t("Search or jump to")} onClose={onClose}>
      <div className="search">
        <Icon name="search" small />
        <input className="input" autoFocus role="combobox" aria-expanded="true" aria-controls="palette" aria-label={t("Search or jump to")}
          aria-activedescendant={found[active] ? `palette-${active}` : undefined} value={query}
          onChange={(event) => { setQuery(event.target.value); setActive(0); }}
          onKeyDown={(event) => {
            const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (step) { event.preventDefault(); setActive((active + step + found.length) % Math.max(1, found.length)); }
            if (event.key === "Enter") { event.preventDefault(); pick(found[active]); }
          }} />
      </div>
      <ul className="menu palette" id="palette" role="listbox" aria-label={t("Commands")}>
        {found.map((command, n) => (
          <li key={`${command.label} ${n}`} id={`palette-${n}`} role="option" aria-selected={n === active} className="palette-option"
            onMouseEnter={() => setActive(n)} onClick={() => pick(command)}>
            <Icon name={command.icon} />
            <span className="grow clip">{command.label}</span>
            {command.note && <span className="meta">{command.note}</span>}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
