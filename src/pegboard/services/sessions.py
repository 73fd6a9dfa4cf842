"""Sessions: conversations that are kept, gone on with, shortened and shown."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from pegboard.config.models import AcceptedServers
from pegboard.core.call.call import new_id
from pegboard.core.content import Image, ToolCall
from pegboard.core.errors import BuildError, ConfigError, PermissionDenied, ToolError
from pegboard.core.events import (
    BRANCHED,
    TRANSIENT,
    CallStarted,
    ContextCompacted,
    ConversationRewound,
    Event,
    HistoryFolded,
    MemoryRecorder,
    ModelReplied,
    PayloadsPurged,
    Recorder,
    RunFinished,
    RunResumed,
    RunStarted,
    UserSaid,
)
from pegboard.core.policy.approval import NamedByPerson
from pegboard.core.policy.policy import MODES
from pegboard.core.policy.taint import ATTACHED, UNTRUSTED
from pegboard.core.result import ToolResult
from pegboard.files.undo import UndoReport
from pegboard.ports.messages import InboundMessage
from pegboard.ports.model import Model
from pegboard.ports.sessions import SessionEntry, SessionHistory, SessionRow
from pegboard.ports.todos import Todo
from pegboard.runtime.compaction import compact
from pegboard.runtime.fold import fold, without_rewound
from pegboard.runtime.session_text import history_of, search
from pegboard.runtime.todos import todos_in
from pegboard.runtime.tokens import message_tokens
from pegboard.services.history import GONE, History
from pegboard.services.principals import CHANNEL
from pegboard.services.runtime import NOBODY, Interaction, Runtime, ToolExecutor
from pegboard.services.undo import Undo
from pegboard.store.inbox import Inbox
from pegboard.store.log import Log
from pegboard.store.runs import RunRow
from pegboard.store.session_rows import SessionRows, find_session


def model_line(model: Model) -> str:
    """Names the model and where it sends data."""
    match model.destination:
        case "nowhere":
            where = "nothing leaves this machine"
        case "this machine":
            where = "runs on this machine"
        case host:
            where = f"sends data to {host}"
    return f"model: {model.name} ({where})"


_FILE: Final = re.compile(r"(?<!\S)@(\S+)")
_MOST_FILES: Final = 20
_COMMAND_S: Final = 600.0
_CHAT: Final = "chat_"
"""What the keys of conversations that `pegboard chat` made begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUse:
    """How much of a model's window a conversation takes.

    Attributes:
        tokens: of the next request, by the provider's last count or estimated.
        window: of the model; None = unknown.
    """

    tokens: int
    window: int | None = None

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where the window is unknown."""
        return None if not self.window else min(1.0, self.tokens / self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidMessage:
    """A message of a person that began a run: the conversation can be taken back to before it."""

    run: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """An earlier conversation: its key, when its last run began, its first task, and how many runs it has."""

    session: str
    last: float
    task: str
    runs: int


class _Told:
    """A Recorder that keeps events, writes them to the log and hands them to a listener."""

    def __init__(self, log: Recorder, on_event: Callable[[Event], None]) -> None:
        self.events: list[Event] = []
        self._log = log
        self._on_event = on_event

    def record(self, event: Event) -> None:
        if event.type not in TRANSIENT:
            self.events.append(event)
        self._log.record(event)
        self._on_event(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        await self._log.flush(power_loss=power_loss)


class Conversation:
    """An open session with a model: messages go in, events come out, and everything is kept.

    Attributes:
        session: its key.
        executor: carries out the model's calls.
        agent: the model with its tools.
        instructions_files: the project's files that the model is told.
    """

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        executor: ToolExecutor,
        log: Log,
        agent: Any,
        *,
        session: str,
    ) -> None:
        self.session = session
        self.instructions_files: tuple[str, ...] = ()
        self.executor = executor
        self.agent = agent
        self._runtime = runtime
        self._history = history
        self._log = log
        self._attached: list[str] = []
        """What the next message brings along: the output of commands that the person ran."""

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self.agent.model()

    async def send(
        self, text: str, *, until: str = "", typed: bool = True, images: Sequence[Image] = ()
    ) -> AsyncGenerator[Event]:
        """Run on a message; its events as they happen. Leaving the loop cancels the run.

        Args:
            text: the message.
            until: a command; the run is done only when it passes. Empty = when the model says so.
            typed: a person typed it; False = it came from a pipe, and no address in it is the person's choice.
            images: pictures that a typed message brings along.
        """
        await self.instruct()
        text, self._attached = with_attached(text, self._attached), []
        message = InboundMessage(session=self.session, content=text, id=new_id("in"), by="stdin")
        agent, log = self.agent, self._log
        stream = (
            agent.stream(text, session=self.session, recorder=log, until=until, images=images)
            if typed
            else agent.stream_message(message, recorder=log, until=until)
        )
        async with aclosing(stream) as events:
            async for event in events:
                yield event
        await self._log.flush()

    async def instruct(self) -> None:
        """Tell the agent where it works as it is now: the day, branch and mode may have changed."""
        told = await self._runtime.instructions(self.executor, session=self.session)
        self.agent.instructions, self.instructions_files = told.text, told.files

    async def answer(self, message: InboundMessage) -> AsyncGenerator[Event]:
        """Run on a message of the session's inbox; its events as they happen."""
        await self.instruct()
        async with aclosing(self.agent.stream_message(message, recorder=self._log)) as events:
            async for event in events:
                yield event
        await self._log.flush()

    async def flush(self) -> None:
        """Return once all that has happened is stored, so that others see it.

        Raises:
            StoreError: it cannot be stored.
        """
        await self._log.flush()

    def tell(self, text: str) -> bool:
        """Give the run that goes on another message, read before its next turn; False where none goes on."""
        return self.agent.tell(text, session=self.session)

    def earlier(self) -> list[Event]:
        """The events that the agent knows of this session."""
        return self.agent.session(self.session)

    async def change_model(self, name: str | None, interaction: Interaction = NOBODY) -> None:
        """Let another model answer from here on.

        Raises:
            ModelError: it cannot be used; the one before stays.
        """
        await self._log.flush()
        before = self.agent
        self.agent = await _agent(
            self._runtime, self.executor, self.session, self.earlier(), name, None, interaction
        )
        await before.model().aclose()

    async def compact(self) -> ContextCompacted | None:
        """Shorten what the model is sent from here on, to a share of what it is now; None where there is nothing.

        Raises:
            PermissionDenied: a hook of PreCompact refuses it.
        """
        events = self.earlier()
        if (event := _compacted(events)) is None:
            return None
        await _ask_before_compact(self.executor, self.session)
        self.agent.remember(self.session, [*events, event])
        self._log.record(event)
        return event

    def set_mode(self, mode: str) -> None:
        """Decide by another mode from the next model turn on.

        Raises:
            BuildError: there is no such mode.
        """
        if mode not in MODES:
            raise BuildError(f"unknown mode {mode!r}; use {', '.join(MODES)}")
        self._runtime.policy = replace(self._runtime.policy, mode=mode)
        self.executor.set_mode(mode)

    def todos(self) -> tuple[Todo, ...]:
        """The list of steps that the agent keeps; empty if it keeps none."""
        return todos_in(self.earlier())

    def context_use(self) -> ContextUse:
        """How much of the model's window the next request takes, without what is said next."""
        window = self.agent.window()
        events = without_rewound(self.earlier())
        for event in reversed(events):
            if isinstance(event, ContextCompacted):
                break
            if isinstance(event, ModelReplied) and event.message.usage.input_tokens:
                usage = event.message.usage
                return ContextUse(tokens=usage.input_tokens + usage.output_tokens, window=window.tokens)
        tokens = sum(map(message_tokens, fold(events).messages))
        return ContextUse(tokens=tokens + window.overhead, window=window.tokens)

    async def attach_files(self, text: str, paths: Sequence[str] = ()) -> tuple[str, list[str]]:
        """The message with the content of the files that it names as `@path`, and which could not be read, and why.

        They are read as `read_file` reads them: by the policy, without secrets, and with their labels.

        Args:
            text: the message.
            paths: further files, relative to the workspace.
        """
        found: list[str] = []
        missed: list[str] = []
        pipeline = self.executor.pipeline.with_recorder(MemoryRecorder())
        root = self._runtime.workspace
        for named in list(dict.fromkeys([*paths, *(m[1] for m in _FILE.finditer(text))]))[:_MOST_FILES]:
            # A sentence may end, or go on, right behind a name.
            path = next((p for p in (named, named.rstrip(".,;:!?)")) if p and (root / p).exists()), None)
            if path is None:
                continue
            tool = "list_dir" if (root / path).is_dir() else "read_file"
            call = ToolCall(new_id("call"), tool, {"path": path})
            result = await pipeline.call(call, self.executor.context)
            if result.ok:
                found.append(f'<file path="{path}">\n{result.text}\n</file>')
            else:
                missed.append(f"{path}: {result.error}")
        return with_attached(text, found), missed

    async def attach_text(self, text: str, source: str, *, path: str = "") -> str:
        """Bring a text along with the next message that did not come from a file as it is saved.

        It is not the person's own words. One that shows a file of the workspace, saved or not, takes part where the
        file may be read, and has its labels; one from elsewhere is untrusted.

        Args:
            text: the text.
            source: what people and the model call it.
            path: the file that it shows, relative to the workspace; empty = it comes from elsewhere.

        Returns:
            Why it was not attached; empty where it was.
        """
        if path and (self._runtime.workspace / path).exists():
            pipeline = self.executor.pipeline.with_recorder(MemoryRecorder())
            call = ToolCall(new_id("call"), "read_file", {"path": path})
            result = await pipeline.call(call, self.executor.context)
            if not result.ok:
                return f"{path}: {result.error}"
        elif not path and (taints := self.executor.wiring.safeguards.taints) is not None:
            taints.add(self.session, UNTRUSTED, source)
        shown = self._runtime.redactor.redact(text)[0]
        self._attached.append(f'<file path="{source}">\n{shown}\n</file>')
        return ""

    async def run_command(self, command: str, on_event: Callable[[Event], None]) -> ToolResult:
        """Run a command for the person who typed it; the model is shown it with the next message.

        It is confined, recorded and undone like any other. Rules that deny it hold; what asks has been answered by
        typing it. No run may be going on.
        """
        recorder = _Told(self._log, on_event)
        await self.executor.refresh_tools("exec")
        pipeline = self.executor.pipeline.with_recorder(recorder, approver=NamedByPerson("terminal"))
        arguments = {"command": command, "timeout": _COMMAND_S, "yield_ms": int(_COMMAND_S * 1000)}
        try:
            result = await pipeline.call(ToolCall(new_id("call"), "exec", arguments), self.executor.context)
        finally:
            self.agent.remember(self.session, [*self.earlier(), *recorder.events])
        said = f'<command line="{command}">\n{result.text}\n</command>'
        self._attached.append(said)
        await self._log.flush()
        return result

    async def messages(self) -> list[SaidMessage]:
        """The messages that began runs of this conversation, oldest first."""
        out: list[SaidMessage] = []
        run = ""
        for event in without_rewound(await self._all_events()):
            if isinstance(event, RunStarted):
                run = event.run
            elif isinstance(event, UserSaid) and run and event.by != "runtime":
                out.append(SaidMessage(run=run, text=event.message.text.partition(ATTACHED)[0]))
                run = ""
        return out

    async def _all_events(self) -> list[Event]:
        """The events of this session, also those for which something shorter stands in a long one."""
        events = self.earlier()
        if not any(isinstance(event, HistoryFolded) for event in events):
            return events
        await self._log.flush()
        return await self._history.events(self.session)

    async def rewind(self, run: str) -> UndoReport | None:
        """Take the conversation and the files back to before a run; None if it changed no files since.

        The record keeps everything; the model is not sent it any more.

        Raises:
            BuildError: the conversation holds no such run.
            ToolError: later changes touch the same lines; nothing was changed.
        """
        events = await self._all_events()
        start = next((n for n, e in enumerate(events) if isinstance(e, RunStarted) and e.run == run), None)
        if start is None:
            raise BuildError(f"this conversation holds no run {run}; see: /rewind")
        await self._log.flush()
        ids = {e.run for e in events[start:] if isinstance(e, RunStarted)}
        ids |= {e.call_id for e in events[start:] if isinstance(e, CallStarted)}
        report = await Undo(self._runtime).undo_all(ids)
        event = ConversationRewound(run)
        self.agent.remember(self.session, [*events, event])
        self._log.record(event)
        self._attached.clear()
        await self._log.flush()
        return report

    async def runs(self, *, limit: int = 20) -> list[RunRow]:
        """The latest runs of this session, newest first."""
        await self._log.flush()
        rows = await self._history.runs(session=self.session, limit=limit)
        return await self._history.mark_interrupted(rows)


class Sessions:
    """The sessions of this machine.

    Args:
        runtime: the workspace, its tools and its policy.
        history: where they are recorded.
    """

    def __init__(self, runtime: Runtime, history: History) -> None:
        self._runtime = runtime
        self._history = history

    async def list(self) -> list[str]:
        """Keys of all sessions, newest first."""
        return await self._history.sessions()

    async def conversations(self, *, limit: int = 20) -> list[ConversationRow]:
        """The latest conversations that `pegboard chat` began in this workspace, newest first."""
        rows: dict[str, list[RunRow]] = {}
        for row in await self._history.runs():
            if row.stream.startswith(_CHAT):
                rows.setdefault(row.stream, []).append(row)
        out: list[ConversationRow] = []
        for session, runs in rows.items():
            started = await self._history.events(session, run=runs[0].id, types=(RunStarted.type,))
            places = {str(e.detail.get("workspace", "")) for e in started if isinstance(e, RunStarted)}
            if places <= {"", str(self._runtime.workspace)}:
                first = runs[-1]
                out.append(
                    ConversationRow(
                        session=session,
                        last=runs[0].started,
                        task=first.task.partition(ATTACHED)[0],
                        runs=len(runs),
                    )
                )
            if len(out) == limit:
                break
        return out

    async def rows(self) -> Sequence[SessionRow]:
        """All sessions, the last used first, with what a list shows."""
        rows = await SessionRows(self._history.store).list()
        # A message that only waits has not been through what is recorded.
        return [replace(row, task=self._redact(row.task)) if row.waiting else row for row in rows]

    async def find(self, session: str) -> SessionRow:
        """A session by its key, a short form of it, its label or `@label`.

        Raises:
            ConfigError: there is none, or several are meant.
        """
        try:
            return find_session(await self.rows(), session)
        except ToolError as error:
            raise ConfigError(f"{error.message}; see: pegboard sessions") from None

    async def history(self, session: str) -> list[Event]:
        """The events of a session, oldest first."""
        return await self._history.events(session)

    async def messages(self, session: str, *, limit: int = 50) -> SessionHistory:
        """The last messages of a session, without secrets, long ones cut."""
        events = await self._history.events(session)
        return history_of(session, events, limit=limit, redact=self._redact)

    async def search(self, text: str, *, limit: int = 20) -> Sequence[SessionEntry]:
        """Messages in which all words of a text stand, of the sessions last used first."""
        keys = [row.key for row in await self.rows()]
        return await search(self._history.store, keys, text, limit=limit, redact=self._redact)

    async def send(self, session: str, content: str, *, by: str = "") -> RunRow | None:
        """Give the run that goes on in a session a message of a person, read before its next request; that run.

        None if none goes on: then nothing is kept. A run that ends without having read it leaves it in the inbox, where
        a worker finds it.

        Args:
            session: its key.
            content: the message.
            by: the principal of the gateway who says it; empty = whoever is at this machine.
        """
        rows = await self._history.mark_interrupted(await self._history.runs(session=session, limit=1))
        if not rows or rows[0].status != "running":
            return None
        message = InboundMessage(
            session=session, content=content, id=new_id("in"), workspace=str(self._runtime.workspace),
            channel=CHANNEL if by else "", sender_id=by,
        )  # fmt: skip
        await Inbox(self._history.store).add(message)
        return rows[0]

    async def rename(self, session: str, label: str) -> None:
        """Give a session a label; empty takes it away.

        Raises:
            ConfigError: another session has it, or it cannot be shown.
        """
        if not label.isprintable() or len(label) > 100:
            raise ConfigError("a label has at most 100 characters, and all of them can be printed")
        for row in await self.rows():
            if label and row.key != session and row.label.casefold() == label.casefold():
                raise ConfigError(f"the session {row.key} has the label {label!r}")
        await SessionRows(self._history.store).rename(session, label)

    async def branch(self, session: str, to: str, *, at: str = "") -> int:
        """Begin a new session with what happened in another one.

        Args:
            session: which.
            to: the key of the new one.
            at: the run up to whose end it goes; empty = the last one that has ended.

        Returns:
            How many runs the new one has.

        Raises:
            ConfigError: the key is taken or cannot be one, no run has ended, or that run is of another session or has
                not ended.
        """
        events = _until(without_rewound(await self._history.events(session)), session, at)
        if to == session or await self._history.store.read(to, last=1, bodies=False):
            raise ConfigError(f"the session {to!r} exists; give the branch another key")
        copies: dict[str, str] = {}
        async with self._history.open_session(to) as opened:
            for event in events:
                if (copy := _copied(event, to, copies)) is not None:
                    opened.log.record(copy)
        await SessionRows(self._history.store).note_branch(to, session)
        return len(copies)

    async def compact(self, session: str) -> ContextCompacted | None:
        """Shorten what the model is sent of a session from here on; None where there is nothing to shorten.

        Raises:
            ConfigError: another process works on the session.
            PermissionDenied: a hook of PreCompact refuses it.
        """
        async with self._history.open_session(session) as opened:
            if (event := _compacted(opened.events)) is not None:
                if self._runtime.config.hooks:
                    async with self._runtime.executor(session=session) as executor:
                        await _ask_before_compact(executor, session)
                opened.log.record(event)
            return event

    async def restart(self, session: str) -> bool:
        """Begin the conversation under a key anew: the model is sent nothing of what was before, the record keeps it.

        Returns:
            False if there was nothing.

        Raises:
            ConfigError: another process works on the session.
        """
        async with self._history.open_session(session) as opened:
            since = 0
            events = await self._history.events(session)
            for place, event in enumerate(events, 1):
                since = place if isinstance(event, ConversationRewound) else since
            first = next((e for e in events[since:] if isinstance(e, RunStarted)), None)
            if first is not None:
                opened.log.record(ConversationRewound(first.run))
            return first is not None

    async def delete(self, session: str) -> None:
        """Delete what was said in a session, and what waits for it. That there were records stays provable.

        Raises:
            ConfigError: another process works on it, or one of its runs can be resumed.
        """
        runs = await self._history.mark_interrupted(await self._history.runs(session=session))
        if runs and runs[0].status in ("suspended", "interrupted", "running"):
            raise ConfigError(
                f"run {runs[0].id} of session {session!r} is {runs[0].status}; end it first: pegboard runs"
            )
        await self._history.delete_bodies(session, before=inf)
        for row in runs:
            await self._history.save_run(replace(row, task=GONE))
        await SessionRows(self._history.store).delete(session)

    def _redact(self, text: str) -> str:
        return self._runtime.redactor.redact(text)[0]

    @asynccontextmanager
    async def open(
        self,
        session: str,
        interaction: Interaction = NOBODY,
        *,
        model: str | None = None,
        turns: int | None = None,
        output: Any = None,
    ) -> AsyncGenerator[Conversation]:
        """Work on a session, until the block ends.

        Args:
            session: its key; an earlier conversation under it goes on.
            interaction: who answers.
            model: as `--model` takes it; None = the first that is found.
            turns: the most model turns of a run; None = as the settings say.
            output: a type or JSON Schema that answers must fit; None = any text.

        Raises:
            ConfigError: another process works on the session now.
            NoModel: no model was named, none was found and none was accepted.
            StoreError: the history cannot be kept; then nothing starts.
        """
        async with (
            self._history.open_session(session) as opened,
            self._runtime.executor(interaction, session=session) as executor,
        ):
            agent = await _agent(
                self._runtime, executor, session, opened.events, model, turns, interaction, output
            )  # fmt: skip
            talk = Conversation(self._runtime, self._history, executor, opened.log, agent, session=session)
            await talk.instruct()
            try:
                yield talk
            finally:
                await talk.model.aclose()


async def _ask_before_compact(executor: ToolExecutor, session: str) -> None:
    """Let the hooks of PreCompact do what they do before a conversation is shortened.

    Raises:
        PermissionDenied: one of them refuses it.
    """
    if executor.hooks is None:
        return
    fields = {"trigger": "manual", "custom_instructions": ""}
    said = await executor.hooks.on_session("PreCompact", session, fields, matched="manual")
    if said.decision == "deny":
        raise PermissionDenied(f"{said.by} refused to shorten the conversation: {said.reason}")


def _compacted(events: Sequence[Event]) -> ContextCompacted | None:
    """The event that shortens a session to a share of what it is now, None where it holds nothing."""
    messages = fold(events).messages
    if not messages:
        return None
    before = sum(map(message_tokens, messages))
    done = compact(messages, before)
    return ContextCompacted(
        budget_tokens=before, before_tokens=before, after_tokens=done.after, dropped=done.dropped
    )


def _until(events: Sequence[Event], session: str, at: str) -> Sequence[Event]:
    """The events up to the end of a run, or of the last one that has ended.

    Raises:
        ConfigError: there is none.
    """
    ends = [
        (place, event.run)
        for place, event in enumerate(events)
        if isinstance(event, RunFinished) and event.status != "suspended" and event.run.startswith(at)
    ]
    if len({run for _, run in ends}) > 1 and at:
        raise ConfigError(f"several runs of session {session!r} start with {at!r}")
    if not ends:
        which = f"no run {at!r} of session {session!r}" if at else f"no run of session {session!r}"
        raise ConfigError(f"{which} has ended, so there is nothing to branch from; see: pegboard runs")
    return events[: ends[-1][0] + 1]


def _copied(event: Event, session: str, copies: dict[str, str]) -> Event | None:
    """An event as one of a branch: a run is in one session only, so its copy has an id of its own."""
    match event:
        case RunStarted():
            copies[event.run] = new_id("run")
            detail = {**event.detail, BRANCHED: event.run}
            return replace(event, run=copies[event.run], session=session, detail=detail)
        case RunResumed() | RunFinished():
            return replace(event, run=copies[event.run])
        case PayloadsPurged():
            return None  # It counts the records of the other stream.
        case _:
            return event


async def _agent(
    runtime: Runtime,
    executor: ToolExecutor,
    session: str,
    events: Sequence[Event],
    model: str | None,
    turns: int | None,
    interaction: Interaction,
    output: Any = None,
) -> Any:
    """An agent that knows the session so far; its model is opened, so that a wrong name is told at once."""
    agent = await agent_for(
        runtime, executor, model=model, turns=turns, interaction=interaction, output=output
    )
    agent.model()
    agent.remember(session, events)
    return agent


async def agent_for(
    runtime: Runtime,
    executor: ToolExecutor,
    *,
    model: str | None,
    turns: int | None = None,
    interaction: Interaction = NOBODY,
    output: Any = None,
) -> Any:
    """An agent; where no model is found, a person is asked whether a server of this machine may be one.

    Raises:
        NoModel: none was named, none was found, and none was accepted.
    """
    from pegboard.models.resolve import NoModel

    try:
        return runtime.agent(executor, model=model, turns=turns, output=output)
    except NoModel as none:
        accept = interaction.accept_server
        for server in none.found if accept is not None else ():
            if server.models and accept is not None and await accept(server):
                AcceptedServers(runtime.paths).add(server)
                return runtime.agent(executor, model=model, turns=turns, output=output)
        raise


def element(tag: str, text: str, **attributes: str) -> str:
    """Text of others between tags; nothing in it, or in a value, can look like their end."""
    from xml.sax.saxutils import quoteattr

    inside = re.sub(rf"<(?=\s*/\s*{tag})", "<\\\\", text, flags=re.IGNORECASE)
    values = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{values}>\n{inside}\n</{tag}>"


def with_attached(text: str, parts: Sequence[str]) -> str:
    """A message with files or output beside it, which are not the person's own words."""
    if not parts:
        return text
    return "\n".join((text if ATTACHED in text else f"{text}{ATTACHED}".rstrip("\n"), *parts))
