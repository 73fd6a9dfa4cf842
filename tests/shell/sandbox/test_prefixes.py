"""Interpreters on PATH are found, homes are not bound."""

from __future__ import annotations

import os
from pathlib import Path

from pegboard.shell.sandbox.prefixes import interpreter_prefixes


def make(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_virtualenv_brings_the_python_that_it_was_made_from(tmp_path: Path) -> None:
    base = tmp_path / "pythons" / "3.12"
    make(base / "bin" / "python3.12")
    make(base / "lib" / "python3.12" / "os.py")
    venv = tmp_path / "venv"
    make(venv / "pyvenv.cfg", f"home = {base}/bin\n")
    (venv / "bin").mkdir()
    (venv / "bin" / "python3").symlink_to(base / "bin" / "python3.12")

    assert set(interpreter_prefixes(f"{venv}/bin:/usr/bin")) == {venv, base}


def test_node_and_pyenv_are_bound_whole(tmp_path: Path) -> None:
    make(tmp_path / "nvm" / "v20" / "bin" / "node")
    (tmp_path / "nvm" / "v20" / "lib" / "node_modules").mkdir(parents=True)
    make(tmp_path / "pyenv" / "shims" / "python3")

    found = interpreter_prefixes(f"{tmp_path}/nvm/v20/bin:{tmp_path}/pyenv/shims")

    assert set(found) == {tmp_path / "nvm" / "v20", tmp_path / "pyenv"}


def test_a_plain_folder_is_bound_alone_and_its_siblings_are_not(tmp_path: Path) -> None:
    make(tmp_path / "home" / ".local" / "bin" / "tool")
    make(tmp_path / "home" / ".local" / "lib" / "python3.12" / "site-packages" / "x.py")
    make(tmp_path / "home" / ".cargo" / "bin" / "cargo")
    make(tmp_path / "home" / ".cargo" / "credentials.toml")
    (tmp_path / "home" / ".rustup").mkdir()

    found = interpreter_prefixes(f"{tmp_path}/home/.local/bin:{tmp_path}/home/.cargo/bin")

    home = tmp_path / "home"
    assert set(found) == {home / ".local" / "bin", home / ".cargo" / "bin", home / ".rustup"}


def test_system_relative_and_missing_folders_need_no_bind(tmp_path: Path) -> None:
    assert interpreter_prefixes(f"/usr/bin:/bin:relative::{tmp_path}/missing") == ()


def test_a_folder_on_path_that_this_user_may_not_look_into_is_left_out(tmp_path: Path) -> None:
    closed = tmp_path / "other" / "bin"
    make(closed / "python3")
    (tmp_path / "other").chmod(0)
    child = os.fork()
    if child == 0:
        # Root may look everywhere, so the child is somebody else.
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            os._exit(0 if interpreter_prefixes(f"{closed}:/usr/bin") == () else 1)
        except OSError:
            os._exit(2)

    _, status = os.waitpid(child, 0)

    (tmp_path / "other").chmod(0o700)
    assert os.waitstatus_to_exitcode(status) == 0
