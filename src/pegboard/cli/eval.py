"""`pegboard eval`: try the tasks of a file with models, and check what they did."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, PolicyFile, ToolsFrom, Workspace, Yes, exit_with
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.show import escape_controls, paint, print_json, print_line, print_note, table
from pegboard.cli.status import LINE
from pegboard.services.evals import EvalResult, write_recording


def eval_command(
    file: Annotated[Path, typer.Argument(help="A TOML file of tasks.")],
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Instead of the file's models; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the recording of each run here.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the workspaces of the tries.")] = False,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Try tasks with models and check what they did."""

    options = Options(
        workspace=workspace, policy=policy, config=config, yes=yes, json=json, tools_from=tools_from or ()
    )  # fmt: skip
    exit_with(options.run(partial(_eval, file=file, models=model or (), out=out, keep=keep, options=options)))


async def _eval(
    app: App, *, file: Path, models: list[str] | tuple[()], out: Path | None, keep: bool, options: Options
) -> int:
    """Carry out the command; 1 if some try did not pass."""
    done: list[EvalResult] = []
    with LINE.showing("evaluating"):
        tries = app.evals.run(file, models=models, interaction=interaction_for(options), keep=keep)
        async for result in tries:
            done.append(result)
            if out is not None:
                write_recording(result, out)
            if options.json:
                print_json(result.to_dict())
            else:
                mark = paint("failed", "red") if result.failures else paint("passed", "green")
                print_note(f"{mark}  {escape_controls(f'{result.task}  {result.model}')}")
    failed = [result for result in done if result.failures]
    if not options.json:
        table([_row(result) for result in done], head=_HEAD)
        for result in failed:
            print_line(escape_controls(f"\n{result.task} with {result.model} ({result.run})"))
            for why in result.failures:
                print_line(escape_controls(f"  {why}"))
            if result.folder is not None:
                print_line(escape_controls(f"  workspace: {result.folder}"))
        print_line(f"\n{len(done) - len(failed)} of {len(done)} passed")
    return 1 if failed else 0


_HEAD = ("task", "model", "result", "turns", "tokens", "cost", "seconds", "run")


def _row(result: EvalResult) -> tuple[str, ...]:
    usage = result.usage
    return (
        escape_controls(result.task),
        escape_controls(result.model),
        "failed" if result.failures else "passed",
        str(usage.requests),
        str(usage.input_tokens + usage.output_tokens),
        "-" if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
        f"{result.seconds:.1f}",
        result.run,
    )
