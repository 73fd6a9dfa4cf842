"""Wiring: which real parts stand behind the ports of one executor."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core.call.call import PATH_RESOLVER, WriteChecks
from pegboard.core.call.provide import Provided
from pegboard.core.content import KEEPER, ArtifactRef, NewArtifact
from pegboard.core.context import Context
from pegboard.core.effects import Plan
from pegboard.core.errors import ConfigError, ModelError, format_value
from pegboard.core.policy.grants import MemoryGrants
from pegboard.core.policy.guards import Guards
from pegboard.core.policy.policy import MODES, Policy
from pegboard.core.policy.rules import Rule
from pegboard.core.policy.taint import TaintTracker
from pegboard.core.result import Shaper
from pegboard.core.secrets.redact import with_finder
from pegboard.core.toolkit import Toolkit
from pegboard.ports.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.config.auto import AutoSettings
    from pegboard.core.events import Event
    from pegboard.core.secrets.redact import Redactor
    from pegboard.core.transcript import AssistantMessage, Usage
    from pegboard.ports.artifacts import Artifacts
    from pegboard.ports.model import Model
    from pegboard.ports.store import Store
    from pegboard.runtime.judge import ModelJudge
    from pegboard.runtime.session import Backing
    from pegboard.store.inbox import Inbox
    from pegboard.store.stops import Stops

PRICED: Final = frozenset({"openai", "openai-responses", "anthropic", "gemini"})
"""Families of models whose prices are looked up; the table is large, so others never load it."""

_SHORTEST = 6
"""Characters of the shortest secret that is looked for (`pegboard.core.secrets.redact`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSession:
    """A session while a run of it goes on.

    Attributes:
        events: gives what it holds so far.
        backing: where it is kept; None = in memory.
    """

    events: Callable[[], Sequence[Event]]
    backing: Backing | None


@dataclass(slots=True, kw_only=True)
class Wiring:
    """The parts of one executor.

    Attributes:
        workspace: the workspace's real path, None where no tool needs one.
        policy, provided, shaper, grants, safeguards: what the pipeline takes.
        banner: what people should know before a run (no sandbox works here); may be empty.
        closers: end what was started, in reverse order; an async one may return sentences for people.
        listeners: hear what an agent should be told between its turns.
        waits: each waits until something that a run started has reported to its session, and returns False at once if
            nothing is under way; a run that would end asks them first.
        spent: each gives what a run of a session has used beside its own turns.
        models: opens a model by its name, as the settings say; None = without settings.
        session_model: the model of the agent that runs here, None where none does.
        auto: how mode `auto` asks its second model; None = as the settings are by default.
        auto_model: the model that it asks, or its name; None = the settings', else the agent's own.
        executor: the executor that was made over these parts.
        agent: the agent that runs over that executor, None where none does.
        sessions: those that run here now.
        write_checks: says what a write broke; None = nothing does.
        memory: keeps what goes with sessions that are not kept; made by the first subagent of one.
        ended: events of subagents' sessions that are not kept.
        assembly: what the parts were made from; None if no tool needed any.
    """

    workspace: Path | None
    policy: Policy
    provided: Provided
    shaper: Shaper
    grants: MemoryGrants | None = None
    safeguards: Guards = field(default_factory=lambda: Guards(taints=TaintTracker()))
    banner: str = ""
    closers: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    listeners: list[Callable[[str], None]] = field(default_factory=list[Callable[[str], None]])
    waits: list[Callable[[str], Awaitable[bool]]] = field(
        default_factory=list[Callable[[str], Awaitable[bool]]]
    )
    spent: list[Callable[[str, str], Awaitable[Usage]]] = field(
        default_factory=list[Callable[[str, str], "Awaitable[Usage]"]]
    )
    models: Callable[[str | None], Any] | None = None
    session_model: Callable[[], Any] | None = None
    auto: AutoSettings | None = None
    auto_model: Any = None
    executor: Any = None
    agent: Any = None
    sessions: dict[str, RunningSession] = field(default_factory=dict[str, RunningSession])
    write_checks: WriteChecks | None = None
    memory: Store | None = None
    ended: dict[str, list[Event]] = field(default_factory=dict[str, "list[Event]"])
    assembly: Any = None
    _judge: ModelJudge | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(
        cls,
        toolkit: Toolkit,
        *,
        workspace: str | Path | None = None,
        mode: str | None = None,
        policy: Policy | str | Path | Iterable[str | Rule] | None = None,
        provide: Iterable[Any] = (),
    ) -> Wiring:
        """The usual parts for a kit: only what its tools ask for is built or imported.

        Raises:
            ConfigError: a bad mode, rule or workspace.
        """
        decided = _at_home(_policy(policy, mode))
        book = decided.grants if isinstance(decided.grants, MemoryGrants) else MemoryGrants()
        if decided.grants is None:
            decided = replace(decided, grants=book)
        provided = Provided(objects=provide)
        provided[KEEPER] = LazyArtifactSaver(provided)
        wiring = cls(workspace=None, policy=decided, provided=provided, shaper=lazy_shaper(), grants=book)
        needs = needs_of(toolkit, provided)
        if needs or workspace is not None:
            wiring._build(toolkit, needs, workspace)
        return wiring

    def model(self, name: str | None) -> Any:
        """Open a model by name, or the first that is found."""
        if self.models is not None:
            return self.models(name)
        from pegboard.config.models import open_model

        return open_model(name)

    def judge(self) -> ModelJudge:
        """The second model of mode `auto`, opened when it is first asked."""
        if self._judge is None:
            from pegboard.config.auto import AutoSettings
            from pegboard.runtime.judge import ModelJudge

            settings = self.auto or AutoSettings()
            self._judge = ModelJudge(
                lambda: self._second_model(settings.model),
                price=self.price, timeout_s=settings.timeout_s, money=settings.money,
            )  # fmt: skip
            self.spent.append(self._judge.spent)
        return self._judge

    def _second_model(self, name: str) -> Model:
        """The model of mode `auto` that a program or the settings name, else the session's own.

        Raises:
            PegboardError: there is none, or it cannot be opened.
        """
        wanted = self.auto_model or name
        if not isinstance(wanted, str):
            return cast("Model", wanted)
        if not wanted:
            if self.session_model is None:
                raise ModelError(
                    "no model is set for mode auto", hint="Name one: [auto] model, or auto_model=…"
                )
            own = cast("Model", self.session_model())
            if self.models is None:
                return own
            wanted = own.name
        from pegboard.runtime.judge import steady

        model = steady(self.model(wanted))
        self.closers.append(model.aclose)
        return model

    def price(self, model: str, message: AssistantMessage) -> float | None:
        """Dollars of one turn by the model that was asked, None where no price is known."""
        if model.partition(":")[0] not in PRICED and message.model.partition(":")[0] not in PRICED:
            return None
        from pegboard.app.pricing import price

        return price(model, message.model, message.usage)

    def window(self, model: str) -> int | None:
        """Tokens of a model's window, None where it is not known."""
        if model.partition(":")[0] not in PRICED:
            return None
        from pegboard.app.pricing import window_tokens

        return window_tokens(model)

    def inbox(self, session: str) -> Inbox | None:
        """The messages that wait for a session that runs here; None if nobody can have left any."""
        running = self.sessions.get(session)
        store = self.memory if running is None or running.backing is None else running.backing.store
        if store is None:
            return None
        from pegboard.store.inbox import Inbox

        return Inbox(store)

    def stops(self, session: str) -> Stops | None:
        """The requests to stop a run of a session that runs here; None where it is not kept."""
        running = self.sessions.get(session)
        if running is None or running.backing is None:
            return None
        from pegboard.store.stops import Stops

        return Stops(running.backing.store)

    def narrowed(self, provided: Provided) -> Wiring:
        """The same parts for an executor inside this one's run: what that starts is its own."""
        return replace(
            self, provided=provided, closers=[], listeners=[], waits=[], spent=[], session_model=None, executor=None, agent=None
        )  # fmt: skip

    async def aclose(self) -> list[str]:
        """End what was started, last first; what people should know about it, one sentence each."""
        said: list[str] = []
        for close in reversed(self.closers):
            done = close()
            if hasattr(done, "__await__"):
                said += await done or ()
        self.closers.clear()
        return said

    def _build(self, toolkit: Toolkit, needs: set[Any], workspace: str | Path | None) -> None:
        from pegboard.app.ports import Assembly, assemble
        from pegboard.config.load import Config
        from pegboard.config.paths import Paths

        self.workspace = None if workspace is None else _folder(workspace)
        assemble(Assembly(wiring=self, toolkit=toolkit, paths=Paths.of(), config=Config()), needs)


def _folder(workspace: str | Path) -> Path:
    from pathlib import Path

    if not isinstance(cast(object, workspace), str | os.PathLike) or not str(workspace):
        # An empty text is most often a variable that was never set, and would mean the current folder.
        raise ConfigError(f"workspace=… takes the path of a folder, got {format_value(workspace)}")
    root = Path(workspace).expanduser()
    if not root.is_dir():
        raise ConfigError(
            f"the workspace {root} does not exist or is not a folder; create it, or choose another"
        )
    return root.resolve()


def _policy(policy: Policy | str | Path | Iterable[str | Rule] | None, mode: str | None) -> Policy:
    if mode is not None and mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; use {', '.join(MODES)}")
    if policy is None:
        return Policy(mode=mode or "workspace")
    if isinstance(policy, Policy):
        return policy if mode is None else replace(policy, mode=mode)
    if isinstance(policy, str):
        # One rule, or several lines as they stand in a file.
        policy = [line for line in policy.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    elif hasattr(policy, "__fspath__"):
        from pegboard.config.load import read_rules

        policy = read_rules(cast("Path", policy))
    return Policy.of(cast("Iterable[str | Rule]", policy), mode=mode or "workspace")


def _at_home(policy: Policy) -> Policy:
    """The policy with the home folder that `~` in its rules means; found only where one says `~`."""
    if policy.home or not any(t.startswith("~") for r in policy.rules for t in (r.target, *r.unless)):
        return policy
    from pegboard.config.paths import Paths

    return replace(policy, home=str(Paths.of().home.resolve()))


def needs_of(toolkit: Toolkit, provided: Provided) -> set[Any]:
    """The ports that the kit's tools ask for and nobody provided, and what resolves paths where a tool takes one."""
    out: set[Any] = set()
    for tool in toolkit:
        out.update(port for port in tool.signature.inject.values() if provided.find(port) is None)
        if any(p.marker is not None and p.marker.kind in ("read", "write", "delete") for p in tool.markers):
            out.add(PATH_RESOLVER)
    if Shell in out:
        out.add(PATH_RESOLVER)  # What a command changes is undone through the workspace too.
    return out - {Plan, Context}


class LazyArtifactSaver:
    """An ArtifactSaver over the Artifacts port that is provided when something is kept, else one of its own.

    Args:
        provided: the executor's ports.
        store: opens the store for artifacts, None = they end with the process.
    """

    def __init__(self, provided: Provided, store: Callable[[], Store] | None = None) -> None:
        self._provided = provided
        self._store = store

    async def save(self, made: NewArtifact, *, name: str) -> ArtifactRef:
        """See ArtifactSaver."""
        from pegboard.artifacts.saver import PortArtifactSaver

        return await PortArtifactSaver(artifacts_of(self._provided, self._store)).save(made, name=name)


def artifacts_of(provided: Provided, store: Callable[[], Store] | None) -> Artifacts:
    """The provided Artifacts port, put there where none is."""
    from pegboard.ports.artifacts import Artifacts

    there = cast("Artifacts | None", provided.find(Artifacts))
    if there is None:
        from pegboard.artifacts.versions import StoredArtifacts
        from pegboard.store.memory import MemoryStore

        there = provided[Artifacts] = StoredArtifacts(MemoryStore() if store is None else store())
    return there


def lazy_shaper() -> Shaper:
    """A Shaper that takes out secrets, terminal sequences and invisible characters.

    What is cut is not kept: where nothing reads a spill, nobody could ask for it.
    """
    return Shaper(redactor=LazyRedactor(), clean=clean)


class LazyRedactor:
    """The Redactor that knows this process's environment, made at the first text that may hold a secret."""

    def __init__(self) -> None:
        self._redactor: Redactor | None = None
        with_finder(self)

    def redact(self, text: str) -> tuple[str, bool]:
        """See Redactor."""
        return (text, False) if len(text) < _SHORTEST else self._loaded().redact(text)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See Redactor."""
        return self._loaded().find(text)

    def wrapped(self, text: str) -> Iterator[tuple[int, int]]:
        """See Redactor."""
        return self._loaded().wrapped(text)

    def begun(self, text: str) -> int:
        """See Redactor."""
        return self._loaded().begun(text)

    def _loaded(self) -> Redactor:
        if self._redactor is None:
            from pegboard.config.environment import environment, secrets_of
            from pegboard.core.secrets.redact import Redactor

            self._redactor = Redactor(secrets_of(environment()))
        return self._redactor


def clean(text: str) -> str:
    """See `pegboard.core.text.sanitise`."""
    if text.isascii() and text.isprintable():
        return text
    from pegboard.core.text import sanitise

    return sanitise(text)


__all__ = ["LazyArtifactSaver", "LazyRedactor", "Wiring", "artifacts_of", "needs_of"]
