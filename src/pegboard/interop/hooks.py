"""Hooks: the user's own programs and functions at the events that Claude Code, Codex, goose and Deep Agents share.

A command reads one JSON object from standard input and answers by its exit status and one JSON object on standard
output. It runs as the user, outside the sandbox, in a process group of its own that is ended with it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from pegboard.core.call.call import Call, HookAnswer, HookDecision
from pegboard.core.errors import BuildError, ToolError, format_value
from pegboard.core.result import ToolResult
from pegboard.core.secrets.clip import clip
from pegboard.interop.tool_names import CLAUDE_CODE, theirs
from pegboard.process.child import Child, Spawn, Streams
from pegboard.process.output import HeadTailBuffer
from pegboard.shell.environment import command_environment

EVENTS: Final = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure",
    "PreCompact", "SubagentStart", "SubagentStop", "Notification", "Stop", "SessionEnd",
)  # fmt: skip

TIMEOUT_S: Final = 60.0
"""Seconds of a hook that sets none."""

MAX_TIMEOUT_S: Final = 600.0
MAX_OUTPUT: Final = 256_000
"""Bytes of a hook's standard output; one that writes more has failed."""
MAX_REASON: Final = 4_000
"""Characters of a reason."""

_GUARDS: Final = frozenset({"PreToolUse", "PermissionRequest", "UserPromptSubmit"})
"""Events at which a hook with `on_failure="block"` that fails refuses."""
_TO_THE_MODEL: Final = frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart"})
"""Events at which plain text on standard output goes to the model."""
_STRICTNESS: Final[dict[HookDecision, int]] = {"": 0, "allow": 1, "ask": 2, "deny": 3}
_WORDS: Final[dict[object, HookDecision]] = {
    "allow": "allow", "approve": "allow", "ask": "ask", "deny": "deny", "block": "deny", "defer": "", None: "", "": "",
}  # fmt: skip
_NAMES: Final = re.compile(r"[\w\s,|-]*")
_INTO_FILE: Final = re.compile(r"(?<!<)>[>&|]?\Z")
"""The operator before a file that a shell writes: `>`, `2>>`, `&>`, `>|`."""
_SCRIPT: Final = re.compile(r"[\w.-]{1,60}\.(?:py|sh|bash|zsh|js|mjs|cjs|ts|rb|pl|php)\b")
_DESKTOP: Final = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK",
)
_MODES: Final = {
    "read-only": "plan",
    "ask": "default",
    "workspace": "acceptEdits",
    "auto": "auto",
    "full": "bypassPermissions",
}

HookFunction: TypeAlias = Callable[[dict[str, Any]], Any]
OnFailure: TypeAlias = Literal["", "allow", "block"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook.

    Attributes:
        event: one of EVENTS.
        run: a shell command, a program with its arguments, or a function of the payload, sync or async. A function
            returns None, `"allow"`, `"ask"`, `"deny"` or what a command would print, and may raise a ToolError to refuse.
        matcher: tool names joined by `|`, or a regular expression; empty or `*` = all.
        name: as messages and records name it; empty = from `run`.
        timeout_s: seconds after which it is ended.
        on_failure: `block` refuses where it fails, `allow` goes on; empty = `allow` for commands, `block` for functions.
        file: the settings file that it stands in.
        root: the plug-in's folder, given as PLUGIN_ROOT.
        own: it is the user's and not a project's. Only such a hook can answer a question with yes.
        foreign_names: where the matcher names no tool, it is told the tool names of Claude Code.
        passed: names of environment variables that it gets beside the usual ones.
        pinned: a folder that must be as it was trusted, a plug-in's; None = only its file and scripts.
        variables: environment variables that are set for it.
    """

    event: str
    run: str | Sequence[str] | HookFunction
    matcher: str = ""
    name: str = ""
    timeout_s: float = TIMEOUT_S
    on_failure: OnFailure = ""
    file: Path | None = None
    root: Path | None = None
    own: bool = True
    foreign_names: bool = False
    passed: tuple[str, ...] = ()
    pinned: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.event not in EVENTS:
            raise BuildError(f"a hook's event is one of {', '.join(EVENTS)}, got {format_value(self.event)}")
        run: object = self.run
        if not run or not (callable(run) or isinstance(run, str | list | tuple)):
            raise BuildError(f"a hook's run is a command or a function, got {format_value(run)}")
        if self.on_failure not in ("", "allow", "block"):
            raise BuildError(f"a hook's on_failure is allow or block, got {format_value(self.on_failure)}")
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise BuildError(f"a hook's timeout_s is between 0 and {MAX_TIMEOUT_S:g}, got {self.timeout_s:g}")
        try:
            re.compile("" if self.matcher == "*" else self.matcher)
        except re.error as error:
            raise BuildError(f"a hook's matcher {self.matcher!r} is no regular expression: {error}") from None

    @property
    def label(self) -> str:
        """How records name it: `hook guard.sh`."""
        return f"hook {self.name or _named(self.run)}"

    @property
    def blocks(self) -> bool:
        """Whether it refuses where it fails."""
        return (
            self.event in _GUARDS and (self.on_failure or ("block" if callable(self.run) else "")) == "block"
        )

    def match(self, *names: str) -> str | None:
        """The first of some names that the matcher covers, None if it covers none."""
        if self.matcher in ("", "*"):
            return names[0] if names else ""
        if _NAMES.fullmatch(self.matcher):
            wanted = {one.strip() for one in re.split(r"[|,]", self.matcher)}
            return next((name for name in names if name in wanted), None)
        return next((name for name in names if re.search(self.matcher, name)), None)


class Hooks:
    """The hooks of one executor.

    Args:
        hooks: in the order in which their answers count.
        environment: what commands may be given of ours.
        workspace: their working folder; None = ours.
        refused: why a hook may not run now (its file has changed since it was trusted), None if it may.

    Attributes:
        on_warning: is given a sentence where a hook fails or has something to say to a person.
        mode: the policy's mode now.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        *,
        environment: Mapping[str, str],
        workspace: Path | None = None,
        refused: Callable[[Hook], str | None] = lambda _: None,
    ) -> None:
        self._by_event: dict[str, list[Hook]] = {}
        for hook in hooks:
            self._by_event.setdefault(hook.event, []).append(hook)
        self._environment = environment
        self._workspace = workspace
        self._refused = refused
        self._sessions: dict[str, str] = {}
        self._agent = ""
        self.on_warning: Callable[[str], None] = lambda _: None
        self.mode: Callable[[], str] = lambda: "workspace"

    def __bool__(self) -> bool:
        return bool(self._by_event)

    # -- calls --------------------------------------------------------------------------------------

    def watches(self, event: str, call: Call) -> bool:
        """See CallHooks."""
        hooks = self._by_event.get(event)
        if not hooks or event == "Notification":
            return bool(hooks)
        return any(hook.match(*_names(call)) is not None for hook in hooks)

    async def on_call(self, event: str, call: Call, fields: Mapping[str, Any]) -> HookAnswer:
        """See CallHooks."""
        ours, others = _ours(call), theirs(call.tool, call.plan.effects)
        payload = self._payload(event, call.outer.session, call.outer.run)
        result: Any = fields.get("result")
        more = dict(fields) if result is None else _result_fields(result)
        told: list[tuple[Hook, dict[str, Any]]] = []
        for hook in self._by_event.get(event, ()):
            if event == "Notification":
                named = hook.match(str(fields.get("notification_type", "")))
            else:
                # What a foreign file means by a name that both have is the foreign tool.
                order = (*others, *ours) if hook.foreign_names else (*ours, *others)
                named = hook.match(*order)
            if named is None:
                continue
            call_fields = {} if event == "Notification" else _call_fields(call, named, ours, self._workspace)
            told.append((hook, {**payload, **call_fields, **more}))
        return await self._all(told)

    # -- sessions -----------------------------------------------------------------------------------

    async def on_session(
        self,
        event: str,
        session: str,
        fields: Mapping[str, Any] | None = None,
        *,
        matched: str = "",
        run: str = "",
    ) -> HookAnswer:
        """What the hooks of an event say that concerns a session and no call.

        Args:
            event: any of EVENTS but those of calls.
            session: its key.
            fields: what they are told beside the session.
            matched: what a matcher is compared with: how a session started or ended, what compacts it, which
                subagent; empty = the event has no matcher.
            run: the run's id.
        """
        payload = {**self._payload(event, session, run), **(fields or {})}
        hooks = self._by_event.get(event, ())
        return await self._all([(h, payload) for h in hooks if not matched or h.match(matched) is not None])

    def for_subagent(self, agent: str) -> Hooks:
        """The same hooks around a subagent: it starts and stops as one, and has no session's start and end."""
        twin = copy(self)
        twin._agent, twin._sessions = agent, {}
        return twin

    async def begin(self, session: str, *, source: str, run: str = "") -> HookAnswer:
        """SessionStart, the first time that this process hears of a session; SubagentStart for a subagent."""
        if session in self._sessions:
            return HookAnswer()
        self._sessions[session] = source
        if self._agent:
            fields = {"agent_id": session, "agent_type": self._agent}
            return await self.on_session("SubagentStart", session, fields, matched=self._agent, run=run)
        return await self.on_session("SessionStart", session, {"source": source}, matched=source, run=run)

    async def end(self, session: str, fields: Mapping[str, Any], *, run: str = "") -> HookAnswer:
        """Stop of a run that is about to end; SubagentStop for a subagent."""
        if not self._agent:
            return await self.on_session("Stop", session, fields, run=run)
        told = {**fields, "agent_id": session, "agent_type": self._agent}
        return await self.on_session("SubagentStop", session, told, matched=self._agent, run=run)

    async def close(self, reason: str = "other") -> None:
        """SessionEnd of every session that has begun here."""
        if self._agent:
            return
        sessions, self._sessions = tuple(self._sessions), {}
        for session in sessions:
            await self.on_session("SessionEnd", session, {"reason": reason}, matched=reason)

    # -- running ------------------------------------------------------------------------------------

    def _payload(self, event: str, session: str, run: str) -> dict[str, Any]:
        folder = str(self._workspace or Path.cwd())
        return {
            "hook_event_name": event, "event": event, "session_id": session, "run_id": run, "transcript_path": "",
            "cwd": folder, "working_dir": folder, "permission_mode": _MODES.get(self.mode(), "default"),
        }  # fmt: skip

    async def _all(self, told: Sequence[tuple[Hook, dict[str, Any]]]) -> HookAnswer:
        """The answers of some hooks, which run side by side, as one."""
        answers = await asyncio.gather(*(self._one(hook, payload) for hook, payload in told))
        first = max(answers, key=lambda a: _STRICTNESS[a.decision], default=HookAnswer())
        failures = tuple(f for a in answers for f in a.failures)
        for failure in failures:
            self.on_warning(failure)
        return HookAnswer(
            decision=first.decision,
            by=first.by,
            reason=first.reason,
            context=tuple(c for a in answers for c in a.context),
            failures=failures,
        )

    async def _one(self, hook: Hook, payload: dict[str, Any]) -> HookAnswer:
        if (why := self._refused(hook)) is not None:
            # It may be a guard: nothing passes because its file was changed.
            decision: HookDecision = "deny" if hook.event in _GUARDS else ""
            return HookAnswer(
                decision=decision, by=hook.label, reason=why, failures=(f"{hook.label}: {why}",)
            )
        try:
            said = await (self._call(hook, payload) if callable(hook.run) else self._run(hook, payload))
        except ToolError as error:
            said = HookAnswer(decision="deny", by=hook.label, reason=clip(str(error), 0, MAX_REASON))
        except _Failed as error:
            why = f"{hook.label} failed: {error}"
            decision = "deny" if hook.blocks else ""
            return HookAnswer(decision=decision, by=hook.label, reason=f"it {error}", failures=(why,))
        if said.decision == "allow" and not hook.own:
            said = HookAnswer(context=said.context)
        return said

    async def _call(self, hook: Hook, payload: dict[str, Any]) -> HookAnswer:
        function = cast(HookFunction, hook.run)
        try:
            async with asyncio.timeout(hook.timeout_s):
                if inspect.iscoroutinefunction(function):
                    value = await cast("Awaitable[Any]", function(payload))
                else:
                    value = await asyncio.to_thread(function, payload)
        except TimeoutError:
            raise _Failed(f"did not answer within {hook.timeout_s:g} s") from None
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001  A hook of the program's own may raise anything.
            raise _Failed(f"raised {type(error).__name__}: {clip(str(error), 0, 200)}") from None
        table = {"decision": value} if isinstance(value, str) or value is None else value
        if not isinstance(table, Mapping):
            raise _Failed(f"returned {format_value(value)}, which is no decision")
        return self._read(hook, cast("Mapping[str, Any]", table))

    async def _run(self, hook: Hook, payload: dict[str, Any]) -> HookAnswer:
        argv = ("/bin/sh", "-c", hook.run) if isinstance(hook.run, str) else cast("Sequence[str]", hook.run)
        out, err = HeadTailBuffer(MAX_OUTPUT), HeadTailBuffer(MAX_REASON * 2)
        told = json.dumps(payload, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
        folder = None if self._workspace is None else str(self._workspace)
        try:
            child = await Child.start(
                Spawn(argv=argv, env=self._variables(hook), cwd=folder),
                Streams(stdout=out, stderr=err, stdin=told),
            )
        except OSError as error:
            raise _Failed(f"could not be started: {error.strerror or error}") from None
        try:
            ended = await child.wait(hook.timeout_s)
            if ended:
                await child.wait_drained(1.0)
        finally:
            if child.finished.is_set() and not child.lingers:
                child.abandon()
            else:
                await child.kill()
        if not ended:
            raise _Failed(f"did not end within {hook.timeout_s:g} s and was ended")
        errors = b"".join(err.parts()).decode("utf-8", "replace").strip()
        return self._ended(hook, child.exit_code or 0, b"".join(out.parts()), out.dropped, errors)

    def _ended(self, hook: Hook, status: int, output: bytes, dropped: int, errors: str) -> HookAnswer:
        if status == 2:
            return HookAnswer(
                decision="deny", by=hook.label, reason=clip(errors, 0, MAX_REASON) or "exit status 2"
            )
        text = output.decode("utf-8", "replace").strip()
        if text.startswith("{"):
            if dropped:
                raise _Failed(f"wrote more than {MAX_OUTPUT} bytes")
            try:
                table: Any = json.loads(text)
            except (ValueError, RecursionError):
                raise _Failed("wrote JSON that cannot be read") from None
            said = self._read(hook, cast("dict[str, Any]", table))
            if status == 0 or said.decision == "deny":
                return said
        if status != 0:
            first = clip(errors.partition("\n")[0], 0, 200)
            raise _Failed(f"ended with exit status {status}{f': {first}' if first else ''}")
        if text and not text.startswith("{") and hook.event in _TO_THE_MODEL:
            return HookAnswer(context=(clip(text, 0, MAX_OUTPUT),))
        return HookAnswer()

    def _read(self, hook: Hook, table: Mapping[str, Any]) -> HookAnswer:
        """The answer in what a hook prints, or a function returns.

        Raises:
            _Failed: its decision is none that we know.
        """
        inner: Any = table.get("hookSpecificOutput")
        special: Mapping[str, Any] = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}
        words: list[Any] = [table.get("decision"), special.get("permissionDecision")]
        reasons: list[Any] = [
            special.get("permissionDecisionReason"),
            table.get("reason"),
            table.get("stopReason"),
        ]
        behaviour: Any = special.get("decision")
        if isinstance(behaviour, Mapping):
            row = cast("Mapping[str, Any]", behaviour)
            words.append(row.get("behavior"))
            reasons.insert(0, row.get("message"))
            special = {**special, "updatedInput": row.get("updatedInput")}
        if table.get("continue") is False and hook.event in _GUARDS:
            words.append("deny")
        for word in words:
            if not isinstance(word, str | None) or word not in _WORDS:
                raise _Failed(f"answered {format_value(word)}, which is none of allow, ask, deny, block")
        decision: HookDecision = max((_WORDS[w] for w in words), key=lambda d: _STRICTNESS[d])
        reason = next((str(r) for r in reasons if r), "")
        if special.get("updatedInput") is not None and decision != "deny":
            # It relies on the change: without it the call is not the one that it lets pass.
            decision, reason = "deny", "it changes the arguments of the call, which is not supported here"
        if isinstance(message := table.get("systemMessage"), str) and message.strip():
            self.on_warning(f"{hook.label}: {clip(message.strip(), 0, MAX_REASON)}")
        context: Any = special.get("additionalContext") or table.get("additionalContext")
        return HookAnswer(
            decision=decision,
            by=hook.label if decision else "",
            reason=clip(reason, 0, MAX_REASON) or ("no reason given" if decision == "deny" else ""),
            context=(clip(context, 0, MAX_OUTPUT),) if isinstance(context, str) and context.strip() else (),
        )

    def _variables(self, hook: Hook) -> dict[str, str]:
        folder = str(self._workspace or Path.cwd())
        more = {"CLAUDE_PROJECT_DIR": folder}
        if hook.root is not None:
            more |= {"PLUGIN_ROOT": str(hook.root), "CLAUDE_PLUGIN_ROOT": str(hook.root)}
        more |= hook.variables
        return {**command_environment(self._environment, {}, passed=(*_DESKTOP, *hook.passed)), **more}


class _Failed(Exception):
    """Why a hook has no answer, to stand behind its name."""


def files_named(root: Path, hook: Hook) -> list[Path]:
    """Files in a folder that a hook's command names, such as its script."""
    import shlex

    if callable(hook.run):
        return []
    text = hook.run if isinstance(hook.run, str) else shlex.join(hook.run)
    places = {"CLAUDE_PROJECT_DIR": root}
    if hook.root is not None:
        places |= dict.fromkeys(("PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"), hook.root)
    for variable, place in places.items():
        text = text.replace(f"${{{variable}}}", str(place)).replace(f"${variable}", str(place))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        words = text.split()
    # Where a hook writes its output is not what it runs: a log would end the trust in it with its first line.
    words = [w for before, w in pairwise(("", *words)) if not _INTO_FILE.search(before)]
    found: dict[Path, None] = {}
    for word in (part for w in words[:200] for part in {w, w.partition("=")[2]} if part):
        path = (root / word).resolve() if "\0" not in word and len(word) < 4096 else root
        if path != root and path.is_relative_to(root.resolve()) and path.is_file():
            found[path] = None
    return list(found)


def _named(run: str | Sequence[str] | HookFunction) -> str:
    """A short name: the script or program of a command, the name of a function."""
    if callable(run):
        return getattr(run, "__name__", type(run).__name__)
    text = run if isinstance(run, str) else " ".join(run)
    if script := _SCRIPT.search(text):
        return script[0]
    return (text.split() or ["command"])[0].rpartition("/")[2][:60]


def _ours(call: Call) -> tuple[str, ...]:
    tool = call.tool
    return tuple(dict.fromkeys(filter(None, (tool.canonical, tool.name, *tool.aliases))))


def _names(call: Call) -> tuple[str, ...]:
    return (*_ours(call), *theirs(call.tool, call.plan.effects))


def _call_fields(call: Call, named: str, ours: Sequence[str], workspace: Path | None) -> dict[str, Any]:
    """The call in the words of whoever wrote the matcher, and its effects."""
    arguments = dict(call.decoded.sent)
    if named not in ours:
        spelling = CLAUDE_CODE.get(call.tool.canonical or call.tool.name)
        if spelling is not None:
            arguments = {spelling.parameters.get(k, k): v for k, v in arguments.items()}
        path = arguments.get("file_path")
        if isinstance(path, str) and workspace is not None:
            arguments["file_path"] = os.path.normpath(workspace / path)
    effects = [e.to_dict() for e in call.plan.effects]
    return {
        "tool_name": named, "tool_input": arguments, "tool_use_id": call.id, "tool_call_id": call.id,
        "matcher_context": named, "effects": effects,
    }  # fmt: skip


def _result_fields(result: ToolResult) -> dict[str, Any]:
    if result.error is not None:
        return {"error": result.error.message, "tool_response": {"error": result.error.message}}
    return {"tool_response": result.text}


__all__ = ["EVENTS", "Hook", "Hooks", "files_named"]
