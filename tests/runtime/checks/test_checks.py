"""The conformance kit passes what keeps the rules and names what breaks them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pegboard import PURE, AllowOnce, Effect, Executor, Tool, Toolkit, builtin
from pegboard.core.content import ToolCall
from pegboard.core.errors import ToolError
from pegboard.dialects import DIALECTS, dialect
from pegboard.dialects.anthropic import Anthropic
from pegboard.runtime.checks import CHECKS, CheckReport, check_kit
from pegboard.runtime.checks.samples import arguments, sample, value, wrong
from tests.ledger import owes


async def report_of(*tools: Any, folder: Path | None = None, consent: bool = False) -> CheckReport:
    def open(kit: Toolkit) -> Executor:
        return Executor(kit, workspace=folder, approver=AllowOnce() if consent else None)

    return await check_kit(Toolkit(tools), open, consent=consent, seed=7)


def statuses(report: CheckReport) -> dict[str, str]:
    return {f.check: f.status for f in report.findings}


def good(text: str, count: int = 1) -> str:
    """Repeat a text.

    Args:
        text: What to repeat.
        count: How often.
    """
    return text * max(0, min(count, 5))


@owes("G-19")
async def test_a_good_tool_passes_every_check() -> None:
    report = await report_of(Tool(good, effects=PURE, idempotent=True))

    assert report.ok, str(report)
    assert statuses(report) == {"schema": "pass", **dict.fromkeys(CHECKS, "pass")}


@owes("G-19")
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "apply_patch"]
)
async def test_our_own_tools_pass(name: str, tmp_path: Path) -> None:
    (tmp_path / "sample.txt").write_text("one\ntwo\n")

    report = await report_of(builtin(name), folder=tmp_path)

    assert report.ok, str(report)


def first(text: str) -> str:
    """Break on nothing but an empty text.

    Args:
        text: What to look at.
    """
    return text[0]


@owes("G-19")
async def test_what_only_odd_arguments_break_is_found_by_trying_some() -> None:
    report = await report_of(Tool(first, effects=PURE, idempotent=True))

    (fault,) = [f for f in report.findings if f.status == "fail"]
    assert fault.check == "fuzz" and "IndexError" in fault.message and "''" in fault.message.replace('"', "'")


@owes("G-19")
def test_every_check_that_is_promised_is_there() -> None:
    # The ledger's list; the schema is checked before all of these.
    promised = {
        "dialects",
        "error path",
        "timeout",
        "cancellation",
        "huge output",
        "unicode",
        "idempotence",
        "fuzz",
    }

    assert promised <= set(CHECKS)


class Lossy:
    """OpenAI's dialect, but what comes back has lost an argument, or is not the tool that was called."""

    def __init__(self, change: Callable[[ToolCall], ToolCall]) -> None:
        self._change = change
        self._sound = dialect("openai-chat")

    def render_tools(self, kit: Any) -> Any:
        return self._sound.render_tools(kit)

    def encode(self, message: Any) -> Any:
        return self._sound.encode(message)

    def decode(self, reply: Any, kit: Any) -> list[ToolCall]:
        return [self._change(call) for call in self._sound.decode(reply, kit)]


def forgetful() -> Lossy:
    return Lossy(lambda call: ToolCall(call.id, call.name, {"text": "x"}))


def confused() -> Lossy:
    return Lossy(lambda call: ToolCall(call.id, f"{call.name}_2", call.arguments))


@owes("G-19")
@pytest.mark.parametrize("factory", ["forgetful", "confused"])
async def test_a_dialect_that_changes_the_call_on_its_way_is_named(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"openai-chat-{factory}"
    monkeypatch.setitem(DIALECTS, name, f"{__name__}:{factory}")

    report = await report_of(Tool(good, effects=PURE))

    found = next(f for f in report.findings if f.check == "dialects")
    assert (found.status, found.message) == ("fail", f"the call changes in {name}")
    assert not report.ok


class Cohere(Anthropic):
    """A dialect of another name, as somebody adds one: its file and its line."""

    name = "cohere"


async def test_a_new_dialect_is_checked_without_a_word_about_it_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(DIALECTS, "cohere", f"{__name__}:Cohere")

    report = await report_of(Tool(good, effects=PURE))

    found = next(f for f in report.findings if f.check == "dialects")
    assert found.status == "pass", found.message


def fragile(text: str) -> str:
    """Break on what is not ASCII.

    Args:
        text: Any text.
    """
    return str(len(text.encode("ascii")))


def picky(kind: str = "x") -> str:
    """Break on everything.

    Args:
        kind: What.
    """
    raise KeyError(kind)


def needy(text: str) -> str:
    """Its schema lets out what the function needs."""
    return text


@owes("G-19")
@pytest.mark.parametrize(
    ("made", "check", "words"),
    [
        (Tool(fragile, effects=PURE), "unicode", "UnicodeEncodeError"),
        (Tool(picky, effects=PURE), "run", "KeyError"),
        (Tool(needy, effects=PURE, parameters={"type": "object", "properties": {"text": {"type": "string"}}}),
         "run", "TypeError"),
    ],
)  # fmt: skip
async def test_a_fault_is_named(made: Tool, check: str, words: str) -> None:
    report = await report_of(made)

    found = next(f for f in report.findings if f.check == check)
    assert found.status == "fail", str(report)
    assert words in found.message
    assert not report.ok


@owes("G-19")
async def test_a_tool_that_claims_to_be_repeatable_and_is_not_is_found() -> None:
    turns = iter(range(10**6))

    def fickle() -> str:
        """Work every other time."""
        if next(turns) % 2:
            raise ToolError("not now")
        return "ok"

    found = {f.check: f for f in (await report_of(Tool(fickle, effects=PURE, idempotent=True))).findings}

    assert found["idempotence"].status == "fail"
    assert "failed with tool_error" in found["idempotence"].message


@owes("G-19")
async def test_a_wrong_schema_ends_the_checks_of_that_tool() -> None:
    broken = Tool(lambda a: a, name="broken", description="x", effects=PURE,
                  parameters={"type": "object", "properties": {"a": {"type": "strin"}}})  # fmt: skip
    rootless = Tool(
        lambda: 1, name="rootless", description="x", effects=PURE, parameters={"$ref": "#/$defs/gone"}
    )
    silent = Tool(lambda a="": a, name="silent", effects=PURE, description="",
                  parameters={"type": "object", "additionalProperties": False,
                              "properties": {"a": {"type": "string"}}})  # fmt: skip

    report = await report_of(broken, rootless, silent)

    failed = [f for f in report.findings if f.status == "fail"]
    assert [f.tool for f in failed] == ["broken", "rootless"]
    assert next(f for f in report.findings if f.tool == "silent").status == "warn"


@owes("G-19", "X-22")
async def test_a_tool_whose_call_asks_is_run_only_with_consent() -> None:
    ran: list[str] = []

    def send(to: str) -> str:
        """Send it.

        Args:
            to: Whom to.
        """
        ran.append(to)
        return "sent"

    made = Tool(send, effects=[Effect("send", "mail:x")])

    quiet = await report_of(made)
    assert ran == []
    assert next(f for f in quiet.findings if f.check == "run").status == "skip"
    assert "--yes" in str(quiet)
    consented = await report_of(made, consent=True)
    assert len(ran) > 0
    assert consented.ok


@owes("G-19")
def test_the_report_reads_well_and_as_json() -> None:
    report = CheckReport(seed=3)
    from pegboard.runtime.checks import CheckResult

    report.add([CheckResult("a", "schema", "pass"), CheckResult("a", "run", "fail", "it broke")])

    assert str(report) == (
        "a\n  ok    schema\n  FAIL  run: it broke\n1 passed, 1 failed, 0 warnings, 0 not applied (seed 3)"
    )
    assert json.loads(json.dumps(report.to_dict()))["counts"]["fail"] == 1


def test_samples_fit_and_wrong_values_do_not() -> None:
    import jsonschema_rs

    schema: dict[str, Any] = {
        "type": "object",
        "required": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"],
        "properties": {
            "a": {"type": "string", "minLength": 3, "maxLength": 4},
            "b": {"type": "integer", "minimum": 5, "exclusiveMaximum": 9},
            "c": {"type": "number", "exclusiveMinimum": 1},
            "d": {"enum": ["x", "y"]},
            "e": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            "f": {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]},
            "g": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "h": {"const": 5},
            "i": {"type": "string", "format": "date"},
            "j": {"$ref": "#/$defs/J"},
            "k": {"type": "integer", "maximum": -3, "multipleOf": 2},
        },
        "$defs": {"J": {"type": "object", "properties": {"next": {"$ref": "#/$defs/J"}}}},
    }
    made = Tool(lambda **_: 1, name="f", effects=PURE, parameters=schema)

    for seed in range(50):
        found = arguments(made, random.Random(seed))
        assert jsonschema_rs.is_valid(schema, found), found
    for name in ("a", "b", "c", "e", "f", "h"):
        bad = wrong(schema["properties"][name], schema)
        assert name == "h" or not jsonschema_rs.is_valid(schema["properties"][name], bad)
    assert wrong(True, schema) is None
    assert value(True, schema, random.Random(0)) == "x"
    assert sample(Tool(good, effects=PURE, example={"text": "own"}), random.Random(0)) == {"text": "own"}
