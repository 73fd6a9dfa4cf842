/** The page of an MCP server for a tool's result (MCP Apps), in a frame without our origin; shown when it is asked for. */

import { useEffect, useRef, useState } from "react";
import { change } from "../api";
import type { Call } from "../conversation";
import { language, t } from "../i18n";
import { Icon } from "./icons";
import { toastError } from "./overlay";

interface Opened {
  id: string;
  url: string;
}

interface Message {
  jsonrpc?: string;
  id?: number | string;
  method?: string;
  params?: Record<string, any>;
}

const LOWEST = 80;
const TALLEST = 900;
/** What a page may ask of its own server; the gateway refuses the rest as well. */
const FORWARDED = new Set(["tools/call", "resources/read", "ping"]);

export const pageOf = (call: Call) => call.result?.notes.page as { server: string; uri: string } | undefined;

export function ServerPage({ call }: { call: Call }) {
  const page = pageOf(call)!;
  const [opened, setOpened] = useState<Opened | null>(null);
  const show = () => change<Opened>("POST", "/api/pages", page).then(setOpened, toastError);
  if (opened) return <Frame call={call} opened={opened} server={page.server} />;
  return (
    <button className="btn btn-sm page-open" onClick={() => void show()}>
      <Icon name="servers" small />
      {t("Show the page of {server}", { server: page.server })}
    </button>
  );
}

function Frame({ call, opened, server }: { call: Call; opened: Opened; server: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(240);
  useEffect(() => {
    const post = (message: object) => frame.current?.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");
    const answer = async ({ id, method = "", params = {} }: Message) => {
      switch (method) {
        case "ui/initialize": {
          const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
          const hostContext = { theme: dark ? "dark" : "light", displayMode: "inline", locale: language() };
          const hostCapabilities = { serverTools: {}, serverResources: {} };
          return post({ id, result: { protocolVersion: params.protocolVersion ?? "2025-11-21", hostInfo: { name: "Pegboard", version: "1" }, hostCapabilities, hostContext } });
        }
        case "ui/notifications/initialized":
          post({ method: "ui/notifications/tool-input", params: { arguments: call.arguments } });
          return post({ method: "ui/notifications/tool-result", params: { content: call.result?.content ?? [], structuredContent: call.result?.data ?? undefined } });
        case "ui/notifications/size-changed":
          return setHeight(Math.max(LOWEST, Math.min(TALLEST, Number(params.height) || LOWEST)));
        default:
          if (id === undefined) return;
          if (!FORWARDED.has(method)) return post({ id, error: { code: -32601, message: `${method} is not available here` } });
          try {
            const told = await change<{ result?: unknown; error?: unknown }>("POST", `/api/pages/${opened.id}/messages`, { id, method, params });
            return post({ id, ...("error" in told ? { error: told.error } : { result: told.result }) });
          } catch (error) {
            return post({ id, error: { code: -32000, message: String(error) } });
          }
      }
    };
    const listen = (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow || (event.data as Message)?.jsonrpc !== "2.0") return;
      void answer(event.data);
    };
    addEventListener("message", listen);
    return () => {
      removeEventListener("message", listen);
      void change("DELETE", `/api/pages/${opened.id}`).catch(() => {});
    };
  }, [call, opened]);
  return (
    <div className="untrusted stack tight">
      <p className="untrusted-label"><Icon name="alert" small />{t("A page of {server}. It sees this call’s result, nothing else of the console.", { server })}</p>
      <iframe className="page-frame" ref={frame} src={opened.url} sandbox="allow-scripts" title={t("Page of {server}", { server })} style={{ height }} referrerPolicy="no-referrer" />
    </div>
  );
}
