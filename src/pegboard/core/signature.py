"""Signature: what a tool takes, shown as JSON Schema, and how a call's arguments are decoded."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core import annotations as reading
from pegboard.core.annotations import MISSING, Raw
from pegboard.core.decode import (
    HALF,
    HALVES_REPLACED,
    LONG,
    POINT,
    Decoded,
    NotFinite,
    has_half,
    has_huge,
    has_surrogate,
    is_repeated,
    loads,
    name_arguments,
    read_object,
)
from pegboard.core.docstrings import Documented, read_docstring
from pegboard.core.errors import InvalidArguments
from pegboard.core.foreign import ForeignSchema
from pegboard.core.parameters import Parameter, aliases_of
from pegboard.core.pathtext import control_characters, holds_paths
from pegboard.core.problems import Problem, refuse
from pegboard.core.schema import holds_numbers, is_open_ended, lists_bits, names_in

if TYPE_CHECKING:
    from pegboard.core.output import Output
    from pegboard.core.typed import Built

_NO_NAMES: Final[Mapping[str, Any]] = {}


class Signature:
    """What a tool takes and gives. Immutable; made by `of`, `foreign` or `from_property_map`.

    Making one checks names and annotations only. Schema, validator and docstring are built at the first
    use, or by `check` (decisions 15).

    Attributes:
        name: the tool's name for error texts, may be empty.
        parameters: what the model fills; empty for a foreign schema.
        inject: parameters that the runtime fills -> the port type; absent from the schema.
        optional_inject: those of them that may stay unfilled.
        var_keyword: arguments of other names are passed on.
        aliases: accepted spelling -> parameter name.
    """

    __slots__ = (
        "_built", "_documented", "_foreign", "_function", "_infinite", "_numerals", "_open_ended", "_output", "_paths",
        "_quoted", "_raw", "_reserved", "_schema", "_slow_only", "_validate", "aliases", "inject", "name",
        "optional_inject", "parameters", "var_keyword",
    )  # fmt: skip

    name: str
    parameters: tuple[Parameter, ...]
    inject: Mapping[str, Any]
    optional_inject: frozenset[str]
    var_keyword: bool
    aliases: Mapping[str, str]
    _function: Callable[..., Any] | None
    _raw: Raw | None
    _foreign: ForeignSchema | None
    _documented: Documented | None
    _schema: Mapping[str, Any] | None
    _built: Built | None
    _validate: Callable[..., Any] | None
    _output: Output | None
    _reserved: frozenset[str] | None
    _slow_only: tuple[str, ...]
    _quoted: tuple[str, ...]
    _paths: Mapping[str, bool]
    _infinite: bool
    _open_ended: bool
    _numerals: Callable[[str], Any] | None

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
        raw = reading.raw_of(function, bound=bound, label=label)
        self = cls._blank(label)
        parameters: list[Parameter] = []
        inject: dict[str, Any] = {}
        optional: list[str] = []
        with_aliases = False
        for parameter, annotation, default in raw.parameters:
            resolved = reading.resolve(annotation, default, raw.owner, label=label, name=parameter)
            facts = reading.facts_of(resolved)
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
        self.parameters = tuple(parameters)
        self.inject = inject or _NO_NAMES
        self.optional_inject = frozenset(optional)
        self.var_keyword = raw.var_keyword
        self._function = function
        self._raw = raw
        if with_aliases:
            self.aliases = aliases_of(self.parameters, inject, label)
        if raw.var_keyword:
            self._reserved = frozenset((*inject, *self.aliases))
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
            closed: refuse unknown arguments although the schema does not say so (ledger X-08).
            fill_defaults: give absent properties with a `default` that value (ledger U-12).
            output: the JSON Schema of the result's `data`; None = nothing is declared.
        """
        self = cls._blank(name)
        self._schema = schema or {"type": "object", "properties": {}}
        self._foreign = ForeignSchema(self._schema, name=name, closed=closed, fill_defaults=fill_defaults)
        self._documented = Documented(description=description)
        self.var_keyword = not self._foreign.closed
        self.aliases = dict(aliases or {})
        if output is not None:
            from pegboard.core.output import Output

            self._output = Output(dict(output))
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
        self._documented = self._schema = self._built = self._validate = self._output = self._reserved = None
        self._slow_only = ("NaN", "Infinity")
        self._quoted, self._paths = (), _NO_NAMES
        self._infinite = self._open_ended = False
        self._numerals = None
        return self

    @property
    def documented(self) -> Documented:
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
            from pegboard.core.typed import described

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
    def output(self) -> Output:
        """The declared result (ledger G-13)."""
        if self._output is None:
            from pegboard.core.output import Output

            self._output = Output.of(self._raw, label=self.name)
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

    def _build(self) -> Built:
        from pegboard.core.typed import build

        if self._built is None:
            self._built = build(
                self.parameters,
                open_=self.var_keyword,
                owner=cast("Raw", self._raw).owner,
                label=self.name,
            )
        return self._built

    def _prepare(self) -> Callable[..., Any]:
        """The validator, and what else only a call needs."""
        built = self._build()
        shape = built.schema
        self._infinite, self._open_ended = built.infinite, is_open_ended(shape)
        if built.decimals:
            self._numerals = POINT.search
        elif self._open_ended or holds_numbers(shape):
            self._numerals = LONG.search
        if lists_bits(shape):
            self._slow_only = ("NaN", "Infinity", "true", "false")
        self._quoted = tuple(f'"{name}"' for name in names_in(shape))
        self._paths = {
            p.name: p.marker is not None and p.marker.kind == "read"
            for p in self.parameters
            if holds_paths(p)
        }
        self._validate = built.validator().validate_json
        return self._validate

    def decode(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """The arguments of a call as Python values by parameter name.

        Args:
            arguments: JSON text, an object of JSON values, or nothing.

        Raises:
            InvalidArguments: every problem at once, with its path; `details["errors"]` holds them.
        """
        if self._foreign is not None:
            return self._decode_foreign(arguments, self._foreign)
        validate = self._validate
        if validate is None:
            validate = self._prepare()
        text = arguments if type(arguments) is str else _as_text(arguments)
        if text is None:
            return self._decode_slowly(arguments)
        for word in self._slow_only:
            if word in text:
                return self._decode_slowly(arguments)
        if self._open_ended and has_huge(text):
            return self._decode_slowly(arguments)
        if self._numerals is not None and self._numerals(text):
            return self._decode_slowly(arguments)
        for key in self._quoted:
            # It may stand twice in one object, of which pydantic would take the last.
            if text.count(key) > 1 and is_repeated(text):
                return self._decode_slowly(arguments)
        try:
            values = validate(text, strict=True)
        except ValueError:
            return self._decode_slowly(arguments)
        if self._reserved and not self._reserved.isdisjoint(values):
            return self._decode_slowly(arguments)
        if self._paths and (problems := control_characters(values, self._doubtful(arguments))):
            refuse(problems, name=self.name)
        return Decoded(values, (), text)

    def _doubtful(self, arguments: Any) -> list[str]:
        """The parameters whose paths may hold control characters by mistake: all that came as JSON text,
        and of a caller's own values those that are changed. What is only read may have any name."""
        return [name for name, read in self._paths.items() if not read or isinstance(arguments, str)]

    def _decode_slowly(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """Aliases, unknown names, repair and coercion; then the same strict validation."""
        from pydantic import ValidationError

        from pegboard.core.coerce import Coercion, rounded
        from pegboard.core.explaining import problems_of

        schema = self.shape
        given, notes = read_object(arguments, name=self.name, infinite=self._infinite, numerals=True)
        names = [p.name for p in self.parameters]
        named, problems = name_arguments(
            given, names, self.aliases, notes, open_=self.var_keyword, forbidden=self.inject
        )
        if HALVES_REPLACED in notes:
            problems += self._halves(arguments)
        coercion = Coercion(schema, notes, floats=True)
        sent = cast("dict[str, Any]", coercion.value(named, schema, ""))
        problems += coercion.bits(sent, schema, "")
        validate = cast("Callable[..., Any]", self._validate)
        try:
            values = cast("dict[str, Any]", validate(json.dumps(sent), strict=True))
            problems += control_characters(values, self._doubtful(arguments))
        except ValidationError as error:
            taken = {p.path for p in problems}
            problems += [p for p in problems_of(error, sent, schema) if p.path not in taken]
            values = {}
        if problems:
            refuse(problems, name=self.name)
        sent = cast("dict[str, Any]", rounded(sent, notes))
        return Decoded(values, tuple(notes), sent)

    def _halves(self, arguments: str | Mapping[str, Any] | None) -> list[Problem]:
        """Half a surrogate pair in a text that is kept as it stands would change silently."""
        given, _ = read_object(arguments, name=self.name, infinite=self._infinite, halves=True)
        names = [p.name for p in self.parameters]
        named, _ = name_arguments(given, names, self.aliases, [], open_=self.var_keyword)
        kept = [p.name for p in self.parameters if p.verbatim]
        return [Problem(f".{name}", HALF) for name in kept if has_half(named.get(name))]

    def _decode_foreign(self, arguments: str | Mapping[str, Any] | None, foreign: ForeignSchema) -> Decoded:
        text = arguments if type(arguments) is str else _as_text(arguments)
        long = text is not None and LONG.search(text) is not None
        if text is not None and not long and not has_surrogate(text):
            try:
                whole = loads(text)
            except (ValueError, RecursionError, NotFinite):
                whole = None
            if isinstance(whole, dict) and self._fits(cast("dict[str, Any]", whole), foreign):
                return Decoded(foreign.filled(cast("dict[str, Any]", whole)), (), text)
        given, notes = read_object(arguments, name=self.name)
        named, problems = name_arguments(given, foreign.names, self.aliases, notes, open_=not foreign.closed)
        sent = named
        if long:
            from pegboard.core.coerce import Coercion, rounded

            said = cast("Mapping[str, Any]", foreign.said)
            sent = named = rounded(Coercion(said, notes).value(named, said, ""), notes)
        if problems or not foreign.accepts(foreign.completed(named)):
            from pegboard.core.coerce import Coercion

            said = cast("Mapping[str, Any]", foreign.said)
            sent = cast("dict[str, Any]", Coercion(said, notes).value(named, said, ""))
            problems += foreign.errors(foreign.completed(sent))
        if problems:
            refuse(problems, name=self.name)
        return Decoded(copy.deepcopy(foreign.filled(sent)), tuple(notes), sent)

    def _fits(self, given: dict[str, Any], foreign: ForeignSchema) -> bool:
        return (
            self.aliases.keys().isdisjoint(given)
            and not (foreign.closed and any(key not in foreign.names for key in given))
            and foreign.accepts(foreign.completed(given))
        )

    def errors(self, arguments: str | Mapping[str, Any] | None) -> list[str]:
        """Each thing that does not fit, with its path; empty = valid (ledger N-10, N-13)."""
        try:
            self.decode(arguments)
        except InvalidArguments as error:
            return [str(Problem(e["path"], e["message"])) for e in error.details["errors"]]
        return []

    def __repr__(self) -> str:
        return f"<Signature {self.name}({', '.join(p.name for p in self.parameters)})>"


def _as_text(arguments: str | Mapping[str, Any] | None) -> str | None:
    """A caller's mapping as JSON text, None where plain JSON cannot say it or there are no arguments."""
    if not isinstance(arguments, Mapping):
        return str(arguments) if isinstance(arguments, str) else None
    try:
        return json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        return None
