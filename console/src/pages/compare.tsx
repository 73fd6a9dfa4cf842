/** Two runs beside each other: how they ended, what they took, and what they did differently. */

import { at, useResource } from "../api";
import { money, number, t, took } from "../i18n";
import { Moment, State } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Callout, Empty, Load } from "../parts/states";
import { Link, setQuery, to, useRoute } from "../router";
import type { Run, RunDetail } from "../types";

interface Compared {
  run: string;
  with: string;
  same: boolean;
  diff: string[];
}

export function Compare({ run }: { run: RunDetail }) {
  const { query } = useRoute();
  const found = useResource<{ runs: Run[] }>("/api/runs?limit=500");
  const others = (found.data?.runs ?? []).filter((one) => one.run !== run.run);
  // Runs of the same task come first: they are what one compares.
  const sorted = [...others.filter((one) => one.task === run.task), ...others.filter((one) => one.task !== run.task)];
  const chosen = query.get("with") ?? "";
  return (
    <div className="page">
      <div className="page-in reading">
        <Load from={found} path="/api/runs" what={t("runs")}>
          {() => others.length ? (
            <label className="field">
              <span className="label">{t("Compare with")}</span>
              <select className="input" value={chosen} onChange={(event) => setQuery("with", event.target.value)}>
                <option value="">{t("Choose a run")}</option>
                {sorted.map((one) => <option key={one.run} value={one.run}>{[one.task.split("\n")[0]!.slice(0, 80) || one.run, one.model, one.run.slice(-6)].filter(Boolean).join(" · ")}</option>)}
              </select>
            </label>
          ) : <Empty icon="runs" title={t("There is no other run to compare with")} />}
        </Load>
        {chosen && <Compared run={run} other={chosen} />}
      </div>
    </div>
  );
}

function Compared({ run, other }: { run: RunDetail; other: string }) {
  const path = at(`/api/runs/${encodeURIComponent(run.run)}/compare`, { with: other });
  const found = useResource<Compared>(path);
  const second = useResource<RunDetail>(`/api/runs/${encodeURIComponent(other)}`).data;
  return (
    <>
      {second && <Sides runs={[run, second]} />}
      <Load from={found} path={path} what={t("the comparison")} rows={6}>
        {({ same, diff }) => same
          ? <Callout tone="allow" icon="allow" title={t("Both runs did the same")}><p className="second">{t("They made the same calls, with the same results and the same answer.")}</p></Callout>
          : <section className="card" aria-label={t("What they did differently")}><Diff diff={diff.join("\n")} path={t("What they did differently")} wrap /></section>}
      </Load>
    </>
  );
}

function Sides({ runs }: { runs: [RunDetail, RunDetail] }) {
  const rows: [string, (run: RunDetail) => React.ReactNode][] = [
    [t("Run"), (run) => <Link href={to("runs", run.run, "timeline")}>{run.task.split("\n")[0] || run.run}</Link>],
    [t("State"), (run) => <State status={run.status} />],
    [t("Model"), (run) => <code>{run.model || "–"}</code>],
    [t("Started"), (run) => <Moment at={run.started} />],
    [t("Time"), (run) => (run.ended ? took(run.ended - run.started) : "–")],
    [t("Requests"), (run) => (run.usage ? number(run.usage.requests) : "–")],
    [t("Tokens out"), (run) => (run.usage ? number(run.usage.output_tokens) : "–")],
    [t("Cost"), (run) => money(run.usage?.cost_usd)],
  ];
  return (
    <section className="card" aria-label={t("Both runs")}>
      <div className="table-wrap">
        <table>
          <thead><tr><th><span className="hide">{t("What")}</span></th><th><del className="side">−</del> {t("This run")}</th><th><ins className="side">+</ins> {t("The other one")}</th></tr></thead>
          <tbody>{rows.map(([name, value]) => <tr key={name}><th scope="row" className="fit">{name}</th><td>{value(runs[0])}</td><td>{value(runs[1])}</td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}
