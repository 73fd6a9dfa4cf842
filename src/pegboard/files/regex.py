"""grep's pattern language: what ripgrep and Python read alike, and what only Python can run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from pegboard.core.errors import InvalidArguments
from pegboard.core.policy.patterns import POSIX_CLASSES

#: The classes without CR, which only `$` may stand for.
_CLASSES: Final = {**POSIX_CLASSES, "space": " \\t\\n\\f\\v", "cntrl": "\\x00-\\x0c\\x0e-\\x1f\\x7f"}
_WITHOUT_CR: Final = {"s": "[^\\S\\r]", "W": "[^\\w\\r]", "D": "[^\\d\\r]"}
_NO_WORD: Final = "[^0-9A-Za-z_]"
_MANY_COPIES: Final = 1000
"""How often a counted repeat may put its part into the program of an engine that unfolds it."""
_META: Final = frozenset("\\.+*?()|[]{}^$")
_QUANTIFIER: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_MANY_WAYS: Final = 64
"""Ways to match at one place, counted roughly, from which on a backtracking engine may take too long."""
_GLOBAL_FLAGS: Final = re.compile(r"\(\?[a-zA-Z]+\)")
_GROUP_PYTHON: Final = ("?=", "?!", "?<=", "?<!", "?>", "?(", "?P=", "?P>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A checked search pattern.

    Attributes:
        source: the pattern for Python, over text whose CRLF ends were made LF.
        rust: the pattern for ripgrep, over the text as it stands: `$` may stand before a CR, and
            like `source` nothing else in it matches a CR, so that both mean the same lines.
        literal: the text that it stands for where it has no wildcard, else None.
        python_only: uses look-around, back references and the like, repeats by the thousand, or spans lines.
        repeats: has so many ways to match that a backtracking engine may take for ever.
        ignore_case, multiline: as asked for.
        narrows: `rust` matches in more lines than `source`, so that it only tells which files may hold a match.
        ascii_only: whatever it finds is ASCII, wherever it stands. Every encoding that is read keeps ASCII as it is, so
            bytes that were not decoded hold all that their text does (and by chance more).
    """

    source: str
    rust: str
    literal: str | None
    python_only: bool
    repeats: bool
    ignore_case: bool
    multiline: bool
    ascii_only: bool
    narrows: bool = False

    def flags(self) -> re.RegexFlag:
        """Python's flags: `^` and `$` at each line; `.` matches a line end in multiline mode only."""
        flags = re.MULTILINE
        if self.ignore_case:
            flags |= re.IGNORECASE
        if self.multiline:
            flags |= re.DOTALL
        return flags


def literal_expression(text: str, *, ignore_case: bool) -> Expression:
    """The expression that finds exactly this text."""
    source = "".join("\\" + c if c in _META else c for c in text)
    return Expression(
        source=source,
        rust=source,
        literal=text,
        python_only="\n" in text or "\r" in text,
        repeats=False,
        ignore_case=ignore_case,
        multiline="\n" in text,
        ascii_only=text.isascii() and "\r" not in text,
    )


def whole_words(expression: Expression) -> Expression:
    """The same where no character of a word stands before or behind it, as `grep -w` has it.

    ripgrep's own `-w` and its half boundaries differ from version to version, and its words from Python's beyond
    ASCII: it tells the files with a line in which no ASCII character of a word stands there, Python the lines.
    """
    flags = _GLOBAL_FLAGS.match(expression.source)
    opening = flags[0] if flags else ""
    return replace(
        expression,
        source=f"{opening}(?<!\\w)(?:{expression.source[len(opening) :]})(?!\\w)",
        rust=f"(?:^|{_NO_WORD})(?:{expression.rust})(?:$|{_NO_WORD})",
        literal=None,
        narrows=True,
        # What stands beside it may be any character.
        ascii_only=False,
    )


def parse_expression(pattern: str, *, ignore_case: bool = False, multiline: bool = False) -> Expression:
    """Check and translate a pattern.

    Read alike everywhere: literals, `. ^ $ | ( ) [ ]`, `* + ? {n,m}` greedy and lazy, `\\d \\w \\s \\b`,
    POSIX classes in brackets, named groups in both spellings, `(?i)` in front. A brace that is no
    quantifier is literal. Look-around, back references, atomic groups: Python's engine only.

    Raises:
        InvalidArguments: empty, or malformed; `details["position"]` is 1-based.
    """
    if not pattern:
        raise InvalidArguments(
            "the search pattern is empty", hint="Give the text or regular expression to look for."
        )
    translation = _Translation(pattern, multiline)
    translation.run()
    source = "".join(translation.out)
    try:
        re.compile(source, re.MULTILINE)
    except re.error as error:
        at = (
            translation.origin[error.pos]
            if error.pos is not None and error.pos in range(len(translation.origin))
            else error.pos
        )
        raise _invalid(pattern, error.msg, at) from None
    except (OverflowError, RecursionError) as error:
        raise _invalid(pattern, str(error), None) from None
    return Expression(
        source=source,
        rust="".join(translation.rust),
        literal=None if translation.literal is None or ignore_case else "".join(translation.literal),
        python_only=translation.python_only or multiline,
        repeats=translation.ways > _MANY_WAYS,
        ignore_case=ignore_case,
        multiline=multiline,
        ascii_only=translation.ascii_only,
    )


def _invalid(pattern: str, what: str, at: int | None) -> InvalidArguments:
    where = "" if at is None else f" at position {at + 1}"
    return InvalidArguments(
        f"the pattern {pattern!r} is not a valid regular expression: {what}{where}",
        hint="Escape literal characters with a backslash, or set fixed_strings=true.",
        details={} if at is None else {"position": at + 1},
    )


class _Translation:
    """One pass over a pattern; `origin` maps each character of the output to its source."""

    def __init__(self, pattern: str, multiline: bool) -> None:
        self.pattern = pattern
        self.multiline = multiline
        self.out: list[str] = []
        self.rust: list[str] = []
        self.origin: list[int] = []
        self.literal: list[str] | None = []
        self.python_only = False
        self.ascii_only = True
        self.ways = 1
        self.copies = 1
        self.open = 0
        self.at = 0

    def emit(self, text: str, *, literal: str | None = None, rust: str | None = None) -> None:
        self.out.append(text)
        self.rust.append(text if rust is None else rust)
        self.origin.extend([self.at] * len(text))
        if literal is None:
            self.literal = None
        elif self.literal is not None:
            self.literal.append(literal)

    def run(self) -> None:
        pattern, n = self.pattern, len(self.pattern)
        while self.at < n:
            char = pattern[self.at]
            if char == "\\":
                self.at += self.escape()
            elif char == "[":
                self.at += self.bracket()
            elif char == "(":
                self.at += self.group()
            elif char in "*+?{":
                self.at += self.quantifier(char)
            elif char in "]}":
                self.emit("\\" + char, literal=char)
                self.at += 1
            elif char in ".^$|)":
                self.sign(char)
                self.at += 1
            else:
                self.plain(char)
                self.at += 1

    def sign(self, char: str) -> None:
        """A wildcard or anchor. Within lines nothing but `$` looks at a CR: it belongs to the line's end."""
        self.ascii_only &= char in "|)"
        if char == "." and not self.multiline:
            self.emit("[^\\r\\n]")
        elif char == "$":
            self.emit("$", rust="(?:\\r?$)")
        else:
            self.open -= char == ")"
            if char == "|" and self.open > 0:
                self.more_ways(2)
            self.emit(char)

    def more_ways(self, factor: int) -> None:
        """What a quantifier or an alternative inside a group does: `(a{9}){9}` has 81, `a?a?a?` has 8."""
        self.ways = min(self.ways * max(1, factor), _MANY_WAYS + 1)

    def plain(self, char: str) -> None:
        self.ascii_only &= char.isascii() and char not in "\r\n"
        if char in "\r\n":
            self.python_only = True
        self.emit("\\" + char if char in _META else char, literal=char)

    def escape(self) -> int:
        """An escape outside brackets; its length."""
        rest = self.pattern[self.at + 1 :]
        if not rest:
            raise _invalid(self.pattern, "a backslash at the end", self.at)
        char = rest[0]
        if char in "AzZ":
            self.python_only, self.ascii_only = True, False
            self.emit("\\A" if char == "A" else "\\Z")
            return 2
        if char in "<>":
            self.ascii_only = False
            self.emit("\\b")
            return 2
        if char == "k" and (named := re.match(r"k[<{'](\w+)[>}']", rest)):
            self.python_only = True
            self.emit(f"(?P={named[1]})")
            return 1 + named.end()
        if char.isdigit() and char != "0":
            self.python_only = True
            self.emit("\\" + char)
            return 2
        code = self.code_point(rest)
        if code is not None:
            self.plain(code[0])
            return 1 + code[1]
        self.ascii_only &= not (char.isascii() and char.isalpha())
        if char in "DWs" and not self.multiline:
            self.emit(_WITHOUT_CR[char])
        elif char in "dDwWsSbB":
            self.emit("\\" + char)
        elif char.isascii() and char.isalpha():
            self.refuse_property(char)
            self.emit("\\" + char)
            self.python_only = True
        else:
            self.plain(char)
        return 2

    def code_point(self, rest: str) -> tuple[str, int] | None:
        """A character that an escape names by code or letter, and the length after the backslash."""
        simple = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
        if rest[0] in simple:
            return simple[rest[0]], 1
        found = re.match(
            r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}", rest
        )
        if found is None:
            return None
        number = int(next(g for g in found.groups() if g), 16)
        if number > 0x10FFFF:
            raise _invalid(self.pattern, "a code point beyond U+10FFFF", self.at)
        return chr(number), found.end()

    def refuse_property(self, char: str) -> None:
        if char in "pP":
            raise InvalidArguments(
                f"the pattern {self.pattern!r} uses a Unicode property at position {self.at + 1}, "
                "which this search does not have",
                hint="Use \\w, \\d, a range such as [À-ÿ] or a POSIX class such as [[:upper:]]; "
                "set fixed_strings=true where the backslash is meant literally.",
                details={"position": self.at + 1},
            )

    def bracket(self) -> int:
        """A bracket expression; its length. One that never closes is left for the compiler to refuse."""
        pattern, start = self.pattern, self.at
        i = start + 1
        negated = pattern.startswith("^", i)
        i += negated
        items: list[str] = []
        first = i
        while i < len(pattern) and (pattern[i] != "]" or i == first):
            if (posix := re.compile(r"\[:(\^?)(\w+):\]").match(pattern, i)) and posix[2] in POSIX_CLASSES:
                if posix[1]:
                    raise _invalid(pattern, "a negated POSIX class", i)
                items.append(_CLASSES[posix[2]])
                i = posix.end()
                continue
            low, i = self.member(i)
            if pattern.startswith("-", i) and i + 1 < len(pattern) and pattern[i + 1] != "]":
                high, i = self.member(i + 1)
                items.append(f"{low}-{high}")
            else:
                items.append(low)
        if i >= len(pattern):
            raise _invalid(pattern, "a bracket [ that is never closed", start)
        body = "".join(items)
        self.ascii_only &= not negated and body.isascii() and not re.search(r"\\[dDwWsS]", body)
        if self.multiline:
            self.emit(f"[{'^' if negated else ''}{body}]")
        elif negated:
            self.emit(f"[^{body}\\r]")
        elif any(item in ("\\D", "\\W", "\\s") or _spans_cr(item) for item in items):
            self.emit(f"(?:(?!\\r)[{body}])", rust=f"[{body}&&[^\\r]]")
        else:
            self.emit(f"[{body}]")
        return i + 1 - start

    def member(self, i: int) -> tuple[str, int]:
        """One member of a bracket expression, escaped for both engines, and the index behind it."""
        char = self.pattern[i]
        if char != "\\" or i + 1 >= len(self.pattern):
            return _class_member(char), i + 1
        rest = self.pattern[i + 1 :]
        if rest[0] in "dDwWsS":
            return "\\" + rest[0], i + 2
        self.refuse_property(rest[0])
        if rest[0] == "b":
            return "\\x08", i + 2
        code = self.code_point(rest)
        if code is not None:
            return _class_member(code[0]), i + 1 + code[1]
        if rest[0].isascii() and rest[0].isalnum():
            raise _invalid(self.pattern, f"bad escape \\{rest[0]}", i)
        return _class_member(rest[0]), i + 2

    def group(self) -> int:
        """The opening of a group; its length."""
        rest = self.pattern[self.at + 1 :]
        self.open += 1
        if comment := re.match(r"\?#[^)]*\)", rest):
            self.open -= 1
            return 1 + comment.end()
        if named := re.match(r"\?<(?![=!])", rest):
            self.emit("(?P<")
            return 1 + named.end()
        if rest.startswith(_GROUP_PYTHON):
            self.python_only, self.ascii_only = True, False
        elif flags := re.match(r"\?([a-zA-Z]*)-?[a-zA-Z]*[:)]", rest):
            if "x" in flags[1]:
                raise _invalid(self.pattern, "verbose mode (?x) is not supported", self.at)
            if set(flags[0]) - set("?ims-:)"):
                self.python_only = True
            if not self.multiline and "m" in flags[0].split("-")[-1] and "-" in flags[0]:
                self.python_only = True
            self.emit("(" + flags[0])
            return 1 + flags.end()
        self.emit("(")
        if rest.startswith("?P<"):
            self.emit("?P<")
            return 4
        if rest.startswith("?"):
            # What follows belongs to the group's opening and must not be read as a quantifier.
            opening = next((o for o in _GROUP_PYTHON if rest.startswith(o)), "?")
            self.emit(opening)
            return 1 + len(opening)
        return 1

    def quantifier(self, char: str) -> int:
        """A quantifier or a literal brace; its length."""
        length = 1
        text = char
        if char == "{":
            found = _QUANTIFIER.match(self.pattern, self.at)
            if found is None or not (found[1] or found[3]):
                self.emit("\\{", literal="{")
                return 1
            low, comma, high = found[1] or "0", found[2], found[3]
            text = f"{{{low}{comma}{high}}}"
            length = found.end() - found.start()
            times = int(high or low)
            self.more_ways(_MANY_WAYS + 1 if comma and not high else times)
            self.copies = min(self.copies * max(1, times), _MANY_COPIES + 1)
            # ripgrep would take steps by the thousand for each character, and nothing ends it within a file.
            self.python_only |= self.copies > _MANY_COPIES
        else:
            self.more_ways(2 if char == "?" else _MANY_WAYS + 1)
        self.emit(text)
        if self.pattern.startswith("+", self.at + length):
            self.python_only = True
        return length


def _spans_cr(item: str) -> bool:
    """Whether a member of a class is a range with CR in it."""
    low, dash, high = item.partition("-")
    return bool(dash) and bool(high) and len(low) == 1 and low < "\r" < high[-1]


def _class_member(char: str) -> str:
    if char == "\n":
        return "\\n"
    return "\\" + char if char in "\\]^-[&~" else char
