"""Session: one connection's protocol, both eras, on package `mcp`; results stay raw until we judge them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import x_mcp_header_map
from mcp_types import HEADER_MISMATCH, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.text import sanitise
from pegboard.mcp.inbound import ConnectionClosed
from pegboard.mcp.streamable_http import HttpRefusal

MAX_ROUNDS: Final = 10
"""How often a server may ask for more input before one answer."""


_NOT_SPOKEN: Final = (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION)


class ProtocolSession(ClientSession):
    """The client half of a connection.

    Attributes:
        probe_s: seconds for each answer to a probe; old servers fall silent at what they do not know.
    """

    probe_s: float = 5.0

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Nothing: we check results ourselves, with our own validator and words."""

    async def negotiate(self, protocol: str = "auto", *, patient: bool = False) -> None:
        """Agree on a protocol revision.

        `auto` probes for the stateless era and falls back to the handshake (2025-11-25 and older); a
        handshake revision skips the probe, and a stateless one is insisted on, however slow the server is.

        Args:
            protocol: see ServerConfig.
            patient: a person may have to log in before the probe is answered.

        Raises:
            Unavailable: the server speaks no revision that we know.
            MCPError: it refused.
        """
        try:
            if protocol in MODERN_PROTOCOL_VERSIONS:
                if not await self._probed():
                    raise Unavailable(f"the server does not speak {protocol}")
            elif protocol in HANDSHAKE_PROTOCOL_VERSIONS:
                await self.initialize()
            else:
                await self._probe_or_initialize(None if patient else self.probe_s)
        except RuntimeError as error:
            raise Unavailable(f"no common protocol revision: {error}") from None
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]
            raise Unavailable(
                f"the server's introduction is malformed: {sanitise('; '.join(faults))}"
            ) from None

    async def _probe_or_initialize(self, timeout_s: float | None) -> None:
        """Probe; old servers answer that in any way, or not at all, and are greeted in theirs."""
        fault = ""
        try:
            async with asyncio.timeout(timeout_s):
                if await self._probed():
                    return
        except TimeoutError:
            fault = f"it did not answer within {timeout_s:g} s"
        except ValidationError:
            fault = "its answer is malformed"
        except MCPError as error:
            fault = error.message
        try:
            await self.initialize()
        except MCPError as error:
            if not fault or isinstance(error, ConnectionClosed | HttpRefusal) or error.message == fault:
                raise
            # A server of the stateless era alone refuses the second, so that only the first says what is wrong.
            raise Unavailable(
                f"initialize was refused: {sanitise(error.message)[:300]}; server/discover before it: "
                f"{sanitise(fault)[:300]}",
                retryable=True,
            ) from None

    async def _probed(self) -> bool:
        """Whether the server answered as one of the stateless era; False where it says that it is not one.

        Raises:
            MCPError: it says something else.
            ValidationError: what it says is malformed.
        """
        version = LATEST_MODERN_VERSION
        for _ in range(2):
            try:
                raw = await self.send_discover(version)
            except MCPError as error:
                if isinstance(error, HttpRefusal) or error.code not in _NOT_SPOKEN:
                    raise
                version = _mutual(error)
                if not version:
                    return False
                continue
            result = types.DiscoverResult.model_validate(raw)
            if not any(v in result.supported_versions for v in MODERN_PROTOCOL_VERSIONS):
                return False
            self.adopt(result)
            return True
        return False

    def learn(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Take in listed tools, so that calls carry the headers that their schemas ask for (2026-07-28)."""
        for tool in tools:
            self._x_mcp_header_maps[str(tool.get("name"))] = x_mcp_header_map(tool.get("inputSchema"))

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        *,
        progress: ProgressFnT | None = None,
    ) -> dict[str, Any]:
        """Send a request and answer what the server asks in between; the raw result.

        Raises:
            MCPError: an error answer, or the connection closed.
            ToolError: it asked for input more than MAX_ROUNDS times, or what it asks cannot be read.
        """
        raw = await self._send(method, params, progress)
        for _ in range(MAX_ROUNDS):
            if raw.get("resultType") != "input_required":
                return raw
            answers, state = await self._inputs(raw)
            more: dict[str, Any] = dict(params)
            if answers:
                more["inputResponses"] = answers
            if state is not None:
                more["requestState"] = state
            raw = await self._send(method, more, progress)
        raise ToolError(f"the server asked for input more than {MAX_ROUNDS} times without an answer")

    async def _inputs(self, raw: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        try:
            wanted = types.InputRequiredResult.model_validate(raw, by_name=False)
        except ValidationError:
            raise ToolError("the server asks for input in a form that cannot be read") from None
        answers: dict[str, Any] = {}
        if not wanted.input_requests:
            await asyncio.sleep(0.05)
        for key, request in (wanted.input_requests or {}).items():
            context = ClientRequestContext(session=self, request_id=key)
            answer = await self.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise MCPError.from_error_data(answer)
            answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        return answers, wanted.request_state

    async def _send(
        self, method: str, params: dict[str, Any], progress: ProgressFnT | None
    ) -> dict[str, Any]:
        try:
            return await self._send_once(method, params, progress)
        except MCPError as error:
            if error.code != HEADER_MISMATCH or method != "tools/call":
                raise
        # The server's schema of the tool has changed since we listed it: list again, send once more.
        listed = await self._send_once("tools/list", {}, None)
        self.learn(cast("list[Mapping[str, Any]]", listed.get("tools") or []))
        return await self._send_once(method, params, progress)

    async def _send_once(
        self, method: str, params: dict[str, Any], progress: ProgressFnT | None
    ) -> dict[str, Any]:
        data: dict[str, Any] = {"method": method, "params": dict(params)}
        options: CallOptions = {}
        self._stamp(data, options)
        if progress is not None:
            options["on_progress"] = progress
        sent = cast("Mapping[str, Any]", data["params"])
        return await self._dispatcher.send_raw_request(method, sent, options)


def _mutual(error: MCPError) -> str:
    """The newest stateless revision that a refusal names and we speak; empty where there is none."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return ""
    data: Any = error.error.data
    supported: Any = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    if not isinstance(supported, list):
        return ""
    return next((v for v in reversed(MODERN_PROTOCOL_VERSIONS) if v in cast("list[Any]", supported)), "")
