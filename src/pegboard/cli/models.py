"""`pegboard models`: which models can be used here."""

from __future__ import annotations

from dataclasses import asdict

from pegboard.app.home import App
from pegboard.cli.model_setup import described
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, shorten_error, table
from pegboard.config.models import AcceptedServers, available_models, fetch_weights, find_local_servers
from pegboard.core.errors import BuildError, ConfigError
from pegboard.models.servers import LocalServer


def models(action: str, name: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        match action:
            case "list":
                rows = available_models(app.paths, ports=app.config.model_servers)
                if options.json:
                    print_json(rows)
                else:
                    table([(r["name"], r["status"]) for r in rows], head=("model", "status"))
            case "get" if name:
                print_note(f"fetching {shorten_error(name)} …")
                path = fetch_weights(name, app.paths)
                if options.json:
                    print_json({"name": name, "path": str(path)})
                else:
                    print_line(f'{name} is ready: pegboard run --model gguf:{name} "…"')
            case "accept" if name:
                server = _the_one(app, name)
                AcceptedServers(app.paths).add(server)
                if options.json:
                    print_json(asdict(server) | {"url": server.base_url})
                else:
                    print_line(
                        escape_controls(
                            f"{described(server)}; it is now the default when no model is configured"
                        )
                    )
            case "forget" if name:
                # By what was accepted: a server that has ended must be forgotten too.
                gone = AcceptedServers(app.paths).remove(name)
                if options.json:
                    print_json(gone)
                else:
                    print_line(
                        escape_controls(
                            f"forgotten: {', '.join(gone)}"
                            if gone
                            else f"no accepted server matches {name!r}"
                        )
                    )
            case _:
                raise BuildError(
                    "use: pegboard models list, get smollm2, accept PORT, or forget PORT (a local server)"
                )
    return 0


def _the_one(app: App, name: str) -> LocalServer:
    """The local server that listens at a port or is called so.

    Raises:
        ConfigError: none answers, or several are called so.
    """
    found = find_local_servers(app.config.model_servers)
    named = [s for s in found if name == str(s.port) or name.lower() == s.kind.lower()]
    if len(named) != 1:
        there = ", ".join(f"{s.kind} at port {s.port}" for s in found) or "none"
        raise ConfigError(f"no single local model server matches {name!r}; running: {there}")
    return named[0]
