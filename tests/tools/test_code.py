"""code: definitions, uses, symbols and renames, with the fake server and with pyright."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pyright
import pytest

from pegboard import Executor, builtin
from pegboard.app.app import App
from pegboard.core.errors import Unavailable
from pegboard.core.policy.approval import Approved, Refused
from pegboard.files.workspace import Workspace
from pegboard.lsp.code import ServerCodeIndex
from pegboard.lsp.programs import Checker
from pegboard.ports.code import CodeIndex
from tests.lsp.kit import pool_in, toy

FILES = {
    "a.toy": "def area\n  \U0001d4d0 area area2\n",
    "sub/b.toy": "use area;\r\nuse other;\r\nuse area.width\r\n",
    "c.toy": "nothing\n",
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


@asynccontextmanager
async def executor(work: Path, *behaviour: str, **options: Any) -> AsyncGenerator[Executor]:
    pool = pool_in(work)
    files = Workspace(work)
    index = ServerCodeIndex(pool, files, checkers={"*.toy": [toy(*behaviour)]}, again_s=0.0)
    try:
        async with Executor(
            builtin("code", "edit_file"), workspace=work, provide=[index], **options
        ) as opened:
            assert opened.wiring.provided.find(CodeIndex) is index
            yield opened
    finally:
        files.close()
        await pool.aclose()


def content(work: Path) -> dict[str, str]:
    return {name: (work / name).read_bytes().decode() for name in FILES}


async def test_a_definition_and_uses_are_found_in_other_files_with_their_lines(work: Path) -> None:
    async with executor(work) as ex:
        defined = await ex.call("code", {"action": "definition", "path": "sub/b.toy", "symbol": "area"})
        used = await ex.call("code", {"action": "references", "path": "a.toy", "symbol": "area", "line": 2})

    assert str(defined) == "a.toy:1:5: def area"
    assert defined.data == {"locations": [{"path": "a.toy", "line": 1, "column": 5, "text": "def area"}]}
    # Columns are those of the server: the letter before stands for two.
    assert str(used).splitlines() == [
        "a.toy:1:5: def area",
        "a.toy:2:6: \U0001d4d0 area area2",
        "sub/b.toy:1:5: use area;",
        "sub/b.toy:3:5: use area.width",
    ]


async def test_symbols_are_those_of_a_file_or_of_the_workspace(work: Path) -> None:
    (work / "d.toy").write_text("def one\ndef two\n")
    async with executor(work) as ex:
        one = await ex.call("code", {"action": "symbols", "path": "d.toy"})
        every = await ex.call("code", {"action": "symbols"})
        named = await ex.call("code", {"action": "symbols", "symbol": "TWO"})

    assert str(one) == "d.toy:1: function one\nd.toy:2: function two"
    assert [s["name"] for s in every.data["symbols"]] == ["area", "one", "two"]
    assert [s["name"] for s in named.data["symbols"]] == ["two"]


async def test_a_name_that_stands_in_a_comment_first_is_found_where_it_is_used(work: Path) -> None:
    (work / "d.toy").write_text("# area\n# area\nuse area\n")
    async with executor(work) as ex:
        defined = await ex.call("code", {"action": "definition", "path": "d.toy", "symbol": "area"})
        renamed = await ex.call("code", {**RENAME, "path": "d.toy"})

    assert str(defined) == "a.toy:1:5: def area"
    assert renamed.ok and "surface" in (work / "a.toy").read_text()


async def test_a_server_that_does_not_start_costs_only_its_own_symbols(work: Path) -> None:
    pool = pool_in(work)
    broken = Checker(name="broken", argv=(sys.executable, "-c", "raise SystemExit(1)"))
    with closing(Workspace(work)) as files:
        index = ServerCodeIndex(pool, files, checkers={"*.x": [broken], "*.toy": [toy()]}, again_s=0.0)
        alone = ServerCodeIndex(pool, files, checkers={"*.x": [broken]}, again_s=0.0)
        try:
            with pytest.raises(Unavailable, match="broken is not usable"):
                await alone.symbols(None, "")
            assert [one.name for one in await index.symbols(None, "area")] == ["area"]
        finally:
            await pool.aclose()


class Asked:
    def __init__(self, *answers: Any) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)

    async def decide(self, request: Any) -> Any:
        self.requests.append(request)
        return self._answers.pop(0)


RENAME = {"action": "rename", "path": "sub/b.toy", "symbol": "area", "new_name": "surface"}


async def test_a_rename_is_one_preview_one_question_and_one_undo(work: Path) -> None:
    person = Asked(Refused("not now"), Approved())
    async with executor(work, mode="ask", approver=person) as ex:
        preview = await ex.preview("code", RENAME)
        refused = await ex.call("code", RENAME)
        unchanged = content(work)
        renamed = await ex.call("code", RENAME, id="rename")
        after = content(work)
        await ex.undo("rename")
        undone = content(work)

    assert [str(e) for e in preview.effects] == ["read .", "write a.toy", "write sub/b.toy"]
    assert [c.path for c in preview.changes] == ["a.toy", "sub/b.toy"]
    assert "-def area" in preview.changes[0].diff
    assert not refused.ok
    assert unchanged == FILES
    assert [[c.path for c in r.changes] for r in person.requests] == [["a.toy", "sub/b.toy"]] * 2
    assert str(renamed) == "Renamed area to surface in 2 files:\nM a.toy (+2 -2)\nM sub/b.toy (+2 -2)"
    # Neither `area2` nor the line ends change, and what stands behind a character of two units does.
    assert after == {
        "a.toy": "def surface\n  \U0001d4d0 surface area2\n",
        "sub/b.toy": "use surface;\r\nuse other;\r\nuse surface.width\r\n",
        "c.toy": "nothing\n",
    }
    assert undone == FILES


async def test_a_byte_order_mark_stays_and_counts_for_nothing(work: Path) -> None:
    (work / "a.toy").write_bytes("\ufeffarea area\n".encode())
    async with executor(work) as ex:
        await ex.call("code", {**RENAME, "path": "a.toy"})

    assert (work / "a.toy").read_bytes() == "\ufeffsurface surface\n".encode()


async def test_a_file_that_has_changed_since_the_server_saw_it_is_shown_to_it_again(work: Path) -> None:
    async with executor(work) as ex:
        await ex.call("code", {"action": "definition", "path": "a.toy", "symbol": "area"})
        (work / "a.toy").write_text("new line\ndef area\n")
        found = await ex.call("code", {"action": "definition", "path": "sub/b.toy", "symbol": "area"})

    assert str(found) == "a.toy:2:5: def area"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ({"action": "definition", "path": "a.toy", "symbol": "nix"}, "not_found", "'nix' is not in a.toy"),
        ({"action": "definition", "path": "sub/b.toy", "symbol": "area", "line": 2}, "not_found", "lines 1, 3"),
        ({"action": "definition", "path": "a.toy"}, "invalid_arguments", "needs path and symbol"),
        ({**RENAME, "new_name": ""}, "invalid_arguments", "needs new_name"),
        ({**RENAME, "new_name": "2nd"}, "invalid_arguments", "new_name '2nd' is not a name"),
        ({**RENAME, "new_name": "a b"}, "invalid_arguments", "is not a name"),
        ({**RENAME, "new_name": "f()"}, "invalid_arguments", "is not a name"),
        ({**RENAME, "new_name": "elsewhere"}, "outside_workspace", "outside"),
        ({**RENAME, "new_name": "moved"}, "unsupported", "wants to rename a file"),
        ({"action": "symbols", "path": "x.go"}, "unavailable", "go install golang.org/x/tools/gopls@latest"),
        ({"action": "symbols", "path": "x.unknown"}, "unsupported", "no language server is known for x.unknown"),
        ({"action": "symbols", "path": "../x.toy"}, "outside_workspace", "outside"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_says_why_and_what_to_do(
    arguments: dict[str, Any], code: str, says: str, work: Path
) -> None:
    for name in ("x.go", "x.unknown"):
        (work / name).write_text("area\n")
    async with executor(work) as ex:
        result = await ex.call("code", arguments)

    assert result.error is not None
    assert result.error.code == code
    assert says in str(result.error)
    assert content(work) == FILES


async def test_a_rename_is_denied_where_nothing_may_be_written_and_looking_is_not(work: Path) -> None:
    async with executor(work, mode="read-only") as ex:
        denied = await ex.call("code", RENAME)
        found = await ex.call("code", {"action": "definition", "path": "a.toy", "symbol": "area"})

    assert denied.error is not None
    assert denied.error.code == "permission_denied"
    assert found.ok


async def test_lines_of_a_file_that_a_rule_denies_are_not_shown(work: Path) -> None:
    async with executor(work) as ex:
        kept = Workspace(work, deny=lambda access, target: "private" if target == "a.toy" else None)
        index: Any = ex.wiring.provided.find(CodeIndex)
        index._files = kept
        try:
            found = await ex.call("code", {"action": "references", "path": "sub/b.toy", "symbol": "area"})
        finally:
            kept.close()

    assert "a.toy:1:5: \n" in str(found)
    assert "def area" not in str(found)


# -- real servers ---------------------------------------------------------------------------------


def real(own_home: Path, *names: str) -> None:
    """Settings with servers that lie in this Python's environment."""
    folder = own_home / ".config/pegboard"
    folder.mkdir(parents=True)
    (folder / "pegboard.toml").write_text(
        f'path_prepend = ["{Path(sys.executable).parent}"]\nread_only_dirs = ["{Path(pyright.__file__).parents[1]}"]\n'
        f'tools = ["write_file", "code"]\n[diagnostics.files]\n"*.py" = {list(names)!r}\n'
    )


@pytest.mark.slow
async def test_pyright_finds_and_renames_in_its_sandbox(own_home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("def area(w: int) -> int:\n    return w\n")
    (work / "b.py").write_text("from a import area\n\nprint(area(2), 'area')\n")
    real(own_home, "pyright")
    with App.open(workspace=work) as app:
        async with app.executor() as ex:
            found = await ex.call("code", {"action": "references", "path": "b.py", "symbol": "area"})
            renamed = await ex.call(
                "code", {"action": "rename", "path": "b.py", "symbol": "area", "new_name": "size"}
            )

    assert str(found).splitlines() == [
        "a.py:1:5: def area(w: int) -> int:",
        "b.py:1:15: from a import area",
        "b.py:3:7: print(area(2), 'area')",
    ]
    assert renamed.ok, str(renamed)
    assert (work / "a.py").read_text() == "def size(w: int) -> int:\n    return w\n"
    assert (work / "b.py").read_text() == "from a import size\n\nprint(size(2), 'area')\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("ruff", "a.py:3:1: error: Undefined name `zz` (ruff F821)"),
        ("pyright", 'a.py:3:1: error: "zz" is not defined (pyright reportUndefinedVariable)'),
    ],
)
async def test_a_real_server_says_only_what_the_write_broke(
    server: str, said: str, own_home: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("yy\n")
    real(own_home, server)
    with App.open(workspace=work) as app:
        async with app.executor() as ex:
            text = str(await ex.call("write_file", {"path": "a.py", "content": "\nyy\nzz\n"}))
            while "still checking" in text:
                # Its start takes longer than a result waits; the next result has it.
                text = str(await ex.call("write_file", {"path": "b.py", "content": f"x = {len(text)}\n"}))

    assert said in text
    assert "yy" not in text.partition("[The write")[2]
