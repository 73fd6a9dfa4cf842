from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.core.content import Text, ToolCall
from pegboard.core.effects import Effect
from pegboard.core.errors import NotFound
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.models.local import NOTICE, QUOTED_CHARACTERS, LocalConversation, LocalModel
from pegboard.ports.model import TurnEnd
from tests.ledger import DATA
from tests.models.kit import EIGHT, SIX, Kit, KitTool, strings

TASKS = DATA / "local_tasks"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TASKS / name).read_text("utf-8").splitlines()]


def open_talk(request: str, kit: Any = SIX) -> LocalConversation:
    talk = LocalModel().converse(instructions="", tools=kit)
    talk.append(UserMessage.of(request))
    return talk


async def turn(talk: LocalConversation, *, allow_tools: bool = True) -> AssistantMessage:
    events = [event async for event in talk.reply(allow_tools=allow_tools)]
    assert isinstance(events[-1], TurnEnd)
    return events[-1].message


async def ask(request: str, kit: Any = SIX) -> tuple[str, Mapping[str, Any]]:
    message = await turn(open_talk(request, kit))
    return (message.calls[0].name, message.calls[0].params) if message.calls else ("none", {})


def accepted(row: dict[str, Any], tool: str, arguments: Mapping[str, Any]) -> bool:
    """As the corpus' README says; an absent argument counts as empty text."""
    return any(_matches(option["args"], arguments) for option in row["accept"] if option["tool"] == tool)


def _matches(wanted: Mapping[str, str | None], arguments: Mapping[str, Any]) -> bool:
    return not set(arguments) - set(wanted) and all(
        key not in arguments if pattern is None else re.fullmatch(pattern, str(arguments.get(key, "")))
        for key, pattern in wanted.items()
    )


async def solved(row: dict[str, Any]) -> bool:
    talk = open_talk(row["request"])
    message = await turn(talk)
    if not message.calls:
        return accepted(row, "none", {})
    (call,) = message.calls
    if not accepted(row, call.name, call.params):
        return False
    talk.append(message)
    talk.append(
        ResultsMessage((ToolResult(content=(Text(row["result"]),), call_id=call.id or "", tool=call.name),))
    )
    final = await turn(talk)
    return not final.calls and all(re.search(pattern, final.text) for pattern in row["answer_has"])


@pytest.mark.parametrize(("name", "least"), [("plain.jsonl", 33), ("chinese.jsonl", 5), ("dev.jsonl", 14)])
async def test_plain_requests_get_the_right_call_and_an_answer_that_holds_the_result(
    name: str, least: int
) -> None:
    right = [row["id"] for row in rows(name) if await solved(row)]

    assert len(right) >= least, sorted({row["id"] for row in rows(name)} - set(right))


NEGATIONS_AND_CONDITIONS = """\
Don't read notes.txt
Please don’t run `make`
Dont run `make`
Do not write "x" to a.txt
Never write "x" to a.txt
I don't want you to open notes.txt
Under no circumstances run `make`
Please refrain from running `make`
Avoid reading notes.txt
Stop reading notes.txt
You mustn't list src/
There is no need to list src/
List src/ without reading notes.txt
Read a.txt rather than b.txt
Instead of running `make`, read notes.txt
Read everything but notes.txt
Read notes.txt? Nope
Cease reading notes.txt
Nobody may run `make`
If the tests pass, run `git push`
Run `git push` if the tests pass
Run `git push` unless it is Friday
Run `git push` once the tests pass
Run `git push` when the build is green
Run `git push` only on main
Read notes.txt as soon as it exists
Read notes.txt, provided it is small
Read notes.txt on the condition that it is small
Read notes.txt pending my approval
Assuming all is fine, run `git push`
Should the build fail, read build.log
Were it broken, run `make`
Read a.txt and then, if it is empty, list src/
不要读取 notes.txt
别运行 `make`
请勿运行 `make`
先别把“x”写入 a.txt
没必要读取 notes.txt
禁止运行 `make`
如果测试通过，运行 `git push`
测试通过的话，运行 `git push`
除非是周五，运行 `make`
当测试通过时运行 `make`
Lies nicht notes.txt
""".splitlines()

NO_PLAIN_ORDERS = """\
Run make
Run pytest -q
Write hello to a.txt
运行 pytest -q
把 42 保存到 answer.txt
Run `make` and `make install`
Run `make` tomorrow
I ran `make` yesterday
Bob said: run `make`
The command `make` is dangerous
How do I run `make`?
What does `rm -rf build` do?
Should I run `make`?
Could you run `make`?
Could you write "x" to a.txt?
What would `make` do?
怎么运行 `make`？
运行 `make` 吗？
Save "a.txt" to b.txt
Write notes.txt to "hello"
Add "x" to a.txt
Delete `a.txt`
""".splitlines()


@pytest.mark.parametrize("request_text", NEGATIONS_AND_CONDITIONS)
async def test_a_negation_or_a_condition_makes_no_call_and_is_named(request_text: str) -> None:
    message = await turn(open_talk(request_text, EIGHT))

    assert not message.calls
    assert NOTICE in message.text


@pytest.mark.parametrize("request_text", NO_PLAIN_ORDERS)
async def test_nothing_is_written_or_run_that_is_not_quoted_after_a_plain_imperative(
    request_text: str,
) -> None:
    assert await ask(request_text, EIGHT) == ("none", {})


async def test_a_question_reads_only_with_tools_that_say_that_they_only_read() -> None:
    kit = Toolkit([Tool(lambda path: None, name=name, parameters=strings("path", path="A file."), description=text, effects=effects)
                   for name, text, effects in (("open_file", "Open a file.", [Effect("write", "*")]), ("view", "View a file.", [Effect("read", "*")]))])  # fmt: skip

    assert await ask("What does notes.txt say?", kit) == ("view", {"path": "notes.txt"})


async def test_what_was_understood_is_said_before_the_call() -> None:
    message = await turn(open_talk("Run `pytest -q`, please"))

    said, call = message.content
    assert isinstance(said, Text)
    assert said.text == 'Understood as: exec command="pytest -q"\n'
    assert isinstance(call, ToolCall)
    assert call.params == {"command": "pytest -q"}


async def test_words_of_a_negation_inside_quotation_marks_forbid_nothing() -> None:
    assert await ask('Write "do not run this" to a.txt') == (
        "write_file",
        {"path": "a.txt", "content": "do not run this"},
    )


@pytest.mark.parametrize(
    ("request_text", "tool", "arguments"),
    [
        ("Could you please open src/app/main.py?", "read_file", {"path": "src/app/main.py"}),
        ('Display the content of "my notes.txt"', "read_file", {"path": "my notes.txt"}),
        ("search for TODO in src", "grep", {"pattern": "TODO", "path": "src"}),
        ("In src/, find the string \"hello\"", "grep", {"pattern": "hello", "path": "src/"}),
        ("Are there any TODOs in the code?", "grep", {"pattern": "TODO", "path": "."}),
        ("Show all lines with ERROR in server.log", "grep", {"pattern": "ERROR", "path": "server.log"}),
        ("does anything in src mention redis?", "grep", {"pattern": "redis", "path": "src"}),
        ("Is redis mentioned anywhere in src?", "grep", {"pattern": "redis", "path": "src"}),
        ("Is there anything about caching in docs?", "grep", {"pattern": "caching", "path": "docs"}),
        ("run `git status`", "exec", {"command": "git status"}),
        ("what's inside Makefile?", "read_file", {"path": "Makefile"}),
        ("List the files in docs", "list_dir", {"path": "docs"}),
        ("Make hello.py with `print('hi')`", "write_file", {"path": "hello.py", "content": "print('hi')"}),
        ("run `go test ./...` and report failures", "exec", {"command": "go test ./..."}),
        ("start 'npm start' please", "exec", {"command": "npm start"}),
        ("Search https://example.com/faq for refunds", "web_fetch", {"url": "https://example.com/faq"}),
        ("请帮我看一下 src/main.py 的内容", "read_file", {"path": "src/main.py"}),
        ("tests 文件夹里有什么？", "list_dir", {"path": "tests"}),
        ("哪些文件用到了 parse_args？", "grep", {"pattern": "parse_args", "path": "."}),
        ("把“42”保存到 answer.txt", "write_file", {"path": "answer.txt", "content": "42"}),
        ("运行 `df -h`", "exec", {"command": "df -h"}),
    ],
)  # fmt: skip
async def test_other_phrasings_and_scopes_are_understood(
    request_text: str, tool: str, arguments: dict[str, str]
) -> None:
    assert await ask(request_text) == (tool, arguments)


@pytest.mark.parametrize(
    "request_text",
    ["Good morning!", "Who wrote Hamlet?", "Write a poem about the sea", "Find me a good restaurant", "List three fruits",
     "What is Node.js?", "Where is Berlin?", "法国的首都是哪里？", "谢谢", ""],
)  # fmt: skip
async def test_a_request_that_no_tool_fits_makes_no_call_and_says_how_to_go_on(request_text: str) -> None:
    message = await turn(open_talk(request_text))

    assert not message.calls
    assert NOTICE in message.text
    assert "--model" in message.text


@pytest.mark.parametrize(
    ("request_text", "tool", "arguments"),
    [
        ('In README.md, replace "foo" with "bar"', "edit_file", {"path": "README.md", "old_string": "foo", "new_string": "bar"}),
        ("change `DEBUG` to `INFO` in settings.py", "edit_file", {"path": "settings.py", "old_string": "DEBUG", "new_string": "INFO"}),
        ("把 config.py 里的“8080”改成“9090”", "edit_file", {"path": "config.py", "old_string": "8080", "new_string": "9090"}),
        ("find all *.py files", "glob", {"pattern": "**/*.py", "path": "."}),
        ("list *.txt under notes/", "glob", {"pattern": "**/*.txt", "path": "notes/"}),
        ("search for TODO in python files", "grep", {"pattern": "TODO", "path": "."}),
        ("Search for TODO in the src directory", "grep", {"pattern": "TODO", "path": "src"}),
        ("Read notes.txt", "read_file", {"path": "notes.txt"}),
        ("Run `pytest -q`", "exec", {"command": "pytest -q"}),
    ],
)  # fmt: skip
async def test_the_eight_first_tools_are_told_apart(
    request_text: str, tool: str, arguments: dict[str, str]
) -> None:
    assert await ask(request_text, EIGHT) == (tool, arguments)


async def test_a_tool_of_another_kind_is_called_by_its_name_and_what_it_changes_must_be_quoted() -> None:
    view = KitTool(name="get_weather", description="Weather.", schema=strings("city", city="A city."))
    lamp = Tool(
        lambda state: None,
        name="set_lamp",
        parameters=strings("state", state="on or off"),
        description="Switch.",
        effects=[Effect("control", "lamp")],
    )

    assert await ask('get_weather city="New York"', Kit((view,))) == ("get_weather", {"city": "New York"})
    assert await ask("call get_weather city=Rome", Kit((view,))) == ("get_weather", {"city": "Rome"})
    assert await ask("set_lamp state=on", Toolkit([lamp])) == ("none", {})
    assert await ask("set_lamp state=`on`", Toolkit([lamp])) == ("set_lamp", {"state": "on"})


async def test_tools_of_other_names_and_without_hints_are_used_by_what_their_parameters_are() -> None:
    kit = Kit(
        (
            KitTool(
                name="ReadFile",
                description="Reads a file.",
                schema=strings("filePath", filePath="File to read."),
            ),
            KitTool(
                name="bash", description="Runs a command.", schema=strings("cmd", cmd="The command to run.")
            ),
            KitTool(name="browse", description="Opens a page.", schema=strings("link", link="Where to go.")),
        )
    )

    assert await ask("Read notes.txt", kit) == ("ReadFile", {"filePath": "notes.txt"})
    assert await ask("run `ls -la`", kit) == ("bash", {"cmd": "ls -la"})
    assert await ask("open https://example.com", kit) == ("browse", {"link": "https://example.com"})


@pytest.mark.parametrize(
    ("request_text", "arguments"),
    [
        ("list the files in my home directory", {"path": "~"}),
        ("what is in the parent folder?", {"path": ".."}),
        ("list the folder called 'my-stuff'", {"path": "my-stuff"}),
        ("列出主目录的文件", {"path": "~"}),
    ],
)
async def test_special_folders_are_known(request_text: str, arguments: dict[str, str]) -> None:
    assert await ask(request_text) == ("list_dir", arguments)


@pytest.mark.parametrize(
    ("request_text", "command"),
    [
        ("Run `make all`", "make all"),
        ("please run 'make all' in the terminal", "make all"),
        ("Execute the command `cargo doc` and tell me what it says.", "cargo doc"),
        ("```sh\nmake\n```", None),
        ("Run ```sh\nmake\n```", "make"),
        ("运行命令 `docker ps`", "docker ps"),
    ],
)
async def test_a_quoted_command_is_copied_as_it_stands(request_text: str, command: str | None) -> None:
    assert await ask(request_text) == (("exec", {"command": command}) if command else ("none", {}))


async def test_an_error_is_told_and_not_tried_again() -> None:
    talk = open_talk("Read nothing.txt")
    message = await turn(talk)
    talk.append(message)
    failed = ToolResult.failed(NotFound("no file at 'nothing.txt'", hint="Look with list_dir."))
    talk.append(ResultsMessage((failed,)))

    final = await turn(talk)

    assert not final.calls
    assert "failed: no file at 'nothing.txt'" in final.text
    assert "Look with list_dir." in final.text


async def test_an_answer_is_bounded_and_shows_the_lines_that_were_asked_for() -> None:
    talk = open_talk("What port does server.toml set?")
    message = await turn(talk)
    talk.append(message)
    lines = [f"filler line number {i}" for i in range(2000)]
    lines[1500] = "port = 9321"
    talk.append(ResultsMessage((ToolResult(content=(Text("\n".join(lines)),), tool="read_file"),)))

    final = await turn(talk)

    assert "port = 9321" in final.text
    assert len(final.text) < QUOTED_CHARACTERS + 500


async def test_of_two_steps_the_first_is_done_and_the_second_is_named() -> None:
    talk = open_talk("Read a.txt and then write its size to b.txt")
    message = await turn(talk)
    assert (message.calls[0].name, message.calls[0].params) == ("read_file", {"path": "a.txt"})
    talk.append(message)
    talk.append(ResultsMessage((ToolResult(content=(Text("abc"),), tool="read_file"),)))

    final = await turn(talk)

    assert "Still to do: write its size to b.txt" in final.text


async def test_a_next_request_starts_anew_and_empty_output_is_said() -> None:
    talk = open_talk("run `true`")
    first = await turn(talk)
    talk.append(first)
    talk.append(ResultsMessage((ToolResult(content=(Text(""),), tool="exec"),)))
    assert "printed nothing" in (await turn(talk)).text
    talk.append(UserMessage.of("Read b.txt"))

    second = await turn(talk)

    assert second.calls[0].params == {"path": "b.txt"}
    assert second.calls[0].id != first.calls[0].id


async def test_without_leave_to_call_tools_it_says_so() -> None:
    message = await turn(open_talk("Read notes.txt"), allow_tools=False)

    assert not message.calls
    assert NOTICE in message.text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
async def test_any_text_gets_exactly_one_turn(text: str) -> None:
    message = await turn(open_talk(text))

    assert message.calls or message.text


@pytest.mark.parametrize(
    "piece", ["search for ", "in ", " ", "a", "把", ". ", "replace x with ", "'", "(", "/"]
)
@pytest.mark.slow
async def test_a_long_strange_request_does_not_hang(piece: str) -> None:
    started = time.process_time()

    await ask("x " + piece * 3000 + " x")

    # CPU seconds, generous: the guard is against exponential matching.
    assert time.process_time() - started < 10
