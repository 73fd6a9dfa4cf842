"""Markdown as Telegram takes it: the tags of its HTML style alone, everything else escaped."""

from __future__ import annotations

import pytest

from pegboard.bus.split import split
from pegboard.bus.telegram_text import html_length, to_html


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("a **b** _c_ ~~d~~", "a <b>b</b> <i>c</i> <s>d</s>"),
        ("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2"),
        ("<b>not ours</b>", "&lt;b&gt;not ours&lt;/b&gt;"),
        ("`a<b`", "<code>a&lt;b</code>"),
        ("```py\nx = '<'\n```", '<pre><code class="language-py">x = &#x27;&lt;&#x27;</code></pre>'),
        ("[a](https://x.example/?a=1&b=2)", '<a href="https://x.example/?a=1&amp;b=2">a</a>'),
        ("# Title\n\ntext", "<b>Title</b>\n\ntext"),
        ("- a\n- b\n  - c", "• a\n• b\n  • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("> a\n> > b", "<blockquote>a\n\nb</blockquote>"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a | b\n1 | 2"),
        ("a\nb", "a\nb"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
    ],
)
def test_markdown_becomes_the_tags_that_telegram_has(markdown: str, html: str) -> None:
    assert to_html(markdown) == html


def test_parts_are_within_the_limit_after_escaping() -> None:
    parts = split("<&" * 4000, 4096, length=html_length)

    assert all(len(to_html(part)) <= 4096 for part in parts)
    assert "".join(parts) == "<&" * 4000
