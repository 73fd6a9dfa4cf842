"""Services of the user's systemd, with programs of ours in place of systemctl and loginctl, and systemd's own checker."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.services.system_service import ServiceUnit, SystemService

SYSTEMCTL = """\
#!/bin/sh
echo "$*" >> "$LOG"
case "$2" in
show) printf 'ActiveState=active\\nSubState=running\\nUnitFileState=enabled\\nMainPID=77\\nActiveEnterTimestamp=Mon\\n' ;;
esac
[ "$2" != "$FAILS" ] || { echo "no such thing"; exit 1; }
"""
LOGINCTL = '#!/bin/sh\necho "$LINGER"\n'

Make = Callable[..., SystemService]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls.log"


@pytest.fixture
def systemd(tmp_path: Path, log: Path, own_home: Path) -> Make:
    """A service over these programs; variables tell them what to do."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def make(**variables: str) -> SystemService:
        path = f"{programs}:{os.environ['PATH']}"
        return SystemService(
            Paths.of(), {**os.environ, "PATH": path, "LOG": str(log), "LINGER": "no", **variables}
        )

    return make


def unit(
    service: SystemService, folder: Path, *words: str, name: str = "serve", kind: str = "serve"
) -> ServiceUnit:
    return ServiceUnit(
        name=name, kind=kind, workspace=folder, env_file=service.env_file(name),  # pyright: ignore[reportArgumentType]
        argv=["/usr/bin/env", "pegboard", kind, "--workspace", str(folder), *words],
    )  # fmt: skip


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


async def test_it_is_installed_started_shown_and_removed(
    systemd: Make, log: Path, tmp_path: Path, own_home: Path
) -> None:
    service = systemd()
    done = await service.install(unit(service, tmp_path, "--port", "8771"))
    [status] = await service.status()
    kept = await service.remove("serve")

    assert done.file == own_home / ".config/systemd/user/pegboard-serve.service" and not done.file.exists()
    assert (status.state, status.enabled, status.pid) == ("active (running)", "enabled", 77)
    verbs = [line.split()[1] for line in log.read_text().splitlines()]
    assert [v for v in verbs if v not in ("show", "show-environment")] == [
        "daemon-reload", "enable", "restart", "disable", "daemon-reload",
    ]  # fmt: skip
    assert done.lingers is False
    assert kept.exists() and await service.status() == []


async def test_secrets_are_in_a_file_of_their_own_that_only_the_user_reads(
    systemd: Make, tmp_path: Path, own_home: Path
) -> None:
    service = systemd()
    done = await service.install(unit(service, tmp_path))
    [token] = values(done.env_file.read_text(), "PEGBOARD_TOKEN")
    text = done.file.read_text()
    done.env_file.write_text("PEGBOARD_TOKEN=mine\n")
    again = await service.install(unit(service, tmp_path))
    worker = await service.install(unit(service, tmp_path, name="worker", kind="worker"))

    assert len(token) >= 32 and token not in text
    assert values(text, "EnvironmentFile") == [f"-{done.env_file}"]
    assert stat.S_IMODE(worker.env_file.stat().st_mode) == 0o600
    assert done.made_env_file and not again.made_env_file
    assert again.env_file.read_text() == "PEGBOARD_TOKEN=mine\n"
    assert values(worker.env_file.read_text(), "PEGBOARD_TOKEN") == []


async def test_where_systemd_does_not_run_nothing_is_written(
    systemd: Make, tmp_path: Path, own_home: Path
) -> None:
    service = systemd(FAILS="show-environment")
    absent = SystemService(Paths.of(), {"PATH": str(tmp_path)})

    assert "no such thing" in await service.missing()
    assert "no systemctl" in await absent.missing()
    with pytest.raises(Unavailable, match="nothing was installed"):
        await service.install(unit(service, tmp_path))
    assert not (own_home / ".config").exists()


async def test_a_service_that_does_not_start_is_told(systemd: Make, tmp_path: Path) -> None:
    service = systemd(FAILS="restart")

    with pytest.raises(Unavailable, match=r"restart .* failed: no such thing"):
        await service.install(unit(service, tmp_path))


async def test_the_service_of_another_folder_or_program_is_not_replaced(
    systemd: Make, tmp_path: Path, own_home: Path
) -> None:
    service = systemd()
    await service.install(unit(service, tmp_path))
    foreign = own_home / ".config/systemd/user/pegboard-mine.service"
    foreign.write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "other").mkdir()

    with pytest.raises(ConfigError, match="works in another folder"):
        await service.install(unit(service, tmp_path / "other"))
    with pytest.raises(ConfigError, match="not written by Pegboard"):
        await service.install(unit(service, tmp_path, name="mine"))
    with pytest.raises(ConfigError, match="no service is named 'mine'; installed: serve"):
        await service.remove("mine")
    assert [s.name for s in await service.status()] == ["serve"]


@pytest.mark.parametrize(
    ("words", "name", "told"),
    [
        (["--store", "postgresql://u:pass@db/x"], "serve", "password must not stand"),
        (["--model", "a\nExecStartPre=/bin/evil"], "serve", "cannot stand in a unit"),
        ([], "../serve", "service name"),
        ([], "Serve 1", "service name"),
    ],
)
async def test_what_must_not_be_in_a_unit_is_refused(
    systemd: Make, tmp_path: Path, words: list[str], name: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        unit(systemd(), tmp_path, *words, name=name)


def test_the_unit_is_hardened_and_leaves_room_for_the_sandbox(systemd: Make, tmp_path: Path) -> None:
    text = unit(systemd(), tmp_path).text()

    assert values(text, "NoNewPrivileges") == ["yes"] and values(text, "RestrictSUIDSGID") == ["yes"]
    # bubblewrap makes user namespaces; each of these would forbid it.
    for key in ("RestrictNamespaces", "PrivateUsers", "SystemCallFilter", "ProtectProc"):
        assert values(text, key) == []
    assert values(text, "Restart") == ["on-failure"] and values(text, "WantedBy") == ["default.target"]


@pytest.mark.parametrize("name", ["plain", "with space", "100% $HOME \"quoted\" back\\slash 'x'", "ünï"])
async def test_systemd_reads_the_words_as_they_are_meant(systemd: Make, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    made = unit(systemd(), folder, "--model", name)

    [command], [place] = values(made.text(), "ExecStart"), values(made.text(), "WorkingDirectory")

    # Without specifiers and variables, which are doubled, systemd's quotes are those of a shell.
    assert shlex.split(command.replace("%%", "%").replace("$$", "$")) == list(made.argv)
    assert place.replace("%%", "%") == str(folder)
    if (checker := shutil.which("systemd-analyze")) is not None:
        file = tmp_path / made.unit
        file.write_text(made.text())
        said = subprocess.run(
            [checker, "--user", "verify", str(file)], capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        )  # fmt: skip
        assert made.unit not in said.stderr, said.stderr


async def test_a_unit_that_systemd_does_not_accept_is_not_installed(systemd: Make, tmp_path: Path) -> None:
    checker = tmp_path / "programs" / "systemd-analyze"
    checker.write_text('#!/bin/sh\necho "$3:5: Unknown key"\n')
    checker.chmod(0o755)
    service = systemd()

    with pytest.raises(ConfigError, match="Unknown key"):
        await service.install(unit(service, tmp_path))
    assert await service.status() == []
