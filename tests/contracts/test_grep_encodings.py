"""grep: what read_file shows is found, whatever encoding and line ends the file has, by both engines alike."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pegboard.files.search import search
from pegboard.files.text import read_slice
from pegboard.ports.files import GrepResult, SearchQuery
from tests.ledger import owes

RG = shutil.which("rg")
assert RG is not None, "the contract needs ripgrep beside our own walker"
ENGINES: list[Path | Literal[False]] = [Path(RG), False]
both = pytest.mark.parametrize("rg", ENGINES, ids=["ripgrep", "walker"])

GERMAN = "# Übersicht\nplain line\nStraße und Brücke für alle\nein Café, naïve Größe\nlast one"
RUSSIAN = "первая строка\nвторая строка с текстом\nplain needle\nСъешь же ещё этих мягких французских булок\n"
CHINESE = "第一行文字\n今天天气很好，我们去公园玩。\nplain needle\n我能吞下玻璃而不伤身体\n"
JAPANESE = (
    "最初の行です\n私はガラスを食べられます。それは私を傷つけません。\nplain needle\nソフトウェアの表示\n"
)
KOREAN = "첫 번째 줄\n나는 유리를 먹을 수 있어요. 그래도 아프지 않아요\nplain needle\n한국어 문장입니다\n"

FILES: dict[str, bytes] = {
    "german.latin1": GERMAN.encode("latin-1"),
    "german.cp1252crlf": GERMAN.replace("\n", "\r\n").encode("cp1252"),
    "german.utf8": GERMAN.encode(),
    "german.utf8sig": GERMAN.encode("utf-8-sig"),
    "german.utf16": GERMAN.encode("utf-16"),
    "german.torn": GERMAN.encode().replace("ß".encode(), b"\xc3"),
    "german.sigtorn": GERMAN.encode("utf-8-sig").replace("ß".encode(), b"\xc3"),
    "german.mac": GERMAN.replace("\n", "\r").encode(),
    "german.maclatin1": GERMAN.replace("\n", "\r").encode("latin-1"),
    "russian.cp1251": (RUSSIAN * 3).encode("cp1251"),
    "russian.koi8": (RUSSIAN * 3).encode("koi8_r"),
    "chinese.gbk": (CHINESE * 3).encode("gbk"),
    "japanese.sjis": (JAPANESE * 3).encode("cp932"),
    "japanese.euc": (JAPANESE * 3).encode("euc_jp"),
    "korean.cp949": (KOREAN * 3).encode("cp949"),
    "image.bin": b"\x89PNG\r\n\x1a\n\0\0" + bytes(range(256)),
    "progress.log": "10 %\r20 %\rfür alle\nGröße 3\n".encode(),
    "ascii.txt": b"plain line\nneedle\n",
    "replaced.utf8": "Gr\ufffd\ufffde in a file that lost it\nGröße\r\n".encode(),
    "folder/deep.latin1": GERMAN.encode("latin-1"),
}  # fmt: skip

QUERIES: list[dict[str, Any]] = [
    {"pattern": "Brücke"}, {"pattern": "brÜcke", "ignore_case": True}, {"pattern": "Br.cke"}, {"pattern": "^Stra.e und Br.cke"},
    {"pattern": "[à-ü]"}, {"pattern": r"na\wve Gr\w{3}$"}, {"pattern": r"Gr\S+e"}, {"pattern": r"\bCaf\w\b"}, {"pattern": "[^a-zA-Z ,#]+"},
    {"pattern": "Übersicht", "fixed_strings": True}, {"pattern": "GRÖSSE|größe", "ignore_case": True}, {"pattern": r"\xfc\x62|f\u00fcr"},
    {"pattern": "Straße.*\n.*Café", "multiline": True}, {"pattern": "line.Stra", "multiline": True}, {"pattern": "(?<=r)ü"}, {"pattern": r"(f)ür \w+$"},
    {"pattern": "^plain line$"}, {"pattern": "plain"}, {"pattern": "needle"}, {"pattern": "^"}, {"pattern": "$"}, {"pattern": "."}, {"pattern": "one$"},
    {"pattern": "x*", "mode": "count"}, {"pattern": "a"}, {"pattern": "[|}~]"}, {"pattern": r"\\"},
    {"pattern": "строка"}, {"pattern": "СТРОКА", "ignore_case": True}, {"pattern": "^[а-яё ]+$"}, {"pattern": "天气"}, {"pattern": "今天..很好"},
    {"pattern": "表示$"}, {"pattern": "ガラス"}, {"pattern": "유리를 먹"}, {"pattern": "^한국어"},
    {"pattern": "Größe", "context": 1}, {"pattern": "Größe", "mode": "files"}, {"pattern": ".", "mode": "count"}, {"pattern": "e", "mode": "count"},
    {"pattern": "Größe", "mode": "files", "limit": 2, "offset": 1}, {"pattern": "ü", "limit": 3}, {"pattern": "Größe", "glob": "*.latin1"},
    {"pattern": "Größe", "path": "folder"}, {"pattern": "Größe", "path": "german.latin1"}, {"pattern": "line", "path": "german.mac"},
    {"pattern": "\ufffd+e"}, {"pattern": "Gr.+e", "path": "replaced.utf8"}, {"pattern": "\uefc3"}, {"pattern": "Stra.e und"}, {"pattern": "Größe."}, {"pattern": "(a|e|ü)+(ß|r|ck)+e"}, {"pattern": "Gr(ö|o)(ß|s)e(?! )"},
    {"pattern": "Straße und Brücke fur"}, {"pattern": "für(alle)"}, {"pattern": "10 %.20"}, {"pattern": "alle$", "path": "progress.log"},
]  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("encodings")
    for name, data in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    return root


def _query(query: dict[str, Any]) -> dict[str, Any]:
    return {"limit": 1000, **query}


def answer(root: Path, rg: Path | Literal[False], **query: Any) -> GrepResult:
    return replace(search(root, SearchQuery(**_query(query)), rg=rg), searched=0)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: " ".join(map(str, q.values())).replace("\n", "\\n"))
@owes("D-28", "X-55")
def test_both_engines_give_the_same_answer(query: dict[str, Any], tree: Path) -> None:
    assert answer(tree, ENGINES[0], **query) == answer(tree, ENGINES[1], **query)


@both
@pytest.mark.parametrize("name", [name for name in FILES if name != "image.bin"])
@owes("D-28")
def test_every_line_that_read_file_shows_is_found_by_its_own_text(
    name: str, rg: Path | Literal[False], tree: Path
) -> None:
    file = os.open(tree / name, os.O_RDONLY)
    lines = read_slice(file).text.split("\n")
    os.close(file)

    for number, line in enumerate(lines, 1):
        # A lone CR in a line of a file with LF is part of it for one, a sign in it for the other.
        if line and "\r" not in line:
            found = answer(tree, rg, pattern=line, path=name, fixed_strings=True)
            assert (number, line) in [(m.line, m.text) for m in found.matches]


@both
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        # By hand: who of the files above holds such a line, and where.
        ("Brücke", {"german.latin1": [3], "german.cp1252crlf": [3], "german.utf8": [3], "german.utf8sig": [3], "german.utf16": [3],
                    "german.torn": [3], "german.sigtorn": [3], "german.mac": [3], "german.maclatin1": [3], "folder/deep.latin1": [3]}),
        ("^Stra.e", {"german.latin1": [3], "german.cp1252crlf": [3], "german.utf8": [3], "german.utf8sig": [3], "german.utf16": [3],
                     "german.torn": [3], "german.sigtorn": [3], "german.mac": [3], "german.maclatin1": [3], "folder/deep.latin1": [3]}),
        ("мягких", {"russian.cp1251": [4, 8, 12], "russian.koi8": [4, 8, 12]}),
        ("公园", {"chinese.gbk": [2, 6, 10]}),
        ("ガラス", {"japanese.sjis": [2, 6, 10], "japanese.euc": [2, 6, 10]}),
        ("먹을", {"korean.cp949": [2, 6, 10]}),
        # 表 is 95 5C in Shift-JIS, and ソ is 83 5C: neither is a backslash.
        (r"\\", {}),
    ],
)  # fmt: skip
@owes("D-28", "X-55")
def test_text_of_any_encoding_is_found_where_it_stands(
    pattern: str, expected: dict[str, list[int]], rg: Path | Literal[False], tree: Path
) -> None:
    found = answer(tree, rg, pattern=pattern)

    lines: dict[str, list[int]] = {}
    for match in found.matches:
        lines.setdefault(match.path, []).append(match.line)
    assert lines == expected


@both
@owes("D-28")
def test_lines_that_end_in_cr_alone_count_as_lines(rg: Path | Literal[False], tmp_path: Path) -> None:
    (tmp_path / "mac.txt").write_bytes(b"one\rtwo needle\rthree\rfour needle\r")

    found = answer(tmp_path, rg, pattern="needle$", context=1)
    counts = answer(tmp_path, rg, pattern="needle", mode="count").counts

    assert [(m.line, m.text, m.is_match) for m in found.matches] == [
        (1, "one", False), (2, "two needle", True), (3, "three", False), (4, "four needle", True),
    ]  # fmt: skip
    assert counts == (("mac.txt", 2),)


@both
@owes("D-28")
def test_a_long_line_of_another_encoding_is_clipped_around_its_hit(
    rg: Path | Literal[False], tmp_path: Path
) -> None:
    (tmp_path / "one").write_bytes(
        ("schöne Straße " * 300 + "Brücke" + " über den Fluß" * 300).encode("latin-1")
    )

    (match,) = answer(tmp_path, rg, pattern="Brücke").matches

    assert "Brücke" in match.text
    assert len(match.text) < 400


@both
@pytest.mark.parametrize("pattern", ["port=8080", "port=[0-9]+"])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_wide_text_without_a_mark_and_text_with_stray_zero_bytes_are_searched(
    rg: Path | Literal[False], tmp_path: Path, codec: str, pattern: str
) -> None:
    (tmp_path / "wide").write_bytes("Server started\nport=8080\n".encode(codec))
    (tmp_path / "torn").write_bytes(b"Server started at noon\n\0port=8080 and a longer line\n")

    found = answer(tmp_path, rg, pattern=pattern).matches

    assert [(m.path, m.line, m.text) for m in found] == [
        ("torn", 2, "\u2400port=8080 and a longer line"),
        ("wide", 2, "port=8080"),
    ]
