"""A model's text as it arrives: what is surely answer or reasoning goes on at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Final

from pegboard.core.transcript import AssistantMessage
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk
from pegboard.dialects.text_markers import (
    CLOSERS,
    DECLARED,
    FIXED,
    MARK,
    NOISE,
    THINKING,
    THINKING_ENDS,
    before_orphans,
)
from pegboard.dialects.text_turns import MINIMAX, ParsedCall, ParsedText, ThinkingPart
from pegboard.dialects.wire import arguments_text
from pegboard.dialects.xml_elements import OPEN

_TURNS: Final = ("<|channel|>", "<|start|>", "<|message|>", "<|open|>", "<|close|>", MINIMAX)
_WORDS: Final = ("functools[", "Action:", ">>>")
_STARTS: Final = frozenset(
    word[:n] for word in (*FIXED, *CLOSERS, *_TURNS, *_WORDS, "```") for n in range(1, len(word) + 1)
)
_LONGEST: Final = max(map(len, _STARTS))
_SOON: Final = 100
"""So many characters behind a mark, or its closing mark, show whether it announced a call."""

_DECLARATION: Final = 1_000
"""So long may a document type and what stands behind it be looked at again and again."""

_UNFINISHED = re.compile(r"<[^<>]{0,400}\Z")
_FENCE = r"```\w*[ \t]*\n?\s*[{\[]"
_CODE = re.compile(r"```\w*[ \t]*\n\s*(?:print\(\s*)?(?:default_api\.|functions\.)?([\w.]{1,128}?)\(")
_CODE_BEGUN = re.compile(r"```\w*[ \t]*\n?\s*[\w.(]{0,160}\Z")
_ANY = re.compile(f"{MARK.pattern}|(?P<turn>{'|'.join(map(re.escape, _TURNS))}|{_FENCE})")
_BARE = re.compile(r"\s*(?:[{\[]|to=|assistant\b|all\n|[\w.-]{1,80}(?:\n\s*\{|\())")
_MAY_BE_BARE = re.compile(r"[\w.=-]{1,80}(?:\n\s*)?\Z")
_BEHIND_CALL = re.compile(r"\s*(?:" + "|".join(re.escape(c) for c in (*CLOSERS, *NOISE)) + ")")
_ENDS = frozenset([*THINKING.values(), *THINKING_ENDS])


class TextStream:
    """Reads pieces of text.

    Args:
        read: reads a whole text.
        message_of: the message that a reading amounts to.
        tags: names of tools that are calls when they stand as a tag.
        names: of all tools, where calls without a mark are read.

    What `feed` gives as text is the beginning of the message's text; what follows a call's mark is
    held until the call is whole. `flush` gives the rest. `finish` reads the whole text once more, so
    that no split can change the message; only its calls are to be run. Reasoning that ends without
    having begun is known as such only at its end: until then it went on as text, its calls announced.
    """

    def __init__(
        self,
        read: Callable[[str], ParsedText],
        message_of: Callable[[ParsedText], AssistantMessage],
        tags: Container[str] = frozenset(),
        names: Container[str] = frozenset(),
    ) -> None:
        self._read = read
        self._tags = tags
        self._names = names
        self._message_of = message_of
        self._pieces: list[str] = []
        self._buffer = ""
        self._close = ""
        self._opened: set[str] = set()
        self._held: list[str] | None = None
        self._held_length = 0
        self._tried = 0
        self._mark_length = 0
        self._tail = ""
        self._closers: tuple[str, ...] = ()
        self._began = False
        self._blank: list[str] = []
        self._open = False
        self._behind_call = False
        self._behind_thought = False
        self._calls = 0
        self._shown: list[str] = []

    def feed(self, chunk: str) -> list[Delta]:
        """What this piece of text adds."""
        self._pieces.append(chunk)
        out: list[Delta] = []
        if self._held is not None:
            self._hold(chunk, out)
        else:
            self._buffer += chunk
        while self._held is None and self._step(out):
            pass
        return out

    def flush(self) -> list[Delta]:
        """What was held back; call it once, behind the last piece."""
        message = self.finish()
        shown, text = "".join(self._shown), message.text
        # What was shown and is not in the text was reasoning, as only the whole told.
        rest = text[len(shown) :] if text.startswith(shown) else text
        out: list[Delta] = [TextChunk(rest)] if rest else []
        for index, call in list(enumerate(message.calls))[self._calls :]:
            out += [CallStartChunk(index, "", call.name), CallChunk(index, arguments_text(call.arguments))]
        return out

    def finish(self) -> AssistantMessage:
        """The whole message, the same as of the whole text."""
        return self._message_of(self._read("".join(self._pieces)))

    def _step(self, out: list[Delta]) -> bool:
        """Take one thing from the buffer; whether there may be another."""
        if self._close:
            return self._thought(out)
        if self._behind_call:
            if match := _BEHIND_CALL.match(self._buffer):
                self._buffer = self._buffer[match.end() :]
                return True
            if self._buffer.lstrip() in _STARTS or not self._buffer.strip():
                return False
            self._behind_call = False
        if not self._began and not self._begin():
            return False
        if self._held is not None:
            return False
        mark = _ANY.search(self._buffer)
        for tag in OPEN.finditer(self._buffer, 0, mark.start() if mark else len(self._buffer)):
            if tag[1] in self._tags:
                self._start_holding(tag.start(), tag.end(), out, (f"</{tag[1]}>",))
                return self._held is None
        end = mark.start() if mark else len(self._buffer)
        code = _CODE.search(self._buffer, 0, end)
        if code is not None and code[1] in self._names:
            # A block of code is a call only at the end of the answer, so that it can be known only there.
            self._start_holding(code.start(), code.start(), out, ())
            return False
        begun = _CODE_BEGUN.search(self._buffer)
        begin = begun.start() if begun and begun.start() < end else end
        if mark is None or begin < end:
            safe = min(begin, self._safe())
            # Up to where a tag may be beginning: behind a document type it may be that of a call.
            unfinished = _UNFINISHED.search(self._buffer)
            edge = unfinished.start() if unfinished else len(self._buffer)
            if (declared := DECLARED.search(self._buffer, 0, edge)) and declared.start() < safe:
                if not declared[0].rstrip().endswith(">") or len(declared[0]) > _DECLARATION:
                    self._start_holding(declared.start(), declared.end(), out, ())
                    return False
                safe = declared.start()
            self._text(self._buffer[:safe], out)
            self._buffer = self._buffer[safe:]
            return False
        return self._mark(mark, out)

    def _begin(self) -> bool:
        """Whether the answer has begun: its first word may show that all of it is a call."""
        text = self._buffer.lstrip()
        if not text or text in _STARTS or _MAY_BE_BARE.match(text):
            return False
        self._began = True
        if _ANY.match(text) is None and (bare := _BARE.match(self._buffer)) is not None:
            self._start_holding(bare.start(), bare.end(), [], ())
        return True

    def _mark(self, mark: re.Match[str], out: list[Delta]) -> bool:
        word, begin, rest = mark[0], mark.start(), self._buffer[mark.end() :]
        if word in NOISE or word in _ENDS:
            if word in _ENDS and word not in self._opened:
                # All that went before was reasoning after all.
                self._opened.add(word)
                self._shown, self._behind_thought = [], True
                self._blank, self._open = [], False
            else:
                self._text(self._buffer[:begin], out)
            self._buffer = rest
            return True
        if word in THINKING:
            self._boundary(self._buffer[:begin], out)
            self._close = THINKING[word]
            self._opened.add(self._close)
            self._buffer = rest
            return True
        self._start_holding(begin, mark.end(), out, () if mark["turn"] else CLOSERS)
        return self._held is None

    def _thought(self, out: list[Delta]) -> bool:
        end = self._buffer.find(self._close)
        if end >= 0:
            self._buffer, thought = self._buffer[end + len(self._close) :], self._buffer[:end]
            self._close, self._behind_thought = "", True
        else:
            keep = _partial(self._buffer, frozenset(self._close[:n] for n in range(1, len(self._close))))
            self._buffer, thought = self._buffer[keep:], self._buffer[:keep]
        if thought:
            out.append(ThinkingChunk(thought))
        return end >= 0

    def _text(self, text: str, out: list[Delta]) -> None:
        """Give text on; white space waits until something stands behind it."""
        shown = text.rstrip()
        if self._behind_thought and not self._open:
            shown = shown.lstrip()
        elif shown:
            shown = "".join([*self._blank, shown])
        if shown:
            self._blank, self._behind_thought, self._open = [], False, True
            self._show(shown, out)
        self._blank.append(text[len(text.rstrip()) :])

    def _boundary(self, text: str, out: list[Delta]) -> None:
        """Give on all text before a call or a thought; white space alone is no text."""
        self._text(text, out)
        if self._open and (blank := "".join(self._blank)):
            self._show(blank, out)
        self._blank, self._open = [], False

    def _show(self, text: str, out: list[Delta]) -> None:
        self._shown.append(text)
        out.append(TextChunk(text))

    def _safe(self) -> int:
        """How much of the buffer cannot be the beginning of a mark, nor be dropped at the end."""
        buffer = self._buffer
        safe = _partial(buffer, _STARTS)
        if unfinished := _UNFINISHED.search(buffer):
            safe = min(safe, unfinished.start())
        return min(safe, before_orphans(buffer[:safe]), before_orphans(buffer))

    def _start_holding(self, begin: int, end: int, out: list[Delta], closers: tuple[str, ...]) -> None:
        """Hold from a mark on, until one of these stands behind it; with none, to the end."""
        if declared := DECLARED.search(self._buffer, 0, begin):
            # A call behind this is refused, and the declaration with it.
            begin, end, closers = declared.start(), declared.end(), ()
        before = self._buffer[:begin] or ("" if any(self._blank) else "".join(self._shown[-1:]))
        if before.endswith("`"):
            # Quoted perhaps, as only what comes behind it will tell.
            closers = ()
        self._text(self._buffer[:begin], out)
        held, self._buffer = self._buffer[begin:], ""
        self._mark_length = end - begin
        self._held, self._held_length, self._tried = [], 0, _SOON
        self._closers, self._tail = closers, ""
        self._hold(held, out)

    def _hold(self, chunk: str, out: list[Delta]) -> None:
        assert self._held is not None
        self._held.append(chunk)
        self._held_length += len(chunk)
        tail = self._tail + chunk
        self._tail = tail[-_LONGEST:]
        if not self._closers:
            return
        # Trying again only after growth by half keeps all tries together linear.
        grown = self._held_length >= self._tried * 3 // 2
        if grown or (self._tried == _SOON and any(close in tail for close in self._closers)):
            self._try_held(out)

    def _try_held(self, out: list[Delta]) -> None:
        """Read what is held: give calls on, or the mark as text where it announced none."""
        text = "".join(self._held or ())
        self._held, self._tried = [text], max(_SOON, len(text))
        reading = self._read(text)
        parts = reading.parts
        if reading.refused or not parts:
            return
        self._held = None
        if isinstance(parts[0], str):
            self._text(text[: self._mark_length], out)
            self._buffer = text[self._mark_length :]
            return
        rest = reading.cut or (parts.pop() if isinstance(parts[-1], str) else "")
        for part in parts:
            match part:
                case ParsedCall(named):
                    self._boundary("", out)
                    arguments = arguments_text(named.sent)
                    out += [CallStartChunk(self._calls, "", named.name), CallChunk(self._calls, arguments)]
                    self._calls += 1
                case ThinkingPart(thought):
                    self._boundary("", out)
                    out += [ThinkingChunk(thought)] if thought else []
                case _:
                    self._text(part, out)
        self._buffer = rest if isinstance(rest, str) else ""
        self._behind_call = not rest


def _partial(text: str, starts: frozenset[str]) -> int:
    """Where the longest end of `text` begins that is the beginning of a mark."""
    for begin in range(max(0, len(text) - _LONGEST), len(text)):
        if text[begin:] in starts:
            return begin
    return len(text)
