"""The `pegboard` command: its table of commands. A command's file is imported when the command is called."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from pegboard.cli.errors import RootGroup, complete_streams


class Command(NamedTuple):
    """Where a command is, `module:function`, and its line of help; `group` = it is a Typer with commands of its own."""

    place: str
    help: str
    group: bool = False
    settings: Mapping[str, Any] | None = None


_FOREIGN: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""What follows is another program's command line."""

COMMANDS: Final = {
    "call": Command("call:call_command", "Call one tool: pegboard call read_file path=README.md"),
    "run": Command("run:run_command", 'Run an agent on a task: pegboard run "Summarise notes.txt"'),
    "chat": Command("chat:chat_command", "Chat with an agent in the terminal."),
    "tools": Command("tools:tools_command", "List the tools, or show one: pegboard tools edit_file"),
    "runs": Command("runs:runs_command", "List, show, resume, stop, export or import runs."),
    "sessions": Command("sessions:sessions_command", "List, show, search, branch, shorten or delete sessions."),
    "agents": Command("agents:agents_command", "List agents and subagents; show what one did."),
    "worker": Command("worker:worker_command", "Run sessions on waiting messages and due schedules."),
    "serve": Command("serve:serve_command", "Serve this workspace over HTTP, with a token."),
    "acp": Command("acp:acp_command", "Serve an editor: Zed, JetBrains IDEs, Neovim, Emacs."),
    "service": Command(
        "service:service_command", "Install the gateway or a worker as a systemd service.",
        settings=_FOREIGN,
    ),
    "node": Command("node:node_command", "Connect this machine to a gateway as a node."),
    "nodes": Command("node:nodes_command", "List or remove the nodes of this gateway."),
    "replay": Command("replay:replay_command", "Replay a recorded run offline and report any difference."),
    "undo": Command("undo:undo_command", "Undo a call's or run's file changes, keeping later edits."),
    "transactions": Command("transactions:transactions_command", "List, show, apply or discard held-back runs."),
    "audit": Command("audit:audit_command", "Verify or export the history; list hosts commands tried."),
    "store": Command("store:store_command", "Show how much past work is stored, or delete it."),
    "usage": Command("usage:usage_command", "Show tokens, cost and time by model, day, session and tool."),
    "memory": Command("memory:memory_command", "List, show or forget agents' notes for later sessions."),
    "schedules": Command("schedules:schedules_command", "List, add or change scheduled jobs, or show what they did."),
    "channels": Command("channels:channels_command", "List channels to people, show or try one."),
    "outbox": Command("outbox:outbox_command", "List messages to people; retry or drop undelivered ones."),
    "approvals": Command("approvals:approvals_command", "List and answer pending approvals and questions."),
    "grants": Command("grants:grants_command", "List, revoke or add saved approvals."),
    "tokens": Command("tokens:tokens_command", "List, add or revoke tokens for the gateway."),
    "pairing": Command("pairing:pairing_command", "List senders and devices; let them in by their code."),
    "init": Command("config:init_command", "Write a commented settings file to start from."),
    "config": Command("config:config_command", "Show or change settings: pegboard config set model gpt-5"),
    "plugins": Command("plugins:plugins_command", "List, add or remove plug-ins (skills, servers, hooks …)."),
    "trust": Command("trust:trust_command", "Trust a project's config file until it changes."),
    "policy": Command("policy:policy_command", "Explain a decision; test, compare or lint rules."),
    "sandbox": Command(
        "sandbox:sandbox_command", "Run a command in the sandbox: sandbox run -- COMMAND …",
        settings=_FOREIGN,
    ),
    "doctor": Command("doctor:doctor_command", "Check what works here: sandbox, diagnostics, models."),
    "models": Command("models:models_command", "List models, download one, or allow a local model server."),
    "eval": Command("eval:eval_command", "Try tasks with models and check what they did."),
    "check": Command("check:check_command", "Test tools: schema, errors, timeouts, cancellation."),
    "mcp": Command(
        "mcp_commands:mcp", "Serve tools over MCP, or use those of MCP servers.", group=True
    ),
    "help": Command("help:help_command", "Show the help of a command, or find one by a word."),
    "version": Command("version:version_command", "Print the version."),
}  # fmt: skip
"""By their names, as help lists them. A new command is one file and one line here."""

_HELP: Final = "Run AI agents' tool calls safely: preview, permit, sandbox, record and undo each one."
_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


class _Commands(dict[str, Any]):
    """The commands by name, each made from its file when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if isinstance(command, Command):
            command = self[name] = _load(name, command)
        return command

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  That would not load it.

    def items(self) -> Any:
        return {name: self[name] for name in self}.items()


def _load(name: str, command: Command) -> Any:
    from typer.main import get_command_from_info, get_group
    from typer.models import CommandInfo

    module, _, attribute = command.place.partition(":")
    target = getattr(import_module(f"pegboard.cli.{module}"), attribute)
    if command.group:
        group = get_group(target)
        group.name = name
        return group
    from pegboard.cli.help import CommandPage

    info = CommandInfo(
        name=name,
        cls=CommandPage,
        callback=target,
        help=command.help,
        context_settings={**_CONTEXT, **(command.settings or {})},
    )
    return get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


class _Root(RootGroup):
    def __init__(self, **options: Any) -> None:
        options["commands"] = _Commands(COMMANDS)
        super().__init__(**options)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The lines of help are in the table, so that help imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


app = typer.Typer(
    name="pegboard",
    cls=_Root,
    help=_HELP,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
)


def _version(wanted: bool) -> None:
    if wanted:
        from pegboard.cli.version import version_command

        version_command()
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Run AI agents' tool calls safely: preview, permit, sandbox, record and undo each one."""


def main() -> None:
    """The console script; see `RootGroup` for the exit status."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # File names are bytes that people write in UTF-8 whatever the locale says (PEP 540).
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    complete_streams()
    app(prog_name="pegboard")  # However it was started: `python -m pegboard` is the same command.


if __name__ == "__main__":
    main()
