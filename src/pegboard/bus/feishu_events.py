"""Events and cards of Feishu: what is posted to us as messages, and our messages as cards."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pegboard.bus.platform import json_object, object_of
from pegboard.core.errors import PermissionDenied
from pegboard.ports.channel import ChatFile, ChatMessage
from pegboard.ports.messages import Button

MESSAGE: Final = "im.message.receive_v1"
PRESS: Final = "card.action.trigger"
LATEST_S: Final = 86_400.0
"""Seconds after which an event is not taken any more; Feishu sends one again for seven hours."""
_AT: Final = "<at"
_BLOCK: Final = 16


def card_length(text: str) -> int:
    """Bytes of a text in a request, in which a card is JSON within JSON."""
    twice = json.dumps(json.dumps(text.replace("<", "&#60;"), ensure_ascii=False), ensure_ascii=False)
    return len(twice.encode("utf-8", "replace")) - 6


def card_of(
    text: str, buttons: Sequence[Button] = (), *, images: Sequence[str] = (), thread: str = "", plain: bool = False
) -> str:  # fmt: skip
    """A card (JSON 2.0) that shows a text.

    Args:
        text: Markdown.
        buttons: below it.
        images: keys of images that were uploaded.
        thread: where the card stands; a press tells it.
        plain: show the text as it is.
    """
    # A text that the model writes calls nobody: <at id=all></at> would call everybody.
    safe = text if plain else text.replace(_AT, "&#60;at")
    elements: list[dict[str, Any]] = []
    if text.strip() and plain:
        elements.append({"tag": "div", "text": {"tag": "plain_text", "content": safe}})
    elif text.strip():
        elements.append({"tag": "markdown", "content": safe})
    elements += [
        {"tag": "img", "img_key": key, "alt": {"tag": "plain_text", "content": ""}} for key in images
    ]
    elements += [
        {
            "tag": "button", "text": {"tag": "plain_text", "content": b.text}, "type": "default",
            "behaviors": [{"type": "callback", "value": {"value": b.value or b.text, "thread": thread}}],
        }
        for b in buttons
    ]  # fmt: skip
    # Only a card that everybody shares can be changed.
    card = {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": elements}}
    return json.dumps(card, ensure_ascii=False)


def open_posted(
    headers: Mapping[str, str], body: bytes, *, encrypt_key: str, token: str
) -> Mapping[str, Any]:
    """What Feishu posted, once it is certain that Feishu did.

    Args:
        headers: of the request, in lower case.
        body: as it came.
        encrypt_key, token: of the app; empty = it has none. One of them is needed.

    Raises:
        PermissionDenied: key, token or signature is wrong.
    """
    posted: Mapping[str, Any] = json_object(body)
    signed = True
    if encrypt_key:
        at, nonce = headers.get("x-lark-request-timestamp", ""), headers.get("x-lark-request-nonce", "")
        right = hashlib.sha256(f"{at}{nonce}{encrypt_key}".encode() + body).hexdigest()
        signed = hmac.compare_digest(headers.get("x-lark-signature", "").encode(), right.encode())
        posted = json_object(_decrypted(str(posted.get("encrypt", "")), encrypt_key))
    said = str(object_of(posted.get("header")).get("token") or posted.get("token") or "")
    known = bool(posted) and (not token or hmac.compare_digest(said.encode(), token.encode()))
    # The first request, with which Feishu tries the address, is not signed. One message for every reason: whoever
    # learns whether a text could be decrypted can decrypt others (a padding oracle).
    if not known or not (signed or posted.get("type") == "url_verification"):
        raise PermissionDenied(
            "the event is not encrypted and signed with this channel's encrypt_key, or does not have its verification_token",
            hint="Compare both with Events and Callbacks of the app in the developer console.",
        )
    return posted


def _decrypted(text: str, key: str) -> bytes:
    """The plain bytes of AES-256-CBC with the hash of the key; empty if it is another one."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.padding import PKCS7

    try:
        data = base64.b64decode(text, validate=True)
        cipher = Cipher(AES(hashlib.sha256(key.encode()).digest()), CBC(data[:_BLOCK])).decryptor()
        unpad = PKCS7(_BLOCK * 8).unpadder()
        return unpad.update(cipher.update(data[_BLOCK:]) + cipher.finalize()) + unpad.finalize()
    except ValueError:
        return b""


def read_message(event: Mapping[str, Any], me: str) -> ChatMessage | None:
    """An event `im.message.receive_v1` as a message; None for what is not for us.

    Args:
        event: its `event`.
        me: our `open_id`.
    """
    sender, message = object_of(event.get("sender")), object_of(event.get("message"))
    author, id = user_id(sender.get("sender_id")), str(message.get("message_id") or "")
    if not author or not id or sender.get("sender_type") != "user":
        return None
    kind, content = str(message.get("message_type")), json_object(str(message.get("content") or ""))
    parts: list[dict[str, Any]] = []
    if kind == "post":
        # A message in several languages has one text in each.
        content = content if "content" in content else object_of(next(iter(content.values()), None))
        lines: list[list[dict[str, Any]]] = content.get("content") or []
        parts = [part for line in lines for part in (*line, {"tag": "text", "text": "\n"})]
        text = "\n".join(t for t in (str(content.get("title") or ""), "".join(map(_said, parts))) if t)
    else:
        parts = [{"tag": kind, **content}]
        text = str(content.get("text") or "") if kind == "text" else ""
    named = False
    for mention in message.get("mentions") or ():
        mine = user_id(object_of(mention).get("id")) == me
        named = named or mine
        text = text.replace(str(mention.get("key")), "" if mine else f"@{mention.get('name', '')}")
    text, files = text.strip(), tuple(file for part in parts if (file := _file(part, id)) is not None)
    if not text and not files:
        return None
    thread = str(message.get("root_id") or id) if message.get("thread_id") else ""
    at = str(message.get("create_time") or "")
    return ChatMessage(
        id=id, chat_id=str(message.get("chat_id")), sender_id=author, content=text, files=files, thread_id=thread,
        kind="user" if message.get("chat_type") == "p2p" else "group", message_id=id, mentioned=named,
        at=int(at) / 1000 if at.isdecimal() else 0.0,
    )  # fmt: skip


def read_press(id: str, event: Mapping[str, Any], *, alone: bool) -> ChatMessage | None:
    """An event `card.action.trigger` as the press of a button; None if it is none of ours.

    Args:
        id: of the event.
        event: its `event`.
        alone: whether the chat is one with a single person.
    """
    where, value = object_of(event.get("context")), object_of(object_of(event.get("action")).get("value"))
    author, chat = user_id(event.get("operator")), str(where.get("open_chat_id") or "")
    if not author or not chat or not value.get("value"):
        return None
    return ChatMessage(
        id=id, chat_id=chat, sender_id=author, message_id=str(where.get("open_message_id") or ""), mentioned=True,
        pressed=str(value["value"]), thread_id=str(value.get("thread") or ""), kind="user" if alone else "group",
    )  # fmt: skip


def user_id(value: object) -> str:
    """The id of somebody: the `open_id`, which is that of a user for one app."""
    ids = object_of(value)
    return str(ids.get("open_id") or ids.get("user_id") or "")


def _said(part: Mapping[str, Any]) -> str:
    match part.get("tag"):
        case "text" | "md":
            return str(part.get("text") or "")
        case "a":
            text, link = str(part.get("text") or ""), str(part.get("href") or "")
            return link if text in ("", link) else f"{text} ({link})"
        case "at":
            return str(part.get("user_id") or "")  # The key of a mention.
        case "code_block":
            return f"\n```{str(part.get('language') or '').lower()}\n{part.get('text') or ''}\n```\n"
        case _:
            return ""


def _file(part: Mapping[str, Any], message: str) -> ChatFile | None:
    """The file of a part of a message; what finds it is `MESSAGE/KEY/TYPE`."""
    match part.get("tag"):
        case "image" | "img" if part.get("image_key"):
            return ChatFile(
                id=f"{message}/{part['image_key']}/image", name="image.png", media_type="image/png"
            )
        case "file" | "audio" | "media" if part.get("file_key"):
            name = str(part.get("file_name") or "")
            media_type = mimetypes.guess_type(name)[0] or ""
            return ChatFile(id=f"{message}/{part['file_key']}/file", name=name, media_type=media_type)
        case _:
            return None
