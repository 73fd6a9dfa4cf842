"""Theme 3: reading and editing through the tools, byte for byte."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pegboard import AllowOnce
from tests.cases.kit import door, of_kind, row_id, rows, tree
from tests.ledger import owes

EDITS = [r for r in rows("3-edit").values() if "old" in r["input"] and isinstance(r["expect"], dict)]


def before_of(row: dict[str, Any]) -> bytes:
    given = row["input"]
    return bytes.fromhex(given["before_hex"]) if "before_hex" in given else given["before"].encode()


def after_of(expect: dict[str, Any]) -> bytes:
    expect = expect.get("either", expect)
    return bytes.fromhex(expect["after_hex"]) if "after_hex" in expect else expect["after"].encode()


async def edited(folder: Path, before: bytes, **arguments: Any) -> tuple[bool, str, bytes]:
    """Edit one file through the tool: whether it worked, what was said, the bytes after."""
    (folder / "f").write_bytes(before)
    async with door(folder, "edit_file", "read_file") as tools:
        result = await tools.call("edit_file", {"path": "f", **arguments})
    assert list(tree(folder)) == ["f"]
    return result.ok, str(result), (folder / "f").read_bytes()


@owes("edit-01", "edit-02", "edit-03", "edit-04", "edit-05", "edit-06")
@pytest.mark.parametrize("row", of_kind("3-edit", "edit"), ids=row_id)
async def test_the_bytes_after_an_edit_are_those_of_the_reference(
    row: dict[str, Any], tmp_path: Path
) -> None:
    calc = row["calc"]

    ok, said, after = await edited(
        tmp_path,
        bytes.fromhex(calc["before_hex"]),
        old_string=calc["old"],
        new_string=calc["new"],
        replace_all=bool(calc.get("all")),
    )

    assert ok, said
    assert after == bytes.fromhex(calc["after_hex"])


@owes("edit-08", "edit-09", "edit-11", "edit-12", "edit-13", "edit-20")
@pytest.mark.parametrize("row", EDITS, ids=row_id)
async def test_an_edit_gives_the_text_of_its_case(row: dict[str, Any], tmp_path: Path) -> None:
    ok, said, after = await edited(
        tmp_path,
        before_of(row),
        old_string=row["input"]["old"],
        new_string=row["input"]["new"],
        replace_all="replace_all" in row["check"],
    )

    assert ok, said
    assert after == after_of(row["expect"])
    assert b"\xef\xbf\xbd" not in after


@owes("edit-08", "edit-09", "edit-11")
@pytest.mark.parametrize("row", of_kind("3-edit", "decode"), ids=row_id)
async def test_a_file_is_read_in_its_own_encoding(row: dict[str, Any], tmp_path: Path) -> None:
    calc = row["calc"]
    content = bytes.fromhex(calc["hex"])
    # One word alone is too little to tell a code page by; in a file it stands beside others of its kind.
    many = content if calc["enc"] == "utf-16" else b"\n".join([content] * 8) + b"\n"
    (tmp_path / "f.txt").write_bytes(many)

    async with door(tmp_path, "read_file") as tools:
        guessed = await tools.call("read_file", {"path": "f.txt"})
        told = await tools.call("read_file", {"path": "f.txt", "encoding": calc["enc"], "force": True})

    assert calc["text"].rstrip() in str(told), str(told)
    assert "\x00" not in str(guessed) and "\ufffd" not in str(guessed)
    if calc["enc"] != "latin-1":
        assert calc["text"].rstrip() in str(guessed)
    assert (tmp_path / "f.txt").read_bytes() == many


@owes("edit-15")
async def test_composed_accents_find_decomposed_ones_and_leave_the_others(tmp_path: Path) -> None:
    before = "re\u0301sume\u0301 = 1\nother e\u0301\n".encode()

    ok, _, after = await edited(tmp_path, before, old_string="résumé = 1", new_string="résumé = 2")

    assert ok and b"2" in after
    assert after.splitlines()[1] == "other e\u0301".encode()


@owes("edit-16", "X-12", "C-13")
async def test_three_matches_are_refused_with_their_lines(tmp_path: Path) -> None:
    before = rows("3-edit")["edit-16"]["input"]["before"].encode()

    ok, said, after = await edited(tmp_path, before, old_string="a=1", new_string="a=2")

    assert not ok and after == before
    assert "3" in said and re.search(r"1, 3(,| and) 5", said) and "replace_all" in said


@owes("edit-17")
async def test_two_lookalikes_are_refused(tmp_path: Path) -> None:
    given = rows("3-edit")["edit-17"]["input"]

    ok, said, after = await edited(
        tmp_path, given["before"].encode(), old_string=given["old"], new_string=given["new"]
    )

    assert not ok and after == given["before"].encode()
    assert "2" in said


@owes("edit-18")
@pytest.mark.parametrize(("old", "new"), [("abc", "abc"), ("", "X")])
async def test_an_edit_of_nothing_is_an_error(old: str, new: str, tmp_path: Path) -> None:
    ok, _, after = await edited(tmp_path, b"abc\n", old_string=old, new_string=new)

    assert not ok and after == b"abc\n"


@owes("edit-19")
async def test_replacements_are_put_in_letter_by_letter(tmp_path: Path) -> None:
    new = "\\1 $& \\g<0> %s {x} \\n"

    ok, _, after = await edited(tmp_path, b"v = OLD\n", old_string="OLD", new_string=new)

    assert ok and after.decode() == f"v = {new}\n"


PROBE = """
import asyncio, resource, sys, time
from pegboard import Executor, builtin
async def main():
    async with Executor(builtin("read_file"), workspace=sys.argv[1]) as door:
        await door.call("read_file", {"path": "small"})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        result = await door.call("read_file", {"path": "big", "limit": 1})
        print(time.perf_counter() - begun)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
        print(str(result)[:60])
asyncio.run(main())
"""


@owes("edit-27")
@pytest.mark.slow
def test_the_first_line_of_a_huge_file_costs_neither_time_nor_memory(tmp_path: Path) -> None:
    (tmp_path / "small").write_text("x\n")
    with open(tmp_path / "big", "wb") as big:
        big.write(b"first line\n")
        big.truncate(128 << 20)

    out = subprocess.run(
        [sys.executable, "-c", PROBE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
        },
    ).stdout.splitlines()

    assert float(out[0]) < 1 and float(out[1]) < 64
    assert "first line" in out[2]


@owes("edit-29", "C-09", "C-10", "X-13", "X-14")
async def test_following_the_hints_reads_every_line_once(tmp_path: Path) -> None:
    lines = [f"line {n:03}" for n in range(1, 501)]
    (tmp_path / "f.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "empty").write_text("")
    seen: list[tuple[int, str]] = []
    offset = 1
    async with door(tmp_path, "read_file") as tools:
        while offset:
            said = str(await tools.call("read_file", {"path": "f.txt", "offset": offset, "limit": 97}))
            page = re.findall(r"^ *(\d+)→(.*)$", said, re.MULTILINE)
            seen += [(int(n), text) for n, text in page]
            following = re.search(r"offset[ =]+(\d+)", said)
            offset = int(following[1]) if following else 0
        past = str(await tools.call("read_file", {"path": "f.txt", "offset": 900}))
        empty = str(await tools.call("read_file", {"path": "empty"}))

    assert seen == list(enumerate(lines, 1))
    assert "500" in past
    assert "empty" in empty


@owes("edit-30")
async def test_a_binary_file_is_described_and_never_edited(tmp_path: Path) -> None:
    content = bytes.fromhex(rows("3-edit")["edit-30"]["input"]["before_hex"])
    (tmp_path / "x.bin").write_bytes(content)
    patch = "*** Begin Patch\n*** Update File: x.bin\n@@\n-P\n+Q\n*** End Patch"

    async with door(tmp_path, "read_file", "edit_file", "apply_patch") as tools:
        shown = str(await tools.call("read_file", {"path": "x.bin"}))
        edit = await tools.call("edit_file", {"path": "x.bin", "old_string": "PNG", "new_string": "X"})
        patched = await tools.call("apply_patch", {"patch": patch})

    assert "\x00" not in shown and "12" in shown
    assert not edit.ok and not patched.ok
    assert (tmp_path / "x.bin").read_bytes() == content


@owes("edit-31")
@pytest.mark.parametrize("name", rows("3-edit")["edit-31"]["input"]["files"])
async def test_text_is_told_by_its_content(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("alpha = 1\n")

    async with door(tmp_path, "read_file") as tools:
        assert "alpha = 1" in str(await tools.call("read_file", {"path": name}))


@owes("edit-32")
async def test_a_pasted_line_number_is_no_part_of_the_file(tmp_path: Path) -> None:
    ok, said, after = await edited(tmp_path, b"a\nb\n", old_string="     2→b", new_string="c")

    assert (ok and after == b"a\nc\n") or (not ok and after == b"a\nb\n" and "number" in said)
    assert "→".encode() not in after


@owes("edit-33")
async def test_several_edits_are_all_or_none(tmp_path: Path) -> None:
    given = rows("3-edit")["edit-33"]["input"]["edits"]
    (old, new), *more = given

    ok, said, after = await edited(
        tmp_path,
        b"a\nb\nc\n",
        old_string=old,
        new_string=new,
        more_edits=[{"old_string": o, "new_string": n} for o, n in more],
    )

    assert not ok and after == b"a\nb\nc\n"
    assert "2" in said and "zzz" in said


@owes("edit-35")
async def test_an_edit_that_was_made_is_told_apart_from_a_miss(tmp_path: Path) -> None:
    _, said, after = await edited(tmp_path, b"x = 2\n", old_string="x = 1", new_string="x = 2")
    _, gone, _ = await edited(tmp_path, b"x = 2\n", old_string="y = 1", new_string="")

    assert after == b"x = 2\n"
    assert "already" in said and "line 1" in said
    assert "already" not in gone


@owes("K-37")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_file", {"path": "f", "old_string": "one", "new_string": "1"}),
        ("write_file", {"path": "f", "content": "x"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: f\n@@\n-one\n+1\n*** End Patch"}),
        ("delete_file", {"path": "f"}),
    ],
)
async def test_a_file_that_changed_since_it_was_read_is_refused_with_what_changed(
    name: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    target = tmp_path / "f"
    target.write_text("one\ntwo\n")
    async with door(tmp_path, "read_file", name, mode="full", approver=AllowOnce()) as tools:
        await tools.call("read_file", {"path": "f"})
        target.write_text("one\nTWO\nthree\n")
        refused = await tools.call(name, arguments)
        left = target.read_text()
        await tools.call("read_file", {"path": "f"})
        again = await tools.call(name, arguments)

    assert not refused.ok and left == "one\nTWO\nthree\n"
    assert "changed since you read it" in str(refused) and "+TWO" in str(refused)
    assert again.ok, str(again)


def test_every_case_of_the_theme_has_a_runner_here() -> None:
    named = set(re.findall(r'"(edit-\d+)"', Path(__file__).read_text()))
    assert set(rows("3-edit")) <= named


@owes("edit-32")
async def test_numbers_that_stand_in_the_file_itself_are_kept(tmp_path: Path) -> None:
    (tmp_path / "read.md").write_text("     2→b\n", encoding="utf-8")

    async with door(tmp_path, "edit_file") as tools:
        await tools.call("edit_file", {"path": "read.md", "old_string": "     2→b", "new_string": "     2→c"})

    assert (tmp_path / "read.md").read_text("utf-8") == "     2→c\n"
