"""A server that takes its time to start and little of the processor: python -I -S mcp_slow.py SECONDS."""

import json
import sys
import time

TOOL = {"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}

time.sleep(float(sys.argv[1]))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"tools": [TOOL]}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "slow", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    if message["method"] not in ("initialize", "tools/list"):
        del answer["result"]
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
