"""`pegboard models`: which models can be used here."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.model_setup import described
from pegboard.cli.option_types import ConfigFile, Json, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, shorten_error, table
from pegboard.core.errors import BuildError


def models_command(
    action: Annotated[str, typer.Argument(help="list, get, accept or forget.")] = "list",
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A model, or a server's port or kind.")
    ] = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List models, download one, or allow a local model server."""

    exit_with(models(action, name, options=Options(config=config, json=json)))


def models(action: str, name: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    return options.run(partial(_models, action=action, name=name, options=options))


async def _models(app: App, *, action: str, name: str | None, options: Options) -> int:
    match action:
        case "list":
            rows = await app.settings.models()
            shown, text = rows, ""
            if not options.json:
                table([(r["name"], r["status"]) for r in rows], head=("model", "status"))
                return 0
        case "get" if name:
            print_note(f"fetching {shorten_error(name)} …")
            path = await app.settings.fetch_model(name)
            shown = {"name": name, "path": str(path)}
            text = f'{name} is ready: pegboard run --model gguf:{name} "…"'
        case "accept" if name:
            server = await app.settings.accept_server(name)
            shown = asdict(server) | {"url": server.base_url}
            text = f"{described(server)}; it is now the default when no model is configured"
        case "forget" if name:
            shown = await app.settings.forget_server(name)
            text = f"forgotten: {', '.join(shown)}" if shown else f"no accepted server matches {name!r}"
        case _:
            raise BuildError(
                "use: pegboard models list, get smollm2, accept PORT, or forget PORT (a local server)"
            )
    if options.json:
        print_json(shown)
    else:
        print_line(escape_controls(text))
    return 0
