"""Pages: the HTML that an MCP server brings along for its tools' results (MCP Apps, SEP-1865, 2026-01-26)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pegboard.core.errors import NotFound, TooLarge, Unsupported

APPS: Final = "io.modelcontextprotocol/ui"
"""The extension that a client declares."""
APP_TYPE: Final = "text/html;profile=mcp-app"
MAX_CHARS: Final = 2 * 1024 * 1024
_ORIGIN: Final = re.compile(r"(?:https?|wss?)://(?:\*\.)?[A-Za-z0-9.-]{1,253}(?::\d{1,5})?\Z")
_PERMISSIONS: Final = ("camera", "microphone", "geolocation", "clipboardWrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as the server gives it.

    Attributes:
        html: the document.
        origins: what it says that it needs, by `connectDomains`, `resourceDomains`, `frameDomains`, `baseUriDomains`.
        permissions: what of the browser it asks for.
        border: whether it wants a border around it; None = as the host likes.
    """

    html: str
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    permissions: tuple[str, ...] = ()
    border: bool | None = None

    def policy(self) -> str:
        """The Content-Security-Policy under which it is shown: a document of no origin that reaches what it declares."""
        resources = " ".join(self.origins.get("resourceDomains", ()))
        inline = f"'unsafe-inline' {resources}".strip()
        embedded = f"data: blob: {resources}".strip()
        return "; ".join(
            (
                "sandbox allow-scripts", "default-src 'none'", f"script-src {inline}", f"style-src {inline}",
                f"img-src {embedded}", f"font-src {embedded}", f"media-src {embedded}",
                f"connect-src {self._named('connectDomains')}", f"frame-src {self._named('frameDomains')}",
                f"base-uri {self._named('baseUriDomains')}", "object-src 'none'", "form-action 'none'",
                "frame-ancestors 'self'",
            )
        )  # fmt: skip

    def _named(self, kind: str) -> str:
        return " ".join(self.origins.get(kind, ())) or "'none'"


def page_of(raw: Mapping[str, Any], uri: str) -> Page:
    """The page in the answer to `resources/read`.

    Raises:
        NotFound: the answer holds no such resource.
        Unsupported: it is not an HTML app.
        TooLarge: it is longer than MAX_CHARS.
    """
    contents: Any = raw.get("contents")
    rows = cast("list[Any]", contents) if isinstance(contents, list) else []
    found = next((_table(row) for row in rows if _table(row).get("uri") == uri), None)
    if found is None:
        raise NotFound(f"the server gave no resource {uri[:200]}")
    kind = str(found.get("mimeType", "")).replace(" ", "").lower()
    html = found.get("text")
    if kind != APP_TYPE or not isinstance(html, str):
        raise Unsupported(f"{uri[:200]} is {kind[:80] or 'of no type'} and not {APP_TYPE} as text")
    if len(html) > MAX_CHARS:
        raise TooLarge(f"{uri[:200]} has {len(html)} characters; pages may have {MAX_CHARS}")
    ui = _table(_table(found.get("_meta")).get("ui"))
    border = ui.get("prefersBorder")
    return Page(
        html=html, origins={kind: _origins(named) for kind, named in _table(ui.get("csp")).items()},
        permissions=tuple(p for p in _PERMISSIONS if p in _table(ui.get("permissions"))),
        border=border if isinstance(border, bool) else None,
    )  # fmt: skip


def _origins(named: Any) -> tuple[str, ...]:
    """Those that are origins: anything else could end the directive that it stands in."""
    rows = cast("list[Any]", named) if isinstance(named, list) else []
    return tuple(one for one in rows if isinstance(one, str) and _ORIGIN.match(one))


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
