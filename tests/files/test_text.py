"""Reading lines: numbers, pages, encodings, line ends, memory."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.files.text import LineIndex, read_slice, sniff_type
from pegboard.ports.files import Slice
from tests.ledger import owes


def read(path: Path, **options: object) -> Slice:
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_slice(fd, **options)  # type: ignore[arg-type]
    finally:
        os.close(fd)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "file"


@owes("C-09", "C-10", "M-02", "N-35")
def test_lines_count_from_one_and_keep_their_numbers_in_a_slice(file: Path) -> None:
    file.write_bytes(b"one\ntwo\nthree\nfour")

    found = read(file, offset=2, limit=2)

    assert (found.text, found.first, found.last, found.total) == ("two\nthree\n", 2, 3, 4)
    assert read(file, offset=4).text == "four"
    assert found.sha256 == hashlib.sha256(b"one\ntwo\nthree\nfour").hexdigest()
    assert found.size == 18


@owes("edit-29")
def test_pages_joined_are_the_file_without_gap_or_overlap(file: Path) -> None:
    text = "".join(f"line {i:03}\n" for i in range(1, 501))
    file.write_text(text)
    parts: list[str] = []
    offset = 1
    while True:
        found = read(file, offset=offset, limit=37)
        if not found.last:
            break
        assert found.first == offset
        parts.append(found.text)
        offset = found.last + 1

    assert "".join(parts) == text
    assert (offset, found.total) == (501, 500)


def test_an_empty_file_and_an_offset_past_the_end_have_no_lines_but_a_true_total(file: Path) -> None:
    file.write_bytes(b"")
    empty = read(file)
    file.write_bytes(b"a\nb\n")
    past = read(file, offset=3)

    assert (empty.text, empty.first, empty.last, empty.total) == ("", 0, 0, 0)
    assert (past.text, past.first, past.total) == ("", 0, 2)


@pytest.mark.parametrize(
    ("offset", "expected", "first"), [(-1, "c\n", 3), (-2, "b\nc\n", 2), (-9, "a\nb\nc\n", 1)]
)
def test_a_negative_offset_counts_from_the_end(offset: int, expected: str, first: int, file: Path) -> None:
    file.write_bytes(b"a\nb\nc\n")

    found = read(file, offset=offset)

    assert (found.text, found.first) == (expected, first)


@pytest.mark.parametrize(
    ("data", "text", "encoding", "newline"),
    [
        (b"a\r\nb\r\n", "a\nb\n", "utf-8", "\r\n"),
        (b"a\nb\r\nc\n", "a\nb\nc\n", "utf-8", "mixed"),
        (b"a\rb\rc", "a\nb\nc", "utf-8", "\r"),
        (b"a\rb\nc\n", "a\rb\nc\n", "utf-8", "\n"),
        (b"\xef\xbb\xbfkey\n", "key\n", "utf-8-sig", "\n"),
        ("key=old\r\n".encode("utf-16"), "key=old\n", "utf-16-le", "\r\n"),
        (b"\xfe\xff" + "a\nb".encode("utf-16-be"), "a\nb", "utf-16-be", "\n"),
        ("a\nb\n".encode("utf-32"), "a\nb\n", "utf-32-le", "\n"),
        ("caf\u00e9\n".encode("cp1252"), "café\n", "cp1252", "\n"),
        ("“naïve” – 5 €\n".encode("cp1252"), "“naïve” – 5 €\n", "cp1252", "\n"),
        ("名字=旧的\r\n第二行\r\n".encode("gbk"), "名字=旧的\n第二行\n", "gb18030", "\r\n"),
        ("日本語のテキストです。\n".encode("shift_jis"), "日本語のテキストです。\n", "cp932", "\n"),
        ("안녕하세요 세계\n".encode("euc_kr"), "안녕하세요 세계\n", "cp949", "\n"),
        ("Привет, как дела? Это файл.\n".encode("cp1251"), "Привет, как дела? Это файл.\n", "cp1251", "\n"),
        (b"odd \x81 byte\n", "odd \x81 byte\n", "latin-1", "\n"),
        ("x\u2028y\x0bz\x0cw\n".encode(), "x\u2028y\x0bz\x0cw\n", "utf-8", "\n"),
    ],
)  # fmt: skip
@owes("edit-11", "D-18")
def test_encodings_and_line_ends_are_found_and_reported(
    data: bytes, text: str, encoding: str, newline: str, file: Path
) -> None:
    file.write_bytes(data)

    found = read(file)

    assert (found.text, found.encoding, found.newline) == (text, encoding, newline)


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=st.lists(
        st.text(st.characters(exclude_characters="\r\n\0\ufeff", exclude_categories=["Cs"]), max_size=30),
        max_size=30,
    ),
    ending=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    offset=st.integers(1, 35),
    limit=st.integers(1, 35),
    wide=st.booleans(),
)
def test_any_slice_of_any_text_is_what_counting_by_hand_gives(
    lines: list[str],
    ending: str,
    last: bool,
    offset: int,
    limit: int,
    wide: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-slice.txt"
    text = ending.join(lines) + (ending if last and lines else "")
    with path.open("w", encoding="utf-16" if wide else "utf-8", newline="") as out:
        out.write(text)
    kept = text.replace("\r\n", "\n").split("\n")
    kept = [line + "\n" for line in kept[:-1]] + ([kept[-1]] if kept[-1] else [])
    # A few bytes that look like the start of a known type are a type, not a text.
    if sniff_type(path.read_bytes()) and not wide:
        return

    found = read(path, offset=offset, limit=limit)

    assert found.text == "".join(kept[offset - 1 : offset - 1 + limit])
    assert found.total == len(kept)


def test_a_long_line_is_cut_at_a_character_and_its_number_given(file: Path) -> None:
    file.write_text("short\n" + "é" * 5000 + "\nend\n", encoding="utf-8")

    found = read(file, max_line=100)

    assert found.text == "short\n" + "é" * 100 + "\nend\n"
    assert found.cut == (2,)


def test_a_long_line_of_utf_16_is_cut_as_well(file: Path) -> None:
    file.write_bytes(("a\n" + "é" * 500 + "\nb").encode("utf-16"))

    found = read(file, max_line=100)
    last = read(file, offset=-1)

    assert found.text == "a\n" + "é" * 100 + "\nb"
    assert found.cut == (2,)
    assert (last.text, last.first) == ("b", 3)


@owes("edit-27")
def test_the_first_line_of_a_sparse_file_costs_neither_time_nor_memory(file: Path) -> None:
    with file.open("wb") as out:
        out.write(b"first line\n")
        out.truncate(128 << 20)
    start = time.process_time()

    found = read(file, limit=1)

    assert found.text == "first line\n"
    assert time.process_time() - start < 1


@pytest.mark.slow
def test_lines_of_a_large_file_take_less_than_32_mib_whatever_their_length(file: Path) -> None:
    with file.open("wb") as out:
        for _ in range(40):
            out.write(b"x" * 99 + b"\n" + b"y" * 4_999_999 + b"\n")
    script = (
        "import os, resource, sys\n"
        "from pegboard.files.text import read_slice\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = read_slice(fd, offset=-3)\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(found.first, found.last, found.cut, (after - before) // 1024)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}

    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, env=environment, check=True
    )

    first, last, *cut, mebibytes = done.stdout.split()
    assert (first, last, "".join(cut)) == ("78", "80", "(78,80)")
    assert int(mebibytes) < 32


@pytest.mark.full
@pytest.mark.slow
def test_an_index_makes_the_second_slice_a_lookup(file: Path) -> None:
    file.write_bytes(b"".join(b"%08d\n" % i for i in range(1, 600_001)) * 10)
    index = LineIndex()
    start = time.process_time()
    read(file, offset=5_999_990, index=index)
    counted = time.process_time() - start
    times: list[float] = []

    for _ in range(5):
        start = time.process_time()
        found = read(file, offset=200_000, limit=2, index=index)
        times.append(time.process_time() - start)

        assert found.text == "00200000\n00200001\n"
    # Without the index each slice would count the lines again, ten or more blocks of them.
    assert min(times) < counted / 2


def test_a_file_that_changed_is_counted_anew(file: Path) -> None:
    index = LineIndex()
    file.write_bytes(b"a\nb\nc\n")
    assert read(file, offset=2, index=index).text == "b\nc\n"
    file.write_bytes(b"aaa\nbbb\nccc\nd\n")

    assert read(file, offset=2, index=index).text == "bbb\nccc\nd\n"


def test_the_index_forgets_the_longest_unused_file(tmp_path: Path) -> None:
    index = LineIndex(2)
    facts = []
    for name in "abc":
        (tmp_path / name).write_text(name)
        facts.append((tmp_path / name).stat())
    first = index.lines_of(facts[0], b"\n")
    index.lines_of(facts[1], b"\n")
    assert index.lines_of(facts[0], b"\n") is first
    index.lines_of(facts[2], b"\n")

    assert index.lines_of(facts[0], b"\n") is first


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (bytes.fromhex("89504e470d0a1a0a0000000d"), "image/png"),
        (b"needle\0\1", "application/octet-stream"),
        (b"%PDF-1.7\nx", "application/pdf"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x20ftypavif", "image/avif"),
    ],
)
@owes("edit-30")
def test_a_binary_file_is_refused_with_its_type_and_size(data: bytes, mime: str, file: Path) -> None:
    file.write_bytes(data)

    with pytest.raises(Unsupported) as caught:
        read(file)

    assert caught.value.details == {"binary": True, "mime_type": mime, "size": len(data)}


@owes("edit-31")
@pytest.mark.parametrize("name", ["Cargo.toml", "a.rs", "b.sql", "Makefile"])
def test_what_is_text_is_decided_by_content_not_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("key = 1\n")

    assert read(tmp_path / name).text == "key = 1\n"


def test_a_pipe_a_folder_and_a_range_without_lines_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    fd = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(Unsupported):
        read_slice(fd)
    os.close(fd)
    with pytest.raises(InvalidArguments):
        read(tmp_path / "file", offset=0)
    with pytest.raises(InvalidArguments):
        read(tmp_path / "file", limit=0)


def test_a_slice_ends_before_it_outgrows_memory(file: Path) -> None:
    file.write_bytes((b"x" * 1999 + b"\n") * 4000)

    found = read(file, limit=100_000)

    assert found.last < 4000
    assert len(found.text) < 5 << 20
    assert found.total == 4000


@pytest.mark.slow
def test_in_a_file_too_large_to_judge_whole_the_slice_is_decoded_truly(file: Path) -> None:
    file.write_bytes(b"plain\n" * 900_000 + "café\n".encode("cp1252") * 2)

    found = read(file, offset=-1)

    assert (found.text, found.encoding, found.sha256) == ("café\n", "cp1252", "")
    assert read(file, limit=1).encoding == "utf-8"
