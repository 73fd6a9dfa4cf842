"""Stored artifacts: every write is a new version, nothing is ever overwritten."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

from pegboard.artifacts.replace import replace_once
from pegboard.core.context import current_context
from pegboard.core.errors import Conflict, InvalidArguments, NotFound, TooLarge, Unsupported
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.artifacts import ArtifactMatch, UpdateResult, UpdateType, Version
from pegboard.ports.store import Put, Row, Store
from pegboard.textedit.diff import unified

HEADS: Final = "artifacts"
VERSIONS: Final = "artifact_versions"
MAX_BYTES: Final = 4 * 1024 * 1024
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_MAX_LINE: Final = 500


def _session() -> str:
    return current_context().session


class StoredArtifacts:
    """Artifacts in a Store.

    Nothing is cached. Of two writes at once, from whichever process, one becomes the next version, and the other is
    made again on top of it.

    Args:
        store: where they are kept.
        session: gives the session whose artifacts are meant; default is that of the current call.
        clock: for the time of each version.
        max_bytes: the largest content, UTF-8.
    """

    def __init__(
        self,
        store: Store,
        *,
        session: Callable[[], str] = _session,
        clock: Clock | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock or SystemClock()
        self._max_bytes = max_bytes

    async def create(
        self, id: str, *, title: str, content: str | bytes, content_type: str = "markdown"
    ) -> Version:
        """See Artifacts."""
        if not _ID.match(id):
            raise InvalidArguments(
                f"{id!r} is not a valid artifact ID",
                hint="Use letters, digits, '.', '_' and '-', at most 128.",
            )
        made = (
            None if await self._head(id) else await self._put(id, 0, title, content_type, content, "create")
        )
        if made is None:
            raise Conflict(
                f"Artifact '{id}' already exists",
                hint="Use update_artifact or rewrite_artifact, or another id.",
            )
        return made

    async def read(self, id: str, version: int | None = None) -> Version:
        """See Artifacts."""
        return await self._get(id, version)

    async def update(
        self, id: str, *, old: str, new: str, expected_version: int | None = None
    ) -> UpdateResult:
        """See Artifacts."""
        while True:
            now = await self._expected(id, expected_version)
            if now.data is not None:
                raise Unsupported(
                    f"artifact '{id}' is {now.content_type}, {len(now.data)} bytes, not text",
                    hint="Make a new one, or export it and change the file with a command.",
                )
            done = replace_once(now.content, old, new, id)
            saved = await self._put(id, now.version, now.title, now.content_type, done.text, done.update_type)
            if saved is not None:
                return UpdateResult(version=saved, similarity=done.similarity, matched=done.matched)

    async def rewrite(
        self, id: str, *, content: str | bytes, title: str | None = None, expected_version: int | None = None
    ) -> Version:
        """See Artifacts."""
        while True:
            now = await self._expected(id, expected_version)
            saved = await self._put(id, now.version, title or now.title, now.content_type, content, "rewrite")
            if saved is not None:
                return saved

    async def list(self) -> list[Version]:
        """See Artifacts."""
        prefix = self._prefix()
        heads = await self._store.scan(HEADS, start=prefix, end=f"{prefix}\U0010ffff")
        found = [await self._at(head.key, int(head.value)) for head in heads]
        return sorted(found, key=lambda version: version.id)

    async def grep(
        self, pattern: str, *, id: str | None = None, ignore_case: bool = False, limit: int = 100
    ) -> list[ArtifactMatch]:
        """See Artifacts."""
        wanted = pattern.casefold() if ignore_case else pattern
        if not wanted:
            raise InvalidArguments("the pattern is empty")
        found: list[ArtifactMatch] = []
        for artifact in [await self._get(id, None)] if id is not None else await self.list():
            for number, line in enumerate(artifact.content.split("\n"), 1):
                if wanted in (line.casefold() if ignore_case else line):
                    found.append(ArtifactMatch(id=artifact.id, line=number, text=line[:_MAX_LINE]))
                    if len(found) >= limit:
                        return found
        return found

    async def diff(self, id: str, old: int, new: int) -> str:
        """See Artifacts."""
        one, two = await self._get(id, old), await self._get(id, new)
        return unified(id, one.raw, two.raw)

    def _prefix(self) -> str:
        # Quoted, so that no session key reaches into another's.
        return quote(self._session(), safe="") + "/"

    async def _head(self, id: str) -> Row | None:
        """The row with the number of the newest version, None if there is no such artifact."""
        return await self._store.get(HEADS, self._prefix() + id)

    async def _get(self, id: str, version: int | None) -> Version:
        head = await self._head(id)
        newest = 0 if head is None else int(head.value)
        if not newest:
            raise NotFound(f"Artifact '{id}' not found", hint="list_artifacts shows the existing ones.")
        if version is not None and not 1 <= version <= newest:
            raise NotFound(
                f"Version {version} not found", hint=f"Artifact '{id}' has versions 1 to {newest}."
            )
        return await self._at(self._prefix() + id, version or newest)

    async def _at(self, key: str, version: int) -> Version:
        row = await self._store.get(VERSIONS, f"{key}/{version:08d}")
        if row is None:
            raise NotFound(f"Version {version} not found", hint="It was purged from the store.")
        fields: dict[str, Any] = json.loads(row.value)
        if fields.get("data") is not None:
            fields["data"] = base64.b64decode(fields["data"])
        return Version(**fields)

    async def _expected(self, id: str, version: int | None) -> Version:
        now = await self._get(id, None)
        if version is not None and version != now.version:
            then = await self._get(id, version)
            changed = unified(id, then.raw, now.raw, max_chars=2000)
            raise Conflict(
                f"Artifact '{id}' is at version {now.version}, not {version}; since then:\n{changed}",
                hint="Read it again and repeat the change on the newest version.",
                details={"version": now.version, "expected": version},
            )
        return now

    async def _put(
        self,
        id: str,
        before: int,
        title: str,
        content_type: str,
        content: str | bytes,
        update_type: UpdateType,
    ) -> Version | None:
        """Keep the version after `before`; None if another writer was faster."""
        text, data = (content, None) if isinstance(content, str) else ("", content)
        try:
            size = len(text.encode("utf-8")) if data is None else len(data)
        except UnicodeEncodeError as error:
            raise InvalidArguments(f"the content has an unpaired surrogate at {error.start}") from None
        if size > self._max_bytes:
            raise TooLarge(f"the content is {size} bytes; the limit is {self._max_bytes}")
        made = Version(
            id=id,
            version=before + 1,
            title=title,
            content_type=content_type,
            content=text,
            update_type=update_type,
            created_at=self._clock.now(),
            data=data,
        )
        key = self._prefix() + id
        row = {**asdict(made), "data": None if data is None else base64.b64encode(data).decode("ascii")}
        try:
            # Nothing is overwritten: who finds the next version there already was too late.
            await self._store.put(
                Put(VERSIONS, f"{key}/{made.version:08d}", json.dumps(row).encode("ascii"), expected=0),
                Put(HEADS, key, str(made.version).encode("ascii")),
            )
        except Conflict:
            return None
        _tell(made)
        return made


def _tell(made: Version) -> None:
    """Whoever watches the running call hears of the new version at once."""
    try:
        context = current_context()
    except LookupError:
        return  # a program's own use, outside any call
    facts = {
        "id": made.id, "version": made.version, "title": made.title, "content_type": made.content_type,
        "update_type": made.update_type,
    }  # fmt: skip
    facts |= {"characters": len(made.content)} if made.data is None else {"bytes": len(made.data)}
    context.emit({"artifact": facts})
