"""Resources: the workspace's files and a client's artifacts, as addresses that a client can read."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pegboard.core.errors import NotFound
from pegboard.mcp.prompts import Resources
from pegboard.ports.artifacts import Version

_TYPES: Final = {"markdown": "text/markdown", "html": "text/html", "json": "application/json"}


class WorkspaceResources:
    """The workspace's files as `workspace:///PATH`, read through the Files port.

    Args:
        read: reads one file's text by workspace path; raises ToolError as the port does.
        names: lists workspace paths, at most PAGE times some.
        mark: one file's Resources.mark by workspace path; raises as `read` does.
    """

    def __init__(
        self, read: Callable[[str], Any], names: Callable[[], Any], mark: Callable[[str], Any]
    ) -> None:
        self._read = read
        self._names = names
        self._mark = mark

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return [
            {
                "uri": f"workspace:///{quote(path)}",
                "name": path,
                "mimeType": mimetypes.guess_type(path)[0] or "text/plain",
            }
            for path in await self._names()
        ]

    async def templates(self) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return [
            {
                "uriTemplate": "workspace:///{path}",
                "name": "workspace file",
                "description": "A file by its path.",
            }
        ]

    async def read(self, uri: str) -> Sequence[Mapping[str, Any]]:
        """See Resources. Only workspace addresses, and only below the workspace."""
        path = workspace_path(uri)
        text = await self._read(path)
        return [{"uri": uri, "mimeType": mimetypes.guess_type(path)[0] or "text/plain", "text": text}]

    async def etag(self, uri: str) -> Hashable:
        """See Resources."""
        return cast("Hashable", await self._mark(workspace_path(uri)))


class Readable(Protocol):
    """What is read of the Artifacts port."""

    async def list(self) -> Sequence[Version]:
        """See Artifacts."""
        ...

    async def read(self, id: str, version: int | None = None) -> Version:
        """See Artifacts."""
        ...


class ArtifactResources:
    """Artifacts as `artifact:///ID`, an older version as `artifact:///ID?version=N`.

    Args:
        artifacts: those of the calling client's own session.
        redact: what takes secrets out of a text.
    """

    def __init__(self, artifacts: Readable, redact: Callable[[str], str]) -> None:
        self._artifacts = artifacts
        self._redact = redact

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return [
            {
                "uri": f"artifact:///{quote(one.id)}",
                "name": one.id,
                "title": one.title,
                "mimeType": _media_type(one),
            }
            for one in await self._artifacts.list()
        ]

    async def templates(self) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return [
            {
                "uriTemplate": "artifact:///{id}{?version}",
                "name": "artifact",
                "description": "An artifact by its id, its newest version unless one is named.",
            }
        ]

    async def read(self, uri: str) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        found = await self._found(uri)
        if found.data is not None:
            blob = base64.b64encode(found.data).decode("ascii")
            return [{"uri": uri, "mimeType": _media_type(found), "blob": blob}]
        return [{"uri": uri, "mimeType": _media_type(found), "text": self._redact(found.content)}]

    async def etag(self, uri: str) -> Hashable:
        """See Resources."""
        return (await self._found(uri)).version

    async def _found(self, uri: str) -> Version:
        parts = urlsplit(uri)
        version = parse_qs(parts.query).get("version", [""])[0]
        if parts.scheme != "artifact" or parts.netloc or (version and not version.isdecimal()):
            raise _unknown(uri)
        return await self._artifacts.read(unquote(parts.path).lstrip("/"), int(version) if version else None)


class SchemeResources:
    """Several kinds of resources, told apart by the scheme of their addresses."""

    def __init__(self, kinds: Mapping[str, Resources]) -> None:
        self._kinds = dict(kinds)

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return [row for kind in self._kinds.values() for row in await kind.list()]

    async def templates(self) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return [row for kind in self._kinds.values() for row in await kind.templates()]

    async def read(self, uri: str) -> Sequence[Mapping[str, Any]]:
        """See Resources."""
        return await self._kind(uri).read(uri)

    async def etag(self, uri: str) -> Hashable:
        """See Resources."""
        return await self._kind(uri).etag(uri)

    def _kind(self, uri: str) -> Resources:
        kind = self._kinds.get(uri.partition(":")[0])
        if kind is None:
            raise _unknown(uri)
        return kind


def _media_type(version: Version) -> str:
    """The media type of an artifact, whose own type may be a plain word."""
    if version.data is not None:
        return version.content_type
    return _TYPES.get(version.content_type, "text/plain")


def workspace_path(uri: str) -> str:
    """The relative path of a workspace address.

    Raises:
        NotFound: another scheme or host, or a path that climbs; nothing says whether such a file exists.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path).lstrip("/")
    steps = path.replace("\\", "/").split("/")
    if parts.scheme != "workspace" or parts.netloc or not path or ".." in steps or "\0" in path:
        raise _unknown(uri)
    return path


def _unknown(uri: str) -> NotFound:
    return NotFound(f"there is no resource {uri[:200]!r}", hint="Take an address from resources/list.")
