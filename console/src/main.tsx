/** The console: one page for each route. */

import { createRoot } from "react-dom/client";
import { Component, type ReactNode, useEffect, useState } from "react";
import { ApiError, useConnection, useResource } from "./api";
import { t } from "./i18n";
import { useLiveConnection } from "./live";
import { Sprite } from "./parts/icons";
import { Toasts } from "./parts/overlay";
import { MorePage, Page, Shell, useSessions } from "./parts/shell";
import { Failure, Skeleton } from "./parts/states";
import { ApprovalsPage } from "./pages/approvals";
import { ChatPage } from "./pages/chat";
import { FilesPage } from "./pages/files";
import { OverviewPage } from "./pages/overview";
import { PolicyPage } from "./pages/policy";
import { RunPage, RunsPage } from "./pages/runs";
import { SchedulesPage } from "./pages/schedules";
import { ServersPage } from "./pages/servers";
import { SearchPage } from "./pages/search";
import { SettingsPage, SetupPage } from "./pages/settings";
import { TokenPage } from "./pages/token";
import { go, to, useRoute } from "./router";
import "./styles/tokens.css";
import "./styles/console.css";
import "./styles/pages.css";

function Console() {
  const { token, refused } = useConnection();
  // The language is read by each sentence; a change draws all of them again.
  const [drawn, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    addEventListener("pegboard:language", again);
    return () => removeEventListener("pegboard:language", again);
  }, []);
  return (
    <>
      <Sprite />
      {!token || refused ? <TokenPage key={drawn} /> : <Opened key={drawn} />}
    </>
  );
}

function Opened() {
  const { parts } = useRoute();
  useLiveConnection();
  if (parts[0] === "setup") return <><SetupPage step={parts[1] ?? "folder"} /><Toasts /></>;
  return <Shell><Guard key={parts.join("/")}><CurrentPage parts={parts} /></Guard></Shell>;
}

/** A page that fails leaves the others usable. */
class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <Page title={<h1>{t("This page failed")}</h1>} tabTitle={t("This page failed")}>
        <Failure error={new ApiError(0, "console_error", error.message, t("Reload the page. If it fails again, report it with these details."))} />
      </Page>
    );
  }
}

/** The last session; without any a new one, or the set-up while there is no model. */
function Home() {
  const sessions = useSessions();
  const models = useResource<{ default: string }>("/api/models");
  const last = sessions.data?.sessions[0]?.session;
  const known = sessions.data !== undefined && (last !== undefined || models.data !== undefined || models.error !== undefined);
  const target = last ? to("chat", last) : models.data?.default === "" ? "/setup" : "/chat";
  useEffect(() => {
    if (known) go(target, true);
  }, [known, target]);
  return <Page title={<h1>{t("Chat")}</h1>} tabTitle={t("Chat")}><Skeleton what={t("the conversation")} /></Page>;
}

function CurrentPage({ parts: [page = "", one, view] }: { parts: string[] }) {
  switch (page) {
    case "": return <Home />;
    case "approvals": return <ApprovalsPage id={one} />;
    case "runs": return one ? <RunPage key={one} id={one} view={view ?? "timeline"} /> : <RunsPage />;
    case "files": return <FilesPage view={one ?? "changes"} />;
    case "schedules": return <SchedulesPage id={one} />;
    case "policy": return <PolicyPage view={one ?? "rules"} />;
    case "servers": return <ServersPage />;
    case "overview": return <OverviewPage />;
    case "settings": return <SettingsPage view={one ?? ""} />;
    case "search": return <SearchPage />;
    case "more": return <MorePage />;
    default: return <ChatPage sessionKey={one} />;
  }
}

createRoot(document.getElementById("root")!).render(<Console />);
