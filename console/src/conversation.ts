/** A session's events as what a reader sees: what was said, calls with their results, and how runs ended. */

import type { CallResult, Change, Decision, Effect, RunEvent } from "./types";

export interface Call {
  kind: "call";
  key: string;
  run: string;
  id: string;
  tool: string;
  arguments: Record<string, unknown>;
  effects: Effect[];
  changes: Change[];
  decision: Decision;
  rule: string;
  reason: string;
  approver: string;
  state: "next" | "running" | "waits" | "done" | "failed" | "denied" | "unknown";
  result?: CallResult;
  /** What a running call has shown so far. */
  output: string;
  approval: string;
}

/** A file that came with a message and lies in the workspace. */
export interface AttachedFile {
  path: string;
  name: string;
  bytes: number;
}

export type Item =
  | { kind: "user"; key: string; text: string; files: AttachedFile[]; by: string; labels: string[]; queued?: boolean }
  | { kind: "text"; key: string; text: string; live: boolean; thinking: boolean }
  | Call
  | { kind: "notice"; key: string; text: string }
  | { kind: "end"; key: string; run: string; status: string; error: string };

/** Folds events; read it through `useSyncExternalStore` with `subscribe` and `version`. */
export class Conversation {
  items: Item[] = [];
  version = 0;
  status = "";
  run = "";
  model = "";
  limits: { money?: number | null; context_tokens?: number | null } = {};
  windowTokens = 0;
  contextTokens = 0;
  cost: number | null = null;
  labels = new Set<string>();
  private calls = new Map<string, Call>();
  private watchers = new Set<() => void>();
  private scheduled = 0;

  subscribe = (watch: () => void) => {
    this.watchers.add(watch);
    return () => void this.watchers.delete(watch);
  };

  /** Watchers are told once a frame, however many events came. */
  apply(events: RunEvent[]) {
    for (const event of events) this.fold(event);
    this.scheduled ||= window.setTimeout(() => {
      this.scheduled = 0;
      this.version++;
      this.watchers.forEach((watch) => watch());
    }, 16);
  }

  /** The effects of all calls that ran, by kind. */
  effects(): [string, number][] {
    const counts = new Map<string, number>();
    for (const call of this.calls.values()) {
      if (call.state === "next" || call.state === "waits" || call.state === "denied") continue;
      for (const effect of call.effects) counts.set(effect.kind, (counts.get(effect.kind) ?? 0) + 1);
    }
    return [...counts];
  }

  /** The calls that changed files and whose change may still hold. */
  changed(): Call[] {
    return [...this.calls.values()].filter((call) => call.state === "done" && changesOf(call).length > 0);
  }

  private fold(event: RunEvent) {
    switch (event.type) {
      case "run.started":
        this.run = event.run;
        this.model = event.model;
        this.status = "running";
        this.cost = null;
        this.limits = event.detail?.limits ?? {};
        this.windowTokens = event.detail?.window?.tokens ?? 0;
        break;
      case "run.resumed":
        this.status = "running";
        this.items = this.items.filter((item) => item.kind !== "end" || item.run !== event.run);
        break;
      case "message.told":
        this.items.push({ kind: "user", key: this.key(), ...saidIn(event), by: event.by ?? "user", labels: event.labels ?? [], queued: true });
        break;
      case "message.user":
        this.said(event);
        break;
      case "model.text":
      case "model.thinking":
        this.piece(event.text, event.type === "model.thinking");
        break;
      case "model.replied":
        this.replied(event);
        break;
      case "permission.request":
        this.call(event.call_id, event.tool, (call) => {
          Object.assign(call, { effects: event.effects, changes: event.changes ?? [], reason: event.reason, approval: event.approval, state: "waits" });
        });
        break;
      case "call.started":
        this.call(event.call_id, event.tool, (call) => {
          const { arguments: given, effects, changes, decision, rule, reason, approver } = event;
          Object.assign(call, { arguments: given, effects, changes: changes ?? [], decision, rule, reason, approver, state: "running" });
        });
        break;
      case "call.update":
        this.call(event.call_id, event.tool, (call) => {
          const shown = typeof event.update === "string" ? event.update : (event.update?.text ?? "");
          call.output = (call.output + shown).slice(-20000);
        });
        break;
      case "call.finished":
        this.finished(event.result as CallResult);
        break;
      case "notice":
        this.items.push({ kind: "notice", key: this.key(), text: event.text });
        break;
      case "context.compacted":
        this.items.push({ kind: "notice", key: this.key(), text: event.dropped?.join(" ") ?? "" });
        break;
      case "run.finished":
        this.status = event.status;
        this.cost = event.usage?.cost_usd ?? this.cost;
        this.items = this.items.filter((item) => item.kind !== "text" || !item.live);
        if (event.status !== "done" && event.status !== "suspended") {
          this.items.push({ kind: "end", key: this.key(), run: event.run, status: event.status, error: event.error ?? "" });
        }
        break;
    }
  }

  private said(event: RunEvent) {
    const said = saidIn(event);
    const queued = this.items.findIndex((item) => item.kind === "user" && item.queued && item.text === said.text);
    if (queued >= 0) this.items.splice(queued, 1);
    for (const label of event.labels ?? []) this.labels.add(label);
    this.items.push({ kind: "user", key: this.key(), ...said, by: event.by ?? "user", labels: event.labels ?? [] });
  }

  private piece(piece: string, thinking: boolean) {
    const last = this.items.at(-1);
    if (last?.kind === "text" && last.live && last.thinking === thinking) {
      this.items[this.items.length - 1] = { ...last, text: last.text + piece };
    } else this.items.push({ kind: "text", key: this.key(), text: piece, live: true, thinking });
  }

  private replied(event: RunEvent) {
    this.items = this.items.filter((item) => item.kind !== "text" || !item.live);
    const { usage, content } = event.message;
    this.contextTokens = (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0) + (usage.output_tokens ?? 0);
    if (usage.cost_usd !== null) this.cost = (this.cost ?? 0) + usage.cost_usd;
    for (const part of content) {
      if (part.type === "text" && part.text) this.items.push({ kind: "text", key: this.key(), text: part.text, live: false, thinking: false });
      if (part.type === "thinking" && part.text) this.items.push({ kind: "text", key: this.key(), text: part.text, live: false, thinking: true });
      if (part.type === "call") {
        this.call(part.id, part.name, (call) => {
          if (part.arguments && typeof part.arguments === "object") call.arguments = part.arguments;
        });
      }
    }
  }

  private finished(result: CallResult) {
    for (const label of result.notes?.labels ?? []) this.labels.add(label);
    this.call(result.call_id, result.tool, (call) => {
      const code = result.error?.code ?? "";
      if (code === "suspended") {
        call.state = "waits";
        call.approval ||= String(result.error?.details?.pending ?? "");
        return;
      }
      call.result = result;
      call.state = code === "permission_denied" || code === "outside_workspace" ? "denied" : code === "outcome_unknown" ? "unknown" : code ? "failed" : "done";
    });
  }

  /** Items are never changed in place, so that a card knows by identity whether it has to be drawn again. */
  private call(id: string, tool: string, edit: (call: Call) => void) {
    const known = this.calls.get(id);
    const call: Call = known
      ? { ...known }
      : {
          kind: "call", key: id, run: this.run, id, tool, arguments: {}, effects: [], changes: [], decision: "allow", rule: "", reason: "",
          approver: "", state: "next", output: "", approval: "",
        };
    edit(call);
    this.calls.set(id, call);
    const at = known ? this.items.lastIndexOf(known) : -1;
    if (at >= 0) this.items[at] = call;
    else this.items.push(call);
  }

  private next = 0;
  private key = () => `i${this.next++}`;
}

export const text = (content: { type: string; text?: string }[]) =>
  content.map((block) => (block.type === "text" ? (block.text ?? "") : `[${block.type}]`)).join("\n");

const ATTACHED = "\n\n<attached>\n";
const FILE = /^<file path="([^"\n]+)" type="[^"\n]*" bytes="(\d+)" \/>\n?/gm;

/** What a person wrote, and the files that came with it; other attached text stays where it is. */
function saidIn(event: RunEvent): { text: string; files: AttachedFile[] } {
  const [own = "", ...rest] = text(event.message.content).split(ATTACHED);
  const attached = rest.join(ATTACHED);
  const files = [...attached.matchAll(FILE)].map(([, path = "", size]) => ({ path, name: nameIn(path), bytes: Number(size) }));
  const left = attached.replace(FILE, "").trim();
  return { text: left ? `${own}${ATTACHED}${left}` : own, files };
}

/** The name that a file had: what is received gets the message's id before it. */
const nameIn = (path: string) => path.split("/").at(-1)!.replace(/^in_[0-9a-f]+-\d+-/, "");

/** The files that a call changed; a command's are known afterwards only, by its result. */
export function changesOf(call: { changes: Change[]; result?: CallResult }): Change[] {
  if (call.changes.length) return call.changes;
  const found = (call.result?.data as { changes?: Change[] } | null)?.changes;
  return Array.isArray(found) ? found.filter((c) => typeof c?.path === "string") : [];
}
