"""Compaction: a conversation made to fit a model's window, valid at every border.

Pure: the same messages and figures give the same shorter messages. In order, until it fits: old
pictures become a line of text; old results and long arguments are cut; the oldest turns are left out
whole, a call never without its results; at last what is recent is cut too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import PegboardError
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, UserMessage
from pegboard.runtime.shorten import (
    CUT_LINE,
    Shortened,
    images_in,
    shorten_calls,
    shorten_results,
    shorten_text,
    shorten_user,
    without_images,
)
from pegboard.runtime.tokens import BYTES_PER_TOKEN, MEDIA_TOKENS, message_tokens

TARGET: Final = 0.5
"""Share of the budget that is left in use, so that the next compaction is far away."""

NOTE: Final = "[Earlier messages were left out to stay within the context window.]"
"""The first line of the message that stands for what was left out."""

MOST_IMAGES: Final = 10
MOST_IMAGE_BYTES: Final = 8 * 1024 * 1024
KEPT_IMAGES: Final = 4
_RECENT: Final = 3
_OLD_RESULT: Final = 600
_OLD_RESULT_TOKENS: Final = int((_OLD_RESULT + CUT_LINE) / BYTES_PER_TOKEN)
"""One of no more has been cut before, or would not be shorter for it."""
_OLD_LEAF: Final = 200
_LAST_RESORT: Final = (4000, 1500, 500, 160)
_NOTE_CHARACTERS: Final = 2000


class ContextOverflow(PegboardError):
    """What must be sent does not fit the model's window, however much is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one request may take, in estimated tokens.

    Attributes:
        tokens: of the whole window, answer included; None = unknown, nothing is dropped for size.
        overhead: of the system prompt and the tools' schemas.
        reserve: kept free for the answer.
    """

    tokens: int | None = None
    overhead: int = 0
    reserve: int = 0

    @property
    def budget(self) -> int | None:
        """What the messages may take.

        Raises:
            ContextOverflow: prompt, tools and answer leave nothing.
        """
        if self.tokens is None:
            return None
        left = self.tokens - self.overhead - self.reserve
        if left < self.tokens // 20:
            raise ContextOverflow(
                f"the instructions and tools take about {self.overhead} tokens, and {self.reserve} are kept for "
                f"the answer: of the window of {self.tokens} nothing is left for the conversation. Offer fewer "
                "tools, shorten the instructions, or use a model with a larger window."
            )
        return left


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A shorter conversation.

    Attributes:
        messages: every call of it is followed by its results.
        dropped: what was left out, one sentence each; empty where nothing was.
        before, after: estimated tokens.
        sizes: of each message, in estimated tokens.
        settled: so many of the first messages have been cut as old ones; to cut them so again changes nothing.
    """

    messages: tuple[Message, ...]
    dropped: tuple[str, ...]
    before: int
    after: int
    sizes: tuple[int, ...]
    settled: int


def too_many_images(sizes: Sequence[int]) -> bool:
    """Whether a conversation holds more pictures than a request should."""
    return len(sizes) > MOST_IMAGES or sum(sizes) > MOST_IMAGE_BYTES


def compact(
    messages: Sequence[Message], budget: int, *, sizes: Sequence[int] = (), settled: int = 0
) -> Compaction:
    """Make a conversation fit.

    Args:
        messages: a valid transcript, whole turns only.
        budget: estimated tokens that the messages may take.
        sizes: of as many of the first messages as have been counted before.
        settled: as the last compaction said it; a long conversation is shortened again and again.

    Raises:
        ContextOverflow: it cannot be made to fit.
    """
    work = _Compactor(messages, sizes, settled)
    work.drop_images()
    goal = int(budget * TARGET)
    if work.size > goal:
        work.shorten_old()
    if work.size > goal:
        work.drop_old(goal)
    for most in _LAST_RESORT:
        if work.size <= budget:
            break
        work.shorten_all(most)
    if work.size > budget:
        raise ContextOverflow(
            f"the last turns alone take about {work.size} tokens, and {budget} are left for them; "
            "use a model with a larger window, or start a new session with less text."
        )
    return work.done()


class _Group:
    """Messages that stay or go together, each counted once."""

    __slots__ = ("messages", "sizes")

    def __init__(self, message: Message, size: int) -> None:
        self.messages = [message]
        self.sizes = [size]

    @property
    def size(self) -> int:
        """Estimated tokens."""
        return sum(self.sizes)

    def add(self, message: Message, size: int) -> None:
        """One more at the end."""
        self.messages.append(message)
        self.sizes.append(size)


class _Compactor:
    """One compaction under way."""

    def __init__(self, messages: Sequence[Message], sizes: Sequence[int], settled: int) -> None:
        self.groups: list[_Group] = []
        self._settled = settled
        sizes = [*sizes, *map(message_tokens, messages[len(sizes) :])]
        for message, size in zip(messages, sizes, strict=True):
            if isinstance(message, ResultsMessage) and self.groups:
                self.groups[-1].add(message, size)
            else:
                self.groups.append(_Group(message, size))
        self.before = self.size = sum(sizes)
        self.dropped: list[str] = []

    def drop_images(self) -> None:
        """Pictures become text, the oldest first, down to the ones that may stay."""
        # A picture alone takes more than nearly every message does.
        sizes = [
            s
            for g in self.groups
            for m, size in zip(g.messages, g.sizes, strict=True)
            if size >= MEDIA_TOKENS
            for s in images_in(m)
        ]
        if not too_many_images(sizes):
            return
        kept, room = 0, MOST_IMAGE_BYTES
        gone = 0
        for group in reversed(self.groups):
            for place in range(len(group.messages) - 1, -1, -1):
                here = images_in(group.messages[place])
                if not here:
                    continue
                if kept + len(here) <= KEPT_IMAGES and sum(here) <= room:
                    kept, room = kept + len(here), room - sum(here)
                    continue
                gone += self._put(group, place, without_images(group.messages[place]))
        self._say(gone, "picture was replaced by a line of text", "pictures were replaced by lines of text")

    def shorten_old(self) -> None:
        """Cut results and arguments of all but the last turns."""
        results = calls = 0
        seen = 0
        for group in self.groups[: -self._recent() or None]:
            seen += len(group.messages)
            if seen <= self._settled:
                continue
            for place, message in enumerate(group.messages):
                if isinstance(message, ResultsMessage):
                    if group.sizes[place] > _OLD_RESULT_TOKENS:
                        results += self._cut(group, place, shorten_results, _OLD_RESULT)
                elif isinstance(message, AssistantMessage):
                    calls += self._cut(group, place, shorten_calls, _OLD_LEAF)
        self._settled = max(seen, self._settled)
        self._say(results, "old result was cut", "old results were cut")
        self._say(calls, "old call's arguments were cut", "old calls' arguments were cut")

    def drop_old(self, goal: int) -> None:
        """Leave out the oldest turns, all but the task and the last ones."""
        first = next((n for n, g in enumerate(self.groups) if isinstance(g.messages[0], UserMessage)), None)
        task = max((n for n, g in enumerate(self.groups) if _is_task(g.messages[0])), default=None)
        keep = {first, task}
        gone: list[_Group] = []
        last = len(self.groups) - self._recent()
        rest: list[_Group] = []
        place = 0
        for number, group in enumerate(self.groups):
            if number < last and number not in keep and self.size > goal:
                self.size -= group.size
                self._settled -= len(group.messages)
                gone.append(group)
                continue
            if gone and not place:
                place = len(rest)
            rest.append(group)
        if not gone:
            return
        said = _note([g.messages for g in gone])
        note = _Group(said, message_tokens(said))
        self.size += note.size
        self._settled += 1
        # Behind the task, before what follows: a conversation begins with what the person wanted.
        rest.insert(max(place, 1) if first == 0 else place, note)
        self.groups = rest
        count = sum(len(g.messages) for g in gone)
        self._say(count, "earlier message was left out", "earlier messages were left out")

    def shorten_all(self, most: int) -> None:
        """Cut everything, the last turns too."""
        count = 0
        for group in self.groups:
            for place, message in enumerate(group.messages):
                cut: Callable[..., Shortened] = {
                    ResultsMessage: shorten_results, AssistantMessage: shorten_calls, UserMessage: shorten_user,
                }[type(message)]  # fmt: skip
                count += self._cut(group, place, cut, most)
        self._say(
            count,
            f"message was cut to {most} characters a text",
            f"messages were cut to {most} characters a text",
        )

    def done(self) -> Compaction:
        """The outcome."""
        return Compaction(
            messages=tuple([m for g in self.groups for m in g.messages]),
            dropped=tuple(self.dropped),
            before=self.before,
            after=self.size,
            sizes=tuple([s for g in self.groups for s in g.sizes]),
            settled=self._settled,
        )

    def _recent(self) -> int:
        return min(_RECENT, len(self.groups))

    def _cut(self, group: _Group, place: int, cut: Callable[..., Shortened], most: int) -> int:
        # A text of more characters would take more tokens: a long run is cut again and again, and nearly
        # all of it is short by then.
        if group.sizes[place] <= int(most / BYTES_PER_TOKEN):
            return 0
        return self._put(group, place, cut(group.messages[place], most))

    def _put(self, group: _Group, place: int, shortened: Shortened) -> int:
        message, count = shortened
        if count:
            self.size -= group.sizes[place]
            group.messages[place], group.sizes[place] = message, message_tokens(message)
            self.size += group.sizes[place]
        return count

    def _say(self, count: int, one: str, many: str) -> None:
        if count:
            self.dropped.append(f"{count} {one if count == 1 else many}")


def _is_task(message: Message) -> bool:
    return isinstance(message, UserMessage) and not message.text.startswith("[")


def _note(gone: Sequence[Sequence[Message]]) -> UserMessage:
    """What the left out messages were about, in few lines; an earlier note's lines are carried over."""
    lines: list[str] = []
    calls: list[str] = []
    for message in (m for group in gone for m in group):
        match message:
            case UserMessage() if message.text.startswith(NOTE):
                lines += message.text.splitlines()[1:]
            case UserMessage():
                lines.append(f"- the user said: {shorten_text(message.text, 200)}")
            case AssistantMessage():
                calls += [call.name for call in message.calls]
                if text := message.text.strip():
                    lines.append(f"- you said: {shorten_text(text, 200)}")
            case _:
                pass
    if calls:
        told = ", ".join(f"{name} ({count}x)" for name, count in Counter(calls).most_common(20))
        lines.append(f"- you called: {told}")
    body = shorten_text("\n".join(lines), _NOTE_CHARACTERS)
    return UserMessage.of(f"{NOTE}\n{body}\nLook again at whatever you still need.")
