"""The web console: the files that `make console` built, served without a token; all that they show needs one."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BUNDLE: Final = Path(__file__).parent / "console"
"""Where `make console` puts the console."""

PAGES: Final = (
    "chat", "approvals", "runs", "files", "schedules", "policy", "servers", "overview", "settings", "setup", "more",
    "search",
)  # fmt: skip
"""First parts of the paths that the console makes pages of."""

_HEADERS: Final = {
    # No script or style but ours, no other host, and nobody's frame.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_SMALL: Final = 512
"""Bytes below which a file is not worth compressing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    content: bytes
    packed: bytes
    media: str
    etag: str
    cache: str


class Console:
    """Serves the console's files from memory.

    Args:
        folder: the bundle; the console is missing where it has no `index.html`.
    """

    def __init__(self, folder: Path = BUNDLE) -> None:
        self._files = {
            f"/{path.relative_to(folder).as_posix()}": _read(path, hashed=path.parent.name == "assets")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }

    @property
    def built(self) -> bool:
        """Whether there is a console to serve."""
        return "/index.html" in self._files

    @property
    def public(self) -> list[str]:
        """The paths that need no token, as RequestGuard takes them."""
        if not self.built:
            return []
        pages = [path for page in PAGES for path in (f"/{page}", f"/{page}/**")]
        return [*pages, *self._files]

    @property
    def routes(self) -> list[Route]:
        """Its routes, but for `/`."""
        if not self.built:
            return []
        pages = [path for page in PAGES for path in (f"/{page}", f"/{page}/{{rest:path}}")]
        return [
            *(Route(path, self.page) for path in pages),
            *(Route(path, self._handler(path)) for path in self._files),
        ]

    async def page(self, request: Request) -> Response:
        """The page that makes all others."""
        return self._respond(request, "/index.html")

    def _handler(self, path: str) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            return self._respond(request, path)

        return answer

    def _respond(self, request: Request, path: str) -> Response:
        file = self._files[path]
        headers = {**_HEADERS, "Cache-Control": file.cache, "ETag": file.etag}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        content = file.content
        if file.packed and "gzip" in request.headers.get("accept-encoding", ""):
            content = file.packed
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers={**headers, "Content-Type": file.media})


def _read(path: Path, *, hashed: bool) -> _File:
    content = path.read_bytes()
    media = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return _File(
        content=content,
        packed=gzip.compress(content, mtime=0) if len(content) > _SMALL else b"",
        media=f"{media}; charset=utf-8" if media == "text/html" else media,
        etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        # The name of a hashed file changes with its content.
        cache="public, max-age=31536000, immutable" if hashed else "no-cache",
    )
