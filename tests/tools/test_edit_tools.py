"""write_file, edit_file, delete_file, apply_patch: one plan, shown and then carried out."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from pegboard.core.call.pipeline import Pipeline
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Effect
from pegboard.core.errors import InvalidArguments, NotFound, NotUnique, OutsideWorkspace
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Rule
from pegboard.core.result import ToolResult
from pegboard.core.toolkit import Toolkit
from pegboard.ports.files import Files
from pegboard.tools.apply_patch import apply_patch
from pegboard.tools.delete_file import delete_file
from pegboard.tools.edit_file import Replacement, edit_file
from pegboard.tools.write_file import write_file
from tests.fakes.files import MemoryFiles
from tests.ledger import owes
from tests.textedit.cases import patch_corpus

KIT = Toolkit([write_file, edit_file, delete_file, apply_patch])


def door(files: MemoryFiles, **options: Any) -> Pipeline:
    return Pipeline(KIT, provide={Files: files}, **options)


async def call(files: MemoryFiles, name: str, arguments: dict[str, Any], **options: Any) -> ToolResult:
    return await door(files, **options).call(ToolCall("1", name, arguments), Context())


@owes("N-37", "N-38", "D-19", "C-12", "X-15")
async def test_a_write_says_the_true_number_of_bytes() -> None:
    files = MemoryFiles()

    result = await call(files, "write_file", {"path": "a/b.txt", "content": "é\n"})

    assert str(result) == "Successfully wrote 3 bytes to a/b.txt"
    assert files.data == {"a/b.txt": "é\n".encode()}
    assert result.data == {
        "path": "a/b.txt",
        "bytes": 3,
        "created": True,
        "sha256": hashlib.sha256("é\n".encode()).hexdigest(),
    }


@owes("M-04", "X-11")
@pytest.mark.parametrize("name", ["path", "file_path", "filePath", "filename"])
async def test_every_documents_name_of_the_path_is_taken(name: str) -> None:
    files = MemoryFiles({"f": "old"})

    result = await call(files, "write_file", {name: "f", "content": "new"})

    assert result.ok
    assert result.data["created"] is False
    assert files.data == {"f": b"new"}


@owes("N-39", "D-20", "C-13", "M-05", "X-10")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("old_string", "new_string"),
        ("old_text", "new_text"),
        ("oldText", "newText"),
        ("old_str", "new_str"),
        ("oldStr", "newStr"),
    ],
)
async def test_every_documents_names_of_an_edit_are_taken(old: str, new: str) -> None:
    files = MemoryFiles({"f": "a = 1\n"})

    result = await call(files, "edit_file", {"path": "f", old: "1", new: "2"})

    assert result.ok
    assert files.data == {"f": b"a = 2\n"}


@owes("C-15", "N-40")
async def test_an_edit_says_where_and_shows_what_changed() -> None:
    files = MemoryFiles({"f": "x\na = 1\n"})

    result = await call(files, "edit_file", {"path": "f", "old_string": "a = 1", "new_string": "a = 2"})

    assert str(result).startswith("Successfully edited f (line 2)\n")
    assert "-a = 1\n+a = 2\n" in str(result)
    assert result.data["strategies"] == ["exact"]
    assert result.data["lines"] == [2]
    assert result.data["sha256"] == hashlib.sha256(files.data["f"]).hexdigest()


@owes("K-38")
async def test_a_tolerant_edit_says_how_it_matched() -> None:
    files = MemoryFiles({"f": "if x:\n\ta()\n"})

    result = await call(
        files, "edit_file", {"path": "f", "old_string": "if x:\n    a()", "new_string": "if x:\n    b()"}
    )

    assert "Note: matched ignoring indentation" in str(result)
    assert files.data == {"f": b"if x:\n\tb()\n"}


@owes("M-05", "X-12")
async def test_an_ambiguous_edit_changes_nothing_and_names_both_lines() -> None:
    files = MemoryFiles({"f": "x = 1\ny = 2\nx = 1\n"})

    result = await call(files, "edit_file", {"path": "f", "old_string": "x = 1", "new_string": "x = 3"})

    assert result.error is not None
    assert result.error.code == "not_unique"
    assert "lines 1, 3" in result.error.message
    assert files.commits == []
    again = await call(
        files, "edit_file", {"path": "f", "old_string": "x = 1", "new_string": "x = 3", "replace_all": True}
    )
    assert again.data["replacements"] == 2


@owes("edit-33")
async def test_further_edits_are_made_after_the_first_or_none_is() -> None:
    files = MemoryFiles({"f": "a\nb\n"})
    edits = [{"old_string": "A", "new_string": "AA"}, {"old_string": "b", "new_string": "B"}]

    result = await call(
        files, "edit_file", {"path": "f", "old_string": "a", "new_string": "A", "edits": edits}
    )

    assert result.ok, result
    assert files.data == {"f": b"AA\nB\n"}
    failed = await call(
        files,
        "edit_file",
        {
            "path": "f",
            "old_string": "AA",
            "new_string": "A",
            "more_edits": [{"old_string": "zz", "new_string": "Z"}],
        },
    )
    assert "edit 2 of 2" in str(failed)
    assert files.data == {"f": b"AA\nB\n"}


async def test_an_empty_old_text_creates_a_missing_file_and_fills_an_empty_one() -> None:
    files = MemoryFiles({"empty": ""})

    made = await call(files, "edit_file", {"path": "new", "old_string": "", "new_string": "hi\n"})
    filled = await call(files, "edit_file", {"path": "empty", "old_string": "", "new_string": "hi\n"})

    assert made.data["created"] is True
    assert filled.ok
    assert files.data == {"new": b"hi\n", "empty": b"hi\n"}


@owes("N-40")
async def test_a_missing_file_is_named() -> None:
    result = await call(MemoryFiles(), "edit_file", {"path": "nope", "old_string": "a", "new_string": "b"})

    assert str(result).startswith("Error: File not found: nope")


@owes("D-22", "X-54")
async def test_a_deletion_asks_first() -> None:
    files = MemoryFiles({"f": "abc"})

    refused = await call(files, "delete_file", {"path": "f"})
    done = await call(files, "delete_file", {"path": "f"}, approver=AllowOnce())

    assert refused.error is not None
    assert refused.error.code == "permission_denied"
    assert str(done) == "Successfully deleted f (3 bytes)"
    assert files.data == {}


async def test_every_tool_that_changes_a_file_says_how_much() -> None:
    files = MemoryFiles({"f": "1\n2\n3\n"})
    patch = "*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n 1\n-2\n+x\n+y\n*** End Patch"

    patched = await call(files, "apply_patch", {"patch": patch}, approver=AllowOnce())
    edited = await call(files, "edit_file", {"path": "g", "old_string": "3\n", "new_string": ""})
    written = await call(files, "write_file", {"path": "g", "content": "1\n"})

    assert str(patched).endswith("\nR f -> g (+2 -1)")
    assert "\nM g (+0 -1)\n--- a/g\n" in str(edited)
    assert str(written) == "Successfully wrote 2 bytes to g\nM g (+0 -2)"


async def test_a_move_with_a_new_mode_is_not_told_as_a_new_file() -> None:
    files = MemoryFiles({"f": "1\n"})
    patch = "diff --git a/f b/g\nold mode 100644\nnew mode 100755\nrename from f\nrename to g\n"

    result = await call(files, "apply_patch", {"patch": patch}, approver=AllowOnce())

    assert str(result).endswith("\nR f -> g")


@owes("M-56", "K-39")
async def test_a_patch_changes_all_its_files_at_once() -> None:
    files = MemoryFiles({"m": "1\n", "d": "x"})
    patch = "*** Begin Patch\n*** Update File: m\n@@\n-1\n+2\n*** Add File: n\n+new\n*** Delete File: d\n*** End Patch"

    result = await call(files, "apply_patch", {"input": patch}, approver=AllowOnce())

    assert str(result) == "Successfully applied the patch to 3 files:\nM m (+1 -1)\nA n (+1 -0)\nD d (+0 -1)"
    assert files.data == {"m": b"2\n", "n": b"new\n"}
    assert len(files.commits) == 1


@owes("patch-05", "patch-06")
@pytest.mark.parametrize(
    "part", ["*** Add File: m\n+2", "*** Update File: a\n*** Move to: m\n@@\n-1\n+2"], ids=["add", "move"]
)
async def test_a_patch_that_puts_a_file_in_place_of_one_asks_and_says_so(part: str) -> None:
    patch = f"*** Begin Patch\n{part}\n*** End Patch"
    before: dict[str, str | bytes] = {"m": "precious\n", "a": "1\n"}
    files = [MemoryFiles(before) for _ in range(4)]

    nobody = await call(files[0], "apply_patch", {"patch": patch})
    meant_not = await call(files[1], "apply_patch", {"patch": patch, "overwrite": False})
    asked = await call(files[2], "apply_patch", {"patch": patch}, approver=AllowOnce())
    full = await call(files[3], "apply_patch", {"patch": patch}, policy=Policy(mode="full"))

    assert nobody.error is not None and nobody.error.code == "permission_denied"
    assert "m exists, and the patch replaces it" in str(nobody)
    assert meant_not.error is not None and meant_not.error.code == "conflict"
    assert files[0].data == files[1].data == {"m": b"precious\n", "a": b"1\n"}
    for done, after in ((asked, files[2]), (full, files[3])):
        assert "(replacing the file that was there, 9 bytes)" in str(done)
        assert after.data["m"] == b"2\n"


@owes("M-56", "patch-05")
async def test_a_patch_that_says_that_it_overwrites_asks_no_more_than_a_write() -> None:
    files = MemoryFiles({"m": "1\n"})
    patch = "*** Begin Patch\n*** Add File: m\n+2\n*** End Patch"

    done = await call(files, "apply_patch", {"patch": patch, "overwrite": True})

    assert done.ok
    assert files.data == {"m": b"2\n"}


SCENARIOS = patch_corpus()
HALF_DONE = "015_failure_after_partial_success_leaves_changes"


@owes("M-56", "K-39")
@pytest.mark.parametrize("row", SCENARIOS.values(), ids=lambda row: row["id"])
async def test_a_scenario_through_the_tool_with_a_person_who_says_yes(row: dict[str, Any]) -> None:
    files = MemoryFiles(dict(row["files_before"]))

    await call(files, "apply_patch", {"patch": row["patch"]}, approver=AllowOnce())

    # All or none: what came before a failing file does not stay (docs/decisions/0030).
    after = row["files_before"] if row["id"] == HALF_DONE else row["files_after"]
    assert {path: data.decode() for path, data in files.data.items()} == after


async def test_a_patch_that_did_not_fit_exactly_says_so() -> None:
    files = MemoryFiles({"m": "\tx\n"})

    result = await call(
        files, "apply_patch", {"patch": "*** Begin Patch\n*** Update File: m\n@@\n-  x\n+  y\n*** End Patch"}
    )

    assert str(result).endswith(
        "Note: m: hunk 1 was placed at line 1 ignoring indentation and trailing spaces"
    )


@owes("K-40", "G-01")
@pytest.mark.parametrize(
    ("name", "arguments", "effects"),
    [
        ("write_file", {"path": "n", "content": "x"}, [Effect("write", "n")]),
        ("edit_file", {"path": "f", "old_string": "1", "new_string": "2"}, [Effect("write", "f")]),
        ("delete_file", {"path": "f"}, [Effect("delete", "f")]),
        (
            "apply_patch",
            {"patch": "*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch"},
            [Effect("delete", "f"), Effect("write", "g")],
        ),
    ],
)
async def test_a_preview_shows_the_exact_change_and_makes_none(
    name: str, arguments: dict[str, Any], effects: list[Effect]
) -> None:
    files = MemoryFiles({"f": "1\n"})

    shown = await door(files).preview(ToolCall("1", name, arguments), Context())

    assert list(shown.effects) == effects
    assert shown.changes[0].diff
    assert files.data == {"f": b"1\n"}


async def test_what_runs_is_the_very_plan_that_was_shown() -> None:
    files = MemoryFiles({"f": "a = 1\n"})

    class Meddler:
        async def decide(self, request: Any) -> str:
            files.data["f"] = b"a = 1 # changed meanwhile\n"
            return "allow"

    policy = Policy(rules=[Rule.parse("ask write:**")])
    result = await call(
        files,
        "edit_file",
        {"path": "f", "old_string": "1", "new_string": "2"},
        approver=Meddler(),
        policy=policy,
    )

    assert result.error is not None
    assert result.error.code == "conflict"
    assert files.data == {"f": b"a = 1 # changed meanwhile\n"}


@owes("N-40")
async def test_a_redaction_mark_is_never_written_to_a_file() -> None:
    files = MemoryFiles({"f": "k = secret\n", "doc": "see [redacted:x]\n"})

    for name, arguments in (
        ("write_file", {"path": "f", "content": "k = [redacted:x]\n"}),
        ("write_file", {"path": "new", "content": "[redacted:x]"}),
        ("edit_file", {"path": "new", "old_string": "", "new_string": "[redacted:x]"}),
    ):
        result = await call(files, name, arguments)
        assert result.error is not None
        assert result.error.code == "invalid_arguments"
    assert (await call(files, "write_file", {"path": "doc", "content": "see [redacted:x] twice\n"})).ok


async def test_called_directly_each_tool_does_the_same_without_a_runtime() -> None:
    files = MemoryFiles()

    await write_file("f", "a\nb\n", files=files)
    await edit_file("f", "a", "A", more_edits=[Replacement("b", "B")], files=files)
    same = await write_file("f", "A\nB\n", files=files)
    await apply_patch("*** Begin Patch\n*** Update File: f\n@@\n-B\n+C\n*** End Patch", files=files)

    assert files.data == {"f": b"A\nC\n"}
    assert "already" in str(same)
    await delete_file("f", files=files)
    assert files.data == {}
    with pytest.raises(NotFound):
        await delete_file("f", files=files)
    with pytest.raises(OutsideWorkspace):
        await write_file("../f", "x", files=files)
    await write_file("f", "x\nx\n", files=files)
    with pytest.raises(NotUnique):
        await edit_file("f", "x", "y", files=files)
    with pytest.raises(InvalidArguments):
        await apply_patch("nothing", files=files)


@owes("N-37", "N-39", "D-19", "D-20", "D-22", "X-54")
def test_the_advertised_parameters_are_the_canonical_ones() -> None:
    assert write_file.schema["required"] == ["path", "content"]
    assert edit_file.schema["required"] == ["path", "old_string", "new_string"]
    assert delete_file.schema["required"] == ["path"]
    assert apply_patch.schema["required"] == ["patch"]
    assert delete_file.level == "auto"  # Its effect decides, as it does for `rm`.


HALF = "\ud83d"


@owes("D-19", "D-20", "M-56")
@pytest.mark.parametrize(
    ("name", "arguments", "where"),
    [
        ("write_file", {"path": "f", "content": f"a {HALF} b"}, ".content"),
        ("edit_file", {"path": "f", "old_string": "old", "new_string": HALF}, ".new_string"),
        ("edit_file", {"path": "f", "oldText": "old", "newText": HALF}, ".new_string"),
        (
            "edit_file",
            {
                "path": "f",
                "old_string": "old",
                "new_string": "new",
                "edits": [{"old_string": "new", "new_string": HALF}],
            },
            ".more_edits",
        ),
        (
            "apply_patch",
            {"patch": f"*** Begin Patch\n*** Update File: f\n@@\n-old\n+{HALF}\n*** End Patch"},
            ".patch",
        ),
    ],
)
async def test_half_a_surrogate_pair_is_refused_and_never_written_as_another_character(
    name: str, arguments: dict[str, Any], where: str
) -> None:
    files = MemoryFiles({"f": "old\n"})

    result = await call(files, name, arguments)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert f"{where}: holds half of a surrogate pair" in result.error.message
    assert files["f"] == "old\n"


@owes("D-19", "D-20", "M-56")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": "f", "content": "a\0b\n"}),
        ("edit_file", {"path": "f", "old_string": "old", "new_string": "\0"}),
        ("edit_file", {"path": "new", "old_string": "", "new_string": "\0"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: f\n@@\n-old\n+\0\n*** End Patch"}),
    ],
)
async def test_a_text_that_makes_a_file_binary_is_written_and_this_is_said(
    name: str, arguments: dict[str, Any]
) -> None:
    result = await call(MemoryFiles({"f": "old\n"}), name, arguments)

    assert result.ok
    assert (
        str(result).count("holds NUL characters, for which many programs take a file for a binary one.") == 1
    )


@owes("D-19", "D-20", "M-56")
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("write_file", {"path": "f", "content": "old\n"}, "Successfully wrote 4 bytes to f (the file had this content already)"),
        (
            "edit_file",
            {"path": "f", "old_string": "old", "new_string": "new", "edits": [{"old_string": "new", "new_string": "old"}]},
            "Nothing to change in f (lines 1, 1)",
        ),
        (
            "apply_patch",
            {"patch": "*** Begin Patch\n*** Update File: f\n@@\n-old\n+old\n*** End Patch"},
            "The patch changes nothing in 1 file:\nM f",
        ),
    ],
)  # fmt: skip
async def test_a_change_that_changes_nothing_is_not_called_a_success(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    result = await call(MemoryFiles({"f": "old\n"}), name, arguments)

    assert str(result) == said


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", "a\nB\n", b"\xef\xbb\xbfa\r\nB\r\n"),
        ("a\r\nb\r\n".encode("utf-16"), "a\nB\n", "a\r\nB\r\n".encode("utf-16")),
        (b"a\rb\r", "a\nB\n", b"a\rB\r"),
        (b"a\nb\n", "a\nB\n", b"a\nB\n"),
    ],
)
@pytest.mark.parametrize("tool", ["write_file", "apply_patch"])
async def test_a_file_that_is_replaced_keeps_its_encoding_mark_and_line_ends(
    tool: str, before: bytes, content: str, after: bytes
) -> None:
    files = MemoryFiles({"f": before})
    arguments = {"path": "f", "content": content}
    if tool == "apply_patch":
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        arguments = {"patch": f"*** Begin Patch\n*** Add File: f\n{lines}*** End Patch\n", "overwrite": True}

    result = await call(files, tool, arguments)

    assert result.ok
    assert await files.read_bytes("f") == after
    assert "Note" not in result.text


@pytest.mark.parametrize(
    ("before", "content", "after", "note"),
    [
        (
            "é, ü\r\n".encode("cp1252"),
            "é, ö\n",
            "é, ö\r\n".encode("cp1252"),
            "stays in cp1252, which is a guess",
        ),
        ("é, ü\n".encode("cp1252"), "\u2192\n", "\u2192\n".encode(), "it is UTF-8 now"),
        (b"a\r\nb\n", "a\nB\n", b"a\nB\n", "line ends of both kinds, now all are LF"),
    ],
)
async def test_what_of_a_replaced_file_could_not_be_kept_is_told(
    before: bytes, content: str, after: bytes, note: str
) -> None:
    files = MemoryFiles({"f": before})

    result = await call(files, "write_file", {"path": "f", "content": content})

    assert await files.read_bytes("f") == after
    assert note in result.text


async def test_line_ends_that_are_sent_with_cr_are_written_as_they_are() -> None:
    files = MemoryFiles({"f": b"a\r\nb\r\n"})

    await call(files, "write_file", {"path": "f", "content": "a\r\nb\nc\n"})

    assert await files.read_bytes("f") == b"a\r\nb\nc\n"
