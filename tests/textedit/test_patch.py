"""Patches: all files or none, every kept line byte for byte."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pegboard.core.errors import Conflict, InvalidArguments, NotFound, NotUnique, ToolError, Unsupported
from pegboard.ports.files import Delete, Move, Write
from pegboard.textedit.patch import AddFile, BadPatch, UpdateFile, paths_of, read_patch
from pegboard.textedit.patch_apply import CODEX, STRICT, PatchResult, PatchRules, apply_patch
from tests.ledger import owes
from tests.textedit.cases import cases, patch_corpus

CASES = cases("4-patch")
CORPUS = patch_corpus()
Tree = dict[str, bytes]


def patched(tree: Tree, patch: str, rules: PatchRules = STRICT) -> PatchResult:
    return apply_patch(patch, tree.get, rules=rules)


def result(tree: Tree, done: PatchResult) -> Tree:
    """The files after carrying out what is wanted."""
    out = dict(tree)
    for want in done.wanted:
        match want:
            case Write():
                out[want.path] = want.data
            case Delete():
                del out[want.path]
            case Move():
                data = out.pop(want.path)
                assert want.to not in out
                out[want.to] = data if want.data is None else want.data
    return out


def apply(tree: dict[str, str] | Tree, patch: str, rules: PatchRules = STRICT) -> Tree:
    raw = {name: text.encode() if isinstance(text, str) else text for name, text in tree.items()}
    return result(raw, patched(raw, patch, rules))


def texts(tree: Tree) -> dict[str, str]:
    return {name: data.decode() for name, data in tree.items()}


def envelope(*rows: str) -> str:
    return "\n".join(["*** Begin Patch", *rows, "*** End Patch"]) + "\n"


@owes("M-56", "K-39")
@pytest.mark.parametrize("row", CORPUS.values(), ids=lambda row: row["id"])
def test_a_scenario_of_the_program_that_the_form_comes_from(row: dict[str, Any]) -> None:
    before = {name: text.encode() for name, text in row["files_before"].items()}
    try:
        after = result(before, patched(before, row["patch"], CODEX))
    except ToolError:
        after = before

    assert texts(after) == row["files_after"]


OVERRULED = {"010_move_overwrites_existing_destination", "011_add_overwrites_existing_file"}


@owes("M-56", "patch-01", "patch-05", "patch-06")
@pytest.mark.parametrize("row", CORPUS.values(), ids=lambda row: row["id"])
def test_a_scenario_by_our_own_rules_differs_only_where_files_would_be_lost_or_half_done(
    row: dict[str, Any],
) -> None:
    before = {name: text.encode() for name, text in row["files_before"].items()}
    try:
        after = result(before, patched(before, row["patch"]))
    except Conflict:
        # Something would be replaced unsaid: with leave to overwrite it is as theirs.
        assert (
            texts(result(before, patched(before, row["patch"], PatchRules(overwrite=True))))
            == row["files_after"]
        )
        return
    except ToolError:
        if row["files_after"] == row["files_before"]:
            return
        # They keep the half that was done before the failing file.
        assert patched(before, row["patch"], CODEX).error is not None
        return

    assert texts(after) == row["files_after"]


@pytest.mark.parametrize(
    "case",
    [c for c in CASES.values() if "files" in c["input"] and "patch" in c["input"]],
    ids=lambda c: c["id"],
)
@owes("patch-01", "patch-02", "patch-03", "patch-05", "patch-06", "patch-07", "patch-08", "patch-09")
def test_a_failure_of_another_project(case: dict[str, Any]) -> None:
    before, expect = case["input"]["files"], case["expect"]

    if expect.get("error"):
        with pytest.raises(ToolError):
            apply(before, case["input"]["patch"])
    else:
        assert texts(apply(before, case["input"]["patch"])) == expect["files"]


@owes("patch-02")
def test_the_error_names_the_file_the_hunk_and_the_closest_lines() -> None:
    patch = envelope("*** Update File: b", "@@", "-alpha = 1", "+alpha = 3")

    with pytest.raises(NotFound) as caught:
        apply({"b": "x\nalpha = 2\n"}, patch)

    assert caught.value.message.startswith(
        "b: hunk 1 does not fit; expected 'alpha = 1'. Nothing was changed."
    )
    assert "line 2" in caught.value.message
    assert "+alpha = 2" in caught.value.message


@owes("patch-12")
def test_lookalike_blocks_need_a_context_line() -> None:
    given = CASES["patch-12"]["input"]

    with pytest.raises(NotUnique, match="ambiguous"):
        apply({"h.py": given["file"]}, given["patch"])

    done = apply({"h.py": given["file"]}, given["patch"].replace("@@", "@@ def shut_gate(g):"))
    head, tail = given["file"].split("def shut_gate(g):\n")
    assert done["h.py"].decode() == head + "def shut_gate(g):\n" + tail.replace("\tlog(g)\n", "", 1)


@owes("patch-13")
@pytest.mark.parametrize(
    "form",
    [
        "```\n{}```\n",
        "```diff\n{}\n```",
        "apply_patch <<'EOF'\n{}EOF\n",
        "apply_patch <<EOF\n{}EOF",
        "<<'PATCH'\n{}PATCH",
        "\n\n{}\n\n",
        'apply_patch "\n{}"',
        "apply_patch\n{}",
    ],
)
def test_wrappers_that_models_add_are_no_part_of_the_patch(form: str) -> None:
    patch = form.format(envelope("*** Update File: f", "@@", "-a", "+b"))

    assert apply({"f": "a\n"}, patch) == {"f": b"b\n"}


@owes("patch-13")
def test_a_quote_behind_the_end_mark_is_no_part_of_the_patch() -> None:
    assert apply({"f": "a\n"}, envelope("*** Update File: f", "@@", "-a", "+b").strip() + "'") == {
        "f": b"b\n"
    }


@owes("patch-13")
@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("", "expected '\\*\\*\\* Begin Patch'"),
        ("*** Update File: f\n@@\n-a\n+b\n*** End Patch", "line 1: expected '\\*\\*\\* Begin Patch'"),
        ("cd x && apply_patch <<EOF\n" + envelope("*** Delete File: f"), "line 1: 'cd x"),
        (envelope("*** Delete File: f") + "Done!", "line 4: 'Done!' stands after"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b", "End Patch' is missing"),
        (envelope("*** Add File:"), "names no file"),
        (envelope("*** Update File: f", "*** Move to: ", "@@", "+b"), "names no file"),
        (envelope("*** Frobnicate File: f"), "line 2: .* is not a file header"),
        (envelope("*** Update File: f"), "has no hunk"),
        (envelope("*** Update File: f", "@@", " a"), "changes nothing"),
        (envelope("*** Update File: f", "@@", "a"), "begins with none of"),
        (envelope("*** Add File: f", "a"), "does not begin with"),
        (envelope(), "changes no file"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error_that_names_the_line(patch: str, why: str) -> None:
    with pytest.raises(BadPatch, match=why):
        apply({"f": "a\n"}, patch)


@owes("patch-15")
def test_a_blank_context_line_may_have_lost_its_space() -> None:
    given = CASES["patch-15"]["input"]

    assert apply({"f": given["file"]}, given["patch"])["f"].decode() == CASES["patch-15"]["expect"]["after"]


def test_blank_lines_at_the_end_of_a_hunk_or_section_mean_nothing() -> None:
    patch = envelope(
        "*** Update File: f", "@@", " a", "-b", "+c", "", "", "*** Add File: g", "+x", "", "+y", ""
    )

    assert apply({"f": "a\nb\n"}, patch) == {"f": b"a\nc\n", "g": b"x\n\ny\n"}
    moved = envelope("*** Update File: f", "*** Move to: g", "", "*** Delete File: h")
    assert apply({"f": "a\n", "h": ""}, moved) == {"g": b"a\n"}


@owes("patch-17", "edit-08")
def test_a_latin_1_file_is_patched_byte_for_byte() -> None:
    data = bytes.fromhex(CASES["patch-17"]["input"]["before_hex"])

    assert apply({"f": data}, envelope("*** Update File: f", "@@", "-x", "+y")) == {
        "f": data.replace(b"x", b"y")
    }


@owes("patch-18")
def test_deleting_what_is_not_there_stops_the_whole_patch() -> None:
    with pytest.raises(NotFound, match="File not found: d"):
        apply({"a": "1\n"}, envelope("*** Delete File: a", "*** Delete File: d"))


def test_binary_files_are_refused() -> None:
    with pytest.raises(Unsupported, match="binary"):
        apply({"f": b"\x89PNG\0"}, envelope("*** Update File: f", "@@", "-x", "+y"))


@owes("edit-01", "edit-06")
def test_endings_marks_and_invisible_characters_of_kept_lines_stay() -> None:
    data = b"\xef\xbb\xbfone\r\ntw\x0co\r\nthree\nfour"

    done = apply(
        {"f": data}, envelope("*** Update File: f", "@@", " one", " two", "-three", "+3", "+3b", " four")
    )

    assert done["f"] == b"\xef\xbb\xbfone\r\ntw\x0co\r\n3\n3b\nfour"


def test_added_lines_in_a_crlf_file_end_as_their_neighbours() -> None:
    assert (
        apply({"f": b"a\r\nb\r\n"}, envelope("*** Update File: f", "@@", " a", "+x"))["f"]
        == b"a\r\nx\r\nb\r\n"
    )
    assert (
        apply({"f": b"a\r\nb"}, envelope("*** Update File: f", "@@", " b", "+x"))["f"] == b"a\r\nb\r\nx\r\n"
    )
    assert apply({"f": b"a\rb\r"}, envelope("*** Update File: f", "@@", "-a", "+x"))["f"] == b"x\rb\r"


def test_a_last_line_without_ending_stays_so_unless_it_is_replaced() -> None:
    assert apply({"f": "a\nb"}, envelope("*** Update File: f", "@@", "-a", "+x"))["f"] == b"x\nb"
    assert apply({"f": "a\nb"}, envelope("*** Update File: f", "@@", "-b", "+x"))["f"] == b"a\nx\n"
    assert apply({"f": "a\nb"}, envelope("*** Update File: f", "@@", " a", "-b"))["f"] == b"a\n"


def test_indentation_and_quotes_follow_the_file_where_the_match_was_tolerant() -> None:
    before = "def f():\n\tsay(“a”)\n\treturn 1\n"
    patch = envelope(
        "*** Update File: f",
        "@@",
        " def f():",
        '-    say("a")',
        '+    say("b")',
        "+    log()",
        "     return 1",
    )

    done = patched({"f": before.encode()}, patch)

    assert result({"f": before.encode()}, done)["f"].decode() == "def f():\n\tsay(“b”)\n\tlog()\n\treturn 1\n"
    assert done.notes == ("f: hunk 1 was placed at line 1 ignoring quote style and kinds of spaces",)


def test_seek_lines_narrow_down_one_after_the_other() -> None:
    before = "class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n  def g():\n    x\n"
    rows = ("*** Update File: f", "@@ class B", "@@   def g():", "-    x", "+    y")

    assert apply({"f": before}, envelope(*rows))["f"].decode() == before[:-2] + "y\n"


def test_a_seek_line_may_be_the_first_line_of_its_hunk() -> None:
    patch = envelope("*** Update File: f", "@@ def g():", " def g():", "-  x", "+  y")

    assert apply({"f": "def f():\n  x\ndef g():\n  x\n"}, patch)["f"] == b"def f():\n  x\ndef g():\n  y\n"


def test_a_seek_line_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="hunk 1: no line 'class Q:'"):
        apply({"f": "class A:\n"}, envelope("*** Update File: f", "@@ class Q:", "+x"))


def test_the_end_of_file_mark_picks_the_last_of_several_places() -> None:
    patch = envelope("*** Update File: f", "@@", "-x", "+y", "*** End of File")

    assert apply({"f": "x\na\nx\n"}, patch)["f"] == b"x\na\ny\n"
    with pytest.raises(NotFound, match="at the end of the file"):
        apply({"f": "x\na\n"}, patch)


def test_as_many_equal_hunks_as_places_go_one_to_each() -> None:
    patch = envelope("*** Update File: f", "@@", "-x", "+1", "@@", "-x", "+2")

    assert apply({"f": "x\na\nx\n"}, patch)["f"] == b"1\na\n2\n"


def test_hunks_may_come_in_another_order_than_their_places() -> None:
    patch = envelope("*** Update File: f", "@@", "-c", "+C", "@@", "-a", "+A")

    assert apply({"f": "a\nb\nc\n"}, patch)["f"] == b"A\nb\nC\n"


def test_a_removal_behind_an_addition_keeps_its_place() -> None:
    patch = envelope("*** Update File: f", "@@", "-a", "+A", "-b", "+B")

    assert apply({"f": "a\nb\n"}, patch)["f"] == b"A\nB\n"


def test_one_file_may_be_updated_twice_and_dot_paths_are_one() -> None:
    patch = envelope("*** Update File: f", "@@", "-a", "+b", "*** Update File: ./f", "@@", "-b", "+c")

    assert apply({"f": "a\n", "./f": "a\n"}, patch)["f"] == b"c\n"


def test_a_move_may_name_lines_that_stay_and_they_are_checked() -> None:
    patch = envelope("*** Update File: a", "*** Move to: d/b", "@@", " x")

    assert apply({"a": "x\ny\n"}, patch) == {"d/b": b"x\ny\n"}
    with pytest.raises(ToolError):
        apply({"a": "z\n"}, patch)


@owes("patch-06")
def test_a_pure_move_is_a_move_and_its_bytes_are_not_touched() -> None:
    done = patched({"f": b"\x00\x01"}, envelope("*** Update File: f", "*** Move to: g"))

    assert done.wanted == (Move(path="f", to="g", data=None),)
    assert done.summary == ("R f -> g",)


def test_moving_onto_a_file_with_leave_replaces_it() -> None:
    done = patched(
        {"a": b"1\n", "b": b"2\n"},
        envelope("*** Update File: a", "*** Move to: b"),
        PatchRules(overwrite=True),
    )

    assert result({"a": b"1\n", "b": b"2\n"}, done) == {"b": b"1\n"}


def test_adding_and_deleting_the_same_file_comes_to_nothing() -> None:
    assert patched({}, envelope("*** Add File: x", "+1", "*** Delete File: x")).wanted == ()


def test_an_added_file_may_be_empty() -> None:
    assert apply({}, envelope("*** Add File: x", "*** Add File: y", "+1", "*** End of File")) == {
        "x": b"",
        "y": b"1\n",
    }


def test_the_paths_of_a_patch_are_known_before_anything_is_read() -> None:
    patches = read_patch(
        envelope("*** Add File: a", "+1", "*** Update File: b", "*** Move to: c", "*** Delete File: a")
    )

    assert paths_of(patches) == ["a", "b", "c"]


def test_line_numbers_inside_the_form_are_a_hint() -> None:
    patch = envelope("*** Update File: f", "@@ -3,1 +3,1 @@", "-x", "+y")

    assert apply({"f": "x\na\nx\n"}, patch)["f"] == b"x\na\ny\n"


# ---- hidden text ---------------------------------------------------------------------------------

SECRET = 'a = 1\nkey = "sk-1"  # x\nb = 2\n'


@owes("N-40")
def test_a_hidden_secret_stays_in_kept_and_in_replaced_lines() -> None:
    kept = envelope("*** Update File: f", "@@", ' key = "[redacted:k]"  # x', "-b = 2", "+b = 3")
    moved = envelope("*** Update File: f", "@@", '-key = "[redacted:k]"  # x', '+KEY = "[redacted:k]"')

    assert apply({"f": SECRET}, kept)["f"].decode() == SECRET.replace("b = 2", "b = 3")
    assert apply({"f": SECRET}, moved)["f"].decode() == SECRET.replace('key = "sk-1"  # x', 'KEY = "sk-1"')


def test_a_mark_is_never_written() -> None:
    for patch in (
        envelope("*** Add File: g", "+[redacted:k]"),
        envelope("*** Update File: f", "@@", "-b = 2", "+b = [redacted:k]"),
        envelope("*** Update File: f", "@@", ' key = "[redacted:k]"  # x', "-b = 2", "+b = [redacted:j]"),
    ):
        with pytest.raises(InvalidArguments, match="hidden"):
            apply({"f": SECRET}, patch)
    twice = 'p = "one"\nq = "two"\n'
    with pytest.raises(InvalidArguments):
        apply(
            {"f": twice},
            envelope(
                "*** Update File: f",
                "@@",
                '-p = "[redacted:k]"',
                '-q = "[redacted:k]"',
                '+r = "[redacted:k]"',
            ),
        )


# ---- unified diffs -------------------------------------------------------------------------------


def test_a_git_diff_with_every_kind_of_file() -> None:
    patch = """diff --git a/old.txt b/new name.txt
similarity index 80%
rename from old.txt
rename to new name.txt
index 1..2 100644
--- a/old.txt
+++ b/new name.txt\t
@@ -1,2 +1,2 @@
 keep
-x
+y
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+echo
\\ No newline at end of file
diff --git a/m b/m
old mode 100644
new mode 100755
"""
    before = {"old.txt": b"keep\nx\n", "gone": b"bye\n", "m": b"1\n"}

    done = patched(before, patch)

    assert result(before, done) == {"new name.txt": b"keep\ny\n", "run.sh": b"#!/bin/sh\necho", "m": b"1\n"}
    assert {w.path: w.mode for w in done.wanted if isinstance(w, Write)} == {"run.sh": 0o755, "m": 0o755}


def test_quoted_paths_are_read_as_git_writes_them() -> None:
    patch = 'diff --git "a/\\303\\251 \\"q\\".txt" "b/\\303\\251 \\"q\\".txt"\n@@ -1 +1 @@\n-a\n+b\n'

    assert apply({'é "q".txt': "a\n"}, patch) == {'é "q".txt': b"b\n"}


def test_paths_without_prefixes_and_with_times_are_read() -> None:
    patch = "--- f\t2024-01-01 00:00:00\n+++ f\t2024-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n"

    assert apply({"f": "a\n"}, patch) == {"f": b"b\n"}


def test_the_file_ends_as_the_diff_says() -> None:
    bare = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
    both = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n z\n\\ No newline at end of file\n"

    assert apply({"f": "a\n"}, bare) == {"f": b"b"}
    assert apply({"f": "a\nz"}, both) == {"f": b"b\nz"}
    grown = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
    assert apply({"f": "a"}, grown) == {"f": b"a\n"}


def test_wrong_counts_prose_and_blank_lines_do_not_confuse() -> None:
    patch = "Here it is:\n--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n a\n\n-b\n+c\n--- a/g\n+++ b/g\n@@ ... @@\n-x\n+y\n\nDone.\n"

    assert apply({"f": "a\n\nb\n", "g": "x\n"}, patch) == {"f": b"a\n\nc\n", "g": b"y\n"}


def test_a_removed_line_that_looks_like_a_header_is_a_line() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- old\n-x\n+++ new\n+y\n"

    assert apply({"f": "-- old\nx\n"}, patch) == {"f": b"++ new\ny\n"}


def test_the_nearest_place_to_the_line_number_is_taken_and_the_shift_carries_on() -> None:
    before = "".join(f"{n}\nx\n" for n in range(1, 9))
    patch = "--- a/f\n+++ b/f\n@@ -3 +3 @@\n-x\n+A\n@@ -11 +11 @@\n-x\n+B\n"

    done = apply({"f": before}, patch)["f"].decode().split("\n")

    assert (done[1], done[9]) == ("A", "B")


def test_context_that_has_changed_at_the_ends_is_left_out_and_said() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n one\n two\n-three\n+3\n four\n five\n"

    done = patched({"f": b"ONE\ntwo\nthree\nfour\nFIVE\n"}, patch)

    assert result({}, PatchResult(wanted=done.wanted, summary=()))["f"] == b"ONE\ntwo\n3\nfour\nFIVE\n"
    assert done.notes == ("f: hunk 1 was placed at line 2 leaving out 1 context lines",)
    with pytest.raises(NotFound):
        apply({"f": "nothing\n"}, patch)
    with pytest.raises(NotFound):
        apply({"f": "q\n"}, "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n+x\n b\n")


def test_lines_put_into_an_empty_place_go_where_the_number_says() -> None:
    assert apply({"f": "a\nb\n"}, "--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+x\n")["f"] == b"a\nx\nb\n"


def test_text_behind_the_numbers_is_decoration() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -2 +2 @@ def elsewhere():\n-b\n+c\n"

    assert apply({"f": "a\nb\n"}, patch)["f"] == b"a\nc\n"
    inside = envelope("*** Update File: f", "@@ -2 +2 @@ def elsewhere():", "-b", "+c")
    assert apply({"f": "a\nb\n"}, inside)["f"] == b"a\nc\n"


@pytest.mark.parametrize(
    ("patch", "error", "why"),
    [
        ("diff --git a/f b/f\ncopy from f\n", BadPatch, "needs both"),
        ("diff --git a/f b/f\nGIT binary patch\n", Unsupported, "binary"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", Unsupported, "binary"),
        ("diff --git a/f b/f\nindex 1..2\n", BadPatch, "has no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n--- a/f\n", BadPatch, "before any file name"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n", BadPatch, "changes nothing"),
        ("--- a/f\n+++ b/f\n@@@ -1 +1 @@@\n a\n", BadPatch, "not a hunk header"),
        ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n", BadPatch, "no file is named"),
        ("diff --git x y z\n@@ -1 +1 @@\n-a\n+b\n", BadPatch, "no file is named"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", Conflict, "content differs"),
        ("--- a/f\n+++ b/f\nnothing else\n", BadPatch, "has no hunk"),
    ],
)
def test_what_a_diff_cannot_mean_is_refused(patch: str, error: type[ToolError], why: str) -> None:
    with pytest.raises(error, match=why):
        apply({"f": "a\n"}, patch)


_LINES = st.lists(st.sampled_from(["a", "b", "", "  c", "d e", "-x", "+y", "-- z", "é"]), max_size=12)


def text_of(lines: list[str], bare: bool) -> bytes:
    text = "".join(line + "\n" for line in lines)
    return (text[:-1] if bare and lines and lines[-1] else text).encode()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(_LINES, _LINES, st.booleans(), st.booleans())
def test_what_git_diff_writes_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], bare: bool, bare_new: bool
) -> None:
    before, after = text_of(old, bare), text_of(new, bare_new)
    assume(before and after and before != after)
    folder: Path = tmp_path_factory.mktemp("git")
    for name, data in (("one", before), ("two", after)):
        (folder / name).write_bytes(data)
    diff = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "one", "two"],
        cwd=folder,
        capture_output=True,
        check=False,
    ).stdout.decode()
    diff = diff.replace("b/two", "b/one").replace("a/two", "a/one")

    assert apply({"one": before}, diff) == {"one": after}


@given(_LINES, _LINES)
def test_the_same_change_in_the_begin_end_form_gives_the_same_lines(old: list[str], new: list[str]) -> None:
    assume(old != new and old)
    rows = [
        {"  ": " ", "- ": "-", "+ ": "+"}[row[:2]] + row[2:]
        for row in difflib.ndiff(old, new)
        if row[0] != "?"
    ]

    done = apply({"f": text_of(old, False)}, envelope("*** Update File: f", "@@", *rows, "*** End of File"))

    assert done["f"] == text_of(new, False)


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader(text: str) -> None:
    for patch in (text, envelope(text), f"--- a/f\n+++ b/f\n{text}"):
        try:
            apply({"f": "a\nb\n"}, patch)
        except ToolError:
            continue


def test_the_two_forms_read_to_the_same_values() -> None:
    (one,) = read_patch("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n")
    (two,) = read_patch(envelope("*** Update File: f", "@@ -1,1 +1,1 @@", "-a", "+b"))

    assert isinstance(one, UpdateFile)
    assert isinstance(two, UpdateFile)
    assert one.hunks[0].lines == two.hunks[0].lines
    assert read_patch(envelope("*** Add File: f", "+a")) == (AddFile(path="f", text="a\n"),)


MAIL = """From 1234 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Subject: [PATCH] two

---
 a | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/a b/a
index 1..2 100644
--- a/a
+++ b/a
@@ -1,{count} +1,{count} @@
 1
-2
+two
{context}-- 
{version}
"""


@pytest.mark.parametrize("version", ["2.40.0", "2.39.5 (Apple Git-154)", ""])
@pytest.mark.parametrize(("count", "context"), [(3, " 3\n"), (2, "")])
def test_the_signature_of_a_mailed_patch_is_no_removed_line(version: str, count: int, context: str) -> None:
    (change,) = read_patch(MAIL.format(version=version, count=count, context=context))

    assert isinstance(change, UpdateFile)
    assert [line.sign for line in change.hunks[0].lines] == [" ", "-", "+", *([" "] if context else [])]


def test_a_removed_line_of_one_dash_is_still_one() -> None:
    (change,) = read_patch("--- a/a\n+++ b/a\n@@ -1,2 +1,1 @@\n x\n-- \n")

    assert isinstance(change, UpdateFile)
    assert [(line.sign, line.text) for line in change.hunks[0].lines] == [(" ", "x"), ("-", "- ")]


@pytest.mark.parametrize(
    "header", ["new file mode 120000\n", "index 1..2 120000\n", "new file mode 160000\n", "new mode 120000\n"]
)
def test_links_and_submodules_are_not_made_into_text_files(header: str) -> None:
    with pytest.raises(Unsupported, match=r"symbolic link|submodule"):
        read_patch(f"diff --git a/l b/l\n{header}--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+target\n")


# ---- files that git copies and that change names ----------------------------------------------

COPY = "diff --git a/a b/c\nsimilarity index 80%\ncopy from a\ncopy to c\n"
HUNK = "--- a/a\n+++ b/c\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"


def renamed(old: str, new: str) -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"


@owes("M-56")
def test_a_copy_is_a_new_file_with_the_old_ones_mode() -> None:
    done = patched({"a": b"x\ny\n"}, COPY + HUNK)

    assert done.wanted == (Write(path="c", data=b"x\nz\n", like="a"),)
    assert done.summary == ("C a -> c",)
    assert paths_of(read_patch(COPY)) == ["a", "c"]
    with pytest.raises(Conflict, match="c exists already"):
        patched({"a": b"x\n", "c": b""}, COPY)
    with pytest.raises(NotFound, match="would copy"):
        patched({}, COPY)
    with pytest.raises(BadPatch, match="changes nothing"):
        patched({"a": b"x\n"}, COPY + "--- a/a\n+++ b/c\n@@ -1 +1 @@\n x\n")


@owes("M-56")
def test_a_copy_and_a_rename_are_of_the_file_before_the_patch() -> None:
    moved = renamed("a", "b") + "--- a/a\n+++ b/b\n@@ -1,2 +1,2 @@\n-x\n+X\n y\n"

    assert apply({"a": "x\ny\n"}, moved + COPY) == {"b": b"X\ny\n", "c": b"x\ny\n"}
    assert apply({"a": "x\ny\n"}, COPY + moved) == {"b": b"X\ny\n", "c": b"x\ny\n"}


@owes("M-56")
def test_two_files_change_names_and_three_move_on() -> None:
    assert apply({"a": "A", "b": "B"}, renamed("a", "b") + renamed("b", "a")) == {"a": b"B", "b": b"A"}
    assert apply({"a": "A", "b": "B"}, renamed("a", "b") + renamed("b", "c")) == {"b": b"A", "c": b"B"}
    with pytest.raises(Conflict, match="b exists already"):
        apply({"a": "A", "b": "B"}, renamed("a", "b"))
    with pytest.raises(Conflict, match="c exists already"):
        apply({"a": "A", "b": "B"}, renamed("a", "c") + renamed("b", "c"))


@owes("patch-06")
def test_an_empty_file_that_is_replaced_is_named_too() -> None:
    done = patched({"a": b""}, envelope("*** Add File: a", "+x"), PatchRules(overwrite=True))

    assert done.summary == ("A a (replacing the file that was there, 0 bytes)",)
    assert done.replaced == ("a",)


def test_a_file_that_the_patch_itself_made_is_no_replaced_one() -> None:
    twice = envelope("*** Add File: a", "+x", "*** Add File: a", "+y")

    assert patched({}, twice, PatchRules(overwrite=True)).replaced == ()
    with pytest.raises(Conflict):
        patched({}, twice)


# ---- forms that models and programs send ------------------------------------------------------


@pytest.mark.parametrize("header", ["--- f.orig\t2024-01-01\n+++ f\t2024-01-02", "--- old/f\n+++ new/f"])
def test_a_plain_diff_of_two_versions_changes_the_file_that_is_there(header: str) -> None:
    done = patched({"f": b"1\n"}, f"{header}\n@@ -1 +1 @@\n-1\n+2\n")

    assert done.wanted == (Write(path="f", data=b"2\n", expected_sha256=done.wanted[0].expected_sha256),)  # type: ignore[union-attr]


def test_a_version_that_lies_elsewhere_is_not_looked_at() -> None:
    patch = read_patch("--- /tmp/f\n+++ f\n@@ -1 +1 @@\n-1\n+2\n")

    assert paths_of(patch) == ["f"]


def test_a_deleted_file_below_a_folder_that_looks_like_a_prefix_is_found() -> None:
    patch = "diff --git b/n b/n\ndeleted file mode 100644\n--- b/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"

    assert apply({"b/n": "x\n"}, patch) == {}


@pytest.mark.parametrize("name", ['"my file"', "`my file`", "'my file'"])
def test_quotes_around_a_path_are_no_part_of_it(name: str) -> None:
    patch = envelope(f"*** Update File: {name}", f"*** Move to: {name[0]}new{name[0]}", "@@", "-1", "+2")

    assert apply({"my file": "1\n"}, patch) == {"new": b"2\n"}


@pytest.mark.parametrize("before", ["cat <<'EOF' | apply_patch", "  cat << EOF | applypatch"])
def test_a_pipe_in_front_is_no_part_of_the_patch(before: str) -> None:
    patch = f"{before}\n{envelope('*** Update File: f', '@@', '-1', '+2')}EOF\n"

    assert apply({"f": "1\n"}, patch) == {"f": b"2\n"}


def test_a_patch_that_is_indented_as_a_whole_is_read_without() -> None:
    inside = envelope("*** Update File: f", "@@", "-  1", "+  2")
    indented = "".join("    " + line + "\n" for line in inside.splitlines())

    assert apply({"f": "  1\n"}, indented) == {"f": b"  2\n"}


def test_one_file_of_two_parts_counts_once() -> None:
    twice = envelope("*** Update File: f", "@@", "-1", "+one", "*** Update File: f", "@@", "-3", "+three")

    assert patched({"f": b"1\n2\n3\n"}, twice).summary == ("M f",)


# ---- line ends that a diff shows --------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        (b"a\r\nb\r\n", " a\r\n-b\r\n+c\r\n", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", " a\r\n-b\r\n+b\n", b"a\r\nb\n"),
        (b"a\r\nb\r\n", " a\n-b\n+c\n+d\n", b"a\r\nc\r\nd\r\n"),
        (b"a\nb\n", " a\n-b\n+c\r\n", b"a\nc\r\n"),
        (b"a\r\nb", " a\r\n-b\n\\ No newline at end of file\n+b\r\n\\ No newline at end of file\n", b"a\r\nb\r"),
        (b"a\rb", "-a\rb\n\\ No newline at end of file\n+c\n", b"c\n"),
    ],
)  # fmt: skip
def test_a_diff_that_shows_returns_means_them_and_one_that_shows_none_does_not(
    before: bytes, diff: str, after: bytes
) -> None:
    old, new = (sum(line[0] in signs for line in diff.split("\n") if line) for signs in (" -", " +"))

    assert apply({"f": before}, f"--- a/f\n+++ b/f\n@@ -1,{old} +1,{new} @@\n{diff}") == {"f": after}


def test_a_new_file_of_a_diff_has_the_line_ends_that_it_shows() -> None:
    assert apply({}, "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\r\n+b\n") == {"f": b"a\r\nb\n"}


def test_a_diff_that_came_with_returns_throughout_says_nothing_of_the_file() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n".replace("\n", "\r\n")

    assert apply({"f": "a\nb\n"}, diff) == {"f": b"a\nc\n"}


@owes("M-56", "K-38")
@pytest.mark.parametrize(
    "again",
    [
        envelope("*** Update File: f", "@@", " one", "-two", "+TWO", " three"),
        envelope("*** Update File: f", "@@", "-two", "+TWO"),
        # A pure addition: its context is no longer together.
        envelope("*** Update File: g", "@@", " one", "+more", " two"),
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
    ],
)
def test_a_hunk_that_was_applied_before_is_told_apart_from_one_that_does_not_fit(again: str) -> None:
    with pytest.raises(ToolError) as caught:
        apply({"f": "one\nTWO\nthree\n", "g": "one\nmore\ntwo\n"}, again)

    assert caught.value.code == "already_applied"
    assert "Nothing was changed" in caught.value.message


@pytest.mark.parametrize(
    "never",
    [
        # What only removes has nothing to show, and neither have brackets alone.
        envelope("*** Update File: f", "@@", " one", "-gone", " two"),
        envelope("*** Update File: f", "@@", "-{", "+}"),
        envelope("*** Update File: f", "@@", "-other", "+unlike"),
    ],
)
def test_what_is_there_by_chance_is_no_sign_that_a_hunk_was_applied(never: str) -> None:
    with pytest.raises(NotFound):
        apply({"f": "one\ntwo\n}\n"}, never)


def test_the_names_of_a_unified_diff_under_the_header_say_nothing_new() -> None:
    for names in (("--- a/f", "+++ b/f"), ("--- f\t2024-01-01 10:00:00", "+++ f\t2024-01-02 10:00:00")):
        patch = envelope("*** Update File: f", *names, "@@ -1,2 +1,2 @@", " one", "-two", "+TWO")

        assert apply({"f": "one\ntwo\n"}, patch) == {"f": b"one\nTWO\n"}
    # Without a hunk behind them, or with other names, they are lines of the file.
    lines = envelope("*** Update File: f", "--- a/f", "+++ b/f")
    assert apply({"f": "-- a/f\ntwo\n"}, lines) == {"f": b"++ b/f\ntwo\n"}
    other = envelope("*** Update File: f", "--- a/x", "+++ b/x", "@@", "-two", "+TWO")
    assert apply({"f": "-- a/x\ntwo\n"}, other) == {"f": b"++ b/x\nTWO\n"}


@owes("D-22")
@pytest.mark.parametrize(
    ("patch", "name", "way"),
    [
        ("new file mode 120000\nindex 0000000..1de5659\n--- /dev/null\n+++ b/now\n@@ -0,0 +1 @@\n+releases/my 2\n\\ No newline at end of file\n", "now", "ln -sfn -- 'releases/my 2' now"),
        ("index 1de5659..89d5a5c 120000\n--- a/now\n+++ b/now\n@@ -1 +1 @@\n-r/1\n\\ No newline at end of file\n+r/2\n\\ No newline at end of file\n", "now", "ln -sfn -- r/2 now"),
        ("deleted file mode 120000\nindex 1de5659..0000000\n--- a/now\n+++ /dev/null\n@@ -1 +0,0 @@\n-r/1\n\\ No newline at end of file\n", "now", "rm now"),
        ("index 1de5659..89d5a5c 160000\n--- a/now\n+++ b/now\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n", "now", "git submodule"),
        ("index 1..2 100644\nGIT binary patch\nliteral 3\nKcmZQzWMyLj\n\n", "now", "git apply"),
        ("index 1..2 100644\nBinary files a/now and b/now differ\n", "now", "with a command"),
        ("deleted file mode 100644\nindex 1..0\nBinary files a/now and /dev/null differ\n", "now", "delete_file"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_by_its_name_with_the_way_that_is_left(
    patch: str, name: str, way: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        read_patch(f"diff --git a/{name} b/{name}\n{patch}")

    assert f"patch: {name} is " in caught.value.message
    assert way in caught.value.hint
    assert f"without the part about {name}" in caught.value.hint


LOST = "alpha\n\tbeta\ngamma\ndelta\nend\n"


@owes("D-22")
@pytest.mark.parametrize(
    "patch",
    [
        # Context lines that lost their space: first, in the middle, before a tab, and last.
        "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\nalpha\n \tbeta\n-gamma\n+GAMMA\n delta\n end\n",
        "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n alpha\n\tbeta\n-gamma\n+GAMMA\ndelta\n end\n",
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n \tbeta\n-gamma\n+GAMMA\ndelta\n",
        # The same where the counts are too large, and with prose behind it.
        "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n alpha\n\tbeta\n-gamma\n+GAMMA\n delta\n",
        "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n alpha\n \tbeta\n-gamma\n+GAMMA\n delta\n\nThis shouts.\n",
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n \tbeta\n-gamma\n+GAMMA\n delta\nThis:\n- shouts\n- and is done\n",
        # The last hunk of several begins and ends with one.
        "--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@\n\tbeta\n-gamma\n+GAMMA\n@@ -5,1 +5,1 @@\nend\n",
    ],
)
def test_a_context_line_may_have_lost_its_space(patch: str) -> None:
    if patch.endswith("@@\nend\n"):
        patch = patch.replace("+5,1 @@\nend\n", "+5,2 @@\nend\n+over\n")

    done = apply({"f": LOST}, patch)

    assert texts(done)["f"].removesuffix("over\n") == LOST.replace("gamma", "GAMMA")


@owes("D-22", "K-39")
@pytest.mark.parametrize("header", ["@@", "@@ -1,2 +1,2 @@"])
def test_changes_behind_a_line_that_belongs_to_nothing_are_not_lost_silently(header: str) -> None:
    patch = f"--- a/f\n+++ b/f\n{header}\n-alpha\n+ALPHA\n \tbeta\ngamma\n-delta\n+DELTA\n"

    with pytest.raises(BadPatch, match=r"line 7.*'gamma' begins with none of"):
        apply({"f": LOST}, patch)


@owes("D-22")
@pytest.mark.parametrize("count", ["1,5", "1,7", "1,9"])
def test_a_last_line_without_ending_stays_so_whatever_the_counts_say(count: str) -> None:
    patch = f"--- a/f\n+++ b/f\n@@ -{count} +{count} @@\n gamma\n delta\n-end\n+END\n\\ No newline at end of file\n\n"

    assert texts(apply({"f": LOST}, patch))["f"] == LOST.replace("end\n", "END")


_MADE_AND_REMOVED = (
    "diff -ruN {a}/gone.txt {b}/gone.txt\n"
    "--- {a}/gone.txt\t2026-01-02 03:04:05.000000000 +0100\n"
    "+++ {b}/gone.txt\t{epoch}\n"
    "@@ -1 +0,0 @@\n-x\n"
    "diff -ruN {a}/new.txt {b}/new.txt\n"
    "--- {a}/new.txt\t{epoch}\n"
    "+++ {b}/new.txt\t2026-01-02 03:04:05.000000000 +0100\n"
    "@@ -0,0 +1,2 @@\n+one\n+two\n"
)


@pytest.mark.parametrize(("a", "b"), [("a", "b"), ("old", "new"), ("p-1.0", "p-1.1")])
@pytest.mark.parametrize(
    "epoch", ["1970-01-01 00:00:00.000000000 +0000", "1969-12-31 19:00:00.000000000 -0500", ""]
)
def test_a_plain_diff_makes_and_removes_files_under_either_name(a: str, b: str, epoch: str) -> None:
    patch = _MADE_AND_REMOVED.format(a=a, b=b, epoch=epoch)
    done = patched({"gone.txt": b"x\n"}, patch)

    assert result({"gone.txt": b"x\n"}, done) == {"new.txt": b"one\ntwo\n"}
    assert [line[0] for line in done.summary] == ["D", "A"]


@pytest.mark.parametrize(
    "header",
    [
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n",  # git would say `deleted file mode`
        "--- a/f\t2026-01-02 03:04:05 +0000\n+++ b/f\t2026-01-02 03:05:00 +0000\n",
    ],
)
def test_an_emptied_file_stays(header: str) -> None:
    assert apply({"f": "x\n"}, header + "@@ -1 +0,0 @@\n-x\n") == {"f": b""}


def test_a_diff_without_context_still_works_at_the_top_of_a_file() -> None:
    assert apply({"f": "x\n"}, "--- f\n+++ f\n@@ -0,0 +1 @@\n+new\n") == {"f": b"new\nx\n"}
    assert apply({"f": "x\ny\n"}, "--- f\n+++ f\n@@ -1 +0,0 @@\n-x\n") == {"f": b"y\n"}
