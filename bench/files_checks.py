"""The bars of the file tools that b07 has no floor for; every figure is a ratio within this one run.

Ours is a call through the Executor where a tool is named, else the library's own function. Floor and ours
take turns; the least of the rounds counts, since a busy neighbour only ever adds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINES, WIDTH = 10_000_000, 100
WORDS = [
    "agent",
    "tool",
    "call",
    "model",
    "schema",
    "registry",
    "session",
    "memory",
    "token",
    "stream",
    "event",
    "queue",
    "worker",
    "limit",
]


def main() -> int:
    """Print each bar beside what was measured; 0 always, since a figure is no test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="*", default=[], help="some of: " + " ".join(CHECKS))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print("| bar | measured | most | met |\n|---|---|---|---|", flush=True)
    for name in args.checks or CHECKS:
        with tempfile.TemporaryDirectory(prefix="pegboard-bench-") as folder:
            for bar, value, most, unit in CHECKS[name](Path(folder), args.rounds):
                met = "yes" if value <= most else "NO"
                print(f"| {bar} | {value:.3g} {unit} | {most:g} | {met} |", flush=True)
    return 0


Row = tuple[str, float, float, str]


def timed(act: Callable[[], object]) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def in_turn(rounds: int, *acts: Callable[[], object]) -> list[float]:
    """The least time of each."""
    best = [float("inf")] * len(acts)
    for _ in range(rounds):
        for at, act in enumerate(acts):
            best[at] = min(best[at], timed(act))
    return best


def peak_mib() -> float:
    """This process's most memory since `reset_peak`."""
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))


def reset_peak() -> float:
    """Forget the peak; memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mib()


class Door:
    """One executor that stays open between calls."""

    def __init__(self, folder: Path, *names: str) -> None:
        from pegboard import Executor, builtin

        self._loop = asyncio.new_event_loop()
        self._door: Any = Executor(builtin(*names), workspace=folder, mode="full")

    def call(self, name: str, **arguments: Any) -> Any:
        """The tool's result; an error ends the measurement."""
        result = self._loop.run_until_complete(self._door.call(name, arguments))
        if not result.ok and name != "edit_file":
            raise SystemExit(f"{name}: {result.error}")
        return result


# ---------------------------------------------------------------------- one check each


def edit(folder: Path, rounds: int) -> list[Row]:
    """One edit in 100 MB against read, replace, write with fsync and a linked before-image (decisions 26)."""
    path, number = folder / "big.txt", 0
    lines(path, 1_000_000)
    door = Door(folder, "edit_file")

    def floor() -> None:
        nonlocal number
        number += 1
        data = path.read_bytes()
        old = b"00500000"
        assert data.count(old) == 1
        os.link(path, folder / f"before-{number}")
        with open(folder / ".new", "wb") as out:
            out.write(data.replace(old, b"CHANGED!", 1).replace(b"CHANGED!", old, 1))
            out.flush()
            os.fsync(out.fileno())
        os.rename(folder / ".new", path)
        os.unlink(folder / f"before-{number}")

    def ours() -> None:
        nonlocal number
        number += 1
        # Each time a new content: what the journal holds already would cost nothing.
        door.call(
            "edit_file", path="big.txt", old_string=f"{400_000 + number:08d}", new_string=f"edit{number:04d}"
        )

    ours()
    a, b = in_turn(rounds, floor, ours)
    size = path.stat().st_size / 2**20
    base = reset_peak()
    ours()
    memory = (peak_mib() - base) / size
    return [
        ("edit_file in 100 MB against read, replace, write, fsync, link", b / a, 1.6, "x"),
        ("edit_file in 100 MB: memory over the file", memory, 2.2, "x"),
    ]


def undo(folder: Path, rounds: int) -> list[Row]:
    """Undo of a run of 1,000 calls against copying the files durably, as an undo is durable."""
    from pegboard.core.effects import Change, ChangeSet
    from pegboard.files.commit import commit
    from pegboard.files.jail import Jail
    from pegboard.files.journal import ChangeOrigin, Journal
    from pegboard.files.undo import ByRun
    from pegboard.files.undo import undo as take_back

    best = {"synced": float("inf"), "replaced": float("inf"), "ours": float("inf")}
    for turn in range(rounds):
        work = folder / f"work-{turn}"
        for number in range(1000):
            place = work / f"d{number % 20}" / f"f{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(os.urandom(2000).hex().encode())
        jail, journal = Jail(work), Journal(folder / f"journal-{turn}")
        for number in range(1000):
            path = f"d{number % 20}/f{number}.txt"
            before = (work / path).read_bytes()
            changes = ChangeSet(
                (Change(path=path, kind="modify", before=before, after=before + b"x", diff=""),)
            )
            commit(jail, changes, journal=journal, origin=ChangeOrigin(call_id=f"c{number}", run="r"))
        os.sync()
        best["synced"] = min(best["synced"], timed(lambda w=work, t=turn: copied(w, folder / f"copy-{t}")))
        os.sync()
        best["replaced"] = min(
            best["replaced"], timed(lambda w=work, t=turn: replaced(folder / f"copy-{t}", w))
        )
        os.sync()
        best["ours"] = min(best["ours"], timed(lambda j=jail, k=journal: take_back(j, k, ByRun(id="r"))))
    return [
        ("undo of 1,000 files against copying them with fsync", best["ours"] / best["synced"], 2, "x"),
        (
            "undo of 1,000 files against copying them over the old ones, one sync",
            best["ours"] / best["replaced"],
            2,
            "x",
        ),
    ]


def copied(source: Path, goal: Path) -> None:
    """Copy a tree; each file is synced, and then each folder."""
    shutil.copytree(source, goal)
    for folder, _, names in os.walk(goal):
        for name in (*names, "."):
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def replaced(source: Path, goal: Path) -> None:
    """Copy each file over the one that is there, whole or not at all; one sync before the renames, one after."""
    moves: list[tuple[str, str]] = []
    for folder, _, names in os.walk(source):
        for name in names:
            there = os.path.join(folder, name)
            here = str(goal) + there[len(str(source)) :]
            shutil.copyfile(there, here + ".new")
            moves.append((here + ".new", here))
    os.sync()
    for new, old in moves:
        os.rename(new, old)
    os.sync()


def pdf(folder: Path, rounds: int) -> list[Row]:
    """40 pages through read_file against pypdfium2 alone in a child that is started for it."""
    path = folder / "forty.pdf"
    path.write_bytes(forty_pages())
    door = Door(folder, "read_file")
    script = (
        "import sys, pypdfium2\npdf = pypdfium2.PdfDocument(sys.stdin.buffer.read())\n"
        "print('\\n'.join(page.get_textpage().get_text_range() for page in pdf))\nimport os\n"
        "sys.stdout.flush()\nos._exit(0)"
    )

    def floor() -> None:
        # Through a pipe like ours: the child is confined and opens no file.
        subprocess.run(
            [sys.executable, "-I", "-c", script], input=path.read_bytes(), stdout=subprocess.PIPE, check=True
        )

    def ours() -> None:
        door.call("read_file", path="forty.pdf")

    assert "page 40" in str(door.call("read_file", path="forty.pdf", pages="40"))
    a, b = in_turn(rounds * 3, floor, ours)
    return [("read_file of a 40-page PDF against pypdfium2 alone in a new child", b / a, 1.3, "x")]


def slices(folder: Path, rounds: int) -> list[Row]:
    """50 lines near the end of 1 GB against sed, memory, and the next slice."""
    path = folder / "huge.txt"
    lines(path, LINES)
    door = Door(folder, "read_file")
    lines(folder / "small.txt", 5)
    door.call("read_file", path="small.txt")
    offset = LINES - 1000

    def floor() -> None:
        subprocess.run(
            ["sed", "-n", f"{offset},{offset + 49}p;{offset + 50}q", str(path)], stdout=subprocess.PIPE
        )

    def ours() -> float:
        door = Door(folder, "read_file")  # a new one knows no line index
        return timed(lambda: door.call("read_file", path="huge.txt", offset=offset, limit=50))

    floor()
    sed = whole = float("inf")
    for _ in range(max(2, rounds // 2)):
        sed, whole = min(sed, timed(floor)), min(whole, ours())
    door = Door(folder, "read_file")
    base = reset_peak()
    door.call("read_file", path="huge.txt", offset=offset, limit=50)
    memory = peak_mib() - base
    again = timed(lambda: door.call("read_file", path="huge.txt", offset=offset - 5000, limit=50))
    return [
        ("read_file near the end of 1 GB against sed -n", whole / sed, 1.2, "x"),
        ("the same: memory", memory, 32, "MiB"),
        ("the same: a second slice", again * 1e3, 20, "ms"),
    ]


def hint(folder: Path, rounds: int) -> list[Row]:
    """The closest fragment of a near miss of 10 and of 200 lines among 20,000."""
    made = random.Random(11)
    text: list[str] = []
    for number in range(4000):
        a, b, c = made.sample(WORDS, 3)
        text += [f"def {a}_{b}_{number}(self, {b}, {c}=None):", f'    """Return the {a} of {b}."""']
        text += [
            f"    {c} = self.{a}.get({b}, {made.randint(0, 9999)})",
            f"    return {c} + {number % 97}",
            "",
        ]
    (folder / "m.py").write_text("\n".join(text))
    out: list[Row] = []
    door = Door(folder, "edit_file")

    for count in (10, 200):
        wanted = [
            t.replace("e", "ee", 1) if i % 2 == 0 else t for i, t in enumerate(text[15000 : 15000 + count])
        ]

        def ours(wanted: list[str] = wanted) -> None:
            missed = door.call("edit_file", path="m.py", old_string="\n".join(wanted), new_string="x")
            assert "line 1500" in str(missed)

        ours()
        out.append(
            (
                f"edit_file's closest fragment, {count} of 20,000 lines",
                in_turn(rounds, ours)[0] * 1e3,
                100,
                "ms",
            )
        )
    return out


def search(folder: Path, rounds: int) -> list[Row]:
    """glob and grep over 50,000 files, with rg and without."""
    body = "".join(f"    {a} = {b}({c})\n" for a, b, c in zip(WORDS, WORDS[3:], WORDS[5:], strict=False)) * 6
    for number in range(50_000):
        place = folder / f"pkg_{number % 50:02d}" / f"mod_{number // 50 % 20:02d}"
        place.mkdir(parents=True, exist_ok=True)
        suffix = (".py", ".md", ".js", ".txt", ".json")[number % 5]
        (place / f"file_{number}{suffix}").write_text(
            body + ("needle_XYZZY = 42\n" if number % 5000 == 4999 else "")
        )
    door = Door(folder, "glob", "grep")
    out: list[Row] = []

    def ours_glob() -> None:
        door.call("glob", pattern="**/*.py", no_ignore=True)

    def ours_grep() -> None:
        door.call("grep", pattern="needle_XYZZY", mode="files", no_ignore=True)

    def ours_wild() -> None:
        door.call("grep", pattern=r"needle_\w+", mode="files", no_ignore=True)

    if rg := shutil.which("rg"):

        def floor_glob() -> None:
            done = subprocess.run(
                [rg, "--files", "--no-ignore", "-g", "**/*.py"], cwd=folder, stdout=subprocess.PIPE
            )
            names = done.stdout.decode().splitlines()
            assert len(sorted(names, key=lambda n: -os.stat(folder / n).st_mtime_ns)) == 10_000

        def floor_grep() -> None:
            subprocess.run([rg, "-l", "--no-ignore", "needle_XYZZY"], cwd=folder, stdout=subprocess.PIPE)

        def floor_wild() -> None:
            # Ours looks at the bytes a second time: rg alone finds nothing in other encodings (decision 0450).
            for _ in range(2):
                subprocess.run([rg, "-l", "--no-ignore", r"needle_\w+"], cwd=folder, stdout=subprocess.PIPE)

        ours_glob()
        ours_grep()
        a, b = in_turn(rounds, floor_glob, ours_glob)
        out.append(("glob over 50,000 files against rg --files, stat, sort", b / a, 1.5, "x"))
        a, b = in_turn(rounds, floor_grep, ours_grep)
        out.append(("grep over 50,000 files against rg", b / a, 1.2, "x"))
        a, b = in_turn(rounds, floor_wild, ours_wild)
        out.append(("grep for a pattern with a wildcard against rg twice", b / a, 1.2, "x"))
    path = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere"
    try:
        door = Door(folder, "glob", "grep")
        a, b = in_turn(max(2, rounds // 2), lambda: plain_grep(folder), ours_grep)
    finally:
        os.environ["PATH"] = path
    out.append(("grep over 50,000 files without rg against scandir and re", b / a, 1.3, "x"))
    return out


def left_out(folder: Path, rounds: int) -> list[Row]:
    """What it costs grep in a tree of 5,000 files to say what it left out."""
    from pegboard.files.search import search as find
    from pegboard.files.walk import TreeWalk, scope_of
    from pegboard.ports.files import SearchQuery

    (folder / ".gitignore").write_text("*.log\nbuild/\n__pycache__/\n")
    for number in range(5000):
        place = folder / f"pkg_{number // 500}" / f"mod_{number // 50}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"file_{number}.{'log' if number % 50 == 49 else 'py'}").write_text(" ".join(WORDS) * 40)

    def account() -> None:
        fd = os.open(folder, os.O_RDONLY)
        TreeWalk(top=fd, scope=scope_of(folder)).account(1000)
        os.close(fd)

    whole, part = in_turn(rounds * 4, lambda: find(folder, SearchQuery(pattern="needle_XYZZY")), account)
    return [("saying what grep left out of 5,000 files against the search", part / (whole - part), 0.1, "x")]


def plain_grep(folder: Path) -> list[str]:
    """Files that hold the needle, in plain Python."""
    matches, found, pending = re.compile(rb"needle_XYZZY").search, [], [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                    continue
                with open(entry.path, "rb") as file:
                    if matches(file.read()):
                        found.append(entry.path)
    return found


def jail(folder: Path, rounds: int) -> list[Row]:
    """One small read through the jail."""
    from pegboard.files.jail import Jail

    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "c.txt").write_text("x" * 500)
    inside = Jail(folder)

    def ours() -> None:
        for _ in range(1000):
            inside.read_bytes("a/b/c.txt")

    return [("a small read through the jail", in_turn(rounds * 4, ours)[0] * 1e3, 20, "us")]


def lines(path: Path, count: int) -> None:
    """`count` numbered lines of a hundred bytes."""
    made = random.Random(7)
    tails = [" ".join(made.choices(WORDS, k=14))[: WIDTH - 10].ljust(WIDTH - 10) for _ in range(1000)]
    with path.open("w") as out:
        for start in range(0, count, 1000):
            out.write("".join(f"{start + i:08d} {tails[i]}\n" for i in range(min(1000, count - start))))


def forty_pages() -> bytes:
    """A PDF written by hand: 40 pages of 45 lines in a standard font."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids: list[int] = []
    for number in range(1, 41):
        text = "".join(f"(page {number} line {n}: {' '.join(WORDS)}) Tj T*\n" for n in range(45))
        stream = f"BT /F1 9 Tf 40 800 Td 16 TL\n{text}ET".encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(len(objects))
    objects[1] = b"<< /Type /Pages /Count 40 /Kids [%s] >>" % b" ".join(b"%d 0 R" % kid for kid in kids)
    out, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + head + table + trailer


CHECKS: dict[str, Callable[[Path, int], list[Row]]] = {
    "edit": edit, "undo": undo, "pdf": pdf, "slices": slices, "hint": hint, "search": search,
    "left_out": left_out, "jail": jail,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
