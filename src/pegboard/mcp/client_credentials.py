"""Own login: the client authorises itself by a secret or a key, without a person (client credentials, SEP-1046)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)

from pegboard.mcp.auth import Authorisation
from pegboard.mcp.http import refuse_clear_credentials


class BySecret(Authorisation, ClientCredentialsOAuthProvider):
    """By a client secret."""

    page = False


class ByKey(Authorisation, PrivateKeyJWTOAuthProvider):
    """By an assertion that a private key signs (RFC 7523 §2.2)."""

    page = False


def own_auth(url: str, tokens: Any, oauth: Mapping[str, str]) -> OAuthClientProvider:
    """Authorisation of the client itself.

    Args:
        url: the server's address; tokens are asked for it alone.
        tokens: a TokenStorage.
        oauth: `client_id` and `issuer`; `client_secret`, or `private_key` (PEM) with its `algorithm`; `scope`. Secret
            and assertions go to that issuer only, whatever the server names.

    Raises:
        ConfigError: the issuer would be spoken to in the clear.
    """
    client, issuer = oauth["client_id"], oauth["issuer"]
    refuse_clear_credentials(issuer, {}, has_auth=True)
    made: BySecret | ByKey
    if "client_secret" in oauth:
        made = BySecret(url, tokens, client, oauth["client_secret"], issuer=issuer)
    else:
        algorithm = oauth.get("algorithm", "RS256")
        signed = SignedJWTParameters(
            issuer=client, subject=client, signing_key=oauth["private_key"], signing_algorithm=algorithm
        )
        made = ByKey(url, tokens, client, signed.create_assertion_provider(), issuer=issuer)
    made.wanted = oauth.get("scope", "")
    return made
