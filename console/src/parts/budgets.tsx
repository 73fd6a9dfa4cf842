/** Budgets: how far each is used, and from where it asks. */

import { useResource } from "../api";
import { bytes, money, number, t, took } from "../i18n";
import { Meter } from "./facts";
import { Load } from "./states";

interface Budget {
  name: string;
  per: string;
  tool: string;
  agent: string;
  session: string;
  soft: number;
  limits: Record<string, number>;
  count: number;
  accounts: { of: string[]; used: Record<string, number> }[];
}

const span = (per: string): string => {
  switch (per) {
    case "run": return t("per run");
    case "session": return t("per session");
    case "day": return t("per day (UTC)");
    default: return t("in all");
  }
};

function amount(measure: string, value: number): string {
  switch (measure) {
    case "money": return money(value);
    case "seconds": return took(value) || t("{n} s", { n: 0 });
    case "bytes_out": return bytes(value);
    default: return t("{n, plural, one {# call} other {# calls}}", { n: value });
  }
}

export function Budgets() {
  const found = useResource<{ budgets: Budget[] }>("/api/budgets", 15);
  return (
    <section className="card" aria-labelledby="budgets">
      <div className="card-head"><h2 id="budgets">{t("Budgets")}</h2></div>
      <Load from={found} path="/api/budgets" what={t("budgets")}>
        {({ budgets }) => budgets.length ? (
          <div className="card-body stack stack-lg">{budgets.map((one) => <BudgetRow key={one.name} budget={one} />)}</div>
        ) : <p className="card-body second">{t("No budget is set. To stop at $5 a day, add [budgets.daily] with per = \"day\" and money = 5 to the settings file.")}</p>}
      </Load>
    </section>
  );
}

function BudgetRow({ budget }: { budget: Budget }) {
  const counts = [budget.tool, budget.agent, budget.session].filter((one) => one !== "*").join(", ");
  const limits = Object.entries(budget.limits);
  // What was not used yet has no account.
  const accounts = budget.accounts.length ? budget.accounts : [{ of: [], used: {} as Record<string, number> }];
  return (
    <div className="stack">
      <div className="row row-wrap"><b className="strong">{budget.name}</b><span className="meta grow">{[span(budget.per), counts].filter(Boolean).join(", ")}</span>
        {budget.count > accounts.length && <span className="meta num">{t("the {n} most used of {all}", { n: accounts.length, all: number(budget.count) })}</span>}</div>
      {accounts.flatMap((account) => limits.map(([measure, limit]) => {
        const used = account.used[measure] ?? 0;
        const text = t("{used} of {all}", { used: amount(measure, used), all: amount(measure, limit) });
        return <Meter key={`${account.of.join(" ")} ${measure}`} label={account.of.join(", ") || budget.name} share={limit ? (100 * used) / limit : 100} text={text} mark={budget.soft < 1 ? 100 * budget.soft : undefined} />;
      }))}
    </div>
  );
}
