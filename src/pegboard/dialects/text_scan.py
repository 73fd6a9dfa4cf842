"""Reading a model's text: reasoning, answer and calls, in whatever vendor's format it is.

One pass from left to right over the marks of `text_marks`. Where a mark announces a call, the
grammars of `text_calls` read it; where they cannot, the mark is ordinary text. Calls in reasoning
are no calls. A call that the text ends in is never completed.
"""

from __future__ import annotations

import re
from typing import Final

from pegboard.core.secrets.clip import clip
from pegboard.dialects.literals import LiteralError, TruncatedLiteral
from pegboard.dialects.text_bare import read_bare
from pegboard.dialects.text_calls import KnownTools, RawCall, read_body, read_tags, read_tool_tag, tag_name
from pegboard.dialects.text_markers import (
    BETWEEN,
    CALLS,
    CLOSERS,
    DECLARED,
    MARK,
    NOISE,
    RESULTS,
    TAG_OPEN,
    THINKING,
    THINKING_ENDS,
    before_orphans,
)
from pegboard.dialects.text_turns import (
    MINIMAX,
    ParsedCall,
    ParsedText,
    ThinkingPart,
    is_harmony,
    is_kimi_blocks,
    read_harmony,
    read_kimi_blocks,
    read_minimax,
)
from pegboard.dialects.xml_elements import CDATA, CDATA_END, OPEN, ParseBudget
from pegboard.dialects.xml_loose import UnreadableCall, read_loose

WORK: Final = 8
"""How often, on average, each character may be looked at by readings that fail: beyond it, what
remains is text. Keeps hostile text linear."""

_LOOSELY: Final = ("loose",)
_OPENS = {close: open for open, close in THINKING.items()}
_ENDS = frozenset([*THINKING.values(), *THINKING_ENDS])
_WRAPPERS = ("<tool_call>", "<seed:tool_call>", "<minimax:tool_call>", "<function_calls>", "<tool_calls>")
_TRAILING = re.compile(r"\s*(?:" + "|".join(re.escape(c) for c in [*CLOSERS, *NOISE]) + r")")
_JSON_AHEAD = re.compile(r"""\s*(?:```\w*\s*)?(?:\[\s*)?\{\s*["']""")
_ON_LINES = re.compile(r"[ \t]*\n[^<]{1,4000}\n[ \t]*</tool_call>[ \t]*(?:\n|\Z)")
_NAME_AHEAD = re.compile(rf"\s*[\w.:-]{{1,100}}\s*(?:{'|'.join(map(re.escape, BETWEEN))})")
_LINE_NAME = re.compile(r"\s*([\w.-]+)\n(?=\s*\{)")
_WORD_AHEAD = re.compile(r"\s*([\w.-]{1,100})")
_NEAR: Final = 4_000


def read_text(text: str, tools: KnownTools, *, tags: bool = False) -> ParsedText:
    """What the text says.

    Args:
        text: what the model wrote.
        tools: what is known of the tools; its `work` is set here.
        tags: read a known tool's name as the tag of a call (`<read><path>…</path></read>`), and
            calls without any mark only where tools are known.
    """
    tools.work = ParseBudget(WORK * len(text) + 1000)
    if is_harmony(text):
        return read_harmony(text, tools)
    if is_kimi_blocks(text):
        return read_kimi_blocks(text, tools)
    reading = TextParser(text, tools, tags=tags).read()
    if not reading.cut and not reading.calls and (tools.schemas is not None or not tags):
        read_bare(reading, tools)
    reading.repairs += tools.work.repairs
    return reading


class TextParser:
    """The state of one pass."""

    def __init__(self, text: str, tools: KnownTools, *, tags: bool = False) -> None:
        self.text = text
        self.tools = tools
        self.tags = tags and tools.schemas is not None
        self.ahead: re.Match[str] | None = None
        self.refused: list[str] = []
        self.parts: list[str | ThinkingPart | ParsedCall] = []
        self.plain = 0
        self.opened: set[str] = set()
        self.in_thought = False
        self.doubts: list[tuple[int, str]] = []

    def read(self) -> ParsedText:
        text, pos, cut = self.text, 0, ""
        if (line := _LINE_NAME.match(text)) and self.tools.knows(line[1]):
            pos = self._call(0, line.start(1), ())
        while pos < len(text) and (mark := self._next(pos)) is not None:
            try:
                pos = self._mark(mark)
            except TruncatedLiteral:
                if not self._looks_like_call(mark):
                    pos = mark.end()
                    continue
                self._flush(mark.start())
                cut = text[mark.start() :]
                self.plain = len(text)
                break
        self._flush(len(text))
        self._without_orphans()
        return ParsedText(self.parts, cut, [], self.refused, [what for _, what in self.doubts])

    def _next(self, pos: int) -> re.Match[str] | None:
        """The next mark; the tag of a known tool where that is one."""
        if self.tools.work.left <= 0:
            return None
        if self.ahead is None or self.ahead.start() < pos:
            self.ahead = MARK.search(self.text, pos)
        if self.tags:
            end = self.ahead.start() if self.ahead else len(self.text)
            for tag in OPEN.finditer(self.text, pos, end):
                if self.tools.knows(tag[1]):
                    return tag
        return self.ahead

    def _mark(self, mark: re.Match[str]) -> int:
        if mark.re is OPEN:
            return self._call(mark.start(), mark.start(), (), mark)
        word = mark["mark"]
        if word in RESULTS:
            return self._result(mark.end(), RESULTS[word])
        if word in THINKING:
            return mark.end() if self.in_thought else self._thinking(mark, word)
        if word in _ENDS:
            return self._end_of_thinking(mark, word)
        if word in NOISE:
            self._flush(mark.start())
            self.plain = mark.end()
            return mark.end()
        if mark["tag"]:
            return self._call(mark.start(), mark.start(), ())
        return self._call(mark.start(), mark.end(), _LOOSELY if mark["loose"] else CALLS.get(word or "", ()))

    def _call(self, begin: int, body: int, closers: tuple[str, ...], tag: re.Match[str] | None = None) -> int:
        """Read a call; the position behind it, or behind its mark where there is none."""
        text, repairs = self.text, len(self.tools.work.repairs)
        if begin >= len(MINIMAX) and text.startswith(MINIMAX, begin - len(MINIMAX)):
            begin -= len(MINIMAX)
        try:
            calls, end = self._read(begin, body, closers, tag)
        except TruncatedLiteral:
            raise
        except LiteralError as error:
            del self.tools.work.repairs[repairs:]
            self.tools.work.left -= max(0, error.end - body) + 1
            doubts = len(self.doubts)
            loosely = self._read_loosely(begin)
            if loosely is None:
                if len(self.doubts) == doubts and self._promises_call(begin, body):
                    self.doubts.append((body, self._shown(begin)))
                return max(body, begin + 1)
            calls, end = loosely
        if not calls:
            return max(body, begin + 1)
        if self._is_quoted(begin, end):
            if any(self.tools.knows(call.name) for call in calls):
                self.doubts.append((body, self._shown(begin)))
            del self.tools.work.repairs[repairs:]
            return end
        if declared := DECLARED.search(text, self.plain, begin):
            self.refused.append("a document type or entity declaration stood before the call")
            self._flush(declared.start())
            self.plain = end
            return end
        self._flush(self._before(begin))
        while trailing := _TRAILING.match(text, end):
            end = trailing.end()
        self.doubts = [d for d in self.doubts if d[0] <= begin]
        raw = text[begin:end]
        for n, named in enumerate(calls):
            # The text of several calls belongs to the first of them: together they give it back once.
            self.parts.append(ParsedCall(named, raw if n == 0 else ""))
        self.plain = end
        return end

    def _read_loosely(self, begin: int) -> tuple[list[RawCall], int] | None:
        """The calls of a block that is nearly one, None where it is none; a block that promises calls and
        holds none is told, unless further calls are found in it."""
        repairs = len(self.tools.work.repairs)
        try:
            return read_loose(self.text, begin, self.tools)
        except UnreadableCall as error:
            self.doubts.append((error.end, self._shown(begin)))
        except LiteralError:
            pass
        del self.tools.work.repairs[repairs:]
        return None

    def _promises_call(self, begin: int, body: int) -> bool:
        """Whether what could not be read is more than a mark in prose: it must not be lost without a word."""
        if begin == body and (tag := TAG_OPEN.match(self.text, begin)) is not None:
            return self.tools.knows(tag_name(tag))
        if _ON_LINES.match(self.text, body) and (begin == 0 or self.text[begin - 1] == "\n"):
            return True
        if _JSON_AHEAD.match(self.text, body) is not None or _NAME_AHEAD.match(self.text, body) is not None:
            return True
        named = _WORD_AHEAD.match(self.text, body)
        return (
            named is not None
            and self.tools.knows(named[1])
            and any(close in self.text[body : body + _NEAR] for close in CLOSERS)
        )

    def _is_quoted(self, begin: int, end: int) -> bool:
        """Whether a call stands in backticks within a sentence, as an example does."""
        text = self.text
        if (
            begin == 0
            or text[begin - 1] != "`"
            or not text.startswith("`", end)
            or text.startswith("```", end)
        ):
            return False
        line = text.rfind("\n", 0, begin) + 1
        ends = text.find("\n", end)
        around = text[line : begin - 1] + text[end + 1 : ends if ends >= 0 else len(text)]
        return any(char.isalnum() for char in around)

    def _shown(self, begin: int) -> str:
        return " ".join(self.text[begin : begin + 60].split())

    def _result(self, pos: int, close: str) -> int:
        """Step over a tool's result: what stands in it is data."""
        while True:
            end = self.text.find(close, pos)
            section = self.text.find(CDATA, pos, end if end >= 0 else len(self.text))
            if section < 0:
                return len(self.text) if end < 0 else end + len(close)
            pos = self.text.find(CDATA_END, section)
            if pos < 0:
                return len(self.text)

    def _without_orphans(self) -> None:
        """Drop closing tags of no call from the end of the answer."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, str) and (begin := before_orphans(last)) < len(last):
            self.parts[-1] = last[:begin]
            self.tools.work.repairs.append(f"{clip(last[begin:].strip(), 0, 60)} closed no call")

    def _read(
        self, begin: int, body: int, closers: tuple[str, ...], known: re.Match[str] | None
    ) -> tuple[list[RawCall], int]:
        text = self.text
        if known is not None:
            call, end = read_tool_tag(text, known, self.tools)
            return [call], end
        if text.startswith(MINIMAX, begin):
            return read_minimax(text, begin, self.tools)
        if begin == body and (tag := TAG_OPEN.match(text, begin)) is not None:
            return read_tags(text, tag, self.tools)
        if closers == _LOOSELY:
            return read_loose(text, begin, self.tools)
        return read_body(text, body, self.tools, closers)

    def _before(self, begin: int) -> int:
        """Where the answer's text ends before a call: an opening wrapper right before it is no text."""
        before = self.text[self.plain : begin].rstrip()
        for wrapper in _WRAPPERS:
            if before.endswith(wrapper):
                return self.plain + len(before) - len(wrapper)
        return begin

    def _looks_like_call(self, mark: re.Match[str]) -> bool:
        """Whether text that ended behind a mark was a call: not where prose merely names the mark."""
        behind = self.text[mark.end() :].lstrip()
        if mark.re is OPEN:
            return not behind or behind[0] == "<"
        return not behind or mark["word"] is None or behind[0] in "{["

    def _thinking(self, mark: re.Match[str], word: str) -> int:
        text, close = self.text, THINKING[word]
        self.opened.add(close)
        end = text.find(close, mark.end())
        if end >= 0:
            self._flush(mark.start())
            self._thought(text[mark.end() : end])
            self.plain = end + len(close)
            return self.plain
        # Never closed: all that follows was thought, unless it ends in calls and nothing else.
        self._flush(mark.start())
        self.plain = mark.end()
        inner = TextParser(text[mark.end() :], self.tools)
        inner.in_thought, inner.opened = True, set(_ENDS)
        reading = inner.read()
        thoughts = "".join(p for p in reading.parts if isinstance(p, str))
        calls = [p for p in reading.parts if isinstance(p, ParsedCall)]
        ends_in_calls = bool(calls) and isinstance(reading.parts[-1], ParsedCall) and not reading.cut
        self._thought(thoughts if ends_in_calls else text[mark.end() :])
        self.parts += calls if ends_in_calls else []
        self.plain = len(text)
        return len(text)

    def _end_of_thinking(self, mark: re.Match[str], word: str) -> int:
        """An end without a beginning: the prompt had begun it, so that all before was thought."""
        if word not in self.opened:
            self.opened.add(word)
            before = self.text[: mark.start()].replace(_OPENS.get(word, word), "")
            self.parts.clear()
            self._thought(before)
        else:
            self._flush(mark.start())
        self.plain = mark.end()
        return mark.end()

    def _thought(self, text: str) -> None:
        self.parts.append(ThinkingPart(text.strip()))

    def _flush(self, end: int) -> None:
        """Take the text up to `end` as answer."""
        if end > self.plain:
            self.parts.append(self.text[self.plain : end])
        self.plain = max(self.plain, end)
