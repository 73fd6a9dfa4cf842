"""What a server asks in the middle of a call reaches the person, named and bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

import mcp_types as types

from pegboard.core.policy.approval import Waiting
from pegboard.mcp.client import TimeLimits
from pegboard.mcp.text_warnings import as_read, plain_address, sanitise
from pegboard.ports.people import People, Question

MAX_QUESTIONS: Final = 20
"""Questions that one call of a server may put to a person."""

_SECRET: Final = re.compile(
    r"pass(?:word|wd|phrase|code|wort)|\bpwd\b|secret|api.?key|access.?key|private.?key|token|credential|\bpin\b"
    r"|\bcv[vc]2?\b|security.?code|card.?number|\bssn\b|social.?security|\botp\b|\b2fa\b|one.?time.?(?:code|pass)"
    r"|(?:verification|auth\w{0,20}|recovery|backup).?code|(?:seed|recovery).?phrase|mnemonic|\bcookie\b|session.?id"
    r"|^\s*(?:my.?|user.?|db.?)?pass\s*$|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.ssh\b"
    r"|contrase[ñn]a|mot.?de.?passe|\bsenha\b|parola|пароль|密码|密碼|口令|密钥|令牌|验证码|パスワード|暗証|비밀번호|암호",
    re.IGNORECASE | re.MULTILINE,
)
_ASKED_FOR: Final = re.compile(
    rf"(?:\b(?:enter|type|provide|paste|supply|give|input|send|share|submit|confirm|verify|need|repeat)\b\W+(?:\w+\W+){{0,3}}?"
    rf"|\byour\W+(?:\w+\W+){{0,2}}?|(?:请|請)?(?:输入|輸入|提供))(?:\w*?)(?:{_SECRET.pattern})",
    re.IGNORECASE,
)
"""A message that asks for a secret, whatever it then calls the field."""

_LOOKED_AT: Final = 2_000
"""Characters of each text that are looked at, and more than a person is shown."""

_SPELT: Final = re.compile(r"(?<![^\W_])([^\W_])[ ._-](?=[^\W_](?![^\W_]))")
"""The gap after a letter that stands alone, as in `p a s s`."""

_JOINT: Final = re.compile(r"[_.-]+|(?<=[a-z0-9])(?=[A-Z])")
"""Where words of a name meet, as in `session_cookie` and `userPin`."""

_DIGITS_FOR_LETTERS: Final = str.maketrans("013457@$", "oieastas")


class ElicitationHandler:
    """Answers a server's elicitation requests through the People port.

    Attributes:
        people: who is there; None = nobody, so every request is declined.
        asked: how many questions were put so far in this call.
    """

    def __init__(self, server: str, limits: TimeLimits | None = None, timeout_s: float = 300.0) -> None:
        self._server = server
        self._limits = limits or TimeLimits()
        self._timeout_s = timeout_s
        self.people: People | None = None
        self.asked = 0

    async def elicit(
        self, context: Any, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Answer one request: accept with the person's values, decline, or cancel."""
        self.asked += 1
        if self.people is None or self.asked > MAX_QUESTIONS:
            return types.ElicitResult(action="decline")
        if isinstance(params, types.ElicitRequestURLParams):
            return await self._url(params)
        return await self._form(params)

    async def _url(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        try:
            parts = urlsplit(plain_address(params.url))
        except ValueError:
            return types.ElicitResult(action="decline")
        loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
            return types.ElicitResult(action="decline")
        if parts.username is not None or not parts.hostname:
            # `https://bank.example@evil.example/` is made to be misread, whatever stands below it.
            return types.ElicitResult(action="decline")
        text = (
            f"[MCP server {self._server}] {sanitise(params.message)[:1000]}\n"
            f"It wants you to open this address yourself, at the host {parts.hostname}:\n{params.url}"
        )
        answers = await self._ask([Question(text=text, options=("done", "no"), timeout_s=self._timeout_s)])
        if answers is None:
            return types.ElicitResult(action="cancel")
        agreed = answers[0].strip().lower() in ("done", "yes", "y", "1", "ok")
        return types.ElicitResult(action="accept" if agreed else "decline")

    async def _form(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        schema = cast("Mapping[str, Any]", params.requested_schema)
        given: Any = schema.get("properties") or {}
        if not isinstance(given, Mapping) or not all(isinstance(f, Mapping) for f in given.values()):  # pyright: ignore
            return types.ElicitResult(action="decline")
        fields = dict(list(cast("Mapping[str, Mapping[str, Any]]", given).items())[:MAX_QUESTIONS])
        if not all(map(_plainly_asked, fields.values())):
            return types.ElicitResult(action="decline")
        whole = (params.message, *(str(schema.get(word, "")) for word in ("title", "description")))
        if asks_for_secrets("\n".join(whole), fields):
            # A form shows what is typed to the server and to the model's history: no place for a secret.
            return types.ElicitResult(action="decline")
        listed: Any = schema.get("required")
        required = cast("Sequence[str]", listed) if isinstance(listed, list) else ()
        head = f"[MCP server {self._server} asks] {sanitise(params.message)[:1000]}"
        if not fields:
            answers = await self._ask([Question(text=head, options=("yes", "no"), timeout_s=self._timeout_s)])
            if answers is None:
                return types.ElicitResult(action="cancel")
            agreed = answers[0].strip().lower() in ("yes", "y", "1", "ok")
            return types.ElicitResult(
                action="accept" if agreed else "decline", content={} if agreed else None
            )
        content: dict[str, Any] = {}
        for key, field in fields.items():
            answers = await self._ask([_question(head, key, field, key in required, self._timeout_s)])
            if answers is None:
                return types.ElicitResult(action="cancel")
            said = answers[0].strip()
            if said.lower() in ("/decline", "decline"):
                return types.ElicitResult(action="decline")
            try:
                value = value_of(said, field)
            except ValueError:
                return types.ElicitResult(action="decline")
            if value is None and key in required:
                return types.ElicitResult(action="decline")
            if value is not None:
                content[key] = value
        return types.ElicitResult(action="accept", content=content)

    async def _ask(self, questions: Sequence[Question]) -> Sequence[str] | None:
        if self.people is None:
            return None
        with self._limits.paused():
            answers = await self.people.ask(questions)
        return None if isinstance(answers, Waiting) else answers


def asks_for_secrets(message: str, fields: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a form is about a secret: by the names and texts of its fields, or by what its message asks for."""
    for key, field in fields.items():
        if field.get("format") == "password" or field.get("writeOnly") is True:
            return True
        if any(
            _SECRET.search(_plain(str(t)))
            for t in (key, *(field.get(word, "") for word in ("title", "description", "default", "pattern")))
        ):
            return True
    typed = [
        f
        for f in fields.values()
        if f.get("type", "string") in ("string", "number", "integer") and "enum" not in f
    ]
    said = _plain(message)
    return bool(_ASKED_FOR.search(said) if typed else not fields and _SECRET.search(said))


def _plainly_asked(field: Mapping[str, Any]) -> bool:
    """Whether a field is of a kind that the protocol knows, and each choice is what a person sees of it."""
    nested = field.get("type") == "object" or "properties" in field
    return not nested and all(sanitise(choice) == choice for choice in choices(field))


def _plain(text: str) -> str:
    seen = as_read(text[:_LOOKED_AT])
    apart = _JOINT.sub(" ", seen)
    return "\n".join((seen, _SPELT.sub(r"\1", seen), apart, apart.translate(_DIGITS_FOR_LETTERS)))


def _question(head: str, key: str, field: Mapping[str, Any], required: bool, timeout_s: float) -> Question:
    label = sanitise(str(field.get("title") or key))[:100]
    about = sanitise(str(field.get("description") or ""))[:300]
    default = f" (default: {sanitise(str(field['default']))[:300]})" if "default" in field else ""
    text = f"{head}\n{label}{'' if required else ' (optional)'}{default}" + (f": {about}" if about else "")
    options = choices(field)
    if field.get("type") == "boolean":
        options = ("yes", "no")
    return Question(
        text=text, options=tuple(options[:20]), multi_select=field.get("type") == "array", timeout_s=timeout_s
    )


def choices(field: Mapping[str, Any]) -> tuple[str, ...]:
    """The values that a field allows, empty where it is free."""
    items = field.get("items")
    source = cast("Mapping[str, Any]", items) if isinstance(items, Mapping) else field
    listed: Any = source.get("enum")
    if listed is None:
        variants: Any = source.get("oneOf") or source.get("anyOf") or ()
        listed = [
            cast("Mapping[str, Any]", v)["const"] for v in variants if isinstance(v, Mapping) and "const" in v
        ]
    return tuple(str(v) for v in listed)


def value_of(said: str, field: Mapping[str, Any]) -> Any:
    """The value that an answer means; the field's default for an empty one, None where there is none.

    Raises:
        ValueError: the answer does not fit the field.
    """
    if not said:
        return field.get("default")
    allowed = choices(field)
    match field.get("type"):
        case "boolean":
            if said.lower() in ("yes", "y", "true", "1", "no", "n", "false", "0"):
                return said.lower() in ("yes", "y", "true", "1")
            raise ValueError(said)
        case "integer":
            return int(said)
        case "number":
            return float(said)
        case "array":
            parts = [p.strip() for p in said.split(",") if p.strip()]
            if allowed and any(p not in allowed for p in parts):
                raise ValueError(said)
            return parts
        case _:
            if allowed and said not in allowed:
                raise ValueError(said)
            return said
