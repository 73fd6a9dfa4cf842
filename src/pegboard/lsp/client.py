"""LspConnection: JSON-RPC 2.0 with a language server, a length before each message (LSP 3.17, base protocol)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from pegboard.core.errors import Unavailable

Json: TypeAlias = dict[str, Any]

MAX_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of one message; a server that sends a longer one is given up."""

_MAX_HEADER: Final = 4096
_METHOD_NOT_FOUND: Final = -32601


class LspError(Unavailable):
    """A server answered a request with an error.

    Attributes:
        number: the error's code (LSP 3.17, ErrorCodes).
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class LspConnection:
    """One server's messages, in both directions.

    Args:
        name: of the server, for messages.
        write: gives bytes to its input; False if that is closed.
        answers: what answers its requests, by method; any other gets an error.
        notifications: what takes its notifications, by method; others are left out.

    Attributes:
        fault: why it is of no more use; empty while it is.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[bytes], bool],
        *,
        answers: Mapping[str, Callable[[Json], Any]],
        notifications: Mapping[str, Callable[[Json], None]],
    ) -> None:
        self.fault = ""
        self._name = name
        self._write = write
        self._answers = answers
        self._notifications = notifications
        self._buffer = bytearray()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0

    async def request(self, method: str, params: Json) -> Any:
        """Ask the server; its result.

        Raises:
            LspError: it answered with an error.
            Unavailable: it has ended, or sends what is no LSP.
        """
        self._check()
        self._last_id += 1
        id, answer = self._last_id, asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        try:
            self._send({"id": id, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            if not self.fault:
                self.notify("$/cancelRequest", {"id": id})
            raise
        finally:
            self._waiting.pop(id, None)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Tell the server something; nothing if it has ended."""
        self._send({"method": method, "params": params or {}})

    def close(self, fault: str) -> None:
        """It can no longer be used; each caller that waits is told why."""
        self.fault = self.fault or fault
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._unavailable())
        self._buffer.clear()

    def feed(self, data: bytes) -> None:
        """The next bytes of its output."""
        if self.fault:
            return
        self._buffer += data
        while not self.fault and (body := self._next()) is not None:
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                self.close("it sent a message that is not JSON")
                return
            self._take(cast("Json", message))

    def _next(self) -> bytes | None:
        """The next whole message, taken out of the buffer."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEADER:
                self.close("its output is not LSP")
            return None
        length = -1
        for line in bytes(self._buffer[:end]).split(b"\r\n"):
            key, _, value = line.partition(b":")
            if key.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
        if not 0 <= length <= MAX_MESSAGE:
            self.close("its output is not LSP" if length < 0 else f"it sent a message of {length:,} bytes")
            return None
        start = end + 4
        if len(self._buffer) < start + length:
            return None
        body = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        return body

    def _take(self, message: Json) -> None:
        method, id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._answered(message)
        elif id is None:
            if (take := self._notifications.get(method)) is not None:
                take(params_of(message))
        elif (answer := self._answers.get(method)) is not None:
            self._send({"id": id, "result": answer(params_of(message))})
        else:
            self._send({"id": id, "error": {"code": _METHOD_NOT_FOUND, "message": f"no method {method}"}})

    def _answered(self, message: Json) -> None:
        id: Any = message.get("id")
        answer = self._waiting.get(id) if isinstance(id, int) else None
        if answer is None or answer.done():
            return
        error: Any = message.get("error")
        if isinstance(error, dict):
            said = cast("Json", error)
            number: Any = said.get("code")
            text = " ".join(str(said.get("message") or "no reason given").split())[:300]
            answer.set_exception(LspError(number if isinstance(number, int) else 0, f"{self._name}: {text}"))
        else:
            answer.set_result(message.get("result"))

    def _send(self, message: Json) -> None:
        if self.fault:
            return
        body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
        if not self._write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body)):
            self.close("it has closed its input")

    def _check(self) -> None:
        if self.fault:
            raise self._unavailable()

    def _unavailable(self) -> Unavailable:
        return Unavailable(
            f"the language server {self._name} is not usable: {self.fault}",
            hint="Continue without it; the user can run its command by hand to see what is wrong.",
        )


def params_of(message: Json) -> Json:
    """The parameters of a message; empty if it has none."""
    params: Any = message.get("params")
    return cast("Json", params) if isinstance(params, dict) else {}
