"""International host names: shown as they are resolved, mixed scripts marked (UTS 39)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard import Executor, builtin, tool
from pegboard.core.hosts import host_note, shown_host
from pegboard.core.schema.annotations import Url


@pytest.mark.parametrize(
    ("host", "ascii"),
    [
        ("apple.com", "apple.com"),
        ("\u0430pple.com", "xn--pple-43d.com"),
        ("b\u00fccher.example:8443", "xn--bcher-kva.example:8443"),
        ("B\u00dcCHER.example", "xn--bcher-kva.example"),
        ("\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444", "xn--e1afmkfd.xn--p1ai"),
    ],
)
def test_the_name_that_is_resolved(host: str, ascii: str) -> None:
    assert shown_host(host) == ascii


@pytest.mark.parametrize(
    ("host", "mixes"),
    [
        ("xn--pple-43d.com", "mixes Cyrillic and Latin letters"),
        ("xn--bcher-kva.example", ""),
        ("xn--e1afmkfd.xn--p1ai", ""),
        ("apple.com", ""),
    ],
)
def test_mixed_scripts_are_marked(host: str, mixes: str) -> None:
    assert mixes in host_note(host) and bool(mixes) == ("mixes" in host_note(host))


@tool
def fetch(url: Url) -> str:
    """Fetch a page."""
    return url


async def test_every_way_to_a_host_names_it_as_it_is_resolved(tmp_path: Path) -> None:
    host = "\u0430pple.com"
    calls = [
        ("fetch", {"url": f"https://{host}/x"}),
        ("exec", {"command": f"curl https://{host}/x"}),
        ("exec", {"command": "true", "hosts": [host]}),
    ]
    async with Executor([fetch, *builtin("exec")], workspace=tmp_path) as executor:
        for name, arguments in calls:
            preview = await executor.preview(name, arguments)
            reached = [e.target for e in preview.effects if e.kind == "connect"]
            assert reached == ["xn--pple-43d.com"]
