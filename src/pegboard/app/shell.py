"""The Shell port: the strongest confinement that works here, the guard, and snapshots for undo."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import subprocess
import threading
from collections.abc import Coroutine, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pegboard.config.environment import environment as this_environment
from pegboard.config.environment import secrets_of
from pegboard.config.load import Config
from pegboard.config.paths import Paths
from pegboard.core.context import current_context
from pegboard.core.effects import Change
from pegboard.core.policy.policy import Policy
from pegboard.core.secrets.handles import Placeholders
from pegboard.files.journal import ChangeOrigin, Journal
from pegboard.files.restorable import Restorable
from pegboard.files.snapshot import SnapshotLimits, TreeSnapshot
from pegboard.net.destinations import record_destination
from pegboard.ports.processes import Process
from pegboard.ports.shell import Inspection, Shell
from pegboard.ports.snapshot import Snapshot, SnapshotChanges
from pegboard.shell.background import BackgroundCommands
from pegboard.shell.environment import command_environment
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox import git
from pegboard.shell.sandbox.confinement import MASKED, Backend, Bind, Confinement
from pegboard.shell.sandbox.selection import SelectedBackend, make, select_backend

if TYPE_CHECKING:
    from pegboard.app.ports import Assembly

T = TypeVar("T")
WORKED: Final[dict[Hashable, Backend]] = {}
"""See `choose_backend`."""


def command_shell(assembly: Assembly) -> CommandShell:
    """The Shell port over a workspace.

    The policy learns whether commands are confined here: where they are not, each one asks.

    Raises:
        Unavailable: the config requires a sandbox, or names one that does not work here.
    """
    wiring, root, config = assembly.wiring, assembly.workspace, assembly.config
    environment = this_environment()
    # A worker opens many sessions over one workspace.
    choice = choose_backend(wiring.policy, root, assembly.paths, config, worked=WORKED)
    wiring.closers.append(partial(asyncio.to_thread, choice.backend.close))
    # A placeholder is of use only where the proxy stands on the one way out.
    held = Placeholders() if wiring.safeguards.secrets and choice.backend.network == "filtered" else None
    wiring.policy = replace(wiring.policy, sandboxed=choice.backend.name != "none")
    wiring.banner = choice.banner
    # Names only: what an approval is bound to is shown and recorded.
    names = command_environment(environment, {}, prepend=config.path_prepend)
    wiring.safeguards = replace(
        wiring.safeguards,
        environment=(f"sandbox:{choice.backend.name}", *sorted(names)),
        placeholders=held,
        undo=Restorable(root),
    )
    return CommandShell(
        root,
        backend=choice.backend,
        environment=environment,
        guard=partial(
            _inspect, workspace=root, home=assembly.paths.home, confined=choice.backend.network != "open"
        ),
        path_prepend=config.path_prepend,
        secret_names=tuple(secrets_of(environment)),
        snapshots=JournalSnapshots(root, Journal(assembly.paths.state / "journal")),
        on_destination=record_destination,
        egress_allow=config.network.allow_hosts,
        egress_cidrs=config.network.allow_cidrs,
        fallbacks=locale_charsets(environment),
        placeholders=held,
        on_output=_tell_output,
        ca_file=config.confinement.ca_file,
    )


def background_commands(assembly: Assembly) -> BackgroundCommands:
    """The Processes port over the Shell port; their ends are told to whoever listens."""
    wiring = assembly.wiring

    def on_end(process: Process) -> None:
        notice = (
            f"[The background command {process.process_id} has ended: {process.state}, exit code "
            f"{process.exit_code}. process action=poll shows what it wrote.]"
        )
        for listener in tuple(wiring.listeners):
            listener(notice)

    commands = BackgroundCommands(assembly.port(Shell), on_end=on_end)

    async def close() -> list[str]:
        return [
            f"the background command {process.process_id} was still running and was ended: {process.command}"
            for process in await commands.close()
        ]

    wiring.closers.append(close)
    return commands


def _tell_output(text: str) -> None:
    """To whoever watches the call whose command this is; its reader runs in that call's context."""
    with suppress(LookupError):  # A person's own command, whose output goes to the terminal.
        current_context().emit({"output": text})


def locale_charsets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The charset that the locale names where it is not UTF-8: programs may write in it (POSIX, LC_ALL first)."""
    name = next((environment[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(n)), "")
    charset = name.partition(".")[2].partition("@")[0]
    try:
        found = codecs.lookup(charset).name if charset else ""
    except LookupError:
        return ()
    return (found,) if found not in ("", "utf-8", "ascii") else ()


def _inspect(
    command: str, *, working_dir: str | None = None, workspace: Path, home: Path, confined: bool
) -> Inspection:
    """The guard's inspection; loaded with the first command, because it brings a parser."""
    from pegboard.shell.guard import inspection, judge
    from pegboard.shell.guard.scripts import bind_scripts

    found = inspection(
        judge(command, workspace=workspace, working_dir=working_dir, home=home, confined=confined)
    )
    return replace(found, effects=bind_scripts(found.effects, workspace=workspace, working_dir=working_dir))


def choose_backend(
    policy: Policy,
    root: Path,
    paths: Paths,
    config: Config,
    *,
    backend: str | None = None,
    worked: dict[Hashable, Backend] | None = None,
    search_path: str = "",
    frozen: bool = False,
) -> SelectedBackend:
    """The confinement for a workspace, found by running something in it.

    Args:
        policy, root, paths, config: what it must keep from commands.
        backend: this one; None = as the settings say.
        worked: backends that ran something in this process, by what they must keep from commands; these are not tried
            again, and what works now is added. None = everything is tried.
        search_path: where interpreters are looked for, which commands then see; empty = on PATH.
        frozen: the workspace cannot be written.

    Raises:
        Unavailable: see `select_backend`.
    """
    # What a rule forbids to read must be masked inside, what it forbids to write bound read-only.
    named = [
        (r.kind, paths.home / r.target[2:] if r.target.startswith("~/") else Path(r.target))
        for r in policy.rules
        if r.verdict == "deny" and not r.observe and r.target.startswith(("/", "~/")) and "*" not in r.target
    ]
    hidden = [place for kind, place in named if kind in ("*", "read")]
    read_only = [place for kind, place in named if kind in ("write", "delete")]
    inside = [
        r.target.rstrip("/") for r in policy.rules
        if r.verdict == "deny" and not r.observe and r.kind in ("write", "delete") and "/" in r.target
        and not r.target.startswith(("/", "~")) and "*" not in r.target
    ]  # fmt: skip
    settled = git_settings(root, paths.home)
    # Of the person's own settings too: each command looks at the repository's only.
    taken = git.folder_inside(root, settled.get("core.hookspath", ""))
    own = git.inside(root, git.included_files(git.own_settings(paths.home), paths.home))
    if config.hooks:
        from pegboard.config.hooks import script_names

        own = (*own, *script_names(config.hooks, root))
    confinement = Confinement(
        workspace=root,
        state=paths.cache / "workspaces" / workspace_id(root),
        protected=tuple(
            dict.fromkeys(
                (*MASKED, *inside, *filter(None, [taken]), *own, *config.tool_files.python_inside(root))
            )
        ),
        hidden=tuple([*hidden, *(p for p in (paths.config, paths.state) if p.exists())]),
        read_only=(*read_only, *([root] if frozen else ())),
        search_path=search_path or this_environment().get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        identity=(settled.get("user.name", "").strip(), settled.get("user.email", "").strip()),
        limits=config.confinement.limits,
        binds=_binds(config, root),
        kept_bytes=SnapshotLimits().max_file_bytes,
    )
    wanted = backend or (None if config.sandbox == "auto" else config.sandbox)
    settings = config.confinement
    key = (wanted, confinement, settings.image, settings.runtime)
    if worked is not None and (before := worked.get(key)) is not None:
        # Should it have stopped working, it refuses each command: nothing runs unconfined. The control groups are
        # those of the process; the network and all else are this session's own.
        made = make(
            before.name, confinement, image=settings.image, runtime=settings.runtime, client_env=this_environment(),
            groups=getattr(before, "groups", None),
        )  # fmt: skip
        return SelectedBackend(backend=made)
    found = in_thread(
        select_backend(
            confinement,
            backend=wanted,
            require=config.require_sandbox,
            image=settings.image,
            runtime=settings.runtime,
            client_env=this_environment(),
        )
    )
    if worked is not None and found.backend.name != "none":
        worked[key] = found.backend
    return found


def _binds(config: Config, root: Path) -> tuple[Bind, ...]:
    """The further folders that the file tools may use, for commands too; missing ones are left out."""
    given = [(name, True) for name in config.allowed_dirs] + [(name, False) for name in config.read_only_dirs]
    places = [(Path(name), writable) for name, writable in given]
    # An ancestor of the workspace would bring half the machine in: `/` is for the file tools alone.
    return tuple(
        Bind(source=real, writable=writable)
        for place, writable in places
        if place.is_absolute()
        and (real := place.resolve()).is_dir()
        and root not in (real, *real.parents)
        and real not in root.parents
    )


def workspace_id(root: Path) -> str:
    """A folder name for a workspace: its real path and identity."""
    there = root.stat()
    return hashlib.sha256(f"{there.st_dev}:{there.st_ino}:{root}".encode()).hexdigest()[:20]


def git_settings(root: Path, home: Path) -> Mapping[str, str]:
    """The user's git name, e-mail and folder of hooks, by key in small letters; what is not set is missing.

    git is run once for files of the same content: a worker opens many sessions over one workspace.
    """
    files = [*git.own_settings(home), *git.config_files(root)]
    contents = tuple(map(git.settings_text, files))
    elsewhere = any(name.startswith("GIT_CONFIG") for name in this_environment())
    if elsewhere or any(b"include" in content.lower() for content in contents):
        return _git_settings.__wrapped__(root, contents)
    return _git_settings(root, contents)


@lru_cache(maxsize=64)
def _git_settings(root: Path, contents: tuple[bytes, ...]) -> Mapping[str, str]:
    """See `git_settings`; `contents` are those of the files that git reads here."""
    keys = r"^(user\.(name|email)|core\.hookspath)$"
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "config", "--null", "--get-regexp", keys],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    # The last value of a key counts (git-config).
    return dict(entry.split("\n", 1) for entry in done.stdout.split("\0") if "\n" in entry)


def in_thread(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a thread of its own, so that it works inside a running loop too."""
    out: list[T] = []
    failure: list[BaseException] = []

    def go() -> None:
        try:
            out.append(asyncio.run(coro))
        except BaseException as error:  # noqa: BLE001  Carried over to the caller's thread.
            failure.append(error)

    thread = threading.Thread(target=go, name="pegboard-probe")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return out[0]


class JournalSnapshots:
    """Snapshots of one workspace; their differences go to the journal as the running call's changes."""

    def __init__(self, root: Path, journal: Journal) -> None:
        self._root = root
        self._journal = journal
        self._said: set[tuple[str, str]] = set()

    async def take(self) -> Snapshot:
        """See Snapshots."""
        before = await asyncio.to_thread(self._take)
        return _JournalSnapshot(before, self._root, self._journal, _origin(), self._said)

    def _take(self) -> TreeSnapshot:
        repository = git.repository_of(self._root)
        if repository is None:
            return TreeSnapshot.take(self._root, journal=self._journal)
        # Of a linked worktree the repository lies outside, and people work in its other checkouts meanwhile.
        return TreeSnapshot.take(
            self._root, journal=self._journal, beside=(repository.common,), others=repository.others()
        )


class _JournalSnapshot:
    """`said`: the session and the name of each unwatched folder that a note has mentioned already."""

    def __init__(
        self,
        before: TreeSnapshot,
        root: Path,
        journal: Journal,
        origin: ChangeOrigin,
        said: set[tuple[str, str]],
    ) -> None:
        self._before = before
        self._root = root
        self._journal = journal
        self._origin = origin
        self._said = said

    async def changes(self) -> SnapshotChanges:
        """See Snapshot."""
        return await asyncio.to_thread(self._changes)

    async def made_since(self) -> tuple[Change, ...]:
        """See Snapshot."""
        diff = await asyncio.to_thread(self._before.diff_after)
        return tuple(change for change in diff.changes.changes if change.kind == "create")

    def _changes(self) -> SnapshotChanges:
        diff = self._before.diff_after()
        diff.record(self._journal, self._root, self._origin)
        notes = list(diff.missed)
        for path, sentence in diff.unwatched.items():
            key = self._origin.session, path.rpartition("/")[2]
            if key not in self._said:
                self._said.add(key)
                notes.append(sentence)
        return SnapshotChanges(changes=diff.changes, not_captured=tuple(notes))


def _origin() -> ChangeOrigin:
    try:
        context = current_context()
    except LookupError:
        return ChangeOrigin(tool="exec")
    return ChangeOrigin(call_id=context.call_id, run=context.run, session=context.session, tool="exec")
