/** The canvas: a page that an agent presents, in a frame that has no origin and no network. */

import { useEffect, useRef, useState } from "react";
import { t } from "../i18n";
import { CanvasError, setCanvas } from "../live";
import { Icon } from "./icons";

interface Waiting {
  done: (values: object) => void;
  fail: (error: CanvasError) => void;
}

export function Canvas() {
  const [shown, show] = useState<{ key: number; title: string } | null>(null);
  const [large, enlarge] = useState(false);
  const frame = useRef<HTMLIFrameElement>(null);
  const waiting = useRef(new Map<string, Waiting>());
  const hide = () => {
    for (const one of waiting.current.values()) one.fail(new CanvasError("cancelled", "the page was taken away"));
    waiting.current.clear();
    show(null);
  };
  useEffect(() => {
    const wait = (key: string) => new Promise<object>((done, fail) => waiting.current.set(key, { done, fail }));
    let next = 0;
    const tell = (action: string, values: object) => {
      if (!frame.current) throw new CanvasError("not_found", "nothing is shown", "Present a page first.");
      const id = `${next++}`;
      const answer = wait(id);
      // It has no origin of its own, so no other target can be named; only this frame is this window.
      frame.current.contentWindow!.postMessage({ id, action, values }, "*");
      return answer;
    };
    const act = async (action: string, values: Record<string, unknown>): Promise<object> => {
      switch (action) {
        case "present": {
          hide();
          const ready = wait("ready");
          show({ key: next++, title: String(values.title ?? "") });
          await ready;
          return tell("present", { html: String(values.html ?? "") });
        }
        case "hide":
          hide();
          return {};
        case "snapshot": return tell("snapshot", {});
        case "eval": return tell("eval", { script: String(values.script ?? "") });
        default: throw new CanvasError("unsupported", `the console does not do ${action}`);
      }
    };
    setCanvas((action, values, cancelled) => {
      const ended = new Promise<never>((_, fail) => cancelled.addEventListener("abort", () => fail(new CanvasError("cancelled", "nobody waits for the answer"))));
      return Promise.race([act(action, values), ended]);
    });
    const listen = ({ source, data }: MessageEvent) => {
      if (!frame.current || source !== frame.current.contentWindow || !data) return;
      const key = data.ready ? "ready" : String(data.id);
      const one = waiting.current.get(key);
      waiting.current.delete(key);
      if (data.error) one?.fail(new CanvasError("node_error", String(data.error)));
      else one?.done(data.values ?? {});
    };
    addEventListener("message", listen);
    return () => {
      removeEventListener("message", listen);
      setCanvas(null);
    };
  }, []);
  if (!shown) return null;
  const title = shown.title ? t("Shown by an agent: {title}", { title: shown.title }) : t("Shown by an agent");
  return (
    <section className={large ? "canvas canvas-large" : "canvas"} aria-label={t("Canvas")}>
      <header className="canvas-head">
        <h2 className="grow clip" title={title}>{title}</h2>
        <span className="hide" role="status">{title}</span>
        <button className="btn btn-quiet btn-sm" aria-pressed={large} onClick={() => enlarge(!large)}>{large ? t("Smaller") : t("Larger")}</button>
        <button className="btn btn-quiet btn-sm btn-icon" aria-label={t("Close the canvas")} onClick={hide}><Icon name="close" small /></button>
      </header>
      <iframe key={shown.key} ref={frame} src="/node/canvas" sandbox="allow-scripts" referrerPolicy="no-referrer" title={t("Page of an agent")} />
    </section>
  );
}
