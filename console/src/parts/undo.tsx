/** Undo: always shows first what it would do, with what it keeps and what it cannot take back. */

import { useState } from "react";
import { change, refresh, useResource } from "../api";
import { t } from "../i18n";
import type { UndoEntry, UndoReport } from "../types";
import { ChangeCard } from "./diff";
import { Icon } from "./icons";
import { Callout } from "./states";
import { Dialog, toast, toastError } from "./overlay";

export const useUndo = () => useResource<{ entries: UndoEntry[] }>("/api/undo");

export async function redo() {
  try {
    const done = await change<UndoReport>("POST", "/api/undo", { redo: true });
    toast(t("{n, plural, one {# change redone.} other {# changes redone.}}", { n: done.changes.length }));
  } catch (error) {
    toastError(error);
  }
  await refresh("/api/undo", "/api/files");
}

/** Undo of a call, a run, or (without target) of the last change. */
export function UndoButton({ target, label = t("Undo"), small = true, primary }: { target?: string; label?: string; small?: boolean; primary?: boolean }) {
  const [report, setReport] = useState<UndoReport | null>(null);
  const [busy, setBusy] = useState(false);
  const entries = useUndo().data?.entries;
  const known = target ? entries?.filter((e) => e.call === target || e.run === target) : undefined;
  const undone = known !== undefined && known.length > 0 && known.every((e) => !e.holds);
  if (undone) return <span className="meta">{t("Undone")}</span>;
  const preview = async () => {
    setBusy(true);
    try {
      setReport(await change<UndoReport>("POST", "/api/undo", { ...(target ? { target } : {}), preview: true }));
    } catch (error) {
      toastError(error);
    }
    setBusy(false);
  };
  return (
    <>
      <button className={`btn ${small ? "btn-sm btn-quiet" : ""} ${primary ? "btn-primary" : ""}`} disabled={busy} onClick={() => void preview()}>
        <Icon name="undo" small={small} />
        {label}
      </button>
      {report && <UndoDialog report={report} target={target} onClose={() => setReport(null)} />}
    </>
  );
}

export function UndoDialog({ report, target, onClose }: { report: UndoReport; target?: string; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const n = report.changes.length;
  const label = t("{n, plural, one {Undo # change} other {Undo # changes}}", { n });
  const act = async () => {
    setBusy(true);
    try {
      const done = await change<UndoReport>("POST", "/api/undo", target ? { target } : {});
      toast(t("{n, plural, one {# change undone.} other {# changes undone.}}", { n: done.changes.length }), "allow", { label: t("Redo"), run: () => void redo() });
      onClose();
    } catch (error) {
      toastError(error);
      setBusy(false);
    }
    await refresh("/api/undo", "/api/files");
  };
  return (
    <Dialog title={`${label}?`} onClose={onClose} wide>
      {report.kept.length > 0 && (
        <Callout icon="undo" title={t("Undo keeps your edits")}>
          <p className="second">{t("Only what the agent changed goes back.")}</p>
          <ul>{report.kept.map((one) => <li key={one}>{one}</li>)}</ul>
        </Callout>
      )}
      {report.conflicts.length > 0 && (
        <Callout tone="deny" icon="alert" title={t("Some files were changed in the same place since")}>
          <ul>{report.conflicts.map((one) => <li key={one.path}><code>{one.path}</code>: {one.reason}</li>)}</ul>
        </Callout>
      )}
      {report.missed.length > 0 && (
        <Callout tone="ask" icon="alert" title={t("This cannot be taken back")}>
          <ul>{report.missed.map((one) => <li key={one}>{one}</li>)}</ul>
        </Callout>
      )}
      <div className="undo-diffs stack">{report.changes.map((one) => <ChangeCard key={one.path} change={one} open={n < 4} />)}</div>
      {!n && <p className="second">{t("There is nothing left to undo.")}</p>}
      <p className="help">{t("The files as they are now are kept, so you can redo this.")}</p>
      <div className="dialog-foot">
        <button className="btn" onClick={onClose}>{t("Cancel")}</button>
        <button className="btn btn-primary" disabled={busy || !n || report.conflicts.length > 0} onClick={() => void act()}>{label}</button>
      </div>
    </Dialog>
  );
}
