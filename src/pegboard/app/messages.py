"""The outbox by the settings: its channels, and what guards them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.app.ports import guarded_client
from pegboard.bus import CHANNELS
from pegboard.config.channels import ChannelSettings, ChatAccess, read_options
from pegboard.config.environment import environment
from pegboard.config.load import Config
from pegboard.config.secrets import read_source
from pegboard.core.errors import ToolError
from pegboard.core.policy.policy import Policy
from pegboard.core.result import SupportsRedact
from pegboard.core.secrets.redact import Redactor
from pegboard.core.toolkit import Toolkit, import_object
from pegboard.interop.plugins import load_plugin
from pegboard.ports.artifacts import Artifacts
from pegboard.ports.channel import Channel
from pegboard.ports.files import Files
from pegboard.ports.messages import Attachment, InboundMessage
from pegboard.ports.store import Store
from pegboard.services.outbox import MEDIA, MEDIA_BYTES, AnswerFiles, StoredMessages
from pegboard.store.inbox import Inbox

if TYPE_CHECKING:
    from pegboard.services.approvals import Approvals
    from pegboard.services.channels import Channels
    from pegboard.services.history import History
    from pegboard.services.pairing import Pairings
    from pegboard.services.runs import Runs
    from pegboard.services.runtime import Runtime
    from pegboard.services.sessions import Sessions

_SEND_S = 30.0


def stored_messages(
    store: Callable[[], Awaitable[Store]],
    *,
    config: Config,
    policy: Policy,
    redact: SupportsRedact,
    workspace: Path | None,
    notify: Callable[[str], None] | None = None,
    answer_files: AnswerFiles | None = None,
) -> StoredMessages:
    """The outbox of a store with the channels of the settings.

    Args:
        store: opens it.
        config: names the channels, and what the network guard opens.
        policy: its rules that deny hosts hold for webhooks too.
        redact: takes secrets out of what is sent.
        workspace: the folder that the sessions work in.
        notify: is given each sentence that a person should know; None = nobody is.
        answer_files: reads the files that answers name; None = they are named only.
    """
    return StoredMessages(
        store, channels=_channels(config, policy, store, redact), redact=redact.redact,
        workspace="" if workspace is None else str(workspace), notify=notify or _say_nothing,
        answer_files=answer_files,
    )  # fmt: skip


def chat_channels(
    runtime: Runtime,
    history: History,
    *,
    messages: StoredMessages,
    config: Config,
    sessions: Sessions,
    runs: Runs,
    approvals: Approvals,
    pairings: Pairings,
    notify: Callable[[str], None],
    gateway: bool = False,
) -> Channels:
    """The channels of the settings with what handles what people write on them.

    Args:
        runtime: the workspace.
        history: where sessions are kept.
        messages: the outbox, which has the channels.
        config: says who may write on them.
        sessions, runs, approvals, pairings: the services.
        notify: is given each sentence that a person should know.
        gateway: whether this process serves a gateway.
    """
    from pegboard.services.channels import Channels, ChatParts
    from pegboard.services.chat_approvals import ChatApprovals
    from pegboard.services.chat_drafts import ChatDrafts
    from pegboard.services.chat_files import ChatFiles
    from pegboard.services.chats import Chats

    settings = {one.name: one for one in config.channels}
    kinds = {name: settings[name].kind if name in settings else name for name in messages.by_name}
    channels = {
        name: (channel, settings[name].access if name in settings else ChatAccess())
        for name, channel in messages.by_name.items()
    }
    talking = {
        name: (channel, access)
        for name, (channel, access) in channels.items()
        if access.approvals or (hasattr(channel, "receive") and getattr(channel, "receives", True))
    }
    asked = ChatApprovals(history, approvals, messages, talking)
    files = ChatFiles(runtime)
    parts = ChatParts(
        channels=channels, kinds=kinds, messages=messages, approvals=asked, files=files,
        chats=Chats(runtime, history, messages, sessions, runs, asked, files, pairings),
        drafts=ChatDrafts(history, talking, lambda text: runtime.redactor.redact(text)),
    )  # fmt: skip
    return Channels(runtime, history, parts, notify=notify, gateway=gateway)


def _say_nothing(text: str) -> None:
    """Where nobody is told: the outbox tells whoever looks."""


def _channels(
    config: Config, policy: Policy, store: Callable[[], Awaitable[Store]], redact: SupportsRedact
) -> dict[str, Channel]:
    """By name: those that are always there, and those of the settings."""
    named = [ChannelSettings(name=name, kind=name) for name in ("console", "session", "terminal", "webhook")]
    return {one.name: _channel(one, config, policy, store, redact) for one in (*named, *config.channels)}


def _channel(
    settings: ChannelSettings,
    config: Config,
    policy: Policy,
    store: Callable[[], Awaitable[Store]],
    redact: SupportsRedact,
) -> Channel:
    make, options = _kind(settings, config)

    async def add(message: InboundMessage) -> bool:
        return await Inbox(await store()).add(message)

    secrets = [k for k, kind in getattr(make, "settings", {}).items() if kind == "secret" and options.get(k)]
    options |= {key: partial(_secret, settings.name, options[key], redact) for key in secrets}
    parts: dict[str, Callable[[], Any]] = {
        "client": lambda: guarded_client(
            policy, config.network, tool="message", timeout_s=_SEND_S, max_redirects=0
        ),
        "add": lambda: add,
    }
    wanted = signature(make).parameters
    return make(settings.name, **options, **{name: part() for name, part in parts.items() if name in wanted})


def channel_tools(config: Config) -> list[Any]:
    """The tools that the kinds of the configured channels bring: `tools` of each class, a list of Tools.

    Raises:
        BuildError, ConfigError: see `_kind`.
    """
    kinds = {one.kind: one for one in config.channels}
    return [tool for one in kinds.values() for tool in getattr(_kind(one, config)[0], "tools", ())]


def _kind(settings: ChannelSettings, config: Config) -> tuple[Any, dict[str, Any]]:
    """The class of a channel, and its options.

    Raises:
        BuildError: a plug-in is not allowed, or cannot be loaded.
        ConfigError: a key of a plug-in's channel is wrong.
    """
    if settings.kind in CHANNELS:
        return import_object(CHANNELS[settings.kind]), dict(settings.options)
    make = load_plugin(settings.kind, allowed=config.tool_files.plugins, group="pegboard.channels")
    return make, read_options(make, settings.options, settings.file, settings.name, settings.kind)


def _secret(name: str, source: str, redact: SupportsRedact) -> str:
    """A secret of a channel, which is taken out of everything from now on, such as a platform's errors."""
    found = read_source(f"channel {name!r}", source, environment())
    if isinstance(redact, Redactor):
        redact.learn({f"channel {name}": found})
    return found


async def read_answer_files(
    opened: Callable[..., AbstractAsyncContextManager[Any]],
    message: InboundMessage,
    labels: Sequence[str],
    paths: Sequence[str],
) -> tuple[Sequence[Attachment], Sequence[str]]:
    """The files of an answer, under the rules that a call of `message` in that session would have; see AnswerFiles.

    Args:
        opened: opens an executor.
        message, labels, paths: see AnswerFiles.
    """
    from pegboard.tools.message import attachment
    from pegboard.tools.message import message as message_tool

    found: list[Attachment] = []
    refused: list[str] = []
    origin = {} if message.reply is None else {k: v for k, v in asdict(message.reply).items() if v}
    async with opened(session=message.session, toolkit=Toolkit([message_tool])) as executor:
        executor.context = replace(executor.context, labels=frozenset(labels), origin=origin)
        provided = executor.wiring.provided
        for path in paths:
            preview = await executor.preview("message", {"media": [path]})
            try:
                if preview.error is not None:
                    raise preview.error
                file = await attachment(path, provided[Files], provided[Artifacts])
            except ToolError as error:
                refused.append(f"({path} was not sent: {error.message})")
                continue
            size = len(file.data) + sum(len(other.data) for other in found)
            if preview.decision != "allow":
                refused.append(f"({path} was not sent: {preview.reason or 'the policy does not allow it'})")
            elif len(found) == MEDIA or size > MEDIA_BYTES:
                refused.append(
                    f"({path} was not sent: a message takes {MEDIA} files and {MEDIA_BYTES >> 20} MB)"
                )
            else:
                found.append(file)
    return found, refused
