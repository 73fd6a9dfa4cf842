"""A model server on this machine: offered, used once a person accepted it, and then remembered (decisions 11)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.cli.model_setup import accept_server
from pegboard.config.models import AcceptedServers, find_local_servers, open_model
from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.models.resolve import NoModel
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import agent_for
from tests.cli.conftest import Run

# One streamed answer as the Chat Completions API writes it.
ANSWER = [
    {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [
        {"index": 0, "delta": {"role": "assistant", "content": "four"}, "finish_reason": None}]},
    {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [
        {"index": 0, "delta": {}, "finish_reason": "stop"}]},
]  # fmt: skip


class Server(ThreadingHTTPServer):
    """A model server with two models; what it was asked, with the keys that came along."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer("application/json", json.dumps({"data": [{"id": "tiny"}, {"id": "big"}]}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        lines = [f"data: {json.dumps(piece)}\n\n" for piece in ANSWER]
        self._answer("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())

    def _answer(self, kind: str, body: bytes) -> None:
        self.server.asked.append((self.path, self.headers.get("authorization", "")))
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written to the test's output."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture
def settings(home: Path, server: Server) -> Path:
    """The user's settings, which say where local servers are looked for."""
    file = home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'[model_servers]\n"Tiny Server" = {server.server_port}\n', encoding="utf-8")
    return file


def test_a_server_that_runs_is_offered_and_gets_nothing(
    pegboard: Run, settings: Path, server: Server
) -> None:
    done = pegboard("run", "What is 2 + 2?")

    assert done.status == 1
    assert f"pegboard models accept {server.server_port}" in done.err
    assert f"openai:tiny@http://127.0.0.1:{server.server_port}/v1" in done.err
    assert {path for path, _ in server.asked} == {"/v1/models"}


@pytest.mark.parametrize("by", ["port", "name"])
def test_once_accepted_it_answers_and_once_forgotten_it_does_not(
    pegboard: Run, settings: Path, server: Server, home: Path, by: str
) -> None:
    name = str(server.server_port) if by == "port" else "tiny server"
    accepted = pegboard("models", "accept", name)
    done = pegboard("run", "What is 2 + 2?")
    again = pegboard("models", "list", "--json")
    forgotten = pegboard("models", "forget", name)
    after = pegboard("run", "What is 2 + 2?")

    assert (accepted.status, done.status, forgotten.status, after.status) == (0, 0, 0, 1)
    assert "four" in done.out
    assert f"model: openai:tiny@http://127.0.0.1:{server.server_port}/v1 (runs on this machine)" in done.err
    rows = {row["name"]: row["status"] for row in json.loads(again.out)}
    assert "accepted" in rows[f"openai:tiny@http://127.0.0.1:{server.server_port}/v1"]
    kept = home / ".local" / "state" / "pegboard" / "model-servers.json"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_server_that_has_ended_is_forgotten_too(pegboard: Run, settings: Path, server: Server) -> None:
    pegboard("models", "accept", str(server.server_port))
    settings.write_text("[model_servers]\n", encoding="utf-8")  # It answers nowhere any more.
    forgotten = pegboard("models", "forget", str(server.server_port))
    again = pegboard("models", "forget", str(server.server_port))

    assert forgotten.status == 0
    assert f"Tiny Server port={server.server_port}" in forgotten.out
    assert AcceptedServers(Paths.of()).identities() == frozenset()
    assert "no accepted server" in again.out


def test_no_key_of_a_provider_goes_to_a_local_server(
    pegboard: Run, settings: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pegboard("models", "accept", str(server.server_port))
    pegboard("run", "What is 2 + 2?")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-provider-0123456789")
    pegboard("models", "list")

    assert len(server.asked) > 2
    assert not any("of-the-provider" in key for _, key in server.asked)


def test_another_owner_at_that_port_is_another_server(
    pegboard: Run, settings: Path, server: Server, home: Path
) -> None:
    pegboard("models", "accept", str(server.server_port))
    kept = home / ".local" / "state" / "pegboard" / "model-servers.json"
    stands = kept.read_text(encoding="utf-8")
    kept.write_text(stands.replace(f"owner={os.getuid()}", f"owner={os.getuid() + 1}"), encoding="utf-8")
    changed = pegboard("run", "What is 2 + 2?")
    pegboard("audit", "accept", "--reason", "a test", "--yes")
    done = pegboard("run", "What is 2 + 2?")

    assert f"owner={os.getuid()}" in stands
    assert changed.status == 2 and "was changed by another program" in changed.err
    assert done.status == 1


def test_accepting_what_does_not_answer_names_what_does(
    pegboard: Run, settings: Path, server: Server
) -> None:
    done = pegboard("models", "accept", "Ollama")

    assert done.status == 2
    assert f"Tiny Server at port {server.server_port}" in done.err
    assert pegboard("models", "accept").status == 2


def test_no_server_is_looked_for_where_the_settings_name_none(home: Path, server: Server) -> None:
    assert find_local_servers({}) == []
    assert server.asked == []


@pytest.mark.parametrize("port", ["0", "65536", '"x"', "true"])
def test_a_port_that_is_none_is_refused_with_its_key(pegboard: Run, settings: Path, port: str) -> None:
    settings.write_text(f"[model_servers]\nOllama = {port}\n", encoding="utf-8")
    done = pegboard("models", "list")

    assert done.status == 2
    assert "model_servers.Ollama" in done.err


@pytest.mark.parametrize("answer", ["y", "n", None])
async def test_a_person_is_asked_once_and_a_yes_is_remembered(
    workspace: Path,
    settings: Path,
    server: Server,
    answer: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def read(prompt: str) -> str | None:
        asked.append(prompt)
        return answer

    monkeypatch.setattr("pegboard.cli.model_setup.read_line", read)
    someone = Interaction(accept_server=accept_server)
    with App.open() as app:
        async with app.executor() as door:
            if answer == "y":
                agent = await agent_for(app, door, model=None, interaction=someone)
                twice = await agent_for(app, door, model=None, interaction=someone)
                assert agent.model().name == f"openai:tiny@http://127.0.0.1:{server.server_port}/v1"
                assert twice.model().name == agent.model().name
            else:
                with pytest.raises(NoModel):
                    await agent_for(app, door, model=None, interaction=someone)

    assert len(asked) == 1
    assert bool(AcceptedServers(Paths.of()).identities()) == (answer == "y")
    said = capsys.readouterr().out
    assert "Tiny Server answers at http://127.0.0.1:" in said
    assert "its first model is tiny (of 1 more, name one with --model" in said


async def test_where_nobody_attends_nothing_is_asked(workspace: Path, settings: Path) -> None:
    with App.open() as app:
        async with app.executor() as door:
            with pytest.raises(NoModel):
                await agent_for(app, door, model=None, interaction=Interaction())


def test_the_key_of_a_named_server_comes_from_where_the_settings_say(tmp_path: Path, home: Path) -> None:
    keys = {
        "https://one.example": "env:ONE",
        "http://two.example:8000": "env:TWO",
        "https://three.example": "env:NO",
    }
    env = {"ONE": "key-one", "TWO": "key-two", "OPENAI_API_KEY": "of-openai"}

    def key(name: str) -> str:
        return open_model(name, environment=env, keys=keys).endpoint.key

    assert key("openai:m@https://one.example/v1") == "key-one"
    assert key("openai:m@https://ONE.example:443/v1") == "key-one"
    assert key("openai:m@http://two.example:8000/v1") == "key-two"
    assert key("openai:m@http://one.example/v1") == ""
    assert key("openai:m") == "of-openai"
    with pytest.raises(Unavailable, match=r"three\.example"):
        key("openai:m@https://three.example/v1")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"one.example" = "env:ONE"', "not an address"),
        ('"https://one.example" = "sk-0123456789abcdef"', "where to find the key"),
        ('"https://one.example" = 5', "where to find the key"),
        ('"https://one.example" = "env:"', "where to find the key"),
    ],
)
def test_a_key_in_the_settings_themselves_is_refused(
    home: Path, tmp_path: Path, line: str, said: str
) -> None:
    file = tmp_path / "pegboard.toml"
    file.write_text(f"[model_keys]\n{line}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=said) as caught:
        App.open(config=file)

    assert "sk-0123456789" not in str(caught.value)


def test_an_untrusted_project_names_neither_servers_nor_keys(workspace: Path, server: Server) -> None:
    (workspace / "pegboard.toml").write_text(
        f'[model_servers]\nOllama = {server.server_port}\n[model_keys]\n"https://x.example" = "env:HOME"\n',
        encoding="utf-8",
    )

    with App.open() as app:
        assert app.config.model_servers is None
        assert not app.config.model_keys
        assert {"model_servers", "model_keys"} <= {w.split("'")[1] for w in app.config.ignored}
