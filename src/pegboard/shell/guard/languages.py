"""Shells that read a script differently than bash, as which the guard judges it."""

from __future__ import annotations

import re
from typing import Final

_WORDS_ONLY: Final = re.compile(r"[^()$`\\{}\[\]=~]*")
_OTHERS: Final = re.compile(r"fish|csh|tcsh|elvish|nu|xonsh|oksh|yash")


def says_otherwise(name: str, script: str) -> bool:
    """Whether a shell reads this script differently than bash, as which it is judged."""
    if name in ("pwsh", "powershell"):
        return True
    if name == "zsh":
        # `=rm` is the path of rm; `(e:…:)` behind a pattern and `${(e)x}` run their text.
        return re.search(r"(?:^|[\s;|&(])=\w|\([a-zA-Z.^/@*-]*[eo+][:'\"+]|\$\{\(\w*e", script) is not None
    if not _OTHERS.fullmatch(name):
        return False
    sets = re.search(r"(?:^|[\s;|&])(?:set|setenv|source|function|abbr|alias)\s", script)
    return sets is not None or _WORDS_ONLY.fullmatch(script) is None
