"""What git's own diffs mean, judged by git: a tree is changed at random, diffed by git, and patched by us."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from pegboard.ports.files import Delete, Move, Write
from pegboard.textedit.patch import read_patch
from pegboard.textedit.patch_apply import PatchRules, apply_files
from tests.ledger import owes

NAMES = (
    "a.txt", "b c.txt", "é.txt", "d/x.py", "d/e/y", "日本/ファイル.md", 'q"uote.txt', "tab_x", "-dash",
    "a/b/c.txt", "b/n.txt", "we'ird", "x\\y.txt", " lead", "trail ",
)  # fmt: skip
LINES = (
    "foo", "bar", "baz", "", "\t\tindent", "  two", "x = 1", "日本語", "--- a", "+++ b", "@@ -1 +1 @@",
    "diff --git a b", "- item", "+ plus", "\\ No newline", "a\rb", "form\x0cfeed",
)  # fmt: skip
OPTIONS = (
    [], ["-M"], ["-C", "--find-copies-harder"], ["-B", "-M"], ["--no-prefix"], ["-U1"],
    ["-M20%", "-C20%", "--find-copies-harder"],
)  # fmt: skip
SEED = int(os.environ.get("PEGBOARD_SEED", "20"))


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.decode(
        "utf-8", "surrogateescape"
    )


def text(dice: random.Random) -> bytes:
    ending = dice.choice(["\n"] * 4 + ["\r\n"])
    body = ending.join(dice.choice(LINES) for _ in range(dice.choice([0, 1, 3, 12, 40])))
    return (body + (ending if body and dice.random() < 0.8 else "")).encode()


def changed(dice: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(dice.randint(1, 3)):
        at, what = dice.randrange(len(lines)), dice.random()
        if what < 0.4:
            lines.insert(at, b"new%d" % dice.randint(0, 99))
        elif what < 0.7 and len(lines) > 1:
            del lines[at]
        else:
            lines[at] = b"chg%d" % dice.randint(0, 99)
    return b"\n".join(lines)


def tree(root: Path) -> dict[str, tuple[bytes, bool]]:
    files = [p for p in sorted(root.rglob("*")) if p.is_file() and ".git" not in p.relative_to(root).parts]
    return {str(p.relative_to(root)): (p.read_bytes(), bool(p.stat().st_mode & 0o100)) for p in files}


def put(root: Path, name: str, data: bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def shuffle(dice: random.Random, root: Path) -> None:
    """Change, delete, move, copy and re-mode some files, and add one."""
    for name, (data, executable) in tree(root).items():
        path, what = root / name, dice.random()
        goal = dice.choice(["moved/", "d/", "zz "]) + f"{dice.randint(0, 99)} m.txt"
        if what < 0.4:
            path.write_bytes(changed(dice, data))
        elif what < 0.5:
            path.unlink()
        elif what < 0.8 and not (root / goal).exists():
            made = put(root, goal, changed(dice, data) if dice.random() < 0.5 else data)
            made.chmod(0o755 if executable else 0o644)
            if what < 0.65:
                path.unlink()
        elif what < 0.9:
            path.chmod(0o644 if executable else 0o755)
    if dice.random() < 0.5:
        put(root, "fresh é.txt", text(dice))


def patched(before: dict[str, tuple[bytes, bool]], diff: str) -> dict[str, tuple[bytes, bool]]:
    """The tree as our patch leaves it, by what it wants of the Files port."""
    done = apply_files(read_patch(diff), lambda path: before.get(path, (None, False))[0], rules=PatchRules())
    out = dict(before)
    for want in done.wanted:
        match want:
            case Write():
                like = before.get(want.like or want.path, (b"", False))[1]
                out[want.path] = want.data, like if want.mode is None else bool(want.mode & 0o100)
            case Delete():
                del out[want.path]
            case Move():
                data, executable = out.pop(want.path)
                out[want.to] = data if want.data is None else want.data, executable
    return out


def check(seed: int, folder: Path) -> None:
    dice = random.Random(seed)
    root = folder / str(seed)
    root.mkdir()
    git(root, "init", "-q")
    for name in dice.sample(NAMES, dice.randint(1, 8)):
        put(root, name, text(dice)).chmod(0o755 if dice.random() < 0.2 else 0o644)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "before")
    before = tree(root)
    shuffle(dice, root)
    git(root, "add", "-A")
    quoted = dice.choice(["true", "false"])
    diff = git(
        root, "-c", f"core.quotepath={quoted}", "diff", "--cached", "--text", *dice.choice(OPTIONS), "HEAD"
    )
    if diff:
        assert patched(before, diff) == tree(root), f"seed {seed}"
    shutil.rmtree(root)


@pytest.mark.slow
@owes("M-56")
def test_a_diff_of_git_makes_of_the_old_tree_the_new_one(tmp_path: Path) -> None:
    print(f"seed {SEED}")

    for number in range(25):
        check(SEED * 1000 + number, tmp_path)


@pytest.mark.full
@owes("M-56")
def test_a_diff_of_git_makes_of_the_old_tree_the_new_one_in_full(tmp_path: Path) -> None:
    for number in range(400):
        check(number, tmp_path)
