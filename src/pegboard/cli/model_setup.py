"""The model of `run` and `chat`: the configured one, or a local server that the user accepts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pegboard.app.agent import Agent
from pegboard.app.executor import Executor
from pegboard.app.home import App
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, print_line
from pegboard.config.models import AcceptedServers
from pegboard.models.resolve import NoModel
from pegboard.models.servers import LocalServer
from pegboard.ports.model import Model


async def agent_for(
    app: App,
    executor: Executor,
    *,
    model: str | None,
    turns: int | None = None,
    attended: bool,
    read: Callable[[str], Awaitable[str | None]] = read_line,
) -> Agent:
    """`App.agent`; without a model, ask the user whether to use a local server.

    Args:
        attended: whether a user is there to ask; only a user may accept a server.
        read: reads one line after a prompt; None at the end of the input.

    Raises:
        NoModel: no model is configured, and none was accepted.
    """
    try:
        return app.agent(executor, model=model, turns=turns)
    except NoModel as none:
        for server in none.found if attended else ():
            if server.models and await _accepted(server, read):
                AcceptedServers(app.paths).add(server)
                return app.agent(executor, model=model, turns=turns)
        raise


async def _accepted(server: LocalServer, read: Callable[[str], Awaitable[str | None]]) -> bool:
    print_line(f"no model is configured; {described(server)}")
    others = len(server.models) - 1
    more = f" (of {others} more, name one with --model openai:NAME@{server.base_url})" if others else ""
    print_line(f"its first model is {escape_controls(server.models[0])}{more}")
    line = await read("use it from now on? [y/n] ")
    return line is not None and line.strip().lower() in ("y", "yes")


def model_line(model: Model) -> str:
    """Names the model and where it sends data."""
    match model.destination:
        case "nowhere":
            where = "nothing leaves this machine"
        case "this machine":
            where = "runs on this machine"
        case host:
            where = f"sends data to {host}"
    return f"model: {model.name} ({where})"


def described(server: LocalServer) -> str:
    """The server, its address and the owner of its process."""
    owner = "owner of the process unknown" if server.owner is None else f"a process of {_user(server.owner)}"
    return f"{server.kind} answers at {server.base_url}, {owner}"


def _user(uid: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with number {uid}"
