"""Markdown as the HTML that Telegram takes (https://core.telegram.org/bots/api#html-style): inline tags, pre, blockquote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

from pegboard.ports.channel import utf16_length

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_INLINE: Final[Mapping[str, str]] = {
    "strong_open": "<b>", "strong_close": "</b>", "em_open": "<i>", "em_close": "</i>", "s_open": "<s>",
    "s_close": "</s>", "link_close": "</a>", "softbreak": "\n", "hardbreak": "\n",
}  # fmt: skip


def html_length(text: str) -> int:
    """UTF-16 units of a text with `<`, `>`, `&` and `"` escaped: no less than Telegram counts."""
    return utf16_length(escape(text))


def to_html(text: str) -> str:
    """A Markdown text (CommonMark, tables and strikethrough) as Telegram's HTML. HTML in it is shown as it is."""
    return _blocks(_parser().parse(text)).strip("\n")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def _blocks(tokens: Sequence[Token]) -> str:
    out: list[str] = []
    lists: list[int | None] = []
    """The number of the next item of each open list; None = with dots."""
    cells: list[str] = []
    for token in tokens:
        match token.type:
            case "heading_open":
                out.append("<b>")
            case "heading_close":
                out.append("</b>\n\n")
            case "paragraph_close":
                out.append("\n" if token.hidden or lists else "\n\n")
            case "inline":
                said = _inline(token.children or ())
                if cells:
                    cells.append(said)
                else:
                    out.append(said)
            case "fence" | "code_block":
                language = token.info.split()[0] if token.info.strip() else ""
                code = escape(token.content.rstrip("\n"))
                out.append(
                    f'<pre><code class="language-{escape(language)}">{code}</code></pre>\n\n'
                    if language
                    else f"<pre>{code}</pre>\n\n"
                )
            case "blockquote_open" | "blockquote_close":
                if token.type.endswith("close"):
                    out[-1] = out[-1].rstrip("\n")
                # Telegram nests no quotes.
                if token.level == 0:
                    out.append("<blockquote>" if token.nesting > 0 else "</blockquote>\n\n")
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                lists.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
                if not lists:
                    out.append("\n")
            case "list_item_open":
                number = lists[-1]
                out.append("  " * (len(lists) - 1) + ("• " if number is None else f"{number}. "))
                if number is not None:
                    lists[-1] = number + 1
            case "hr":
                out.append("———\n\n")
            case "tr_open":
                cells = [""]
            case "tr_close":
                out.append(" | ".join(cells[1:]) + "\n")
                cells = []
            case "table_close":
                out.append("\n")
            case _:
                pass
    return "".join(out)


def _inline(tokens: Sequence[Token]) -> str:
    special: Mapping[str, Callable[[Token], str]] = {
        "text": lambda t: escape(t.content, quote=False),
        "code_inline": lambda t: f"<code>{escape(t.content, quote=False)}</code>",
        "link_open": lambda t: f'<a href="{escape(_text(t.attrGet("href")))}">',
        "image": lambda t: escape(t.content or _text(t.attrGet("src")), quote=False),
    }
    return "".join(special[t.type](t) if t.type in special else _INLINE.get(t.type, "") for t in tokens)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
