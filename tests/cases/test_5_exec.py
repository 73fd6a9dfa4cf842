"""Theme 5: a command always comes back, with what it said and how it ended."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pegboard import AllowOnce, Executor
from pegboard.process.output import decode_output
from tests.cases.kit import door, of_kind, row_id, rows
from tests.ledger import owes


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Executor]:
    async with door(tmp_path, "exec", "process", "read_file", approver=AllowOnce()) as tools:
        yield tools


async def ran(shell: Executor, command: str, **more: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = await shell.call("exec", {"command": command, **more})
    return result, time.perf_counter() - begun


@owes("exec-02", "exec-10", "exec-18", "exec-27", "C-24")
@pytest.mark.parametrize("row", of_kind("5-exec", "shell"), ids=row_id)
async def test_a_command_gives_the_bytes_that_a_terminal_gives(row: dict[str, Any], shell: Executor) -> None:
    calc = row["calc"]

    result, took = await ran(shell, calc["cmd"])

    assert took < calc.get("returns_within", 10)
    assert result.data["exit_code"] == calc.get("rc", 0)
    wanted = bytes.fromhex(calc["bytes"]).decode("utf-8", "replace") if "bytes" in calc else calc["out"]
    assert result.data["stdout"].strip() == wanted.strip()


@owes("exec-11")
@pytest.mark.parametrize("row", of_kind("5-exec", "shellcount"), ids=row_id)
async def test_no_character_is_lost_at_the_border_of_a_chunk(row: dict[str, Any], shell: Executor) -> None:
    result, _ = await ran(shell, row["calc"]["cmd"])

    assert result.ok and "\ufffd" not in str(result)
    assert result.data["exit_code"] == 0
    spill = result.notes.spill
    whole = result.data["stdout"]
    assert len(whole.encode()) == row["calc"]["nbytes"] or spill, len(whole.encode())
    if spill:
        page = await shell.call("read_file", {"path": spill, "numbered": False})
        assert page.ok and "\ufffd" not in str(page)


@owes("exec-13")
@pytest.mark.parametrize("row", of_kind("5-exec", "decode"), ids=row_id)
async def test_output_in_a_code_page_is_read(row: dict[str, Any]) -> None:
    calc = row["calc"]
    assert calc["text"] in decode_output(bytes.fromhex(calc["hex"]), fallbacks=(calc["enc"],))


@owes("exec-03")
@pytest.mark.slow
async def test_a_background_writer_neither_holds_the_call_nor_reaches_the_next(shell: Executor) -> None:
    first, took = await ran(
        shell, "(while :; do echo tick; sleep 0.1; done) & sleep 0.5; echo FG", timeout=20
    )
    second, _ = await ran(shell, "echo clean")

    assert took < 4 and "FG" in first.data["stdout"]
    assert second.data["stdout"].strip() == "clean"


@owes("exec-04", "N-65", "D-60", "C-29")
@pytest.mark.slow
async def test_a_timeout_reaches_what_left_the_group(shell: Executor) -> None:
    mark = f"3{os.getpid()}.25"

    result, took = await ran(shell, f"setsid sh -c 'sleep {mark}' & sleep {mark}", timeout=1)

    assert took < 6 and not result.ok and result.error is not None and result.error.code == "timeout"
    left = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, text=True).stdout
    assert left == ""


@owes("exec-06")
@pytest.mark.slow
async def test_git_never_waits_for_a_person(shell: Executor, tmp_path: Path) -> None:
    setup = (
        "git init -q . && git config user.email a@b && git config user.name n && for i in $(seq 60); do "
        'git commit -q --allow-empty -m "c$i"; done; echo x > f && git add f'
    )
    assert (await ran(shell, setup, timeout=60))[0].data["exit_code"] == 0

    log, took = await ran(shell, "git log")
    assert took < 5 and "c1" in log.data["stdout"] and "c60" in log.data["stdout"]
    assert "\x1b" not in log.data["stdout"]
    for command in ("git commit", "git rebase -i HEAD~2", "git clone https://127.0.0.1:1/x.git"):
        result, took = await ran(shell, command, timeout=8)
        assert took < 5, command
        assert result.ok or result.error.code != "timeout"


@owes("exec-08", "N-67", "X-19")
@pytest.mark.slow
async def test_a_flood_keeps_head_tail_and_the_exit_code(shell: Executor) -> None:
    result, _ = await ran(
        shell, "echo BEGIN; yes 0123456789abcdef | head -c 20000000; echo END; exit 3", timeout=60
    )

    text = str(result)
    assert result.data["exit_code"] == 3
    assert len(text) < 12_000 and "BEGIN" in text and "END" in text
    assert re.search(r"\d[\d,]{5,}", text)


@owes("exec-12")
async def test_no_zero_byte_reaches_the_model(shell: Executor) -> None:
    result, _ = await ran(shell, "printf 'h\\000i\\000\\n\\000'")

    assert "\x00" not in str(result) and "\x00" not in result.data["stdout"]
    assert "h" in str(result) and "i" in str(result)


@owes("exec-14")
async def test_colours_and_progress_end_as_a_person_sees_them(shell: Executor) -> None:
    result, _ = await ran(shell, "printf '\\033[31mred\\033[0m\\n'; printf '10%%\\r50%%\\r100%%\\n'")

    assert str(result).splitlines()[:2] == ["red", "100%"]


@owes("exec-15", "N-66", "D-24", "C-27", "X-18")
async def test_both_streams_are_labelled_and_stderr_is_no_failure(shell: Executor) -> None:
    result, _ = await ran(shell, "echo out; echo warn >&2; exit 0")

    assert result.ok
    assert str(result) == "out\nSTDERR:\nwarn\n\nExit code: 0"


@owes("exec-16")
@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1), ("test -f nope", 1)])
async def test_silence_is_said(command: str, code: int, shell: Executor) -> None:
    result, _ = await ran(shell, command)

    assert result.ok and "no output" in str(result) and f"Exit code: {code}" in str(result)


@owes("exec-19", "N-62", "C-25")
async def test_nothing_lasts_between_calls_and_a_missing_folder_is_named(
    shell: Executor, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()

    await ran(shell, "cd sub && export A=1")
    after, _ = await ran(shell, "pwd; echo ${A:-unset}")
    named, _ = await ran(shell, "pwd", working_dir="sub")
    gone, _ = await ran(shell, "pwd", working_dir="gone")

    assert after.data["stdout"].split() == [str(tmp_path.resolve()), "unset"]
    assert named.data["stdout"].strip() == str(tmp_path.resolve() / "sub")
    assert not gone.ok and "gone" in str(gone)


@owes("exec-21")
@pytest.mark.slow
async def test_many_commands_leave_nothing_open(shell: Executor) -> None:
    await ran(shell, "true")
    gc.collect()  # What earlier tests left to the collector must not be counted as ours.
    descriptors = len(os.listdir("/proc/self/fd"))

    for _ in range(10):
        await asyncio.gather(*(ran(shell, "true") for _ in range(3)))
    for _ in range(4):
        await ran(shell, "sleep 5", timeout=0.05)
        call = asyncio.ensure_future(ran(shell, "sleep 5"))
        await asyncio.sleep(0.05)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    gc.collect()
    assert len(os.listdir("/proc/self/fd")) - descriptors <= 3
    states = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "stat="], capture_output=True, text=True
    ).stdout
    assert "Z" not in states


@owes("exec-23", "K-43", "K-45", "X-20", "X-21", "M-09", "M-11")
@pytest.mark.slow
async def test_a_background_command_is_followed_to_its_end(shell: Executor) -> None:
    started, _ = await ran(shell, "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; exit 4", background=True)
    id = started.data["process_id"]
    seen: list[str] = re.findall(r"^\d$", started.data["stdout"], re.MULTILINE)
    for _ in range(60):
        polled = await shell.call("process", {"action": "poll", "process_id": id, "timeout": 0.2})
        seen += re.findall(r"^\d$", polled.data["output"], re.MULTILINE)
        if polled.data["state"] != "running":
            break
    kept = await shell.call("process", {"action": "log", "process_id": id})
    unknown = await shell.call("process", {"action": "kill", "process_id": "nope"})
    listed = await shell.call("process", {"action": "list"})

    assert seen == ["1", "2", "3", "4", "5"]
    assert kept.data["exit_code"] == 4 and "3" in kept.data["output"]
    assert not unknown.ok and id in str(unknown)
    assert id in str(listed)


@owes("exec-24", "K-34")
async def test_keys_of_our_environment_stay_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_SECRET_TOKEN"):
        monkeypatch.setenv(name, f"sk-test-{name.lower()}-1234567890")
    (tmp_path / "leak").write_text("sk-test-openai_api_key-1234567890\n")

    async with door(tmp_path, "exec", approver=AllowOnce()) as tools:
        result = await tools.call("exec", {"command": "env; cat leak"})

    assert "sk-test" not in str(result) and "OPENAI_API_KEY=" not in str(result)
    assert "PATH=" in str(result) and "HOME=" in str(result)


@owes("exec-27")
async def test_a_loop_a_syntax_error_and_two_lines_run_as_the_shell_says(shell: Executor) -> None:
    loop, broken, two = [(await ran(shell, c))[0] for c in rows("5-exec")["exec-27"]["input"]["commands"]]

    assert loop.data["stdout"].split() == ["1", "2", "3"]
    assert broken.data["exit_code"] == 2 and "syntax error" in broken.data["stderr"]
    assert two.data["stdout"].split() == ["a", "b"]


@owes("exec-28")
@pytest.mark.slow
async def test_a_busy_command_holds_up_no_other(shell: Executor) -> None:
    busy, took = await ran(shell, "sleep 20", yield_ms=300)
    assert took < 3 and busy.data["state"] == "running"

    result, took = await ran(shell, "echo hi")

    assert took < 3 and result.data["stdout"].strip() == "hi"
    assert (await shell.call("process", {"action": "kill", "process_id": busy.data["process_id"]})).ok


@owes("exec-02", "exec-24")
@pytest.mark.slow
async def test_a_command_in_a_terminal_that_leaves_nothing_behind_says_nothing_of_it(shell: Executor) -> None:
    result, _ = await ran(shell, "echo hi; env | grep ^PWD", pty=True, yield_ms=8000)
    listed = await shell.call("process", {"action": "list"})

    folder = (await ran(shell, "pwd"))[0].data["stdout"].strip()
    assert str(result).splitlines() == ["hi", f"PWD={folder}", "", "Exit code: 0"]
    assert str(listed) == "No background commands."
