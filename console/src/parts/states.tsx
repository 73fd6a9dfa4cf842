/** What a page shows when there is nothing, not yet, or no answer. */

import { type ReactNode, useEffect, useState } from "react";
import { ApiError, type Resource, refresh } from "../api";
import { clock, t } from "../i18n";
import { EmptyArt, Icon } from "./icons";

export function Empty({ icon, title, children }: { icon: string; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <EmptyArt icon={icon} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Callout({ tone = "plain", icon, title, children }: { tone?: string; icon: string; title: string; children?: ReactNode }) {
  return (
    <section className="callout" data-tone={tone}>
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** Rows in the shape of what comes, after 300 ms. */
export function Skeleton({ rows = 4, what }: { rows?: number; what: string }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return null;
  return (
    <div className="skeletons" aria-busy="true">
      <span className="hide" role="status">{t("Loading {what}", { what })}</span>
      {Array.from({ length: rows }, (_, n) => (
        <div className="row" key={n}>
          <div className="skeleton skeleton-icon" />
          <div className={`skeleton skeleton-${n % 4}`} />
        </div>
      ))}
    </div>
  );
}

export function Failure({ error, path }: { error: ApiError; path?: string }) {
  const details = JSON.stringify({ code: error.code, status: error.status, message: error.message, hint: error.hint });
  return (
    <div className="empty" role="alert">
      <span className="tone" data-tone="deny"><Icon name="alert" /></span>
      <h2>{error.message}</h2>
      {error.hint && <p>{error.hint}</p>}
      <div className="row">
        {path && <button className="btn btn-sm" onClick={() => void refresh(path)}>{t("Try again")}</button>}
        <button className="btn btn-quiet btn-sm" onClick={() => void navigator.clipboard?.writeText(details)}>
          <Icon name="copy" small />
          {t("Copy details")}
        </button>
      </div>
      <p className="meta"><code>{error.code}</code></p>
    </div>
  );
}

/** For an endpoint that this gateway does not have. */
export const NotAvailable = ({ what }: { what: string }) => (
  <Callout icon="offline" title={t("{what} is not available from this gateway", { what })}>
    <p className="second">{t("Update Pegboard on the server to use it here. The command line has it already.")}</p>
  </Callout>
);

/** A resource: its content, or why there is none. Old content stays readable, marked with its time. */
export function Load<T>({ from, path, what, rows, children }: { from: Resource<T>; path: string; what: string; rows?: number; children: (data: T) => ReactNode }) {
  if (from.data !== undefined) {
    return (
      <>
        {from.error && <p className="meta" role="status">{t("As of {time}", { time: clock(from.at) })}</p>}
        {children(from.data)}
      </>
    );
  }
  if (from.error?.status === 404 && from.error.code === "not_found" && from.error.message === "Not Found") return <NotAvailable what={what} />;
  if (from.error) return <Failure error={from.error} path={path} />;
  return <Skeleton rows={rows} what={what} />;
}
