"""Builds the setup of one row of the path corpus, runs it and judges the outcome."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pegboard.core.errors import ToolError
from pegboard.files.jail import Jail
from pegboard.files.openat import Opener

RACE_ROUNDS = 400


class Place:
    """A workspace W, a folder outside O and a home H, built as a row says."""

    def __init__(self, base: Path) -> None:
        self.workspace, self.outside, self.home = base / "W", base / "O", base / "H"
        for folder in (self.workspace, self.outside, self.home):
            folder.mkdir()
        (self.outside / "secret.txt").write_text("TOPSECRET")
        (self.outside / "victim.txt").write_text("ORIGINAL")
        self.race: list[Any] | None = None
        self.sockets: list[socket.socket] = []

    def fill(self, text: str) -> str:
        for mark, folder in (("{W}", self.workspace), ("{O}", self.outside), ("{H}", self.home)):
            text = text.replace(mark, str(folder))
        return text

    def build(self, setup: list[list[Any]]) -> None:
        for verb, *args in setup:
            args = [self.fill(a) if isinstance(a, str) else a for a in args]
            match verb:
                case "mkdir":
                    Path(args[0]).mkdir(parents=True, exist_ok=True)
                case "file":
                    Path(args[0]).write_text(args[1])
                case "symlink":
                    os.symlink(args[0], args[1])
                case "hardlink":
                    os.link(args[0], args[1])
                case "fifo":
                    os.mkfifo(args[0])
                case "sock":
                    listener = socket.socket(socket.AF_UNIX)
                    listener.bind(args[0])
                    self.sockets.append(listener)
                case "sparse":
                    with open(args[0], "wb") as file:
                        file.truncate(args[1])
                case "chmod":
                    os.chmod(args[0], args[1])
                case "race":
                    self.race = args
                case _:
                    raise AssertionError(f"unknown setup step {verb}")

    def snapshot(self) -> dict[str, str]:
        return {
            str(p.relative_to(self.outside)): p.read_text() if p.is_file() else "(folder)"
            for p in sorted(self.outside.rglob("*"))
        }


@contextmanager
def racing(race: list[Any] | None) -> Iterator[None]:
    """Swaps the raced name between the inside thing and a link to the outside one, until left."""
    if race is None:
        yield
        return
    kind, name, inside, outside = race
    stop = threading.Event()

    def swap() -> None:
        good, bad = name + ".good", name + ".bad"
        while not stop.is_set():
            if kind == "rename":
                # The folder itself is moved away and a link put in its place, then back.
                for source, target in ((inside, good), (good, name)):
                    try_quietly(os.rename, source, target)
                try_quietly(os.rename, name, inside)
                try_quietly(os.symlink, outside, name)
                try_quietly(os.unlink, name)
                continue
            for target, spare in ((inside, good), (outside, bad)):
                try_quietly(os.symlink, target, spare)
                # A write may have put a file in the place; rename puts the link back over it.
                try_quietly(os.rename, spare, name)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def try_quietly(function: Callable[..., object], *args: str) -> None:
    with suppress(OSError):
        function(*args)


def act(jail: Jail, op: str, path: str) -> str:
    """The operation's output as text."""
    match op:
        case "read":
            return jail.read_bytes(path).decode("utf-8", "replace")
        case "write":
            jail.write_bytes(path, b"WRITTEN")
            return ""
        case "delete":
            jail.delete(path)
            return ""
        case "mkdir":
            jail.mkdir(path)
            return ""
        case "list" if "*" in path:
            return "\n".join(jail.glob(path))
        case "list":
            return "\n".join(jail.list(path))
        case _:
            raise AssertionError(op)


def run_row(row: dict[str, Any], opener: Opener, base: Path) -> None:
    place = Place(base)
    place.build(row["setup"])
    before = place.snapshot()
    path = place.fill(row["input"])
    jail = Jail(place.workspace, home=place.home, opener=opener)
    verdicts: set[str] = set()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with racing(place.race):
            for _ in range(RACE_ROUNDS if place.race else 1):
                try:
                    output = act(jail, row["op"], path)
                    verdicts.add("allow")
                    assert "TOPSECRET" not in output and "secret.txt" not in output
                except ToolError as error:
                    verdicts.add("deny")
                    assert error.message and str(error).encode("utf-8")
                    assert str(base) not in error.message.replace(row["input"], "").replace(path, "")
    finally:
        jail.close()
        for listener in place.sockets:
            listener.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss < 200_000  # KiB
    if row["cls"] not in ("hardlink",):
        assert place.snapshot() == before, "something outside changed"
    else:
        assert (place.outside / "victim.txt").read_text() == "ORIGINAL"
    if not row.get("either_ok"):
        wanted = {row["expect"]} | ({"allow"} if str(row.get("tolerate", "")).startswith("allow") else set())
        if row.get("tolerate") == "deny":
            wanted.add("deny")
        assert verdicts <= wanted, f"{verdicts} where {wanted} is right: {row['why']}"
