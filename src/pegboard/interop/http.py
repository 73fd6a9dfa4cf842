"""HTTP calls of tools: a request is built from a template and valid arguments, sent, and its answer read."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.client import responses
from secrets import token_hex
from typing import Any, Final, Literal, Protocol, cast
from urllib.parse import quote, unquote, urlsplit

from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.effects import Effect
from pegboard.core.errors import BuildError, InvalidArguments, ToolError, Unavailable
from pegboard.core.hosts import ascii_host
from pegboard.core.result import Notes, ToolResult
from pegboard.core.secrets.clip import clip
from pegboard.net.client import HttpClient, HttpReply


class BoundSecrets(Protocol):
    """Secrets that know where they may go."""

    def for_host(self, host: str) -> Callable[[str], str]:
        """Name → value, for requests to one host."""
        ...


Secrets = Callable[[str], str] | Mapping[str, str] | BoundSecrets
BodyKind = Literal["json", "form", "text", "multipart", "bytes", "none"]

MAX_BYTES: Final = 5_000_000
"""Bytes of an answer that are read."""

_SECRET: Final = re.compile(r"secret://([A-Za-z0-9_.-]+)")
_FORBIDDEN: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a multipart body; a file where it has a filename."""

    name: str
    data: bytes
    filename: str = ""
    mime: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        method, url: the URL has its path filled in already.
        query: pairs in order.
        headers: as they are sent.
        body, kind: what is sent and as what; Parts for multipart.
        mime: its media type where the kind leaves it open.
        secrets: those that stand in it, name → value; the answer is shown without them.
    """

    method: str
    url: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    kind: BodyKind = "none"
    mime: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])


class SecretTemplate:
    """Puts secrets in the place of `secret://name`, in texts that the operator wrote and in no others.

    Attributes:
        used: the secrets that were asked for.
    """

    def __init__(self, secrets: Secrets, host: str = "") -> None:
        at: Any = getattr(secrets, "for_host", None)
        self._secrets: Any = secrets if at is None else at(host)
        self.used: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """The text with its secrets.

        Raises:
            Unavailable: one is not set.
        """
        return _SECRET.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        given = self._secrets
        found = cast("str | None", given(name) if callable(given) else given.get(name))
        if not found:
            raise Unavailable(f"the secret {name!r} is not set", hint="Set it, then call again.")
        self.used[name] = found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends requests to one origin.

    Attributes:
        url: its address. The owner named it, so it is reached wherever it is.
        secrets: name → value, asked at each call; a value goes only to this sender's own origin.
        timeout_s: seconds for a whole request.
        client: sends them.
    """

    url: str
    secrets: Secrets = field(default_factory=dict[str, str])
    timeout_s: float = 30.0
    client: HttpClient = field(default_factory=HttpClient)

    async def send(self, request: HttpRequest) -> ToolResult:
        """The answer as a result; redirects are not followed, since they may lead to another host.

        Raises:
            ToolError: an error status, with what the server said.
            TimedOut: the answer was not complete in time.
            TooLarge: the answer is over MAX_BYTES.
            Unavailable: the server cannot be reached.
            InvalidArguments: the arguments make no address that can be sent.
        """
        headers = dict(request.headers)
        content = _content(request, headers)
        userinfo = urlsplit(request.url).netloc.rpartition("@")[0]
        if userinfo and "authorization" not in {k.lower() for k in headers}:
            headers["Authorization"] = f"Basic {base64.b64encode(unquote(userinfo).encode()).decode()}"
        try:
            reply = await self.client.opening(self.url).request(
                request.method, request.url, params=request.query or None, headers=headers, content=content,
                timeout_s=self.timeout_s, max_bytes=MAX_BYTES, follow=False,
            )  # fmt: skip
        except ToolError as error:
            message = _hidden(error.message, request.secrets)
            raise type(error)(message, hint=error.hint, retryable=error.retryable) from None
        return _result(reply, request.secrets)

    def filling(self, url: str) -> SecretTemplate:
        """Fills the secrets of one request to the host of `url`."""
        return SecretTemplate(self.secrets, _host(url).lower())


def effects_of(url: str) -> tuple[Effect, ...]:
    """`connect host` of a URL, with its port where it names one.

    Raises:
        BuildError: no http or https URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BuildError(f"{url!r} is not an http or https URL")
    name, colon, port = parts.netloc.rpartition("@")[2].partition(":")
    try:
        return (Effect("connect", f"{ascii_host(name)}{colon}{port}"),)
    except ValueError as error:
        raise BuildError(f"{url!r}: {error}") from None


def fill_path(template: str, values: Mapping[str, Any], *, ready: bool = False) -> str:
    """`/users/{id}` with its values; a value stays one path segment.

    Args:
        template, values: what is filled with what.
        ready: the values are quoted already.

    Raises:
        InvalidArguments: a value that is empty, `.` or `..`, which would be another path.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        text = scalar(values.get(name, ""))
        if text in ("", ".", ".."):
            raise InvalidArguments(f".{name}: {text!r} is not allowed in a path", hint="Give another value.")
        return text if ready else quote(text, safe="")

    filled = re.sub(r"\{([^{}/]+)\}", value, template)
    # Two values side by side, or one beside the template's own dots, may make what neither is.
    if any(part in (".", "..") for part in urlsplit(filled).path.split("/")):
        raise InvalidArguments(f"the values make another path of {template}", hint="Give other values.")
    return filled


def scalar(value: Any) -> str:
    """A value as text in a URL or header: JSON words for booleans, commas between items."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return ",".join(scalar(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return ",".join(f"{k},{scalar(v)}" for k, v in cast("Mapping[str, Any]", value).items())
    return "" if value is None else str(value)


def safe_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that cannot end a line or say where the message ends.

    Raises:
        InvalidArguments: a line break in a value, or a header that is not the caller's to set.
    """
    for name, value in headers.items():
        if name.lower() in _FORBIDDEN or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise InvalidArguments(f"the header {name!r} cannot be set")
        if re.search(r"[\r\n\0]", value):
            raise InvalidArguments(f"the header {name} must not contain a line break")
    return dict(headers)


def _content(request: HttpRequest, headers: dict[str, str]) -> bytes | None:
    if request.kind == "none":
        return None
    content, mime = _encoded(request)
    if "content-type" not in {k.lower() for k in headers}:
        headers["Content-Type"] = mime
    return content


def _encoded(request: HttpRequest) -> tuple[bytes, str]:
    """The body and its media type."""
    match request.kind:
        case "json":
            mime = request.mime if "json" in request.mime and "*" not in request.mime else "application/json"
            return json.dumps(request.body, ensure_ascii=False).encode("utf-8"), mime
        case "form":
            from urllib.parse import urlencode

            body = cast("Mapping[str, Any]", request.body or {})
            # A list is its name once for each item (OpenAPI 3.1 §4.8.15: style form, explode).
            pairs = [
                (k, scalar(i))
                for k, v in body.items()
                for i in (cast("list[Any]", v) if isinstance(v, list) else [v])
            ]
            return urlencode(pairs).encode(), "application/x-www-form-urlencoded"
        case "multipart":
            return _multipart(cast("Sequence[Part]", request.body))
        case "bytes":
            mime = request.mime if request.mime and "*" not in request.mime else "application/octet-stream"
            return cast(bytes, request.body), mime
        case _:
            mime = request.mime if request.mime and "*" not in request.mime else "text/plain"
            return scalar(request.body).encode("utf-8"), f"{mime}; charset=utf-8"


def _multipart(parts: Sequence[Part]) -> tuple[bytes, str]:
    """A body of parts (RFC 7578); a name cannot end its line, since quotes and breaks are percent-encoded."""
    mark = token_hex(16)
    out: list[bytes] = []
    for part in parts:
        line = f'Content-Disposition: form-data; name="{_quoted(part.name)}"'
        if part.filename:
            line += f'; filename="{_quoted(part.filename)}"'
        mime = part.mime or ("application/octet-stream" if part.filename else "")
        kind = f"\r\nContent-Type: {mime}" if mime else ""
        out.append(f"--{mark}\r\n{line}{kind}\r\n\r\n".encode() + part.data + b"\r\n")
    out.append(f"--{mark}--\r\n".encode())
    return b"".join(out), f"multipart/form-data; boundary={mark}"


def _quoted(name: str) -> str:
    """As browsers write it (WHATWG HTML, multipart/form-data encoding)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _result(reply: HttpReply, secrets: Mapping[str, str]) -> ToolResult:
    mime, status = reply.content_type, reply.status
    notes = Notes(labels=("untrusted",), extra={"status": status})
    text = _hidden(_decoded(reply), secrets)
    if status >= 400:
        raise ToolError(
            f"HTTP {status} {responses.get(status, '')}: {clip(text, 0, 2000) or '(empty answer)'}",
            hint="Wait a little and try again." if status in _RETRYABLE else "Correct the arguments.",
            code=f"http_{status}",
            retryable=status in _RETRYABLE,
            details={"status": status},
        )
    if 300 <= status < 400:
        where = _hidden(reply.headers.get("location", ""), secrets)
        return ToolResult(
            content=(Text(f"HTTP {status}: moved to {where}"),), data={"location": where}, notes=notes
        )
    if mime.startswith("image/"):
        return ToolResult(content=(Image(data=reply.body, mime_type=mime),), notes=notes)
    if mime.startswith("audio/"):
        return ToolResult(content=(Audio(data=reply.body, mime_type=mime),), notes=notes)
    if mime in ("application/json", "text/json") or mime.endswith("+json"):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        return ToolResult(content=(Text(text or "(empty answer)"),), data=value, notes=notes)
    if (
        mime.startswith("text/")
        or mime in ("", "application/xml", "application/javascript")
        or "+xml" in mime
    ):
        return ToolResult(content=(Text(text or "(empty answer)"),), notes=notes)
    return ToolResult(content=(File(name="answer", mime_type=mime, data=reply.body),), notes=notes)


def _decoded(reply: HttpReply) -> str:
    named = EmailMessage()
    named["content-type"] = reply.headers.get("content-type", "")
    try:
        return reply.body.decode(named.get_content_charset("utf-8"), "replace")
    except LookupError:
        return reply.body.decode("utf-8", "replace")


def _hidden(text: str, secrets: Mapping[str, str]) -> str:
    """The text without the secrets of its own request: some servers send back what they were sent."""
    for name, value in secrets.items():
        for form in (value, base64.b64encode(value.encode()).decode()):
            text = text.replace(form, f"[secret {name}]")
    return text


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
