"""Webhooks that come in: `POST /api/webhooks/NAME`, signed as in Standard Webhooks 1.0, starts a run or tells a session.

See https://www.standardwebhooks.com. The signature says who sent it, not that a person wrote it: the text is untrusted
content for the run, and no address in it counts as named by the user.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pegboard.app.app import App
from pegboard.bus.webhook import is_signed
from pegboard.config.environment import environment
from pegboard.config.gateway import WebhookSettings
from pegboard.config.secrets import read_source
from pegboard.core.errors import ConfigError, NotFound
from pegboard.core.policy.taint import UNTRUSTED
from pegboard.gateway.bodies import read_raw
from pegboard.gateway.errors import Json
from pegboard.gateway.openapi import Endpoint
from pegboard.ports.messages import InboundMessage
from pegboard.services.sessions import element
from pegboard.store.inbox import Inbox

SOURCE: Final = "webhook"
"""Who wrote what comes in, and the channel of the sessions that it starts."""
_LONGEST_ID: Final = 200
MAX_BYTES: Final = 256 * 1024
"""Of one message: it becomes text that a model reads."""


class WebhookEndpoints:
    """The endpoint.

    Args:
        app: whose settings name the webhooks, and whose sessions are told.
        now: seconds since the epoch; decides what is too old.
    """

    def __init__(self, app: App, now: Callable[[], float]) -> None:
        self._app = app
        self._now = now

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of it."""
        return [Endpoint(method="POST", path="/api/webhooks/{name}", handler=self.receive, public=True)]

    async def receive(self, request: Request) -> Any:
        """Take a signed message; the same id a second time is the same message."""
        hook = self._app.config.gateway.webhook(request.path_params["name"])
        if hook is None:
            raise NotFound("no webhook of this name", hint="See [gateway.webhooks] in the settings.")
        id = request.headers.get("webhook-id", "")
        raw = await read_raw(request, most=MAX_BYTES)
        try:
            secret = read_source(f"webhook {hook.name!r}", hook.secret, environment())
        except ConfigError as error:
            # Whoever sends it can do nothing about that.
            self._app.on_warning(f"a message of webhook {hook.name} was refused: {error}")
            raise HTTPException(503, "the webhook is not set up") from None
        if (
            not 0 < len(id) <= _LONGEST_ID
            or not id.isprintable()
            or not is_signed(
                raw, id, request.headers.get("webhook-timestamp", ""),
                request.headers.get("webhook-signature", ""), secret, now=self._now(),
            )
        ):  # fmt: skip
            raise HTTPException(401, "the signature does not fit, or the message is older than 5 minutes")
        message = _message(hook, id, raw.decode("utf-8", "replace"), workspace=str(self._app.workspace))
        await Inbox(self._app.store).add(message)
        return Json({"id": id, "session": message.session}, 202)


def _message(hook: WebhookSettings, id: str, text: str, *, workspace: str) -> InboundMessage:
    digest = hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:24]
    told = hook.prompt or "This came in over a webhook. Do what it calls for, within your instructions."
    return InboundMessage(
        session=hook.session or f"{SOURCE}:{hook.name}:{digest}", id=f"{SOURCE}:{hook.name}:{digest}",
        content=f"{told}\n\n{element(SOURCE, text, name=hook.name)}", by=SOURCE, channel=SOURCE,
        sender_id=hook.name, labels=(f"{UNTRUSTED}:{SOURCE}",), workspace=workspace,
        metadata={"model": hook.model} if hook.model else {},
    )  # fmt: skip
