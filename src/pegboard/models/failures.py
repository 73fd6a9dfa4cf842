"""Failures: what an SDK raises, told as a ModelError with what to do next."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pegboard.core.errors import ModelError
from pegboard.core.secrets.clip import clip
from pegboard.models.retry import asked_wait_s

SHOWN_CHARACTERS: Final = 600
"""Of a provider's own words at most this many are shown."""

_PAGE: Final = 20_000
_MARKUP: Final = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml|h1|title|center|p)\b", re.IGNORECASE)
_UNSEEN: Final = re.compile(
    r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL
)
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]{1,300})", re.IGNORECASE)
_MARK: Final = re.compile(r"<[^<>]*>")
_EMPTY: Final = re.compile(r"\AError code: \d+\Z|\{'message': '',")
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|too many (?:input |total |prompt )?(?:tokens|text bytes)|"
    r"(?:prompt|input|request|conversation|messages?) (?:is|are|was) too (?:long|large)|input too (?:long|large)|"
    r"maximum.{0,20}tokens|(?:maximum|model'?s?) (?:prompt|model|input|token) (?:length|limit)|"
    r"reduce the (?:length|number|size) of (?:the |your )?(?:messages|prompt|input|tokens)|"
    r"prompt token count .{0,40}exceeds|range of input length|"
    r"exceeds? the (?:model'?s )?(?:available )?(?:context|maximum)",
    re.IGNORECASE,
)
"""How providers and local servers say that a request is larger than the model's window."""
_TOKENS: Final = re.compile(r"(?<![\w.,#-])(?<!\+ )(\d{1,3}(?:[,_']\d{3})+|\d{3,9})(?![\w.-]*[\w-])")
"""Numbers that may be counts of tokens: not those of a model's name or a date, nor what is added to one."""
_MALFORMED: Final = re.compile(
    r"tool_use_failed|failed to call a function|malformed (?:function|tool)[ _]?call|"
    r"(?:error|fail\w*|unable|could not)\W.{0,30}pars\w+ (?:the |a )?(?:tool|function)[ _]?call",
    re.IGNORECASE,
)
"""How servers say that the model wrote a call which they could not read."""
_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go.

    Attributes:
        provider: its name in `--model`.
        model: the model's name.
        url: the base URL.
        key_hint: how to give the right key.
        key: the key, never shown.
    """

    provider: str
    model: str
    url: str
    key_hint: str
    key: str = ""

    @property
    def host(self) -> str:
        """Host and port as in the URL."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def is_local(self) -> bool:
        """Whether it is this machine."""
        return (urlsplit(self.url).hostname or "") in _LOCAL_HOSTS

    @property
    def destination(self) -> str:
        """`this machine`, or the host."""
        return "this machine" if self.is_local else self.host


def endpoint_of(
    provider: str, model: str, api_key: str | None, base_url: str | None, *, own: str, variable: str
) -> Endpoint:
    """A provider's own endpoint, or that of another server which speaks as it does.

    Args:
        provider: its name in `--model`.
        model: the model's name.
        api_key: the key of this very server.
        base_url: the other server; None = the provider's own.
        own: the provider's own URL.
        variable: where a person sets the provider's key.

    Raises:
        ModelError: no key for the provider itself.
    """
    if not api_key and base_url is None:
        raise ModelError(
            f"no key for {provider}:{model}",
            hint=f"Set {variable}, or name a server: {provider}:NAME@http://host:port/v1.",
        )
    return Endpoint(
        provider=provider,
        model=model,
        url=base_url or own,
        key_hint=f"Check {variable}."
        if base_url is None
        else "This server needs its own key: set PEGBOARD_MODEL_KEY, or models.key in the config.",
        key=api_key or "",
    )


class WholeReply(ModelError):
    """A server answered a request for a stream with JSON. `body` may be the whole reply; if not, this is the error."""

    def __init__(self, message: str, body: Any, *, hint: str, too_long: bool) -> None:
        super().__init__(message, hint=hint, retryable=True, too_long=too_long)
        self.body = body


def failure_of(error: Exception, endpoint: Endpoint, now: float) -> ModelError:
    """What an SDK's or transport's exception means.

    Args:
        error: any exception from one request or its stream.
        endpoint: where the request went.
        now: seconds since the epoch, for a Retry-After date.
    """
    known = next((e for e in _chain(error) if isinstance(e, ModelError)), None)
    if known is not None:
        return known
    status = _status(error)
    if status is not None:
        response = getattr(error, "response", None)
        headers: object = getattr(response, "headers", None)
        asked = (
            asked_wait_s(cast("Mapping[str, str]", headers), now) if isinstance(headers, Mapping) else None
        )
        if asked is None:
            asked = _asked_in_body(error)
        return _by_status(status, _words(error, endpoint), endpoint, asked)
    names = [type(e).__name__ for e in _chain(error)]
    if any("Timeout" in name for name in names):
        return ModelError(f"{endpoint.host} did not answer in time", hint="Try again later.", retryable=True)
    if any(
        name in ("ConnectError", "ConnectionRefusedError", "ClientConnectorError", "gaierror")
        for name in names
    ):
        refused = any(
            isinstance(e, ConnectionRefusedError)
            or "refused" in str(e).lower()
            or "attempts failed" in str(e)
            for e in _chain(error)
        )
        hint = (
            f"Is the server running at {endpoint.url}?"
            if endpoint.is_local
            else "Check the network and the address."
        )
        return ModelError(
            f"cannot connect to {endpoint.host}: {_last_words(error)}",
            hint=hint,
            # A server of this machine that is not there will not be there in a second.
            retryable=not (endpoint.is_local and refused),
        )
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return ModelError(f"{endpoint.host} sent a stream that is not JSON: {error}", retryable=True)
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        # An error event inside a stream has no status.
        words = _words(error, endpoint)
        long = is_too_long(words)
        return ModelError(
            f"{endpoint.host} broke off: {words}",
            retryable=not long,
            too_long=long,
            figures=token_figures(words) if long else None,
        )
    return ModelError(f"the answer of {endpoint.host} broke off: {_last_words(error)}", retryable=True)


def is_torn(error: Exception) -> bool:
    """Whether the bytes broke off or were no JSON, and no server told of an error."""
    return _status(error) is None and not isinstance(getattr(error, "body", None), Mapping)


def no_stream(text: str, endpoint: Endpoint) -> ModelError:
    """What it means that a page or JSON came where a stream was asked for."""
    try:
        whole: object = json.loads(text)
    except (ValueError, RecursionError):
        whole = text
    body = whole
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    words = _said(body, endpoint)
    error: object = cast("Mapping[str, object]", body).get("error") if isinstance(body, Mapping) else None
    code: object = cast("Mapping[str, object]", error).get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600:
        return _by_status(code, words, endpoint, None)
    return WholeReply(
        f"{endpoint.host} answered without a stream: {words or _shown(clip(text, 0, 200), endpoint)}",
        whole,
        hint="Is this address the model's server, and nothing in between that answers in its place?",
        too_long=is_too_long(words),
    )


def is_too_long(words: str) -> bool:
    """Whether these are words of a provider or server for a request that is larger than the model's window."""
    return _TOO_LONG.search(words) is not None


def is_malformed_call(words: str) -> bool:
    """Whether a server says that the model wrote a call which it could not read."""
    return _MALFORMED.search(words) is not None


def token_figures(words: str) -> tuple[int, int] | None:
    """What the model takes (a tenth less, to be safe) and what it was sent, where a provider's words name both."""
    first = [int(re.sub(r"\D", "", n)) for n in _TOKENS.findall(words)][:2]
    return (min(first) * 9 // 10, max(first)) if len(set(first)) == 2 else None


def _by_status(status: int, words: str, endpoint: Endpoint, asked: float | None) -> ModelError:
    where = f"{endpoint.host} answered {status}"
    lower = words.lower()
    if status == 401:
        return ModelError(f"{where}: the key was refused. {words}", hint=endpoint.key_hint, status=status)
    if status == 403:
        return ModelError(
            f"{where}: {words}",
            hint=f"This key may not use {endpoint.model!r}. {endpoint.key_hint}",
            status=status,
        )
    if status == 404:
        return ModelError(
            f"{where} for model {endpoint.model!r}: {words}",
            hint="Check the model's name (`pegboard models list`) and that the URL ends where the API begins, as in /v1.",
            status=status,
        )
    if status == 402 or (status == 429 and ("insufficient_quota" in lower or "billing" in lower)):
        return ModelError(f"{where}: {words}", hint="The account has no credit left.", status=status)
    if status == 413 or (status in (400, 422) and is_too_long(words)):
        return ModelError(
            f"{where}: {words}",
            hint="The conversation is too long for this model; compact it or take a model with a larger window.",
            status=status,
            too_long=True,
            figures=token_figures(words),
        )
    if status < 400:
        return ModelError(
            f"{where}: it redirects to another address, which was not followed. {words}",
            hint="Name the address that it means, with https:// where that is meant.",
            status=status,
        )
    retryable = status in _RETRIED or status >= 500
    wait = f" It asks to wait {asked:g} s." if asked is not None else ""
    hint = "Try again later." + wait if retryable else ""
    return ModelError(f"{where}: {words}", hint=hint, retryable=retryable, status=status, wait_s=asked)


def _status(error: Exception) -> int | None:
    for name in ("status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 300 <= value < 600:
            return value
    return None


def _asked_in_body(error: Exception) -> float | None:
    """Seconds of a google.rpc.RetryInfo, which Gemini sends in the place of a header: `"retryDelay": "23s"`."""
    found = re.search(r"""["']retryDelay["']: ["'](\d+(?:\.\d+)?)s["']""", str(getattr(error, "details", "")))
    return None if found is None else float(found[1])


def _words(error: Exception, endpoint: Endpoint) -> str:
    """The provider's own sentence, bounded, without our key."""
    said = _said(getattr(error, "body", None) or getattr(error, "details", None), endpoint)
    if said:
        return said
    # An SDK's words for an answer without a body: the number once more, and an empty object.
    own = str(error)
    return "no reason given" if _EMPTY.search(own) else _shown(own, endpoint)


def _said(value: Any, endpoint: Endpoint) -> str:
    while isinstance(value, Mapping):
        body = cast("Mapping[str, Any]", value)
        kind = body.get("code") or body.get("type") or body.get("status")
        match body:
            case {"message": str(message), "metadata": {"raw": str(raw)}}:
                # A router in between: what the provider behind it said.
                return _shown(f"{message}: {raw}", endpoint)
            case _:
                pass
        inner = body.get("error") or body.get("message") or body.get("detail")
        if isinstance(inner, str):
            named = (
                isinstance(kind, str) and kind != "error" and kind not in inner and not _MARKUP.match(inner)
            )
            return _shown(f"{_plain(inner)} ({kind})" if named else _plain(inner), endpoint)
        if inner is None:
            return ""
        value = inner
    if isinstance(value, list) and value:
        return _shown(json.dumps(value, ensure_ascii=False, default=str), endpoint)
    return _shown(_plain(value), endpoint) if isinstance(value, str) else ""


def _plain(text: str) -> str:
    """A page's title and words, without its marks: proxies and balancers answer so."""
    if not _MARKUP.match(text):
        return text
    text = _UNSEEN.sub(" ", clip(text, 0, _PAGE))
    title = _TITLE.search(text)
    words = " ".join(html.unescape(_MARK.sub(" ", text)).split())
    named = " ".join(html.unescape(title[1]).split()) if title else ""
    # The title is often the heading once more.
    rest = words.removeprefix(named).strip()
    return f"{named}: {rest}" if named and rest and named not in rest else rest or named or "an empty page"


def _shown(text: str, endpoint: Endpoint) -> str:
    if len(endpoint.key) >= 8:
        text = text.replace(endpoint.key, "[key]")
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else clip(text, 0, SHOWN_CHARACTERS) + "…"


def _chain(error: BaseException) -> list[BaseException]:
    out: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and len(out) < 10:
        out.append(current)
        current = current.__cause__ or current.__context__
    return out


def _last_words(error: Exception) -> str:
    said = [str(e) for e in _chain(error) if str(e)]
    return clip(said[-1], 0, SHOWN_CHARACTERS) if said else type(error).__name__
