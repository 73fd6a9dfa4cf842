"""Decoders: a call's arguments read as a signature asks; the straight way first, and the long one where it fails."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pegboard.core.effects import PATH_KINDS
from pegboard.core.schema.annotations import Parameter, unwrap
from pegboard.core.schema.foreign import ForeignSchema
from pegboard.core.schema.json_schema import holds_numbers, is_open_ended, lists_bits, names_in
from pegboard.core.schema.json_text import (
    LONG,
    POINT,
    SURROGATE,
    DuplicateKeyError,
    NotFinite,
    has_duplicate_keys,
    has_lone_surrogate,
    has_overflow,
    has_surrogate,
    loads,
)
from pegboard.core.schema.numerals import exact
from pegboard.core.schema.problems import (
    MAX_NEAREST,
    Problem,
    by_folded_name,
    fold,
    format_json,
    raise_invalid,
    unknown_name,
)
from pegboard.core.secrets.clip import clip

if TYPE_CHECKING:
    from pegboard.core.schema.typed import TypedSchema

_PATH_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def holds_paths(parameter: Parameter) -> bool:
    """Whether a parameter's values are paths, by its marker or its type."""
    if parameter.marker is not None:
        return parameter.marker.kind in PATH_KINDS
    kind = unwrap(parameter.annotation)[0]
    if not isinstance(kind, type) or kind.__module__ == "builtins":
        return False
    # Here and not above: most tools know no path type, and the module is slow to load.
    from pathlib import PurePath

    return issubclass(kind, PurePath)


def control_characters(values: Mapping[str, Any], names: Iterable[str]) -> list[Problem]:
    """The paths that hold control characters.

    In JSON `"C:\\new"` is a drive, a colon, a line break and `ew`: valid, and not what was meant. A path
    with a line break in it is rare enough to be asked for again.

    Args:
        values: decoded arguments.
        names: the parameters that hold paths, or lists or maps of them.
    """
    return [p for name in names if name in values for p in _in(values[name], f".{name}")]


def _in(value: Any, path: str) -> list[Problem]:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return [p for key, item in items for p in _in(item, f"{path}.{key}")]
    if isinstance(value, list | tuple | set | frozenset):
        several = cast("Iterable[Any]", value)
        return [p for index, item in enumerate(several) for p in _in(item, f"{path}[{index}]")]
    return [] if value is None else _in_text(str(value), path)


def _in_text(text: str, path: str) -> list[Problem]:
    found = _PATH_CONTROL.search(text)
    if found is None:
        return []
    meant = _PATH_CONTROL.sub(lambda m: _ESCAPES.get(m[0], m[0]), text)
    words = f"holds the control character U+{ord(found[0]):04X}"
    if not _PATH_CONTROL.search(meant):
        words += f"; a backslash is written twice in JSON: {format_json(meant, 200)}"
    return [Problem(path, f"{words}, got {format_json(text)}")]


HALVES_REPLACED: Final = "A half of a surrogate pair is no character and was replaced by U+FFFD."
HALF: Final = (
    "holds half of a surrogate pair, which is no character and cannot be kept; send the whole character "
    "(in JSON U+1F600 is \\ud83d\\ude00)"
)
"""What is wrong with such a half where the text is kept as it stands."""

_DIGITS: Final = 4300
_MAX_ENCODINGS: Final = 3


class Decoded(Mapping[str, Any]):
    """Arguments that fit; as a mapping, what was sent, which is what events show of them.

    Attributes:
        arguments: decoded Python values by parameter name, defaults filled in.
        repairs: what had to be repaired to read them, one sentence each.
        plain: what `sent` is, or the JSON text that it is read from.
    """

    __slots__ = ("arguments", "plain", "repairs")

    arguments: dict[str, Any]
    repairs: tuple[str, ...]
    plain: str | Mapping[str, Any]

    @property
    def sent(self) -> Mapping[str, Any]:
        """The arguments as JSON-able values after aliases and repair, without the defaults."""
        sent = self.plain
        if isinstance(sent, str):
            # Most calls are never shown to anyone, so the text is parsed only when asked for.
            sent = self.plain = cast("dict[str, Any]", json.loads(sent, parse_float=exact))
        return sent

    def __getitem__(self, key: str) -> Any:
        return self.sent[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sent)

    def __len__(self) -> int:
        return len(self.sent)

    def __repr__(self) -> str:
        return f"Decoded(arguments={self.arguments!r}, repairs={self.repairs!r})"


def make_decoded(
    arguments: dict[str, Any], repairs: tuple[str, ...], sent: str | Mapping[str, Any]
) -> Decoded:
    """Arguments that fit; see Decoded. A function, as an `__init__` would cost as much again, for every call."""
    made = Decoded()
    made.arguments, made.repairs, made.plain = arguments, repairs, sent
    return made


def read_object(
    arguments: str | Mapping[str, Any] | None,
    *,
    name: str,
    infinite: bool = False,
    halves: bool = False,
    numerals: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """The arguments as an object of JSON values, and what was repaired on the way.

    Args:
        arguments: as sent.
        name: the tool's name for error texts.
        infinite: some parameter declares that it takes infinity or NaN, and the validator knows which.
        halves: leave half a surrogate pair in a value; whoever decodes it next sees to it.
        numerals: see `loads`.

    Raises:
        InvalidArguments: no object, cut off, not JSON, nested too deeply, or not a finite number.
    """
    notes: list[str] = []
    try:
        value = _decoded(arguments, notes, name, _Reading(infinite, numerals))
        if isinstance(value, dict):
            given = cast("dict[str, Any]", value)
            return (given if halves else _without_surrogates(given, notes)), notes
    except NotFinite as error:
        raise_invalid(error.problems, name=name)
    except DuplicateKeyError as error:
        key = format_json(error.args[0])
        raise_invalid(
            [Problem("", f"the key {key} is given twice with different values; give it once")], name=name
        )
    except RecursionError:
        raise_invalid([Problem("", "they are nested too deeply")], name=name)
    raise_invalid(
        [Problem("", f"they must be one JSON object with the parameters by name, got {format_json(value)}")],
        name=name,
    )


class _Reading(NamedTuple):
    """How text is read; see `loads`."""

    infinite: bool
    numerals: bool

    def __call__(self, text: str) -> Any:
        return loads(text, infinite=self.infinite, numerals=self.numerals)


def _decoded(arguments: str | Mapping[str, Any] | None, notes: list[str], name: str, read: _Reading) -> Any:
    """The arguments decoded as often as they were encoded; nothing is an empty object."""
    value: Any = _as_json(arguments, name, read) if isinstance(arguments, Mapping) else arguments
    for _ in range(_MAX_ENCODINGS):
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}
        if not isinstance(value, str):
            break
        inner = _read_text(value, notes, name, read)
        if isinstance(inner, str) and "{" in inner:
            notes.append("The arguments were encoded twice and decoded twice.")
        elif isinstance(inner, str):
            return inner
        value = inner
    return {} if value is None else value


def _read_text(text: str, notes: list[str], name: str, read: _Reading) -> Any:
    """One decoding of JSON text, repaired where its meaning is plain."""
    try:
        return read(text)
    except DuplicateKeyError:
        raise
    except json.JSONDecodeError as error:
        problem = error
    except ValueError:  # Python reads whole numbers up to a limit
        raise_invalid([Problem("", f"a whole number in them has more than {_DIGITS} digits")], name=name)
    from pegboard.core.schema.repair import Malformed, repair_json

    try:
        repaired = repair_json(text, read)
    except Malformed as error:
        malformed = error
    else:
        notes += repaired.notes
        return repaired.value
    if malformed.truncated:
        raise_invalid(
            [
                Problem(
                    "", f"they were cut off after {len(text)} characters, at {format_json(clip(text, -24))}"
                )
            ],
            name=name,
            hint="Nothing was run. Send the call again whole; if it is long, split it into smaller pieces.",
        )
    where = f"line {problem.lineno} column {problem.colno}"
    near = format_json(clip(text, max(0, problem.pos - 12), problem.pos + 12))
    escape = "escape" in problem.msg
    raise_invalid(
        [Problem("", f"they are not valid JSON ({where}, near {near})")],
        name=name,
        hint=r"Nothing was run. In JSON a backslash is written \\. Correct this and call again."
        if escape
        else "",
    )


def _as_json(arguments: Mapping[str, Any], name: str, read: _Reading) -> Any:
    """A caller's mapping as JSON values; dates, paths and models as their JSON form."""
    try:
        return _through_json(arguments, read)
    except (TypeError, ValueError) as error:
        raise_invalid([Problem("", f"they cannot be said in JSON: {error}")], name=name)


def _through_json(arguments: Mapping[str, Any], read: _Reading) -> Any:
    try:
        return read(json.dumps(arguments))
    except (TypeError, ValueError):
        from pydantic_core import to_jsonable_python

        return read(json.dumps(to_jsonable_python(arguments, inf_nan_mode="constants")))


def _without_surrogates(value: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The same with each lone surrogate as U+FFFD; untouched where there is none."""
    text = json.dumps(value, ensure_ascii=False)
    if not SURROGATE.search(text):
        return value
    notes.append(HALVES_REPLACED)
    return cast("dict[str, Any]", _whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_whole(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def name_arguments(
    given: Mapping[str, Any],
    names: Iterable[str],
    aliases: Mapping[str, str],
    notes: list[str],
    *,
    open_: bool,
    forbidden: Iterable[str] = (),
) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments under their parameters' names; unknown ones become problems.

    A name that differs from one single parameter only in case and in how its words are joined (`maxChars`,
    `max-chars`) is that parameter's, unless other names are passed on.

    Args:
        given: as sent.
        names: the parameters' names.
        aliases: accepted spelling -> parameter.
        notes: receives a sentence for each alias that was used.
        open_: other names are passed on.
        forbidden: names that are never passed on (injected parameters).
    """
    known = list(names)
    given = _unwrapped(given, known, notes, open_=open_)
    out: dict[str, Any] = {k: v for k, v in given.items() if k in known}
    problems: list[Problem] = []
    barred = frozenset(forbidden)
    # Once, as there may be very many unknown names.
    words = {} if open_ or len(out) == len(given) else by_folded_name(known, aliases)
    for key, value in given.items():
        if key in out:
            continue
        target = aliases.get(key) or words.get(fold(key))
        if target is not None and key not in barred:
            if target not in out:
                out[target] = value
                notes.append(f".{key}: taken as {target!r}.")
            elif out[target] != value:
                problems.append(
                    Problem(f".{key}", f"means the same as {target!r}, which was given another value")
                )
        elif open_ and key not in barred:
            out[key] = value
        else:
            # A search for each of very many would take seconds, and nobody is shown them all.
            few = len(problems) < MAX_NEAREST
            problems.append(
                Problem(f".{key}", unknown_name(key, known, aliases) if few else "unknown argument")
            )
    return out, problems


def _unwrapped(
    given: Mapping[str, Any], known: list[str], notes: list[str], *, open_: bool
) -> Mapping[str, Any]:
    """The arguments without an object around them that some models add.

    Only where nothing else can be meant: its one key is a word for arguments and no parameter.
    """
    if open_ or len(given) != 1:
        return given
    ((key, inner),) = given.items()
    if key not in _WRAPPERS or key in known or not isinstance(inner, dict):
        return given
    notes.append(f"The arguments stood inside {key!r} and were taken out.")
    return cast("dict[str, Any]", inner)


_WRAPPERS: Final = frozenset({"arguments", "args", "parameters", "params", "input", "kwargs", "tool_input"})


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

        from pegboard.core.schema.coerce import Coercion, rounded
        from pegboard.core.schema.typed import problems_of

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
            from pegboard.core.schema.coerce import Coercion, rounded

            foreign.check()
            said = cast("Mapping[str, Any]", foreign.said)
            sent = named = rounded(Coercion(said, notes).coerce(named, said, ""), notes)
        if problems or not foreign.accepts(foreign.with_required_defaults(named)):
            from pegboard.core.schema.coerce import Coercion

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
