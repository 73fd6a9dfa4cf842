"""Events of Matrix rooms: our messages as the content of events, and events of others as messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pegboard.bus.platform import object_of
from pegboard.ports.channel import ChatFile, ChatMessage
from pegboard.ports.messages import Attachment, OutboundMessage

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

BUTTONS: Final = "io.pegboard.buttons"
"""Key of an event's content: a list of `{key, value}`; a reaction with the key presses the button."""
KEYS: Final = tuple(f"{n}\N{VARIATION SELECTOR-16}\N{COMBINING ENCLOSING KEYCAP}" for n in range(1, 9))
_FILES: Final = ("m.image", "m.file", "m.audio", "m.video")
_SAID: Final = ("m.text", "m.emote", *_FILES)
"""Kinds of messages that people write; `m.notice` is for programs, which must not answer each other."""
_QUOTED: Final = re.compile(r"\A(?:> ?[^\n]*\n)+\n?")


class Account(NamedTuple):
    """Our account: its id, such as `@pegboard:example.org`, and the name that it shows."""

    id: str
    name: str = ""


def event_length(text: str) -> int:
    """Bytes of a text in an event: as JSON, and as HTML."""
    return len(json.dumps(escape(text), ensure_ascii=False).encode("utf-8", "replace")) - 2


def to_html(text: str) -> str:
    """A Markdown text as the HTML that clients show (client-server API §11.3.1.1). HTML in it is shown as it is."""
    return _parser().render(text).strip()


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["strikethrough", "table"])

    def link(self: Any, tokens: Any, number: int, options: Any, env: Any) -> str:
        # Clients show only images that lie on a homeserver.
        source, label = tokens[number].attrs["src"], tokens[number].content
        return f'<a href="{escape(str(source))}">{escape(label or str(source))}</a>'

    made.add_render_rule("image", link)
    return made


def content_of(message: OutboundMessage) -> dict[str, Any]:
    """The content of an event that shows the text of a message, with its buttons as emoji to react with."""
    text = message.content
    keys = [{"key": key, "value": b.value or b.text} for key, b in zip(KEYS, message.buttons, strict=False)]
    if keys:
        lines = [f"{one['key']} {b.text}" for one, b in zip(keys, message.buttons, strict=False)]
        text = "\n\n".join((text, "\n".join(lines)))
    content: dict[str, Any] = {
        # By the default rules, a notice notifies nobody.
        "msgtype": "m.notice" if message.silent else "m.text",
        "body": text,
        "format": "org.matrix.custom.html",
        "formatted_body": to_html(text),
        # Nobody is called by what the text says (§11.8): a model that writes @room wakes no room.
        "m.mentions": {},
    }
    if keys:
        content[BUTTONS] = keys
    if message.action == "edit":
        relation = {"rel_type": "m.replace", "event_id": message.target_id}
        return {
            "msgtype": content["msgtype"], "body": f"* {text}", "m.mentions": {}, "m.new_content": content,
            "m.relates_to": relation,
        }  # fmt: skip
    return content | _relation(message)


def content_of_file(message: OutboundMessage, file: Attachment, uri: str, caption: str) -> dict[str, Any]:
    """The content of an event that shows a file.

    Args:
        message: what it goes with.
        file: what was uploaded.
        uri: its `mxc:` URI.
        caption: the text with it; empty = none.
    """
    kind = f"m.{file.media_type.partition('/')[0]}"
    content: dict[str, Any] = {
        "msgtype": kind if kind in _FILES else "m.file", "url": uri, "filename": file.name, "body": caption or file.name,
        "info": {"mimetype": file.media_type, "size": len(file.data)}, "m.mentions": {},
    }  # fmt: skip
    if caption:
        content |= {"format": "org.matrix.custom.html", "formatted_body": to_html(caption)}
    return content | _relation(message)


def _relation(message: OutboundMessage) -> dict[str, Any]:
    thread, reply = message.to.thread_id, message.reply_to
    if thread:
        return {
            "m.relates_to": {
                "rel_type": "m.thread", "event_id": thread, "is_falling_back": not reply,
                "m.in_reply_to": {"event_id": reply or thread},
            }
        }  # fmt: skip
    return {"m.relates_to": {"m.in_reply_to": {"event_id": reply}}} if reply else {}


def read_event(
    room: str, event: Mapping[str, Any], me: Account, *, alone: bool, name: str = ""
) -> ChatMessage | None:
    """An event `m.room.message` of somebody else as a message; None for what is not for us.

    Args:
        room: where it happened.
        event: as the homeserver gives it; its content is whatever its sender wrote.
        me: our account.
        alone: whether its sender is alone with us.
        name: what the sender is called there.
    """
    content, sender = object_of(event.get("content")), str(event.get("sender", ""))
    relation = object_of(content.get("m.relates_to"))
    kind = content.get("msgtype")
    if kind not in _SAID or relation.get("rel_type") == "m.replace":
        return None
    body = str(content.get("body") or "")
    files: tuple[ChatFile, ...] = ()
    if kind in _FILES:
        info, filename = object_of(content.get("info")), str(content.get("filename") or body)
        size = info.get("size")
        files = (
            ChatFile(
                id=str(content.get("url") or ""), name=filename, media_type=str(info.get("mimetype") or ""),
                size=size if isinstance(size, int) else 0,
            ),
        )  # fmt: skip
        body = "" if body == filename else body
    thread = str(relation.get("event_id") or "") if relation.get("rel_type") == "m.thread" else ""
    if relation.get("m.in_reply_to") and not (thread and relation.get("is_falling_back")):
        body = _QUOTED.sub("", body)  # What clients of before v1.13 repeat of the message that is answered.
    text, named = _without_name(body, me)
    users = object_of(content.get("m.mentions")).get("user_ids")
    mentioned = me.id in users if isinstance(users, list) else named
    if not text and not files:
        return None
    return ChatMessage(
        id=str(event["event_id"]), chat_id=room, sender_id=sender, sender_name=name, content=text, files=files,
        kind="user" if alone else "group", thread_id=thread, message_id=str(event["event_id"]),
        mentioned=mentioned, at=sent_at(event),
    )  # fmt: skip


def read_press(
    room: str,
    event: Mapping[str, Any],
    under: Mapping[str, Any],
    me: Account,
    *,
    alone: bool,
    name: str = "",
) -> ChatMessage | None:
    """A reaction as the press of a button; None if it is none.

    Args:
        room, alone, name: see read_event.
        event: an event `m.reaction`.
        under: the message that it is under.
        me: our account.
    """
    if under.get("sender") != me.id:
        return None
    key = object_of(object_of(event.get("content")).get("m.relates_to")).get("key")
    newest = object_of(object_of(object_of(under.get("unsigned")).get("m.relations")).get("m.replace"))
    first = object_of(under.get("content"))
    content = object_of(object_of(newest.get("content")).get("m.new_content")) or first
    value = next((str(b["value"]) for b in content.get(BUTTONS) or () if b["key"] == key), "")
    relation = object_of(first.get("m.relates_to"))
    thread = str(relation.get("event_id") or "") if relation.get("rel_type") == "m.thread" else ""
    if not value:
        return None
    return ChatMessage(
        id=str(event["event_id"]), chat_id=room, sender_id=str(event.get("sender", "")), sender_name=name,
        kind="user" if alone else "group", thread_id=thread, message_id=str(under.get("event_id", "")), pressed=value,
        mentioned=True, at=sent_at(event),
    )  # fmt: skip


def _without_name(body: str, me: Account) -> tuple[str, bool]:
    """The text without our name at its begin, and whether it names us."""
    local = me.id.partition(":")[0]
    for name in (me.id, me.name, local):
        if name and body[: len(name)].lower() == name.lower() and not body[len(name) :][:1].isalnum():
            return body[len(name) :].lstrip(":, \t").strip(), True
    return body.strip(), me.id in body


def sent_at(event: Mapping[str, Any]) -> float:
    """When an event was sent, seconds since the epoch; 0 = unknown."""
    at = event.get("origin_server_ts")
    return at / 1000 if isinstance(at, int | float) else 0.0
