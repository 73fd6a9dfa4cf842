"""Search: regular expressions from settings files, matched in bounded time.

The patterns of a settings file come from a project that nobody trusts yet, and the commands that they are
searched in from a model. `(a+)+$` against forty letters would hold Python's engine for hours, with every other
task of the process. So patterns run on an engine that takes linear time; what that cannot say (look-around,
back-references) runs on one that counts its steps and gives up.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pegboard.core.errors import ConfigError

MAX_CHARS: Final = 2000
"""Characters of one pattern."""

_STEPS: Final = 100_000
_POSSESSIVE: Final = re.compile(r"(?<!\\)(?:[*+?]|\})\+")

Match: TypeAlias = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRegex:
    """One pattern, without regard to case.

    Attributes:
        written: as the settings have it, in Python's syntax.
        within: whether it fits anywhere in a text; None = it gave up.
        whole: whether it fits a text from end to end; None = it gave up.
    """

    written: str
    within: Match
    whole: Match


def search(pattern: str) -> BoundedRegex:
    """A pattern, ready.

    Raises:
        ConfigError: it is no regular expression, or none that can be matched in bounded time.
    """
    if len(pattern) > MAX_CHARS:
        raise ConfigError(f"it has {len(pattern):,} characters; at most {MAX_CHARS:,} are read")
    try:
        with warnings.catch_warnings():
            # Python warns of what it may read as sets one day; today it does not, and neither do we.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        # A deny that never matches would be no deny.
        raise ConfigError(f"it is not a regular expression: {error}") from None
    if _POSSESSIVE.search(pattern):
        raise ConfigError(
            "it holds a possessive quantifier (*+, ++, ?+), which is not supported; leave the + out"
        )
    said = _translated(pattern)
    try:
        return _linear(pattern, said)
    except ValueError:
        return _counted(pattern, said)


def _linear(pattern: str, said: str) -> BoundedRegex:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    def matcher(text: str) -> Match:
        try:
            return SchemaValidator(
                core_schema.str_schema(pattern=text, regex_engine="rust-regex")
            ).isinstance_python
        except SchemaError as error:
            raise ValueError(str(error)) from None

    return BoundedRegex(written=pattern, within=matcher(f"(?i){said}"), whole=matcher(rf"(?i)\A(?:{said})\z"))


def _counted(pattern: str, said: str) -> BoundedRegex:
    from jsonschema_rs import FancyRegexOptions, ValidationErrorKind, validator_for

    def matcher(text: str) -> Match:
        try:
            validator = validator_for(
                {"pattern": text}, pattern_options=FancyRegexOptions(backtrack_limit=_STEPS)
            )
        except ValueError as error:
            raise ConfigError(
                f"it cannot be matched in bounded time ({str(error).splitlines()[0]}); write it more simply"
            ) from None

        def match(value: str) -> bool | None:
            error = next(validator.iter_errors(value), None)
            if error is None:
                return True
            return False if isinstance(error.kind, ValidationErrorKind.Pattern) else None

        return match

    return BoundedRegex(written=pattern, within=matcher(f"(?i){said}"), whole=matcher(rf"(?i)\A(?:{said})\z"))


def _translated(pattern: str) -> str:
    """What Python writes otherwise: `\\Z`, and signs that are set operations in brackets elsewhere."""
    out: list[str] = []
    inside, opened, at = False, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            pair = pattern[at : at + 2]
            out.append({"\\Z": r"\z", "\\<": "<", "\\>": ">"}.get(pair, pair))
            at += 2
            continue
        if not inside:
            inside, opened = char == "[", at
        elif char == "]" and at > opened + (2 if pattern[opened + 1] == "^" else 1):
            inside = False
        elif char in "[&~" or (char == "-" and pattern[at - 1] == "-"):
            out.append("\\")
        out.append(char)
        at += 1
    return "".join(out)
