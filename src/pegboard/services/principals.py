"""Principals: who uses a gateway, by the token they send, and what each may do and see.

What a session holds belongs to whoever started it: its runs, approvals, artifacts and changes of files. A principal
other than the owner works in sessions of its own, whose keys begin with `gateway:NAME:`, so that no list has to be
kept of what belongs to whom, and no two can share a session.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from pegboard.core.call.call import new_id
from pegboard.core.errors import ConfigError, NotFound, PermissionDenied
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.session_key import GATEWAY as CHANNEL
from pegboard.core.session_key import principal_of
from pegboard.ports.messages import Destination
from pegboard.ports.store import Conflict, Store
from pegboard.store.children import Children
from pegboard.store.table import Table

Scope = Literal["talk", "view", "view-all", "call", "approve", "administer"]

ROLES: Final[Mapping[str, frozenset[Scope]]] = {
    "owner": frozenset({"talk", "view", "view-all", "call", "approve", "administer"}),
    "operator": frozenset({"talk", "view", "call", "approve"}),
    "user": frozenset({"talk", "view"}),
    "viewer": frozenset({"view", "view-all"}),
}
"""What a role may do. `talk`: start runs and answer their questions; `view`: see its own; `view-all`: see
everybody's; `call`: call tools without a run; `approve`: answer approvals of what it sees; `administer`: all else."""

CALLS: Final = "_calls"
"""The last part of the key of the session that records a principal's single calls."""
_SESSIONS: Final = frozenset({"session", "console"})
"""Channels whose chats are sessions."""
FRESH_S: Final = 1.0
"""Seconds for which the tokens that were read hold: a revoked one works no longer than that."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEPTH: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who sends a request.

    Attributes:
        name: as the record shows it.
        role: a key of `ROLES`.
    """

    name: str
    role: str

    def may(self, scope: Scope) -> bool:
        """Whether its role allows that."""
        return scope in ROLES.get(self.role, frozenset())

    @property
    def sees_all(self) -> bool:
        """Whether it sees what others started."""
        return self.may("view-all")

    @property
    def sees(self) -> str:
        """What the keys of the sessions that it sees begin with; empty = all."""
        return "" if self.sees_all else self.prefix

    @property
    def prefix(self) -> str:
        """What the keys of its own sessions begin with; empty for owners, whose keys are any."""
        return "" if self.role == "owner" else f"{CHANNEL}:{self.name}:"

    @property
    def calls(self) -> str:
        """The session that its single calls are recorded in; empty = that of the command line."""
        return f"{self.prefix}{CALLS}" if self.prefix else ""

    def session(self, named: str | None) -> str:
        """The key of a session that it names, or of a fresh one.

        Raises:
            PermissionDenied: the session is not its own.
        """
        if not self.prefix:
            return named or new_id("run-session")
        if named is None:
            return f"{self.prefix}{new_id('run-session')}"
        own = named.removeprefix(self.prefix)
        if not _SESSION.fullmatch(own):
            raise PermissionDenied(
                f"session {named[:100]!r} is not one of yours",
                hint="Use a name of letters, digits, dots and dashes, or leave session out.",
            )
        return f"{self.prefix}{own}"


OWNER: Final = Principal(name="owner", role="owner")
"""Whoever has the token that `pegboard serve` prints, or `PEGBOARD_TOKEN`."""


async def may_see(principal: Principal, session: str, store: Store) -> bool:
    """Whether a principal sees a session: its own, those of its subagents, or all."""
    return principal.sees_all or (await principal_behind(session, store) or None) == principal.name


async def principal_behind(session: str, store: Store) -> str:
    """The name of the principal that a session, or the one that started it as a subagent, belongs to; empty = the owner."""
    children = Children(store)
    for _ in range(_DEPTH):
        if name := principal_of(session):
            return name
        child = await children.by_session(session)
        if child is None:
            return ""
        session = child.parent
    return ""


async def check_recipient(session: str, to: Destination | None, store: Store) -> None:
    """Let a session send to a chat: a session of another principal is none for it.

    Raises:
        NotFound: it is one; that it is there is not told.
    """
    if to is None or to.channel not in _SESSIONS or not (principal := await principal_behind(session, store)):
        return
    if await principal_behind(to.chat_id, store) != principal:
        raise NotFound(f"no session {to.chat_id!r:.100}", hint="sessions_list shows those there are.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token that was given out; the token itself is not kept.

    Attributes:
        name, role: see Principal.
        digest: SHA-256 (hex) of the token.
        created: seconds since the epoch.
        by: who gave it out.
    """

    name: str
    role: str
    digest: str
    created: float = 0.0
    by: str = ""

    @property
    def principal(self) -> Principal:
        """Who has it."""
        return Principal(name=self.name, role=self.role)


class Tokens:
    """The tokens of a store, one for each name.

    Args:
        store: gives the store.
        clock: gives each its time.
        monotonic: seconds; says when to read them again.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._now = (clock or SystemClock()).now
        self._monotonic = monotonic
        self._known: dict[str, Principal] = {}
        self._read_at = float("-inf")

    @property
    def _table(self) -> Table[Token]:
        return Table(self._store(), "tokens", asdict, _token)

    async def add(self, name: str, role: str, *, by: str = "") -> str:
        """A new token, which is shown this once.

        Raises:
            ConfigError: the name has a token or cannot be one, or there is no such role.
        """
        check_name(name)
        if role not in ROLES:
            raise ConfigError(f"no role {role[:40]!r}; use {', '.join(ROLES)}")
        token = f"pgb_{secrets.token_urlsafe(32)}"
        made = Token(name=name, role=role, digest=_digest(token), created=self._now(), by=by)
        try:
            await self._store().put(self._table.put_of(name, made, expected=0))
        except Conflict:
            raise ConfigError(f"{name} has a token; revoke it first, or choose another name") from None
        return token

    async def list(self) -> list[Token]:
        """The tokens, by name."""
        return list((await self._table.scan()).values())

    async def revoke(self, name: str) -> None:
        """End a token; what its sessions hold stays, for the owner and for the next token of that name.

        Raises:
            ConfigError: there is none of that name.
        """
        if not await self._table.delete(name):
            raise ConfigError(f"no token of the name {name[:100]!r}")
        self._read_at = float("-inf")

    async def find(self, token: str) -> Principal | None:
        """Whom a token belongs to; None if it is none."""
        now = self._monotonic()
        if now - self._read_at >= FRESH_S:
            self._known = {one.digest: one.principal for one in await self.list()}
            self._read_at = now
        # A digest tells nothing of the others, however long the look-up takes.
        return self._known.get(_digest(token))


def check_name(name: str) -> str:
    """A name that a principal can have, unchanged.

    Raises:
        ConfigError: it cannot.
    """
    if not _NAME.fullmatch(name) or name == OWNER.name:
        raise ConfigError(
            f"{name[:100]!r} cannot be the name of a token: use small letters, digits, dots and dashes, "
            f"at most 40 of them, and not {OWNER.name}"
        )
    return name


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _token(value: Mapping[str, Any]) -> Token:
    return Token(**value)
