"""Markdown on a terminal, rendered while it streams: a block is printed when it is whole, the last one is shown as it grows."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pegboard.cli.show import escape_controls, is_terminal, print_line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.markdown import Markdown

_MOST_CODE_LINES: Final = 40
"""A longer block of code is printed in parts: only what fits on the screen can be shown as it grows."""
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_TRAILING: Final = re.compile(r"(?:[ \t]|\x1b\[[0-9;]*m)+$", re.MULTILINE)


class MarkdownStream:
    """The text of a model on its way to the terminal.

    Args:
        changed: called when `tail` has changed.
        redact: takes secrets out of a text; None = there are none.
    """

    def __init__(
        self, changed: Callable[[], None], *, redact: Callable[[str], tuple[str, bool]] | None = None
    ) -> None:
        self.changed = changed
        self._redact = redact
        self._text = ""
        self._printed = False

    def feed(self, text: str) -> None:
        """Take a piece of text; print the blocks that it completes."""
        self._text += escape_controls(text)
        if "\n" in text:
            whole, self._text, cut = split_whole(self._text)
            self._print(whole)
            self._printed = self._printed and not cut
        self.changed()

    def end(self) -> None:
        """The text is complete: print what is left of it."""
        rest, self._text = self._text, ""
        self._print(rest)
        self._printed = False
        self.changed()

    def tail(self, rows: int) -> str:
        """The last `rows` lines of the block that still grows, rendered; empty if there is none."""
        if not self._text.strip():
            return ""
        return "\n".join(self._render(self._text).split("\n")[-rows:])

    def _print(self, text: str) -> None:
        if not text.strip():
            return
        if self._printed:
            print_line()
        self._printed = True
        print_line(self._render(text))

    def _render(self, text: str) -> str:
        return render(text if self._redact is None else self._redact(text)[0])


def split_whole(text: str) -> tuple[str, str, bool]:
    """The blocks of a Markdown text that no further text can change, and the one that may still grow.

    The third says whether the second is the rest of the first one's last block, a long block of code.
    """
    blocks = [t for t in _parser().parse(text) if t.level == 0 and t.map is not None and t.nesting >= 0]
    if not blocks:
        return "", text, False
    last = blocks[-1]
    lines = text.splitlines(keepends=True)
    start = last.map[0] if last.map is not None else 0
    if last.type == "fence" and (cut := _inside_fence(last, lines, start)):
        opening = lines[start]
        fence = _FENCE.match(opening)
        closing = "" if fence is None else f"{fence[1]}\n"
        return "".join(lines[:cut]) + closing, opening + "".join(lines[cut:]), True
    return "".join(lines[:start]), "".join(lines[start:]), False


def _inside_fence(fence: Token, lines: list[str], start: int) -> int:
    """The line at which a long, open block of code can be cut; 0 where it cannot."""
    body = fence.content.count("\n")
    complete = len(lines) if lines[-1].endswith("\n") else len(lines) - 1
    is_open = len(lines) - start - 1 <= body or not lines[-1].strip().startswith(fence.markup)
    return complete if is_open and complete - start - 1 > _MOST_CODE_LINES else 0


def render(text: str, *, width: int | None = None) -> str:
    """Markdown as lines of a terminal, words wrapped, in colours where a person looks; no escape sequence of its own."""
    from rich.console import Console
    from rich.theme import Theme

    colour = is_terminal()
    out = io.StringIO()
    console = Console(
        file=out, width=width or shutil.get_terminal_size().columns, force_terminal=colour, highlight=False,
        color_system="standard" if colour else None, legacy_windows=False,
        theme=Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"}),
    )  # fmt: skip
    shown = _markdown()(text, code_theme="ansi_dark", hyperlinks=False)
    # Rich's own parser drops what looks like HTML; here it stays text.
    shown.parsed = _parser().parse(text)
    console.print(shown)
    lines = _TRAILING.sub(lambda m: "\x1b[0m" if "\x1b" in m[0] else "", out.getvalue())
    return lines.strip("\n")


def _markdown() -> type[Markdown]:
    from rich.markdown import CodeBlock, Heading, Markdown
    from rich.syntax import Syntax

    class LeftHeading(Heading):
        LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")

    class PlainCode(CodeBlock):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            if code := str(self.text).rstrip():
                yield Syntax(
                    code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2),
                    background_color="default",
                )  # fmt: skip

    class PlainMarkdown(Markdown):
        elements = {  # noqa: RUF012  Rich's own is written so.
            **Markdown.elements,
            "heading_open": LeftHeading,
            "fence": PlainCode,
            "code_block": PlainCode,
        }

    return PlainMarkdown


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
