"""What a machine can do as a node: notify, screenshot, location, run."""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pegboard.core.errors import ConfigError, InvalidArguments, TooLarge, Unavailable
from pegboard.core.text import sanitise
from pegboard.process.child import run_small
from pegboard.services.calls import Calls
from pegboard.services.node_client import Action
from pegboard.services.runtime import Interaction

MAX_PICTURE: Final = 3_000_000
"""Bytes that fit into a message."""
_PICTURE_S: Final = 20.0


class ScreenshotProgram(NamedTuple):
    """A program that takes a picture of the screen: the variable that its display is named by, and its arguments."""

    program: str
    display: str
    arguments: tuple[str, ...]


PROGRAMS: Final = (
    ScreenshotProgram("grim", "WAYLAND_DISPLAY", ("-t", "jpeg", "{file}")),
    ScreenshotProgram("spectacle", "WAYLAND_DISPLAY", ("-b", "-n", "-o", "{file}")),
    ScreenshotProgram("gnome-screenshot", "DISPLAY", ("-f", "{file}")),
    ScreenshotProgram("scrot", "DISPLAY", ("-o", "{file}")),
    ScreenshotProgram("maim", "DISPLAY", ("{file}",)),
    ScreenshotProgram("import", "DISPLAY", ("-window", "root", "{file}")),
    ScreenshotProgram("screencapture", "", ("-x", "-t", "jpg", "{file}")),
)
"""The first one that is installed and whose display is there takes the picture."""


def machine_actions(
    environment: Mapping[str, str],
    *,
    notify: Callable[[str], None],
    calls: Calls,
    interaction: Interaction,
    location: tuple[float, float] | None,
) -> dict[str, Action]:
    """The actions that this machine has the means for.

    Args:
        environment: names its display and its programs.
        notify: shows a text at the terminal.
        calls: carries out commands under this machine's own policy.
        interaction: who answers where that asks.
        location: latitude and longitude in degrees as its owner gave them; None = not known.
    """
    actions: dict[str, Action] = {
        "notify": partial(show_notice, environment, notify),
        "run": partial(run_command, calls, interaction),
    }
    if (found := screenshot_program(environment)) is not None:
        actions["screenshot"] = partial(take_screenshot, environment, found)
    if location is not None:
        actions["location"] = partial(tell_location, location)
    return actions


def screenshot_program(environment: Mapping[str, str]) -> ScreenshotProgram | None:
    """What takes a picture of the screen here; None if nothing does."""
    path = environment.get("PATH", "")
    for one in PROGRAMS:
        if (not one.display or environment.get(one.display)) and shutil.which(one.program, path=path):
            return one
    return None


async def take_screenshot(
    environment: Mapping[str, str], found: ScreenshotProgram, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A picture of the whole screen.

    Raises:
        Unavailable: the program made none.
        TooLarge: it has over MAX_PICTURE bytes.
    """
    with tempfile.TemporaryDirectory(prefix="pegboard-screen-") as folder:
        file = Path(folder) / "screen.jpg"
        argv = [found.program, *(a.replace("{file}", str(file)) for a in found.arguments)]
        try:
            status, said = await run_small(argv, dict(environment), timeout_s=_PICTURE_S)
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"{found.program} took no picture: {error}") from None
        if status or not file.is_file():
            text = said.decode("utf-8", "replace").strip()[:200]
            raise Unavailable(f"{found.program} took no picture: {text or f'it ended with {status}'}")
        data = file.read_bytes()
    if len(data) > MAX_PICTURE:
        raise TooLarge(f"the picture has {len(data):,} bytes, more than {MAX_PICTURE:,}")
    return {"data": base64.b64encode(data).decode("ascii")}


async def show_notice(
    environment: Mapping[str, str], notify: Callable[[str], None], values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Show a text at the terminal, and as a notice of the desktop where there is one.

    Raises:
        InvalidArguments: the text is empty.
    """
    title, text = (sanitise(str(values.get(key) or ""))[:2000].strip() for key in ("title", "text"))
    if not text:
        raise InvalidArguments("the text is empty")
    notify(f"notice from the gateway: {title + ': ' if title else ''}{text}")
    shown = ["terminal"]
    program = shutil.which("notify-send", path=environment.get("PATH", ""))
    if program and any(environment.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY")):
        try:
            status, _ = await run_small(
                [program, "--app-name=Pegboard", "--", title or "Pegboard", text],
                dict(environment),
                timeout_s=5,
            )
        except (OSError, TimeoutError):
            status = 1
        shown += [] if status else ["desktop"]
    return {"shown": shown}


async def tell_location(location: tuple[float, float], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where the machine stands, as its owner said."""
    return {
        "latitude": location[0],
        "longitude": location[1],
        "accuracy_m": None,
        "source": "settings of the node",
    }


async def run_command(calls: Calls, interaction: Interaction, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run a command as a call of `exec` here: policy, approval, sandbox, record and undo are this machine's.

    Raises:
        ToolError: it was refused here, or did not run.
    """
    given = {"command": values.get("command"), "timeout": values.get("timeout") or 60}
    outcome = await calls.call("exec", given, interaction)
    if (error := outcome.result.error) is not None:
        raise error
    return {"text": outcome.result.text, "data": _plain(outcome.result.data), "run": outcome.run}


def _plain(data: Any) -> Any:
    """The facts of a result without what is large or not JSON."""
    if not isinstance(data, dict):
        return None
    kept = ("exit_code", "timed_out", "truncated")
    return {k: v for k, v in data.items() if k in kept}  # pyright: ignore[reportUnknownVariableType]


def read_location(text: str) -> tuple[float, float]:
    """Latitude and longitude of `LAT,LON`, in degrees.

    Raises:
        ConfigError: it is no such pair.
    """
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--location {text!r}: write LAT,LON in degrees, such as 52.52,13.40") from None
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ConfigError(f"--location {text!r}: latitude is at most 90 degrees, longitude at most 180")
    return latitude, longitude
