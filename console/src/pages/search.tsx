/** Search: the messages of all sessions in which the words stand. */

import { useEffect, useState } from "react";
import { at, useResource } from "../api";
import { t } from "../i18n";
import { Icon } from "../parts/icons";
import { Page, titleOf, useSessions } from "../parts/shell";
import { Empty, Load } from "../parts/states";
import { Link, setQuery, to, useRoute } from "../router";

interface Entry {
  session: string;
  run: string;
  role: string;
  by: string;
  text: string;
}

const PAUSE_MS = 250;
const AROUND = 120;

export function SearchPage() {
  const { query } = useRoute();
  const asked = query.get("q") ?? "";
  const [typed, type] = useState(asked);
  useEffect(() => type(asked), [asked]);
  useEffect(() => {
    const timer = setTimeout(() => setQuery("q", typed.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const path = at("/api/search", { q: asked, limit: 100 });
  const found = useResource<{ entries: Entry[] }>(asked ? path : null);
  return (
    <Page tabTitle={t("Search")} title={<h1>{t("Search messages")}</h1>}>
      <div className="page">
        <div className="page-in reading">
          <div className="search">
            <Icon name="search" small />
            <input className="input" autoFocus aria-label={t("Search messages")} placeholder={t("Words in a message")} value={typed} onChange={(event) => type(event.target.value)} />
          </div>
          {!asked ? <Empty icon="search" title={t("Search all sessions")}><p>{t("Finds messages that contain all of the words: yours, the agent’s, and tool results.")}</p></Empty> : (
            <Load from={found} path={path} what={t("messages")} rows={6}>
              {({ entries }) => <Results entries={entries} asked={asked} />}
            </Load>
          )}
        </div>
      </div>
    </Page>
  );
}

function Results({ entries, asked }: { entries: Entry[]; asked: string }) {
  const sessions = useSessions().data?.sessions ?? [];
  const title = (key: string) => {
    const session = sessions.find((one) => one.session === key);
    return session ? titleOf(session) : key;
  };
  if (!entries.length) return <p className="second" role="status">{t("No message matches “{query}”.", { query: asked })}</p>;
  const keys = [...new Set(entries.map((one) => one.session))];
  const words = asked.toLowerCase().split(/\s+/);
  return (
    <>
      <p className="hide" role="status">{t("{n, plural, one {# message} other {# messages}}", { n: entries.length })}</p>
      {keys.map((key) => (
        <section className="card" key={key} aria-label={title(key)}>
          <div className="card-head"><h2 className="clip"><Link href={to("chat", key)}>{title(key)}</Link></h2></div>
          <ul className="results">
            {entries.filter((one) => one.session === key).map((one, n) => (
              <li key={n}>
                <span className="meta">{one.role === "user" ? (one.by && one.by !== "user" ? one.by : t("you")) : one.role === "tool" ? <code>{one.by}</code> : t("agent")}</span>
                <p className="grow second"><Excerpt text={one.text} words={words} /></p>
                {one.run && <Link className="meta" href={at(to("runs", one.run, "timeline"), { q: words[0] })}>{t("Timeline")}</Link>}
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

/** The text around the first word, with all of the words marked. */
function Excerpt({ text, words }: { text: string; words: string[] }) {
  const flat = text.replace(/\s+/g, " ");
  const first = Math.max(0, Math.min(...words.map((word) => flat.toLowerCase().indexOf(word)).filter((place) => place >= 0), flat.length) - AROUND / 2);
  const shown = flat.slice(first, first + 2 * AROUND);
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  return (
    <>
      {first > 0 && "… "}
      {shown.split(pattern).map((part, n) => (n % 2 ? <mark key={n}>{part}</mark> : part))}
      {first + 2 * AROUND < flat.length && " …"}
    </>
  );
}
