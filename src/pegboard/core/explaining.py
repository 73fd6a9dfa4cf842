"""Explaining: what a failed validation by pydantic says, in words for a model (ledger N-13, X-21)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pegboard.core.branches import BranchError, closest_branch, closest_branch_note
from pegboard.core.decode import unknown_name
from pegboard.core.problems import Problem, chosen_from, format_json
from pegboard.core.schema import fields_at

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_Steps = tuple[int | str, ...]


class _Item(NamedTuple):
    """One error of pydantic.

    Attributes:
        kind: its type, as pydantic calls it.
        steps: where it is, in the value.
        labels: what pydantic puts between, a union's branches above all: (how many steps lead there, name).
        text: what it says.
        received: the value there.
    """

    kind: str
    steps: _Steps
    labels: tuple[tuple[int, str], ...]
    text: str
    received: Any


def problems_of(error: ValidationError, value: Any, schema: Mapping[str, Any]) -> list[Problem]:
    """What a failed validation says, one problem a path; of a union's branches the nearest alone.

    Args:
        error: of pydantic.
        value: what was validated.
        schema: its JSON Schema, for the names that an unknown one may have meant.
    """
    counts: dict[_Steps, int] = {}
    items = [_item(e, value) for e in error.errors(include_url=False)]
    by_path: dict[str, list[str]] = {}
    received: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for item in _of_nearest_branches(items, counts, 0):
        path = _path(item.steps)
        if item.kind in _UNKNOWN:
            unknown[path] = _unknown(str(item.steps[-1]), fields_at(schema, item.steps[:-1]))
            continue
        words = by_path.setdefault(path, [])
        if item.text not in words:
            words.append(item.text)
        received[path] = item.received
    return [
        *(Problem(_path(steps), closest_branch_note(count)) for steps, count in counts.items()),
        *(Problem(path, _message(words, received[path])) for path, words in by_path.items()),
        *(Problem(path, text) for path, text in unknown.items()),
    ]


_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")
_CHOICES: Final = ("literal_error", "enum")
_QUOTED: Final = re.compile(r"'(.*?)'(?=, | or |\Z)")


def _item(detail: ErrorDetails, value: Any) -> _Item:
    kind = detail["type"]
    steps, labels = _steps(detail["loc"], value, absent=kind == "missing")
    received = detail["input"]
    context = detail.get("ctx") or {}
    tag = str(context.get("discriminator", "")).strip("'")
    if (
        kind in ("union_tag_invalid", "union_tag_not_found")
        and isinstance(received, dict)
        and tag.isidentifier()
    ):
        if kind == "union_tag_not_found":
            return _Item("missing", (*steps, tag), labels, _WORDS["missing"], None)
        # pydantic tells it of the whole object; the fault is that of one field.
        allowed = f"must be {str(context['expected_tags']).replace(', ', ' or ')}"
        return _Item(
            "literal_error", (*steps, tag), labels, allowed, cast("dict[str, Any]", received).get(tag)
        )
    text = _WORDS.get(kind) or _own_words(detail["msg"]).replace(" or None", " or null")
    if kind in _CHOICES:
        bare = text.removeprefix("must be ")
        text = f"must be {chosen_from(_QUOTED.findall(bare) or bare.split(', '), received, bare)}"
    return _Item(kind, steps, labels, text, received)


def _of_nearest_branches(items: Iterable[_Item], counts: dict[_Steps, int], level: int) -> list[_Item]:
    """The errors without those of a union's other branches; `counts` receives how many branches there were."""
    out: list[_Item] = []
    unions: dict[_Steps, dict[str, list[_Item]]] = {}
    for item in items:
        if len(item.labels) <= level:
            out.append(item)
            continue
        length, label = item.labels[level]
        unions.setdefault(item.steps[:length], {}).setdefault(label, []).append(item)
    for base, branches in unions.items():
        groups = list(branches.values())
        index = closest_branch(
            base, [[BranchError(i.steps, i.kind in _CHOICES) for i in group] for group in groups]
        )
        kept = [i for group in groups for i in group] if index is None else groups[index]
        if index is not None and len(groups) > 1:
            counts[base] = len(groups)
            missed = {i.steps for i in kept if i.kind in _CHOICES}
            # What the other branches list there is what may be chosen.
            kept = [*kept, *(i for g in groups for i in g if i.steps in missed and i.kind in _CHOICES)]
        out += _of_nearest_branches(kept, counts, level + 1)
    return out


def _path(steps: Iterable[int | str]) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)


def _unknown(key: str, known: list[str]) -> str:
    if not known:
        return "is no field of this object"
    return "does not go with the others" if key in known else unknown_name(key, known, {})


_WORDS: Final[dict[str, str]] = {
    "missing": "is required but missing",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "set_type": "must be an array",
    "frozen_set_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "none_required": "must be null",
}


def _own_words(message: str) -> str:
    for before, after in (
        ("Input should be ", "must be "),
        ("Value error, ", ""),
        ("Assertion failed, ", ""),
    ):
        if message.startswith(before):
            return after + message[len(before) :]
    # `String should have at most …`, `Tuple should …`: the thing is named by its path already.
    return re.sub(r"^[A-Z][a-z]+ should ", "must ", message).replace(" after validation, not", ", not")


def _message(words: list[str], value: Any) -> str:
    if words == ["is required but missing"]:
        return words[0]
    text = words[0] + "".join(f" or {w.removeprefix('must be ')}" for w in words[1:])
    if value is None:
        return f"is required and may not be null; it {text}"
    return f"{text}, got {format_json(value)}"


def _steps(
    location: tuple[int | str, ...], value: Any, *, absent: bool
) -> tuple[_Steps, tuple[tuple[int, str], ...]]:
    """Where an error is in the value, and the names of union branches and functions that pydantic puts in between."""
    steps: list[int | str] = []
    labels: list[tuple[int, str]] = []
    here = value
    for index, step in enumerate(location):
        if isinstance(here, dict) and step in here:
            here = cast("dict[Any, Any]", here)[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(cast("list[Any]", here)):
            here = cast("list[Any]", here)[step]
        elif not (absent and index == len(location) - 1):
            labels.append((len(steps), str(step)))
            continue
        steps.append(step)
    return tuple(steps), tuple(labels)
