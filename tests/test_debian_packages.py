"""scripts/debian_packages.sh, with stand-ins for the programs of Debian."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SERVER = "" if Path("/usr/lib/postgresql/15/bin/postgres").exists() else " postgresql-15"
"""The script looks for the server where Debian keeps it, beside PATH."""
SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "debian_packages.sh"


def run(folder: Path, **programs: str) -> str:
    """What the script prints where only these programs, sh and tail are found."""
    for name, text in programs.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    for name in ("sh", "tail"):
        found = next(Path(p, name) for p in os.defpath.split(":") if Path(p, name).exists())
        (folder / name).symlink_to(found)
    done = subprocess.run(
        [folder / "sh", SCRIPT],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout + done.stderr


def test_a_group_that_a_statoverride_names_and_nobody_has_is_made_before_the_installation(
    tmp_path: Path,
) -> None:
    said = run(
        tmp_path, id="echo 0", dpkg_statoverride="echo root ssl-cert 710 /etc/ssl/private; echo root mail 755 /x",
        getent="[ $2 = mail ]", groupadd='echo "groupadd $@"', apt_get='[ $1 = update ] || echo "apt-get $@" >&2',
    )  # fmt: skip

    assert said.splitlines() == [
        f"installing Debian packages: bubblewrap ripgrep git tmux openssl curl util-linux chromium espeak-ng{SERVER}",
        "groupadd --system ssl-cert",
    ]


def test_an_installation_that_fails_says_why_and_what_is_missing(tmp_path: Path) -> None:
    said = run(
        tmp_path, id="echo 0", dpkg_statoverride="", getent="", groupadd="", git="", tmux="", curl="",
        openssl="", nsenter="", rg="", chromium="", espeak_ng="", apt_get="echo E: no space; exit 100",
    )  # fmt: skip

    assert f"E: no space\nmissing: bubblewrap{SERVER}\n" in said


def test_who_is_not_root_is_told_what_to_install(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        id="echo 1000",
        git="",
        tmux="",
        curl="",
        openssl="",
        nsenter="",
        rg="",
        chromium="",
        espeak_ng="",
    )

    assert "missing: bubblewrap" in said
    assert "apt-get install bubblewrap" in said
