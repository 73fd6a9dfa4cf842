"""`pegboard channels`: what there is, whether it works, and whose fault it is where it does not."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.fakes.platforms.telegram import TOKEN, Telegram


async def pegboard(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pegboard", *arguments, cwd=cwd, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_a_channel_is_listed_and_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Telegram()
    monkeypatch.setenv("CHAT_TOKEN", TOKEN)
    async with platform.running():
        file = tmp_path / "pegboard.json"
        file.write_text(json.dumps({"channels": {"phone": platform.options()}}))

        status, out, _ = await pegboard("channels", "--json", "--config", str(file), cwd=tmp_path)
        assert status == 0
        rows = {row["name"]: row for row in json.loads(out)}
        assert rows["phone"]["kind"] == "telegram" and rows["phone"]["chat"]
        assert not rows["terminal"]["chat"]

        status, out, err = await pegboard(
            "channels", "test", "phone", "--chat", "1001", "--config", str(file), cwd=tmp_path
        )
        assert (status, out) == (0, "phone works: we are @peg_bot\nthe message is sent\n"), err
        assert platform.shown[0].text == "A test message of Pegboard."

        platform.wrong_token = True
        status, out, err = await pegboard("channels", "test", "phone", "--config", str(file), cwd=tmp_path)
        assert status != 0 and "refuses the token" in err
        assert TOKEN not in out + err


async def test_a_channel_that_does_not_exist_is_told_with_those_there_are(tmp_path: Path) -> None:
    status, _, err = await pegboard("channels", "status", "nope", cwd=tmp_path)

    assert status != 0 and "no channel 'nope'" in err and "terminal" in err
