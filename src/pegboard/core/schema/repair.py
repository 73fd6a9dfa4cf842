"""Repair: malformed JSON whose slips have one meaning; everything else is a guess, and a guess never runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pegboard.core.schema.json_text import NotFinite, loads

_FENCE: Final = re.compile(r"(?<!`)`{3,}+[ \t]*+[A-Za-z0-9_+-]*+\s*+(?=[{\[(])")
_START: Final = re.compile(r"[{\[]")
_ESCAPED: Final = re.compile(r'\s*[{\[]\s*\\"')
_AFTER: Final = re.compile(r'[\s`;]*(?:(?<=[\s`;])[^\s`;,:{}\[\]"][^{}\[\]"]*)?\Z')
_TOKEN: Final = re.compile(
    r"""(?P<space>\s++)
    |(?P<comment>/\*.*?(?:\*/|\Z)|(?://|\#)[^\n]*+(?:\n|\Z))
    |(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*"|'[^'\\]*+(?:\\.[^'\\]*+)*'|“[^”\\]*+(?:\\.[^”\\]*+)*”|‘[^’\\]*+(?:\\.[^’\\]*+)*’)
    |(?P<mark>[{}\[\]():=,])
    |(?P<cut>["'“‘].*+)
    |(?P<bare>[^\s{}\[\]():=,"'“”‘’]++|.)""",
    re.DOTALL | re.VERBOSE,
)
_NUMBER: Final = re.compile(r"\+?(-?)(0|[1-9][0-9]*)?(?:\.([0-9]*))?([eE][+-]?[0-9]+)?\Z")
_WORD: Final = re.compile(r"[$@./+-]{0,3}[^\W\d][\w.@/+-]*\Z")
_LITERALS: Final = {"true": "true", "false": "false", "null": "null", "none": "null", "undefined": "null"}
_NOT_FINITE: Final = frozenset({"nan", "infinity", "-infinity", "+infinity", "inf", "-inf", "+inf"})
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_ESCAPE: Final = re.compile(r"""\\(?:(u[0-9a-fA-F]{4}|["\\/bfnrt])|(['`“”„‘’])|(.))|\"""", re.DOTALL)
_CONTROLS: Final = {code: f"\\u{code:04x}" for code in range(32)}


class Malformed(ValueError):
    """The text has no JSON value, or more than one could be meant.

    Attributes:
        truncated: the text ends before its value does.
    """

    def __init__(self, message: str, *, truncated: bool = False) -> None:
        super().__init__(message)
        self.truncated = truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A value whose slips have one meaning.

    Attributes:
        value: the value.
        notes: what was repaired, one sentence each; empty for JSON.
    """

    value: Any
    notes: tuple[str, ...] = ()


def repair_json(text: str, read: Callable[[str], Any] = loads) -> Repaired:
    """The value that a text is JSON of, but for slips with one meaning, in time linear in its length.

    Such slips are other quotes than double ones, names without quotes, literals of Python, comments, missing
    or superfluous commas, tuples, and prose or a code fence around the value. A quote inside a text that is
    not escaped, a bracket without its pair, a missing value, or a second value is none of them.

    Args:
        text: what a model wrote.
        read: reads well-formed JSON.

    Raises:
        Malformed: more than one value could be meant, or none.
    """
    try:
        return Repaired(value=read(text))
    except (ValueError, RecursionError, NotFinite):
        pass
    notes: list[str] = []
    if _ESCAPED.match(text):
        text = text.replace('\\"', '"').replace("\\\\", "\\")
        notes.append("The quotes were escaped once too often.")
    fence = _FENCE.search(text)
    if fence is not None and "{" in text[: fence.start()]:
        fence = None  # it stands inside a text of the value
    opening = _START.search(text)
    start = fence.end() if fence else opening.start() if opening else len(text)
    if text[:start].strip():
        notes.append("The code fence was left out." if fence else "The text around the JSON was left out.")
    rewriter = _Rewriter(text, notes)
    end = rewriter.run(start)
    if start == len(text):
        raise Malformed("no object or array in it")
    if rewriter.open and not _closes_all(text):
        raise Malformed("the JSON is cut off", truncated=True)
    if rewriter.open or rewriter.doubt or '"' in text[:start] or not _AFTER.match(text, end):
        raise Malformed("more than one value could be meant")
    if text[end:].strip(" \t\r\n`;"):
        notes.append("The text around the JSON was left out.")
    try:
        value = read("".join(rewriter.out))
    except (ValueError, RecursionError, NotFinite):
        raise Malformed("it is not JSON") from None
    return Repaired(value=value, notes=tuple(dict.fromkeys(notes)) or ("Slips in its JSON were put right.",))


def _closes_all(text: str) -> bool:
    """Whether a text closes all brackets that it opens: it was not cut off, whatever else is wrong with it."""
    ends = text.rstrip()[-1:] in ("}", "]", "`")
    return ends and all(text.count(opener) <= text.count(closer) for opener, closer in ("{}", "[]"))


def guess_json(text: str) -> Any:
    """The value that a malformed text was most likely meant to be. Never run it: parts of it may be invented.

    Raises:
        Malformed: there is no object or array in it, or its end is missing.
    """
    try:
        return repair_json(text).value
    except Malformed as error:
        if error.truncated or not _START.search(text):
            raise
    from json_repair import loads as loads_malformed

    try:
        return loads_malformed(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


@dataclass(slots=True)
class _Rewriter:
    """Rewrites a value as JSON, token by token; whether its grammar holds is left to the reader of JSON.

    Attributes:
        text: what is read.
        notes: receives a sentence for each kind of slip.
        out: the tokens in JSON's notation.
        open: the brackets that are open, `"` for a text.
        doubt: some token could be meant otherwise.
    """

    text: str
    notes: list[str]
    out: list[str] = field(default_factory=list[str])
    open: list[str] = field(default_factory=list[str])
    doubt: bool = False
    _commas: list[int] = field(default_factory=list[int])
    _spaced: bool = False
    _word: str = ""

    def run(self, at: int) -> int:
        """Rewrite the value at `at`; the position after it. With `open` left it does not end in the text."""
        for token in _TOKEN.finditer(self.text, at):
            at = token.end()
            kind, word = cast(str, token.lastgroup), token[0]
            match kind:
                case "space":
                    self._spaced = True
                    continue
                case "comment":
                    # In a text of one line a comment may take the rest of the value along.
                    self.doubt |= '"' in word or at == len(self.text)
                    self.notes.append("A comment was left out.")
                    self._spaced = True
                    continue
                case "cut":
                    self.open.append('"')
                case "mark":
                    self._mark(word)
                case "text":
                    self._value(self._quoted(word), word)
                case _:
                    self._value(self._bare(word), word)
            self._spaced = False
            if not self.open:
                break
        return at

    def _mark(self, mark: str) -> None:
        if mark in _CLOSERS:
            self._value("{" if mark == "{" else "[", mark)
            self.open.append(mark)
            self._commas.append(0)
        elif mark == ",":
            self._commas[-1] += 1
            self.out.append(",")
        elif mark in ":=":
            self.doubt |= "\n" in self._word  # no name has a line break
            self.out.append(":")
        else:
            self._close(mark)

    def _close(self, mark: str) -> None:
        opener, commas = self.open.pop(), self._commas.pop()
        if _CLOSERS[opener] != mark:
            self.doubt = True
        if opener == "(":
            self.doubt |= not commas and self.out[-1] != "["  # brackets around one value, or a call
            self.notes.append("A tuple was read as a list.")
        if self.out[-1] == "," and self.out[-2] not in (",", "[", "{"):
            self.out.pop()
        self.out.append("]" if opener != "{" else "}")

    def _value(self, value: str, word: str) -> None:
        """One value or name, after a comma if there should be one."""
        if self.out and self.out[-1] not in (",", ":", "[", "{"):
            # `"say "hi" now"`: a text beside another word may as well be the rest of it.
            quoted = value[0] == '"' and word[0] in "\"'“‘"
            named = self.open[-1] == "{" and quoted
            numbers = self.open[-1] != "{" and not quoted and self.out[-1][0] != '"' and value[0] != '"'
            self.doubt |= not self._spaced or not (named or numbers)
            self.out.append(",")
        self.out.append(value)
        self._word = word

    def _quoted(self, word: str) -> str:
        content = word[1:-1]
        if word[0] != '"':
            self.notes.append("Other quotes than double ones were read.")
        if "\n" in content or "\t" in content:
            self.notes.append("Line breaks inside a text were kept.")
        escapes = [match.groups("") for match in _ESCAPE.finditer(content)]
        # In `C:\dir\new` and `\\srv\dir` one backslash stands for itself, and another does not.
        self.doubt |= any(e[2] for e in escapes) and any(e[0] not in ("", '"') for e in escapes)
        return f'"{_ESCAPE.sub(_escaped, content).translate(_CONTROLS)}"'

    def _bare(self, word: str) -> str:
        number = _NUMBER.match(word)
        if number is not None and (number[2] or number[3]):
            sign, whole, fraction, exponent = number.groups()
            point = "" if fraction is None else f".{fraction or 0}"
            return f"{sign}{whole or 0}{point}{exponent or ''}"
        literal = _LITERALS.get(word.lower())
        if literal is not None:
            if literal != word:
                self.notes.append("Literals of another language were read.")
            return literal
        if not _WORD.match(word) or word.lower() in _NOT_FINITE:
            self.doubt = True
        self.notes.append("Names and texts without quotes were read.")
        return json.dumps(word)


def _escaped(match: re.Match[str]) -> str:
    """An escape as JSON has it; a backslash that begins none stands for itself, as in patterns and paths."""
    valid, quote, other = match.groups()
    if match[0] == '"':
        return '\\"'
    return match[0] if valid else quote or f"\\\\{other}"


__all__ = ["Malformed", "Repaired", "guess_json", "repair_json"]
