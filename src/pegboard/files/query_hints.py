"""What a search pattern that finds nothing may have been meant as."""

from __future__ import annotations

import re

from pegboard.files.regex import Expression
from pegboard.ports.files import SearchQuery


def maybe_literal(query: SearchQuery, expression: Expression) -> bool:
    """Whether the pattern reads like code that was not meant as a regular expression."""
    return not (query.fixed_strings or expression.literal is not None or query.multiline) and not any(
        sign in query.pattern for sign in ("\\", ".*", ".+")
    )


def other_reading(query: SearchQuery) -> str:
    """What a pattern that found nothing may have been meant as, in the syntax of another search program."""
    if query.fixed_strings:
        return ""
    signs = re.findall(r"\\(.)", query.pattern, re.DOTALL)
    if "|" in signs:
        return "\\| is a literal bar here; a|b finds either"
    if not query.multiline and ("\n" in query.pattern or "n" in signs):
        return "the pattern holds a line end; multiline=true lets it span lines"
    return ""
