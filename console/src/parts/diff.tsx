/** Diffs: unified, with the words that changed marked; folded over 400 lines. */

import { type ReactNode, useMemo, useState } from "react";
import { bytes, t } from "../i18n";
import type { Change } from "../types";
import { Delta, EffectBadge } from "./basic";
import { Icon } from "./icons";

const FOLDED = 400;
const LARGEST = 1024 * 1024;

interface Line {
  sign: " " | "+" | "-" | "@";
  old?: number;
  now?: number;
  text: string;
  /** The part of the text that changed, from and to. */
  mark?: [number, number];
}

/** The lines of a unified diff; removed and added lines that face each other get their words marked. */
export function diffLines(diff: string): Line[] {
  const lines: Line[] = [];
  let old = 0;
  let now = 0;
  for (const raw of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/.exec(raw);
    if (hunk) {
      [old, now] = [Number(hunk[1]), Number(hunk[2])];
      lines.push({ sign: "@", text: hunk[3] ?? "" });
    } else if (!lines.length && /^(---|\+\+\+|diff |index )/.test(raw)) {
      continue;
    } else if (raw.startsWith("+")) lines.push({ sign: "+", now: now++, text: raw.slice(1) });
    else if (raw.startsWith("-")) lines.push({ sign: "-", old: old++, text: raw.slice(1) });
    else if (raw.startsWith("\\") || raw.startsWith("[")) lines.push({ sign: "@", text: raw });
    else lines.push({ sign: " ", old: old++, now: now++, text: raw.slice(1) });
  }
  if (lines[0]?.sign === "@" && !lines[0].text) lines.shift();
  markWords(lines);
  return lines;
}

function markWords(lines: Line[]) {
  for (let at = 0; at < lines.length; at++) {
    if (lines[at]!.sign !== "-") continue;
    let middle = at;
    while (lines[middle]?.sign === "-") middle++;
    let end = middle;
    while (lines[end]?.sign === "+") end++;
    for (let n = 0; n < Math.min(middle - at, end - middle); n++) markPair(lines[at + n]!, lines[middle + n]!);
    at = Math.max(at, end - 1);
  }
}

function markPair(removed: Line, added: Line) {
  const [a, b] = [removed.text, added.text];
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let back = 0;
  while (back < a.length - from && back < b.length - from && a[a.length - 1 - back] === b[b.length - 1 - back]) back++;
  if (a.length - back > from) removed.mark = [from, a.length - back];
  if (b.length - back > from) added.mark = [from, b.length - back];
}

function words({ text, mark, sign }: Line): ReactNode {
  if (!mark) return text;
  const [from, to] = mark;
  const changed = text.slice(from, to);
  return (
    <>
      {text.slice(0, from)}
      {sign === "+" ? <ins>{changed}</ins> : <del>{changed}</del>}
      {text.slice(to)}
    </>
  );
}

const CLASS = { "+": "add", "-": "del", "@": "hunk", " ": undefined };
const SIGN = { "+": "+", "-": "−", "@": "", " ": "" };

export function Diff({ diff, path, wrap }: { diff: string; path: string; wrap?: boolean }) {
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => (diff.length > LARGEST && !whole ? [] : diffLines(diff)), [diff, whole]);
  if (diff.length > LARGEST && !whole) {
    return (
      <div className="card-body">
        <button className="btn btn-quiet btn-sm" onClick={() => setWhole(true)}>
          {t("Show the diff of {size}", { size: bytes(diff.length) })}
        </button>
      </div>
    );
  }
  if (!diff.trim()) return <p className="card-body meta">{t("No text to compare: the file is binary, empty, or its content was not kept.")}</p>;
  const shown = whole ? lines : lines.slice(0, FOLDED);
  return (
    <div className={wrap ? "diff diff-wrap" : "diff"}>
      <div className="diff-body" tabIndex={0} role="region" aria-label={t("Diff of {path}", { path })}>
        <table>
          <tbody>
            {shown.map((line, n) => (
              <tr key={n} className={CLASS[line.sign]}>
                <td className="n old">{line.old}</td>
                <td className="n">{line.now}</td>
                <td className="m">{SIGN[line.sign]}</td>
                <td className="t">{words(line)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < lines.length && (
        <button className="btn btn-quiet btn-sm diff-more" onClick={() => setWhole(true)}>
          {t("Show {n} more lines", { n: lines.length - shown.length })}
        </button>
      )}
    </div>
  );
}

/** A change of a file: what is done to which path, and the diff. */
export function ChangeCard({ change, open = true, children }: { change: Change; open?: boolean; children?: ReactNode }) {
  const kind = change.kind === "delete" ? "delete" : "write";
  return (
    <details className="card change-card" open={open}>
      <summary className="diff-head">
        <Icon name="chev" small />
        <EffectBadge kind={kind} />
        <code className="clip">{change.moved_to ? `${change.path} → ${change.moved_to}` : change.path}</code>
        <Delta diffs={[change.diff]} />
      </summary>
      <Diff diff={change.diff} path={change.path} />
      {children}
    </details>
  );
}
