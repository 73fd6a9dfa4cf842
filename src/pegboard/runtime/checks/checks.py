"""The checks: schema, dialects, wrong types, error path, run, Unicode, output, timeout, cancellation,
idempotence and fuzz on any tool."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from pegboard.core.call import ToolCall
from pegboard.core.errors import BuildError, InvalidArguments
from pegboard.core.pipeline import Preview
from pegboard.core.result import ToolResult
from pegboard.core.shaping import MAX_CHARS
from pegboard.core.tool import Tool, ToolLimits
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import DIALECTS, dialect
from pegboard.runtime.checks.report import Finding, Report, Status
from pegboard.runtime.checks.samples import UNICODE, arguments, sample, wrong

FUZZ: Final = 60
"""Random argument objects of one tool."""

_LONG_ENOUGH: Final = 200
"""Characters of an answer that can be cut: less is shorter than the words that say so."""

_ENDS_WITHIN_S: Final = 10.0
"""How long a cancelled or late call may take to end."""


class Door(Protocol):
    """What calls go through: an Executor."""

    @property
    def toolkit(self) -> Toolkit:
        """Its tools."""
        ...

    async def call(self, name: str, arguments: Any = None, *, id: str | None = None) -> ToolResult:
        """One call, one result."""
        ...

    async def preview(self, name: str, arguments: Any = None) -> Preview:
        """What the call would do."""
        ...


Opener = Callable[[Toolkit], Any]
"""Opens an Executor over a kit; called once for the tool and once for its shortened twin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A tool under check.

    Attributes:
        tool, door: the tool and the executor that holds it.
        open: opens an executor over another kit.
        rng: where random values come from.
        sample: arguments that fit.
        runs: whether the sample may run here.
        why: why not.
        effects: what the sample would do.
        consent: calls that ask may run.
    """

    tool: Tool
    door: Door
    open: Opener
    rng: random.Random
    sample: Mapping[str, Any]
    runs: bool
    why: str
    effects: frozenset[str] = frozenset()
    consent: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether another process answers, so that its faults can be provoked only through calls."""
        return "call" in self.tool.kinds()


Outcome = tuple[Status, str]
Check = Callable[[Subject], Any]


async def check_kit(kit: Toolkit, open: Opener, *, consent: bool = False, seed: int = 0) -> Report:
    """Check every tool of a kit.

    Args:
        kit: the tools.
        open: opens an Executor over a kit, in a folder that may be changed.
        consent: run tools whose calls ask; else only those that the policy allows are run.
        seed: for random values; the same seed makes the same calls.
    """
    report = Report(seed=seed)
    door = open(kit)
    try:
        for tool in kit:
            report.add([f async for f in check_tool(tool, door, open, consent=consent, seed=seed)])
    finally:
        await door.aclose()
    return report


async def check_tool(
    tool: Tool, door: Door, open: Opener, *, consent: bool = False, seed: int = 0
) -> AsyncIterator[Finding]:
    """All checks of one tool; see `check_kit`."""
    rng = random.Random(f"{seed}:{tool.name}")
    status, message = _schema(tool)
    yield Finding(tool.name, "schema", status, message)
    if status == "fail":
        return
    fitting = sample(tool, rng)
    preview = await door.preview(tool.name, fitting)
    runs = preview.error is None and (preview.decision == "allow" or (consent and preview.decision == "ask"))
    why = (
        f"its sample call cannot be planned: {preview.error.message}"
        if preview.error is not None
        else f"{preview.decision}: {preview.reason or preview.rule}; --yes runs what asks"
    )
    subject = Subject(tool=tool, door=door, open=open, rng=rng, sample=fitting, runs=runs, why=why,
                      effects=frozenset(map(str, preview.effects)), consent=consent)  # fmt: skip
    for name, check in CHECKS.items():
        try:
            outcome = await check(subject)
        except Exception as error:  # noqa: BLE001  A check must report what breaks, whatever it is.
            outcome = ("fail", f"{type(error).__name__} escaped: {error}")
        yield Finding(tool.name, name, *cast(Outcome, outcome))


def _schema(tool: Tool) -> Outcome:
    """It builds, its root is an object, and every parameter is described."""
    try:
        tool.signature.check()
        schema = tool.schema
        json.dumps(schema, allow_nan=False)
    except (BuildError, ValueError, TypeError) as error:
        return "fail", str(error)
    if schema.get("type") != "object":
        return "fail", f"the root is {schema.get('type')!r}, not an object"
    from pegboard.core.foreign import ForeignSchema

    try:
        ForeignSchema(schema, name=tool.name).check()
    except BuildError as error:
        return "fail", str(error)
    if not tool.description.strip():
        return "warn", "it has no description"
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    bare = [k for k, v in properties.items() if not (isinstance(v, Mapping) and _described(v))]  # pyright: ignore[reportUnknownArgumentType]
    return ("warn", f"not described: {', '.join(bare)}") if bare else ("pass", "")


def _described(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("description") or "$ref" in schema or "enum" in schema)


async def _dialects(subject: Subject) -> Outcome:
    """Each dialect renders it, and a call comes back from it as it was."""
    kit = Toolkit([subject.tool])
    wanted = json.dumps(dict(subject.sample), sort_keys=True)
    lost: list[str] = []
    for name in DIALECTS:
        spoken = dialect(name)
        json.dumps(spoken.render_tools(kit), allow_nan=False)
        message = AssistantMessage(content=(ToolCall("c1", subject.tool.name, dict(subject.sample)),))
        wire = json.loads(json.dumps(spoken.encode(message), allow_nan=False))
        back = spoken.decode(_reply(name, wire), kit)
        found = [(c.name, json.dumps(_object(c.arguments), sort_keys=True)) for c in back]
        if found != [(subject.tool.name, wanted)]:
            lost.append(name)
    return (
        ("fail", f"the call changes in {', '.join(lost)}") if lost else ("pass", f"{len(DIALECTS)} dialects")
    )


def _reply(name: str, wire: list[dict[str, Any]]) -> Any:
    """The provider's reply that holds what was encoded."""
    if name.startswith("openai-chat"):
        return {"choices": [{"message": wire[0], "finish_reason": "tool_calls"}]}
    if name.startswith("openai-responses"):
        return {"output": wire, "status": "completed"}
    if name == "anthropic":
        return {**wire[0], "stop_reason": "tool_use"}
    if name == "gemini":
        return {"candidates": [{"content": wire[0], "finishReason": "STOP"}]}
    return wire if name == "mcp" else wire[0]["content"]


def _object(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else given


async def _wrong_types(subject: Subject) -> Outcome:
    """A value of the wrong type is refused and its place named; nothing runs."""
    schema = subject.tool.schema
    passed: list[str] = []
    tried = 0
    for name, sub in cast("Mapping[str, Any]", schema.get("properties") or {}).items():
        bad = wrong(sub, schema)
        if bad is None:
            continue
        tried += 1
        errors = subject.tool.signature.errors({**subject.sample, name: bad})
        if not any(name in e for e in errors):
            passed.append(name)
    if passed:
        return "fail", f"a wrong type passes or is not named: {', '.join(passed)}"
    return ("pass", f"{tried} parameters") if tried else ("skip", "no typed parameters")


async def _error_path(subject: Subject) -> Outcome:
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


async def _run(subject: Subject) -> Outcome:
    """The sample runs to a result; a failure is one that the tool meant."""
    if not subject.runs:
        return "skip", subject.why
    result = await subject.door.call(subject.tool.name, dict(subject.sample))
    if result.error is None:
        return "pass", ""
    if result.error.code == "internal_error":
        return "fail", f"with {_shown(subject.sample)}: {result.error.message}"
    return "pass", f"fails in order with {result.error.code}"


async def _unicode(subject: Subject) -> Outcome:
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


async def _output(subject: Subject) -> Outcome:
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


async def _timeout(subject: Subject) -> Outcome:
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


async def _cancellation(subject: Subject) -> Outcome:
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


async def _idempotence(subject: Subject) -> Outcome:
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


async def _fuzz(subject: Subject) -> Outcome:
    """Random arguments are either refused with words or run to a result that is no internal error."""
    ran = refused = 0
    for _ in range(FUZZ):
        given = _mutated(arguments(subject.tool, subject.rng, share=0.5), subject.rng)
        try:
            subject.tool.signature.decode(given)
        except InvalidArguments:
            refused += 1
            continue
        if not (subject.runs and await _permitted(subject, given)) or ran >= 10:
            continue
        ran += 1
        result = await subject.door.call(subject.tool.name, given)
        if result.error is not None and result.error.code == "internal_error":
            return "fail", f"with {_shown(given)}: {result.error.message}"
    return "pass", f"{FUZZ} argument objects, {refused} refused, {ran} run"


CHECKS: Final[dict[str, Check]] = {
    "dialects": _dialects,
    "wrong types": _wrong_types,
    "error path": _error_path,
    "run": _run,
    "unicode": _unicode,
    "huge output": _output,
    "timeout": _timeout,
    "cancellation": _cancellation,
    "idempotence": _idempotence,
    "fuzz": _fuzz,
}
"""Check → function, in the order in which they run; the schema is checked before all of them."""


async def _permitted(subject: Subject, given: Mapping[str, Any]) -> bool:
    """Other arguments may do other things: they run only where they do no more than the sample."""
    preview = await subject.door.preview(subject.tool.name, given)
    if preview.error is not None:
        return False
    agreed = subject.consent and subject.effects.issuperset(map(str, preview.effects))
    return preview.decision == "allow" or (agreed and preview.decision == "ask")


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
        from pegboard.core.signature import Signature

        signature = Signature.foreign(tool.schema, description=tool.description, name=tool.name)
    bare.signature = signature
    return bare


def _word(result: ToolResult) -> str:
    return "worked" if result.ok else f"failed with {cast(Any, result.error).code}"


def _shown(given: Mapping[str, Any]) -> str:
    text = json.dumps(dict(given), ensure_ascii=False, default=str)
    return text if len(text) <= 160 else f"{text[:157]}…"


__all__ = ["CHECKS", "FUZZ", "Door", "Opener", "Subject", "check_kit", "check_tool"]
