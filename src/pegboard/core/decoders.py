"""Decoders: a call's arguments read as a signature asks; the straight way first, and the long one where it fails."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.decode import HALF, HALVES_REPLACED, Decoded, make_decoded, name_arguments, read_object
from pegboard.core.foreign import ForeignSchema
from pegboard.core.jsontext import (
    LONG,
    POINT,
    NotFinite,
    has_duplicate_keys,
    has_lone_surrogate,
    has_overflow,
    has_surrogate,
    loads,
)
from pegboard.core.parameters import Parameter
from pegboard.core.pathtext import control_characters, holds_paths
from pegboard.core.problems import Problem, raise_invalid
from pegboard.core.schema import holds_numbers, is_open_ended, lists_bits, names_in

if TYPE_CHECKING:
    from pegboard.core.typed import TypedSchema


class TypedDecoder:
    """Reads the arguments of a Python function: a strict validation of the text as it stands, which most calls
    pass; else aliases, unknown names, repair and coercion, and the same validation."""

    __slots__ = (
        "_aliases", "_fewest", "_infinite", "_inject", "_name", "_numbers", "_numerals", "_open", "_open_ended", "_parameters", "_paths",
        "_quoted", "_reserved", "_schema", "_slow_only", "_validate",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        built: TypedSchema,
        *,
        aliases: Mapping[str, str],
        inject: Collection[str],
        open_: bool,
    ) -> None:
        """What only a call needs.

        Args:
            name: the tool's name for error texts.
            parameters: what the model fills.
            built: schema and validator of them.
            aliases: accepted spelling -> parameter.
            inject: names that the runtime fills, and a model may not.
            open_: arguments of other names are passed on.
        """
        schema = built.schema
        self._name = name
        self._parameters = parameters
        self._schema = schema
        self._aliases = aliases
        self._inject = inject
        self._open = open_
        self._reserved = frozenset((*inject, *aliases)) if open_ else None
        self._infinite, self._open_ended = built.infinite, is_open_ended(schema)
        numbers = self._open_ended or holds_numbers(schema)
        # Where no number is taken, one that is none is refused like any other.
        self._slow_only = (
            *(("NaN", "Infinity") if numbers else ()),
            *(("true", "false") if lists_bits(schema) else ()),
        )
        self._numerals: Callable[[str], Any] | None = None
        if built.decimals:
            self._numerals = POINT.search
        elif numbers:
            self._numerals = LONG.search
        # Whether a text may hold a number, or a bit in its place, that pydantic takes for another one.
        self._numbers = bool(self._slow_only or self._numerals)
        self._quoted = tuple(f'"{name}"' for name in names_in(schema))
        self._fewest = built.fewest
        self._paths = {
            p.name: p.marker is not None and p.marker.kind == "read" for p in parameters if holds_paths(p)
        }
        self._validate: Callable[..., Any] = built.validator().validate_json

    def decode(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """See Signature."""
        text = arguments if type(arguments) is str else _as_text(arguments)
        if text is None:
            return self.decode_with_repair(arguments)
        if self._numbers:
            for word in self._slow_only:
                if word in text:
                    return self.decode_with_repair(arguments)
            if self._open_ended and has_overflow(text):
                return self.decode_with_repair(arguments)
            if self._numerals is not None and self._numerals(text):
                return self.decode_with_repair(arguments)
        # With as many colons as there must be members, none can stand twice.
        if text.count(":") != self._fewest and self._may_repeat(text) and has_duplicate_keys(text):
            return self.decode_with_repair(arguments)
        try:
            validate = self._validate
            values = validate(text, strict=True)
        except ValueError:
            return self.decode_with_repair(arguments)
        if self._reserved and not self._reserved.isdisjoint(values):
            return self.decode_with_repair(arguments)
        if self._paths and (problems := control_characters(values, self._doubtful(arguments))):
            raise_invalid(problems, name=self._name)
        # What `decoded` does, without its frame.
        made = Decoded()
        made.arguments, made.repairs, made.plain = values, (), text
        return made

    def _may_repeat(self, text: str) -> bool:
        """Whether a member may stand twice in one object, of which pydantic would take the last."""
        # A name can be written with escapes too.
        if "\\u" in text:
            return True
        for key in self._quoted:  # noqa: SIM110  A generator would be most of the cost.
            if text.count(key) > 1:
                return True
        return False

    def _doubtful(self, arguments: Any) -> list[str]:
        """The parameters whose paths may hold control characters by mistake: all that came as JSON text,
        and of a caller's own values those that are changed. What is only read may have any name."""
        return [name for name, read in self._paths.items() if not read or isinstance(arguments, str)]

    def decode_with_repair(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """Aliases, unknown names, repair and coercion; then the same strict validation."""
        from pydantic import ValidationError

        from pegboard.core.coerce import Coercion, rounded
        from pegboard.core.explaining import problems_of

        schema = self._schema
        given, notes = read_object(arguments, name=self._name, infinite=self._infinite, numerals=True)
        names = [p.name for p in self._parameters]
        named, problems = name_arguments(
            given, names, self._aliases, notes, open_=self._open, forbidden=self._inject
        )
        if HALVES_REPLACED in notes:
            problems += self._reject_surrogates(arguments)
        coercion = Coercion(schema, notes, floats=True)
        sent = cast("dict[str, Any]", coercion.coerce(named, schema, ""))
        problems += coercion.bits(sent, schema, "")
        try:
            values = cast("dict[str, Any]", self._validate(json.dumps(sent), strict=True))
            problems += control_characters(values, self._doubtful(arguments))
        except ValidationError as error:
            taken = {p.path for p in problems}
            problems += [p for p in problems_of(error, sent, schema) if p.path not in taken]
            values = {}
        if problems:
            raise_invalid(problems, name=self._name)
        sent = cast("dict[str, Any]", rounded(sent, notes))
        return make_decoded(values, tuple(notes), sent)

    def _reject_surrogates(self, arguments: str | Mapping[str, Any] | None) -> list[Problem]:
        """Half a surrogate pair in a text that is kept as it stands would change silently."""
        given, _ = read_object(arguments, name=self._name, infinite=self._infinite, halves=True)
        names = [p.name for p in self._parameters]
        named, _ = name_arguments(given, names, self._aliases, [], open_=self._open)
        kept = [p.name for p in self._parameters if p.verbatim]
        return [Problem(f".{name}", HALF) for name in kept if has_lone_surrogate(named.get(name))]


class ForeignDecoder:
    """Reads arguments that a JSON Schema from elsewhere describes."""

    __slots__ = ("_aliases", "_foreign", "_name")

    def __init__(self, name: str, foreign: ForeignSchema, aliases: Mapping[str, str]) -> None:
        """`name` is the tool's for error texts, `aliases` leads from accepted spellings to properties."""
        self._name = name
        self._foreign = foreign
        self._aliases = aliases

    def decode(self, arguments: str | Mapping[str, Any] | None) -> Decoded:
        """See Signature."""
        foreign = self._foreign
        text = arguments if type(arguments) is str else _as_text(arguments)
        long = text is not None and LONG.search(text) is not None
        if text is not None and not long and not has_surrogate(text):
            try:
                whole = loads(text)
            except (ValueError, RecursionError, NotFinite):
                whole = None
            if isinstance(whole, dict) and self._fits(cast("dict[str, Any]", whole)):
                return make_decoded(foreign.with_defaults(cast("dict[str, Any]", whole)), (), text)
        given, notes = read_object(arguments, name=self._name)
        named, problems = name_arguments(given, foreign.names, self._aliases, notes, open_=not foreign.closed)
        sent = named
        if long:
            from pegboard.core.coerce import Coercion, rounded

            foreign.check()
            said = cast("Mapping[str, Any]", foreign.said)
            sent = named = rounded(Coercion(said, notes).coerce(named, said, ""), notes)
        if problems or not foreign.accepts(foreign.with_required_defaults(named)):
            from pegboard.core.coerce import Coercion

            said = cast("Mapping[str, Any]", foreign.said)
            sent = cast("dict[str, Any]", Coercion(said, notes).coerce(named, said, ""))
            problems += foreign.errors(foreign.with_required_defaults(sent))
        if problems:
            raise_invalid(problems, name=self._name)
        return make_decoded(copy.deepcopy(foreign.with_defaults(sent)), tuple(notes), sent)

    def _fits(self, given: dict[str, Any]) -> bool:
        foreign = self._foreign
        return (
            self._aliases.keys().isdisjoint(given)
            and not (foreign.closed and any(key not in foreign.names for key in given))
            and foreign.accepts(foreign.with_required_defaults(given))
        )


def _as_text(arguments: str | Mapping[str, Any] | None) -> str | None:
    """A caller's mapping as JSON text, None where plain JSON cannot say it or there are no arguments."""
    if not isinstance(arguments, Mapping):
        return str(arguments) if isinstance(arguments, str) else None
    try:
        return json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        return None
