"""The server that the official conformance suite asks for, built from Pegboard tools: python conformance_server.py PORT."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pegboard import PURE, Executor, Inject, ToolError, Toolkit, tool
from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.errors import NotFound
from pegboard.core.tool import Tool
from pegboard.mcp.request_context import CallingClient, current_request
from pegboard.mcp.serve_http import serve_http
from pegboard.mcp.server import ToolServer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00@\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def question(text: str, tokens: int = 100) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": tokens}


@tool(effects=PURE)
async def test_simple_text() -> str:
    """Return a simple text."""
    return "This is a simple text response for testing."


@tool(effects=PURE)
async def test_image_content() -> Image:
    """Return an image."""
    return Image(data=PNG, mime_type="image/png")


@tool(effects=PURE)
async def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(data=WAV, mime_type="audio/wav")


@tool(effects=PURE)
async def test_embedded_resource() -> File:
    """Return an embedded resource."""
    return File(
        name="embedded",
        mime_type="text/plain",
        uri="test://embedded-resource",
        data=b"This is an embedded resource.",
    )


@tool(effects=PURE)
async def test_multiple_content_types() -> list[Any]:
    """Return several kinds of content."""
    return [
        Text("Multiple content types test:"),
        Image(data=PNG, mime_type="image/png"),
        File(
            name="mixed",
            mime_type="application/json",
            uri="test://mixed-content-resource",
            data=b'{"test":"data","value":123}',
        ),
    ]


@tool(effects=PURE)
async def test_tool_with_logging(client: Inject[CallingClient]) -> str:
    """Log while it runs."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        client.log("info", text)
        await asyncio.sleep(0.05)
    return "done"


@tool(effects=PURE)
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(effects=PURE)
async def test_tool_with_progress(client: Inject[CallingClient]) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        client.progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@tool(effects=PURE)
async def test_sampling(prompt: str, client: Inject[CallingClient]) -> str:
    """Ask the client's model."""
    answer = await client.sample(question(prompt))
    return f"LLM response: {answer.get('content', {}).get('text', '')}"


@tool(effects=PURE)
async def test_elicitation(message: str, client: Inject[CallingClient]) -> str:
    """Ask the client's user."""
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    answer = await client.elicit(message, schema)
    return f"User response: action={answer.get('action')}, content={answer.get('content')}"


@tool(effects=PURE)
async def test_elicitation_sep1034_defaults(client: Inject[CallingClient]) -> str:
    """Ask with defaults."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
        "required": [],
    }
    answer = await client.elicit("Please review", schema)
    return f"Elicitation completed: action={answer.get('action')}, content={answer.get('content')}"


@tool(effects=PURE)
async def test_elicitation_sep1330_enums(client: Inject[CallingClient]) -> str:
    """Ask with choices."""
    titled = [{"const": f"value{n}", "title": f"Title {n}"} for n in (1, 2, 3)]
    options = ["option1", "option2", "option3"]
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2"],
                "enumNames": ["Option One", "Option Two"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
        "required": [],
    }
    answer = await client.elicit("Please choose", schema)
    return f"Elicitation completed: action={answer.get('action')}, content={answer.get('content')}"


@tool(effects=PURE)
async def test_reconnection(client: Inject[CallingClient]) -> str:
    """Let the client come back for the answer."""
    client.log("info", "closing the stream")
    await asyncio.sleep(0.1)
    client.close_stream()
    await asyncio.sleep(0.3)
    return "Reconnection test completed successfully"


@tool(effects=PURE)
async def test_missing_capability(client: Inject[CallingClient]) -> str:
    """Need sampling."""
    await client.sample(question("hello"), key="need")
    return "done"


@tool(effects=PURE)
async def test_streaming_elicitation(client: Inject[CallingClient]) -> str:
    """Report progress, then ask."""
    client.progress(1, 2)
    answer = await client.elicit("What is your name?", NAME, key="user_name")
    return str(answer)


@tool(effects=PURE)
async def test_logging_tool(client: Inject[CallingClient]) -> str:
    """Log at every level."""
    for level in ("debug", "info", "warning", "error"):
        client.log(level, f"at {level}")
    return "done"


@tool(effects=PURE)
async def test_input_required_result_elicitation(client: Inject[CallingClient]) -> str:
    """Ask for a name."""
    answer = await client.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {(answer.get('content') or {}).get('name', 'stranger')}!"


@tool(effects=PURE)
async def test_input_required_result_sampling(client: Inject[CallingClient]) -> str:
    """Ask the client's model."""
    answer = await client.sample(question("What is the capital of France?"), key="capital_question")
    return str(answer.get("content", {}).get("text", ""))


@tool(effects=PURE)
async def test_input_required_result_list_roots(client: Inject[CallingClient]) -> str:
    """Ask for the client's folders."""
    return ", ".join(str(r.get("uri")) for r in await client.roots(key="client_roots"))


@tool(effects=PURE)
async def test_input_required_result_request_state(client: Inject[CallingClient]) -> str:
    """Ask with state."""
    await client.elicit("Please confirm", OK, key="confirm")
    return "state-ok"


@tool(effects=PURE)
async def test_input_required_result_tampered_state(client: Inject[CallingClient]) -> str:
    """Ask with sealed state."""
    await client.elicit("Please confirm", OK, key="confirm")
    return "state-ok"


@tool(effects=PURE)
async def test_input_required_result_multiple_inputs(client: Inject[CallingClient]) -> str:
    """Ask three things at once."""
    answers = await client.request_inputs(
        {
            "user_name": (
                "elicitation",
                "elicitation/create",
                {"message": "What is your name?", "requestedSchema": NAME},
            ),
            "greeting": ("sampling", "sampling/createMessage", question("Generate a greeting", 50)),
            "client_roots": ("roots", "roots/list", {}),
        }
    )
    return f"got {', '.join(answers)}"


@tool(effects=PURE)
async def test_input_required_result_multi_round(client: Inject[CallingClient]) -> str:
    """Ask twice."""
    color = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    first = await client.elicit("Step 1: What is your name?", NAME, key="step1")
    second = await client.elicit("Step 2: What is your favorite color?", color, key="step2")
    return f"{first.get('content')} {second.get('content')}"


@tool(effects=PURE)
async def test_input_required_result_capabilities(client: Inject[CallingClient]) -> str:
    """Ask only what the client can answer."""
    wanted: dict[str, tuple[str, str, dict[str, Any]]] = {}
    if client.supports("elicitation"):
        wanted["name"] = ("elicitation", "elicitation/create", {"message": "Name?", "requestedSchema": NAME})
    if client.supports("sampling"):
        wanted["capital"] = ("sampling", "sampling/createMessage", question("Capital of France?"))
    await client.request_inputs(wanted)
    return "done"


@tool(effects=PURE)
async def test_tool_with_task(client: Inject[CallingClient]) -> str:
    """Ask, then go on as a task."""
    answer = await client.elicit("What is your name?", NAME, key="user_name")
    await asyncio.sleep(0.5)
    return f"Hello, {(answer.get('content') or {}).get('name')}!"


@tool(effects=PURE)
async def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    SERVICES[0].tools_changed()
    return "changed"


@tool(effects=PURE)
async def test_trigger_prompt_change() -> str:
    """Change the list of prompts."""
    SERVICES[0].prompts_changed()
    return "changed"


SERVICES: list[ToolServer] = []
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "note": {"type": "string"},
    },
}


async def echo_arguments(**arguments: Any) -> str:
    """Return the arguments."""
    return str(arguments)


async def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


async def failing_job() -> str:
    """Fail after a second."""
    await asyncio.sleep(1)
    raise ToolError("the job failed, as it always does")


async def protocol_error_job() -> str:
    """Fail as the protocol fails."""
    await asyncio.sleep(0.2)
    raise ToolError("broken", code="rpc", details={"rpc": -32603})


async def confirm_delete(filename: str, client: Inject[CallingClient]) -> str:
    """Ask before deleting."""
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
    answer = await client.elicit(f"Delete {filename}?", schema, key="confirm")
    return f"{filename}: {answer.get('action')}"


async def multi_input(client: Inject[CallingClient]) -> str:
    """Ask two things at once."""
    asks = {
        k: ("elicitation", "elicitation/create", {"message": k, "requestedSchema": NAME})
        for k in ("one", "two")
    }
    return str(await client.request_inputs(asks))


async def compute_slowly(seconds: float = 1, label: str = "") -> str:
    """Sleep, then return a result."""
    await asyncio.sleep(seconds)
    return f"computed after {seconds} s {label}".strip()


class ConformanceResources:
    """The resources of the suite."""

    async def list(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"uri": "test://static-text", "name": "text", "description": "A text.", "mimeType": "text/plain"},
            {
                "uri": "test://static-binary",
                "name": "binary",
                "description": "A picture.",
                "mimeType": "image/png",
            },
            {
                "uri": "test://watched-resource",
                "name": "watched",
                "description": "Changes.",
                "mimeType": "text/plain",
            },
            {
                "uri": "test://example-resource",
                "name": "example",
                "description": "Example.",
                "mimeType": "text/plain",
            },
        ]

    async def templates(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
        ]

    async def read(self, uri: str) -> Sequence[Mapping[str, Any]]:
        if uri == "test://static-binary":
            return [{"uri": uri, "mimeType": "image/png", "blob": base64.b64encode(PNG).decode()}]
        if uri.startswith("test://template/"):
            id = uri.split("/")[3]
            text = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
            return [{"uri": uri, "mimeType": "application/json", "text": text}]
        if uri in ("test://static-text", "test://watched-resource", "test://example-resource"):
            text = "This is the content of the static text resource."
            return [{"uri": uri, "mimeType": "text/plain", "text": text}]
        raise NotFound(f"there is no resource {uri!r}")

    async def etag(self, uri: str) -> Hashable:
        return str(await self.read(uri))


def said(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": c} for c in content]}


class ConformancePrompts:
    """The prompts of the suite."""

    async def list(self) -> Sequence[Mapping[str, Any]]:
        args = [{"name": n, "description": n, "required": True} for n in ("arg1", "arg2")]
        uri = [{"name": "resourceUri", "description": "Address", "required": True}]
        return [
            {"name": "test_simple_prompt", "description": "Simple."},
            {"name": "test_prompt_with_arguments", "description": "With arguments.", "arguments": args},
            {
                "name": "test_prompt_with_embedded_resource",
                "description": "With a resource.",
                "arguments": uri,
            },
            {"name": "test_prompt_with_image", "description": "With an image."},
            {"name": "test_input_required_result_prompt", "description": "Asks first."},
        ]

    async def get(self, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        text = {"type": "text", "text": "This is a simple prompt for testing."}
        match name:
            case "test_simple_prompt":
                return said(text)
            case "test_prompt_with_arguments":
                one, two = arguments.get("arg1", ""), arguments.get("arg2", "")
                return said({"type": "text", "text": f"Prompt with arguments: arg1='{one}', arg2='{two}'"})
            case "test_prompt_with_embedded_resource":
                uri = arguments.get("resourceUri", "")
                inner = {
                    "uri": uri,
                    "mimeType": "text/plain",
                    "text": "Embedded resource content for testing.",
                }
                return said({"type": "resource", "resource": inner}, text)
            case "test_prompt_with_image":
                image = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
                return said(image, text)
            case "test_input_required_result_prompt":
                exchange = current_request()
                schema = {
                    "type": "object",
                    "properties": {"context": {"type": "string"}},
                    "required": ["context"],
                }
                answer = await exchange.elicit(
                    "What context should the prompt use?", schema, key="user_context"
                )
                return said({"type": "text", "text": str(answer.get("content"))})
        raise NotFound(f"there is no prompt {name!r}")

    async def etag(self) -> Hashable:
        return 0

    async def complete(self, name: str, argument: str, value: str) -> Sequence[str]:
        return [v for v in ("paris", "park", "party") if v.startswith(value)]


def build() -> ToolServer:
    found = [t for n, t in globals().items() if isinstance(t, Tool) and n.startswith("test_")]
    kit = Toolkit(found) + Toolkit(
        [
            Tool(
                echo_arguments,
                name="json_schema_2020_12_tool",
                effects=PURE,
                parameters=SCHEMA_2020,
                description="Check.",
            ),
            Tool(
                echo_arguments,
                name="test_x_mcp_header",
                effects=PURE,
                parameters=HEADERS,
                description="Echo.",
            ),
            Tool(compute_slowly, name="slow_compute", effects=PURE),
            *(
                Tool(f, effects=PURE)
                for f in (greet, failing_job, protocol_error_job, confirm_delete, multi_input)
            ),
        ]
    )
    door = Executor(kit, provide=[CallingClient()])
    service = ToolServer(
        door.pipeline, door.context, resources=ConformanceResources(), prompts=ConformancePrompts(), name="pegboard-conformance", version="1",
        task_modes={
            "slow_compute": "always", "failing_job": "required", "protocol_error_job": "always",
            "confirm_delete": "always", "multi_input": "always", "test_tool_with_task": "after_input",
        },
    )  # fmt: skip
    SERVICES.append(service)
    return service


if __name__ == "__main__":
    asyncio.run(serve_http(build(), host="127.0.0.1", port=int(sys.argv[1]), token=None))
