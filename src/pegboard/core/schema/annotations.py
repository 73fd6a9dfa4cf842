"""Parameters: what a model fills, and by which names."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pegboard.core.context import Context
from pegboard.core.effects import EffectKind
from pegboard.core.errors import BuildError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocstring:
    """A parsed docstring.

    Attributes:
        description: the paragraphs before the first section.
        parameters: what is said about each parameter, by its name.
        returns: what is said about the result, may be empty.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    returns: str = ""


NOTHING: Final = ParsedDocstring()


def read_docstring(text: str | None) -> ParsedDocstring:
    """Parse one docstring, as it stands in the source (indentation is removed here)."""
    if not text or not text.strip():
        return NOTHING
    clean = inspect.cleandoc(text)
    if ":" not in clean and "---" not in clean:
        # No style has a section without one of these, and loading the parser costs as much as pydantic's half.
        return ParsedDocstring(description=clean.strip())
    from griffe import Docstring, parse

    sections = cast("list[Any]", parse(Docstring(clean), cast("Any", _style_of(clean)), warnings=False))
    description: list[str] = []
    parameters: dict[str, str] = {}
    returns = ""
    for position, section in enumerate(sections):
        kind = section.kind.value
        if kind == "text" and position == len(description):
            description.append(section.value.strip())
        elif kind in ("parameters", "other parameters"):
            for item in section.value:
                words = _one_line(item.description)
                for name in item.name.split(","):
                    parameters[name.strip().lstrip("*")] = words
        elif kind == "returns":
            returns = " ".join(_one_line(item.description) for item in section.value).strip()
    return ParsedDocstring(description="\n\n".join(description), parameters=parameters, returns=returns)


def _style_of(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    if any(line.startswith((":param", ":return", ":arg", ":raise", ":type")) for line in lines):
        return "sphinx"
    if any(line.startswith("---") and not line.strip("-") for line in lines):
        return "numpy"
    return "google"


def _one_line(text: str) -> str:
    return " ".join(text.split())


Seen: TypeAlias = "dict[Any, Any]"
NEEDED: Final = sys.version_info < (3, 12)


def portable(annotation: Any, seen: Seen | None = None) -> Any:
    """The annotation with every `typing.TypedDict` in it as one of `typing_extensions`."""
    if not NEEDED:  # pragma: no cover
        return annotation
    seen = {} if seen is None else seen
    if isinstance(annotation, type) and typing.is_typeddict(annotation):
        return _copied(annotation, seen)
    arguments = get_args(annotation)
    origin: Any = get_origin(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        whole: Any = annotation
        inner = portable(whole.__origin__, seen)
        return whole if inner is whole.__origin__ else Annotated[(inner, *whole.__metadata__)]
    changed = tuple(portable(a, seen) for a in arguments)
    if all(a is b for a, b in zip(changed, arguments, strict=True)):
        return annotation
    return typing.Union[changed] if origin in (typing.Union, types.UnionType) else origin[changed]  # noqa: UP007


def _copied(original: Any, seen: Seen) -> Any:
    if original in seen:
        return seen[original]
    import typing_extensions

    # A TypedDict that holds itself keeps its inner reference, which pydantic then refuses by name.
    seen[original] = original
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(original, include_extras=True).items():
        # `__required_keys__` misses qualifiers in postponed annotations, so they are read off the hint.
        qualifier = get_origin(hint)
        if qualifier in (Required, NotRequired):
            (hint,) = get_args(hint)
        else:
            qualifier = Required if name in original.__required_keys__ else NotRequired
        fields[name] = qualifier[portable(hint, seen)]
    copy = typing_extensions.TypedDict(original.__name__, fields)  # pyright: ignore
    copy.__doc__, copy.__module__ = original.__doc__, original.__module__
    if (config := getattr(original, "__pydantic_config__", None)) is not None:
        copy.__pydantic_config__ = config  # pyright: ignore
    seen[original] = copy
    return copy


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EffectMarker:
    """In `Annotated[...]`: the parameter's value is the target of an effect.

    Attributes:
        kind: the effect's kind.
        description: used where the docstring says nothing about the parameter.
        aliases: other spellings of the parameter name that are accepted, not advertised.
    """

    kind: EffectKind
    description: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InjectMarker:
    """In `Annotated[...]`: the runtime fills the parameter; the schema does not show it."""


@dataclass(frozen=True, slots=True)
class Alias:
    """In `Annotated[...]`: further spellings of a parameter's name, accepted but not advertised."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class Unadvertised:
    """In `Annotated[...]`: the parameter is accepted and no model is told of it: another program's way to say
    what the parameters that are shown say."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """In `Annotated[...]`: the text is kept as it stands, in a file for example.

    Half a surrogate pair in it is refused; in other arguments U+FFFD takes its place.
    """


@dataclass(frozen=True, slots=True)
class Example:
    """In `Annotated[...]`: an example value, shown in schemas and prompts."""

    value: object


_PATH_ALIASES: Final = (
    "file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path",
)  # fmt: skip

ReadPath: TypeAlias = Annotated[
    str, EffectMarker("read", "Path of the file, relative to the workspace.", _PATH_ALIASES)
]
"""A path that the tool reads (effect `read`)."""

WritePath: TypeAlias = Annotated[
    str, EffectMarker("write", "Path of the file, relative to the workspace.", _PATH_ALIASES)
]
"""A path that the tool writes (effect `write`)."""

DeletePath: TypeAlias = Annotated[
    str, EffectMarker("delete", "Path of the file, relative to the workspace.", _PATH_ALIASES)
]
"""A path that the tool deletes (effect `delete`)."""

Url: TypeAlias = Annotated[str, EffectMarker("connect", "An http or https URL.", ("uri", "link"))]
"""A URL that the tool connects to (effect `connect host`)."""

Command: TypeAlias = Annotated[str, EffectMarker("exec", "The shell command to run.", ("cmd",))]
"""A command that the tool runs (effect `exec`)."""

Recipient: TypeAlias = Annotated[str, EffectMarker("send", "Whom the message goes to.", ("target", "to"))]
"""Whom the tool sends to (effect `send`)."""

Inject: TypeAlias = Annotated[T, InjectMarker()]
"""`files: Inject[Files]`: filled by the runtime, absent from the schema."""


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""Stands for "no default" and "no annotation"."""

_VARARGS: Final = inspect.CO_VARARGS
_VARKEYWORDS: Final = inspect.CO_VARKEYWORDS
_INFERRED: Final = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class FunctionParameters:
    """The parameters of a function as they stand in its code.

    Attributes:
        parameters: (name, annotation or MISSING, default or MISSING) in order.
        var_keyword: whether it takes `**kwargs`.
        returns: the return annotation or MISSING.
        owner: the function whose module resolves the annotations.
        rest: the annotation of `**kwargs` or MISSING.
    """

    parameters: list[tuple[str, Any, Any]]
    var_keyword: bool
    returns: Any
    owner: Any
    rest: Any = MISSING


@dataclass(frozen=True, slots=True)
class ParameterMetadata:
    """What an annotation says beside the type.

    Attributes:
        inject: the port type that the runtime fills in, or MISSING.
        optional: the annotation admits None.
        marker: the effect marker, also from inside Optional, list or dict.
        aliases: aliases given by `Alias(...)`.
        examples: values given by `Example(...)`.
        verbatim: marked with `Verbatim()`.
        unadvertised: marked with `Unadvertised()`.
    """

    inject: Any = MISSING
    optional: bool = False
    marker: EffectMarker | None = None
    aliases: tuple[str, ...] = ()
    examples: tuple[object, ...] = ()
    verbatim: bool = False
    unadvertised: bool = False


_PLAIN: Final = ParameterMetadata()
_CONTEXT: Final = ParameterMetadata(inject=Context)


def read_parameters(function: Callable[..., Any], *, bound: bool, label: str) -> FunctionParameters:
    """The parameters of a function, method, callable object or partial.

    Args:
        function: what will be called with keyword arguments.
        bound: skip the first parameter (a method taken from its class).
        label: the tool's name for error texts.

    Raises:
        BuildError: `*args`, a positional-only parameter, an unbound `self`, or no readable signature.
    """
    if isinstance(function, types.FunctionType) and not function.__dict__:
        return _raw_of_code(function, bound=bound, label=label)
    if isinstance(function, types.MethodType):
        return read_parameters(function.__func__, bound=True, label=label)
    if isinstance(function, partial):
        return _raw_of_partial(cast("partial[Any]", function), bound=bound, label=label)
    if not isinstance(function, types.FunctionType | types.BuiltinFunctionType | type):
        called = type(function).__call__
        if isinstance(called, types.FunctionType | types.MethodType):
            return read_parameters(called, bound=True, label=label)
        # An object of a class in C, such as what functools.lru_cache makes: it knows what it wraps.
    elif hasattr(function, "registry") and hasattr(function, "dispatch"):
        raise BuildError(
            f"{label}: functools.singledispatch chooses by its first positional argument, but tools are called by "
            "name; wrap it in a function"
        )
    return _raw_of_inspect(function, bound=bound, label=label)


def _raw_of_code(function: types.FunctionType, *, bound: bool, label: str) -> FunctionParameters:
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames
    flags = code.co_flags
    annotations = function.__annotations__
    if flags & _VARARGS:
        raise _takes_varargs(label, names[count + code.co_kwonlyargcount])
    start = 1 if bound else 0
    if code.co_posonlyargcount > start:
        raise _positional_only(label, names[start])
    if not start and count and names[0] in ("self", "cls") and names[0] not in annotations:
        raise _unbound(label, names[0])
    defaults = function.__defaults__ or ()
    first_default = count - len(defaults)
    get = annotations.get
    parameters: list[tuple[str, Any, Any]] = [
        (names[i], get(names[i], MISSING), defaults[i - first_default] if i >= first_default else MISSING)
        for i in range(start, count)
    ]
    if code.co_kwonlyargcount:
        keyword_defaults = function.__kwdefaults__ or {}
        parameters += [
            (name, get(name, MISSING), keyword_defaults.get(name, MISSING))
            for name in names[count : count + code.co_kwonlyargcount]
        ]
    rest = MISSING
    if flags & _VARKEYWORDS and annotations:
        rest = get(names[count + code.co_kwonlyargcount], MISSING)
    return FunctionParameters(parameters, bool(flags & _VARKEYWORDS), get("return", MISSING), function, rest)


def _raw_of_inspect(function: Callable[..., Any], *, bound: bool, label: str) -> FunctionParameters:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        raise BuildError(f"{label}: Python cannot tell its parameters; wrap it in a function") from None
    owner = inspect.unwrap(function)
    if isinstance(owner, type):
        owner = owner.__init__
    parameters: list[tuple[str, Any, Any]] = []
    var_keyword = False
    rest: Any = MISSING
    for index, parameter in enumerate(signature.parameters.values()):
        if bound and not index:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise _takes_varargs(label, parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise _positional_only(label, parameter.name)
        if parameter.kind is parameter.VAR_KEYWORD:
            var_keyword = True
            rest = MISSING if parameter.annotation is parameter.empty else parameter.annotation
            continue
        annotation = MISSING if parameter.annotation is parameter.empty else parameter.annotation
        if not index and parameter.name in ("self", "cls") and annotation is MISSING:
            raise _unbound(label, parameter.name)
        default = MISSING if parameter.default is parameter.empty else parameter.default
        parameters.append((parameter.name, annotation, default))
    returns = MISSING if signature.return_annotation is signature.empty else signature.return_annotation
    return FunctionParameters(parameters, var_keyword, returns, owner, rest)


def _raw_of_partial(function: partial[Any], *, bound: bool, label: str) -> FunctionParameters:
    inner = read_parameters(function.func, bound=bound, label=label)
    kept = inner.parameters[len(function.args) :]
    return FunctionParameters(
        # What the developer has fixed is no longer the model's to give.
        [p for p in kept if p[0] not in function.keywords],
        inner.var_keyword,
        inner.returns,
        inner.owner,
        inner.rest,
    )


def _takes_varargs(label: str, name: str) -> BuildError:
    return BuildError(
        f"{label}: *{name} has no place in a JSON object; give it a name and a type, for example {name}: list[str]"
    )


def _positional_only(label: str, name: str) -> BuildError:
    return BuildError(
        f"{label}: parameter {name!r} is positional-only, but tools are called by name; remove the '/'"
    )


def _unbound(label: str, name: str) -> BuildError:
    return BuildError(
        f"{label}: takes {name!r}, so it is a method without its object; pass the bound method, obj.method"
    )


def resolve(annotation: Any, default: Any, owner: Any, *, label: str, name: str) -> Any:
    """The annotation as an object: text evaluated where the function was defined, no annotation read off
    a plain default (`timeout=60` is an int), else Any.

    Raises:
        BuildError: a name in it is unknown; function, parameter and name are told.
    """
    if annotation is MISSING:
        return cast("Any", type(default) if type(default) in _INFERRED else Any)
    if annotation is None:
        return type(None)
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        return _resolve_inject(annotation, default, owner, label=label, name=name)
    scope = cast("dict[str, Any]", getattr(owner, "__globals__", {}))
    if annotation in scope:
        return scope[annotation]
    try:
        return eval(_compiled(annotation), scope)
    except NameError:
        pass  # it may be known where a nested function is defined
    except (
        Exception
    ) as error:  # Annotations are foreign code that raises anything; the developer must learn where.
        raise _unresolved(label, name, annotation, str(error)) from error
    try:
        return eval(_compiled(annotation), scope, local_scope(owner))
    except NameError as error:
        raise _unresolved(label, name, annotation, f"the name {error.name!r} is unknown there") from error


def _unresolved(label: str, name: str, annotation: str, why: str) -> BuildError:
    return BuildError(
        f"{label}: cannot resolve the annotation {annotation!r} of parameter {name!r}: {why}. "
        "Import it at run time, not only under TYPE_CHECKING, or define it at its module's top."
    )


def _resolve_inject(annotation: Any, default: Any, owner: Any, *, label: str, name: str) -> Any:
    """`Inject["Files"]` with its text resolved; anything else as it stands."""
    origin = getattr(annotation, "__origin__", None)
    if origin.__class__ is not ForwardRef:
        return annotation
    inner = resolve(origin, default, owner, label=label, name=name)
    return Annotated[(inner, *annotation.__metadata__)]


@lru_cache(maxsize=4096)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "<annotation>", "eval")


def local_scope(owner: Any) -> dict[str, Any]:
    """The names a nested function's annotations may use besides its module's: its closure and, while they
    still run, the functions that define it."""
    names: dict[str, Any] = {}
    code = getattr(owner, "__code__", None)
    if code is None:
        return names
    frame = inspect.currentframe()
    prefixed = cast("str", owner.__qualname__)
    while frame is not None:
        inside = frame.f_code
        if inside.co_filename == code.co_filename and prefixed.startswith(f"{inside.co_qualname}.<locals>."):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    for name, cell in zip(code.co_freevars, owner.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # the cell is still empty: defined further down
            continue
    return names


def read_metadata(annotation: Any) -> ParameterMetadata:
    """What a resolved annotation says beside the type."""
    if annotation is Context:
        return _CONTEXT
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return _PLAIN
    try:
        return _cached_facts(annotation)
    except TypeError:  # unhashable metadata inside Annotated
        return _read_facts(annotation)


def _read_facts(annotation: Any) -> ParameterMetadata:
    core, metadata, optional = unwrap(annotation)
    if any(isinstance(item, InjectMarker) for item in metadata):
        return ParameterMetadata(inject=core, optional=optional)
    if core is Context:
        return ParameterMetadata(inject=Context, optional=optional)
    aliases: tuple[str, ...] = ()
    examples: tuple[object, ...] = ()
    verbatim = any(isinstance(item, Verbatim) for item in metadata)
    for item in metadata:
        if isinstance(item, Alias):
            aliases += item.names
        elif isinstance(item, Example):
            examples += (item.value,)
    return ParameterMetadata(
        optional=optional,
        marker=_marker_in(annotation),
        aliases=aliases,
        examples=examples,
        verbatim=verbatim,
        unadvertised=any(isinstance(item, Unadvertised) for item in metadata),
    )


_cached_facts = lru_cache(maxsize=2048)(_read_facts)


def unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """(the type without Annotated and None, all its outer metadata, whether None is admitted)."""
    metadata: tuple[Any, ...] = ()
    optional = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            metadata += annotation.__metadata__
            annotation = annotation.__origin__
        elif origin is Union or origin is types.UnionType:
            members = get_args(annotation)
            rest = [m for m in members if m is not type(None)]
            optional = optional or len(rest) < len(members)
            if len(rest) != 1:
                return annotation, metadata, optional
            annotation = rest[0]
        else:
            return annotation, metadata, optional


def text_in(annotation: Any) -> str:
    """The last text of `Annotated[...]`, outermost first; also through Optional, Required and NotRequired; may be empty."""
    origin = get_origin(annotation)
    if origin is Annotated:
        texts = [item for item in annotation.__metadata__ if isinstance(item, str)]
        return texts[-1] if texts else text_in(annotation.__origin__)
    rest = [member for member in get_args(annotation) if member is not type(None)]
    around = origin in (Union, types.UnionType, Required, NotRequired) and len(rest) == 1
    return text_in(rest[0]) if around else ""


def texts_of_fields(record: type) -> dict[str, str]:
    """The texts of `Annotated[...]` in a model, dataclass or TypedDict, by the name that a field has in its schema."""
    fields = cast("Mapping[str, Any]", getattr(record, "__pydantic_fields__", None) or {})
    if fields:
        texts = {f.alias or name: [m for m in f.metadata if isinstance(m, str)] for name, f in fields.items()}
        return {name: found[-1] for name, found in texts.items() if found}
    try:
        hints = typing.get_type_hints(record, include_extras=True)
    except NameError:  # a class inside a function: its own names cannot be resolved from here
        return {}
    return {name: text for name, hint in hints.items() if (text := text_in(hint))}


def _marker_in(annotation: Any) -> EffectMarker | None:
    if get_origin(annotation) is Annotated:
        for item in annotation.__metadata__:
            if isinstance(item, EffectMarker):
                return item
        return _marker_in(annotation.__origin__)
    for argument in get_args(annotation):
        found = _marker_in(argument)
        if found is not None:
            return found
    return None


def resolve_nested(annotation: Any, owner: Any) -> Any:
    """Resolve text inside an annotation (`list["Node"]`); raises what evaluating it raises."""
    if "'" not in repr(annotation):  # every text inside shows its quotes
        return annotation
    import typing

    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = cast("Mapping[str, Any]", getattr(owner, "__globals__", {}))
    return typing.get_type_hints(holder, dict(scope), local_scope(owner), include_extras=True)["it"]


def from_field(annotation: Any, field: Any) -> tuple[Any, Any]:
    """`x: int = Field(5, ge=1)` as (annotation with the field's facts, default or MISSING)."""
    from pydantic_core import PydanticUndefined

    default = MISSING if field.is_required() else field.get_default(call_default_factory=True)
    bare = copy(field)
    bare.default, bare.default_factory = PydanticUndefined, None
    return Annotated[annotation, bare], default


def unpacked(annotation: Any) -> list[tuple[str, Any, bool]] | None:
    """`**kwargs: Unpack[Options]` as (name, type, whether it is required) of each key; None for another type."""
    import typing

    if getattr(get_origin(annotation), "__name__", getattr(get_origin(annotation), "_name", "")) != "Unpack":
        return None
    (options,) = get_args(annotation)
    hints = typing.get_type_hints(options, include_extras=True)
    return [
        (name, *_required(hint, name in cast("frozenset[str]", options.__required_keys__)))
        for name, hint in hints.items()
    ]


def _required(hint: Any, by_default: bool) -> tuple[Any, bool]:
    """The type without Required and NotRequired around it, and whether it is required.

    Where annotations are postponed, the class itself does not know what they say.
    """
    name = getattr(get_origin(hint), "_name", None)
    return (
        (get_args(hint)[0], name == "Required") if name in ("Required", "NotRequired") else (hint, by_default)
    )


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that the model fills.

    Attributes:
        name: its name in the function and in the schema.
        annotation: the resolved type, Annotated and all.
        default: the default, MISSING where there is none.
        marker: the effect whose target its value is, also from inside Optional or list.
        aliases: further spellings that are accepted, not advertised.
        examples: example values for the schema.
        verbatim: see `Verbatim`.
        unadvertised: see `Unadvertised`.
        optional: it may be left out without a default; the function is then called without it.
    """

    name: str
    annotation: Any
    default: Any = MISSING
    marker: EffectMarker | None = None
    aliases: tuple[str, ...] = ()
    examples: tuple[object, ...] = ()
    verbatim: bool = False
    unadvertised: bool = False
    optional: bool = False

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is MISSING and not self.optional


def aliases_of(parameters: tuple[Parameter, ...], inject: Mapping[str, Any], label: str) -> dict[str, str]:
    """Accepted spelling -> parameter.

    An alias that comes with a marker gives way to a parameter of that name, and is dropped where two
    parameters would claim it; one written with `Alias` must be free.
    """
    names = {p.name for p in parameters} | set(inject)
    explicit: dict[str, str] = {}
    for parameter in parameters:
        for alias in parameter.aliases:
            if alias in names or explicit.get(alias, parameter.name) != parameter.name:
                raise BuildError(f"{label}: alias {alias!r} of parameter {parameter.name!r} is taken already")
            explicit[alias] = parameter.name
    claims: dict[str, list[str]] = {}
    for parameter in parameters:
        for alias in parameter.marker.aliases if parameter.marker else ():
            if alias not in names and alias not in explicit:
                claims.setdefault(alias, []).append(parameter.name)
    return {**{alias: owners[0] for alias, owners in claims.items() if len(owners) == 1}, **explicit}
