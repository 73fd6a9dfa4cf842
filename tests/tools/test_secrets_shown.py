"""No page, match or piece of output shows a part of a secret that the whole would not show."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pegboard import Executor, builtin
from pegboard.core.secrets.redact import Redactor
from pegboard.files.text import read_slice
from pegboard.shell.background import BackgroundCommands
from pegboard.tools.exec import exec_
from pegboard.tools.process import process
from tests.shell.kit import shell_in

TOKEN = "ghp_" + "Qx7vR2mKp9" * 3 + "Zt4WbN"
"""A GitHub token: the beginning and 36 letters."""


def rsa_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def openssh_key() -> str:
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def putty_key() -> str:
    letters = rsa_key().splitlines()[1:-1]
    return (
        f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: {len(letters)}\n"
        + "\n".join(letters)
        + "\nPrivate-MAC: 0"
    )


KEYS = {"rsa": rsa_key(), "openssh": openssh_key(), "putty": putty_key()}


def shown(key: str, text: str) -> list[str]:
    """Which letters of the key stand in a text, eight at a time."""
    letters = [line for line in key.splitlines() if re.fullmatch(r"[A-Za-z0-9+/=]{8,}", line)]
    return [line for line in letters if any(line[i : i + 8] in text for i in range(len(line) - 7))]


def everything(result: Any) -> str:
    """What a model and a program get of a call."""
    return f"{result}\n{json.dumps(result.data)}\n{result.error}"


@pytest.mark.parametrize("kind", KEYS)
async def test_no_page_of_a_file_shows_a_line_of_a_key(kind: str, tmp_path: Path) -> None:
    key = KEYS[kind]
    (tmp_path / "id.txt").write_text(f"first\n{key.rstrip()}\nlast\n")
    total = len(key.rstrip().splitlines()) + 2

    async with Executor(builtin("read_file"), workspace=tmp_path) as executor:
        for first in (*range(1, total + 1), -3, -9):
            for limit in (1, 5, None):
                page = await executor.call(
                    "read_file", {"path": "id.txt", "offset": first, "limit": limit, "force": True}
                )
                assert page.ok
                assert shown(key, everything(page)) == [], (first, limit)
        last = await executor.call("read_file", {"path": "id.txt", "offset": total, "force": True})

    assert str(last) == f"{total:6d}→last"


async def test_a_page_that_ends_inside_a_key_keeps_its_line_numbers_and_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "id.txt").write_text(f"first\n{KEYS['rsa']}last\n")

    async with Executor(builtin("read_file"), workspace=tmp_path) as executor:
        lines = str(await executor.call("read_file", {"path": "id.txt", "limit": 6})).splitlines()

    assert lines[:2] == ["     1→first", "     2→-----BEGIN RSA PRIVATE KEY-----"]
    assert [line[:17] for line in lines[2:6]] == [f"     {n}→[redacted:" for n in (3, 4, 5, 6)]
    assert lines[6] == "[lines 1-6 of 29; offset=7 goes on]"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_key_is_known_in_every_encoding_and_far_into_a_file(encoding: str, tmp_path: Path) -> None:
    key = KEYS["rsa"]
    for before in (1, 30_000):
        (tmp_path / "id.txt").write_bytes(("Größe\n" * before + key).encode(encoding))
        file = os.open(tmp_path / "id.txt", os.O_RDONLY)
        try:
            part = read_slice(file, offset=before + 6, limit=15)
        finally:
            os.close(file)
        assert part.text.count("\n") == 15
        assert shown(key, part.text) == []


async def test_a_long_line_with_a_key_is_cut_without_a_part_of_it(tmp_path: Path) -> None:
    key = KEYS["rsa"]
    (tmp_path / "account.json").write_text(
        json.dumps({"a": "x" * 900, "private_key": key, "note": "y" * 900})
    )

    async with Executor(builtin("read_file", "grep"), workspace=tmp_path) as executor:
        page = await executor.call("read_file", {"path": "account.json"})
        hits = [
            await executor.call(
                "grep", {"pattern": line[20:40], "path": "account.json", "fixed_strings": True}
            )
            for line in key.splitlines()[1:-1:4]
        ]

    assert [shown(key, everything(result)) for result in (page, *hits)] == [[]] * (len(hits) + 1)


@pytest.mark.parametrize("kind", KEYS)
async def test_no_match_shows_a_line_of_a_key(kind: str, tmp_path: Path) -> None:
    key = KEYS[kind]
    (tmp_path / "id.txt").write_text(f"first\n{key.rstrip()}\nlast\n")

    async with Executor(builtin("grep"), workspace=tmp_path) as executor:
        every = await executor.call("grep", {"pattern": "."})
        around = await executor.call("grep", {"pattern": "last", "context": 5})

    assert shown(key, everything(every) + everything(around)) == []
    assert "id.txt:1:first" in str(every)
    assert "last" in str(around)


async def test_a_known_value_broken_over_lines_is_shown_in_no_page_and_no_match(tmp_path: Path) -> None:
    redactor = Redactor({"TOKEN": "plumviolin77stairs"})
    (tmp_path / "a.txt").write_text("one\nplumvioli\nn77stairs\nfour\n")

    async with Executor(builtin("read_file", "grep"), workspace=tmp_path) as executor:
        said = [
            everything(await executor.call("read_file", {"path": "a.txt", "offset": 3})),
            everything(await executor.call("read_file", {"path": "a.txt", "limit": 2})),
            everything(await executor.call("grep", {"pattern": "77"})),
        ]

    assert not any("plumvi" in text or "7stairs" in text for text in said), said
    assert redactor.redact("one")[0] == "one"


# ---------------------------------------------------------------------- commands


@pytest.fixture
async def commands(tmp_path: Path) -> AsyncIterator[Executor]:
    shell = await shell_in(tmp_path, "none")
    jobs = BackgroundCommands(shell)
    executor = Executor([exec_, process], mode="full", provide=[shell, jobs])
    yield executor
    await jobs.close()


@pytest.mark.parametrize(
    "command",
    [
        "sed -n 6,20p id.txt",
        "tail -n 8 id.txt",
        "head -n 20 id.txt | tail -n 12 | cut -c 1-30",
        "grep -n '[A-Z]' id.txt | sed 1,4d",
        "sed 1,4d id.txt | tr -d '\\n'",
        "cat *.txt | awk 'NR > 5'",
        "python3 -c 'print(*open(\"id.txt\").read().split()[9:30])'",
        "sed -n 6,20p id.txt >&2",
        "cat id.txt",
    ],
)
async def test_no_part_of_a_key_is_shown_by_a_command(
    command: str, commands: Executor, tmp_path: Path
) -> None:
    if command.startswith("python3"):
        assert shutil.which("python3")
    key = KEYS["rsa"]
    (tmp_path / "ws" / "id.txt").write_text(f"one\ntwo\n{key}end\n")

    result = await commands.call("exec", {"command": command})

    assert result.ok
    assert shown(key, everything(result)) == []
    assert "[redacted:" in str(result)


async def test_a_certificate_and_a_digest_are_shown(commands: Executor, tmp_path: Path) -> None:
    (tmp_path / "ws" / "id.txt").write_text(KEYS["rsa"])
    letters = KEYS["openssh"].splitlines()[1:-1]
    (tmp_path / "ws" / "cert.pem").write_text("\n".join(letters))

    assert (
        str(await commands.call("exec", {"command": "cat cert.pem"})).splitlines()[: len(letters)] == letters
    )


async def started(commands: Executor, tmp_path: Path, script: str) -> str:
    """A background command that goes on when the file `go` is there; its id."""
    (tmp_path / "ws" / "g.sh").write_text(script)
    result = await commands.call("exec", {"command": "bash g.sh", "background": True})
    return str(result.data["process_id"])


WAIT = "until [ -e go ]; do sleep 0.02; done\n"


async def poll_until(commands: Executor, id: str, done: str) -> str:
    """What polling shows until it holds `done`."""
    said, state = "", "running"
    async with asyncio.timeout(20):
        while done not in said and state == "running":
            polled = await commands.call("process", {"action": "poll", "process_id": id, "timeout": 1})
            said, state = f"{said}{polled}", polled.data["state"]
    assert done in said
    return said


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (TOKEN[:20], TOKEN[20:]),
        (TOKEN[:9], TOKEN[9:]),
        ("export API_KEY=" + "Qx7v", "R2mKp9Zt4WbNQx7v"),
        ("Authorization: Bearer Qx7vR2", "mKp9Zt4WbNQx7vR2"),
        ("https://maria:Qx7vR", "2mKp9@host.example/"),
    ],
)
async def test_a_secret_that_comes_in_two_pieces_is_shown_in_no_poll(
    first: str, rest: str, commands: Executor, tmp_path: Path
) -> None:
    id = await started(
        commands, tmp_path, f"echo begin; printf '%s' '{first}'\n{WAIT}echo '{rest}'; echo finished\n"
    )

    said = await poll_until(commands, id, "begin")
    said += str(await commands.call("process", {"action": "log", "process_id": id}))
    said += str(
        await commands.call("process", {"action": "wait_for", "process_id": id, "text": first, "timeout": 5})
    )
    (tmp_path / "ws" / "go").touch()
    said += await poll_until(commands, id, "finished")

    secret = "Qx7vR2mKp9Zt4WbN"
    assert not any(secret[i : i + 5] in said for i in range(len(secret) - 4)), said


async def test_half_a_token_is_shown_neither_at_the_yield_nor_at_a_kill(
    commands: Executor, tmp_path: Path
) -> None:
    (tmp_path / "ws" / "g.sh").write_text(f"echo begin; printf '%s' '{TOKEN[:20]}'; sleep 60\n")

    yielded = await commands.call("exec", {"command": "bash g.sh", "yield_ms": 700})
    id = yielded.data["process_id"]
    killed = await commands.call("process", {"action": "kill", "process_id": id})
    last = await commands.call("process", {"action": "poll", "process_id": id})
    whole = await commands.call("process", {"action": "log", "process_id": id})

    assert "begin" in str(yielded)
    assert not any("Qx7vR" in everything(result) for result in (yielded, killed, last, whole))
    assert "[redacted:" in str(last)


async def test_half_a_token_is_not_shown_when_the_time_is_up(commands: Executor, tmp_path: Path) -> None:
    (tmp_path / "ws" / "g.sh").write_text(f"echo begin; printf '%s' '{TOKEN[:20]}'; sleep 60\n")

    result = await commands.call("exec", {"command": "bash g.sh", "timeout": 0.7})

    assert "begin" in str(result)
    assert "Qx7vR" not in everything(result)


async def test_a_key_that_comes_in_pieces_is_shown_in_no_poll(commands: Executor, tmp_path: Path) -> None:
    key = KEYS["rsa"]
    lines = key.splitlines()
    first, rest = "\n".join(lines[:9]) + "\n" + lines[9][:30], lines[9][30:] + "\n" + "\n".join(lines[10:])
    id = await started(
        commands, tmp_path, f"echo begin; printf '%s' '{first}'\n{WAIT}echo '{rest}'; echo finished\n"
    )

    said = await poll_until(commands, id, "begin")
    # Else the key would be known from this very file.
    (tmp_path / "ws" / "g.sh").unlink()
    (tmp_path / "ws" / "go").touch()
    said += await poll_until(commands, id, "finished")

    assert shown(key, said) == []


@pytest.mark.parametrize("prompt", ["Name? ", "Password: ", ">>> ", "Continue [y/N]", "root@host:/#", "50%"])
async def test_a_prompt_is_shown_at_once(prompt: str, commands: Executor, tmp_path: Path) -> None:
    id = await started(commands, tmp_path, f"printf '%s' '{prompt}'\n{WAIT}")

    assert prompt.strip() in await poll_until(commands, id, prompt.strip())
