from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard.core.errors import ConfigError, ModelError
from pegboard.core.toolkit import import_object
from pegboard.models import MODELS, LocalModel
from pegboard.models.resolve import (
    DEFAULTS,
    FORMS,
    KEYS,
    ModelReference,
    ModelSources,
    NoModel,
    available,
    choose_model,
    open_configured,
    parse,
)
from pegboard.models.servers import LocalServer, find_servers, owner_of
from tests.models.wire import failed, serving


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("openai:gpt-5.5", ModelReference("openai", "gpt-5.5")),
        ("anthropic:claude-x", ModelReference("anthropic", "claude-x")),
        ("gemini:g-1", ModelReference("gemini", "g-1")),
        (
            "openai:llama3:8b@http://host:11434/v1/",
            ModelReference("openai", "llama3:8b", "http://host:11434/v1"),
        ),
        ("openai:a@b@https://h/v1", ModelReference("openai", "a@b", "https://h/v1")),
        ("openai_responses:m", ModelReference("openai-responses", "m")),
        ("gguf:/a/b c.gguf", ModelReference("gguf", "/a/b c.gguf")),
        ("gguf:smollm2", ModelReference("gguf", "smollm2")),
        (" local ", ModelReference("local")),
        ("scripted:turns.jsonl", ModelReference("scripted", "turns.jsonl")),
    ],
)
def test_every_form_is_read(text: str, reference: ModelReference) -> None:
    assert parse(text) == reference


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("opnai:x", "did you mean 'openai'"),
        ("mistral-large", "unknown model provider"),
        ("gpt-oss", "unknown model provider"),
        ("openai/gpt-5", "write openai:gpt-5"),
        ("olama:llama3", "did you mean 'ollama'"),
        ("ollama:", "write ollama:NAME"),
        ("lm-studio", "write lm-studio:NAME"),
        ("scripted:", "write scripted:FILE"),
        ("gtp-5", "did you mean 'gpt-5'"),
        ("cluade-opus-4", "did you mean 'claude-opus-4'"),
        (" ", "the name of the model is empty"),
        ("openai", "has no model name"),
        ("openai:", "has no model name"),
        ("local:x", "takes no name"),
        ("openai:@http://h/v1", "names no model before the @"),
        ("openai:m@http://user:pw@h/v1", "must not hold a key"),
        ("openai:m@http://", "is not an http"),
        ("openai:m@http://h:99999/v1", "is not a URL"),
    ],
)
def test_anything_else_is_an_error_that_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("gpt-4o", ModelReference("openai", "gpt-4o")),
        ("o3", ModelReference("openai", "o3")),
        ("o4-mini", ModelReference("openai", "o4-mini")),
        ("claude-sonnet-5-5", ModelReference("anthropic", "claude-sonnet-5-5")),
        ("gemini-3.8-flash", ModelReference("gemini", "gemini-3.8-flash")),
        ("gpt-4o@http://h:1/v1", ModelReference("openai", "gpt-4o", "http://h:1/v1")),
        ("ollama:llama3:8b", ModelReference("openai", "llama3:8b", "http://127.0.0.1:11434/v1")),
        ("ollama:llama3@http://box:11434/v1", ModelReference("openai", "llama3", "http://box:11434/v1")),
        ("LMStudio:qwen", ModelReference("openai", "qwen", "http://127.0.0.1:1234/v1")),
    ],
)
def test_a_name_without_its_provider_means_the_obvious_one(text: str, reference: ModelReference) -> None:
    assert parse(text) == reference


@pytest.mark.parametrize(
    ("text", "key"),
    [("gpt-4o", "OPENAI_API_KEY"), ("claude-x", "ANTHROPIC_API_KEY"), ("gemini-x", "GEMINI_API_KEY")],
)
def test_a_missing_key_is_named_where_the_provider_was_not(text: str, key: str) -> None:
    with pytest.raises(ModelError) as caught:
        made(text)

    assert key in (caught.value.hint or "")


def made(name: str | None, env: dict[str, str] | None = None, **more: Any) -> Any:
    return choose_model(name, ModelSources(env=env or {}, **more))


def test_without_a_name_the_first_key_decides() -> None:
    model = made(None, {"OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"})

    assert model.name == f"openai:{DEFAULTS['openai']}"
    assert model.endpoint.key == "o"


def test_the_config_comes_before_the_keys() -> None:
    assert isinstance(made(None, {"OPENAI_API_KEY": "o"}, configured="local"), LocalModel)


SERVER = LocalServer(kind="Ollama", port=11434, owner=1000, models=("qwen3:8b",))


def test_a_server_that_was_found_is_offered_and_not_used() -> None:
    with pytest.raises(ModelError) as caught:
        made(None, find=lambda: [SERVER])

    assert "--model openai:qwen3:8b@http://127.0.0.1:11434/v1" in str(caught.value)


def test_a_server_that_was_accepted_is_used_and_another_owner_is_another_server() -> None:
    accepted = lambda: frozenset({SERVER.identity})  # noqa: E731
    model = made(None, find=lambda: [SERVER], accepted=accepted)
    other = LocalServer(kind="Ollama", port=11434, owner=1001, models=("qwen3:8b",))

    assert model.name == "openai:qwen3:8b@http://127.0.0.1:11434/v1"
    with pytest.raises(ModelError):
        made(None, find=lambda: [other], accepted=accepted)


def test_with_none_at_all_the_error_lists_the_ways() -> None:
    with pytest.raises(ModelError) as caught:
        open_configured(None, environment={}, data_dir=None)

    said = str(caught.value)
    for way in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "models get smollm2",
        "--model local",
        "http://",
    ):
        assert way in said


def test_a_providers_key_never_goes_to_a_server_named_by_url() -> None:
    env = {"OPENAI_API_KEY": "of-openai"}

    assert made("openai:m@http://h:1/v1", env).endpoint.key == ""
    assert made("openai:m@http://h:1/v1", env | {"PEGBOARD_MODEL_KEY": "own"}).endpoint.key == "own"
    keys = {"http://h:1": "by-origin", "https://h:1": "other-scheme"}
    assert (
        made("openai:m@http://H:1/v1", env | {"PEGBOARD_MODEL_KEY": "own"}, keys=keys).endpoint.key
        == "by-origin"
    )


def test_a_base_url_beside_the_key_is_where_that_key_belongs() -> None:
    env = {"OPENAI_API_KEY": "of-proxy", "OPENAI_BASE_URL": "https://proxy.example/v1"}

    assert made("openai:m", env).destination == "proxy.example"
    assert made("openai:m@https://proxy.example:443/v1", env).endpoint.key == "of-proxy"
    assert made("openai:m@https://else.example/v1", env).endpoint.key == ""


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        made("openai:m")


def test_a_script_and_a_model_file_are_opened(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"text": "hi"}\n')

    assert made(f"scripted:{script}").name == f"scripted:{script}"
    assert made("gguf:smollm2", data_dir=tmp_path).name == "gguf:smollm2"
    with pytest.raises(ModelError, match="data folder"):
        made("gguf:smollm2")


def test_the_list_says_what_each_way_needs(tmp_path: Path) -> None:
    rows = {
        row["name"]: row["status"]
        for row in available(environment={"OPENAI_API_KEY": "x"}, data_dir=tmp_path, found=[SERVER])
    }

    assert rows[f"openai:{DEFAULTS['openai']}"] == "ready"
    assert rows[f"anthropic:{DEFAULTS['anthropic']}"] == "needs ANTHROPIC_API_KEY"
    assert rows["gguf:smollm2"] == "needs pegboard models get smollm2"
    assert "pegboard models accept 11434" in rows["openai:qwen3:8b@http://127.0.0.1:11434/v1"]
    assert rows["local"].startswith("ready")


@pytest.mark.parametrize("family", sorted(MODELS))
def test_every_family_loads_and_has_a_form_and_a_key(family: str) -> None:
    assert callable(import_object(MODELS[family]))
    assert any(form.split(":")[0] == family for form in FORMS)
    assert family in KEYS or family in ("gguf", "local", "scripted")


def test_nothing_is_looked_for_where_a_model_is_named_or_a_key_is_set() -> None:
    def find() -> list[LocalServer]:
        raise AssertionError("looked around")

    made("local", find=find)
    made(None, {"OPENAI_API_KEY": "k"}, find=find)
    made(None, configured="local", find=find)


def test_a_server_without_a_model_is_named_and_no_model_of_it_is_made_up() -> None:
    empty = LocalServer(kind="LM Studio", port=1234, owner=None, models=())

    with pytest.raises(NoModel) as caught:
        made(None, find=lambda: [empty], accepted=lambda: frozenset({empty.identity}))

    assert "offers no model" in str(caught.value)
    assert "NAME@http://127.0.0.1" not in str(caught.value)


async def test_a_server_that_lists_models_is_found_with_its_owner_and_nothing_else_is() -> None:
    models = failed(200, {"object": "list", "data": [{"id": "m-1"}, {"id": "m-2"}, "x"]})
    async with serving(models) as good, serving(failed(404, {})) as bad, serving(failed(200, [])) as odd:
        ports = [
            (kind, int(server.url.rpartition(":")[2]))
            for kind, server in (("A", good), ("B", bad), ("C", odd))
        ]

        (found,) = await find_servers([*ports, ("D", 1)])

    assert (found.kind, found.models) == ("A", ("m-1", "m-2"))
    assert found.base_url == f"{good.url}/v1"
    assert "authorization" not in good.asked[0].headers


def test_the_owner_of_a_port_is_read_from_the_kernels_table(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    # As proc(5) has it: 0x2CAA = 11434, state 0A = LISTEN, then the uid.
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:2CAA 0100007F:9999 01 00000000:00000000 00:00000000 00000000     7        0 1\n"
        "   1: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2\n"
    )

    assert owner_of(11434, [tmp_path / "none", table]) == 1000
    assert owner_of(80, [table]) is None
