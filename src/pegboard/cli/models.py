"""`pegboard models`: which models can be used here."""

from __future__ import annotations

from pegboard.cli.options import Options
from pegboard.cli.show import note, print_json, say, table
from pegboard.config.models import available_models, fetch_weights
from pegboard.config.paths import Paths
from pegboard.core.errors import BuildError


def models(action: str, name: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    paths = Paths.of()
    match action:
        case "list":
            rows = available_models(paths)
            if options.json:
                print_json(rows)
            else:
                table([(r["name"], r["status"]) for r in rows], head=("model", "status"))
            return 0
        case "get" if name:
            note(f"fetching {name} …")
            path = fetch_weights(name, paths)
            if options.json:
                print_json({"name": name, "path": str(path)})
            else:
                say(f'{name} is ready: pegboard run --model gguf:{name} "…"')
            return 0
        case _:
            raise BuildError("use: pegboard models list, or pegboard models get smollm2")
