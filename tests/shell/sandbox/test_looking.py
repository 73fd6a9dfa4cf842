"""Nothing that a command may ask for inside the sandbox is given: some eighty things of /proc, the kernel and the net."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from tests.ledger import owes
from tests.shell.sandbox.looking import look
from tests.shell.sandbox.places import as_ordinary_user, copy_source, open_folder, reachable_python

LOOKER = Path(__file__).with_name("look_inside.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the looker knows the calls of x86-64"),
]


@owes("G-07", "X-58", "N-67")
async def test_a_look_around_as_we_are_is_given_nothing() -> None:
    with open_folder() as folder:
        assert (await look(folder, LOOKER)).split("\n") == ["", "looked", ""]


@owes("G-07", "X-58", "N-67")
def test_a_look_around_as_an_ordinary_user_is_given_nothing() -> None:
    with open_folder() as folder:
        copy_source(folder)
        for script in ("looking.py", "look_inside.py"):
            shutil.copy(LOOKER.with_name(script), folder)

        done = as_ordinary_user([reachable_python(), "looking.py", str(folder)], folder)

        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["looked"]
