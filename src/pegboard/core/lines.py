"""Lines: a piece of text with true line numbers, shown in pages of whole lines."""

from __future__ import annotations

from pegboard.core.values import record


@record
class LineRange:
    """Some lines of a text.

    Attributes:
        text: the lines, each with its `\\n` (the last may lack it).
        first, last: 1-based numbers, 0 where there is none.
        total: lines of the whole text, None where nobody counted.
        cut: numbers of the lines that were shortened.
    """

    text: str
    first: int
    last: int
    total: int | None
    cut: tuple[int, ...] = ()


@record
class Page:
    """What fits of them.

    Attributes:
        view: what a model reads: lines and, where there is more, how to go on.
        text: the lines alone.
        first, last: their numbers.
        more: whether lines follow.
    """

    view: str
    text: str
    first: int
    last: int
    more: bool


def slice_text(text: str, offset: int, limit: int | None) -> LineRange:
    """Lines of a text that is held in memory; line ends become `\\n`.

    Args:
        offset: 1-based; -N starts at the N-th last line.
        limit: lines at most, None = all.
    """
    lines = text.replace("\r\n", "\n").splitlines(keepends=True) if "\r" in text else _split(text)
    first = offset if offset > 0 else max(1, len(lines) + offset + 1)
    chosen = lines[first - 1 : None if limit is None else first - 1 + limit]
    if not chosen:
        return LineRange("", 0, 0, len(lines))
    return LineRange("".join(chosen), first, first + len(chosen) - 1, len(lines))


def _split(text: str) -> list[str]:
    """At `\\n` only: `str.splitlines` also splits at form feeds and the like, which are no line ends."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def page(lines: LineRange, *, numbered: bool, most: int) -> Page:
    """The first of the lines that fit in `most` characters, at least one.

    Numbered, a line is `%6d→text` (ledger M-03, X-13).
    """
    if not lines.last:
        return Page("", "", 0, 0, False)
    cut = set(lines.cut)
    view: list[str] = []
    taken: list[str] = []
    used = 0
    for number, line in enumerate(_split(lines.text), lines.first):
        mark = " [line cut]" if number in cut else ""
        body = line.removesuffix("\n") + mark + ("\n" if line.endswith("\n") else "")
        shown = f"{number:6d}→{body}" if numbered else body
        if taken and used + len(shown) > most:
            break
        view.append(shown)
        taken.append(line)
        used += len(shown)
    last = lines.first + len(taken) - 1
    more = last < lines.last or (lines.total is None or last < lines.total)
    text = "".join(view)
    if more:
        of = f" of {lines.total}" if lines.total is not None else ""
        ended = "" if text.endswith("\n") else "\n"
        text += f"{ended}[lines {lines.first}-{last}{of}; offset={last + 1} goes on]"
    elif numbered:
        text = text.removesuffix("\n")
    return Page(text, "".join(taken), lines.first, last, more)
