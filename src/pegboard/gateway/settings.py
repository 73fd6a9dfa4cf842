"""Settings, models, usage, audit and health over HTTP."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pegboard.app.app import App
from pegboard.config.reading import KEYS
from pegboard.gateway.bodies import ConfigChange, flag, number, read_body
from pegboard.gateway.live import LiveRuns
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.settings_watch import SettingsWatch
from pegboard.gateway.views import shown
from pegboard.services.settings import SettingsFiles
from pegboard.version import VERSION

_BY: Final = {
    "day": "days",
    "model": "models",
    "session": "sessions",
    "workspace": "workspaces",
    "tool": "tools",
}
"""The tables of a usage report by what `by` names."""


class SettingsEndpoints:
    """The endpoints that say what there is, how it is set and what was used.

    Args:
        app: whose services they call.
        live: the runs of this process.
        watch: reads the settings files when they change.
    """

    def __init__(self, app: App, live: LiveRuns, watch: SettingsWatch) -> None:
        self._app = app
        self._live = live
        self._watch = watch
        self._since = time.time()

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E = Endpoint
        return [
            E(method="GET", path="/api/health", handler=self.health, public=True),
            E(method="GET", path="/api/doctor", handler=self.doctor),
            E(method="GET", path="/api/models", handler=self.list_models),
            E(method="GET", path="/api/usage", handler=self.usage,
              query={"days": "integer", "by": "string", "all": "boolean"}),
            E(method="GET", path="/api/budgets", handler=self.list_budgets),
            E(method="GET", path="/api/audit/verify", handler=self.verify_audit, query={"session": "string"}),
            E(method="GET", path="/api/config", handler=self.show_config),
            E(method="PATCH", path="/api/config", handler=self.change_config, body=ConfigChange),
            E(method="GET", path="/api/config/schema", handler=self.config_schema),
            E(method="GET", path="/metrics", handler=self.metrics, media="text/plain"),
        ]  # fmt: skip

    async def health(self, request: Request) -> Any:
        """Whether the gateway answers, and its version."""
        return {"status": "ok", "version": VERSION}

    async def doctor(self, request: Request) -> Any:
        """What this machine can enforce, and what is there."""
        return shown(self._app, await self._app.settings.show())

    async def list_models(self, request: Request) -> Any:
        """The models that can be used here, what the others lack, the one that is used, and which keys are set."""
        settings = self._app.settings
        rows, keys = await settings.models(), await settings.model_keys()
        default = self._live.model or self._app.config.model or ""
        return shown(self._app, {"models": rows, "default": default, "keys": keys})

    async def usage(self, request: Request) -> Any:
        """Tokens, money and time of the last days; `by` gives one table of them as rows."""
        days = number(request, "days", 7, most=3660, least=1)
        workspace = None if flag(request, "all") else str(self._app.workspace)
        report = (await self._app.usage.report(days * 86400.0, workspace=workspace)).to_dict()
        by = request.query_params.get("by")
        if by is None:
            return shown(self._app, report)
        if by not in _BY:
            raise HTTPException(400, f"by must be one of {', '.join(_BY)}")
        rows = [{"key": key, **used} for key, used in report[_BY[by]].items()]
        rows.sort(key=lambda row: row["key"])
        return shown(self._app, {"days": days, "by": by, "runs": report["runs"], "rows": rows})

    async def list_budgets(self, request: Request) -> Any:
        """The budgets of the settings, and how far each is used; of those per day, today."""
        found = await self._app.usage.budgets(self._app.config.budgets)
        return shown(self._app, {"budgets": [one.to_dict() for one in found]})

    async def verify_audit(self, request: Request) -> Any:
        """Whether the record is whole: every fault of a session, or of all and of the tables beside them."""
        found = await self._app.audit.verify(request.query_params.get("session") or None)
        faults = [
            {"session": key, "seq": f.seq, "problem": f.problem, "accepted": f.accepted}
            for key, of_session in found.items()
            for f in of_session
        ]
        bad = {f["session"] for f in faults if not f["accepted"]}
        keys = [key for key in found if key]
        return shown(
            self._app,
            {
                "ok": not bad, "sessions": len(keys), "verified": sum(key not in bad for key in keys), "faults": faults,
                "acceptances": [one.to_dict() for one in await self._app.audit.acceptances()],
            },
        )  # fmt: skip

    # -- the settings file --------------------------------------------------------------------------

    @property
    def _files(self) -> SettingsFiles:
        return SettingsFiles(self._app.paths, self._app.workspace)

    async def show_config(self, request: Request) -> Any:
        """The settings as they are written, and the hash that a change is based on."""
        found = await self._files.get()
        values = {key: {"value": value, "file": str(path)} for key, (value, path) in found.items()}
        user, _ = await self._files.paths()
        return {
            "hash": await self._files.hash(), "file": str(user), "values": shown(self._app, values),
            "error": self._watch.error, "after_restart": list(self._watch.after_restart),
        }  # fmt: skip

    async def config_schema(self, request: Request) -> Any:
        """The keys that there are."""
        properties: dict[str, Any] = {key: {} for key in KEYS}
        return {"type": "object", "additionalProperties": False, "properties": properties}

    async def change_config(self, request: Request) -> Any:
        """Change keys of the user's settings file, all or none, if it still is the file that `base` names."""
        body = await read_body(request, ConfigChange)
        await self._files.patch(body.base, body.set)
        return {"hash": await self._files.hash(), **await self._watch.applied()}

    # -- metrics ------------------------------------------------------------------------------------

    async def metrics(self, request: Request) -> Response:
        """Counters in the text format of Prometheus (version 0.0.4)."""
        waiting = await self._app.approvals.pending()
        lines = [
            *_metric("pegboard_uptime_seconds", "gauge", "Seconds since the start.", {"": time.time() - self._since}),
            *_metric("pegboard_runs_active", "gauge", "Runs of this process.", {"": self._live.going_on}),
            *_metric("pegboard_approvals_pending", "gauge", "What waits for a person.", {"": len(waiting)}),
            *_metric("pegboard_event_followers", "gauge", "Clients that follow a run.", {"": self._live.followers}),
        ]  # fmt: skip
        for name, label, help in _COUNTERS:
            values = {
                f'{{{label}="{value}"}}' if label else "": float(count)
                for (counter, value), count in sorted(self._live.counts.items())
                if counter == name
            }
            lines += _metric(f"pegboard_{name}_total", "counter", help, values or ({} if label else {"": 0}))
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


_COUNTERS: Final = (
    ("runs_started", "", "Runs that began."),
    ("runs_finished", "status", "Runs that ended or were suspended."),
    ("calls", "result", "Tool calls, by ok or the code of their error."),
    ("tokens", "kind", "Tokens of models."),
)


def _metric(name: str, kind: str, help: str, values: dict[str, float]) -> list[str]:
    rows = [f"{name}{label} {value:.10g}" for label, value in values.items()]
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}", *rows]
