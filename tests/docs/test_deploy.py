"""Dockerfile and compose file, by syntax: what they name is there, and no secret is."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from pegboard.cli.main import app
from pegboard.config.load import load_config
from pegboard.config.paths import Paths

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def parses(command: list[str]) -> None:
    """Fails where `pegboard` would refuse these words."""
    name, *words = command
    commands: Any = get_command(app)
    commands.commands[name].make_context(name, words)


def test_the_image_has_known_instructions_and_bases_by_name() -> None:
    known = {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }

    assert {word for word, _ in instructions()} == known
    bases = [base.split()[0] for base in of("FROM")] + [s["image"] for s in SERVICES.values()]
    assert all(re.fullmatch(r"[a-z]+:[a-z0-9.-]+", base) for base in bases), bases


def test_it_runs_as_nobody_special_and_says_how_it_is() -> None:
    words = [word for word, _ in instructions()]
    useradd = next(run for run in of("RUN") if "useradd" in run)

    assert of("USER") == ["pegboard"] and "useradd --create-home --uid 10001 pegboard" in useradd
    assert words.index("USER") > max(n for n, word in enumerate(words) if word == "RUN")
    assert "/api/health" in of("HEALTHCHECK")[0]
    assert json.loads(of("VOLUME")[0]) == ["/workspace", "/home/pegboard"]


def test_what_it_copies_and_installs_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    extras = re.search(r'"\.\[([a-z,]+)\]"', " ".join(of("RUN")))

    for copied in of("COPY"):
        if not copied.startswith("--from"):
            for source in shlex.split(copied)[:-1]:
                assert (ROOT / source).exists() and f"!{source}" in ignored
    assert ignored[0] == "*"
    assert extras is not None and set(extras[1].split(",")) <= set(project["optional-dependencies"])


def test_its_command_and_those_of_the_compose_file_are_commands() -> None:
    parses(json.loads(of("CMD")[0]))
    for name in ("gateway", "worker"):
        parses([str(word) for word in SERVICES[name]["command"]])
    ports = {*of("EXPOSE"), SERVICES["gateway"]["ports"][0].rpartition(":")[2]}

    assert ports == {"8770"}
    assert SERVICES["gateway"]["ports"][0].startswith("127.0.0.1:")


def test_the_services_are_confined_and_wait_for_the_database() -> None:
    for name in ("gateway", "worker"):
        one = SERVICES[name]
        assert one["cap_drop"] == ["ALL"] and one["read_only"] is True and "privileged" not in one
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert one["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert "pg_isready" in SERVICES["db"]["healthcheck"]["test"][1] and "ports" not in SERVICES["db"]
    named = {v.partition(":")[0] for s in SERVICES.values() for v in s["volumes"] if not v.startswith("$")}
    assert named | {"workspace"} == set(COMPOSE["volumes"])


def test_no_secret_is_written_down() -> None:
    written = [*of("ENV"), *of("RUN"), *of("CMD"), *of("ENTRYPOINT")]
    assert not re.search(r"(?i)token|password|secret|api_key", " ".join(written))
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if re.search("TOKEN|PASSWORD|KEY", name):
                assert re.fullmatch(r"\$\{[A-Z_]+(?::-|:\?[^}]+)\}", value), name
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_its_settings_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "pegboard.toml"
    settings.write_text(COMPOSE["configs"]["settings"]["content"])

    store = load_config(Paths.of(), tmp_path, file=settings).store

    assert store.url == "postgresql://pegboard@db/pegboard"
    assert store.password == "env:PEGBOARD_DB_PASSWORD"
    assert SERVICES["db"]["environment"]["POSTGRES_USER"] == "pegboard"
