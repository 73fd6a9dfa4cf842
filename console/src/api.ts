/** The API of the gateway: requests with the token, resources that pages share, and the events of a run. */

import { useEffect, useSyncExternalStore } from "react";
import type { RunEvent } from "./types";

const KEY = "pegboard.token";

/** An error as the gateway tells it; status 0 is a gateway that does not answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

// -- the token, and whether the gateway answers ----------------------------------------------------------------

interface Connection {
  token: string;
  refused: boolean;
  offline: boolean;
}

let connection: Connection = { token: tokenOfTheAddress() ?? sessionStorage.getItem(KEY) ?? "", refused: false, offline: false };
const watchers = new Set<() => void>();

function setConnection(change: Partial<Connection>) {
  connection = { ...connection, ...change };
  for (const watch of watchers) watch();
}

/** `#token=…`, once: it is taken out of the address, which stands in the history. */
function tokenOfTheAddress(): string | null {
  const found = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!found) return null;
  const token = decodeURIComponent(found);
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", location.pathname + location.search);
  return token;
}

addEventListener("hashchange", () => {
  const token = tokenOfTheAddress();
  if (token) signIn(token);
});

export const useConnection = () =>
  useSyncExternalStore(
    (watch) => (watchers.add(watch), () => watchers.delete(watch)),
    () => connection,
  );

export function signIn(token: string) {
  sessionStorage.setItem(KEY, token);
  setConnection({ token, refused: false });
  refresh("");
}

export function signOut() {
  sessionStorage.removeItem(KEY);
  setConnection({ token: "", refused: false });
}

// -- requests --------------------------------------------------------------------------------------------------

async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, cache: "no-store", headers: { ...init.headers, Authorization: `Bearer ${connection.token}` } });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    setConnection({ offline: true });
    throw new ApiError(0, "offline", "The gateway does not answer.");
  }
  if (connection.offline) setConnection({ offline: false });
  if (response.ok) return response;
  if (response.status === 401 && !connection.refused) setConnection({ refused: true });
  const found = await response.json().catch(() => null);
  const error = found?.error ?? {};
  throw new ApiError(response.status, error.code ?? "error", error.message ?? response.statusText, error.hint ?? "");
}

export async function get<T>(path: string): Promise<T> {
  return (await send(path)).json();
}

export async function change<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) Object.assign(init, { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  return (await send(path, init)).json();
}

export async function download(path: string, name: string) {
  const url = URL.createObjectURL(await (await send(path)).blob());
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export const at = (path: string, query: Record<string, string | number | undefined> = {}) => {
  const shown = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return shown.length ? `${path}?${new URLSearchParams(shown.map(([k, v]) => [k, String(v)]))}` : path;
};

export const session = (key: string) => `/api/sessions/${key.split("/").map(encodeURIComponent).join("/")}`;

// -- resources: one answer for all who look at it --------------------------------------------------------------

export interface Resource<T> {
  data?: T;
  error?: ApiError;
  loading: boolean;
  /** Seconds since the epoch at which `data` came. */
  at: number;
}

const NOTHING: Resource<never> = { loading: true, at: 0 };
const resources = new Map<string, Resource<any>>();
const readers = new Map<string, Set<() => void>>();
const asking = new Map<string, Promise<void>>();

function put(path: string, value: Resource<unknown>) {
  resources.set(path, value);
  for (const read of readers.get(path) ?? []) read();
}

/** What somebody else has brought: shown to all who look at the path. */
export function provide(path: string, data: unknown) {
  put(path, { data, loading: false, at: Date.now() / 1000 });
}

function ask(path: string): Promise<void> {
  const before = asking.get(path);
  if (before) return before;
  const asked = get(path)
    .then((data) => {
      const old = resources.get(path);
      const same = old?.data !== undefined && !old.error && JSON.stringify(old.data) === JSON.stringify(data);
      if (same) old.at = Date.now() / 1000;
      else put(path, { data, loading: false, at: Date.now() / 1000 });
    })
    .catch((error: unknown) => {
      const old = resources.get(path);
      const told = error instanceof ApiError ? error : new ApiError(0, "error", String(error));
      put(path, { ...(old ?? NOTHING), error: told, loading: false });
    })
    .finally(() => asking.delete(path));
  asking.set(path, asked);
  return asked;
}

/** Ask again for what is looked at and begins so; the rest is forgotten. */
export async function refresh(...prefixes: string[]) {
  const again: Promise<void>[] = [];
  for (const path of [...resources.keys()]) {
    if (!prefixes.some((prefix) => path.startsWith(prefix))) continue;
    if (readers.get(path)?.size) {
      // What is under way may be from before the change.
      again.push((asking.get(path) ?? Promise.resolve()).then(() => ask(path)));
    } else resources.delete(path);
  }
  await Promise.all(again);
}

/**
 * What a GET of the path gives, shared by all who show it.
 *
 * @param path null = nothing.
 * @param everyS seconds between two looks while the page is visible; 0 = once.
 */
export function useResource<T>(path: string | null, everyS = 0): Resource<T> {
  const { token, refused } = useConnection();
  useEffect(() => {
    if (path === null || !token || refused) return;
    void ask(path);
    if (!everyS) return;
    const timer = setInterval(() => document.visibilityState === "visible" && void ask(path), everyS * 1000);
    return () => clearInterval(timer);
  }, [path, everyS, token, refused]);
  return useSyncExternalStore(
    (read) => {
      if (path === null) return () => {};
      const all = readers.get(path) ?? new Set();
      readers.set(path, all.add(read));
      return () => all.delete(read);
    },
    () => (path === null ? NOTHING : (resources.get(path) ?? NOTHING)),
  );
}

/** Who looks, and what the role may do; without roles the one token may do everything. */
export interface Me {
  name: string;
  role: string;
  may: (what: "talk" | "approve" | "administer") => boolean;
}

export function useMe(): Me {
  const me = useResource<{ name: string; role: string; scopes: string[] }>("/api/me").data;
  return { name: me?.name ?? "", role: me?.role ?? "owner", may: (what) => me === undefined || me.scopes.includes(what) };
}

// -- events of a run -------------------------------------------------------------------------------------------

/** Follow a run until it has ended for good, over lost connections; pieces of text that were missed come whole. */
export async function follow(run: string, onEvents: (events: RunEvent[]) => void, signal: AbortSignal) {
  let last = "";
  while (!signal.aborted) {
    try {
      const response = await send(`/api/runs/${encodeURIComponent(run)}/events`, { headers: last ? { "Last-Event-ID": last } : {}, signal });
      for await (const message of messages(response.body!, signal)) {
        if (message.id) last = message.id;
        if (message.events.length) onEvents(message.events);
        if (message.events.some((e) => e.type === "run.finished" && e.status !== "suspended")) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) return;
    }
    await new Promise((go) => setTimeout(go, 1000));
  }
}

/** The messages of a stream (WHATWG HTML §9.2), those that arrived together as one. */
async function* messages(body: ReadableStream<Uint8Array>, signal: AbortSignal) {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  signal.addEventListener("abort", () => void reader.cancel().catch(() => {}));
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value.replaceAll("\r\n", "\n")).split("\n\n");
    rest = parts.pop()!;
    let id = "";
    const events: RunEvent[] = [];
    for (const part of parts) {
      let data = "";
      let number: number | undefined;
      for (const line of part.split("\n")) {
        if (line.startsWith("id:")) {
          id = line.slice(3).trim();
          // `STORED.PIECE`: what is stored has no piece.
          if (id.endsWith(".0")) number = Number(id.slice(0, -2));
        }
        else if (line.startsWith("data:")) data += line.slice(5).trimStart();
      }
      if (data) events.push({ ...JSON.parse(data), number });
    }
    yield { id, events };
  }
}
