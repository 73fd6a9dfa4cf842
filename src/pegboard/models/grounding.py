"""Coverage: whether an answer says only what a tool's result says."""

from __future__ import annotations

import re
from typing import Final

from pegboard.core.tool_search import words

_FACT: Final = re.compile(r"\d+(?:[.,:]\d+)*|[\w./-]*[\w]\.[A-Za-z]\w*|\w+_\w+")
_GLUE: Final = frozenset(
    word
    for word in words(
        "the a an and or of to in on at for with from by is are was were be been being do does did has have had it its "
        "this that these those there here as not no yes so if then than but also only just which who what where when how "
        "can could will would should may might must about into over under out up down all any each every some such same other "
        "i you we they he she your our their my me us them said says say following contains contain content file files result "
        "results tool text line lines list listed found shows show named called output command page information answer question "
        "based given provided according name directory folder request using used use written write wrote current currently "
        "please here's include includes including one two three first second last more most"
    )
)
LEAST_COVERED: Final = 0.8
"""Of an answer's content words at least this share must stand in the result or the request."""


def is_grounded(answer: str, result: str, request: str) -> bool:
    """Whether the answer is carried by the result.

    Every number, file name and identifier must stand in the result or the request, most of its
    other words too, and at least one thing in it must come from the result alone or be all there is.
    """
    sources = f"{result}\n{request}"
    if any(fact not in sources for fact in _FACT.findall(answer)):
        return False
    said = [word for word in words(answer) if word not in _GLUE]
    known = set(words(sources))
    if not said or sum(word in known for word in said) < LEAST_COVERED * len(said):
        return False
    from_result = set(words(result))
    asked = set(words(request))
    news = from_result - asked - _GLUE
    return not news or any(word in news for word in said)
