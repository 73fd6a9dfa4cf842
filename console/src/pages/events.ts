/** The events of one run, as they are recorded and as they come. */

import { useEffect, useRef, useState } from "react";
import { follow } from "../api";
import { changesOf } from "../conversation";
import type { Change, RunEvent } from "../types";

const PIECES = new Set(["model.text", "model.thinking", "call.update"]);

/** All events of a run but the pieces of streaming text; the list grows in place, `version` says that it did. */
export function useEvents(run: string): { events: RunEvent[]; version: number; loading: boolean } {
  const events = useRef<RunEvent[]>([]);
  const [version, setVersion] = useState(0);
  const [loading, setLoading] = useState(true);
  useEffect(() => {
    events.current = [];
    setLoading(true);
    setVersion((n) => n + 1);
    const stop = new AbortController();
    let timer = 0;
    void follow(run, (found) => {
      events.current.push(...found.filter((e) => !PIECES.has(e.type)));
      // A long record comes in many parts; each look at it goes through all of its events.
      timer ||= window.setTimeout(() => {
        timer = 0;
        setLoading(false);
        setVersion((n) => n + 1);
      }, 60);
    }, stop.signal).finally(() => setLoading(false));
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [run]);
  return { events: events.current, version, loading };
}

/** The file changes of the calls that succeeded. */
export function changesIn(events: RunEvent[]): { call: string; tool: string; change: Change }[] {
  const started = new Map<string, RunEvent>();
  const out: { call: string; tool: string; change: Change }[] = [];
  for (const event of events) {
    if (event.type === "call.started") started.set(event.call_id, event);
    if (event.type !== "call.finished" || event.result.error) continue;
    const changes: Change[] = started.get(event.result.call_id)?.changes ?? [];
    for (const change of changesOf({ changes, result: event.result })) out.push({ call: event.result.call_id, tool: event.result.tool, change });
  }
  return out;
}
