"""Page ranges as people write them: `1-5`, `3`, `2,7-9`, `10-`."""

from __future__ import annotations

import re

from pegboard.documents.errors import DocumentRefused


def chosen(spec: str | None, total: int, *, most: int, noun: str = "page") -> tuple[list[int], str]:
    """Page numbers (1-based, rising) and a note about those left out.

    Args:
        spec: what was asked for; None = from the first.
        total: how many there are.
        most: how many are given at once.

    Raises:
        Refused: `spec` is malformed or names no page that there is.
    """
    wanted = list(range(1, total + 1)) if spec is None or not spec.strip() else _parse(spec, total, noun)
    given = wanted[:most]
    if len(given) == len(wanted):
        return given, ""
    follow = wanted[most]
    return given, (
        f"{noun.capitalize()}s {given[0]}-{given[-1]} of {total}; "
        f"pages='{follow}-{min(total, follow + most - 1)}' goes on."
    )


def _parse(spec: str, total: int, noun: str) -> list[int]:
    found: set[int] = set()
    for part in spec.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d{1,9})(?:(-)(\d{1,9})?)?", part)
        if match is None:
            raise DocumentRefused(
                "invalid_arguments",
                f"pages={spec!r} is not a page range",
                "Write it as '1-5', '3' or '2,7-9'.",
            )
        first = int(match[1])
        last = int(match[3]) if match[3] else (total if match[2] else first)
        found.update(range(max(1, first), min(last, total) + 1))
    if not found:
        raise DocumentRefused(
            "invalid_arguments",
            f"pages={spec!r} selects none of the {total} {noun}{'' if total == 1 else 's'}",
            f"Ask for pages between 1 and {total}.",
        )
    return sorted(found)
