"""Decode, resolve, validate, plan: from raw input to the effects of a call (DESIGN 2). Changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os.path import join
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core.call.call import (
    PATH_RESOLVER,
    Call,
    Resolver,
    call_context,
    planned,
)
from pegboard.core.call.decode import bind_tool
from pegboard.core.content import ToolCall
from pegboard.core.context import Context, attach, detach
from pegboard.core.effects import EFFECT_KINDS, EMPTY_PLAN, PATH_KINDS, Effect, Plan
from pegboard.core.errors import BuildError
from pegboard.core.policy.rules import Situation
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.core.schema.annotations import Parameter
from pegboard.core.tool import Tool

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.core.call.pipeline import Pipeline
    from pegboard.core.schema.annotations import Parameter

MANY: Final = (list, tuple, set, frozenset)
"""What a marked parameter with several targets holds."""


def resolve_path_arguments(
    arguments: dict[str, Any], markers: Sequence[Parameter], effects: Sequence[Effect], workspace: Path
) -> dict[str, Any]:
    """The arguments with each marked path as the absolute one that its effect names.

    A relative path means the workspace. A function that calls `open(path)` would take the current
    folder of the process: another file than the one that was judged.

    Args:
        arguments: decoded; stay as they are.
        markers: the tool's marked parameters.
        effects: what they gave, one each value, in their order; other effects may stand before them.
        workspace: the folder that relative targets mean.
    """
    out = dict(arguments)
    folder = str(workspace)
    end = len(effects)
    # From the last one back: other effects stand before them.
    for parameter in reversed(markers):
        value = out.get(parameter.name)
        if parameter.marker is None or value is None:
            continue
        several = isinstance(value, MANY)
        begin = end - (len(cast("Sequence[Any]", value)) if several else 1)
        if parameter.marker.kind in PATH_KINDS:
            paths = [_absolute(folder, one.target) for one in effects[begin:end]]
            kind = cast("Callable[[list[str]], Any]", type(value))
            out[parameter.name] = kind(paths) if several else paths[0]
        end = begin
    return out


def _absolute(folder: str, target: str) -> str:
    return folder if target == "." else join(folder, target)


_KINDS: Final = frozenset(EFFECT_KINDS)


def decode(pipeline: Pipeline, call: ToolCall, call_id: str) -> Call:
    """Resolve and validate: raw input ends here."""
    lane, arguments = bind_tool(pipeline, call.name, call.arguments)
    return planned(lane, call_id, lane.decode(arguments))


async def plan(pipeline: Pipeline, call: Call, context: Context) -> Plan:
    tool = call.tool
    if tool.plan is not None:
        inner = call_context(pipeline, context, call.call_id, tool)
        # Planning looks through the ports, and they know a session's state by the current context.
        before = attach(inner)
        try:
            made = tool.plan(call.call, inner)
            if isinstance(made, Awaitable):
                made = await made
        finally:
            detach(before)
        if not isinstance(made, Plan):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(f"the plan of tool {tool.name!r} gave {made!r:.80}, which is no Plan")
        _check(tool, made.effects)
        return made
    declared = tool.effects
    effects: tuple[Effect, ...] = ()
    if callable(declared):
        effects = _effects_of(tool, declared(call.decoded.arguments))
    elif declared:
        effects = tuple(declared)
    marked = await _marked(pipeline, tool, call.decoded.arguments, context)
    return Plan(effects + marked) if effects or marked else EMPTY_PLAN


def _effects_of(tool: Tool, made: object) -> tuple[Effect, ...]:
    """What an `effects` function gave."""
    if not isinstance(made, Iterable) or isinstance(made, str):
        raise BuildError(
            f"the effects of tool {tool.name!r} gave {made!r:.80}; return a list of Effect(kind, target)"
        )
    effects = tuple(cast("Iterable[Effect]", made))
    _check(tool, effects)
    return effects


def _check(tool: Tool, effects: Iterable[Effect]) -> None:
    """A kind that no rule can name would pass every deny, so a slip must not get through (decisions 2)."""
    for effect in effects:
        if not isinstance(effect, Effect) or effect.kind not in _KINDS or not isinstance(effect.target, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(
                f"tool {tool.name!r}: {effect!r:.120} is no effect; write Effect(kind, target) with a text as "
                f"target and a kind of {', '.join(EFFECT_KINDS)}"
            )


async def _marked(
    pipeline: Pipeline, tool: Tool, arguments: Mapping[str, Any], context: Context
) -> tuple[Effect, ...]:
    """The effects of parameters typed ReadPath, WritePath, Url, Command or Recipient."""
    out: list[Effect] = []
    markers: Sequence[Parameter] = tool.markers
    taints = pipeline.safeguards.taints
    resolver = cast("Resolver | None", pipeline.provide.get(PATH_RESOLVER))
    for parameter in markers:
        marker = parameter.marker
        value = arguments.get(parameter.name)
        if marker is None or value is None:
            continue
        for one in cast("list[Any]", value) if isinstance(value, MANY) else [value]:
            if marker.kind in PATH_KINDS:
                target = str(one)
                if resolver is not None:
                    target = cast(str, (await resolver.resolve(target, write=marker.kind != "read")).target)
            else:
                target = _host(str(one)) if marker.kind == "connect" else str(one)
            endorsed = (
                marker.kind == "connect"
                and tool.idempotent
                and taints is not None
                and taints.endorses(context.session, str(one), context.labels)
            )
            # Only what may be repeated at will is a GET in the sense of decisions 8.
            out.append(Effect(marker.kind, target, at_least="allow" if endorsed else None))
    return tuple(out)


def _host(url: str) -> str:
    """The host that rules see of an address, with its port where it names one."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        # No URL at all: the tool will say so; rules see the text as it is.
        host = ""
    return (host or url).lower()


def situation(tool: Tool, context: Context, labels: frozenset[str] | None = None) -> Situation:
    """What rules' conditions see of a call; `labels` where more are known than its context holds."""
    origin = context.origin
    return Situation(
        values={
            # A rule about exec must hold although a profile shows it as Bash.
            "tool": tool.canonical or tool.name,
            "agent": context.agent,
            "session": context.session,
            "channel": origin.get("channel", ""),
            "sender": origin.get("sender", ""),
            "model": context.model,
        },
        workspace=str(context.workspace or ""),
        tainted=UNTRUSTED in (context.labels if labels is None else labels),
    )
