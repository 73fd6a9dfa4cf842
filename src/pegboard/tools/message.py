"""message: text, files and reactions to people, through the channels of this machine."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Mapping, Sequence
from mimetypes import guess_extension, guess_type
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field

from pegboard.core.content import Text, media_type_of
from pegboard.core.context import Context, current_context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace, ToolError, Unavailable
from pegboard.core.profiles import MediaPaths
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.net.urls import host_of
from pegboard.ports.artifacts import Artifacts
from pegboard.ports.files import Files
from pegboard.ports.messages import Attachment, Button, Delivery, Destination, Messages, OutboundMessage

Action = Literal["send", "edit", "delete", "react", "poll"]

_ARTIFACT: Final = "artifact:"
_DONE: Final[Mapping[str, str]] = {
    "send": "Message sent to", "edit": "Message edited in", "delete": "Message deleted in",
    "react": "Reaction sent to", "poll": "Poll sent to",
}  # fmt: skip


def _flat(value: Any) -> Any:
    """Buttons as a list of texts: one text, `{text, value}` or rows of these come too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [_button_text(cast("Mapping[str, Any]", value))]
    if isinstance(value, list):
        return [one for row in cast("list[Any]", value) for one in _flat(row)]
    return value


def _button_text(button: Mapping[str, Any]) -> str:
    """`TEXT=VALUE`, as `_button` reads it."""
    text = str(button.get("text") or button.get("label") or "")
    value = button.get("value") or button.get("callback_data") or button.get("callbackData") or ""
    return f"{text}={value}" if value else text


async def plan_message(call: ValidCall, context: Context) -> Plan:
    """Where it goes, and the files that are read. The chat that this run answers anyway needs no question.

    Raises:
        InvalidArguments: nothing says where it goes.
        NotFound: there is no such channel.
    """
    given = call.arguments
    messages = context.port(Messages)
    if given["action"] == "send" and not (given["content"].strip() or given["media"] or given["buffer"]):
        raise InvalidArguments("the message is empty", hint="Give content, or media.")
    to = destination_of(given, messages)
    where = f"{to.channel}:{to.chat_id}" if to.chat_id else to.channel
    default = messages.default()
    here = default is not None and (default.channel, default.chat_id) == (to.channel, to.chat_id)
    at_least, reason = ("allow", "this run answers there") if here else (None, "")
    effects = [Effect("send", where, at_least=at_least, reason=reason)]
    if to.channel == "webhook" and to.chat_id:
        effects.append(Effect("connect", host_of(to.chat_id), at_least=at_least, reason=reason))
    files = context.port(Files)
    for path in given["media"] or ():
        if not path.startswith(_ARTIFACT) and (target := await _readable(path, files)):
            effects.append(Effect("read", target))
    return Plan(tuple(effects))


@tool(
    plan=plan_message,
    touches=("send", "connect", "read"),
    idempotent=True,
    hints=(
        "send a message",
        "notify somebody",
        "send a file to the chat",
        "react to a message",
        "发消息",
        "发送通知",
    ),
    example={"content": "The report is ready.", "channel": "alerts"},
)
async def message(
    content: Annotated[str, Alias("message", "text", "body", "emoji", "question")] = "",
    channel: Annotated[str, Alias("provider")] = "",
    chat_id: Annotated[str, Alias("target", "to", "chat", "recipient")] = "",
    media: Annotated[MediaPaths, Alias("attachments")] | None = None,
    caption: str = "",
    reply_to: Annotated[str, Alias("reply_to_id", "reply_to_message_id")] = "",
    silent: bool = False,
    buttons: Annotated[list[str], BeforeValidator(_flat), Field(max_length=8)] | None = None,
    action: Action = "send",
    message_id: str = "",
    options: Annotated[list[str], Alias("poll_options", "poll_option"), Field(max_length=10)] | None = None,
    buffer: Annotated[str, Alias("data")] = "",
    account_id: Annotated[str, Alias("account")] = "",
    *,
    messages: Inject[Messages],
    files: Inject[Files],
    artifacts: Inject[Artifacts],
) -> ToolResult:
    """Send a message to people on a channel, or edit, delete or react to one.

    Without channel and chat_id it goes to the chat that this run answers. The answer of the run is
    sent there by itself: use this for what is sent before, for files, or for another chat.

    Args:
        content: The text; for react the emoji, for poll the question.
        channel: Which channel, as the settings name it.
        chat_id: Which chat there: for webhook its URL, for session the key of the session.
        media: Paths of files in the workspace, or artifact:ID.
        caption: Text under the media.
        reply_to: Id of the message in the chat that this one answers.
        silent: Send without a notification.
        buttons: Up to eight buttons, each TEXT or TEXT=VALUE.
        action: send, edit, delete, react or poll.
        message_id: Id of the message that is edited, deleted or reacted to.
        options: The answers of a poll, 2 to 10.
        buffer: A file as base64, instead of media.
        account_id: Which of several accounts of the channel sends it.

    Raises:
        InvalidArguments: nothing says where it goes, it is empty, or the channel cannot do that.
        NotFound: there is no such channel.
        TooLarge: the files are over 20 MB.
        Unavailable: it was not delivered, or nobody knows whether it was.
    """
    given = {"channel": channel, "chat_id": chat_id, "account_id": account_id}
    to = destination_of(given, messages)
    attached, refused = await attachments(media or (), buffer, files, artifacts)
    if refused and not attached and not content.strip():
        raise InvalidArguments(f"nothing is left to send: {'; '.join(refused)}")
    here = current_context()
    delivery = await messages.send(
        OutboundMessage(
            to=to, id=f"{here.run or here.session}:{here.call_id}", action=action, content=content,
            media=tuple(attached), caption=caption, reply_to=reply_to, target_id=message_id, silent=silent,
            buttons=tuple(map(_button, buttons or ())), options=tuple(options or ()),
        )
    )  # fmt: skip
    return _result(delivery, action, len(attached), refused)


def destination_of(given: Mapping[str, Any], messages: Messages) -> Destination:
    """Where a message goes: as its call says, else the chat that the run answers.

    Raises:
        InvalidArguments: nothing says it.
    """
    default = messages.default()
    channel, chat = given["channel"].strip(), given["chat_id"].strip()
    channel = channel or ("" if default is None else default.channel)
    if not channel:
        raise InvalidArguments(
            "nothing says where the message goes: this run answers no chat",
            hint=f"Give channel, one of {', '.join(messages.channels())}, and chat_id.",
        )
    known = messages.channels()
    if known and channel not in known:
        raise NotFound(f"no channel {channel!r:.80}", hint=f"The channels are: {', '.join(known)}.")
    account = given["account_id"]
    if default is not None and channel == default.channel and chat in ("", default.chat_id):
        return Destination(
            channel=channel, chat_id=default.chat_id, account_id=account or default.account_id,
            thread_id=default.thread_id,
        )  # fmt: skip
    return Destination(channel=channel, chat_id=chat, account_id=account)


def _button(text: str) -> Button:
    shown, _, value = text.partition("=")
    return Button(text=shown, value=value)


async def _readable(path: str, files: Files) -> str:
    """What a path means as an effect names it; empty where nothing of it may be sent."""
    try:
        found = await files.resolve(path)
    except ToolError:
        return ""
    return found.target if found.inside and found.exists and found.kind == "file" else ""


async def attachments(
    paths: Sequence[str], buffer: str, files: Files, artifacts: Artifacts
) -> tuple[list[Attachment], list[str]]:
    """The files that go with a message, and why others do not."""
    found: list[Attachment] = []
    refused: list[str] = []
    for path in paths:
        try:
            found.append(await attachment(path, files, artifacts))
        except ToolError as error:
            refused.append(f"{path} was not sent: {error.message}")
    if buffer:
        found.append(_decoded(buffer))
    return found, refused


async def attachment(path: str, files: Files, artifacts: Artifacts) -> Attachment:
    """A file of the workspace or an artifact, as it goes with a message.

    Raises:
        InvalidArguments: it is a URL.
        OutsideWorkspace, NotFound: it is not in the workspace, or not a file.
    """
    if path.startswith(_ARTIFACT):
        version = await artifacts.read(path.removeprefix(_ARTIFACT))
        kind = version.content_type if "/" in version.content_type else "text/plain"
        return Attachment(name=version.id, media_type=kind, data=version.raw, path=path)
    if "://" in path:
        raise InvalidArguments("it is a URL, not a path in the workspace")
    if not await _readable(path, files):
        found = await files.resolve(path)
        if not found.inside:
            raise OutsideWorkspace("it is outside the workspace")
        raise NotFound("there is no such file" if not found.exists else "it is not a file")
    name = PurePosixPath(path).name
    data = await files.read_bytes(path)
    return Attachment(
        name=name, media_type=guess_type(name)[0] or "application/octet-stream", data=data, path=path
    )


def _decoded(buffer: str) -> Attachment:
    """A file from base64, with or without `data:TYPE;base64,` before it."""
    head, comma, body = buffer.partition(",")
    kind = head.removeprefix("data:").partition(";")[0] if comma and head.startswith("data:") else ""
    try:
        data = b64decode("".join((body if kind or comma else buffer).split()), validate=True)
    except (BadBase64, ValueError):
        raise InvalidArguments(
            "buffer is not base64", hint="Give the path of a file as media instead."
        ) from None
    kind = kind or media_type_of(data)
    return Attachment(name=f"file{guess_extension(kind) or ''}", media_type=kind, data=data)


def _result(delivery: Delivery, action: str, files: int, refused: Sequence[str]) -> ToolResult:
    to = delivery.to
    where = f"{to.channel}:{to.chat_id}" if to.chat_id else to.channel
    data = {
        "id": delivery.id, "status": delivery.status, "channel": to.channel, "chat_id": to.chat_id,
        "parts": delivery.parts, "sent": list(delivery.sent), "attachments": files, "not_sent": list(refused),
    }  # fmt: skip
    arrived = f"{len(delivery.sent)} of {delivery.parts} parts arrived; " if delivery.sent else ""
    if delivery.status == "dead":
        raise Unavailable(
            f"the message to {where} was not delivered: {arrived}{delivery.error}",
            hint="Tell the user; do not send it again by another way.",
            details=data,
        )
    if delivery.status == "sent":
        text = f"{_DONE[action]} {where}"
    else:
        why = f" ({delivery.error})" if delivery.error else ""
        text = f"Message to {where} is queued{why}: {arrived}it is delivered as soon as possible. Do not send it again"
    if files:
        text += f" with {files} attachment{'s' if files > 1 else ''}"
    return ToolResult(content=(Text(". ".join((text, *refused))),), data=data)
