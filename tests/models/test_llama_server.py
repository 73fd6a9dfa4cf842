from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pegboard.models import llama_server


def test_the_server_is_set_up_for_loopback_one_token_and_no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    llama: Any = ModuleType("xllamacpp")
    llama.CommonParams = lambda: SimpleNamespace(model=SimpleNamespace(path=""))
    llama.Server = lambda params: params
    monkeypatch.setitem(sys.modules, "xllamacpp", llama)

    params = llama_server._serve({"model": "/m.gguf", "token": "t", "context": 99, "alias": "m"})

    assert params.model.path == "/m.gguf"
    assert (params.hostnames, params.port, params.api_keys) == (["127.0.0.1"], 0, ["t"])
    assert (params.n_ctx, params.ui, params.endpoint_slots, params.offline) == (99, False, False, True)
