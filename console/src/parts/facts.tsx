/** Beside a conversation: its context and cost, what it changed, its effects and its agents. */

import { useResource } from "../api";
import { type Conversation, changesOf } from "../conversation";
import { compact, money, t } from "../i18n";
import { Link, to } from "../router";
import type { Agent, Approval } from "../types";
import { ChangeLetter, Delta, EffectKind, State } from "./basic";
import { Icon } from "./icons";

/** What this run has done so far. */
export function Facts({ talk, run, asks }: { talk: Conversation; run: string; asks: Approval[] }) {
  const agents = useResource<{ agents: Agent[] }>(run ? `/api/runs/${run}/agents` : null, 5);
  const effects = talk.effects();
  const changed = talk.changed().flatMap(changesOf);
  const files = [...new Map(changed.map((one) => [one.path, changed.filter((c) => c.path === one.path)])).entries()];
  const untrusted = [...talk.labels].filter((label) => label.startsWith("untrusted"));
  const share = talk.windowTokens ? Math.min(100, (100 * talk.contextTokens) / talk.windowTokens) : 0;
  return (
    <aside className="split-aside facts" aria-label={t("This session")}>
      {talk.windowTokens > 0 && (
        <Meter label={t("Context")} share={share} text={t("{used} of {all}", { used: compact(talk.contextTokens), all: compact(talk.windowTokens) })} mark={80} />
      )}
      {talk.limits.money ? (
        <Meter label={t("Cost of this run")} share={(100 * (talk.cost ?? 0)) / talk.limits.money} text={t("{used} of {all}", { used: money(talk.cost ?? 0), all: money(talk.limits.money) })} mark={80} />
      ) : (
        talk.cost !== null && <div className="meter-head"><span className="second">{t("Cost of this run")}</span><span className="num">{money(talk.cost)}</span></div>
      )}
      <section>
        <h2>{t("Changes")} <span className="grow" /><Link href="/files/changes">{t("All")}</Link></h2>
        {files.length ? (
          <ul className="lines">
            {files.map(([path, all]) => (
              <li key={path}><ChangeLetter kind={all[0]!.kind} /><code className="clip grow" title={path}>{path}</code><Delta diffs={all.map((c) => c.diff)} /></li>
            ))}
          </ul>
        ) : <p className="meta">{t("No file was changed")}</p>}
      </section>
      {effects.length > 0 && (
        <section>
          <h2>{t("Effects so far")}</h2>
          <ul className="lines">{effects.map(([kind, n]) => <li key={kind}><EffectKind kind={kind} /><span className="grow" /><span className="num">{n}</span></li>)}</ul>
        </section>
      )}
      {(agents.data?.agents.length ?? 0) > 0 && (
        <section>
          <h2>{t("Agents")}</h2>
          <ul className="tree">
            <li>
              <div><Icon name="dot" small /><span className="grow">main</span>{asks.length > 0 && <State status="suspended" bare />}</div>
              <AgentTree agents={agents.data!.agents} />
            </li>
          </ul>
        </section>
      )}
      {untrusted.length > 0 && (
        <section>
          <h2>{t("Holds untrusted text")}</h2>
          <p className="second">{t("From {sources}. Sending anything private now asks first.", { sources: untrusted.map((label) => label.replace(/^untrusted:/, "")).join(", ") })}</p>
        </section>
      )}
    </aside>
  );
}

export function AgentTree({ agents }: { agents: Agent[] }) {
  return (
    <ul>
      {agents.map((one) => (
        <li key={one.id}>
          <div>
            {one.run ? <Link className="grow clip" href={to("runs", one.run, "timeline")} title={one.task}>{one.label || one.agent}</Link> : <span className="grow clip" title={one.task}>{one.label || one.agent}</span>}
            <State status={one.status} />
          </div>
          {one.agents.length > 0 && <AgentTree agents={one.agents} />}
        </li>
      ))}
    </ul>
  );
}

export function Meter({ label, share, text, mark }: { label: string; share: number; text: string; mark?: number }) {
  const high = mark !== undefined && share >= mark;
  return (
    <div className="meter">
      <div className="meter-head"><span className="second">{label}</span><span className="num">{text}</span></div>
      <div className="bar" data-tone={high ? "ask" : undefined} role="meter" aria-label={label} aria-valuenow={Math.round(share)} aria-valuemin={0} aria-valuemax={100}>
        <i style={{ width: `${Math.min(100, share)}%` }} />
        {mark !== undefined && <u style={{ left: `${mark}%` }} />}
      </div>
    </div>
  );
}
