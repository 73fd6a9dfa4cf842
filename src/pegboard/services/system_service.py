"""SystemService: `pegboard serve` or `pegboard worker` as a service of the user's systemd."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.process.child import run_small

Kind: TypeAlias = Literal["serve", "worker"]

MARK: Final = "# Written by `pegboard service install`; `pegboard service remove` deletes it."
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}\Z")
_START_S: Final = 60.0
_SHOWN: Final = (
    "ActiveState",
    "SubState",
    "UnitFileState",
    "MainPID",
    "ExecMainStatus",
    "ActiveEnterTimestamp",
)

_HARDENING: Final = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native"""
"""What an unprivileged manager can enforce without namespaces: the sandbox of commands makes its own, so they stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """A service, as its unit file says it.

    Attributes:
        name: letters, digits and `-`; the unit is `pegboard-NAME.service`.
        kind: serve or worker.
        workspace: the folder that it works in.
        argv: program and arguments.
        env_file: the file with its secrets.
    """

    name: str
    kind: Kind
    workspace: Path
    argv: Sequence[str]
    env_file: Path

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ConfigError(
                f"the service name {self.name!r} must be 1 to 40 lower-case letters, digits or -, and not begin with -"
            )
        for text in (*self.argv, str(self.workspace), str(self.env_file)):
            if not text.isprintable():
                raise ConfigError(f"{text!r} cannot stand in a unit file")
            if "://" in text and _password(text):
                raise ConfigError(
                    "a password must not stand in a unit file; name the store in your settings, with "
                    f'password = "env:DB_PASSWORD", and put that variable into {self.env_file}'
                )

    @property
    def unit(self) -> str:
        """The name of the unit."""
        return f"pegboard-{self.name}.service"

    def text(self) -> str:
        """The unit file (systemd.unit(5), systemd.service(5), systemd.exec(5))."""
        what = "Gateway" if self.kind == "serve" else "Worker"
        return f"""\
{MARK}
[Unit]
Description=Pegboard {what.lower()} for {_percent(str(self.workspace))}
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=exec
WorkingDirectory={_percent(str(self.workspace))}
ExecStart={" ".join(map(_quoted, self.argv))}
EnvironmentFile=-{_percent(str(self.env_file))}
Restart=on-failure
RestartSec=5
# Runs that go on have ten seconds to end; their commands are stopped with them, not before.
KillMode=mixed
TimeoutStopSec=30
{_HARDENING}

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledService:
    """What was installed.

    Attributes:
        unit, file, env_file: the unit, its file, and the file with its secrets.
        made_env_file: that file was made now, for the gateway with a new token.
        lingers: it goes on when the user logs out; None = unknown.
    """

    unit: str
    file: Path
    env_file: Path
    made_env_file: bool
    lingers: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """How a service is.

    Attributes:
        name, unit: its name and unit.
        state: such as `active (running)`.
        enabled: whether it starts by itself, as systemd says it.
        pid: of its main process, 0 while there is none.
        since: when it began to run, as systemd says it.
    """

    name: str
    unit: str
    state: str
    enabled: str
    pid: int
    since: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "name": self.name, "unit": self.unit, "state": self.state, "enabled": self.enabled, "pid": self.pid,
            "since": self.since,
        }  # fmt: skip


class SystemService:
    """The services of this user.

    Args:
        paths: where units and secrets lie.
        environment: of this process; systemd's programs are found on its PATH.
    """

    def __init__(self, paths: Paths, environment: Mapping[str, str]) -> None:
        self._paths = paths
        self._environment = dict(environment)
        self._units = paths.config.parent / "systemd" / "user"

    def env_file(self, name: str) -> Path:
        """Where the secrets of a service lie."""
        return self._paths.config / f"service-{name}.env"

    def unit_file(self, unit: ServiceUnit) -> Path:
        """Where the unit of a service lies."""
        return self._units / unit.unit

    async def missing(self) -> str:
        """Why this machine cannot run it as a service; empty where it can."""
        try:
            status, said = await self._run("systemctl", "--user", "show-environment")
        except FileNotFoundError:
            return "there is no systemctl on PATH"
        return f"systemd does not run for this user: {said.strip()}" if status else ""

    async def install(self, unit: ServiceUnit) -> InstalledService:
        """Write the unit, start it now and at each login; one of the same workspace is replaced and restarted.

        Raises:
            ConfigError: another service has the name, or systemd finds a fault in the unit.
            Unavailable: systemd does not run here, or the service did not start.
        """
        if why := await self.missing():
            raise Unavailable(f"{why}; nothing was installed", hint="See what it would install: --print")
        file = self.unit_file(unit)
        self._check_free(unit, file)
        await self._verify(unit)
        made = self._make_env_file(unit)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(unit.text(), encoding="utf-8")
        await self._systemctl("daemon-reload")
        await self._systemctl("enable", unit.unit)
        await self._systemctl("restart", unit.unit)
        return InstalledService(
            unit=unit.unit,
            file=file,
            env_file=unit.env_file,
            made_env_file=made,
            lingers=await self._lingers(),
        )

    async def status(self) -> list[ServiceStatus]:
        """The services that were installed, by name.

        Raises:
            Unavailable: systemd does not run here.
        """
        if (names := self._names()) and (why := await self.missing()):
            raise Unavailable(why)
        out: list[ServiceStatus] = []
        for name in names:
            unit = f"pegboard-{name}.service"
            said = await self._systemctl("show", unit, f"--property={','.join(_SHOWN)}")
            rows = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
            state, sub = rows.get("ActiveState", "unknown"), rows.get("SubState", "")
            failed = f", exit status {rows.get('ExecMainStatus')}" if state == "failed" else ""
            out.append(
                ServiceStatus(
                    name=name, unit=unit, state=f"{state} ({sub}{failed})", enabled=rows.get("UnitFileState", ""),
                    pid=int(rows.get("MainPID") or 0), since=rows.get("ActiveEnterTimestamp", ""),
                )
            )  # fmt: skip
        return out

    def logs_command(self, name: str, *, lines: int, follow: bool) -> list[str]:
        """The command that prints what a service wrote.

        Raises:
            ConfigError: no service of that name was installed.
        """
        self._find(name)
        more = ["--follow"] if follow else ["--no-pager"]
        return ["journalctl", "--user", f"--user-unit=pegboard-{name}.service", f"--lines={lines}", *more]

    async def remove(self, name: str) -> Path:
        """Stop a service and delete its unit; the file with its secrets, which stays.

        Raises:
            ConfigError: no service of that name was installed.
            Unavailable: systemd does not run here, or cannot stop it.
        """
        file = self._find(name)
        if why := await self.missing():
            raise Unavailable(why, hint=f"Delete {file} by hand.")
        await self._systemctl("disable", "--now", file.name)
        file.unlink()
        await self._systemctl("daemon-reload")
        return self.env_file(name)

    # -- parts ------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return sorted(
            file.stem.removeprefix("pegboard-")
            for file in self._units.glob("pegboard-*.service")
            if _is_ours(file)
        )

    def _find(self, name: str) -> Path:
        if name not in (names := self._names()):
            known = (
                f"installed: {', '.join(names)}"
                if names
                else "none is installed; see: pegboard service install"
            )
            raise ConfigError(f"no service is named {name!r}; {known}")
        return self._units / f"pegboard-{name}.service"

    def _check_free(self, unit: ServiceUnit, file: Path) -> None:
        if not file.exists():
            return
        if not _is_ours(file):
            raise ConfigError(f"{file} was not written by Pegboard; choose another name with --name")
        line = f"WorkingDirectory={_percent(str(unit.workspace))}\n"
        if line not in file.read_text(encoding="utf-8"):
            raise ConfigError(
                f"the service {unit.name!r} works in another folder; choose another name with --name, or remove it: "
                f"pegboard service remove {unit.name}"
            )

    def _make_env_file(self, unit: ServiceUnit) -> bool:
        if unit.env_file.exists():
            return False
        unit.env_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        token = f"PEGBOARD_TOKEN={secrets.token_urlsafe(32)}\n" if unit.kind == "serve" else ""
        text = f"# Secrets of {unit.unit}, one NAME=VALUE a line. Restart it after a change.\n{token}# OPENAI_API_KEY=\n"
        descriptor = os.open(unit.env_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return True

    async def _verify(self, unit: ServiceUnit) -> None:
        """Let systemd read the unit before it is in place; nothing where its checker is not installed."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / unit.unit
            file.write_text(unit.text(), encoding="utf-8")
            try:
                _, said = await self._run(
                    "systemd-analyze", "--user", "verify", str(file), XDG_RUNTIME_DIR=folder
                )  # fmt: skip
            except FileNotFoundError:
                return
        faults = [line for line in said.splitlines() if unit.unit in line]
        if faults:
            raise ConfigError(f"systemd does not accept the unit: {'; '.join(faults)}")

    async def _lingers(self) -> bool | None:
        try:
            status, said = await self._run(
                "loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value"
            )  # fmt: skip
        except FileNotFoundError:
            return None
        return None if status else said.strip() == "yes"

    async def _systemctl(self, *words: str) -> str:
        status, said = await self._run("systemctl", "--user", *words)
        if status:
            raise Unavailable(
                f"systemctl --user {' '.join(words)} failed: {said.strip()}",
                hint="See: pegboard service logs",
            )
        return said

    async def _run(self, *argv: str, **variables: str) -> tuple[int, str]:
        status, out = await run_small(argv, {**self._environment, **variables}, timeout_s=_START_S)
        return status, out.decode("utf-8", "replace")


def _is_ours(file: Path) -> bool:
    return file.read_text(encoding="utf-8", errors="replace").startswith(MARK)


def _password(text: str) -> str | None:
    try:
        return urlsplit(text).password
    except ValueError:
        return None


def _percent(text: str) -> str:
    """A value in which nothing is a specifier (systemd.unit(5), "Specifiers")."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command line, as it stands (systemd.service(5), "Command lines")."""
    if re.fullmatch(r"[A-Za-z0-9_@+=:,./-]+", word):
        return word
    inner = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_percent(inner)}"'
