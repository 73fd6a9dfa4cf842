"""Three-way merge against git's own."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.textedit.diff import common_bytes, merge3
from tests.ledger import owes

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "same", ""]), max_size=9).map(
    lambda lines: "".join(line + "\n" for line in lines).encode()
)


def git_merge(base: bytes, mine: bytes, theirs: bytes) -> bytes | None:
    """What `git merge-file` makes of it; None for a conflict."""
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder) / name for name in ("mine", "base", "theirs")]
        for name, data in zip(names, (mine, base, theirs), strict=True):
            name.write_bytes(data)
        done = subprocess.run(["git", "merge-file", "-p", *map(str, names)], capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None


@owes("G-02")
@pytest.mark.parametrize(
    ("base", "mine", "theirs"),
    [
        (b"1\n2\n3\n4\n5\n", b"1\n2\n3\n4\nFIVE\n", b"ONE\n2\n3\n4\n5\n"),
        (b"1\n2\n3\n", b"1\nX\n3\n", b"1\nY\n3\n"),
        (b"1\n2\n3\n", b"1\nX\n3\n", b"1\nX\n3\n"),
        (b"1\n2\n3\n4\n", b"1\n2\n3\n4\n5\n", b"0\n1\n2\n3\n4\n"),
        (b"1\r\n2\r\n3\r\n", b"1\r\n2\r\n3\r\n4", b"1\r\nX\r\n3\r\n"),
        (b"a\nb\nc\nd\ne\nf", b"a\nb\nc\nd\ne\nF", b"A\nb\nc\nd\ne\nf"),
        (b"", b"x\n", b"y\n"),
        (b"1\n2\n", b"1\n2\n", b"other\n"),
        # Adjacent lines are a conflict in git too; one line between them is enough.
        (b"1\n2\n3\n4\n5\n", b"1\n2\n3\n4\nhand\n", b"1\n2\n3\ntool\n5\n"),
        (b"1\n2\n3\n4\n5\n", b"1\n2\n3\n4\nhand\n", b"1\n2\ntool\n4\n5\n"),
        (b"1\n2\n3\n", b"1\n2\nnew\n3\n", b"1\ntool\n3\n"),
        (b"1\n2\n3\n", b"1\n3\n", b"1\n2\nthree\n"),
    ],
)
def test_a_merge_is_git_s_merge(base: bytes, mine: bytes, theirs: bytes) -> None:
    assert merge3(base, mine, theirs).data == git_merge(base, mine, theirs)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(LINES, LINES, LINES)
def test_a_clean_merge_of_any_lines_loses_nothing_that_git_keeps(
    base: bytes, mine: bytes, theirs: bytes
) -> None:
    ours, git = merge3(base, mine, theirs), git_merge(base, mine, theirs)

    # Where lines repeat, two right alignments can differ; a conflict is always a right answer.
    if ours.data is not None and git is not None and len(set(base.split())) == len(base.split()):
        assert sorted(ours.data.split(b"\n")) == sorted(git.split(b"\n"))
    assert (ours.data is None) == bool(ours.conflicts)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.data())
def test_where_no_line_repeats_git_merges_and_refuses_the_same(size: int, data: st.DataObject) -> None:
    base = [f"{number}\n" for number in range(size)]
    sides: list[list[str]] = []
    for name in ("mine", "theirs"):
        lines = list(base)
        for at in data.draw(st.lists(st.integers(0, size - 1), max_size=3, unique=True)):
            lines[at] = data.draw(
                st.sampled_from([f"{name} {at}\n", f"both {at}\n", "", f"{lines[at]}new {name} {at}\n"])
            )
        sides.append(lines)
    texts = ["".join(lines).encode() for lines in (base, *sides)]

    assert merge3(*texts).data == git_merge(*texts)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_merge_with_one_changed_side_is_that_side_byte_for_byte(base: bytes, other: bytes) -> None:
    assert merge3(base, base, other).data == other
    assert merge3(base, other, base).data == other
    assert merge3(base, other, other).data == other


@given(st.lists(st.integers(0, 10**6), min_size=12, max_size=60, unique=True), st.data())
def test_edits_far_apart_always_merge(numbers: list[int], data: st.DataObject) -> None:
    lines = [b"%d\r\n" % number for number in numbers]
    i = data.draw(st.integers(0, len(lines) // 2 - 2))
    j = data.draw(st.integers(len(lines) // 2 + 1, len(lines) - 1))
    mine, theirs, both = list(lines), list(lines), list(lines)
    mine[i] = both[i] = b"mine\n"
    theirs[j] = both[j] = b"theirs"

    assert merge3(b"".join(lines), b"".join(mine), b"".join(theirs)).data == b"".join(both)


def test_a_conflict_shows_both_sides_and_the_line() -> None:
    merged = merge3(b"1\n2\n3\n", b"1\nhand\n3\n", b"1\nundone\n3\n")

    assert merged.data is None
    assert merged.conflicts == ("line 2:\n<<<<<<< the file now\nhand\n=======\nundone\n>>>>>>> undone\n",)


def test_a_conflict_far_down_names_its_line_in_the_file() -> None:
    lines = [b"%d\n" % number for number in range(1, 101)]

    def changed(text: bytes) -> bytes:
        return b"".join([*lines[:79], text, *lines[80:]])

    assert merge3(b"".join(lines), changed(b"hand\n"), changed(b"tool\n")).conflicts[0].startswith("line 80:")


def test_binary_and_endless_differences_are_conflicts() -> None:
    assert merge3(b"\0a", b"\0b", b"\0c").data is None
    many = b"".join(b"%d\n" % n for n in range(30_000))
    assert "over 20000 lines" in merge3(many, many[::-1], b"x" + many[5:] + b"\ny").conflicts[0]


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 3))
def test_common_ends_are_common_and_do_not_overlap(a: bytes, b: bytes, repeat: int) -> None:
    a, b = b"p" * 70_000 * (repeat % 2) + a, b"p" * 70_000 * (repeat % 2) + b
    prefix, suffix = common_bytes(a, b)

    assert a[:prefix] == b[:prefix]
    assert a[len(a) - suffix :] == b[len(b) - suffix :]
    assert prefix + suffix <= min(len(a), len(b))
    assert prefix == min(len(a), len(b)) or a[prefix] != b[prefix]
