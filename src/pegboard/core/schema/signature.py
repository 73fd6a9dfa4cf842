"""Signature: what a tool takes, shown as JSON Schema, and how a call's arguments are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core.errors import InvalidArguments
from pegboard.core.schema import annotations as reading
from pegboard.core.schema.annotations import (
    MISSING,
    FunctionParameters,
    Parameter,
    ParsedDocstring,
    aliases_of,
    read_docstring,
)
from pegboard.core.schema.decode import Decoded, ForeignDecoder, TypedDecoder
from pegboard.core.schema.foreign import ForeignSchema
from pegboard.core.schema.problems import Problem

if TYPE_CHECKING:
    from pegboard.core.schema.output import ToolOutput
    from pegboard.core.schema.typed import TypedSchema

_NO_NAMES: Final[Mapping[str, Any]] = {}


class Signature:
    """What a tool takes and gives. Immutable; made by `of`, `foreign` or `from_property_map`.

    Making one checks names and annotations only. Schema, validator and docstring are built at the first
    use, or by `check`.

    Attributes:
        name: the tool's name for error texts, may be empty.
        parameters: what the model fills; empty for a foreign schema.
        inject: parameters that the runtime fills -> the port type; absent from the schema.
        optional_inject: those of them that may stay unfilled.
        var_keyword: arguments of other names are passed on.
        aliases: accepted spelling -> parameter name.
    """

    __slots__ = (
        "_built", "_decoder", "_documented", "_foreign", "_function", "_output", "_raw", "_rest", "_schema", "aliases",
        "inject", "name", "optional_inject", "parameters", "var_keyword",
    )  # fmt: skip

    name: str
    parameters: tuple[Parameter, ...]
    inject: Mapping[str, Any]
    optional_inject: frozenset[str]
    var_keyword: bool
    aliases: Mapping[str, str]
    _function: Callable[..., Any] | None
    _raw: FunctionParameters | None
    _rest: Any
    _foreign: ForeignSchema | None
    _documented: ParsedDocstring | None
    _schema: Mapping[str, Any] | None
    _built: TypedSchema | None
    _output: ToolOutput | None
    _decoder: TypedDecoder | ForeignDecoder | None

    @classmethod
    def of(cls, function: Callable[..., Any], *, bound: bool = False, name: str | None = None) -> Signature:
        """The signature of a function, bound method, callable object or `functools.partial`.

        Args:
            function: sync or async; it is called with keyword arguments.
            bound: skip the first parameter (`self` of a function taken from its class).
            name: the tool's name for error texts, else the function's.

        Raises:
            BuildError: `*args`, a positional-only parameter, an annotation that cannot be resolved,
                or two parameters that claim one alias.
        """
        label = name or cast("str", getattr(function, "__name__", "")) or type(function).__name__
        raw = reading.read_parameters(function, bound=bound, label=label)
        self = cls._blank(label)
        parameters: list[Parameter] = []
        inject: dict[str, Any] = {}
        optional: list[str] = []
        with_aliases = False
        for parameter, annotation, default in raw.parameters:
            resolved = reading.resolve(annotation, default, raw.owner, label=label, name=parameter)
            facts = reading.read_metadata(resolved)
            if facts.inject is not MISSING:
                inject[parameter] = facts.inject
                if facts.optional or default is not MISSING:
                    optional.append(parameter)
                continue
            if type(default).__name__ == "FieldInfo":
                resolved, default = reading.from_field(resolved, default)
            marker, aliases = facts.marker, facts.aliases
            with_aliases = with_aliases or bool(aliases) or (marker is not None and bool(marker.aliases))
            parameters.append(
                Parameter(
                    parameter,
                    resolved,
                    default,
                    marker,
                    aliases,
                    facts.examples,
                    facts.verbatim,
                    facts.unadvertised,
                )
            )
        self.var_keyword = raw.var_keyword
        if raw.rest is not MISSING:
            rest = reading.resolve(raw.rest, MISSING, raw.owner, label=label, name="**")
            keys = reading.unpacked(rest)
            if keys is None:
                self._rest = MISSING if rest in (Any, object) else rest
            else:
                self.var_keyword = False
                parameters += [Parameter(key, kind, optional=not needed) for key, kind, needed in keys]
        self.parameters = tuple(parameters)
        self.inject = inject or _NO_NAMES
        self.optional_inject = frozenset(optional)
        self._function = function
        self._raw = raw
        if with_aliases:
            self.aliases = aliases_of(self.parameters, inject, label)
        return self

    @classmethod
    def foreign(
        cls,
        schema: Mapping[str, Any] | None,
        *,
        description: str = "",
        name: str = "",
        aliases: Mapping[str, str] | None = None,
        closed: bool = False,
        fill_defaults: bool = True,
        output: Mapping[str, Any] | None = None,
    ) -> Signature:
        """The signature of a schema from elsewhere: MCP, OpenAPI, a hand-written Tool.

        Args:
            schema: a JSON Schema, passed on unchanged; None or empty means no parameters.
            description: what the model reads about the tool.
            name: the tool's name for error texts.
            aliases: accepted spelling -> property.
            closed: refuse unknown arguments although the schema does not say so.
            fill_defaults: give absent properties with a `default` that value.
            output: the JSON Schema of the result's `data`; None = nothing is declared.
        """
        self = cls._blank(name)
        self._schema = schema or {"type": "object", "properties": {}}
        self._foreign = ForeignSchema(self._schema, name=name, closed=closed, fill_defaults=fill_defaults)
        self._documented = ParsedDocstring(description=description)
        self.var_keyword = not self._foreign.closed
        self.aliases = dict(aliases or {})
        if output is not None:
            from pegboard.core.schema.output import ToolOutput

            self._output = ToolOutput(dict(output))
        return self

    @classmethod
    def _blank(cls, name: str) -> Signature:
        self = cls.__new__(cls)
        self.name = name
        self.parameters = ()
        self.inject = self.aliases = _NO_NAMES
        self.optional_inject = frozenset()
        self.var_keyword = False
        self._function = self._raw = self._foreign = None
        self._rest = MISSING
        self._documented = self._schema = self._built = self._output = self._decoder = None
        return self

    @property
    def documented(self) -> ParsedDocstring:
        """The parsed docstring."""
        if self._documented is None:
            function = cast("Any", self._function)
            function = getattr(function, "func", function)  # a partial's own text is about partial
            doc = getattr(function, "__doc__", None)
            if not hasattr(function, "__name__"):  # an object: how it is called says more than what it is
                doc = type(function).__call__.__doc__ or doc
            self._documented = read_docstring(doc)
        return self._documented

    @property
    def description(self) -> str:
        """What the model reads about the tool: the docstring up to its first section."""
        return self.documented.description

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema 2020-12 of the arguments; not to be changed.

        Raises:
            BuildError: a type that JSON cannot say.
        """
        if self._schema is None:
            from pegboard.core.schema.typed import described

            self._schema = described(self._build().shown, self.parameters, self.documented.parameters)
        return self._schema

    @property
    def shape(self) -> Mapping[str, Any]:
        """The schema without what the docstring says of each parameter, and with those that are not shown; all that
        decoding needs.

        Apart from `schema`, because a call needs no words and reading a docstring costs more than a call.
        """
        if self._foreign is not None:
            return self.schema
        return self._build().schema

    @property
    def output(self) -> ToolOutput:
        """The declared result."""
        if self._output is None:
            from pegboard.core.schema.output import ToolOutput

            self._output = ToolOutput.of(self._raw, label=self.name)
        return self._output

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the declared result, None where it is text or says nothing."""
        return self.output.schema

    def check(self) -> None:
        """Build everything now.

        Raises:
            BuildError: the schema or a type of it cannot be built.
        """
        if self._foreign is not None:
            self._foreign.check_root()
        else:
            _ = self.schema, self.output.schema

    def _build(self) -> TypedSchema:
        from pegboard.core.schema.typed import build

        if self._built is None:
            self._built = build(
                self.parameters,
                open_=self.var_keyword,
                rest=self._rest,
                owner=cast("FunctionParameters", self._raw).owner,
                label=self.name,
            )
        return self._built

    def decode(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """The arguments of a call as Python values by parameter name.

        Args:
            arguments: JSON text, an object of JSON values, or nothing.

        Raises:
            InvalidArguments: every problem at once, with its path; `details["errors"]` holds them.
        """
        return self.reader()(arguments)

    def reader(self) -> Callable[[str | Mapping[str, Any] | None], Decoded]:
        """What `decode` does, made ready: for whoever decodes many calls.

        Raises:
            BuildError: a type that JSON cannot say.
        """
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = self._decoding()
        return decoder.decode

    def _decoding(self) -> TypedDecoder | ForeignDecoder:
        if self._foreign is not None:
            return ForeignDecoder(self.name, self._foreign, self.aliases)
        return TypedDecoder(
            self.name,
            self.parameters,
            self._build(),
            aliases=self.aliases,
            inject=self.inject,
            open_=self.var_keyword,
        )

    def errors(self, arguments: str | Mapping[str, Any] | None) -> list[str]:
        """Each thing that does not fit, with its path; empty = valid."""
        try:
            self.decode(arguments)
        except InvalidArguments as error:
            return [str(Problem(e["path"], e["message"])) for e in error.details["errors"]]
        return []

    def __repr__(self) -> str:
        return f"<Signature {self.name}({', '.join(p.name for p in self.parameters)})>"
