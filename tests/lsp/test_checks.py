"""What a write broke: language servers, commands and Python's compiler, and what each says that was not there before."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pegboard.core.effects import Change
from pegboard.lsp.checks import CheckedWrites, CommandLooker, ServerLooker
from pegboard.lsp.diagnostics import changed_lines, diagnostics_in, python_syntax
from pegboard.lsp.programs import Checker
from pegboard.lsp.server import LanguageServer
from tests.lsp.kit import Work, command, lines, pool_in, toy
from tests.waiting import soon

SERVERS = pytest.mark.parametrize("how", ["", "pull", "unversioned"])


# -- what is new ----------------------------------------------------------------------------------


@SERVERS
async def test_only_what_was_not_there_before_is_said_wherever_it_stands_now(
    how: str, tmp_path: Path
) -> None:
    (tmp_path / "a.toy").write_text("BAD old\nfine\n")
    async with Work(tmp_path, toy(how)) as work:
        first = await work.write(a="new line\nanother\nBAD old\nBAD fresh\n")
        second = await work.write(a="BAD old\nBAD fresh\nfine\n")

    assert lines(first) == ["a.toy:4:1: error: fresh (toy bad)"]
    assert first is not None
    assert first.text.startswith("[The write is done. It brought 1 new problem:]\n")
    assert first.data["new"] == [
        {"path": "a.toy", "line": 4, "column": 1, "severity": "error", "source": "toy", "rule": "bad", "message": "fresh"}
    ]  # fmt: skip
    assert second is None


async def test_a_second_of_the_same_kind_is_new_and_a_new_file_has_no_past(tmp_path: Path) -> None:
    (tmp_path / "a.toy").write_text("BAD same\n")
    async with Work(tmp_path, toy()) as work:
        again = await work.write(a="BAD same\nBAD same\n")
        created = await work.write(b="BAD same\n")

    assert lines(again) == ["a.toy:2:1: error: same (toy bad)"]
    assert lines(created) == ["b.toy:1:1: error: same (toy bad)"]


async def test_a_problem_that_was_mended_and_comes_back_is_new(tmp_path: Path) -> None:
    async with Work(tmp_path, toy()) as work:
        await work.write(a="BAD one\n")
        mended = await work.write(a="fine\n")
        back = await work.write(a="BAD one\n")

    assert mended is None
    assert lines(back) == ["a.toy:1:1: error: one (toy bad)"]


async def test_what_somebody_else_changed_in_between_is_not_laid_to_the_write(tmp_path: Path) -> None:
    async with Work(tmp_path, toy()) as work:
        await work.write(a="fine\n")
        (tmp_path / "a.toy").write_text("fine\nBAD theirs\n")
        report = await work.write(a="fine\nBAD theirs\nBAD ours\n")

    assert lines(report) == ["a.toy:3:1: error: ours (toy bad)"]


async def test_errors_come_first_and_no_more_than_twenty_lines(tmp_path: Path) -> None:
    text = "".join(f"MEH warning {n}\n" for n in range(30)) + "BAD the error\n"
    async with Work(tmp_path, toy()) as work:
        report = await work.write(a=text)

    said = [] if report is None else report.text.splitlines()
    assert len(said) == 20
    assert said[0] == "[The write is done. It brought 31 new problems:]"
    assert said[1] == "a.toy:31:1: error: the error (toy bad)"
    assert said[2] == "a.toy:1:1: warning: warning 0 (toy meh)"
    assert said[-1] == "… and 13 more"
    assert report is not None
    assert len(report.data["new"]) == 31


async def test_a_deleted_file_is_closed_and_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Work(tmp_path, toy(f"log={log}"), pattern="*.toy") as work:
        await work.write(a="fine\n")
        assert await work.write({"a.toy": None}) is None
        await work.write(b="fine\n")

    assert "textDocument/didClose" in log.read_text().splitlines()


async def test_a_moved_file_is_compared_with_itself(tmp_path: Path) -> None:
    (tmp_path / "b.toy").write_text("BAD old\nBAD new\n")
    move = Change(
        path="a.toy", moved_to="b.toy", kind="move", before=b"BAD old\n", after=b"BAD old\nBAD new\n"
    )
    async with Work(tmp_path, toy()) as work:
        report = await work.checks.check([move])

    assert lines(report) == ["b.toy:2:1: error: new (toy bad)"]


# -- servers that are late or broken --------------------------------------------------------------


async def test_a_late_server_delays_nothing_and_what_it_finds_is_said_with_the_next_write(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    loop = asyncio.get_running_loop()
    async with Work(tmp_path, toy(f"gate={gate}"), limit_s=0.2, pattern="*.toy") as work:
        begun = loop.time()
        late = await work.write(a="BAD slow\n")
        took = loop.time() - begun

        # From here on the server finds the gate open.
        writing = asyncio.create_task(asyncio.to_thread(gate.write_text, "go"))
        watch = work.checks._watches["toy"]  # pyright: ignore[reportPrivateUsage]
        await soon(lambda: watch._task is not None and watch._task.done(), "the server has answered")  # pyright: ignore[reportPrivateUsage]
        await writing
        work.checks._limit_s = 60.0  # pyright: ignore[reportPrivateUsage]
        following = await work.write({"notes.txt": "nothing that it looks at"})

    assert late is not None
    assert late.text == "[toy is still checking; what it finds is said after the next write]"
    assert late.data["pending"] == ["toy"]
    assert took < 2.0
    assert lines(following) == ["a.toy:1:1: error: slow (toy bad)"]


@pytest.mark.parametrize(
    ("how", "why"),
    [("crash", "it ended by itself (exit status 3: out of ideas)"), ("garbage", "its output is not LSP")],
)
async def test_a_server_that_breaks_is_said_once_and_started_again(
    how: str, why: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with Work(tmp_path, toy(how, f"log={log}"), pattern="*.toy") as work:
        broken = await work.write(a="BAD one\n")
        again = await work.write(a="BAD two\n")
        well = await work.write(a="fine\n")

    assert broken is not None
    assert broken.text.startswith("[not checked with toy: ")
    assert why in broken.text
    assert again is None
    assert well is None
    assert log.read_text().splitlines().count("initialize") == 3


async def test_a_server_that_goes_on_breaking_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Work(tmp_path, toy("crash", f"log={log}"), pattern="*.toy") as work:
        reports = [await work.write(a=f"BAD {n}\n") for n in range(5)]

    said = [report.text for report in reports if report is not None]
    assert len(said) == 2
    assert "was given up: it ended by itself (exit status 3" in said[1]
    assert log.read_text().splitlines().count("initialize") == 3


async def test_a_server_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    pool = pool_in(tmp_path.resolve())
    server = LanguageServer(toy("mute"), root=tmp_path.resolve(), start=pool.start, answer_s=1.0)
    from pegboard.core.errors import Unavailable
    from pegboard.lsp.checks import Changed

    with pytest.raises(Unavailable, match=r"it said nothing of a\.toy within 1 s"):
        await ServerLooker(server).look([Changed(path="a.toy", before=None, after="BAD one\n")], {})

    assert server._program is None  # pyright: ignore[reportPrivateUsage]


async def test_a_program_that_is_not_installed_is_named_once_with_how_to_get_it(tmp_path: Path) -> None:
    missing = Checker(name="lint", argv=("no-such-program",), install="pip install lint")
    async with Work(tmp_path, missing) as work:
        first = await work.write(a="x\n")
        second = await work.write(a="y\n")

    assert first is not None
    assert first.text == "[not checked with lint: no-such-program is not installed (pip install lint)]"
    assert second is None


async def test_the_server_is_reused_and_ends_with_the_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Work(tmp_path, toy(f"log={log}"), pattern="*.toy") as work:
        await work.write(a="fine\n")
        await work.write(a="finer\n")
        program: Any = work.pool.servers[0]._program  # pyright: ignore[reportPrivateUsage]
        pid = program._child.pid

    assert log.read_text().splitlines().count("initialize") == 1
    assert not Path(f"/proc/{pid}").exists()


async def test_another_event_loop_has_a_server_of_its_own(tmp_path: Path) -> None:
    work = Work(tmp_path, toy(), pattern="*.toy")
    first = await asyncio.to_thread(asyncio.run, work.write(a="BAD one\n"))
    second = await work.write(a="BAD one\nBAD two\n")
    await work.__aexit__()

    assert lines(first) == ["a.toy:1:1: error: one (toy bad)"]
    assert lines(second) == ["a.toy:2:1: error: two (toy bad)"]


async def test_files_that_are_not_text_are_not_shown_to_a_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "a.toy").write_bytes(b"\xff\xfe\x00BAD")
    change = Change(path="a.toy", kind="create", before=None, after=b"\xff\xfe\x00BAD")
    async with Work(tmp_path, toy(f"log={log}")) as work:
        assert await work.checks.check([change]) is None

    assert not log.exists()


# -- commands -------------------------------------------------------------------------------------

LINT = "import sys\nfor name in sys.argv[1:]:\n    for n, line in enumerate(open(name), 1):\n        if 'BAD' in line: print(f'{name}:{n}:1: error: {line.split()[1]}')\n"
WHOLE = LINT.replace("sys.argv[1:]", "__import__('glob').glob('*.toy')")


async def test_a_command_sees_the_files_and_says_what_stands_in_changed_lines_then_what_is_new(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.toy").write_text("BAD old\nfine\n")
    async with Work(tmp_path, command(sys.executable, "-c", LINT, "{file}")) as work:
        first = await work.write(a="BAD old\nBAD one\n")
        second = await work.write(a="more\nBAD old\nBAD one\nBAD two\n")

    assert lines(first) == ["a.toy:2:1: error: one (lint)"]
    assert lines(second) == ["a.toy:4:1: error: two (lint)"]


async def test_a_command_may_say_it_on_standard_error_as_compilers_do(tmp_path: Path) -> None:
    script = LINT.replace("{line.split()[1]}')", "{line.split()[1]}', file=sys.stderr)")
    async with Work(tmp_path, command(sys.executable, "-c", script, "{file}")) as work:
        report = await work.write(a="fine\nBAD one\n")

    assert lines(report) == ["a.toy:2:1: error: one (lint)"]


async def test_a_command_over_the_whole_project_says_what_broke_in_other_files(tmp_path: Path) -> None:
    script = "import os\nprint('b.toy(3,7): error TS1: broken') if 'BREAK' in open('a.toy').read() else 0"
    async with Work(tmp_path, command(sys.executable, "-c", script)) as work:
        await work.write(a="fine\n")
        report = await work.write(a="BREAK\n")

    assert lines(report) == ["b.toy:3:7: error: error TS1: broken (lint)"]


async def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    from pegboard.core.errors import ToolError
    from pegboard.lsp.checks import Changed

    sleeper = command(sys.executable, "-c", "import signal; signal.pause()")
    looker = CommandLooker(sleeper, root=tmp_path, start=pool_in(tmp_path).start, limit_s=0.2)

    with pytest.raises(ToolError, match=r"lint did not end within 0\.2 s"):
        await looker.look([Changed(path="a.toy", before=None, after="x\n")], {})


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("a.c:3:5: error: expected ';'", ("a.c", 3, 5, "error", "expected ';'")),
        ("./a.sh:2:1: warning: unused [SC2034]", ("a.sh", 2, 1, "warning", "unused [SC2034]")),
        # As dash and bash write with -n.
        ("a.sh: 2: Syntax error: \"fi\" unexpected", ("a.sh", 2, 0, "error", "Syntax error: \"fi\" unexpected")),
        ("a.sh: line 2: syntax error near `fi'", ("a.sh", 2, 0, "error", "syntax error near `fi'")),
        ("a.py:9: error: Name 'x' is not defined  [name-defined]", ("a.py", 9, 0, "error", "Name 'x' is not defined [name-defined]")),
        ("src/a.ts(4,7): error TS2322: Type 'string'", ("src/a.ts", 4, 7, "error", "error TS2322: Type 'string'")),
        ("/ws/a.py:1:1: F401 unused", ("a.py", 1, 1, "error", "F401 unused")),
    ],
    ids=["gcc", "shellcheck", "dash", "bash", "mypy", "tsc", "ruff"],
)  # fmt: skip
def test_the_lines_of_compilers_and_linters_are_read(output: str, expected: tuple[object, ...]) -> None:
    (found,) = diagnostics_in(f"checking 1 file\n{output}\nFound 1 error.\n", "lint", "/ws")

    assert (found.path, found.line, found.column, found.severity, found.message) == expected


def test_the_changed_lines_are_those_that_a_diff_adds() -> None:
    assert changed_lines("a\nb\nc\n", "a\nx\nb\nc\ny\n") == {2, 5}
    assert changed_lines(None, "a\nb\n") == range(1, 4)


# -- Python ---------------------------------------------------------------------------------------


async def test_python_is_compiled_without_any_checker_and_nothing_of_it_runs(tmp_path: Path) -> None:
    checks = CheckedWrites(tmp_path)
    marker = tmp_path / "ran"
    good = f"open({str(marker)!r}, 'w')\n".encode()

    broken = await checks.check([Change(path="a.py", kind="modify", before=good, after=good + b"def f(:\n")])
    fine = await checks.check([Change(path="a.py", kind="modify", before=b"def f(:\n", after=good)])
    known = await checks.check(
        [Change(path="a.py", kind="modify", before=b"def f(:\n", after=b"x = 1\ndef f(:\n")]
    )
    other = await checks.check([Change(path="a.txt", kind="create", before=None, after=b"def f(:\n")])

    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    assert lines(broken) == [f"a.py:2:7: error: SyntaxError: invalid syntax ({version})"]
    assert fine is None
    assert known is None
    assert other is None
    assert not marker.exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"return 1\n", "SyntaxError: 'return' outside function"),
        (b"if x:\npass\n", "IndentationError: expected an indented block after 'if' statement on line 1"),
        (b"# coding: no-such\n", "SyntaxError: unknown encoding: no-such"),
        (b"x = '\xff'\n", "SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"(" * 100_000, "too many nested parentheses"),
        (b"a\x00b", "null bytes"),
    ],
)  # fmt: skip
def test_what_the_compiler_refuses_is_one_problem(data: bytes, said: str) -> None:
    (found,) = python_syntax("a.py", data)

    assert said in found.message
    assert found.severity == "error"


def test_what_the_compiler_only_warns_of_is_neither_said_nor_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert python_syntax("a.py", b"x = '\\d'\ny = 1 is 1\n") == []
    assert capsys.readouterr() == ("", "")
