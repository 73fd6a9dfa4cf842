"""`pegboard doctor`: what this machine can enforce, and what is there."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pegboard import __version__
from pegboard.app.home import App
from pegboard.app.shell import choose_backend
from pegboard.cli.options import Options
from pegboard.cli.show import paint, print_json, print_line
from pegboard.config.models import available_models
from pegboard.config.paths import refused_workspace
from pegboard.core.errors import ToolError
from pegboard.store.opening import StoreError

EXTRAS = {
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "gemini": ("google.genai",),
    "gguf": ("xllamacpp", "openai"),
    "documents": ("pypdfium2", "docx", "openpyxl", "pptx"),
}
PROGRAMS = {
    "bwrap": "the sandbox for commands (Debian package bubblewrap)",
    "git": "repositories",
    "rg": "faster search (Debian package ripgrep)",
}


def doctor(*, options: Options) -> int:
    """Carry out the command; the exit status is 0 unless a required sandbox does not work."""
    with options.open() as app:
        report = _report(app)
    if options.json:
        print_json(report)
    else:
        _print(report)
    return 1 if report["sandbox"].get("error") and app.config.require_sandbox else 0


def _report(app: App) -> dict[str, Any]:
    refused = refused_workspace(app.workspace, app.paths) if app.named_workspace is None else None
    with tempfile.TemporaryDirectory(prefix="pegboard-doctor-") as scratch:
        # What can be enforced is found by running something, and nothing may run over a refused folder.
        sandbox = _sandbox(app, Path(scratch).resolve() if refused else app.workspace)
    return {
        "pegboard": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "workspace": str(app.workspace),
        "refused": refused or "",
        "mode": app.policy.mode,
        "config": [str(p) for p in app.config.files],
        "sandbox": sandbox,
        "programs": {name: shutil.which(name) for name in PROGRAMS},
        "extras": {name: all(_has(m) for m in modules) for name, modules in EXTRAS.items()},
        "models": available_models(app.paths, ports=app.config.model_servers),
        "history": _history(app),
        "folders": {
            "config": str(app.paths.config), "state": str(app.paths.state), "data": str(app.paths.data),
            "cache": str(app.paths.cache),
        },
    }  # fmt: skip


def _history(app: App) -> dict[str, Any]:
    """Whether the history can be kept: without it no call is made."""
    found: dict[str, Any] = {"error": "", "damaged": "", "kept": [str(p) for p in app.damaged_histories()]}
    try:
        found["damaged"] = app.check_history()
    except StoreError as error:
        found["error"] = str(error)
    there = next(p for p in (app.paths.state, *app.paths.state.parents) if p.exists())
    if not os.access(there, os.W_OK):
        found["error"] = f"{there} cannot be written; XDG_STATE_HOME can name a folder that can"
    return found


def _sandbox(app: App, folder: Path) -> dict[str, Any]:
    try:
        choice = choose_backend(app.policy, folder, app.paths, app.config)
        return {
            "backend": choice.backend.name,
            "enforced": dict(choice.enforced()),
            "rejected": dict(choice.rejected),
            "limits": dataclasses.asdict(app.config.confinement.limits),
        }
    except ToolError as error:
        return {"backend": "none", "enforced": {}, "rejected": {}, "error": str(error)}


def _amount(name: str, value: int) -> str:
    if not value:
        return "unlimited"
    if name.endswith("_s"):
        return f"{value:,} s"
    return f"{value / (1 << 20):,.4g} MiB" if name.endswith("_bytes") else f"{value:,}"


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _print(report: dict[str, Any]) -> None:
    print_line(f"pegboard {report['pegboard']}, Python {report['python']}, {report['platform']}")
    print_line(f"workspace {report['workspace']}, mode {report['mode']}")
    if report["refused"]:
        print_line(f"  {report['refused']}: pass --workspace to work here")
    sandbox = report["sandbox"]
    colour = "red" if sandbox["backend"] == "none" else "green"
    print_line(paint(f"\nsandbox: {sandbox['backend']}", colour))
    for name, reason in sandbox["rejected"].items():
        print_line(f"  {name} does not work here: {reason}")
    if sandbox.get("error"):
        print_line(f"  {sandbox['error']}")
    if sandbox.get("error"):
        print_line("  commands are refused until it works")
    elif sandbox["backend"] == "none":
        print_line("  every command needs approval; install bubblewrap for a sandbox")
    for what, how in sandbox["enforced"].items():
        mark = "no" if how is False else "yes" if how is True else str(how)
        print_line(f"  {what}: {mark}")
    if sandbox["backend"] != "none" and (limits := sandbox.get("limits")):
        said = ", ".join(
            f"{name.removesuffix('_bytes')} {_amount(name, value)}" for name, value in limits.items()
        )
        print_line(f"  limits per command: {said} (set them in [sandbox])")
    print_line("\nprograms")
    for name, path in report["programs"].items():
        print_line(f"  {name}: {path or 'missing, ' + PROGRAMS[name]}")
    print_line("\nextras")
    for name, there in report["extras"].items():
        print_line(
            f"  {name}: {'installed' if there else f'missing; pip install {chr(39)}pegboard[{name}]{chr(39)}'}"
        )
    if report["history"]["error"]:
        print_line(paint(f"\nhistory: {report['history']['error']}", "red"))
    if report["history"]["damaged"]:
        print_line(paint(f"\nhistory: damaged ({report['history']['damaged']})", "red"))
    for kept in report["history"]["kept"]:
        print_line(f"\nhistory: found damaged and kept as it was: {kept}")
    print_line("\nmodels")
    for row in report["models"]:
        print_line(f"  {row['name']}: {row['status']}")
    sys.stdout.flush()
