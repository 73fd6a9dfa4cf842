"""Shell commands run in the workspace: confined, watched, told apart by how they ended."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace, TooLarge, Unavailable
from pegboard.core.secrets.clip import SEVERAL_LINES, keys_in, may_hold_key, without_parts
from pegboard.core.secrets.handles import Placeholders, Substitution
from pegboard.net.destinations import Destination, Resolve, resolve_here
from pegboard.net.egress import EgressProxy
from pegboard.ports.shell import ExecOutcome, ExecRequest, Inspection
from pegboard.ports.snapshot import Snapshot, SnapshotChanges, Snapshots
from pegboard.process.child import KILLED, Child, Spawn, Streams
from pegboard.process.output import HeadTailBuffer, LineReader, joined, open_bytes, without_open_end
from pegboard.shell.environment import command_environment
from pegboard.shell.sandbox import bridge
from pegboard.shell.sandbox.confinement import Backend, PreparedCommand, SandboxCommand
from pegboard.shell.sandbox.none import Unconfined

if TYPE_CHECKING:
    from pegboard.net.authority import CertificateAuthority


class Adopter(Protocol):
    """Takes over what outlives its command; see `shell.jobs`."""

    def adopt(self, running: RunningCommand) -> str:
        """Own a command whose children still run; the process_id under which they are listed."""
        ...


class LiveOutput:
    """Tells the lines of a command's output as they come, some times a second; part of a line waits for its end.

    Args:
        rings: where the output is kept.
        tell: is given each text.
        fallbacks: charsets to try for output that is not UTF-8.
    """

    def __init__(
        self, rings: Sequence[HeadTailBuffer], tell: Callable[[str], None], *, fallbacks: Sequence[str]
    ) -> None:
        self._readers = [LineReader(ring, fallbacks=fallbacks) for ring in dict.fromkeys(rings)]
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None

    def on_output(self) -> None:
        """There is more of it."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LIVE_S, self._tell_new)

    def stop(self) -> None:
        """Tell nothing more."""
        self._readers.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _tell_new(self) -> None:
        self._timer = None
        for reader in self._readers:
            text = reader.take(_LIVE_BYTES)
            if may_hold_key(text):
                # Its lines are hidden by what the whole output tells of them.
                self._readers.clear()
                return
            if text:
                self._tell(text)


@dataclass(slots=True)
class RunningCommand:
    """A started command and what belongs to it.

    Attributes:
        request: what was asked for.
        child: the process.
        stdout, stderr: the captured output.
        prepared: its confinement.
        started: monotonic seconds.
        filtered: whether it has no other way out than the proxy.
        proxy: its way to the granted hosts, None without.
        notes: what must be said, in order.
        live: tells the output as it comes, None where nobody listens.
    """

    request: ExecRequest
    child: Child
    stdout: HeadTailBuffer
    stderr: HeadTailBuffer
    prepared: PreparedCommand
    backend: str
    started: float
    filtered: bool = False
    proxy: EgressProxy | None = None
    notes: list[str] = field(default_factory=list[str])
    live: LiveOutput | None = None
    _ended: bool = False

    async def end(self) -> None:
        """Kill what still runs, undo what the sandbox forbids, free everything. Safe to repeat."""
        if self._ended:
            return
        self._ended = True
        self.stop_live()
        try:
            if self.child.gone.is_set() and not self.child.lingers:
                self.child.abandon()
            else:
                await self.prepared.kill()
                await self.child.kill()
            if self.proxy is not None:
                await self.proxy.close()
                self.notes.extend(self.proxy.refusals())
        finally:
            self.notes.extend(await self.prepared.finish())
            self.prepared.release()

    def stop_live(self) -> None:
        """Its call has ended, or is about to: its output is told no more."""
        if self.live is not None:
            self.live.stop()
            self.live = self.child.on_output = None

    def outcome(
        self, *, timed_out: bool, captured: SnapshotChanges, fallbacks: Sequence[str], leaving: bool = False
    ) -> ExecOutcome:
        """What became of it, as far as it is known now; `leaving` if more output of it may follow elsewhere."""

        def text_of(ring: HeadTailBuffer) -> str:
            head, tail = ring.parts()
            if leaving:
                # The first part of a secret comes with the rest.
                held = open_bytes(head + tail)
                head, tail = (head, tail[: len(tail) - held]) if held <= len(tail) else (head[:-held], b"")
            text = joined(head, tail, ring.dropped, fallbacks=fallbacks)
            return without_open_end(text) if timed_out else text

        out, err = self.stdout, self.stderr
        not_undoable = [f"not undoable: {reason}" for reason in captured.not_captured]
        return ExecOutcome(
            exit_code=KILLED if self.child.exit_code is None else self.child.exit_code,
            stdout=text_of(out),
            stderr="" if err is out else text_of(err),
            duration_s=time.monotonic() - self.started,
            timed_out=timed_out,
            dropped_bytes=out.dropped + (0 if err is out else err.dropped),
            changes=captured.changes,
            notes=(*self.notes, *not_undoable),
            backend=self.backend,
            reached=self._reached(),
        )

    def _reached(self) -> tuple[str, ...] | None:
        """Where it connected to, by the proxy's account; None where it could pass it by."""
        if not self.filtered:
            return None
        seen = () if self.proxy is None else self.proxy.destinations
        return tuple(dict.fromkeys(d.name for d in seen if d.allowed))


SHELL: Final = "/bin/bash"
STOPPED_ITSELF: Final = "the command was stopped by a signal and would not have gone on: it was ended"
_NO_KEYS: Final = frozenset((".git", "node_modules", ".venv", "__pycache__"))
"""Folders in which nobody keeps keys of their own."""
# How long children may take to let go of the output once the command itself has ended.
_LINGER_S: Final = 0.25
_BRIDGE_S: Final = 10.0
_LIVE_S: Final = 0.1
_LIVE_BYTES: Final = 16_384
_CONFIG_BUSY: Final = b"could not write config file"


class Guard(Protocol):
    """Judges a command without running it."""

    def __call__(self, command: str, *, working_dir: str | None = None) -> Inspection:
        """What the command will do, as far as parsing can tell."""
        ...


class CommandShell:
    """Runs commands of one workspace; implements `ports.shell.Shell`.

    Args:
        workspace: real path of the workspace.
        backend: the confinement; see `sandbox.choose`.
        environment: our own environment, of which an allow-list is passed on.
        passed: further names of it to pass on.
        path_prepend: folders to put before PATH.
        secret_names: variables that a call may not set.
        guard: judges commands; None = `pegboard.shell.guard`.
        snapshots: remembers the workspace before commands that may change it.
        adopter: owns children that outlive their command; None = they are ended.
        egress_allow: private hosts that may be reached when granted (tests, own servers).
        egress_cidrs: networks whose addresses may be reached by granted names though they are not public.
        resolve: how the egress proxy finds addresses.
        on_destination: told of every destination that a command tried to reach, for the audit.
        fallbacks: charsets to try for output that is not UTF-8, the locale's first.
        placeholders: what stands for secrets in commands; the egress proxy puts the values in.
        on_output: is given the output of a command that a call waits for, as it comes.
        ca_file: certificates of further authorities (PEM) that commands with hosts and the egress proxy trust.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        backend: Backend | None = None,
        environment: Mapping[str, str],
        passed: Sequence[str] = (),
        path_prepend: Sequence[str] = (),
        secret_names: Sequence[str] = (),
        guard: Guard | None = None,
        snapshots: Snapshots | None = None,
        adopter: Adopter | None = None,
        egress_allow: Sequence[str] = (),
        egress_cidrs: Sequence[str] = (),
        resolve: Resolve = resolve_here,
        on_destination: Callable[[Destination], None] | None = None,
        fallbacks: Sequence[str] = (),
        placeholders: Placeholders | None = None,
        on_output: Callable[[str], None] | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._ca_file = ca_file
        self._on_output = on_output
        self._workspace = workspace
        self._backend: Backend = backend or Unconfined()
        self._environment = environment
        self._passed = passed
        self._prepend = path_prepend
        self._secret_names = secret_names
        self._guard = guard
        self._snapshots = snapshots
        self.egress_allow = egress_allow
        self.egress_cidrs = egress_cidrs
        self.resolve = resolve
        self._on_destination = on_destination
        self.fallbacks = fallbacks
        self._placeholders = placeholders
        self.adopter = adopter

    def inspect(self, command: str, *, working_dir: str | None = None) -> Inspection:
        """What the command will do, as far as parsing can tell; runs nothing.

        Raises:
            NotFound, OutsideWorkspace: see `run`; refused here, before anybody is asked.
        """
        self._folder(working_dir)
        if self._guard is None:
            self._guard = _own_guard(self._workspace)
        return self._guard(command, working_dir=working_dir)

    def backend(self) -> str:
        """Name of the confinement in use."""
        return self._backend.name

    def enforced(self) -> Mapping[str, bool | str]:
        """What the confinement enforces here."""
        return self._backend.enforced()

    async def run(self, request: ExecRequest) -> ExecOutcome:
        """Run a command to its end.

        A child that outlives the shell and holds its output does not hang the call: it is handed
        to the adopter, and the outcome's notes name it.

        Raises:
            NotFound: there is no such working folder.
            OutsideWorkspace: the sandbox does not hold the working folder.
            InvalidArguments: a variable may not be set, or the command holds a zero byte.
            TooLarge: the command is longer than the system lets a program be given.
            Unavailable: the command could not be started as confined as it must be.
        """
        snapshot = await self.snapshot(request)
        running = await self.begin(request)
        try:
            in_time = await running.child.wait(request.timeout_s or None)
            return await self.conclude(running, snapshot, in_time=in_time)
        except BaseException:
            # Cancelled: the children must be gone before anyone hears of it.
            await asyncio.shield(asyncio.ensure_future(running.end()))
            raise

    async def conclude(
        self, running: RunningCommand, snapshot: Snapshot | None, *, in_time: bool
    ) -> ExecOutcome:
        """The outcome of a command that has ended (`in_time`) or is to be ended now."""
        running.stop_live()
        if in_time and await self._lingers(running):
            if not await running.child.is_stopped(0.0):
                return await self._leave(running, snapshot)
            running.notes.append(STOPPED_ITSELF)
        await running.end()
        captured = await snapshot.changes() if snapshot is not None else SnapshotChanges()
        running.notes += await running.prepared.clean(captured.changes.changes)
        if _CONFIG_BUSY in running.stderr.parts()[1] or _CONFIG_BUSY in running.stderr.parts()[0]:
            running.notes.append(
                "the sandbox keeps .git/config: give settings with `git -c key=value`, or `git config --global`"
            )
        return await self._without_keys(
            running.outcome(timed_out=not in_time, captured=captured, fallbacks=self.fallbacks)
        )

    async def _without_keys(self, outcome: ExecOutcome) -> ExecOutcome:
        out, err = [await self.without_keys(text) for text in (outcome.stdout, outcome.stderr)]
        same = out is outcome.stdout and err is outcome.stderr
        return outcome if same else replace(outcome, stdout=out, stderr=err)

    async def without_keys(self, text: str) -> str:
        """Output with marks for parts of the private keys that stand in files of the workspace.

        A command may show some lines of a key without those that tell what they are.
        """
        if not may_hold_key(text):
            return text
        return without_parts(text, await asyncio.to_thread(_keys_below, self._workspace))

    async def snapshot(self, request: ExecRequest) -> Snapshot | None:
        """Remember the workspace, unless the command only reads."""
        if request.read_only or self._snapshots is None:
            return None
        return await self._snapshots.take()

    async def begin(
        self,
        request: ExecRequest,
        *,
        terminal: tuple[int, str] | None = None,
        keep_stdin: bool = False,
        merged: bool = False,
    ) -> RunningCommand:
        """Start a command; the caller owns it and must `end` it.

        Args:
            request: the command.
            terminal: descriptor of a pseudo-terminal's master side and path of its slave.
            keep_stdin: leave standard input open.
            merged: capture stdout and stderr as one stream, in order of arrival.
        """
        if "\0" in request.command:
            raise InvalidArguments(
                f"the command contains a NUL byte at character {request.command.index(chr(0)) + 1}",
                hint="If the command needs one, write it as printf '\\0'.",
            )
        folder = self._folder(request.working_dir)
        env = command_environment(
            self._environment,
            request.env,
            passed=self._passed,
            prepend=self._prepend,
            secret_names=self._secret_names,
            terminal=terminal is not None,
        )
        if request.hosts and self._backend.network == "closed":
            raise Unavailable(
                f"{self._backend.name} cannot open the network to {', '.join(request.hosts)}",
                hint="Use the bubblewrap backend for commands that need the network.",
            )
        filtered = bool(request.hosts) and self._backend.network == "filtered"
        way_out = self._way_out(request) if filtered else _WayOut()
        pair = socket.socketpair() if filtered else None
        if pair is not None:
            env.update(bridge.proxy_environment())
        if way_out.roots:
            # What the call itself sets is meant.
            env.update((k, v) for k, v in bridge.certificate_environment().items() if k not in request.env)
        job = SandboxCommand(
            argv=(SHELL, "-c", request.command),
            cwd=folder,
            env=env,
            terminal=None if terminal is None else terminal[1],
            bridge=None if pair is None else pair[1].fileno(),
            approved=request.approved,
            certificates=way_out.shown,
        )
        stdout = HeadTailBuffer(request.max_output_bytes)
        stderr = stdout if merged or terminal is not None else HeadTailBuffer(request.max_output_bytes)
        try:
            prepared = self._backend.prepare(job)
            started = time.monotonic()
            child = await self._start(prepared, stdout, stderr, request, terminal, keep_stdin)
            running = RunningCommand(
                request=request,
                child=child,
                stdout=stdout,
                stderr=stderr,
                prepared=prepared,
                backend=self._backend.name,
                started=started,
                filtered=self._backend.network == "filtered",
                notes=list(prepared.notes),
            )
            if self._on_output is not None:
                live = LiveOutput((stdout, stderr), self._on_output, fallbacks=self.fallbacks)
                running.live, child.on_output = live, live.on_output
                live.on_output()  # For what came before anybody listened.
            if pair is not None:
                pair[1].close()
                running.proxy = await self._open_egress(running, pair[0], way_out)
            return running
        finally:
            if pair is not None:
                pair[1].close()
                pair[0].close()

    async def _start(
        self,
        prepared: PreparedCommand,
        stdout: HeadTailBuffer,
        stderr: HeadTailBuffer,
        request: ExecRequest,
        terminal: tuple[int, str] | None,
        keep_stdin: bool,
    ) -> Child:
        slave = -1
        try:
            if terminal is not None:
                slave = os.open(terminal[1], os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            return await Child.start(
                Spawn(
                    argv=prepared.argv,
                    env=prepared.env,
                    cwd=prepared.cwd,
                    pass_fds=prepared.pass_fds,
                    stdin=slave if slave >= 0 else -3,
                ),
                Streams(
                    stdout=stdout,
                    stderr=stderr,
                    stdin=request.stdin,
                    keep_stdin=keep_stdin,
                    status_fd=prepared.status_fd,
                ),
                terminal=None if terminal is None else terminal[0],
            )
        except BaseException as problem:
            # Cancelled or failed: nothing runs, and what was made for it must not stay.
            await asyncio.shield(asyncio.ensure_future(prepared.finish()))
            prepared.release()
            if not isinstance(problem, OSError):
                raise
            if problem.errno == errno.E2BIG:
                size = sum(map(len, (request.command, *request.env.values())))
                raise TooLarge(
                    f"the command and its variables have {size:,} characters, more than the system allows",
                    hint="Pass long text as stdin, or write it to a file first with write_file.",
                ) from problem
            raise Unavailable(
                f"the command could not be started: {problem.strerror or problem}",
                hint="Run `pegboard doctor` to see what is missing.",
            ) from problem
        finally:
            for fd in (*prepared.close_after_start, slave):
                if fd >= 0:
                    os.close(fd)

    def _way_out(self, request: ExecRequest) -> _WayOut:
        """The secrets that a command may send to hosts, and which authorities it and the proxy trust."""
        held = self._placeholders
        stdin = (request.stdin or b"").decode("utf-8", "replace")
        secrets = () if held is None else held.find_in((request.command, *request.env.values(), stdin))
        if not secrets and self._ca_file is None:
            return _WayOut()
        from pegboard.net.authority import CertificateAuthority, client_context, trusted_roots

        # Who names a file of authorities for programs here means those in the sandbox too.
        named = [self._environment[name] for name in bridge.CA_VARIABLES if self._environment.get(name)]
        ours = [] if self._ca_file is None else [self._ca_file]
        roots = trusted_roots(*ours, *(file for file in named if os.path.isfile(file)))
        if not secrets:
            return _WayOut(roots=roots)
        authority = CertificateAuthority(host for secret in secrets for host in secret.hosts)
        return _WayOut(secrets=secrets, authority=authority, roots=roots, tls=client_context(roots))

    async def _open_egress(
        self, running: RunningCommand, ours: socket.socket, way_out: _WayOut
    ) -> EgressProxy:
        ours.settimeout(_BRIDGE_S)
        try:
            listener = await asyncio.to_thread(bridge.receive, ours)
        except OSError as problem:
            await running.end()
            said = running.stderr.parts()[0].decode("utf-8", "replace").strip()
            raise Unavailable(f"the sandbox's network could not be set up: {said or problem}") from problem
        request, tls = running.request, way_out.tls
        proxy = EgressProxy(
            request.hosts,
            allow_private=self.egress_allow,
            allow_cidrs=self.egress_cidrs,
            resolve=self.resolve,
            on_destination=self._on_destination,
            substitutions=way_out.secrets,
            authority=way_out.authority,
            tls=None if tls is None else lambda: tls,
        )
        await proxy.serve(listener)
        return proxy

    async def _lingers(self, running: RunningCommand) -> bool:
        """Whether children still hold the output after a short grace."""
        child = running.child
        if not await child.wait_drained(_LINGER_S):
            return True
        await child.wait_gone(_LINGER_S)
        return await child.still_lingers(_LINGER_S)

    async def _leave(self, running: RunningCommand, snapshot: Snapshot | None) -> ExecOutcome:
        """The command has ended, children of it have not."""
        running.child.drain_now()
        captured = await snapshot.changes() if snapshot is not None else SnapshotChanges()
        running.notes += await running.prepared.clean(captured.changes.changes)
        if self.adopter is None:
            await running.end()
            running.notes.append("processes that the command left running were stopped")
            return await self._without_keys(
                running.outcome(timed_out=False, captured=captured, fallbacks=self.fallbacks)
            )
        outcome = await self._without_keys(
            running.outcome(timed_out=False, captured=captured, fallbacks=self.fallbacks, leaving=True)
        )
        process_id = self.adopter.adopt(running)
        note = f"the command left processes running; they continue as background command {process_id}"
        return replace(outcome, notes=(*outcome.notes, note))

    def _folder(self, wanted: str | None) -> Path:
        """The working folder: the call's, else the workspace.

        Raises:
            NotFound: it does not exist or is not a folder.
            OutsideWorkspace: the sandbox does not hold it.
        """
        folder = self._workspace if wanted is None else self._workspace / wanted
        if not folder.is_dir():
            raise NotFound(
                f"working_dir {wanted or str(self._workspace)!r} does not exist",
                hint="Pass a folder relative to the workspace, or omit working_dir.",
            )
        real = folder.resolve()
        if not self._backend.reaches(real):
            raise OutsideWorkspace(
                f"working_dir {wanted!r} leads to {real}, which the sandbox does not hold",
                hint="Use a folder of the workspace; the user can add others to allowed_dirs in the settings.",
            )
        return real


@dataclass(frozen=True, slots=True, kw_only=True)
class _WayOut:
    """Of one command: its secrets, the authority that ends its TLS, the root certificates (PEM), and what checks them."""

    secrets: tuple[Substitution, ...] = ()
    authority: CertificateAuthority | None = None
    roots: str = ""
    tls: ssl.SSLContext | None = None

    @property
    def shown(self) -> str:
        """What the command gets to read: the roots, and the authority's own certificate."""
        return self.roots + ("" if self.authority is None else self.authority.certificate)


_KEY_FILES: Final = 5000
_KEY_FILE_BYTES: Final = 1 << 20
_KEYS_S: Final = 1.0


def _keys_below(folder: Path) -> list[str]:
    """The letters of the private keys in the files below a folder, as far as one second goes."""
    keys: list[str] = []
    deadline, left = time.monotonic() + _KEYS_S, _KEY_FILES
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NO_KEYS)
        for name in names[:left]:
            with suppress(OSError):
                fd = os.open(f"{above}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                with open(fd, "rb") as file:
                    regular = stat.S_ISREG(os.fstat(fd).st_mode)
                    data = file.read(_KEY_FILE_BYTES) if regular else b""
                if any(word.encode() in data for word in SEVERAL_LINES):
                    keys += keys_in(data.decode("utf-8", "replace"))
        left -= len(names)
        if left <= 0 or time.monotonic() > deadline:
            break
    return keys


def _own_guard(workspace: Path) -> Guard:
    # Lazily: parsing commands brings tree-sitter, which running them does not need.
    from pegboard.shell.guard import inspection, judge

    def inspect(command: str, *, working_dir: str | None = None) -> Inspection:
        return inspection(judge(command, workspace, working_dir=working_dir))

    return inspect
