"""A toolkit as an MCP server, every call through the one pipeline.

Written by hand rather than on the server of package `mcp`: the shapes are few, and a call costs a fraction. The
package's own tables still judge the stateless era's envelope, and the official conformance suite holds both eras to
the specification.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pegboard.core.call.call import new_id
from pegboard.core.call.pipeline import Pipeline
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import NotFound, ToolError
from pegboard.core.policy.approval import sha256_of
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.prompts import Prompts, Resources
from pegboard.mcp.rendering import cached, page_of, paged, render_result, render_tool
from pegboard.mcp.request_context import Json, Peer, RequestContext, StateSigner, enter
from pegboard.mcp.subscriptions import (
    EVERY_S,
    PROMPTS,
    RESOURCES,
    TOOLS,
    UPDATED,
    Etags,
    Subscriptions,
    ToolSources,
    addresses,
)
from pegboard.mcp.tasks import EXTENSION, TaskMode, Tasks
from pegboard.mcp.wire import (
    BATCHING,
    HANDSHAKE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVELS,
    META_CAPABILITIES,
    META_CLIENT,
    META_SERVER,
    META_VERSION,
    METHOD_NOT_FOUND,
    MODERN,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
    RpcError,
    error_reply,
)

if TYPE_CHECKING:
    from pegboard.net.asgi.sse import EventStream

MAX_BATCH: Final = 100
"""Messages of one batch."""

Method: TypeAlias = Callable[[Peer, RequestContext, Mapping[str, Any]], Awaitable[Json]]


class ToolServer:
    """A toolkit behind the protocol; transports give it messages and take its answers.

    Args:
        pipeline: where every call goes.
        context: where calls run; each client's session is put in.
        resources, prompts: offered besides tools; None = nothing.
        sources: what brings tools that may change while they are served, such as the Executor with its MCP servers.
        name, version, instructions: how it introduces itself.
        task_after_s: calls of clients that can take tasks become one after so many seconds; None = never.
        task_modes: tools that are tasks from the start; see TaskMode.
        look_s: seconds between two checks of what clients listen to.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        context: Context,
        *,
        resources: Resources | None = None,
        prompts: Prompts | None = None,
        sources: ToolSources | None = None,
        name: str = "pegboard",
        version: str = "0",
        instructions: str = "",
        task_after_s: float | None = 2.0,
        task_modes: Mapping[str, TaskMode] | None = None,
        look_s: float = EVERY_S,
    ) -> None:
        self.pipeline = pipeline
        self.context = context
        self.resources = resources
        self.prompts = prompts
        self.sources = sources
        self.info: Json = {"name": name, "version": version}
        self.instructions = instructions
        self.seal = StateSigner(secrets.token_bytes(32))
        self.tasks = Tasks(after_s=task_after_s, modes=task_modes)
        etags = Etags(pipeline, sources=sources, resources=resources, prompts=prompts)
        self._listening = Subscriptions(
            self.tasks, etags, prompts=prompts is not None, resources=resources, every_s=look_s
        )
        self._listed: tuple[Toolkit, list[Json]] | None = None
        self._common: dict[str, Method] = {
            "tools/list": self._tools_list,
            "tools/call": self._tools_call,
            "resources/list": self._resources_list,
            "resources/templates/list": self._templates_list,
            "resources/read": self._resources_read,
            "prompts/list": self._prompts_list,
            "prompts/get": self._prompts_get,
            "completion/complete": self._complete,
        }
        self._handshake: dict[str, Method] = {
            **self._common,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._listening.subscribe,
            "resources/unsubscribe": self._listening.unsubscribe,
        }
        self._modern: dict[str, Method] = {
            **self._common,
            "server/discover": self._discover,
            "subscriptions/listen": self._listening.listen,
            **self.tasks.methods(),
        }
        absent = {"resources": resources is None, "prompts": prompts is None, "completion": prompts is None}
        for table in (self._handshake, self._modern):
            for method in [m for m in table if absent.get(m.partition("/")[0])]:
                del table[method]

    # -- clients ------------------------------------------------------------------------------

    @property
    def toolkit(self) -> Toolkit:
        """What is offered."""
        return self.pipeline.toolkit

    def join(self, peer: Peer) -> None:
        """Notify a client of changes from now on."""
        self._listening.join(
            RequestContext(peer, "", {}, modern=False, seal=self.seal, binding="", capabilities={})
        )

    def leave(self, peer: Peer) -> None:
        """End what a client started, as it is gone."""
        self._listening.leave(peer)
        peer.end()

    def end_listening(self) -> None:
        """Answer every `subscriptions/listen`, as the server stops."""
        self._listening.end()

    def tools_changed(self) -> None:
        """Notify every client of another list of tools; changes of what the pipeline offers are noticed without this."""
        self._listed = None
        self._listening.publish(TOOLS)

    def prompts_changed(self) -> None:
        """Notify every client of another list of prompts; changes of their etag are noticed without this."""
        self._listening.publish(PROMPTS)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that watch a resource; changes of its etag are noticed without this."""
        self._listening.publish((UPDATED, uri))

    # -- messages -----------------------------------------------------------------------------

    async def handle(self, message: Any, peer: Peer, *, stream: EventStream | None = None) -> Json | None:
        """The answer to one message, None if it wants none; `stream` is the response over HTTP."""
        if not isinstance(message, dict) or cast("Json", message).get("jsonrpc") != "2.0":
            return error_reply(None, INVALID_REQUEST, "not a JSON-RPC 2.0 message")
        one = cast("Json", message)
        method: Any = one.get("method")
        if method is None and "method" not in one:
            peer.on_response(one)
            return None
        if "id" not in one:
            self._notified(str(method), one.get("params"), peer)
            return None
        id: Any = one["id"]
        if not isinstance(id, str | int) or isinstance(id, bool) or not isinstance(method, str):
            return error_reply(
                None, INVALID_REQUEST, "a request needs a text or whole number as id, and a method"
            )
        params: Any = one.get("params")
        if params is not None and not isinstance(params, dict):
            return error_reply(id, INVALID_PARAMS, "params must be an object")
        try:
            return await self._request(id, method, cast("Json", params or {}), peer, stream)
        except RpcError as error:
            return error_reply(id, error.code, error.message, error.data)
        except ToolError as error:
            code = INVALID_PARAMS if error.code == "invalid_arguments" else INTERNAL_ERROR
            return error_reply(id, code, error.message)
        except Exception as error:  # noqa: BLE001  The boundary of a message: one bad answer must not end the others.
            return error_reply(id, INTERNAL_ERROR, f"the server failed with {type(error).__name__}")

    async def handle_batch(self, entries: list[Any], peer: Peer | None) -> Json | list[Json] | None:
        """The answers to a batch, run side by side; one error if it is refused as a whole, None if all want none.

        Only 2025-03-26 has batches; they came with it and went with the next revision (JSON-RPC 2.0 §6).
        """
        if peer is None or peer.version != BATCHING:
            spoken = "none is agreed on" if peer is None or not peer.version else f"this is {peer.version}"
            return error_reply(
                None,
                INVALID_REQUEST,
                f"JSON-RPC batches are part of revision {BATCHING} alone, and {spoken}; send one message at a time",
            )
        if not 0 < len(entries) <= MAX_BATCH:
            return error_reply(
                None, INVALID_REQUEST, f"a batch has 1 to {MAX_BATCH} messages, not {len(entries)}"
            )
        replies = await asyncio.gather(*(self._entry(entry, peer) for entry in entries))
        return [reply for reply in replies if reply is not None] or None

    async def _entry(self, entry: Any, peer: Peer) -> Json | None:
        id: Any = cast("Json", entry).get("id") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(id, str | int) or isinstance(id, bool):
            return await self.handle(entry, peer)
        message = cast("Json", entry)
        if "method" not in message:
            return await self.handle(message, peer)
        if message["method"] == "initialize":
            return error_reply(id, INVALID_REQUEST, "initialize must not be part of a batch")
        if id in peer.inflight:
            return error_reply(id, INVALID_REQUEST, f"request {id!r} is already running")
        work = peer.inflight[id] = asyncio.create_task(self.handle(message, peer))
        try:
            return await work
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not work.cancelled() or (current is not None and current.cancelling()):
                work.cancel()
                raise
            # The client asked for it and expects no answer (2025-03-26, cancellation).
            return None
        finally:
            if peer.inflight.get(id) is work:
                del peer.inflight[id]

    async def _request(
        self,
        id: str | int,
        method: str,
        params: Json,
        peer: Peer,
        stream: EventStream | None,
    ) -> Json:
        modern = is_modern(params)
        capabilities = peer.capabilities
        if modern:
            capabilities = _capabilities_of(method, params)
            if peer.version in HANDSHAKE:
                raise RpcError(INVALID_REQUEST, "this connection has agreed on a revision with a handshake")
            peer.version = MODERN[-1]
            peer.info = cast("Json", cast("Json", params["_meta"]).get(META_CLIENT) or {})
        elif method == "initialize":
            if peer.version in MODERN:
                raise RpcError(
                    UNSUPPORTED_VERSION,
                    "this connection speaks the stateless revision",
                    {"supported": list(MODERN)},
                )
            return {"jsonrpc": "2.0", "id": id, "result": self._initialize(params, peer)}
        elif peer.version not in HANDSHAKE and method != "ping":
            if peer.version in MODERN:
                raise RpcError(
                    INVALID_PARAMS, f"params._meta must carry {META_VERSION} and {META_CAPABILITIES}"
                )
            if method == "server/discover" or method not in self._handshake:
                raise RpcError(METHOD_NOT_FOUND, "Method not found", method)
            raise RpcError(INVALID_REQUEST, "send initialize first")
        run = (self._modern if modern else self._handshake).get(method)
        if run is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", method)
        ctx = RequestContext(
            peer, id, params, modern=modern, seal=self.seal, capabilities=capabilities, stream=stream,
            binding=_binding(method, params) if modern else "",
        )  # fmt: skip
        enter(ctx)
        result = await run(peer, ctx, params)
        if modern:
            result.setdefault("resultType", "complete")
            meta: Any = result.get("_meta")
            result["_meta"] = {
                **(cast("Json", meta) if isinstance(meta, dict) else {}),
                META_SERVER: self.info,
            }
        return {"jsonrpc": "2.0", "id": id, "result": result}

    def _notified(self, method: str, params: Any, peer: Peer) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            named: Any = cast("Json", params).get("requestId")
            task = peer.inflight.get(named) if isinstance(named, str | int) else None
            if task is not None:
                task.cancel()

    # -- introduction -------------------------------------------------------------------------

    def _initialize(self, params: Json, peer: Peer) -> Json:
        asked = params.get("protocolVersion")
        client, capabilities = params.get("clientInfo"), params.get("capabilities")
        if not isinstance(asked, str) or not isinstance(client, dict) or not isinstance(capabilities, dict):
            raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo")
        peer.version = asked if asked in HANDSHAKE else HANDSHAKE[-1]
        peer.info, peer.capabilities = cast("Json", client), cast("Json", capabilities)
        self._listening.changed()
        out: Json = {
            "protocolVersion": peer.version,
            "capabilities": {**self._capabilities(), "logging": {}},
            "serverInfo": self.info,
        }
        return {**out, "instructions": self.instructions} if self.instructions else out

    def _capabilities(self) -> Json:
        out: Json = {"tools": {"listChanged": True}}
        if self.resources is not None:
            out["resources"] = {"listChanged": True, "subscribe": True}
        if self.prompts is not None:
            out["prompts"] = {"listChanged": True}
            out["completions"] = {}
        return out

    async def _discover(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        capabilities = self._capabilities()
        if self.tasks.enabled:
            capabilities["extensions"] = {EXTENSION: {}}
        out: Json = {"supportedVersions": list(MODERN), "capabilities": capabilities, **cached("public")}
        return {**out, "instructions": self.instructions} if self.instructions else out

    async def _ping(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        return {}

    async def _set_level(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        if params.get("level") not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
        peer.log_level = str(params["level"])
        return {}

    # -- tools --------------------------------------------------------------------------------

    async def _tools_list(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        if self.sources is not None:
            await self.sources.refresh_tools()
        kit = self.toolkit
        if self._listed is None or self._listed[0] is not kit:
            self._listed = (kit, [render_tool(t) for t in kit])
        self._listening.acknowledge(peer, TOOLS, kit)
        rows, following = page_of(self._listed[1], params.get("cursor"))
        return paged("tools", rows, following, ctx, "public")

    async def _tools_call(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or (arguments is not None and not isinstance(arguments, dict)):
            raise RpcError(INVALID_PARAMS, "tools/call needs a name, and arguments as an object")
        if self.sources is not None:
            await self.sources.refresh_tools(name)
        tool = self.toolkit.get(name)
        if tool is None:
            # By its exact name only: what a client approved is one tool and no alias of it.
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:100]}")
        table = cast("Json", arguments)
        if not ctx.modern:
            return await self._call(tool, table, peer, ctx)
        return await self.tasks.run(
            name,
            ctx,
            lambda: self._call(tool, table, peer, ctx),
            answered="inputResponses" in params,
        )

    async def _call(self, tool: Tool, arguments: Json | None, peer: Peer, ctx: RequestContext) -> Json:
        context = replace(
            self.context, session=peer.session, emit=ctx.on_update,
            origin={"channel": "mcp", "sender": str(peer.info.get("name", ""))[:100]},
        )  # fmt: skip
        result = await self.pipeline.call(ToolCall(new_id("call"), tool.name, arguments or {}), context)
        self._listening.changed()
        if ctx.wanted and not result.ok:
            return ctx.input_required()
        failed = result.error
        if failed is not None and failed.code == "rpc":
            raise RpcError(failed.details["rpc"], failed.message, failed.details.get("data"))
        return render_result(tool, result)

    # -- resources ----------------------------------------------------------------------------

    async def _resources_list(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        resources = await cast(Resources, self.resources).list()
        self._listening.acknowledge(peer, RESOURCES, addresses(resources))
        rows, following = page_of(resources, params.get("cursor"))
        return paged("resources", rows, following, ctx, "private")

    async def _templates_list(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        rows, following = page_of(await cast(Resources, self.resources).templates(), params.get("cursor"))
        return paged("resourceTemplates", rows, following, ctx, "private")

    async def _resources_read(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "resources/read needs a uri")
        try:
            parts = await cast(Resources, self.resources).read(uri)
        except NotFound as error:
            # 2026-07-28 gave up the code of its own for this (SEP-2164).
            code = INVALID_PARAMS if ctx.modern else RESOURCE_NOT_FOUND
            raise RpcError(code, error.message, {"uri": uri}) from None
        out: Json = {"contents": [dict(part) for part in parts]}
        return {**out, **cached("private")} if ctx.modern else out

    # -- prompts ------------------------------------------------------------------------------

    async def _prompts_list(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        prompts = cast(Prompts, self.prompts)
        self._listening.acknowledge(peer, PROMPTS, await prompts.etag())
        rows, following = page_of(await prompts.list(), params.get("cursor"))
        return paged("prompts", rows, following, ctx, "public")

    async def _prompts_get(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        name: Any = params.get("name")
        raw: Any = params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(raw, dict):
            raise RpcError(INVALID_PARAMS, "prompts/get needs a name, and arguments as an object")
        arguments = {str(k): str(v) for k, v in cast("Json", raw).items()}
        try:
            return dict(await cast(Prompts, self.prompts).get(name, arguments))
        except ToolError as error:
            if ctx.wanted:
                return ctx.input_required()
            raise RpcError(INVALID_PARAMS, error.message) from None

    async def _complete(self, peer: Peer, ctx: RequestContext, params: Mapping[str, Any]) -> Json:
        ref, argument = params.get("ref"), params.get("argument")
        if not isinstance(ref, dict) or not isinstance(argument, dict):
            raise RpcError(INVALID_PARAMS, "completion/complete needs ref and argument")
        whole = cast("Json", ref)
        asked = cast("Json", argument)
        name = str(whole.get("name") or whole.get("uri") or "")
        values = await cast(Prompts, self.prompts).complete(
            name, str(asked.get("name")), str(asked.get("value", ""))
        )
        shown_values = list(values)[:100]
        return {"completion": {"values": shown_values, "total": len(values), "hasMore": len(values) > 100}}


def is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request carries the stateless era's envelope."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and META_VERSION in meta


def _binding(method: str, params: Mapping[str, Any]) -> str:
    """What sealed state belongs to: the method with what names its target and arguments."""
    return sha256_of([method, params.get("name"), params.get("uri"), params.get("arguments")])


def _capabilities_of(method: str, params: Json) -> Mapping[str, Any]:
    """The capabilities of a stateless request.

    Raises:
        RpcError: its envelope lacks something or names a revision that we do not speak.
    """
    from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

    meta = cast("Json", params["_meta"])
    if meta.get(META_VERSION) in MODERN and isinstance(meta.get(META_CAPABILITIES), dict):
        if not isinstance(meta.get(META_CLIENT, {}), dict):
            raise RpcError(INVALID_PARAMS, f"{META_CLIENT} must be an object")
        return cast("Mapping[str, Any]", meta[META_CAPABILITIES])
    verdict = classify_inbound_request({"method": method, "params": params})
    if isinstance(verdict, InboundLadderRejection):
        raise RpcError(verdict.code, verdict.message, verdict.data)
    raise RpcError(INVALID_PARAMS, f"{META_CAPABILITIES} must be an object")
