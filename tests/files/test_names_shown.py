"""A name with a line end or a direction mark is shown in one line, and taken back as it was shown (0320)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegboard import AllowOnce
from pegboard.core.text import escape_invisible
from pegboard.files.roots import as_text, from_text
from tests.cases.kit import door, tree
from tests.ledger import owes

ODD = {"a\nb.txt": r"a\x0ab.txt", "x\u202egpj.txt": r"x\u202egpj.txt", "red\x1b[31m.txt": r"red\x1b[31m.txt"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *ODD.items(),
        ("tab\there", r"tab\x09here"),
        ("c1\x85", r"c1\u0085"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("hangul\u3164filler", r"hangul\u3164filler"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("plain name.txt", "plain name.txt"),
        ("full\u3000width 日本語.md", "full\u3000width 日本語.md"),
        ("می\u200cخواهم.txt", "می\u200cخواهم.txt"),
        ("👨\u200d👩\u200d👧.png", "👨\u200d👩\u200d👧.png"),
    ],
)
def test_what_cannot_be_seen_of_a_name_is_written_out_and_read_back(name: str, shown: str) -> None:
    assert escape_invisible(name) == shown
    assert from_text(escape_invisible(as_text(name))) == name


@pytest.mark.parametrize("text", ["a\\x00b", "half\\ud800", "no escape\\q", "C:\\new"])
def test_what_is_no_escape_of_ours_stays(text: str) -> None:
    assert from_text(text).replace("\\", "/").count("\0") == 0
    assert text in (from_text(text), "half\\ud800")


@owes("search-18")
@pytest.mark.parametrize(("name", "shown"), ODD.items(), ids=["line end", "direction", "escape"])
async def test_such_a_file_is_listed_found_read_changed_and_deleted(
    name: str, shown: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("needle\n")

    async with door(
        tmp_path, "list_dir", "glob", "grep", "read_file", "edit_file", "delete_file", approver=AllowOnce()
    ) as tools:
        listed = await tools.call("list_dir", {})
        emoji = await tools.call("list_dir", {"style": "emoji"})
        found = await tools.call("glob", {"pattern": "*"})
        lines = await tools.call("grep", {"pattern": "needle"})
        files = await tools.call("grep", {"pattern": "needle", "mode": "files"})
        counts = await tools.call("grep", {"pattern": "needle", "mode": "count"})
        read = await tools.call("read_file", {"path": shown})
        edited = await tools.call("edit_file", {"path": shown, "old_string": "needle", "new_string": "pin"})
        between = tree(tmp_path)
        deleted = await tools.call("delete_file", {"path": shown})

    assert [str(listed), str(emoji), str(found)] == [f"[FILE] {shown}", f"📄 {shown}", shown]
    assert [str(lines), str(files), str(counts)] == [f"{shown}:1:needle", shown, f"{shown}:1"]
    assert found.data["paths"] == [name]
    assert str(read) == "     1→needle"
    assert edited.ok and between == {name: b"pin\n"}
    assert deleted.ok and not os.listdir(tmp_path)


async def test_a_name_that_is_really_there_wins_over_what_it_could_stand_for(tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_text("escaped\n")
    (tmp_path / "a\\x0ab").write_text("literal\n")

    async with door(tmp_path, "read_file") as tools:
        read = await tools.call("read_file", {"path": "a\\x0ab"})

    assert str(read) == "     1→literal"


async def test_an_escape_leads_no_further_than_the_name_itself(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("TOPSECRET")

    async with door(work, "read_file", "write_file") as tools:
        for path in ("\\x2e\\x2e/secret", "..\\x2fsecret", "\\x2fetc\\x2fpasswd", "\\u002e./secret"):
            read = await tools.call("read_file", {"path": path})
            wrote = await tools.call("write_file", {"path": path, "content": "x"})
            assert "TOPSECRET" not in str(read) and "root:" not in str(read)
            assert not read.ok
            assert (tmp_path / "secret").read_text() == "TOPSECRET", wrote


NFC, NFD = "R\u00e9sum\u00e9", "Re\u0301sume\u0301"


@pytest.mark.parametrize(
    ("there", "sent"), [(NFD, NFC), (NFC, NFD), ("a\u202fb", "a b"), ("a\u00a0b", "a b")], ids=ascii
)
async def test_a_name_in_another_form_is_the_one_that_is_there(there: str, sent: str, tmp_path: Path) -> None:
    folder = tmp_path / there
    folder.mkdir()
    for name in ("read", "edit", "delete"):
        (folder / f"{there}.{name}").write_text("needle\n")

    async with door(
        tmp_path, "read_file", "edit_file", "write_file", "delete_file", approver=AllowOnce()
    ) as tools:
        read = await tools.call("read_file", {"path": f"{sent}/{sent}.read"})
        await tools.call(
            "edit_file", {"path": f"{sent}/{sent}.edit", "old_string": "needle", "new_string": "pin"}
        )
        await tools.call("delete_file", {"path": f"{sent}/{sent}.delete"})
        await tools.call("write_file", {"path": f"{sent}/new", "content": "new\n"})

    assert str(read) == "     1→needle"
    assert os.listdir(tmp_path) == [there]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        f"{there}.read": "needle\n",
        f"{there}.edit": "pin\n",
        "new": "new\n",
    }


async def test_of_two_names_that_look_the_same_each_is_itself(tmp_path: Path) -> None:
    (tmp_path / NFC).write_text("composed\n")
    (tmp_path / NFD).write_text("decomposed\n")

    async with door(tmp_path, "read_file") as tools:
        assert str(await tools.call("read_file", {"path": NFC})) == "     1→composed"
        assert str(await tools.call("read_file", {"path": NFD})) == "     1→decomposed"


@pytest.mark.parametrize("path", ["C:\\notes\\x.txt", "c:/notes/x.txt", "notes\\x.txt"])
async def test_a_path_of_windows_makes_no_file(path: str, tmp_path: Path) -> None:
    async with door(tmp_path, "write_file", approver=AllowOnce()) as tools:
        result = await tools.call("write_file", {"path": path, "content": "x"})

    assert not result.ok
    assert "for example notes/x.txt" in str(result)
    assert os.listdir(tmp_path) == []
