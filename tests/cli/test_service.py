"""`pegboard service`, on a machine without a user's systemd and with programs in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Only these programs are on PATH, beside the shell's."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))


def test_without_systemd_the_unit_is_printed_and_what_is_missing_is_told(
    pegboard: Run, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch)

    printed = pegboard("service", "install", "worker", "--most", "3", "--print")
    done = pegboard("service", "install", "worker", "--most", "3")

    assert printed.status == 0 and done.status == 1
    assert done.out == printed.out
    assert f"-m pegboard worker --workspace {workspace} --most 3\n" in done.out
    assert "no systemctl on PATH" in done.err and "pegboard-worker.service" in done.err
    assert pegboard("service", "status").out.startswith("no service is installed")


def test_with_systemd_it_is_installed_and_its_log_shown(
    pegboard: Run, command: Run, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    shows = 'case "$2" in show) echo ActiveState=active; echo SubState=running; echo MainPID=5;; esac'
    programs(
        tmp_path / "bin", monkeypatch, systemctl=shows, loginctl="echo no", journalctl='echo "asked: $*"'
    )

    done = pegboard("service", "install", "--name", "mine", "serve", "--port", "0", "--model", "local")
    status = pegboard("service", "status", "--json")
    log = command("service", "logs", "mine", "-n", "7")
    removed = pegboard("service", "remove", "mine")

    assert done.status == 0, done.err
    token = (
        (home / ".config/pegboard/service-mine.env").read_text().partition("PEGBOARD_TOKEN=")[2].split()[0]
    )
    assert token and token not in done.out + done.err
    assert "loginctl enable-linger" in done.err
    assert '"state":"active (running)"' in status.out.replace('": "', '":"')
    assert log.out == "asked: --user --user-unit=pegboard-mine.service --lines=7 --no-pager\n"
    assert removed.status == 0 and "service-mine.env is kept" in removed.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["install", "chat"], "serve or worker, not 'chat'"),
        (["install", "serve", "--prot", "1"], "No such option: --prot"),
        (["install", "serve", "--port", "many"], "--port"),
        (["restart"], "install, status, logs or remove"),
        (["logs", "none"], "no service is named 'none'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    pegboard: Run, home: Path, words: list[str], told: str
) -> None:
    done = pegboard("service", *words)

    assert done.status == 2 and told in done.err
    assert not os.path.exists(home / ".config/systemd")
