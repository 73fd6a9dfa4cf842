"""Checks by calls: errors, results, scripts, lengths, deadlines, cancellation, repetition, random arguments."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.errors import InvalidArguments
from pegboard.core.result import MAX_CHARS, ToolResult
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import Tool, ToolLimits
from pegboard.core.toolkit import Toolkit
from pegboard.runtime.checks.samples import UNICODE, arguments
from pegboard.runtime.checks.subject import Outcome, Subject

FUZZ: Final = 60
"""Random argument objects of one tool."""
FUZZ_RUNS: Final = 20
"""How many of those that are accepted are run."""
_SIMPLE: Final[tuple[Any, ...]] = ("", 0, -1, 1.5, True, None, [], {}, "\u202e")

_LONG_ENOUGH: Final = 200
"""Characters of an answer that can be cut: less is shorter than the words that say so."""

_ENDS_WITHIN_S: Final = 10.0
"""How long a cancelled or late call may take to end."""


async def error_path(subject: Subject) -> Outcome:
    """An impossible call gives one result with a code and words, never an exception."""
    for given in ("{broken", "[1]", {"no_such_parameter_": 1}):
        result = await subject.door.call(subject.tool.name, given, id="check")
        if result.call_id != "check":
            return "fail", "the result does not answer its call"
        if result.ok and given != {"no_such_parameter_": 1}:
            return "fail", f"{given!r} was taken for arguments"
        if not result.ok and (not str(result).strip() or result.error is None or not result.error.code):
            return "fail", "an error without words or code"
        if result.error is not None and result.error.code == "internal_error":
            return "fail", f"{given!r} gives {result.error.message}"
    return "pass", ""


async def sample_runs(subject: Subject) -> Outcome:
    """The sample runs to a result; a failure is one that the tool meant."""
    if not subject.runs:
        return "skip", subject.why
    result = await subject.door.call(subject.tool.name, dict(subject.sample))
    if result.error is None:
        return "pass", ""
    if result.error.code == "internal_error":
        return "fail", f"with {_shown(subject.sample)}: {result.error.message}"
    return "pass", f"fails in order with {result.error.code}"


async def unicode(subject: Subject) -> Outcome:
    """Texts of every kind of script go in, and what comes out can be sent."""
    if not subject.runs:
        return "skip", subject.why
    ran = 0
    for text in UNICODE:
        given = arguments(subject.tool, subject.rng, share=0.0, text=text)
        if subject.tool.signature.errors(given) or not await _permitted(subject, given):
            continue
        ran += 1
        result = await subject.door.call(subject.tool.name, given)
        if result.error is not None and result.error.code == "internal_error":
            return "fail", f"with {text!r}: {result.error.message}"
        str(result).encode("utf-8")
    return (
        ("pass", f"{ran} texts") if ran else ("skip", "no call with such a text may run or fits the schema")
    )


async def long_output(subject: Subject) -> Outcome:
    """What a model reads stays within the limit, whatever the tool gives."""
    if subject.is_foreign:
        return await _foreign_output(subject)
    limit = subject.tool.limits.max_chars or MAX_CHARS

    async def flood(**_: Any) -> str:
        return "𝔘x" * limit

    twin = _twin(subject.tool, flood)
    door = subject.open(Toolkit([twin]))
    try:
        result = await door.call(twin.name, dict(subject.sample))
    finally:
        await door.aclose()
    if not result.ok:
        return "skip", subject.why
    if not result.notes.truncated or len(str(result)) > limit + 500:
        return "fail", f"{len(str(result))} characters, the limit is {limit}"
    return "pass", f"cut at {limit} characters"


async def _foreign_output(subject: Subject) -> Outcome:
    """Another process cannot be told to say much: what it does say is cut at a limit that it exceeds."""
    if not subject.runs:
        return "skip", subject.why
    whole = await subject.door.call(subject.tool.name, dict(subject.sample))
    said = len(str(whole))
    if said < _LONG_ENOUGH:
        return "skip", f"its answer to the sample has {said} characters, too few to be cut"
    twin = subject.tool.copy(limits=ToolLimits(timeout_s=subject.tool.limits.timeout_s, max_chars=said // 2))
    door = subject.open(Toolkit([twin]))
    try:
        result = await door.call(twin.name, dict(subject.sample))
    finally:
        await door.aclose()
    if not result.notes.truncated:
        return "fail", f"{len(str(result))} characters, the limit is {said // 2}"
    return "pass", f"an answer of {said} characters is cut at {said // 2}"


async def time_limit(subject: Subject) -> Outcome:
    """A call that would be too long is ended and says so."""
    if not subject.runs:
        return "skip", subject.why
    twin = subject.tool.copy(limits=ToolLimits(timeout_s=0.001, max_chars=subject.tool.limits.max_chars))
    door = subject.open(Toolkit([twin]))
    try:
        async with asyncio.timeout(_ENDS_WITHIN_S):
            result = await door.call(twin.name, dict(subject.sample))
    except TimeoutError:
        return "fail", f"still running {_ENDS_WITHIN_S:g} s after its deadline"
    finally:
        await door.aclose()
    if result.error is not None and result.error.code == "internal_error":
        return "fail", result.error.message
    after = await subject.door.call(subject.tool.name, dict(subject.sample))
    if after.error is not None and after.error.code in ("internal_error", "unavailable", "interrupted"):
        return "fail", f"after a call that was ended: {after.error.message}"
    late = result.error is not None and result.error.code == "timeout"
    return "pass", "ended, and the next call answers" if late else "faster than 1 ms"


async def cancellation(subject: Subject) -> Outcome:
    """A cancelled call ends soon, and the tool works afterwards."""
    if not subject.runs:
        return "skip", subject.why
    call = asyncio.ensure_future(subject.door.call(subject.tool.name, dict(subject.sample)))
    await asyncio.sleep(0)
    call.cancel()
    done, _ = await asyncio.wait([call], timeout=_ENDS_WITHIN_S)
    if not done:
        return "fail", f"still running {_ENDS_WITHIN_S:g} s after it was cancelled"
    again = await subject.door.call(subject.tool.name, dict(subject.sample))
    if again.error is not None and again.error.code == "internal_error":
        return "fail", f"after a cancelled call: {again.error.message}"
    return "pass", ""


async def idempotence(subject: Subject) -> Outcome:
    """A tool that says it may be repeated gives the same outcome twice."""
    if not subject.tool.idempotent:
        return "skip", "the tool does not say that it may be repeated"
    if not subject.runs:
        return "skip", subject.why
    first = await subject.door.call(subject.tool.name, dict(subject.sample))
    second = await subject.door.call(subject.tool.name, dict(subject.sample))
    if first.ok is not second.ok:
        return "fail", f"the first call {_word(first)}, the second {_word(second)}"
    return "pass", ""


async def fuzz(subject: Subject) -> Outcome:
    """Odd and random arguments are either refused with words or run to a result that is no internal error."""
    ran = refused = 0
    tried: set[str] = set()
    tries = _tries(subject)
    for given in tries:
        try:
            subject.tool.signature.decode(given)
        except InvalidArguments:
            refused += 1
            continue
        key = _shown(given)
        if not subject.runs or ran >= FUZZ_RUNS or key in tried or not await _permitted(subject, given):
            continue
        tried.add(key)
        ran += 1
        result = await subject.door.call(subject.tool.name, given)
        if result.error is not None and result.error.code == "internal_error":
            return "fail", f"with {_shown(given)}: {result.error.message}"
    return "pass", f"{len(tries)} argument objects, {refused} refused, {ran} run"


async def _permitted(subject: Subject, given: Mapping[str, Any]) -> bool:
    """Other arguments may do other things: they run only where they do no more than the sample."""
    preview = await subject.door.preview(subject.tool.name, given)
    if preview.error is not None:
        return False
    agreed = subject.consent and subject.effects.issuperset(map(str, preview.effects))
    return preview.decision == "allow" or (agreed and preview.decision == "ask")


def _tries(subject: Subject) -> list[dict[str, Any]]:
    """Each parameter of a call that fits with each simple oddity alone, in any order; then random ones."""
    fits = arguments(subject.tool, subject.rng, share=1.0)
    alone = [{**fits, name: odd} for name in fits for odd in _SIMPLE]
    subject.rng.shuffle(alone)
    return alone + [
        _mutated(arguments(subject.tool, subject.rng, share=0.5), subject.rng) for _ in range(FUZZ)
    ]


def _mutated(given: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    odd: tuple[Any, ...] = (
        None,
        "",
        [],
        {},
        -1,
        10**30,
        1.5,
        True,
        "x" * 5000,
        "\u202e",
        ["a", 1],
        {"a": {"b": []}},
    )
    out = dict(given)
    for key in list(out):
        if rng.random() < 0.3:
            out[key] = rng.choice(odd)
    if rng.random() < 0.1:
        out[rng.choice(("extra", "", "__class__", "self"))] = 1
    return out


def _twin(tool: Tool, function: Any) -> Tool:
    """The same tool with another function that needs nothing and touches nothing."""
    bare = tool.copy(
        function=function, is_async=True, plan=None, effects=(), markers=(), level="auto", render=None
    )
    signature = tool.signature
    if signature.inject:
        from pegboard.core.schema.signature import Signature

        signature = Signature.foreign(tool.schema, description=tool.description, name=tool.name)
    bare.signature = signature
    return bare


def _word(result: ToolResult) -> str:
    return "worked" if result.ok else f"failed with {cast(Any, result.error).code}"


def _shown(given: Mapping[str, Any]) -> str:
    text = json.dumps(dict(given), ensure_ascii=False, default=str)
    return text if len(text) <= 160 else f"{clip(text, 0, 157)}…"
