"""`pegboard doctor`: what this machine can enforce, and what is there."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, print_json, print_line
from pegboard.services.settings import PROGRAMS


def doctor_command(workspace: Workspace = None, config: ConfigFile = None, json: Json = False) -> None:
    """Check the sandbox, programs, extras and models on this machine."""
    exit_with(doctor(options=Options(workspace=workspace, config=config, json=json)))


def doctor(*, options: Options) -> int:
    """Carry out the command; the exit status is 0 unless a required sandbox does not work."""
    return options.run(partial(_doctor, options=options))


async def _doctor(app: App, *, options: Options) -> int:
    report = await app.settings.show()
    if options.json:
        print_json(report)
    else:
        _print(report)
    return 1 if report["sandbox"].get("error") and app.config.require_sandbox else 0


def _amount(name: str, value: int) -> str:
    if not value:
        return "unlimited"
    if name.endswith("_s"):
        return f"{value:,} s"
    return f"{value / (1 << 20):,.4g} MiB" if name.endswith("_bytes") else f"{value:,}"


def _print_diagnostics(report: dict[str, Any]) -> None:
    """Language servers and checkers: those that are there, and those that the settings name and that are not."""
    print_line("\ndiagnostics" if report["enabled"] else "\ndiagnostics: off")
    for name, path in report["programs"].items():
        used = "used after writes" if name in report["used"] else "not used after writes"
        if path or name in report["used"]:
            print_line(f"  {name}: {path or 'missing'}, {used}")
    if not report["used"]:
        print_line("  python: compiled after writes; name others in [diagnostics.files]")


def _print(report: dict[str, Any]) -> None:
    print_line(f"pegboard {report['pegboard']}, Python {report['python']}, {report['platform']}")
    print_line(f"workspace {report['workspace']}, mode {report['mode']}")
    for line in report["ignored"]:
        print_line(escape_controls(line))
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
    _print_diagnostics(report["diagnostics"])
    if report["browser"]["program"]:
        confined = report["browser"]["sandbox"]
        print_line(paint(f"\nbrowser sandbox: {'yes' if confined else 'no'}", "green" if confined else "red"))
        if not confined:
            print_line(f"  {report['browser']['reason']}; web pages run with the rights of Pegboard")
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
