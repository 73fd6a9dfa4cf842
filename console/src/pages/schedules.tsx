/** Schedules: what runs when, what it did, and the next 24 hours. */

import { useEffect, useState } from "react";
import { ApiError, change, refresh, useResource } from "../api";
import { locale, t } from "../i18n";
import { State } from "../parts/basic";
import { Icon } from "../parts/icons";
import { Dialog, toast, toastError } from "../parts/overlay";
import { Page } from "../parts/shell";
import { Empty, Load } from "../parts/states";
import { Link, go, to, useRoute } from "../router";
import type { Schedule, ScheduleRun } from "../types";

interface Found {
  zone: string;
  schedules: Schedule[];
}

const nameOf = (job: Schedule) => job.name || job.message;
const pathOf = (job: Schedule) => `/api/schedules/${encodeURIComponent(job.id)}`;

/** A time as the gateway writes it (`2026-11-30 09:00 CET` or ISO 8601), as a date; null if it cannot be read. */
function timeOf(text: string): Date | null {
  const found = new Date(text.replace(" ", "T").replace(/ ?[A-Za-z_/]+$/, ""));
  return Number.isNaN(found.getTime()) ? null : found;
}

function shownTime(text: string): string {
  const time = timeOf(text);
  return time ? time.toLocaleString(locale(), { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }) : text;
}

export function SchedulesPage({ id }: { id?: string }) {
  const found = useResource<Found>("/api/schedules", 10);
  const { query } = useRoute();
  const jobs = found.data?.schedules ?? [];
  const selected = jobs.find((one) => one.id === id) ?? jobs[0];
  const [editing, edit] = useState<Schedule | "new" | null>(null);
  const act = async (what: () => Promise<unknown>, said: string) => {
    try {
      await what();
      toast(said);
    } catch (error) {
      toastError(error);
    }
    await refresh("/api/schedules", "/api/sessions");
  };
  const toggle = (job: Schedule) => act(() => change("PATCH", pathOf(job), { enabled: !job.enabled }), job.enabled ? t("Off. It starts no more.") : t("On."));
  return (
    <Page
      tabTitle={t("Schedules")}
      title={<h1>{t("Schedules")}</h1>}
      bar={
        <>
          {found.data && <span className="meta wide">{t("Times in {zone}", { zone: found.data.zone })}</span>}
          <span className="grow" />
          <button className="btn btn-primary" onClick={() => edit("new")}><Icon name="plus" />{t("New schedule")}</button>
        </>
      }
    >
      <Load from={found} path="/api/schedules" what={t("schedules")}>
        {() =>
          jobs.length ? (
            <div className="split split-schedules">
              <div className="page">
                <div className="page-in">
                  <NextDay jobs={jobs} />
                  <section className="card" aria-label={t("All schedules")}>
                    <div className="table-wrap">
                      <table>
                        <thead><tr><th><span className="hide">{t("On")}</span></th><th>{t("Schedule")}</th><th className="wide">{t("When")}</th><th>{t("Next")}</th></tr></thead>
                        <tbody>
                          {jobs.map((job) => (
                            <tr key={job.id} aria-selected={job === selected}>
                              <td className="fit"><input className="switch" type="checkbox" role="switch" aria-label={t("{name} is on", { name: nameOf(job) })} checked={job.enabled} onChange={() => void toggle(job)} /></td>
                              <td><Link href={to("schedules", job.id)}>{nameOf(job)}</Link>{job.name && <div className="meta clip-2">{job.message}</div>}</td>
                              <td className="wide"><code>{job.schedule}</code><div className="meta">{job.zone}</div></td>
                              <td className="num">{job.enabled && job.next[0] ? shownTime(job.next[0]) : t("Off")}</td>
                            </tr>
                          ))}
                        </tbody>
                      </table>
                    </div>
                  </section>
                  {selected && query.get("view") !== "list" && <div className="narrow-block"><JobDetail job={selected} act={act} edit={edit} /></div>}
                </div>
              </div>
              {selected && <aside className="split-aside detail" aria-label={nameOf(selected)}><JobDetail job={selected} act={act} edit={edit} /></aside>}
            </div>
          ) : (
            <div className="page">
              <Empty icon="schedule" title={t("No schedules")}>
                <p>{t("Let an agent work while you are away: “every weekday at 9, sum up new mail”. You can also say so in chat.")}</p>
                <button className="btn" onClick={() => edit("new")}>{t("New schedule")}</button>
              </Empty>
            </div>
          )
        }
      </Load>
      {editing && <Edit job={editing === "new" ? undefined : editing} zone={found.data?.zone ?? ""} onClose={() => edit(null)} />}
    </Page>
  );
}

const DAY_MS = 86400000;

/** The starts of the next 24 hours on one line. */
function NextDay({ jobs }: { jobs: Schedule[] }) {
  const now = Date.now();
  const starts = jobs.filter((job) => job.enabled).flatMap((job) => job.next.map((text) => ({ job, at: timeOf(text)?.getTime() ?? 0 }))).filter(({ at }) => at > now && at < now + DAY_MS).sort((a, b) => a.at - b.at);
  const hour = (time: number) => new Date(time).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit" });
  const first = Math.ceil(now / (3 * 3600000)) * 3 * 3600000;
  const marks = Array.from({ length: 8 }, (_, n) => first + n * 3 * 3600000);
  const x = (time: number) => 4 + ((time - now) / DAY_MS) * 752;
  const said = starts.map(({ job, at }) => `${nameOf(job)} ${hour(at)}`).join(", ");
  return (
    <section className="card" aria-labelledby="today">
      <div className="card-head"><h2 id="today">{t("Next 24 hours")}</h2><span className="grow" /><span className="meta">{t("{n, plural, =0 {no start} one {# start} other {# starts}}", { n: starts.length })}</span></div>
      <div className="figure">
        <svg className="chart wide" viewBox="0 0 760 62" role="img" aria-label={said || t("Nothing starts in the next 24 hours")}>
          <path className="grid" d={`M0 42H760${marks.map((m) => `M${x(m)} 0V42`).join("")}`} />
          {marks.map((m) => <text key={m} x={Math.min(740, Math.max(18, x(m)))} y="60" textAnchor="middle">{hour(m)}</text>)}
          <path d="M4 0V42" stroke="var(--ink)" strokeWidth="2" />
          {starts.map(({ job, at }) => <rect key={`${job.id} ${at}`} x={x(at) - 3} y="14" width="6" height="18" rx="2" fill="var(--fill)"><title>{`${nameOf(job)}, ${hour(at)}`}</title></rect>)}
        </svg>
        <ol className="lines narrow-block">{starts.slice(0, 6).map(({ job, at }) => <li key={`${job.id} ${at}`}><span className="num strong">{hour(at)}</span><span className="clip">{nameOf(job)}</span></li>)}</ol>
      </div>
    </section>
  );
}

type Act = (what: () => Promise<unknown>, said: string) => Promise<void>;

function JobDetail({ job, act, edit }: { job: Schedule; act: Act; edit: (job: Schedule) => void }) {
  const path = `${pathOf(job)}/runs?limit=20`;
  const history = useResource<{ runs: ScheduleRun[] }>(path, 10);
  const [removing, remove] = useState(false);
  return (
    <div className="stack stack-lg">
      <header className="stack tight"><h2>{nameOf(job)}</h2><p className="second">“{job.message}”</p></header>
      <div className="row row-wrap">
        <button className="btn btn-sm" onClick={() => void act(() => change("POST", `${pathOf(job)}/run`), t("Started."))}><Icon name="play" small />{t("Run now")}</button>
        <button className="btn btn-quiet btn-sm" onClick={() => edit(job)}>{t("Edit")}</button>
        <button className="btn btn-quiet btn-sm btn-danger" onClick={() => remove(true)}>{t("Remove…")}</button>
      </div>
      <section className="stack tight">
        <h3 className="section-title">{t("Next times")}</h3>
        <ol className="lines">{job.enabled && job.next.length ? job.next.map((one) => <li key={one}><span className="grow">{shownTime(one)}</span></li>) : <li className="second">{t("None: it is off, or its time has passed.")}</li>}</ol>
      </section>
      <section className="stack tight">
        <h3 className="section-title">{t("History")}</h3>
        <Load from={history} path={path} what={t("the history")}>
          {({ runs }) => runs.length ? (
            <ol className="lines">
              {runs.map((one, n) => (
                <li key={n}>
                  <State status={one.status} bare />
                  {one.run ? <Link className="grow" href={to("runs", one.run, "timeline")}>{shownTime(one.at)}</Link> : one.session ? <Link className="grow" href={to("chat", one.session)}>{shownTime(one.at)}</Link> : <span className="grow">{shownTime(one.at)}</span>}
                  <span className="meta">{one.missed ? t("{n} missed before it", { n: one.missed }) : one.note || one.status}</span>
                </li>
              ))}
            </ol>
          ) : <p className="second">{t("It has not run yet.")}</p>}
        </Load>
      </section>
      <dl className="dl">
        <div className="dl-row"><dt>{t("Session")}</dt><dd>{job.session ? <Link href={to("chat", job.session)}>{job.session}</Link> : t("a new one each time")}</dd></div>
        <div className="dl-row"><dt>{t("Answers go to")}</dt><dd>{job.deliver_to || t("this console")}</dd></div>
        {job.check && <div className="dl-row"><dt>{t("Only if")}</dt><dd><code>{job.check}</code></dd></div>}
      </dl>
      {removing && (
        <Dialog title={t("Remove this schedule?")} onClose={() => remove(false)}>
          <p className="second">{t("{name} starts no more. What it did stays in Runs.", { name: nameOf(job) })}</p>
          <div className="dialog-foot">
            <button className="btn" onClick={() => remove(false)}>{t("Cancel")}</button>
            <button className="btn btn-danger" onClick={() => { remove(false); void act(() => change("DELETE", pathOf(job)), t("Removed.")).then(() => go("/schedules", true)); }}>{t("Remove schedule")}</button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function Edit({ job, zone, onClose }: { job?: Schedule; zone: string; onClose: () => void }) {
  const [value, set] = useState({ name: job?.name ?? "", message: job?.message ?? "", schedule: job?.schedule ?? "0 9 * * 1-5", zone: job?.zone ?? "" });
  const [error, setError] = useState("");
  const [next, setNext] = useState<string[]>([]);
  const field = (name: keyof typeof value) => ({ value: value[name], onChange: (event: { target: { value: string } }) => set({ ...value, [name]: event.target.value }) });
  useEffect(() => {
    // What the gateway makes of it, without adding it.
    const timer = setTimeout(async () => {
      if (!value.schedule.trim()) return;
      try {
        const shown = await change<Schedule>("POST", "/api/schedules/preview", { ...value, message: value.message || "-" });
        setNext(shown.next);
        setError("");
      } catch (found) {
        setNext([]);
        if (found instanceof ApiError && found.code !== "not_found") setError([found.message, found.hint].filter(Boolean).join(" "));
      }
    }, 300);
    return () => clearTimeout(timer);
  }, [value]);
  const save = async () => {
    try {
      if (job) await change("PATCH", pathOf(job), value);
      else await change("POST", "/api/schedules", value);
      toast(t("Saved."));
      onClose();
    } catch (found) {
      setError(found instanceof ApiError ? [found.message, found.hint].filter(Boolean).join(" ") : String(found));
    }
    await refresh("/api/schedules");
  };
  return (
    <Dialog title={job ? t("Edit schedule") : t("New schedule")} onClose={onClose}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <div className="field"><label htmlFor="s-message">{t("What the agent is told")}</label><textarea className="input" id="s-message" rows={3} required {...field("message")} /></div>
        <div className="field"><label htmlFor="s-name">{t("Name")}</label><input className="input" id="s-name" placeholder={t("Optional")} {...field("name")} /></div>
        <div className="field">
          <label htmlFor="s-when">{t("When")}</label>
          <input className="input mono" id="s-when" required aria-invalid={error !== "" || undefined} aria-describedby="s-help" {...field("schedule")} />
          {error ? <p className="field-error" id="s-help"><Icon name="alert" />{error}</p> : <p className="help" id="s-help">{next.length ? t("Next: {times}", { times: next.map(shownTime).join("; ") }) : t("A cron line such as 0 9 * * 1-5, every 2h, or a time such as 2026-12-01 10:00.")}</p>}
        </div>
        <div className="field"><label htmlFor="s-zone">{t("Time zone")}</label><input className="input" id="s-zone" placeholder={zone} {...field("zone")} /></div>
        <div className="dialog-foot"><button className="btn" type="button" onClick={onClose}>{t("Cancel")}</button><button className="btn btn-primary" disabled={!value.message.trim() || error !== ""}>{t("Save schedule")}</button></div>
      </form>
    </Dialog>
  );
}
