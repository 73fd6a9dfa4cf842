"""Sessions: conversations that are kept, gone on with, shortened and shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from pegboard.config.models import AcceptedServers
from pegboard.core.call.call import new_id
from pegboard.core.errors import PermissionDenied
from pegboard.core.events import ContextCompacted, Event
from pegboard.ports.messages import InboundMessage
from pegboard.ports.model import Model
from pegboard.runtime.compaction import compact
from pegboard.runtime.fold import fold
from pegboard.runtime.tokens import message_tokens
from pegboard.services.history import History
from pegboard.services.runtime import NOBODY, Interaction, Runtime, ToolExecutor
from pegboard.store.log import Log
from pegboard.store.runs import RunRow


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

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self.agent.model()

    async def send(self, text: str, *, typed: bool = True) -> AsyncGenerator[Event]:
        """Run on a message; its events as they happen. Leaving the loop cancels the run.

        Args:
            text: the message.
            typed: a person typed it; False = it came from a pipe, and no address in it is the person's choice.
        """
        await self.instruct()
        message = InboundMessage(session=self.session, content=text, id=new_id("in"), by="stdin")
        agent, log = self.agent, self._log
        stream = (
            agent.stream(text, session=self.session, recorder=log)
            if typed
            else agent.stream_message(message, recorder=log)
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
        messages = fold(events).messages
        if not messages:
            return None
        if self.executor.hooks is not None:
            fields = {"trigger": "manual", "custom_instructions": ""}
            said = await self.executor.hooks.on_session("PreCompact", self.session, fields, matched="manual")
            if said.decision == "deny":
                raise PermissionDenied(f"{said.by} refused to shorten the conversation: {said.reason}")
        before = sum(map(message_tokens, messages))
        done = compact(messages, before)
        event = ContextCompacted(
            budget_tokens=before, before_tokens=before, after_tokens=done.after, dropped=done.dropped
        )
        self.agent.remember(self.session, [*events, event])
        self._log.record(event)
        return event

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

    async def history(self, session: str) -> list[Event]:
        """The events of a session, oldest first."""
        return await self._history.events(session)

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
