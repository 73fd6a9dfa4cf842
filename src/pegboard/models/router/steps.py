"""Steps: the first of several things that a request asks for."""

from __future__ import annotations

import re
from typing import Final

from pegboard.models.router.request import read_request

_NEXT: Final = re.compile(
    r"(?:[\s,;.]+(?:and\s+)?(?:then|after that|afterwards|next)[\s,]+(?!tell\b|show\b|report\b|say\b|explain\b|summari[sz]e\b|give\b|let\b|print\b|what\b|how\b)"
    r"|[，,；;。]?\s*(?:然后|接着|之后|再)(?!告诉|说|总结))",
    re.IGNORECASE,
)


def first_step(text: str) -> tuple[str, str]:
    """The request's first step, and what stands after it (`then …`); empty where there is one step."""
    masked = read_request(text)
    match = _NEXT.search(masked.masked)
    if match is None or match.start() == 0 or match.end() >= len(masked.masked):
        return text, ""
    return text[: masked.origin[match.start()]], text[masked.origin[match.end()] :].strip()
