"""Discovery: the documents that say where a server's logins are; a broken one is no missing one (RFC 8414, RFC 9728).

Package `mcp` passes over what it cannot read, and goes on to default places at the server's own address. The
specification (2025-03-26, authorization) has those for a server that publishes nothing, and for no other.
"""

from __future__ import annotations

import json
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx2
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from pydantic import BaseModel, ValidationError

from pegboard.core.errors import Unavailable
from pegboard.mcp.text_warnings import sanitise

Kind = Literal["resource", "issuer"]

_WHAT: Final[dict[Kind, tuple[str, type[BaseModel]]]] = {
    "resource": ("the description of who protects the server", ProtectedResourceMetadata),
    "issuer": ("the description of the authorisation server", OAuthMetadata),
}
_TOO_MANY: Final = 429
_PAGE: Final = ("authorization_endpoint",)


def kind_of(request: httpx2.Request) -> Kind | None:
    """Which document a request of a login asks for; None = none."""
    if request.method != "GET":
        return None
    path = request.url.path
    known = "/.well-known/oauth-authorization-server" in path or "/.well-known/openid-configuration" in path
    return "issuer" if known else "resource"


class Discovery:
    """One login's documents: where several places are tried, one that can be read makes up for the others.

    Args:
        page: a person has to be sent to the issuer's page. An issuer that serves programs alone has none (RFC 8414 §2).

    Attributes:
        pageless: the description of such an issuer, which the package does not take.
    """

    def __init__(self, *, page: bool = True) -> None:
        self._page = page
        self.pageless: OAuthMetadata | None = None
        self._faults: dict[Kind, str] = {}
        self._found: set[Kind] = set()

    async def look(self, kind: Kind, response: httpx2.Response) -> None:
        """Take in an answer."""
        what, shape = _WHAT[kind]
        parts = urlsplit(str(response.request.url))
        where = sanitise(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")[:200]
        if response.status_code == _TOO_MANY or response.status_code >= 500:
            self._faults.setdefault(
                kind, f"{what} cannot be had: {where} answers HTTP {response.status_code}"
            )
        if response.status_code != 200:
            return
        body = await response.aread()
        try:
            shape.model_validate_json(body)
        except ValidationError as error:
            if kind == "issuer" and not self._page and [e["loc"] for e in error.errors()] == [_PAGE]:
                row = json.loads(body)
                self.pageless = OAuthMetadata.model_validate({**row, _PAGE[0]: row["token_endpoint"]})
                self._found.add(kind)
                return
            faults = [
                ": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors()[:3]
            ]
            self._faults.setdefault(
                kind, f"{what} at {where} is malformed: {sanitise('; '.join(faults))[:300]}"
            )
        else:
            self._found.add(kind)

    def check(self, kind: Kind) -> None:
        """Refuse to go on by default where there is a document, only a broken one.

        Raises:
            Unavailable: so it is.
        """
        if kind in self._faults and kind not in self._found:
            raise Unavailable(
                f"the login is not tried: {self._faults[kind]}",
                hint="Whoever runs that server has to mend it; a token of your own can stand under headers.",
            )
