"""Tool and `@tool`: a name, a signature, its effects and one function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, overload

from pegboard.core.context import Context
from pegboard.core.effects import EFFECT_KINDS, Effect, EffectKind, Plan
from pegboard.core.errors import BuildError, check_sequence, check_text, format_value, is_number
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Parameter
from pegboard.core.schema.json_schema import modern
from pegboard.core.schema.signature import Signature


class HasSent(Protocol):
    """What decoding left behind: the arguments as JSON-able values, made when somebody looks."""

    @property
    def sent(self) -> Mapping[str, Any]:
        """The arguments after aliases and repair."""
        ...


@dataclass(slots=True)
class ValidCall:
    """A call whose arguments fit the tool's signature. Read-only.

    Attributes:
        id: unique in its run.
        tool: the tool's canonical name.
        arguments: decoded Python values by parameter name, defaults filled in.
        repairs: what had to be repaired to read them, one sentence each.
        decoded: what `sent` is made from; None where the call was made by hand.
    """

    id: str
    tool: str
    arguments: dict[str, Any]
    repairs: tuple[str, ...] = ()
    decoded: HasSent | None = None

    @property
    def sent(self) -> Mapping[str, Any]:
        """The arguments as JSON-able values, for display, digest and record."""
        return self.arguments if self.decoded is None else self.decoded.sent


Level: TypeAlias = Literal["auto", "confirm", "deny"]
RenderFunction: TypeAlias = "Callable[[ToolResult, Mapping[str, Any]], ToolResult]"
EffectsFunction: TypeAlias = Callable[[Mapping[str, Any]], Iterable[Effect]]
PlanFunction: TypeAlias = Callable[[ValidCall, Context], Plan | Awaitable[Plan]]
Effects: TypeAlias = Iterable[Effect] | EffectsFunction

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}\Z")
_FIELDS: Final = (
    "name",
    "_description",
    "effects",
    "level",
    "limits",
    "idempotent",
    "hints",
    "aliases",
    "example",
    "parameters",
    "plan",
    "signature",
    "function",
    "is_async",
    "markers",
    "touches",
    "render",
    "canonical",
    "direct",
)
_LEVELS: Final = ("auto", "confirm", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What bounds one call.

    Attributes:
        timeout_s: wall seconds; None = the executor's default.
        max_chars: characters of text that the model sees; None = the executor's default.
    """

    timeout_s: float | None = None
    max_chars: int | None = None


NO_LIMITS: Final = ToolLimits()


class Tool:
    """One tool. `@tool` makes one from a function; a subclass with an async `run` is the second way.

    A subclass sets `name`, `effects` and, unless `run` has a docstring, `description` as class
    attributes; `parameters` may hold a JSON Schema instead of typed parameters of `run`.

    Attributes:
        name: what the model calls.
        signature: its parameters; decodes arguments and renders the schema.
        level: auto runs, confirm asks first, deny never runs.
        limits: time and size.
        idempotent: whether a call whose outcome is unknown may be repeated.
        touches: kinds of effect that it can have, for lists and annotations; what one call has is its plan's.
        hints: short phrases of requests that this tool is for; search and routing use them.
        aliases: other names that are accepted, not advertised.
        example: argument values for prompts, may be None.
        render: words a result for a profile, from the result and the arguments, before it is redacted and
            cut; None = as it stands.
        canonical: the name that policy rules know it by where a profile shows another; empty = `name`.
        direct: of an isolated tool the function as it was given; `function` runs it in a worker process.

    Raises:
        BuildError: a bad name, an annotation that cannot be resolved, or no declared effects.
    """

    name: str = ""
    effects: Effects | None = None
    level: Level = "auto"
    limits: ToolLimits = NO_LIMITS
    idempotent: bool = False
    hints: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    plan: PlanFunction | None = None
    touches: tuple[EffectKind, ...] = ()
    render: RenderFunction | None = None
    canonical: str = ""
    signature: Signature
    function: Callable[..., Any]
    is_async: bool
    markers: tuple[Parameter, ...]
    _description: str = ""
    direct: Callable[..., Any] | None = None

    def __new__(cls, *_: Any, **__: Any) -> Tool:
        self = super().__new__(cls)
        if cls is not Tool:
            self._build(_method_of(self), bound=True)
        return self

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        effects: Effects | None = None,
        plan: PlanFunction | None = None,
        level: Level = "auto",
        timeout_s: float | None = None,
        max_chars: int | None = None,
        idempotent: bool = False,
        hints: Iterable[str] = (),
        aliases: Iterable[str] = (),
        parameters: Mapping[str, Any] | None = None,
        example: Mapping[str, Any] | None = None,
        touches: Iterable[EffectKind] = (),
        isolated: bool = False,
        memory_mb: int | None = None,
    ) -> None:
        if function is None:
            if type(self) is Tool:
                raise BuildError("Tool(…) needs a function; or write a subclass with an async run method")
            return
        if not callable(cast(object, function)):
            raise BuildError(
                f"@tool expects a function, got {format_value(function)}; write @tool(name=…, effects=…)"
            )
        self.name = check_text(
            name or getattr(function, "__name__", "") or "", "name=…", meant="a tool's name"
        )
        if description is not None:
            self._description = check_text(description, "description=…")
        if effects is not None:
            self.effects = effects
        if plan is not None:
            self.plan = plan
        if level != "auto":
            self.level = level
        for what, most in (("timeout_s", timeout_s), ("max_chars", max_chars)):
            if most is not None and not (is_number(most) and most >= 0):
                raise BuildError(
                    f"tool {self.name!r}: {what}={most!r} is not a limit; give a number, or leave it out"
                )
        if timeout_s is not None or max_chars is not None:
            self.limits = ToolLimits(timeout_s=timeout_s, max_chars=max_chars)
        if idempotent:
            self.idempotent = True
        if hints:
            self.hints = check_sequence(hints, f"tool {self.name!r}, hints=…", "phrases")
        if aliases:
            self.aliases = check_sequence(aliases, f"tool {self.name!r}, aliases=…", "names")
        if parameters is not None:
            self.parameters = parameters
        if example is not None:
            if not isinstance(cast(object, example), Mapping):
                raise BuildError(
                    f"tool {self.name!r}, example=… takes {{parameter: value}}, got {format_value(example)}"
                )
            self.example = example
        if touches:
            self.touches = check_sequence(touches, f"tool {self.name!r}, touches=…", "kinds of effect")
        self._build(function, bound=False)
        if isolated:
            from pegboard.core.isolation import isolate

            self.direct = function
            self.function = isolate(function, self.signature, tool=self.name, memory_mb=memory_mb)
            self.is_async = True
        elif memory_mb is not None:
            raise BuildError(f"tool {self.name!r}: memory_mb=… limits isolated tools; add isolated=True")

    def _build(self, function: Callable[..., Any], *, bound: bool) -> None:
        if bound and not self.name:
            self.name = _snake(type(self).__name__)
        if not _NAME.match(self.name):
            raise BuildError(
                f"{self.name!r} is not a valid tool name: use letters, digits, _, - and ., starting with a letter; "
                "a lambda needs name=…"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise BuildError(
                f"tool {self.name!r} is a generator, but a call has one result: return a list, and send parts "
                "of it with current_context().emit as they are ready"
            )
        if self.level not in _LEVELS:
            raise BuildError(f"tool {self.name!r}: level {self.level!r} is none of auto, confirm, deny")
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  (a callable object with an async __call__)
        )
        if self.parameters is None:
            self.signature = Signature.of(function, bound=bound, name=self.name)
        else:
            self.signature = Signature.foreign(self._given_schema(), description=self._given_description())
        self.markers = tuple([p for p in self.signature.parameters if p.marker is not None])
        self._check_effects()
        if type(self) is Tool:
            # On the object itself: every call looks at these, and a class's attribute costs ten times as much. A
            # subclass may have made properties of them.
            self.effects, self.level, self.limits = self.effects, self.level, self.limits
            self.plan, self.render = self.plan, self.render

    def _given_schema(self) -> dict[str, Any]:
        given: object = self.parameters
        if not isinstance(given, Mapping):
            raise BuildError(
                f"tool {self.name!r}, parameters=… takes a JSON Schema as a dict, got {format_value(given)}; "
                "without it the schema is made from the function's types"
            )
        schema = dict(given)
        if isinstance(kind := schema.get("type", "object"), str) and kind != "object":
            raise BuildError(
                f"tool {self.name!r}, parameters=…: arguments are an object with a property for each parameter, "
                f"and this schema says {kind!r}"
            )
        return schema

    def _given_description(self) -> str:
        given = getattr(type(self), "description", None)
        return given if isinstance(given, str) else self._description

    def _check_effects(self) -> None:
        declared: object = self.effects
        if self.plan is not None and not callable(cast(object, self.plan)):
            raise BuildError(
                f"tool {self.name!r}, plan=… takes a function that returns a Plan, got {format_value(self.plan)}"
            )
        if unknown := [kind for kind in self.touches if kind not in EFFECT_KINDS]:
            raise BuildError(
                f"tool {self.name!r}, touches=…: {format_value(unknown[0])} is not a kind of effect; use {', '.join(EFFECT_KINDS)}"
            )
        if declared is None:
            if self.plan is None and not self.markers:
                raise BuildError(
                    f"tool {self.name!r} declares no effects. A function that touches nothing says "
                    f"@tool(effects=PURE); one that does, types its parameters as ReadPath, WritePath, Url, "
                    f"Command or Recipient, or says effects=[Effect(kind, target)]"
                )
        elif not callable(declared):
            effects = check_sequence(declared, f"tool {self.name!r}, effects=…", "Effect(kind, target)")
            for effect in effects:
                if not isinstance(effect, Effect) or effect.kind not in EFFECT_KINDS:  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise BuildError(
                        f"tool {self.name!r}: {effect!r} is not an effect; write Effect(kind, target) with a kind of "
                        + ", ".join(EFFECT_KINDS)
                    )
            # A tuple, so that an iterator given by mistake is not empty at the second call.
            self.effects = effects

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema 2020-12 of the arguments; the root is always an object."""
        return self.signature.schema

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of the result's `data`, None where the tool declares none."""
        return self.signature.output_schema

    @property
    def description(self) -> str:
        """What the model reads: as given, or the docstring's first paragraphs."""
        return self._description or self.signature.description

    @description.setter
    def description(self, text: str) -> None:
        self._description = text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, with no runtime around it."""
        return (self.function if self.direct is None else self.direct)(*args, **kwargs)

    def kinds(self) -> tuple[EffectKind, ...]:
        """The kinds of effect that it can have, as far as it declares them."""
        found = {p.marker.kind for p in self.markers if p.marker is not None}.union(self.touches)
        if self.effects is not None and not callable(self.effects):
            found.update(e.kind for e in self.effects)
        return tuple(k for k in EFFECT_KINDS if k in found)

    def to_schema(self) -> dict[str, Any]:
        """The OpenAI function form."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": modern(self.schema),
            },
        }

    def copy(self, **changes: Any) -> Tool:
        """The same tool with other attributes, for example `name`."""
        twin = object.__new__(Tool)
        twin.__dict__.update({key: getattr(self, key) for key in _FIELDS})
        # The docstring stays the description whatever the new name.
        twin.__dict__.update(changes)
        return twin

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Effects | None = None,
    plan: PlanFunction | None = None,
    level: Level = "auto",
    timeout_s: float | None = None,
    max_chars: int | None = None,
    idempotent: bool = False,
    hints: Iterable[str] = (),
    aliases: Iterable[str] = (),
    parameters: Mapping[str, Any] | None = None,
    example: Mapping[str, Any] | None = None,
    touches: Iterable[EffectKind] = (),
    isolated: bool = False,
    memory_mb: int | None = None,
) -> Tool: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Effects | None = None,
    plan: PlanFunction | None = None,
    level: Level = "auto",
    timeout_s: float | None = None,
    max_chars: int | None = None,
    idempotent: bool = False,
    hints: Iterable[str] = (),
    aliases: Iterable[str] = (),
    parameters: Mapping[str, Any] | None = None,
    example: Mapping[str, Any] | None = None,
    touches: Iterable[EffectKind] = (),
    isolated: bool = False,
    memory_mb: int | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function, sync or async.

    The docstring's first paragraph is what the model reads; Google, NumPy and Sphinx
    styles describe the parameters. Effects come from parameter types (`ReadPath`, `Url` …),
    from `effects=` (`PURE`, a list of Effect, or a function of the decoded arguments) or
    from `plan=` (a function of the valid call and its context that returns a Plan).

    Args:
        name: default is the function's name.
        description: default is the docstring.
        level: auto, confirm (ask before every call) or deny.
        timeout_s: wall seconds for one call.
        max_chars: characters of the result that the model sees.
        idempotent: a call with unknown outcome may be repeated after a crash.
        hints: phrases of requests that the tool is for.
        aliases: other accepted names.
        parameters: a JSON Schema in place of the one made from the types.
        touches: kinds of effect that a `plan=` or an effects function may give.
        isolated: run the function in a worker process, which is killed when the time is over or the call is
            cancelled. It must be importable, and takes and returns what JSON can carry.
        memory_mb: of an isolated tool: what a call may take beyond what its worker has loaded; 512 by default.

    Raises:
        BuildError: at once, when the tool cannot be built.
    """
    if function is not None:
        return Tool(function, **options)

    def made(function: Callable[..., Any]) -> Tool:
        return Tool(function, **options)

    return made


def _method_of(made: Tool) -> Callable[..., Any]:
    for method in ("run", "execute"):
        function = getattr(made, method, None)
        if function is not None:
            return function
    raise BuildError(f"class {type(made).__name__} needs an async method `run` with typed parameters")


def _snake(name: str) -> str:
    """`WebSearchTool` -> `web_search`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return words.removesuffix("_tool") or words
