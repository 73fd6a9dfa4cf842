"""Pairings: senders and devices that the owner let in, each by a short code that it was shown.

Whoever wants in asks for a code and shows it to the owner, who approves it where they are trusted already: at the
terminal, or in a chat or console of their own. The code itself opens nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pegboard.core.errors import ConfigError, InvalidArguments, NotFound, Unavailable
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.store import Conflict, Put, Store
from pegboard.services.principals import ROLES
from pegboard.store.table import Table

CODE_CHARACTERS: Final = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without 0 and O, 1, I and L, which look alike."""
CODE_LENGTH: Final = 8
CODE_S: Final = 600.0
"""Seconds for which a code can be approved."""
MAX_PENDING: Final = 3
"""Requests of one kind that wait at once."""
MAX_WRONG: Final = 10
"""Wrong codes within `CODE_S`, after which none is looked up."""
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingRequest:
    """Somebody who asked and whom nobody has answered.

    Attributes:
        code: what the owner approves.
        kind: the channel of a chat's sender, or `device`, `node`.
        who: its id within the kind, as the platform or the device proves it.
        name: what it calls itself; not proved by anything.
        at: seconds since the epoch.
    """

    code: str
    kind: str
    who: str
    name: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Somebody who was let in.

    Attributes:
        kind, who, name: see PairingRequest.
        by: who approved it.
        at: seconds since the epoch.
        role: what it may do, as `pegboard.services.principals` names it.
    """

    kind: str
    who: str
    name: str = ""
    by: str = ""
    at: float = 0.0
    role: str = "user"


class Pairings:
    """The pairings of a store, and the requests for more.

    Args:
        store: gives the store.
        clock: says what has expired.
    """

    def __init__(self, store: Callable[[], Store], *, clock: Clock | None = None) -> None:
        self._store = store
        self._now = (clock or SystemClock()).now

    # -- asking -------------------------------------------------------------------------------------

    async def request(self, kind: str, who: str, name: str = "") -> str:
        """The code that the owner has to approve; the same one while it can be used.

        Args:
            kind, who, name: see PairingRequest. Each at most 200 characters; longer names are cut.

        Raises:
            InvalidArguments: kind or who is empty or too long.
            Unavailable: `MAX_PENDING` others of this kind wait.
        """
        for what, text in (("kind", kind), ("who", who)):
            if not text or len(text) > _LONGEST or "\x1f" in text:
                raise InvalidArguments(f"{what} is {text[:40]!r}; expected 1 to {_LONGEST} characters")
        now = self._now()
        # Codes are unique among all kinds: the owner names none.
        taken = {r.code for r in await self.pending()}
        code = next(c for c in iter(_new_code, "") if c not in taken)
        new = PairingRequest(code=code, kind=kind, who=who, name=name[:_LONGEST], at=now)

        def with_it(waiting: tuple[PairingRequest, ...] | None) -> tuple[PairingRequest, ...]:
            live = _live(waiting, now)
            if any(r.who == who for r in live):
                return live
            if len(live) >= MAX_PENDING:
                raise Unavailable(
                    f"{MAX_PENDING} requests of {kind} wait for the owner",
                    hint="Try again in 10 minutes, or ask the owner to answer those that wait.",
                    code="too_busy", retryable=True,
                )  # fmt: skip
            return (*live, new)

        waiting = await self._requests.change(kind, with_it)
        return next(r.code for r in waiting or () if r.who == who)

    async def pending(self) -> list[PairingRequest]:
        """The requests that can be approved, oldest first."""
        now = self._now()
        rows = (await self._requests.scan()).values()
        return sorted((r for row in rows for r in _live(row, now)), key=lambda r: (r.at, r.code))

    # -- answering ----------------------------------------------------------------------------------

    async def approve(self, code: str, *, role: str = "user", by: str = "") -> Pairing:
        """Let in whoever was given the code.

        Args:
            code: in any case; spaces and dashes do not count.
            role: see Pairing.
            by: who says so.

        Raises:
            ConfigError: there is no such role.
            NotFound: no request waits under that code, or it has expired.
            Unavailable: too many wrong codes were tried.
        """
        if role not in ROLES:
            raise ConfigError(f"no role {role[:40]!r}; use {', '.join(ROLES)}")
        found = await self._found(code)
        made = Pairing(kind=found.kind, who=found.who, name=found.name, by=by, at=self._now(), role=role)
        await self._take(found, self._pairings.put_of(_key(found.kind, found.who), made))
        return made

    async def refuse(self, code: str) -> PairingRequest:
        """Drop a request; whoever made it may ask again.

        Raises:
            NotFound, Unavailable: see `approve`.
        """
        found = await self._found(code)
        await self._take(found)
        return found

    # -- who is let in ------------------------------------------------------------------------------

    async def allowed(self, kind: str, who: str) -> bool:
        """Whether somebody was let in."""
        return await self.get(kind, who) is not None

    async def get(self, kind: str, who: str) -> Pairing | None:
        """The pairing of somebody; None if there is none."""
        return await self._pairings.get(_key(kind, who))

    async def revoke(self, kind: str, who: str) -> bool:
        """Let somebody in no more; False if nobody of that id was."""
        return await self._pairings.delete(_key(kind, who))

    async def list(self, kind: str = "") -> list[Pairing]:
        """Who was let in, of one kind or of all, oldest first."""
        rows = await self._pairings.scan(prefix=_key(kind, "") if kind else "")
        return sorted(rows.values(), key=lambda p: (p.at, p.kind, p.who))

    # -- inside -------------------------------------------------------------------------------------

    async def _found(self, code: str) -> PairingRequest:
        meant = code.replace(" ", "").replace("-", "").upper()
        now = self._now()
        if len(_recent(await self._wrong.get("wrong"), now)) >= MAX_WRONG:
            raise Unavailable(
                f"{MAX_WRONG} wrong codes were tried within 10 minutes",
                hint="Wait 10 minutes.", code="too_busy", retryable=True,
            )  # fmt: skip
        for request in await self.pending():
            if secrets.compare_digest(request.code, meant if meant.isascii() else ""):
                return request

        def one_more(times: list[float] | None) -> list[float]:
            return [*_recent(times, now), now][-MAX_WRONG:]

        await self._wrong.change("wrong", one_more)
        raise NotFound(
            f"no request waits under the code {code[:40]!r}; a code is valid for 10 minutes",
            hint="See: pegboard pairing list",
        )

    async def _take(self, request: PairingRequest, *puts: Put) -> None:
        """Drop a request together with what follows from it.

        Raises:
            NotFound: somebody else has answered it.
        """
        while True:
            waiting, version = await self._requests.versioned(request.kind)
            if request not in (waiting or ()):
                raise NotFound(f"the request {request.code} is answered", hint="See: pegboard pairing list")
            left = tuple(r for r in waiting or () if r != request)
            try:
                await self._store().put(self._requests.put_of(request.kind, left, expected=version), *puts)
            except Conflict:
                continue
            return

    @property
    def _requests(self) -> Table[tuple[PairingRequest, ...]]:
        return Table(self._store(), "pairing_requests", lambda rs: [asdict(r) for r in rs], _requests)

    @property
    def _pairings(self) -> Table[Pairing]:
        return Table(self._store(), "pairings", asdict, _pairing)

    @property
    def _wrong(self) -> Table[list[float]]:
        return Table(self._store(), "pairing_failures", list, list)


def _new_code() -> str:
    return "".join(secrets.choice(CODE_CHARACTERS) for _ in range(CODE_LENGTH))


def _key(kind: str, who: str) -> str:
    return f"{kind}\x1f{who}"


def _live(waiting: tuple[PairingRequest, ...] | None, now: float) -> tuple[PairingRequest, ...]:
    return tuple(r for r in waiting or () if now - r.at < CODE_S)


def _recent(times: list[float] | None, now: float) -> list[float]:
    return [at for at in times or () if now - at < CODE_S]


def _requests(value: list[Mapping[str, Any]]) -> tuple[PairingRequest, ...]:
    return tuple(PairingRequest(**row) for row in value)


def _pairing(value: Mapping[str, Any]) -> Pairing:
    return replace(Pairing(kind="", who=""), **value)
