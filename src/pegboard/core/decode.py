"""Decoding: from what a model sent to arguments by name, with every error at once (ledger N-10..N-13, X-08)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pegboard.core.clipping import clip
from pegboard.core.jsontext import SURROGATE, DuplicateKeyError, NotFinite, loads
from pegboard.core.numerals import exact
from pegboard.core.problems import Problem, format_json, raise_invalid

HALVES_REPLACED: Final = "A half of a surrogate pair is no character and was replaced by U+FFFD."
HALF: Final = (
    "holds half of a surrogate pair, which is no character and cannot be kept; send the whole character "
    "(in JSON U+1F600 is \\ud83d\\ude00)"
)
"""What is wrong with such a half where the text is kept as it stands."""

_DIGITS: Final = 4300
_MAX_ENCODINGS: Final = 3
MAX_NEAREST: Final = 50
LONGEST_NAME: Final = 200
"""Characters of a name that the nearest one is looked for; longer ones are no slip."""


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
    from pegboard.core.repair import Unrepairable, repair_json

    try:
        repaired = repair_json(text)
    except Unrepairable:
        repaired = None
    if repaired is not None and repaired.truncated and not _seems_whole(text):
        raise_invalid(
            [
                Problem(
                    "", f"they were cut off after {len(text)} characters, at {format_json(clip(text, -24))}"
                )
            ],
            name=name,
            hint="Nothing was run. Send the call again whole; if it is long, split it into smaller pieces.",
        )
    if repaired is None or repaired.guessed or repaired.truncated:
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
    notes += repaired.notes
    return repaired.value


def _seems_whole(text: str) -> bool:
    """Whether a text closes all that it opens: it was not cut off, whatever else is wrong with it."""
    closed = text.rstrip()[-1:] in ("}", "]", "`")
    return closed and text.count("{") <= text.count("}") and text.count("[") <= text.count("]")


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
    """The same with each lone surrogate as U+FFFD (case args-34); untouched where there is none."""
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
    """The arguments under their parameters' names; unknown ones become problems (ledger X-08).

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
    """The arguments without an object around them that some models add (ledger K-05).

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


def unknown_name(key: str, known: list[str], aliases: Mapping[str, str]) -> str:
    """What to say of a name that is none of the known ones: the nearest, or which there are."""
    if not known:
        return "unknown argument; this tool takes none"
    import difflib

    folded = {fold(n): n for n in (*aliases, *known)}
    near = difflib.get_close_matches(fold(key), folded, n=1, cutoff=0.6) if len(key) <= LONGEST_NAME else []
    if near:
        found = folded[near[0]]
        return f"unknown argument; did you mean {aliases.get(found, found)!r}?"
    return f"unknown argument; the parameters are {', '.join(known[:12])}"


def by_folded_name(known: Iterable[str], aliases: Mapping[str, str] | None = None) -> dict[str, str]:
    """The known name for each folded spelling of one, or of an alias; without those that several share."""
    meant: dict[str, set[str]] = {}
    for name in known:
        meant.setdefault(fold(name), set()).add(name)
    for alias, name in (aliases or {}).items():
        meant.setdefault(fold(alias), set()).add(name)
    return {folded: names.pop() for folded, names in meant.items() if len(names) == 1}


def fold(name: str) -> str:
    """A name without its notation: the same for `maxChars`, `max-chars` and `max_chars`."""
    return name.lower().replace("_", "").replace("-", "")
