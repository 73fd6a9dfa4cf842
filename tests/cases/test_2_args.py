"""Theme 2: what models send as arguments is run as meant, or refused in words that help."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pegboard import PURE, Agent, Executor, ToolCall, WritePath, tool
from pegboard.core.transcript import AssistantMessage
from pegboard.models import ScriptedModel
from tests.cases.kit import door, of_kind, row_id, sent, wire
from tests.ledger import owes


def echoing(source: str) -> Any:
    """A tool with these parameters that returns what it got."""
    scope: dict[str, Any] = {"Any": Any, "Box": Box}
    exec(f"def echo({source}):\n    'Echo.'\n    return dict(locals())", scope)
    return tool(effects=PURE)(scope["echo"])


class Box(BaseModel):
    label: str
    width: int | None = None


async def got(source: str, arguments: Any) -> Any:
    """What a tool with these parameters receives; an error's text where the call is refused."""
    result = await Executor([echoing(source)]).call("echo", arguments)
    return result.data if result.ok else str(result)


async def history_after(tools: list[Any], *turns: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Run scripted turns; the answer and the last request, which is checked strictly."""
    model = ScriptedModel([*turns, {"text": "done"}])
    agent = Agent(tools=tools, model=model, **options)
    answer = await agent.run("go")
    messages = sent(model)
    wire(messages)
    await agent.aclose()
    return answer, messages


@owes("args-02", "args-33", "args-17")
@pytest.mark.parametrize("row", of_kind("2-args", "json", "json2"), ids=row_id)
async def test_arguments_of_a_case_arrive_as_the_standard_parser_reads_them(row: dict[str, Any]) -> None:
    raw, value = row["calc"]["raw"], row["calc"]["value"]

    whole = await got(", ".join(f"{name}: Any" for name in value), raw)

    assert whole == value
    if row["calc"]["kind"] == "json":
        assert await got("box: dict", {"box": raw}) == {"box": value}


@owes("args-14")
@pytest.mark.parametrize("row", of_kind("2-args", "badjson"), ids=row_id)
async def test_cut_off_arguments_change_nothing_and_the_run_goes_on(
    row: dict[str, Any], tmp_path: Path
) -> None:
    model = ScriptedModel(
        [{"calls": [{"name": "write_file", "arguments": row["calc"]["raw"]}]}, {"text": "done"}]
    )
    agent = Agent(model=model, executor=door(tmp_path, "write_file"))

    answer = await agent.run("go")

    assert list(tmp_path.iterdir()) == []
    assert answer.status == "done"
    refusal = str(wire(sent(model))).lower()
    assert "cut off" in refusal and ("smaller" in refusal or "pieces" in refusal)
    await agent.aclose()


@owes("args-34")
@pytest.mark.parametrize("row", of_kind("2-args", "surrogate"), ids=row_id)
async def test_a_lone_surrogate_is_refused_with_its_reason_and_history_encodes(
    row: dict[str, Any], tmp_path: Path
) -> None:
    raw = '{"path": "s.txt", "content": ' + row["calc"]["raw"] + "}"
    model = ScriptedModel([{"calls": [{"name": "write_file", "arguments": raw}]}, {"text": "done"}])
    agent = Agent(model=model, executor=door(tmp_path, "write_file"))

    assert (await agent.run("go")).status == "done"

    assert not (tmp_path / "s.txt").exists()
    assert "half of a surrogate pair" in str(wire(sent(model)))
    await agent.aclose()


@owes("args-02")
async def test_a_model_object_is_read_from_json_text() -> None:
    raw = '{\n "label": "k\\u00fche",\n "width": 40\n}'
    assert await got("box: Box", {"box": raw}) == {"box": {"label": "kühe", "width": 40}}


@owes("args-04", "args-05", "args-06")
@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        ("v: str | dict", {"v": '{"a":1}'}, {"v": '{"a":1}'}),
        ("v: dict | str", {"v": '{"a":1}'}, {"v": '{"a":1}'}),
        ("v: str | dict", {"v": {"a": 1}}, {"v": {"a": 1}}),
        ("v: str | list", {"v": "[1]"}, {"v": "[1]"}),
        ("v: list | str", {"v": [1]}, {"v": [1]}),
        ("zip: str, flag: str", {"zip": "007", "flag": "true"}, {"zip": "007", "flag": "true"}),
        ("a: int | str, b: int", {"a": "007", "b": "007"}, {"a": "007", "b": 7}),
        ("a: str | int, b: int", {"a": "007", "b": "7"}, {"a": "007", "b": 7}),
        ("recursive: bool", {"recursive": "false"}, {"recursive": False}),
    ],
)
async def test_a_value_keeps_its_type_where_the_schema_takes_it(
    source: str, arguments: Any, expected: Any
) -> None:
    received = await got(source, arguments)

    assert received == expected
    assert {k: type(v) for k, v in received.items()} == {k: type(v) for k, v in expected.items()}


@owes("args-08")
async def test_a_wrong_type_is_told_shortly_with_tool_path_type_and_value() -> None:
    said = await got("n: int", {"n": "foobar"})

    assert all(word in said for word in ("echo", "n", "integer", "foobar"))
    assert len(said) < 500
    assert "Traceback" not in said and "http" not in said


@owes("args-09")
@pytest.mark.parametrize("arguments", [{"limit": None}, {}, '{"limit": null}'])
async def test_null_for_an_optional_is_its_default(arguments: Any) -> None:
    assert await got("limit: int = 100", arguments) == {"limit": 100}


@owes("args-11")
async def test_null_for_a_required_text_writes_nothing(tmp_path: Path) -> None:
    for arguments in ({"path": None, "content": "x"}, {"path": "a.txt", "content": None}):
        result = await door(tmp_path, "write_file").call("write_file", arguments)
        assert not result.ok and "required" in str(result)
    assert list(tmp_path.iterdir()) == []


@owes("args-13")
@pytest.mark.parametrize("raw", ["", None, "{}", "null", " "])
async def test_absent_arguments_run_what_needs_none_and_name_what_is_missing(raw: Any) -> None:
    @tool(effects=PURE)
    def ping() -> str:
        """Ping."""
        return "pong"

    assert str(await Executor([ping]).call("ping", raw)) == "pong"
    said = await got("path: str", raw)
    assert "path" in said and "required" in said and "JSON" not in said


SLIPS = [
    '{"path":"a","lines":[1,2,],"dry":true,}',
    '```json\n{"path":"a","lines":[1,2],"dry":true}\n```',
    "{'path':'a','lines':[1,2],'dry':True}",
    ' {"path":"a","lines":[1,2],"dry":true} \n',
    '```\n{"path":"a","lines":[1,2],"dry":true}\n```',
    '\ufeff{"path":"a","lines":[1,2],"dry":true}',
    '{"path":"a","lines":"[1, 2]","dry":"true"}',
]


@owes("args-16", "K-05")
@pytest.mark.parametrize("raw", SLIPS)
async def test_slips_in_complete_arguments_run_as_meant(raw: str) -> None:
    assert await got("path: str, lines: list[int], dry: bool", raw) == {
        "path": "a",
        "lines": [1, 2],
        "dry": True,
    }


@owes("args-18")
@pytest.mark.parametrize("raw", ["[]", '"a.txt"', "5", '["a.txt"]', "true"])
async def test_json_that_is_no_object_is_told_what_is_expected(raw: str) -> None:
    said = await got("path: str", raw)

    assert isinstance(said, str) and "object" in said


@tool
def append(t: str, path: WritePath = "log.txt") -> str:
    """Append."""
    with open(path, "a") as log:
        log.write(t + "\n")
    return t


@owes("args-20")
async def test_a_call_that_came_twice_acts_once(tmp_path: Path) -> None:
    twice = {"id": "d0", "name": "append", "arguments": {"t": "x"}}

    answer, messages = await history_after(
        [append], {"calls": [twice, twice]}, workspace=tmp_path, mode="full"
    )

    assert answer.status == "done"
    assert (tmp_path / "log.txt").read_text().splitlines() == ["x"]
    assert len(messages) >= 3


@owes("args-21")
async def test_missing_ids_are_made_and_stay_the_same() -> None:
    a, b = echoing("x: int = 1"), tool(effects=PURE, name="other")(lambda: "b")

    _, messages = await history_after(
        [a, b],
        {
            "calls": [
                {"id": "", "name": "echo", "arguments": {}},
                {"id": None, "name": "other", "arguments": {}},
            ]
        },
    )

    first, second = (json.dumps(wire(messages)) for _ in range(2))
    calls = [c for m in messages if isinstance(m, AssistantMessage) for c in m.calls]
    assert first == second
    assert len({c.id for c in calls}) == 2 and all(c.id for c in calls)


@owes("args-23", "args-24", "args-25")
@pytest.mark.parametrize("error", [RuntimeError("bad"), ValueError(), asyncio.CancelledError()])
async def test_one_failing_call_is_its_own_failure_alone(error: BaseException) -> None:
    @tool(effects=PURE)
    async def boom() -> str:
        """Fail."""
        raise error

    @tool(effects=PURE)
    async def ok() -> str:
        """Work."""
        await asyncio.sleep(0)
        return "fine"

    calls = [ToolCall("1", "ok", "{}"), ToolCall("2", "boom", "{}"), ToolCall("3", "ok", "{}")]
    results = await Executor([boom, ok]).turn(calls)

    assert [r.call_id for r in results] == ["1", "2", "3"]
    assert [r.ok for r in results] == [True, False, True]
    assert [str(results[0]), str(results[2])] == ["fine", "fine"]
    assert type(error).__name__ in str(results[1])


@owes("args-24")
async def test_a_real_cancellation_still_ends_the_turn() -> None:
    begun = asyncio.Event()

    @tool(effects=PURE)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    turn = asyncio.ensure_future(Executor([wait]).turn([ToolCall("1", "wait", "{}")]))
    await begun.wait()
    turn.cancel()

    with pytest.raises(asyncio.CancelledError):
        await turn


@owes("args-26", "args-28")
async def test_an_unknown_name_is_answered_with_the_nearest_and_the_run_ends_normally() -> None:
    kit = [tool(effects=PURE, name=n)(lambda: "now") for n in ("get_datetime", "read_file")]

    answer, messages = await history_after(kit, {"calls": [{"name": "get_date", "arguments": {}}]})

    assert answer.status == "done"
    said = str(wire(messages))
    assert "get_datetime" in said

    _, messages = await history_after(
        kit[:1], {"calls": [{"name": "delete_file", "arguments": {"path": "x"}}]}
    )
    assert "read_file" not in str(wire(messages))


@owes("args-29")
@pytest.mark.parametrize(
    "noisy", ["functions.read_file", " read_file", "read-file", "READ_FILE", "read_file()", "readFile"]
)
async def test_noise_around_a_name_never_runs_another_tool(noisy: str) -> None:
    ran: list[str] = []
    kit = [tool(effects=PURE, name=n)(lambda n=n: ran.append(n) or n) for n in ("read_file", "write_file")]  # fmt: skip

    result = await Executor(kit).call(noisy, {})

    assert ran in ([], ["read_file"])
    assert result.ok or "read_file" in str(result)


@owes("args-31")
async def test_booleans_as_text_or_bits_mean_what_they_say() -> None:
    for given in ("false", "False", 0, "0"):
        received = await got("recursive: bool", {"recursive": given})
        assert received == {"recursive": False}, given
    assert "recursive" in await got("recursive: bool", {"recursive": "maybe"})


@owes("args-33")
async def test_a_large_integer_keeps_its_digits_in_the_text_too() -> None:
    result = await Executor([echoing("id: int")]).call("echo", '{"id": 9007199254740993}')

    assert result.data == {"id": 9007199254740993}
    assert "9007199254740993" in str(result)
