"""llama_server: the child process that holds a GGUF model and serves it on loopback.

Run as `python -m pegboard.models.llama_server`. It reads one JSON line from standard input
(`{model, token, context, parent}`), answers with one JSON line (`{url}` or `{error}`) and ends when
standard input ends or its parent does.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from importlib import import_module
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    """Serve until standard input ends."""
    # Standard output carries our one line only; what llama.cpp prints goes to standard error.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.loads(sys.stdin.readline())
    _end_with_parent(int(order["parent"]))
    try:
        server = _serve(order)
    except ImportError as error:
        print(json.dumps({"error": str(error), "missing": True}), file=answer, flush=True)
        return 1
    except RuntimeError as error:
        print(json.dumps({"error": str(error)}), file=answer, flush=True)
        return 1
    print(json.dumps({"url": server.listening_address}), file=answer, flush=True)
    sys.stdin.read()
    # llama.cpp's own threads may be in the middle of an answer that nobody waits for.
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    """Be killed when the parent dies, by whatever signal (Linux; elsewhere the closed pipe does it)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _serve(order: dict[str, Any]) -> Any:
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["token"]]
    params.n_ctx = int(order["context"])
    params.n_parallel = 1
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1
    params.offline = True
    params.model_alias = {order["alias"]}
    return xllamacpp.Server(params)


if __name__ == "__main__":
    sys.exit(main())
