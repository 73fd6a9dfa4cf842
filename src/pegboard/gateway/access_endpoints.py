"""Endpoints for tokens and pairing: who may use the gateway, and how a new device gets its token."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.errors import ConfigError, NotFound
from pegboard.gateway.access import caller
from pegboard.gateway.bodies import Body, read_body
from pegboard.gateway.errors import Json
from pegboard.gateway.openapi import Endpoint
from pegboard.services.pairing import CODE_S
from pegboard.services.principals import ROLES, Token, Tokens

DEVICE: Final = "device"
"""The kind of a pairing that is claimed as a token."""
Role = Literal["owner", "operator", "user", "viewer"]


class NewToken(Body):
    """A token for somebody."""

    name: Annotated[str, Field(min_length=1, max_length=40)]
    role: Role = "user"


class NewPairing(Body):
    """A device asks to be let in; `name` is what it calls itself."""

    name: Annotated[str, Field(min_length=1, max_length=100)]


class PairingAnswer(Body):
    """The owner's answer to a code, and what the device may do then."""

    decision: Literal["approve", "refuse"]
    role: Role = "user"


class PairingClaim(Body):
    """The secret that the device was given with its code."""

    secret: Annotated[str, Field(min_length=1, max_length=100)]


class AccessEndpoints:
    """Endpoints under `/api/me`, `/api/tokens`, `/api/pairings` and `/api/pairing`.

    Args:
        app: whose pairings they are.
        tokens: those that the gateway reads.
    """

    def __init__(self, app: App, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E = Endpoint
        return [
            E(method="GET", path="/api/me", handler=self.me),
            E(method="GET", path="/api/tokens", handler=self.list_tokens),
            E(method="POST", path="/api/tokens", handler=self.add_token, body=NewToken),
            E(method="DELETE", path="/api/tokens/{name}", handler=self.revoke_token),
            E(method="GET", path="/api/pairings", handler=self.list_pairings),
            E(method="POST", path="/api/pairings/{code}", handler=self.answer_pairing, body=PairingAnswer),
            E(method="DELETE", path="/api/pairings/{kind}/{who}", handler=self.revoke_pairing),
            E(method="POST", path="/api/pairing", handler=self.ask_pairing, body=NewPairing, public=True),
            E(method="POST", path="/api/pairing/token", handler=self.claim_token, body=PairingClaim, public=True),
        ]  # fmt: skip

    async def me(self, request: Request) -> Any:
        """Who sends this request, and what it may do."""
        who = caller(request)
        return {"name": who.name, "role": who.role, "scopes": sorted(ROLES[who.role])}

    # -- tokens -------------------------------------------------------------------------------------

    async def list_tokens(self, request: Request) -> Any:
        """The tokens that were given out, without the tokens themselves."""
        return {"tokens": [token_to_dict(t) for t in await self._tokens.list()]}

    async def add_token(self, request: Request) -> Any:
        """A new token; it is shown this once."""
        body = await read_body(request, NewToken)
        token = await self._tokens.add(body.name, body.role, by=caller(request).name)
        return Json({"name": body.name, "role": body.role, "token": token}, 201)

    async def revoke_token(self, request: Request) -> Any:
        """End a token."""
        name = request.path_params["name"]
        try:
            await self._tokens.revoke(name)
        except ConfigError as error:
            raise NotFound(str(error), hint="See GET /api/tokens.") from None
        return {"name": name, "revoked": True}

    # -- pairing, for the owner ---------------------------------------------------------------------

    async def list_pairings(self, request: Request) -> Any:
        """Who asks to be let in, and which senders and nodes are."""
        pairings = self._app.pairings
        return {
            "pending": [asdict(r) for r in await pairings.pending()],
            "paired": [asdict(p) for p in await pairings.list()],
        }

    async def answer_pairing(self, request: Request) -> Any:
        """Let somebody in, or refuse, by the code that they were shown."""
        body, code = await read_body(request, PairingAnswer), request.path_params["code"]
        if body.decision == "refuse":
            return asdict(await self._app.pairings.refuse(code))
        return asdict(await self._app.pairings.approve(code, role=body.role, by=caller(request).name))

    async def revoke_pairing(self, request: Request) -> Any:
        """Let a sender or node in no more."""
        kind, who = request.path_params["kind"], request.path_params["who"]
        if not await self._app.pairings.revoke(kind, who):
            raise NotFound(f"{kind[:100]} {who[:100]} is not paired", hint="See GET /api/pairings.")
        return {"kind": kind, "who": who, "revoked": True}

    # -- pairing, for a new device ------------------------------------------------------------------

    async def ask_pairing(self, request: Request) -> Any:
        """Ask for a token: the code is shown to the owner, the secret is kept to claim the token with."""
        body = await read_body(request, NewPairing)
        secret = secrets.token_urlsafe(32)
        code = await self._app.pairings.request(DEVICE, _digest(secret), body.name)
        return Json({"code": code, "secret": secret, "expires_s": CODE_S}, 202)

    async def claim_token(self, request: Request) -> Any:
        """The token of a device whose code was approved, once; 202 while nobody has answered."""
        secret = (await read_body(request, PairingClaim)).secret
        who, pairings = _digest(secret), self._app.pairings
        paired = await pairings.get(DEVICE, who)
        if paired is None:
            if any(r.who == who for r in await pairings.pending()):
                return Json({"status": "waiting"}, 202)
            raise NotFound("the code was refused, has expired or is claimed", hint="Ask for a new one.")
        if not await pairings.revoke(DEVICE, who):
            raise HTTPException(409, "the token is claimed")
        # A name alone would give a device whatever an earlier one of that name has left.
        slug = re.sub(r"[^a-z0-9]+", "-", paired.name.lower())[:24].strip("-") or DEVICE
        name = f"{slug}-{who[:8]}"
        token = await self._tokens.add(name, paired.role, by=paired.by)
        return Json({"name": name, "role": paired.role, "token": token}, 201)


def token_to_dict(token: Token) -> dict[str, Any]:
    """What is shown of a token."""
    return {"name": token.name, "role": token.role, "created": token.created, "by": token.by}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
