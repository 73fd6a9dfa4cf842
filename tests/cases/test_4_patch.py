"""Theme 4: a patch is applied as a whole, as it was meant, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.kit import door, of_kind, row_id, rows, tree, write_tree
from tests.ledger import owes


async def patched(folder: Path, patch: str) -> tuple[bool, str]:
    async with door(folder, "apply_patch") as tools:
        result = await tools.call("apply_patch", {"patch": patch})
    return result.ok, str(result)


@owes("patch-03", "patch-07", "patch-08", "patch-09", "M-56", "K-39")
@pytest.mark.parametrize("row", of_kind("4-patch", "patch"), ids=row_id)
async def test_the_tree_after_a_patch_is_that_of_the_reference(row: dict[str, Any], tmp_path: Path) -> None:
    write_tree(tmp_path, row["calc"]["files"])

    ok, said = await patched(tmp_path, row["calc"]["patch"])

    assert ok, said
    assert tree(tmp_path) == {k: v.encode() for k, v in row["calc"]["after"].items()}


FAILING = [r for r in rows("4-patch").values() if isinstance(r["expect"], dict) and r["expect"].get("error")]


@owes("patch-01", "patch-02", "patch-05", "patch-06")
@pytest.mark.parametrize("row", FAILING, ids=row_id)
async def test_a_patch_that_cannot_be_applied_whole_changes_nothing(
    row: dict[str, Any], tmp_path: Path
) -> None:
    write_tree(tmp_path, row["input"]["files"])

    ok, said = await patched(tmp_path, row["input"]["patch"])

    assert not ok
    assert tree(tmp_path) == {k: v.encode() for k, v in row["input"]["files"].items()}
    assert any(line.split(": ", 1)[1] in said for line in row["input"]["patch"].splitlines() if ": " in line)


@owes("patch-02")
async def test_a_mismatch_cites_the_file_and_the_expected_line(tmp_path: Path) -> None:
    given = rows("4-patch")["patch-02"]["input"]
    write_tree(tmp_path, given["files"])

    _, said = await patched(tmp_path, given["patch"])

    assert "b" in said and "X" in said


@owes("patch-12")
async def test_lookalikes_are_ambiguous_until_a_line_says_which(tmp_path: Path) -> None:
    given = rows("4-patch")["patch-12"]["input"]
    write_tree(tmp_path, {"h.py": given["file"]})

    ok, said = await patched(tmp_path, given["patch"])
    assert not ok and (tmp_path / "h.py").read_text() == given["file"]
    assert "context" in said.lower() or "ambiguous" in said.lower()

    ok, said = await patched(tmp_path, given["patch"].replace("@@\n", "@@ def shut_gate(g):\n"))
    assert ok, said
    assert (tmp_path / "h.py").read_text() == given["file"][
        : given["file"].rindex("\tlog(g)\n")
    ] + "\treturn 1\n"


BARE = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"


@owes("patch-13")
@pytest.mark.parametrize(
    "wrapped",
    [
        f"```\n{BARE}\n```",
        f"```diff\n{BARE}\n```",
        f"apply_patch <<'EOF'\n{BARE}\nEOF",
        f"apply_patch <<EOF\n{BARE}\nEOF\n",
        f"\n\n{BARE}\n\n\n",
        f"{BARE}'",
        f'{BARE}"',
        f"<<'EOF'\n{BARE}\nEOF",
    ],
)
async def test_what_models_wrap_around_a_patch_is_no_part_of_it(wrapped: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {"f": "a\n"})

    ok, said = await patched(tmp_path, wrapped)

    assert ok, said
    assert tree(tmp_path) == {"f": b"b\n"}


@owes("patch-15")
async def test_a_blank_context_line_without_its_space_is_one(tmp_path: Path) -> None:
    given = rows("4-patch")["patch-15"]
    write_tree(tmp_path, {"f": given["input"]["file"]})

    ok, said = await patched(tmp_path, given["input"]["patch"])

    assert ok, said
    assert (tmp_path / "f").read_text() == given["expect"]["after"]


@owes("patch-17")
async def test_a_latin_1_target_is_patched_by_its_bytes_or_named_as_such(tmp_path: Path) -> None:
    before = bytes.fromhex(rows("4-patch")["patch-17"]["input"]["before_hex"])
    write_tree(tmp_path, {"f": before})

    ok, said = await patched(tmp_path, "*** Begin Patch\n*** Update File: f\n@@\n-x\n+y\n*** End Patch")

    after = (tmp_path / "f").read_bytes()
    assert after == before.replace(b"x", b"y") if ok else (after == before and "UTF-8" in said)
    assert "not found" not in said.lower()


@owes("patch-18")
@pytest.mark.parametrize("name", ["d", "absent"])
async def test_deleting_a_folder_or_nothing_stops_the_whole_patch(name: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write_tree(tmp_path, {"f": "a\n", "d/inner": "x\n"})
    before = tree(tmp_path)

    ok, said = await patched(tmp_path, BARE.replace("*** End", f"*** Delete File: {name}\n*** End"))

    assert not ok and name in said
    assert tree(tmp_path) == before
