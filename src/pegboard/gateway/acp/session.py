"""EditorSession: one conversation in an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from pegboard.app.app import App
from pegboard.core.events import CallFinished, Event, RunFinished
from pegboard.core.policy.policy import MODES
from pegboard.core.text import escape_invisible
from pegboard.gateway.acp.commands import COMMANDS, run_command
from pegboard.gateway.acp.connection import Connection, Json
from pegboard.gateway.acp.people import Editor, UnsavedText
from pegboard.gateway.acp.prompts import Prompt, read_prompt
from pegboard.gateway.acp.updates import Updates
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError
from pegboard.runtime.fold import without_rewound
from pegboard.services.runtime import Interaction
from pegboard.services.servers import ClientServers
from pegboard.services.sessions import Conversation

_TITLE: Final = 80
_DEFAULT: Final = "default"
_MODES: Final[dict[str, str]] = {
    "read-only": "Reads files and searches; changes nothing",
    "plan": "Reads, and proposes a plan that you agree to",
    "ask": "Asks before every change and command",
    "workspace": "Changes files of the workspace; asks before what reaches further",
    "auto": "As workspace; a second model may allow what undo can restore, and hosts that you named",
    "full": "Does everything that no rule denies or asks about",
}


class EditorSession:
    """A conversation that is open while the editor shows it.

    Args:
        app: over the workspace of the session; closed with it.
        key: the session's.
        connection: leads to the editor.
        model: as `--model` takes it; None = the first that is found.
        servers: MCP servers that the editor names.
        reads_buffers: the editor tells the unsaved text of a file.
    """

    def __init__(
        self,
        app: App,
        key: str,
        connection: Connection,
        *,
        model: str | None,
        servers: Sequence[ServerConfig] = (),
        reads_buffers: bool = False,
    ) -> None:
        self.key = key
        self._app = app
        self._model = model
        self._servers = tuple(servers)
        self._connection = connection
        self.updates = Updates(self._send, app.workspace, app.redactor.redact)
        self._editor = Editor(connection, key, self.updates)
        unsaved = (UnsavedText(connection, key, app.workspace),) if reads_buffers else ()
        self._interaction = Interaction(
            approver=self._editor, people=[self._editor], notify=app.on_warning, middleware=unsaved
        )
        self._living: asyncio.Task[None] | None = None
        self._talk: asyncio.Future[Conversation] | None = None
        self._closing = asyncio.Event()
        self._work: asyncio.Task[str] | None = None
        self._shown_mode: str = app.policy.mode
        self._titled = False

    async def _send(self, update: Json) -> None:
        await self._connection.notify("session/update", {"sessionId": self.key, "update": update})

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self) -> Conversation:
        """The conversation, opened where it is not.

        Raises:
            ConfigError, ModelError, StoreError: see `Sessions.open`.
        """
        if self._living is None or self._living.done():
            self._talk = asyncio.get_running_loop().create_future()
            self._living = asyncio.create_task(self._live(self._talk))
        assert self._talk is not None
        return await asyncio.shield(self._talk)

    @property
    def asks_first(self) -> bool:
        """Whether a person has to be asked before it can be opened; that needs the editor to know the session."""
        known = ClientServers(self._app.paths)
        return any(not known.accepted(server) for server in self._servers if not server.fault)

    async def _live(self, talk: asyncio.Future[Conversation]) -> None:
        """Holds the session from its opening to its end, in one task."""
        try:
            self._app.client_servers = await self._started_servers()
            async with self._app.sessions.open(self.key, self._interaction, model=self._model) as opened:
                talk.set_result(opened)
                await self._closing.wait()
        except Exception as error:
            if talk.done():
                raise
            talk.set_exception(error)
            talk.exception()  # Whoever waits is told; nobody has to.
        finally:
            talk.cancel()

    async def _started_servers(self) -> list[ServerConfig]:
        """The servers of the editor that a person lets start."""
        known, out = ClientServers(self._app.paths), list[ServerConfig]()
        for number, server in enumerate(self._servers):
            if server.fault or known.accepted(server):
                out.append(server)
                continue
            remote = server.transport != "stdio"
            what = "Connect to" if remote else "Start"
            call = {
                "toolCallId": f"mcp-{number}", "kind": "execute", "status": "pending",
                "title": f"{what} the MCP server {server.name}: {escape_invisible(server.redacted_command)}",
            }  # fmt: skip
            options = [
                {"optionId": "once", "name": f"{what} it this time", "kind": "allow_once"},
                {
                    "optionId": "always",
                    "name": f"Always {what.lower()} exactly this server",
                    "kind": "allow_always",
                },
                {"optionId": "deny", "name": "Work without it", "kind": "reject_once"},
            ]
            await self.updates.send("tool_call", **call)
            chosen = await self._editor.choose(call, options)
            if chosen == "always":
                known.accept(server)
            if chosen in ("once", "always"):
                out.append(server)
            status = "completed" if out[-1:] == [server] else "failed"
            await self.updates.send("tool_call_update", toolCallId=call["toolCallId"], status=status)
        return out

    async def close(self) -> None:
        """End the run that goes on, and let go of the session."""
        await self.cancel()
        self._closing.set()
        if self._living is not None:
            if self._talk is not None and not self._talk.done():
                self._living.cancel()
            await asyncio.gather(self._living, return_exceptions=True)
        self._app.close()

    async def replay(self) -> None:
        """Show the conversation so far."""
        await self.updates.replay(without_rewound(await self._app.sessions.history(self.key)))

    # -- state ------------------------------------------------------------------------------------

    async def state(self) -> Json:
        """Modes and options, as the answer to whoever opens the session."""
        return {"modes": self._modes(), "configOptions": await self.options()}

    def _modes(self) -> Json:
        names = [{"id": m, "name": m, "description": _MODES[m]} for m in MODES]
        return {"currentModeId": self._shown_mode, "availableModes": names}

    async def options(self) -> list[Json]:
        """What can be chosen for the session: the model, and the mode once more for editors that show it here."""
        rows = await self._app.settings.models()
        ready = [row["name"] for row in rows if str(row["status"]).startswith("ready")]
        current = self._model or self._app.config.model or _DEFAULT
        names = list(dict.fromkeys([current, *ready]))
        modes = [{"value": m, "name": m, "description": _MODES[m]} for m in MODES]
        return [
            {"id": "mode", "name": "Mode", "category": "mode", "type": "select",
             "currentValue": self._shown_mode, "options": modes},
            {"id": "model", "name": "Model", "category": "model", "type": "select",
             "currentValue": current, "options": [{"value": n, "name": n} for n in names]},
        ]  # fmt: skip

    async def set_mode(self, mode: str) -> None:
        """Decide by another mode.

        Raises:
            RpcError: there is no such mode.
        """
        if mode not in MODES:
            raise RpcError(INVALID_PARAMS, f"unknown mode {mode!r}; use {', '.join(MODES)}")
        self._shown_mode = mode
        if (talk := self._opened) is not None:
            talk.set_mode(mode)
        else:
            self._app.policy = replace(self._app.policy, mode=mode)

    async def set_option(self, id: str, value: str) -> None:
        """Change an option of `options`.

        Raises:
            RpcError: there is no such option or value.
            ModelError: the model cannot be used; the one before stays.
        """
        match id:
            case "mode":
                await self.set_mode(value)
            case "model":
                name = None if value == _DEFAULT else value
                if (talk := self._opened) is not None:
                    await talk.change_model(name, self._interaction)
                self._model = name
            case _:
                raise RpcError(INVALID_PARAMS, f"unknown option {id!r}; use mode or model")

    @property
    def _opened(self) -> Conversation | None:
        done = self._talk is not None and self._talk.done() and self._talk.exception() is None
        return self._talk.result() if self._talk is not None and done else None

    async def tell_commands(self) -> None:
        """Tell the editor which slash commands there are."""
        rows = [(name, command.help, command.hint) for name, command in COMMANDS.items()]
        rows += [(c.name, c.description, "arguments") for c in await self._app.slash_commands.list()]
        commands = [
            {"name": name, "description": text or name, **({"input": {"hint": hint}} if hint else {})}
            for name, text, hint in rows
        ]
        await self.updates.send("available_commands_update", availableCommands=commands)

    # -- prompts ----------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Json]) -> str:
        """Run on a message to the end of the answer; why it stopped, in the protocol's words.

        Raises:
            RpcError: a message is being answered, the prompt cannot be read, or the run failed.
        """
        if self._work is not None:
            raise RpcError(INVALID_REQUEST, "a message is being answered; cancel it or wait for its end")
        prompt = read_prompt(blocks, self._app.workspace)
        work = self._work = asyncio.create_task(self._answer(prompt))
        try:
            await asyncio.wait([work])
        finally:
            # The editor is gone where this is reached with the work unfinished.
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._work = None
        if work.cancelled():
            await self.updates.interrupt()
            return "cancelled"
        return work.result()

    async def cancel(self) -> None:
        """End the run that goes on; returns when it has ended."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _answer(self, prompt: Prompt) -> str:
        talk = await self.open()
        text = prompt.text.strip()
        name, _, rest = text.removeprefix("/").partition(" ")
        if text.startswith("/") and name in COMMANDS:
            await self.updates.say(await run_command(name, rest.strip(), self._app, talk))
            return "end_turn"
        text = (await self._app.slash_commands.expand(text) if text.startswith("/") else None) or text
        missed = [
            why for one in prompt.embedded
            if (why := await talk.attach_text(one.text, one.source, path=one.path.partition("#")[0]))
        ]  # fmt: skip
        text, unread = await talk.attach_files(text, prompt.links)
        for why in (*missed, *unread):
            await self.updates.say(f"Not attached: {why}\n\n")
        await self._tell_title(prompt.text)
        ended: RunFinished | None = None
        async with aclosing(talk.send(text or "(no text)", images=prompt.images)) as events:
            async for event in events:
                await self._show(event, talk)
                if isinstance(event, RunFinished):
                    ended = event
        return await self._end(ended, talk)

    async def _show(self, event: Event, talk: Conversation) -> None:
        await self.updates.show(event)
        mode = talk.executor.policy.mode
        if isinstance(event, CallFinished) and mode != self._shown_mode:
            # A plan was agreed to.
            self._shown_mode = mode
            await self.updates.send("current_mode_update", currentModeId=mode)

    async def _tell_title(self, text: str) -> None:
        line = escape_invisible(" ".join(text.split()))[:_TITLE]
        if not self._titled and line:
            self._titled = True
            await self.updates.send("session_info_update", title=line)

    async def _end(self, ended: RunFinished | None, talk: Conversation) -> str:
        """The reason why an answer stopped; says what the person has to know of it."""
        if ended is None:
            raise RpcError(INTERNAL_ERROR, "the run ended without a result")
        use = talk.context_use()
        if use.window:
            await self.updates.send("usage_update", used=use.tokens, size=use.window)
        for waits in ended.pending:
            asked: Any = waits.get("question")
            await self.updates.say(
                f"{asked}\n" if asked else f"Waiting for {waits.get('kind')} {waits.get('pending')}.\n"
            )
        match ended.status:
            case "failed":
                raise RpcError(INTERNAL_ERROR, self._app.redactor.redact(ended.error or "the run failed")[0])
            case "limit":
                await self.updates.say(f"\n\nStopped: {ended.error}")
                return "max_tokens" if "token" in ended.error else "max_turn_requests"
            case _:
                return "refusal" if ended.error.startswith("stop: ") else "end_turn"
