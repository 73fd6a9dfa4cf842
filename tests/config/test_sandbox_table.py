"""`[sandbox]`: the backend, a container's image and the limits of a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from pegboard.process.limits import GIB, MIB, ResourceLimits
from tests.ledger import owes


def written(folder: Path, text: str) -> Path:
    file = folder / "pegboard.toml"
    file.write_text(text)
    return file


@owes("D-59", "X-58")
def test_every_limit_of_a_command_can_be_set(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[sandbox]\nbackend = "podman"\nrequire = true\nimage = "debian:12"\nruntime = "runc"\n'
        'memory_bytes = "2GiB"\nprocesses = 64\nfile_bytes = 1048576\ncpu_s = 0\nopen_files = 128\n',
    )

    config = load_config(Paths.of({"HOME": str(tmp_path)}), None, file=file)

    assert config.confinement.limits == ResourceLimits(
        memory_bytes=2 * GIB, processes=64, file_bytes=MIB, cpu_s=0, open_files=128
    )
    assert (config.sandbox, config.require_sandbox) == ("podman", True)
    assert (config.confinement.image, config.confinement.runtime) == ("debian:12", "runc")


def test_a_file_of_authorities_is_found_from_the_settings_folder_or_home(
    tmp_path: Path, own_home: Path
) -> None:
    paths = Paths.of({"HOME": str(tmp_path)})

    beside = load_config(paths, None, file=written(tmp_path, '[sandbox]\nca_file = "own.pem"\n'))
    home = load_config(paths, None, file=written(tmp_path, '[sandbox]\nca_file = "~/own.pem"\n'))

    assert beside.confinement.ca_file == str(tmp_path / "own.pem")
    assert home.confinement.ca_file == str(own_home / "own.pem")


def test_a_backends_name_alone_is_enough(tmp_path: Path) -> None:
    config = load_config(
        Paths.of({"HOME": str(tmp_path)}), None, file=written(tmp_path, 'sandbox = "bubblewrap"')
    )

    assert config.sandbox == config.confinement.backend == "bubblewrap"
    assert config.confinement.limits == ResourceLimits()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("memory_bytes = -1", "sandbox.memory_bytes must be bytes or a size"),
        ("memory_bytes = '1 potato'", "sandbox.memory_bytes must be bytes or a size"),
        ("memory_bytes = 1.5", "not 1.5"),
        ("memory_bytes = 100", "sandbox.memory_bytes is 100: at least 4,194,304"),
        ("file_bytes = '9999999999TiB'", "sandbox.file_bytes is too large"),
        ("processes = true", "sandbox.processes must be a whole number"),
        ("processes = '64'", "sandbox.processes must be a whole number"),
        ("processes = 1", "at least 8"),
        ("cpu_s = 'soon'", "sandbox.cpu_s must be a whole number"),
        ("backend = 'jail'", "sandbox.backend 'jail' is none of auto, bubblewrap"),
        ("image = '--privileged'", "sandbox.image must be a name"),
        ("ca_file = true", "sandbox.ca_file must be the path of a file"),
        ("require = 'yes'", "sandbox.require must be true or false"),
        ("memory = '1GiB'", "unknown key sandbox.memory; did you mean 'memory_bytes'?"),
    ],
)
def test_a_wrong_value_names_file_and_key(tmp_path: Path, line: str, said: str) -> None:
    file = written(tmp_path, f"[sandbox]\n{line}\n")

    with pytest.raises(ConfigError) as caught:
        load_config(Paths.of({"HOME": str(tmp_path)}), None, file=file)

    assert said in str(caught.value)
    assert str(file) in str(caught.value)
