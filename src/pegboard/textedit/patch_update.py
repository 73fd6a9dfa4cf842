"""What one file holds after the hunks of a patch: every kept line byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pegboard.textedit import view
from pegboard.textedit.encoding import decode
from pegboard.textedit.indent import Reindent
from pegboard.textedit.locate import HunkPosition, Locator
from pegboard.textedit.merge import rewrite
from pegboard.textedit.patch import Hunk, PatchLine, UpdateFile
from pegboard.textedit.redaction_marks import around_line, marks_in, refuse_marks


def update(data: bytes, patch: UpdateFile, *, first_match: bool = False) -> tuple[bytes, list[str]]:
    """One file's bytes after all its hunks, and notes on what did not fit exactly.

    Lines that the patch keeps stay byte for byte; added lines take the line ending of
    their place. A line that the Begin/End form puts last gets a line ending.

    Raises:
        NotText: the file is binary.
        NotFound, NotUnique, InvalidArguments: see `apply_patch`.
    """
    decoded = decode(data)
    # A patch that shows a CR within a line takes it for a character, as git does.
    mac = decoded.newline == "\r" and not any("\r" in line for hunk in patch.hunks for line in hunk.old)
    text = decoded.text.replace("\r", "\n") if mac else decoded.text
    lines = _split(text)
    locator = Locator([body for body, _ in lines], patch.path, first_match=first_match)
    notes: list[str] = []
    placed: list[tuple[HunkPosition, Hunk]] = []
    for number, hunk in enumerate(patch.hunks, 1):
        twins = sum(other.old == hunk.old and not other.seeks for other in patch.hunks[number - 1 :])
        place = locator.place(hunk, number, twins)
        placed.append((place, hunk))
        if place.level != "exact" or place.head or place.tail:
            notes.append(f"{patch.path}: hunk {number} was placed at line {place.line + 1} {_how(place)}")
    out: list[tuple[str, str]] = []
    done = 0
    default = "\r\n" if decoded.newline == "\r\n" else "\n"
    for place, hunk in sorted(placed, key=lambda pair: pair[0].line):
        out += lines[done : place.line]
        before = out[-1][1] if out else ""
        out += _changed(
            lines[place.line : place.line + place.size], hunk, place, before or default, patch, text
        )
        done = place.line + place.size
    out += lines[done:]
    joined = _join(out, default)
    return decoded.encode(joined.replace("\n", "\r") if mac else joined), notes


def _how(place: HunkPosition) -> str:
    if place.head or place.tail:
        return f"leaving out {max(place.head, place.tail)} context lines"
    return {
        "trimmed": "ignoring indentation and trailing spaces",
        "normalized": "ignoring quote style and kinds of spaces",
        "hidden": "around hidden text, which was kept",
    }.get(place.level, "")


def _split(text: str) -> list[tuple[str, str]]:
    """Lines as (body, ending); the ending of the last is empty where it has none."""
    parts = text.split("\n")
    lines = [(p[:-1], "\r\n") if p.endswith("\r") else (p, "\n") for p in parts[:-1]]
    return [*lines, (parts[-1], "")] if parts[-1] else lines


def _join(lines: Sequence[tuple[str, str]], default: str) -> str:
    last = len(lines) - 1
    return "".join(
        body + (ending or ("" if i == last else default)) for i, (body, ending) in enumerate(lines)
    )


def _changed(
    found: Sequence[tuple[str, str]],
    hunk: Hunk,
    place: HunkPosition,
    newline: str,
    patch: UpdateFile,
    text: str,
) -> list[tuple[str, str]]:
    """The lines that stand in place of those that the hunk covers."""
    kept = hunk.lines[place.head : len(hunk.lines) - place.tail]
    old = [line.text for line in kept if line.sign != "+"]
    bodies = [body for body, _ in found]
    hidden = _hidden_texts(old, bodies) if place.level == "hidden" else {}
    reindent = Reindent(old, bodies) if place.level in ("trimmed", "normalized") else None
    out: list[tuple[str, str]] = []
    index = 0
    for removed, added, added_ends, line in _runs(kept):
        newline = found[index][1] or newline if index < len(found) else newline
        if line is not None:
            out.append(found[index])
            index += 1
            continue
        new = added
        if reindent is not None:
            new = rewrite(bodies[index : index + len(removed)], removed, added, reindent, view.loose)
        ends = added_ends if len(added_ends) == len(new) else [""] * len(new)
        out += [
            (_unhidden(body, hidden, text, patch.path), end or newline)
            for body, end in zip(new, ends, strict=True)
        ]
        index += len(removed)
    if patch.numbered and hunk.bare_end and not place.tail and out:
        # A CR that no LF follows is a character of the last line.
        shown = next((line.newline for line in reversed(kept) if line.sign != "-"), "")
        out[-1] = (out[-1][0].removesuffix("\r") + ("\r" if shown == "\r\n" else ""), "")
    return out


_Run: TypeAlias = tuple[list[str], list[str], list[str], PatchLine | None]


def _runs(lines: Sequence[PatchLine]) -> list[_Run]:
    """The hunk as kept lines and as runs of removed and added ones, these with their endings."""
    runs: list[_Run] = []
    removed: list[str] = []
    added: list[str] = []
    ends: list[str] = []
    for line in lines:
        # A removal after an addition begins a new run, else lines would change places.
        if (line.sign == " " or (line.sign == "-" and added)) and (removed or added):
            runs.append((removed, added, ends, None))
            removed, added, ends = [], [], []
        match line.sign:
            case " ":
                runs.append(([], [], [], line))
            case "-":
                removed.append(line.text)
            case "+":
                added.append(line.text)
                ends.append(line.newline)
    return [*runs, (removed, added, ends, None)] if removed or added else runs


def _hidden_texts(old: Sequence[str], bodies: Sequence[str]) -> dict[str, str]:
    """What each mark of the old lines hides in the file; a mark that hides two things hides nothing."""
    hidden: dict[str, str] = {}
    doubtful: set[str] = set()
    for line, body in zip(old, bodies, strict=True):
        for mark, secret in zip(marks_in(line), around_line(body, line) or (), strict=True):
            if hidden.setdefault(mark, secret) != secret:
                doubtful.add(mark)
    return {mark: secret for mark, secret in hidden.items() if mark not in doubtful}


def _unhidden(body: str, hidden: dict[str, str], text: str, path: str) -> str:
    for mark in marks_in(body):
        if mark in hidden:
            body = body.replace(mark, hidden[mark])
        else:
            refuse_marks(body, text, path)
    return body
