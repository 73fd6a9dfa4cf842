"""The sandbox's /etc: few mounts, and what the host says at this moment."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from pegboard.shell.sandbox import profile
from tests.ledger import owes
from tests.shell.kit import run, shell_in


def _kept(opened: list[int]) -> Callable[[int], int]:
    return lambda fd: opened.append(fd) or fd


def test_folders_are_mounted_files_copied_and_links_into_usr_stay_links(tmp_path: Path) -> None:
    (tmp_path / "alternatives").mkdir()
    (tmp_path / "services").write_text("http 80/tcp\n")
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    (tmp_path / "os-release").symlink_to("services")
    os.mkfifo(tmp_path / "timezone")
    opened: list[int] = []

    folders = profile.etc_binds(str(tmp_path))
    arguments = profile.etc_files(_kept(opened), str(tmp_path))

    assert folders == ["--ro-bind", f"{tmp_path}/alternatives", "/etc/alternatives"]
    assert arguments == [
        *("--symlink", "/usr/share/zoneinfo/UTC", "/etc/localtime"),
        *("--perms", "0444", "--file", str(opened[0]), "/etc/services"),
        *("--perms", "0444", "--file", str(opened[1]), "/etc/os-release"),
    ]  # fmt: skip
    assert [os.read(fd, 100) for fd in opened] == [b"http 80/tcp\n"] * 2
    for fd in opened:
        os.close(fd)


def test_a_linked_folder_is_mounted_and_no_second_time_a_link(tmp_path: Path) -> None:
    (tmp_path / "fonts").symlink_to("/usr/share")
    opened: list[int] = []

    assert profile.etc_binds(str(tmp_path)) == ["--ro-bind", f"{tmp_path}/fonts", "/etc/fonts"]
    assert profile.etc_files(_kept(opened), str(tmp_path)) == []
    assert opened == []


@owes("X-58")
async def test_inside_etc_says_what_the_host_says_and_cannot_be_written(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    names = ("ld.so.cache", "nsswitch.conf", "os-release", "debian_version", "localtime")
    there = [name for name in names if os.path.isfile(f"/etc/{name}")]

    outcome = await run(
        shell,
        f"cd /etc; sha256sum {' '.join(there)}; readlink localtime;"
        " echo x >> passwd; echo x >> nsswitch.conf; grep -c ' /etc/[a-z]*.conf ' /proc/self/mountinfo",
    )

    lines = outcome.stdout.splitlines()
    digests = [hashlib.sha256(Path("/etc", name).read_bytes()).hexdigest() for name in there]
    assert [line.split()[0] for line in lines[: len(there)]] == digests
    if os.path.islink("/etc/localtime"):
        assert lines[len(there)] == os.path.realpath("/etc/localtime")
    assert outcome.stderr.count("Permission denied") == 2
    assert lines[-1] == "0"
