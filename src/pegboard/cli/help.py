"""Help: the pages of `--help`, in a reader's words, and `pegboard help WORD`."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pegboard.cli.option_types import exit_with
from pegboard.cli.show import print_line, print_note
from pegboard.core.errors import BuildError
from pegboard.core.schema.problems import did_you_mean, nearest


class CommandPage(TyperCommand):
    """A command whose help names arguments and values by their metavars, without types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] TOOL [NAME=VALUE]...`."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return ["[OPTIONS]", *(_usage(argument) for argument in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments and the options, each with its line."""
        shown = [p for p in self.get_params(ctx) if not getattr(p, "hidden", False)]
        arguments = [(_usage(p), _line(p)) for p in shown if p.param_type_name == "argument"]
        options = [(_option(p), _line(p)) for p in shown if p.param_type_name == "option"]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _label(param: Any) -> str:
    label = param.metavar or param.name.upper()
    # Whether it may be left out is told by the signature.
    return label[1:-1] if label.startswith("[") and label.endswith("]") else label


def _usage(argument: Any) -> str:
    shown = _label(argument) if argument.required else f"[{_label(argument)}]"
    return f"{shown}..." if argument.nargs == -1 or argument.multiple else shown


def _option(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {_label(option)}"


def _line(param: Any) -> str:
    default = param.default
    told = (
        isinstance(default, str | int)
        and not isinstance(default, bool)
        and "default" not in (param.help or "")
    )
    return f"{param.help or ''} (default: {default})" if told and default != "" else param.help or ""


def help_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="A command, or a word to look for.")
    ] = None,
) -> None:
    """Show the help of a command, or find one by a word."""
    exit_with(_help(ctx.find_root(), words or []))


def _help(root: Any, words: list[str]) -> int:
    command, context, rest = root.command, root, list(words)
    while rest and (found := getattr(command, "commands", {}).get(rest[0])) is not None:
        name = rest.pop(0)
        context = type(context)(found, info_name=name, parent=context, **found.context_settings)
        command = found
    if not rest or (command is not root.command and not hasattr(command, "commands")):
        print_line(command.get_help(context))  # `help config set`: the page of config has its actions.
        return 0
    return _search(root, " ".join(rest).lower(), " ".join(words[: -len(rest)]))


def _search(root: Any, word: str, above: str) -> int:
    """The commands whose line of help has a word, else those whose page has it.

    Raises:
        BuildError: there are none.
    """
    from pegboard.cli.main import COMMANDS
    from pegboard.tools import TOOLS

    if word in TOOLS:
        print_note(f"{word} is a tool; see: pegboard tools {word}")
        return 0
    found = [] if above else [name for name, command in COMMANDS.items() if word in command.help.lower()]
    if not found and not above and not nearest(word, COMMANDS, cutoff=0.75):
        found = [name for name in COMMANDS if _names(root, name, word)]
    if not found:
        meant = did_you_mean(word, COMMANDS, otherwise="; see: pegboard --help")
        raise BuildError(f"no command is called {' '.join([above, word]).strip()!r}{meant}")
    width = max(map(len, found))
    for name in found:
        print_line(f"{name:{width}}  {COMMANDS[name].help}")
    return 0


def _names(root: Any, name: str, word: str) -> bool:
    """Whether the page of a command has a word that begins so."""
    command = root.command.commands[name]
    page = command.get_help(type(root)(command, info_name=name, parent=root))
    return re.search(rf"(?<![\w'-]){re.escape(word)}|--{re.escape(word)}", page.lower()) is not None
