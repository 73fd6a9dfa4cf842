"""A hand-written MCP server, as bad as its argument says: python peer.py JSON.

Keys: tools, pages, results (tool -> result), behave (tool -> word), resources, prompts, version, stderr_bytes,
dies_at (a method, with its cursor), listed (a method -> its whole answer), lines (tool, or `start` or `initialize` -> lines to write, `@id` for the id), reads
(tool -> how many lines to read and answer with).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any

sys.setrecursionlimit(50_000)
PAIR: list[Any] = []
SETUP: dict[str, Any] = json.loads(sys.argv[1])


NEST = "nested {} levels deep"
"""Stands for a schema in a message until it is written."""


def expand(node: Any) -> Any:
    """`_repeat` and `_nest` of the corpus, at full size."""
    if isinstance(node, list):
        return [expand(v) for v in node]
    if not isinstance(node, dict):
        return node
    out = {k: expand(v) for k, v in node.items() if k not in ("_repeat", "_nest")}
    repeat = node.get("_repeat") or {}
    if "properties" in repeat:
        out["properties"] = {f"p{i}": {"type": "string"} for i in range(repeat["properties"])}
    if "enum" in repeat:
        out["properties"]["x"]["enum"] = list(range(repeat["enum"]))
    if "_nest" in node:
        return NEST.format(node["_nest"])
    return out


def nested(levels: int) -> str:
    """Written by hand: the interpreter's own JSON writer gives up before the reader that is tried."""
    return '{"type": "object", "properties": {"a": ' * levels + '{"type": "object"}' + "}}" * levels


def say(message: dict[str, Any]) -> None:
    text = re.sub(
        json.dumps(NEST).replace("{}", "([0-9]+)"), lambda m: nested(int(m[1])), json.dumps(message)
    )
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def raw(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def answer(id: Any, result: Any) -> None:
    say({"jsonrpc": "2.0", "id": id, "result": result})


def lines(name: str, id: Any = None) -> None:
    for line in SETUP.get("lines", {}).get(name, ()):
        raw(line.replace("@id", json.dumps(id)) + "\n")


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def noise() -> None:
    while True:
        os.write(2, b"e" * 65_536)


def call(id: Any, params: dict[str, Any]) -> None:
    name = params["name"]
    words = SETUP.get("behave", {}).get(name, "").split()
    match words[:1]:
        case ["crash"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["book"]:
            with open(words[1], "a") as file:
                file.write("booked\n")
            os._exit(1)
        case ["stderr-forever"]:
            threading.Thread(target=noise, daemon=True).start()
            time.sleep(0.2)
            answer(id, text("in spite of the noise"))
        case ["not-utf8"]:
            sys.stdout.buffer.write(
                b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\xff\xfeb"}]}}\n' % id
            )
            sys.stdout.buffer.flush()
        case ["twice"]:
            answer(id, text("first"))
            answer(id, text("second"))
        case ["flood"]:
            for _ in range(int(words[1])):
                say(
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/message",
                        "params": {"level": "info", "data": "x" * 500},
                    }
                )
            say({"jsonrpc": "2.0", "method": "notifications/unknown", "params": {}})
            answer(id, text("after the flood"))
        case ["drip"]:
            for char in '{"jsonrpc":"2.0",':
                raw(char)
                time.sleep(0.2)
        case ["roots"]:
            say({"jsonrpc": "2.0", "id": 79, "method": "roots/list"})
            answer(id, text(json.dumps(json.loads(sys.stdin.readline()))))
        case ["backwards"]:
            token = params.get("_meta", {}).get("progressToken")
            for done in (5, -3, float("1e308"), "x", None, True):
                say({"jsonrpc": "2.0", "method": "notifications/progress",
                     "params": {"progressToken": token, "progress": done, "total": -1}})  # fmt: skip
            say(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": [], "progress": 1},
                }
            )
            answer(id, text("done"))
        case ["ask-flood"]:
            for number in range(200):
                say(
                    {
                        "jsonrpc": "2.0",
                        "id": f"q{number}",
                        "method": "elicitation/create",
                        "params": SETUP["elicit"],
                    }
                )
            replies = [json.loads(sys.stdin.readline()) for _ in range(200)]
            answer(id, text(str(sum(r.get("result", {}).get("action") == "accept" for r in replies))))
        case ["odd-result"]:
            say({"jsonrpc": "2.0", "id": id, "result": [1, 2]})
        case ["broken-ids"]:
            for broken in (b'"\xff', b"007", b'"\x01"', b'"\\ud800"', b"1e999", b"-", b"\x00"):
                sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":' + broken + b',"result":{}\n')
            sys.stdout.buffer.flush()
            answer(id, text("after the broken ids"))
        case ["text-id"]:
            answer(str(id), text("by a number in quotes"))
        case ["endless-number"]:
            raw(
                f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"x":1e999}}}}}}\n'
            )
        case ["ask-and-not-read"]:
            for number in range(int(words[1])):
                raw(f'{{"jsonrpc":"2.0","id":"q{number}","method":"roots/list"}}\n')
            answer(id, text("nothing was read"))
        case ["both"]:
            say(
                {"jsonrpc": "2.0", "id": id, "result": text("ok"), "error": {"code": 1, "message": "and not"}}
            )
        case ["pair"]:
            # Answers only once two calls are there: calls in order never get one.
            PAIR.append(id)
            if len(PAIR) == 2:
                for one in PAIR:
                    answer(one, text("both were there"))
        case ["hang"]:
            time.sleep(0.05)
        case ["progress"]:
            token = params.get("_meta", {}).get("progressToken")
            for done in range(int(words[1])):
                say(
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": done},
                    }
                )
                time.sleep(0.02)
        case ["progress-at-once"]:
            token = params.get("_meta", {}).get("progressToken")
            for done in range(int(words[1])):
                say({"jsonrpc": "2.0", "method": "notifications/progress",
                     "params": {"progressToken": token, "progress": done}})  # fmt: skip
            answer(id, text("done"))
        case ["big"]:
            sys.stderr.write("x" * 2_000_000)
            sys.stderr.flush()
            answer(id, text("y" * int(words[1])))
        case ["image"]:
            data = "A" * int(words[1])
            answer(id, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
        case ["half"]:
            raw(f'{{"jsonrpc":"2.0","id":{id},"result":{{"conte')
            os._exit(0)
        case ["garbage"]:
            raw("this is not json\n" * int(words[1]))
            answer(id, text("after the garbage"))
        case ["wrong-id"]:
            answer(987654, text("not yours"))
            answer(id, text("yours"))
        case ["nan"]:
            raw(f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"x":NaN}}}}}}\n')
        case ["surrogate"]:
            raw(
                f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"a\\ud800b"}}]}}}}\n'
            )
        case ["deep"]:
            raw(
                '{{"jsonrpc":"2.0","id":{},"result":{{"content":[],"structuredContent":{}}}}}\n'.format(
                    id, '{"a":' * 5000 + "1" + "}" * 5000
                )
            )
        case ["env"]:
            answer(id, text(json.dumps(dict(os.environ))))
        case ["requests"]:
            say(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": {"level": "info", "data": "hello"},
                }
            )
            say(
                {
                    "jsonrpc": "2.0",
                    "id": 77,
                    "method": "sampling/createMessage",
                    "params": {"messages": [], "maxTokens": 1},
                }
            )
            reply = json.loads(sys.stdin.readline())
            answer(id, text(json.dumps(reply)))
        case ["ask"]:
            say({"jsonrpc": "2.0", "id": 78, "method": "elicitation/create", "params": SETUP["elicit"]})
            reply = json.loads(sys.stdin.readline())
            answer(id, text(json.dumps(reply.get("result", reply))))
        case ["change"]:
            SETUP["tools"] = SETUP["then"]
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            answer(id, text("changed"))
        case ["changes"]:
            for _ in range(int(words[1])):
                say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            answer(id, text("changed without end"))
        case ["late-progress"]:
            token = params.get("_meta", {}).get("progressToken")
            answer(id, text("done"))
            for done in range(50):
                say({"jsonrpc": "2.0", "method": "notifications/progress",
                     "params": {"progressToken": token, "progress": done}})  # fmt: skip
        case ["leave-child"]:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            os._exit(3)
        case ["fork"]:
            for _ in range(20):
                subprocess.Popen(
                    [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
                )
            answer(id, text("forked"))
        case ["lines"]:
            lines(name, id)
            if count := SETUP.get("reads", {}).get(name):
                answer(id, text("".join(sys.stdin.readline() for _ in range(count))))
        case _:
            result = SETUP.get("results", {}).get(name)
            answer(id, result if result is not None else text(json.dumps(params.get("arguments"))))


def page(key: str, rows: list[Any], params: dict[str, Any]) -> dict[str, Any]:
    match SETUP.get("endless_by") if key == "tools" else None:
        case "repeats":
            return {key: rows, "nextCursor": "again"}
        case "fresh":
            return {key: rows, "nextCursor": f"{params.get('cursor', '')}x"}
        case "huge":
            return {key: rows, "nextCursor": "x" * 100_000}
        case "empty-pages":
            return {key: [], "nextCursor": f"{params.get('cursor', '')}x"}
        case _:
            pass
    size = SETUP.get("page")
    if not size or key != "tools":
        return {key: rows}
    start = int(params.get("cursor", "0"))
    if SETUP.get("endless"):
        return {key: rows[:size], "nextCursor": "1"}
    out: dict[str, Any] = {key: rows[start : start + size]}
    if start + size < len(rows):
        out["nextCursor"] = str(start + size)
    return out


def main() -> None:
    if SETUP.get("ignore_sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if SETUP.get("silent"):
        while True:
            time.sleep(600)
    lines("start")
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if "log" in SETUP:
            with open(SETUP["log"], "a") as file:
                file.write(line)
        if SETUP.get("dies_at") == f"{method}{params.get('cursor', '')}":
            sys.stderr.write("had enough\n")
            sys.stderr.flush()
            os._exit(7)
        if id is None or method is None:
            continue
        match method:
            case "initialize" if "initialize" in SETUP.get("lines", {}):
                lines("initialize", id)
            case "initialize":
                if SETUP.get("early"):
                    answer(1234, {"unasked": True})
                capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
                capabilities |= {k: {} for k in ("resources", "prompts") if k in SETUP}
                answer(id, {"protocolVersion": SETUP.get("version", "2025-11-25"), "capabilities": capabilities,
                            "serverInfo": {"name": SETUP.get("says", "peer"), "version": "1"}})  # fmt: skip
            case "tools/list" | "resources/read" if method in SETUP.get("listed", {}):
                answer(id, SETUP["listed"][method])
            case "tools/list":
                answer(id, page("tools", expand(SETUP.get("tools", [])), params))
            case "resources/list":
                answer(id, {"resources": SETUP["resources"]})
            case "resources/templates/list":
                answer(id, {"resourceTemplates": []})
            case "resources/read":
                answer(id, {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]})
            case "prompts/list":
                answer(id, {"prompts": SETUP["prompts"]})
            case "prompts/get":
                answer(
                    id,
                    {"messages": [{"role": "user", "content": {"type": "text", "text": f"prompt {params}"}}]},
                )
            case "tools/call":
                call(id, params)
            case "ping":
                answer(id, {})
            case _:
                say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
    if SETUP.get("ignore_eof"):
        time.sleep(600)


main()
