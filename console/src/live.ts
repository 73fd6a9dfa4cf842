/** The gateway's WebSocket: what waits as soon as it changes, and calls to the canvas of this page. */

import { useEffect, useSyncExternalStore } from "react";
import { provide, refresh, useConnection } from "./api";

const LONGEST_WAIT_MS = 30_000;

/** What a tool asks of the canvas; rejects with an error that the agent reads. */
export type CanvasCall = (action: string, values: Record<string, unknown>, cancelled: AbortSignal) => Promise<object>;

export class CanvasError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

let live = false;
let canvas: CanvasCall | null = null;
const watchers = new Set<() => void>();

function setLive(value: boolean) {
  live = value;
  for (const watch of watchers) watch();
}

/** Whether changes come by themselves; otherwise they have to be asked for. */
export const useLive = () =>
  useSyncExternalStore(
    (watch) => (watchers.add(watch), () => watchers.delete(watch)),
    () => live,
  );

/** Answers the calls to the canvas from now on. */
export const setCanvas = (answer: CanvasCall | null) => {
  canvas = answer;
};

/** Keeps the connection while there is a token, over lost connections. */
export function useLiveConnection() {
  const { token, refused } = useConnection();
  useEffect(() => {
    if (!token || refused) return;
    let socket: WebSocket;
    let timer = 0;
    let waitMs = 1000;
    let stopped = false;
    let owner = false;
    const calls = new Map<string, AbortController>();
    const say = (message: object) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
    // Of several consoles, the canvas is that of the one that was looked at last.
    const offer = () => owner && document.visibilityState === "visible" && say({ type: "canvas", id: "canvas" });
    const called = async ({ id, action, values }: { id: string; action: string; values: Record<string, unknown> }) => {
      const cancelled = new AbortController();
      calls.set(id, cancelled);
      try {
        if (!canvas) throw new CanvasError("unavailable", "the console is still opening", "Try again.");
        say({ type: "result", id, values: await canvas(action, values, cancelled.signal) });
      } catch (error) {
        const { code = "node_error", message, hint = "" } = error as CanvasError;
        say({ type: "error", id, code, message, hint });
      }
      calls.delete(id);
    };
    const received = (message: any) => {
      switch (message.type) {
        case "ready":
          waitMs = 1000;
          owner = message.role === "owner";
          say({ type: "follow", id: "approvals", approvals: true });
          offer();
          return setLive(true);
        case "approvals":
          provide("/api/approvals", { approvals: message.approvals });
          return void refresh("/api/sessions");
        case "call": return void called(message);
        case "cancel": return calls.get(message.id)?.abort();
      }
    };
    const open = () => {
      const own = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/ws`);
      socket = own;
      own.onopen = () => say({ type: "auth", token });
      own.onmessage = (event) => received(JSON.parse(event.data));
      own.onclose = () => {
        for (const one of calls.values()) one.abort();
        setLive(false);
        if (stopped) return;
        timer = window.setTimeout(open, waitMs * (0.8 + 0.4 * Math.random()));
        waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
      };
    };
    open();
    document.addEventListener("visibilitychange", offer);
    addEventListener("focus", offer);
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", offer);
      removeEventListener("focus", offer);
      socket.close();
    };
  }, [token, refused]);
}
