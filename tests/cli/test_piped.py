"""Lines of standard input where nobody types: whole, in order, each to who asks for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import IO

import pytest

from pegboard.cli.stdin import StdinLines


@pytest.fixture
def pipe() -> Iterator[tuple[IO[str], IO[bytes]]]:
    reader, writer = os.pipe()
    with os.fdopen(reader) as file, os.fdopen(writer, "wb", buffering=0) as sent:
        yield file, sent


async def rest(piped: StdinLines) -> list[str]:
    out: list[str] = []
    while True:
        try:
            out.append(await piped.message())
        except EOFError:
            return out


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
        (b"one\\\ntwo\\\n\nthree\n", ["one\ntwo\n", "three"]),
        (b"never ends\\", ["never ends"]),
        (b"bad \xff byte\n", ["bad \ufffd byte"]),
        ("für 日本\u2028語\n".encode(), ["für 日本\u2028語"]),
        (b"tab\there, \x1b[31mred\x03\n", ["tab\there, \x1b[31mred\x03"]),
    ],
)
async def test_lines_are_read_as_they_stand(
    pipe: tuple[IO[str], IO[bytes]], sent: bytes, lines: list[str]
) -> None:
    file, writer = pipe
    writer.write(sent)
    writer.close()
    piped = StdinLines(file)

    assert await rest(piped) == lines
    assert await rest(piped) == []


async def test_a_line_that_comes_in_pieces_is_one_and_a_long_one_is_whole(
    pipe: tuple[IO[str], IO[bytes]],
) -> None:
    file, writer = pipe
    piped = StdinLines(file)
    asked = asyncio.ensure_future(piped.line())
    whole = "日本語" * 20_000

    def send() -> None:
        data = f"{whole}\nnext\n".encode()
        for start in range(0, len(data), 1000):
            writer.write(data[start : start + 1000])

    await asyncio.to_thread(send)

    assert await asked == whole
    assert await piped.line() == "next"


async def test_a_line_that_somebody_did_not_wait_for_goes_to_the_next_who_asks(
    pipe: tuple[IO[str], IO[bytes]],
) -> None:
    file, writer = pipe
    piped = StdinLines(file)
    gone = asyncio.ensure_future(piped.line())
    await asyncio.sleep(0)
    gone.cancel()
    later = asyncio.ensure_future(piped.line())
    await asyncio.sleep(0)
    writer.write(b"one\ntwo\n")

    assert [await later, await piped.line()] == ["one", "two"]
