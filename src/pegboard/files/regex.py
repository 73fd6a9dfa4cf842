"""grep's pattern language: one pattern for Python's `re`, and the same for ripgrep where that reads it alike."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from typing import Final

from pegboard.core.errors import InvalidArguments
from pegboard.core.policy.patterns import POSIX_CLASSES

#: The classes without CR, which only `$` may stand for.
_CLASSES: Final = {**POSIX_CLASSES, "space": " \\t\\n\\f\\v", "cntrl": "\\x00-\\x0c\\x0e-\\x1f\\x7f"}
_WITHOUT_CR: Final = {"\\s": "[^\\S\\r]", "\\W": "[^\\w\\r]", "\\D": "[^\\d\\r]", ".": "[^\\r\\n]"}
_META: Final = frozenset("\\.+*?()|[]{}^$")

_TOKEN: Final = re.compile(
    r"""
      \\[xuU]\{(?P<code>[0-9A-Fa-f]{1,8})\}
    | \\(?P<escape>k[<{'](?P<backref>\w+)[>}'] | .)
    | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])
    | (?P<verbose>\(\?[a-wyz]*x[a-z]*[-:)])
    | (?P<named>\(\?<(?![=!]))
    | (?P<group>\(\?(?:P?[<>=!(]|<[=!]|\#[^)]*\)|[a-zA-Z-]*[:)])|\()
    | (?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})(?P<possessive>\+)?\??)
    | (?P<sign>[.^$|{}\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_POSIX: Final = re.compile(r"\[:(\^?)(\w+):\]")
_INNER: Final = re.compile(
    r"\\[xuU]\{([0-9A-Fa-f]{1,8})\}|(\[:\^?\w+:\])|(\\.)|(\[)|(&&|--|~~|\|\|)", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A checked search pattern.

    Attributes:
        source: the pattern for Python, over text whose CRLF ends were made LF.
        rust: the pattern for ripgrep, over the text as it stands; None for one that ripgrep reads otherwise.
        text: what it stands for where it is plain text, else None.
        repeats: may have so many ways to match that a backtracking engine takes for ever.
        words: only where no character of a word stands beside the match; `rust` finds more than that.
        ignore_case, multiline: as asked for.
    """

    source: str
    rust: str | None
    text: str | None = None
    repeats: bool = False
    words: bool = False
    ignore_case: bool = False
    multiline: bool = False

    def compile(self) -> re.Pattern[str]:
        """For Python: `^` and `$` at each line; `.` matches a line end in multiline mode only."""
        flags = (
            re.MULTILINE | (re.IGNORECASE if self.ignore_case else 0) | (re.DOTALL if self.multiline else 0)
        )
        return re.compile(self.source, flags)

    @property
    def ascii_text(self) -> bool:
        """Whether it is ASCII text, which every encoding that is read holds as the same bytes."""
        return self.text is not None and self.text.isascii() and not self.ignore_case and not self.words


def literal_expression(text: str, *, ignore_case: bool) -> Expression:
    """The expression that finds exactly this text."""
    source = "".join("\\" + c if c in _META else c for c in text)
    lines = "\n" in text or "\r" in text
    return Expression(
        source=source,
        rust=None if lines else source,
        text=text,
        ignore_case=ignore_case,
        multiline="\n" in text,
    )


def whole_words(expression: Expression) -> Expression:
    """The same where no character of a word stands before or behind it, as `grep -w` has it."""
    flags = re.match(r"\(\?[a-zA-Z]+\)", expression.source)
    opening = flags[0] if flags else ""
    body = expression.source[len(opening) :]
    return replace(expression, source=f"{opening}(?<!\\w)(?:{body})(?!\\w)", words=True)


def parse_expression(pattern: str, *, ignore_case: bool = False, multiline: bool = False) -> Expression:
    """Check and translate a pattern.

    Read alike everywhere: literals, `. ^ $ | ( ) [ ]`, `* + ? {n,m}` greedy and lazy, `\\d \\w \\s \\b`,
    POSIX classes in brackets, named groups in both spellings, `(?i)` in front. A brace that is no
    quantifier is literal. What only Python has (look-around, back references) runs there.

    Raises:
        InvalidArguments: empty, or malformed; `details["position"]` is 1-based.
    """
    if not pattern:
        raise InvalidArguments(
            "the search pattern is empty", hint="Give the text or regular expression to look for."
        )
    translation = _Translation(pattern, multiline)
    source = translation.run()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(source, re.MULTILINE)
    except re.error as error:
        raise _invalid(pattern, error.msg, translation.origin(error.pos)) from None
    except (OverflowError, RecursionError) as error:
        raise _invalid(pattern, str(error), None) from None
    return Expression(
        source=source,
        rust=None if translation.python_only or multiline else "".join(translation.rust),
        text=None if translation.special else "".join(translation.text),
        repeats=translation.repeats,
        ignore_case=ignore_case,
        multiline=multiline,
    )


def _invalid(pattern: str, what: str, at: int | None) -> InvalidArguments:
    where = "" if at is None else f" at position {at + 1}"
    return InvalidArguments(
        f"the pattern {pattern!r} is not a valid regular expression: {what}{where}",
        hint="Escape literal characters with a backslash, or set fixed_strings=true.",
        details={} if at is None else {"position": at + 1},
    )


class _Translation:
    """One pass over a pattern, token by token."""

    def __init__(self, pattern: str, multiline: bool) -> None:
        self.pattern = pattern
        self.multiline = multiline
        self.python: list[str] = []
        self.rust: list[str] = []
        self.text: list[str] = []
        self.starts: list[int] = []
        self.special = False
        self.repeats = False
        self.python_only = False

    def run(self) -> str:
        at = 0
        for token in _TOKEN.finditer(self.pattern):
            self.plain(self.pattern[at : token.start()], at)
            self.starts.append(token.start())
            self.token(token)
            at = token.end()
        self.plain(self.pattern[at:], at)
        return "".join(self.python)

    def origin(self, position: int | None) -> int | None:
        """Where in the pattern the token stands that a position of the translation lies in."""
        for piece, start in zip(self.python, self.starts, strict=True):
            if position is None or position < len(piece):
                return None if position is None else start
            position -= len(piece)
        return position if position is None else len(self.pattern) - 1

    def plain(self, text: str, at: int) -> None:
        """Characters that stand for themselves."""
        for offset, char in enumerate(text):
            self.starts.append(at + offset)
            self.emit(char, text=char)
            self.python_only |= char in "\r\n"

    def emit(self, python: str, *, rust: str | None = None, text: str | None = None) -> None:
        self.python.append(python)
        self.rust.append(python if rust is None else rust)
        self.text.append(text or "")
        self.special |= text is None

    def token(self, token: re.Match[str]) -> None:
        whole = token[0]
        if token["code"]:
            self.code_point(token)
        elif token["backref"]:
            self.python_only = True
            self.emit(f"(?P={token['backref']})")
        elif token["escape"]:
            self.escape(whole, token.start())
        elif token["set"]:
            self.bracket(whole, token.start())
        elif token["verbose"]:
            raise _invalid(self.pattern, "verbose mode (?x) is not supported", token.start())
        elif token["named"]:
            self.emit("(?P<")
        elif token["group"]:
            # What only Python has, ripgrep refuses, and then our own engine runs it.
            self.emit("" if whole.startswith("(?#") else whole)
        elif token["repeat"]:
            self.repeats = True
            self.python_only |= token["possessive"] is not None
            self.emit("{0" + whole[1:] if whole.startswith("{,") else whole)
        else:
            self.sign(whole)

    def code_point(self, token: re.Match[str]) -> None:
        number = int(token["code"], 16)
        if number > 0x10FFFF:
            raise _invalid(self.pattern, "a code point beyond U+10FFFF", token.start())
        self.emit(re.escape(chr(number)), rust=token[0], text=chr(number))

    def escape(self, whole: str, at: int) -> None:
        char = whole[1]
        if char in "pP":
            raise InvalidArguments(
                f"the pattern {self.pattern!r} uses a Unicode property at position {at + 1}, "
                "which this search does not have",
                hint="Use \\w, \\d, a range such as [À-ÿ] or a POSIX class such as [[:upper:]]; "
                "set fixed_strings=true where the backslash is meant literally.",
                details={"position": at + 1},
            )
        if char in "<>":
            self.emit("\\b")
        elif char in "zZA":
            self.python_only = True
            self.emit("\\A" if char == "A" else "\\Z")
        elif char.isalnum() or char == "_":
            self.emit(whole if self.multiline else _WITHOUT_CR.get(whole, whole))
        else:
            self.emit(re.escape(char), rust="\\" + char if char in _META else char, text=char)

    def sign(self, char: str) -> None:
        """A wildcard or anchor. Within lines nothing but `$` looks at a CR: it belongs to the line's end."""
        if char in "{}]":
            self.emit("\\" + char, text=char)
        elif char == ".":
            self.emit(char if self.multiline else _WITHOUT_CR[char])
        else:
            self.repeats |= char == "|"
            self.emit(char, rust="(?:\\r?$)" if char == "$" else char)

    def bracket(self, whole: str, at: int) -> None:
        negated = whole.startswith("[^")
        body = _INNER.sub(lambda part: self.inner(part, at), whole[1 + negated : -1])
        if body.startswith("]"):
            body = "\\" + body
        if self.multiline:
            self.emit(f"[{'^' if negated else ''}{body}]")
        elif negated:
            self.emit(f"[^{body}\\r]")
        elif re.search(r"\\[DWs]|[^ -~]-|\\x0", body):
            self.emit(f"(?:(?!\\r)[{body}])", rust=f"[{body}&&[^\\r]]")
        else:
            self.emit(f"[{body}]")

    def inner(self, part: re.Match[str], at: int) -> str:
        """A part of a bracket expression, as both engines read it alike."""
        code, posix, escape, opening, operator = part.groups()
        if code:
            return re.escape(chr(min(int(code, 16), 0x10FFFF)))
        if posix:
            name = _POSIX.fullmatch(posix)
            if name is None or name[1] or name[2] not in _CLASSES:
                raise _invalid(self.pattern, f"no class {posix} that can stand in brackets", at)
            return _CLASSES[name[2]]
        if escape:
            if escape[1] in "pP":
                self.escape(escape, at)
            return escape
        # A bracket within a set, and `&&`, mean themselves; other engines calculate with sets.
        return "\\[" if opening else "".join("\\" + char for char in operator or "")
