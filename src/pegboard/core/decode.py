"""Decoding: from what a model sent to arguments by name, with every error at once (ledger N-10..N-13, X-08)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, cast

from pegboard.core.problems import Problem, refuse, shown

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE: Final = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
_HUGE: Final = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
_MAX_ENCODINGS: Final = 3


class Decoded:
    """Arguments that fit.

    Attributes:
        arguments: decoded Python values by parameter name, defaults filled in.
        repairs: what had to be repaired to read them, one sentence each.
    """

    __slots__ = ("_sent", "arguments", "repairs")

    def __init__(
        self, arguments: dict[str, Any], repairs: tuple[str, ...], sent: str | Mapping[str, Any]
    ) -> None:
        self.arguments = arguments
        self.repairs = repairs
        self._sent = sent

    @property
    def sent(self) -> Mapping[str, Any]:
        """The arguments as JSON-able values after aliases and repair, without the defaults."""
        sent = self._sent
        if isinstance(sent, str):
            # Most calls are never shown to anyone, so the text is parsed only when asked for.
            sent = self._sent = cast("dict[str, Any]", json.loads(sent))
        return sent

    def __repr__(self) -> str:
        return f"Decoded(arguments={self.arguments!r}, repairs={self.repairs!r})"


class NotFinite(Exception):
    """NaN, Infinity or a number beyond the range stands in the text."""


def has_surrogate(text: str) -> bool:
    """Whether half a surrogate pair may stand in some JSON text, plain or escaped."""
    return _MAYBE_SURROGATE.search(text) is not None


def loads(text: str) -> Any:
    """`json.loads` without what is no JSON: NaN, Infinity, and 1e999, which Python takes for infinity.

    Raises:
        NotFinite, ValueError, RecursionError.
    """
    if _HUGE.search(text):
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> NoReturn:
    raise NotFinite(constant)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise NotFinite(text)
    return number


def read_object(arguments: str | Mapping[str, Any] | None, *, name: str) -> tuple[dict[str, Any], list[str]]:
    """The arguments as an object of JSON values, and what was repaired on the way.

    Raises:
        InvalidArguments: no object, cut off, not JSON, nested too deeply, or not a finite number.
    """
    notes: list[str] = []
    try:
        value = _decoded(arguments, notes, name)
        if isinstance(value, dict):
            return _without_surrogates(cast("dict[str, Any]", value), notes), notes
    except NotFinite as error:
        refuse([Problem("", f"{error} is no JSON value; give a finite number or leave it out")], name=name)
    except RecursionError:
        refuse([Problem("", "they are nested too deeply")], name=name)
    refuse(
        [Problem("", f"they must be one JSON object with the parameters by name, got {shown(value)}")],
        name=name,
    )


def _decoded(arguments: str | Mapping[str, Any] | None, notes: list[str], name: str) -> Any:
    """The arguments decoded as often as they were encoded; nothing is an empty object."""
    value: Any = _as_json(arguments, name) if isinstance(arguments, Mapping) else arguments
    for _ in range(_MAX_ENCODINGS):
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}
        if not isinstance(value, str):
            break
        inner = _read_text(value, notes, name)
        if isinstance(inner, str) and "{" in inner:
            notes.append("The arguments were encoded twice and decoded twice.")
        elif isinstance(inner, str):
            return inner
        value = inner
    return {} if value is None else value


def _read_text(text: str, notes: list[str], name: str) -> Any:
    """One decoding of JSON text, repaired where its meaning is plain."""
    try:
        return loads(text)
    except ValueError as error:
        problem = error
    from pegboard.core.repair import Unrepairable, repair_json

    try:
        repaired = repair_json(text)
    except Unrepairable:
        repaired = None
    if repaired is not None and repaired.truncated:
        refuse(
            [Problem("", f"they were cut off after {len(text)} characters, at {shown(text[-24:])}")],
            name=name,
            hint="Nothing was run. Send the call again whole; if it is long, split it into smaller pieces.",
        )
    if repaired is None or repaired.guessed:
        where = (
            f"line {problem.lineno} column {problem.colno}, "
            if isinstance(problem, json.JSONDecodeError)
            else ""
        )
        near = _near(text, problem)
        refuse([Problem("", f"they are not valid JSON ({where}near {near})")], name=name)
    notes += repaired.notes
    return repaired.value


def _near(text: str, problem: ValueError) -> str:
    position = problem.pos if isinstance(problem, json.JSONDecodeError) else 0
    return shown(text[max(0, position - 12) : position + 12])


def _as_json(arguments: Mapping[str, Any], name: str) -> Any:
    """A caller's mapping as JSON values; dates, paths and models as their JSON form."""
    try:
        return _through_json(arguments)
    except (TypeError, ValueError) as error:
        refuse([Problem("", f"they cannot be said in JSON: {error}")], name=name)


def _through_json(arguments: Mapping[str, Any]) -> Any:
    try:
        return loads(json.dumps(arguments))
    except (TypeError, ValueError):
        from pydantic_core import to_jsonable_python

        return loads(json.dumps(to_jsonable_python(arguments, inf_nan_mode="constants")))


def _without_surrogates(value: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The same with each lone surrogate as U+FFFD (case args-34); untouched where there is none."""
    text = json.dumps(value, ensure_ascii=False)
    if not _SURROGATE.search(text):
        return value
    notes.append("A half of a surrogate pair is no character and was replaced by U+FFFD.")
    return cast("dict[str, Any]", json.loads(_SURROGATE.sub("\ufffd", text)))


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

    Args:
        given: as sent.
        names: the parameters' names.
        aliases: accepted spelling -> parameter.
        notes: receives a sentence for each alias that was used.
        open_: other names are passed on.
        forbidden: names that are never passed on (injected parameters).
    """
    known = list(names)
    out: dict[str, Any] = {k: v for k, v in given.items() if k in known}
    problems: list[Problem] = []
    barred = frozenset(forbidden)
    for key, value in given.items():
        if key in out:
            continue
        target = aliases.get(key)
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
            problems.append(Problem(f".{key}", _unknown(key, known, aliases)))
    return out, problems


def _unknown(key: str, known: list[str], aliases: Mapping[str, str]) -> str:
    if not known:
        return "unknown argument; this tool takes none"
    import difflib

    folded = {_fold(n): n for n in (*aliases, *known)}
    near = difflib.get_close_matches(_fold(key), folded, n=1, cutoff=0.6)
    if near:
        found = folded[near[0]]
        return f"unknown argument; did you mean {aliases.get(found, found)!r}?"
    return f"unknown argument; the parameters are {', '.join(known[:12])}"


def _fold(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
