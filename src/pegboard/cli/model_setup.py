"""Offering a local model server where no model is named and none is there."""

from __future__ import annotations

import pwd

from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, print_line
from pegboard.models.servers import LocalServer


async def accept_server(server: LocalServer) -> bool:
    """Ask the person whether a model server of this machine may be used from now on."""
    print_line(f"no model is configured; {described(server)}")
    others = len(server.models) - 1
    more = f" (of {others} more, name one with --model openai:NAME@{server.base_url})" if others else ""
    print_line(f"its first model is {escape_controls(server.models[0])}{more}")
    line = await read_line("use it from now on? [y/n] ")
    return line is not None and line.strip().lower() in ("y", "yes")


def described(server: LocalServer) -> str:
    """The server, its address and the owner of its process."""
    owner = "owner of the process unknown" if server.owner is None else f"a process of {_user(server.owner)}"
    return f"{server.kind} answers at {server.base_url}, {owner}"


def _user(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with number {uid}"
