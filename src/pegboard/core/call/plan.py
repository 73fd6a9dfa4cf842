"""Decode and plan: from raw input to a call of a known tool, and to its effects and exact changes.

No later stage sees raw input. Planning looks through the tool's ports and changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import replace
from os.path import join, normpath
from typing import Any, Final, cast

from pegboard.core.call.call import Call, Parts, new_call_id
from pegboard.core.call.provide import Provided
from pegboard.core.content import ToolCall
from pegboard.core.context import Context, attach, detach
from pegboard.core.effects import EFFECT_KINDS, EMPTY_PLAN, PATH_KINDS, Effect, Plan
from pegboard.core.errors import BuildError, OutsideWorkspace, PermissionDenied, UnknownTool
from pegboard.core.policy.rules import CONDITIONS, Situation
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.core.schema.problems import format_json, short_name
from pegboard.core.secrets.clip import clip
from pegboard.core.text import escape_invisible
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit


def decode(parts: Parts, sent: ToolCall, outer: Context) -> Call:
    """Resolve the tool's name, and decode the arguments by its signature.

    Raises:
        UnknownTool: no tool has that name or alias.
        InvalidArguments: every problem with the arguments at once.
    """
    started_s = parts.clock.monotonic()
    sent = parts.toolkit.unwrap_call(sent)
    name = cast(object, sent.name)
    tool = (parts.toolkit.get(name) if isinstance(name, str) else None) or _resolve(parts.toolkit, name)
    return Call(
        parts=parts,
        tool=tool,
        id=sent.id or new_call_id(),
        outer=outer,
        decoded=tool.signature.decode(sent.arguments),
        started_s=started_s,
    )


def _resolve(toolkit: Toolkit, name: object) -> Tool:
    if not isinstance(name, str):
        # A model can send any JSON here; it is shown as what it is.
        name = format_json(name)
    tool = toolkit.resolve(name)
    if tool is not None:
        return tool
    nearest = toolkit.nearest(name)
    names = ", ".join(toolkit.names) or "none"
    suggestion = f" Did you mean '{nearest[0]}'?" if nearest else ""
    raise UnknownTool(
        f"Tool {short_name(name)} not found. Available: {names}",
        hint=f"Call one of the available tools by its exact name.{suggestion}",
        details={"available": list(toolkit.names), "nearest": nearest},
    )


def ports_of(toolkit: Toolkit, provide: Provided) -> dict[str, tuple[tuple[str, Any], ...]]:
    """By tool, what fills each injected parameter; found when the toolkit is built.

    Raises:
        BuildError: nothing provides a port that a tool needs.
    """
    return {tool.name: _ports_of(tool, provide) for tool in toolkit}


def _ports_of(tool: Tool, provide: Provided) -> tuple[tuple[str, Any], ...]:
    ports: list[tuple[str, Any]] = []
    for name, port in tool.signature.inject.items():
        if port in (Plan, Context):
            ports.append((name, port))
        elif (provided := provide.find(port)) is not None:
            ports.append((name, provided))
        elif name not in tool.signature.optional_inject:
            needed = getattr(port, "__name__", str(port))
            raise BuildError(
                f"tool {tool.name!r} needs {needed} for its parameter {name!r}, and nothing provides it; "
                f"pass provide=[…] with a {needed} to the Executor or Agent, or leave the tool out with "
                f".without({tool.name!r})"
            )
    return tuple(ports)


_KINDS: Final = frozenset(EFFECT_KINDS)
_SEVERAL: Final = (list, tuple, set, frozenset)
"""Types of a marked parameter's value that hold several targets."""


async def plan(call: Call) -> None:
    """Set the call's plan; of a call that is refused here it is what the arguments name.

    Raises:
        ToolError: the tool's own plan or effects function refuses the arguments.
        BuildError: it gave something that is not a plan or an effect.
    """
    try:
        await _plan(call)
    except (PermissionDenied, OutsideWorkspace):
        call.plan = Plan(tuple(_named(call)))
        raise


def _named(call: Call) -> Iterator[Effect]:
    """The effects that marked parameters name, as they are written: they may lead where nothing is resolved."""
    for parameter in call.tool.markers:
        value = call.decoded.arguments.get(parameter.name)
        if parameter.marker is None or value is None:
            continue
        for item in cast("list[Any]", value) if isinstance(value, _SEVERAL) else [value]:
            is_path = parameter.marker.kind in PATH_KINDS
            yield Effect(
                parameter.marker.kind, normpath(str(item)) if is_path else str(item), at_least="deny"
            )


async def _plan(call: Call) -> None:
    tool = call.tool
    if tool.plan is not None:
        call.plan = await _own_plan(call)
        await _judge_deletions(call)
        return
    declared = tool.effects
    if not declared and not tool.markers:
        return
    effects: tuple[Effect, ...] = ()
    if callable(declared):
        effects = _effects_of(tool, declared(call.decoded.arguments))
    elif declared:
        effects = tuple(declared)
    effects += await marked_effects(call)
    call.plan = Plan(effects) if effects else EMPTY_PLAN
    await _judge_deletions(call)


async def _judge_deletions(call: Call) -> None:
    """A deletion passes if undo can restore all of it, and asks if not: by what it does, not by which tool does it."""
    effects, undo = call.plan.effects, call.parts.guards.undo
    if undo is None or not any(_unjudged(e) for e in effects) or not _is_recorded(call):
        return
    judged: list[Effect] = []
    for number, effect in enumerate(effects):
        if _unjudged(effect) and not _is_moved(effects[number:]):
            why = await undo.loss(effect.target)
            reason = f"undo cannot restore it: {why}" if why else effect.reason
            effect = replace(effect, at_least="ask" if why else "allow", reason=reason)
        judged.append(effect)
    call.plan = replace(call.plan, effects=tuple(judged))


def _unjudged(effect: Effect) -> bool:
    return effect.kind == "delete" and effect.at_least in (None, "allow")


def _is_recorded(call: Call) -> bool:
    """Whether undo knows of what the call deletes: as a change, through the Files port, or by a snapshot."""
    if call.plan.changes or any(e.kind == "exec" for e in call.plan.effects):
        return True
    return call.parts.resolver is not None and _uses_resolver(call)


def _is_moved(following: tuple[Effect, ...]) -> bool:
    """Whether what a command deletes stays in the workspace under another name: `mv a b`."""
    command = next((e for e in following if e.kind == "exec"), None)
    if command is None or not command.argv:
        return False
    moves = command.argv[0].rpartition("/")[2] == "mv" or command.argv[:2] == ("git", "mv")
    written = [e for e in following[: following.index(command)] if e.kind == "write"]
    return moves and bool(written) and not any(e.target.startswith("/") for e in written)


async def _own_plan(call: Call) -> Plan:
    tool = call.tool
    assert tool.plan is not None
    inner = call.inner_context()
    # Planning looks through the ports, and they know a session's state by the current context.
    before = attach(inner)
    try:
        plan = tool.plan(call.valid, inner)
        if isinstance(plan, Awaitable):
            plan = await plan
    finally:
        detach(before)
    if not isinstance(plan, Plan):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BuildError(f"the plan of tool {tool.name!r} returned {plan!r:.80}; return a Plan")
    _check(tool, plan.effects)
    return plan


def _effects_of(tool: Tool, returned: object) -> tuple[Effect, ...]:
    """What an `effects` function returned."""
    if not isinstance(returned, Iterable) or isinstance(returned, str):
        raise BuildError(
            f"the effects of tool {tool.name!r} gave {returned!r:.80}; return a list of Effect(kind, target)"
        )
    effects = tuple(cast("Iterable[Effect]", returned))
    _check(tool, effects)
    return effects


def _check(tool: Tool, effects: Iterable[Effect]) -> None:
    """Refuse what is not an effect: a kind that no rule can name would pass every deny."""
    for effect in effects:
        if not isinstance(effect, Effect) or effect.kind not in _KINDS or not isinstance(effect.target, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(
                f"tool {tool.name!r}: {effect!r:.120} is not an effect; write Effect(kind, target) with a text as "
                f"target and a kind of {', '.join(EFFECT_KINDS)}"
            )


async def marked_effects(call: Call) -> tuple[Effect, ...]:
    """The effects of parameters typed ReadPath, WritePath, Url, Command or Recipient."""
    effects: list[Effect] = []
    taints, resolver = call.parts.guards.taints, call.parts.resolver
    for parameter in call.tool.markers:
        marker = parameter.marker
        value = call.decoded.arguments.get(parameter.name)
        if marker is None or value is None:
            continue
        for item in cast("list[Any]", value) if isinstance(value, _SEVERAL) else [value]:
            target = str(item)
            if marker.kind in PATH_KINDS:
                if resolver is not None:
                    found = await resolver.resolve(target, write=marker.kind != "read")
                    target = cast(str, found.target)
                    if (
                        target.startswith("/")
                        and getattr(found, "inside", True) is False
                        and _uses_resolver(call)
                    ):
                        # No approval opens it: the port that the tool works through would refuse it afterwards.
                        raise OutsideWorkspace.of(escape_invisible(clip(str(item), 0, 200)))
            elif marker.kind == "connect":
                target = _host(target)
            # Only a call that may be repeated at will is like a GET, whose address a person can endorse.
            endorsed = (
                marker.kind == "connect"
                and call.tool.idempotent
                and taints is not None
                and taints.endorses(call.outer.session, str(item), call.outer.labels)
            )
            effects.append(Effect(marker.kind, target, at_least="allow" if endorsed else None))
    return tuple(effects)


def _host(url: str) -> str:
    """The host that rules see of a URL, with its port if it names one."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        # Not a URL: the tool will say so; rules see the text as it is.
        host = ""
    host = (host or url).lower()
    if host.isascii() and "xn--" not in host:
        return host
    from pegboard.core.hosts import shown_host

    return shown_host(host)


def opens_own_paths(call: Call) -> bool:
    """Whether the function opens its marked paths itself: no port that resolves them is injected."""
    if call.parts.resolver is None or call.tool.plan is not None or not call.tool.markers:
        return False
    return not _uses_resolver(call)


def _uses_resolver(call: Call) -> bool:
    """Whether the port that resolves paths is injected into the tool."""
    return any(port is call.parts.resolver for _, port in call.parts.ports[call.tool.name])


def absolute_paths(call: Call) -> dict[str, Any]:
    """The arguments with each marked path as the absolute one that its effect names.

    A relative path means the workspace. A function that calls `open(path)` would take the current folder of the
    process: another file than the one that was authorised.
    """
    arguments = dict(call.decoded.arguments)
    folder, effects = str(call.outer.workspace), call.plan.effects
    end = len(effects)
    # Backwards: each value gave one effect, in their order, and declared effects come before them.
    for parameter in reversed(call.tool.markers):
        value = arguments.get(parameter.name)
        if parameter.marker is None or value is None:
            continue
        several = isinstance(value, _SEVERAL)
        start = end - (len(cast("list[Any]", value)) if several else 1)
        if parameter.marker.kind in PATH_KINDS:
            paths = [folder if e.target == "." else join(folder, e.target) for e in effects[start:end]]
            arguments[parameter.name] = cast("Any", type(cast(object, value)))(paths) if several else paths[0]
        end = start
    return arguments


def situation_of(tool: Tool, context: Context, labels: frozenset[str] | None = None) -> Situation:
    """What rules' conditions see of a call; `labels` if more are known than its context holds."""
    return Situation(
        values={name: value_of(context, tool) for name, value_of in CONDITIONS.items()},
        workspace=str(context.workspace or ""),
        tainted=UNTRUSTED in (context.labels if labels is None else labels),
    )
