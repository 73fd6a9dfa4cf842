"""The strongest confinement that works here, never a silent fallback."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.core.errors import Unavailable
from pegboard.shell.sandbox import bubblewrap
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import make, select_backend
from tests.ledger import owes


@pytest.fixture
def confinement(tmp_path: Path) -> Confinement:
    (tmp_path / "ws").mkdir()
    return Confinement(workspace=tmp_path / "ws", state=tmp_path / "state")


@owes("K-31", "G-07")
async def test_bubblewrap_is_chosen_where_it_works_and_says_what_holds(confinement: Confinement) -> None:
    choice = await select_backend(confinement)

    assert choice.backend.name == "bubblewrap"
    assert choice.banner == ""
    assert choice.enforced()["network"] is True
    assert choice.enforced()["files"] is True


@owes("X-58")
async def test_without_any_backend_commands_ask_and_the_banner_says_so(confinement: Confinement) -> None:
    choice = await select_backend(confinement, candidates=("podman-that-is-not-here",))

    assert choice.backend.name == "none"
    assert "without a sandbox" in choice.banner
    assert "podman-that-is-not-here" in choice.banner


@owes("G-07", "X-58")
@pytest.mark.parametrize("options", [{"require": True, "candidates": ("no-such",)}, {"backend": "seatbelt"}])
async def test_what_is_required_and_missing_is_refused(
    confinement: Confinement, options: dict[str, object]
) -> None:
    with pytest.raises(Unavailable):
        await select_backend(confinement, **options)


async def test_a_backend_that_cannot_enforce_is_found_out_by_running_it(
    confinement: Confinement, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)

    problem = await bubblewrap.Bubblewrap(confinement, program=str(broken)).probe()

    assert "No permissions" in problem


async def test_a_missing_program_is_named(confinement: Confinement) -> None:
    assert "bwrap-missing" in await bubblewrap.Bubblewrap(confinement, program="bwrap-missing").probe()


async def test_none_enforces_nothing_and_says_so(confinement: Confinement) -> None:
    none = make("none", confinement)

    assert await none.probe() == ""
    assert none.enforced()["files"] is False
    assert (await select_backend(confinement, backend="none")).backend.name == "none"
    with pytest.raises(Unavailable):
        await select_backend(confinement, backend="none", require=True)
