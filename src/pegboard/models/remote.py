"""RemoteModel: what the models behind a provider's SDK have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from pegboard.core.toolkit import Toolkit
from pegboard.models.conversation import ProviderConversation, RetryTiming, Wire
from pegboard.models.failures import Endpoint
from pegboard.models.sdk import LoopClient, close_client

Opens: TypeAlias = Callable[[str, Mapping[str, Any] | None], Wire]
"""Makes the requests of one conversation from its instructions and the schema of its answer."""


class RemoteModel:
    """A model at an endpoint: its names, its client, its conversations. A provider adds its wire.

    Args:
        endpoint: where requests go.
        base_url: as it was given, None = the provider's own.
        make: makes the SDK's client.
        opens: makes the wire of a conversation.
        close: closes the SDK's client.
        options: request fields that every request has.
        waiting: retry policy, clock and sleep.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        base_url: str | None,
        make: Callable[[], Any],
        opens: Opens,
        close: Callable[[Any], Awaitable[None]] = close_client,
        options: Mapping[str, Any] | None = None,
        waiting: RetryTiming | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.options: dict[str, Any] = dict(options or {})
        named = endpoint.model if base_url is None else f"{endpoint.model}@{base_url}"
        self._name = f"{endpoint.provider}:{named}"
        self._opens = opens
        self._client = LoopClient(make, close)
        self._waiting = waiting or RetryTiming()

    @property
    def name(self) -> str:
        """`PROVIDER:NAME`, with `@URL` where it is another server."""
        return self._name

    @property
    def destination(self) -> str:
        """Where the data goes."""
        return self.endpoint.destination

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> ProviderConversation:
        """Open a conversation; no request is made yet."""
        return ProviderConversation(self._opens(instructions, output_schema), tools, self._waiting)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    @property
    def client(self) -> Any:
        """The SDK's client for the running loop, bound to one origin.

        Raises:
            ModelError: the SDK is not installed.
        """
        return self._client.get()
