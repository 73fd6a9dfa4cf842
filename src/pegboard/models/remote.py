"""RemoteModel: a model behind a provider's SDK; the SDK is imported on first use, its client made for each loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias

from pegboard.core.errors import ModelError
from pegboard.core.toolkit import Toolkit
from pegboard.models.adaptation import Adaptation
from pegboard.models.conversation import ProviderConversation, RetryTiming, Wire
from pegboard.models.failures import Endpoint
from pegboard.models.streams import watched

Opens: TypeAlias = Callable[[str, Mapping[str, Any] | None], Wire]
"""Makes the requests of one conversation from its instructions and the schema of its answer."""

_MAX_EVENT: Final = 64 << 20
"""Of one event, or of a whole reply without a stream, at most so many bytes are read."""


def sdk(module: str, extra: str) -> Any:
    """The SDK's module; untyped, since the SDKs are optional and differ in how they export.

    Raises:
        ModelError: it is not installed; the hint names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ModelError(f"{module} is not installed", hint=f"pip install 'pegboard[{extra}]'") from error


def client_options(endpoint: Endpoint, timeout_s: float, *, named: bool = True) -> dict[str, Any]:
    """How an SDK's HTTP client is made: bound to one origin, without redirects, its streams looked at.

    A server on this machine is never reached through a proxy; another one by that of the environment, if there is one.

    Args:
        endpoint: where requests go.
        timeout_s: seconds without a byte after which a request has failed.
        named: see `watched`.
    """
    from pegboard.net.transport import GuardedTransport, environment_proxy, reach_only

    return {
        "transport": GuardedTransport(
            reach_only(endpoint.url),
            verify=endpoint.url.startswith("https:"),
            proxy="" if endpoint.is_local else environment_proxy(endpoint.url),
            max_item_bytes=_MAX_EVENT,
        ),
        "follow_redirects": False,
        "trust_env": False,
        "timeout": timeout_s,
        "event_hooks": watched(endpoint, named=named),
    }


class LoopClient:
    """An SDK's client for the running event loop.

    A model outlives a loop where each run has its own (`run_sync`); connections do not. So a
    client is made anew when another loop runs, and the one of the dead loop is forgotten.

    Args:
        make: makes a client.
        close: closes one.
    """

    def __init__(self, make: Callable[[], Any], close: Callable[[Any], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._made: tuple[asyncio.AbstractEventLoop, Any] | None = None

    def get(self) -> Any:
        """The client of the running loop; raises what `make` raises."""
        loop = asyncio.get_running_loop()
        if self._made is None or self._made[0] is not loop:
            self._made = (loop, self._make())
        return self._made[1]

    async def aclose(self) -> None:
        """Close the running loop's client, where there is one."""
        made, self._made = self._made, None
        if made is not None and made[0] is asyncio.get_running_loop():
            await self._close(made[1])


async def close_client(client: Any) -> None:
    """Close a client that has an async `close`."""
    await client.close()


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
        self._adaptation = Adaptation(endpoint.host)

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
        wire = self._opens(instructions, output_schema)
        return ProviderConversation(wire, tools, self._waiting, self._adaptation)

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
