"""Everything in a fence of README and docs works: Python and console fences run, settings load, shell lines parse.

- ```python: runs as it stands, in a folder with `notes.txt` and `a.txt`.
- ```console: each `$` line runs there (`pegboard`, `python` or `cat`). The lines below it are printed, in that order; `…` stands
  for any text, and in a command (`undo run_…`) for the first such word of the output before it. `# exit status N` at the end of a
  command says that it ends so; 128 + N is a process that signal N ended, as in a shell.
- ```sh: each `pegboard` line is a command with options that exist.
- ```toml with a comment `# …/pegboard.toml` at its start: settings that load.

A fence that begins with a comment `# FILE`, or follows the line `<!-- file FILE -->`, is that file for the other fences of its
page. A word of a command that begins with `~/` lies in the home folder, as in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command

import pegboard
from pegboard.cli.main import app
from pegboard.config.load import load_config
from pegboard.config.paths import Paths

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "decisions"),
]
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT / "src"),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "sh", "toml", "text", "json"}
MARKED = re.compile(r"^<!-- file (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w[\w./-]*\.(?:py|toml|jsonl|md))\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    page: Path
    number: int
    language: str
    text: str


def all_fences() -> list[Fence]:
    return [
        Fence(page=page, number=number, language=match[2], text=match[3])
        for page in PAGES
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), 1)
    ]


FENCES = all_fences()


def fences(language: str) -> list[Any]:
    """The fences of one language, with page and number as id."""
    return [
        pytest.param(fence, id=f"{fence.page.relative_to(ROOT)}-{fence.number}")
        for fence in FENCES
        if fence.language == language
    ]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The folder that the pages start in."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("The release is on Friday.\n", encoding="utf-8")
    (folder / "a.txt").write_text("one two three\n", encoding="utf-8")
    return folder


def write_files(page: Path, folder: Path) -> None:
    """The fences of a page that are files."""
    texts = [f.text for f in FENCES if f.page == page]
    found = [(name[1], text) for text in texts if (name := FILE.match(text))]
    for name, text in [*found, *MARKED.findall(page.read_text(encoding="utf-8"))]:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("fence", fences("python"))
def test_python_fences_run(fence: Fence, workspace: Path) -> None:
    write_files(fence.page, workspace)
    file = FILE.match(fence.text)
    # A file is imported, as its readers do: what it defines is then found under its name.
    code = f"import {file[1][:-3]}" if file and file[1][:-3].isidentifier() else fence.text
    completed = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )

    assert completed.returncode == 0, completed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fence", fences("console"))
def test_commands_run_and_print_what_the_page_shows(fence: Fence, workspace: Path, tmp_path: Path) -> None:
    # A home folder of its own: the history that a page shows is its own.
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    write_files(fence.page, workspace)
    steps = [step.splitlines() for step in re.split(r"^\$ ", fence.text, flags=re.MULTILINE) if step]
    assert steps

    before = ""
    for command, *shown in steps:
        words = [completed_word(word, before) for word in shlex.split(command, comments=True)]
        words = [re.sub(r"^~(?=/)", str(tmp_path), word) for word in words]
        programs = {"pegboard": [sys.executable, "-m", "pegboard.cli.main"], "python": [sys.executable]}
        status = int(match[1]) if (match := re.search(r"# exit status (\d+)$", command)) else 0
        completed = subprocess.run(
            [*programs.get(words[0], [words[0]]), *words[1:]], cwd=workspace, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, **home, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        ended = completed.returncode if completed.returncode >= 0 else 128 - completed.returncode
        assert words[0] in {"cat", *programs} and ended == status, f"{command}\n{completed.stdout}"
        printed = iter(completed.stdout.splitlines())
        for line in shown:
            pattern = ".*".join(re.escape(part) for part in line.split("…"))
            assert any(re.fullmatch(pattern, p) for p in printed), f"{command}: {line}\n{completed.stdout}"
        before = completed.stdout + before


def completed_word(word: str, output: str) -> str:
    """`run_…` with the ID that some output shows."""
    start, ellipsis, _ = word.partition("…")
    if not ellipsis:
        return word
    match = re.search(rf"{re.escape(start)}\w+", output)
    assert match, f"no {word} in: {output}"
    return match[0]


@pytest.mark.parametrize("fence", fences("sh"))
def test_commands_in_shell_fences_exist_with_their_options(fence: Fence) -> None:
    for line in fence.text.splitlines():
        words = shlex.split(re.split(r" [<>|] ", line)[0], comments=True)
        if words[:1] != ["pegboard"]:
            continue
        command, rest = cast(Any, get_command(app)), words[1:]
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        command.make_context(line, rest)  # raises for what is unknown


@pytest.mark.parametrize("fence", fences("toml"))
def test_settings_load(fence: Fence, tmp_path: Path) -> None:
    assert tomllib.loads(fence.text)
    if not fence.text.splitlines()[0].endswith("pegboard.toml"):
        return
    write_files(fence.page, tmp_path)
    file = tmp_path / "pegboard.toml"
    file.write_text(fence.text, encoding="utf-8")

    load_config(Paths.of({"HOME": str(tmp_path)}), None, file=file, environment={})


def test_every_fence_has_a_language_that_is_checked() -> None:
    assert [(str(f.page), f.number, f.language) for f in FENCES if f.language not in LANGUAGES] == []
    # An indented block would not be checked.
    assert [
        (str(page), line)
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("    pegboard ")
    ] == []


def test_every_public_name_is_used_in_code_that_runs() -> None:
    code = "\n".join(fence.text for fence in FENCES if fence.language == "python")

    assert [name for name in pegboard.__all__ if not re.search(rf"\b{name}\b", code)] == []
    table = (ROOT / "docs/guides/names.md").read_text(encoding="utf-8")
    assert [name for name in pegboard.__all__ if f"`{name}`" not in table] == []


def test_every_guide_is_linked_from_the_first_page() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")

    assert [p.name for p in (ROOT / "docs/guides").glob("*.md") if f"(guides/{p.name})" not in index] == []


def test_no_page_names_a_ledger_row_or_a_decision() -> None:
    pattern = re.compile(r"\b[A-Z]-\d\d\b|\bdecisions? \d|\bDESIGN\b|\bledger\b")

    assert [
        (str(page), line)
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ] == []
