"""`pegboard call`: one tool call, previewed or carried out."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, cast

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    Yes,
    exit_with,
    tool_names,
)
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.show import (
    decision_text,
    effects_line,
    escape_controls,
    print_changes,
    print_error,
    print_json,
    print_line,
    print_note,
)
from pegboard.cli.status import LINE
from pegboard.core.effects import Effect
from pegboard.core.errors import BuildError, SuspendedCall
from pegboard.core.schema.json_schema import types_of
from pegboard.core.schema.json_text import NotFinite, loads
from pegboard.core.schema.numerals import Numeral, as_sent, exact
from pegboard.core.secrets.clip import clip
from pegboard.core.text import escape_invisible
from pegboard.core.tool import Tool
from pegboard.services.calls import REFUSALS, Outcome, preview_to_dict

_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}")
_BYTES: Final = re.compile("[\udc80-\udcff]")
OK, FAILED, USAGE, DENIED = 0, 1, 2, 3


def call_command(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Name of the tool.", autocompletion=tool_names)],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments; repeat a name to give a list."),
    ] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Arguments as JSON; - reads standard input.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what the call would do without running it.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="With exec: end with the command's own exit status.")
    ] = False,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Call one tool: pegboard call read_file path=README.md"""

    options = Options(
        workspace=workspace,
        mode=mode,
        policy=policy,
        config=config,
        yes=yes,
        json=json,
        tools_from=tools_from or (),
    )
    exit_with(call(tool, values or [], args=args, preview=preview, check=check, options=options))


def call(
    tool: str, values: list[str], *, args: str | None, preview: bool, check: bool, options: Options
) -> int:
    """Carry out the command; the exit status."""
    if check and tool != "exec":
        raise BuildError(f"--check is for exec, which runs a command; {tool} has no exit status of its own")
    if check and preview:
        raise BuildError("--check needs the command to run; --preview runs nothing")
    act = partial(
        _preview if preview else partial(_call, check=check), tool=tool, values=values, args=args, options=options
    )  # fmt: skip
    return options.run(act)


async def _preview(app: App, *, tool: str, values: list[str], args: str | None, options: Options) -> int:
    arguments = read_arguments(values, args, app.tool(tool))
    preview = await app.calls.preview(tool, arguments, interaction_for(options))
    if options.json:
        print_json(preview_to_dict(preview))
    elif preview.error is not None:
        if preview.effects:
            print_note(f"▸ {effects_line(preview.effects)}  [{preview.decision}]")
        print_error(preview.error.message, preview.error.hint)
    else:
        print_line(f"effects   {effects_line(preview.effects)}")
        why = (
            f" ({escape_controls(preview.reason or preview.rule)})" if preview.reason or preview.rule else ""
        )
        print_line(f"decision  {preview.decision}{why}")
        print_changes(preview.changes)
    if preview.error is not None:
        return status_of(preview.error.code)
    return DENIED if preview.decision == "deny" else OK


async def _call(
    app: App, *, tool: str, values: list[str], args: str | None, check: bool, options: Options
) -> int:
    arguments = read_arguments(values, args, app.tool(tool))
    for line in app.config.ignored:
        print_note(f"note: {line}")
    with LINE.showing(escape_controls(tool)):
        outcome = await app.calls.call(tool, arguments, interaction_for(options))
    if options.json:
        print_json(outcome.to_dict())
    else:
        _show(outcome)
    if outcome.result.error is not None:
        return status_of(outcome.result.error.code)
    return _command_status(outcome.result.data) if check else OK


def _command_status(data: object) -> int:
    """The exit status of the command that `exec` ran, as a shell reports it; 0 where it still runs."""
    status = cast("dict[str, Any]", data).get("exit_code") if isinstance(data, dict) else None
    if not isinstance(status, int):
        print_note("note: the command still runs, so it has no exit status yet")
        return OK
    return 128 - status if status < 0 else status


def status_of(code: str) -> int:
    """The exit status for an error's code. What waits for a person is denied: nobody comes back to a call."""
    if code in ("invalid_arguments", "unknown_tool"):
        return USAGE
    return DENIED if code in REFUSALS or code == "suspended" else FAILED


def read_arguments(values: list[str], args: str | None, tool: Tool | None) -> dict[str, Any] | str:
    """`k=v` pairs and `--args` as one set of arguments; the schema types the values.

    Raises:
        BuildError: a value without `=`, or both ways used together with the JSON no object.
    """
    if args is not None:
        text = _standard_input() if args == "-" else args
        if not values:
            return text
        given = _object(text)
    else:
        given = {}
    aliases: Mapping[str, str] = {} if tool is None else tool.signature.aliases
    admitted = _admitted(tool)
    listed = {name for name, types in admitted.items() if "array" in types and "string" not in types}
    for value in values:
        name, equals, text = _BYTES.sub(_as_listed, value).partition("=")
        if not equals or not name:
            raise BuildError(
                f"expected NAME=VALUE, got {value!r}; for example path=README.md, or use --args '{{…}}'"
            )
        if name in given and aliases.get(name, name) in listed:
            before: Any = given[name]
            given[name] = [*(cast("list[Any]", before) if isinstance(before, list) else [before]), text]
        elif name in given:
            raise BuildError(f"{name} appears twice but takes one value")
        else:
            given[name] = _typed(text, admitted.get(aliases.get(name, name), frozenset()))
    for name, value in given.items():
        if (
            aliases.get(name, name) in listed
            and isinstance(value, str)
            and not value.lstrip().startswith("[")
        ):
            given[name] = [value]
    return cast("dict[str, Any] | str", as_sent(given))


def _typed(text: str, admitted: frozenset[str]) -> object:
    """A value as its parameter's type writes it; what is no such word or number stays text.

    On a command line everything is text, so that reading `3` as a number is no repair to be told.
    """
    if "string" in admitted:
        return text
    if "boolean" in admitted and text in ("true", "false"):
        return text == "true"
    if "null" in admitted and text == "null":
        return None
    if admitted & {"integer", "number"} and _WHOLE.fullmatch(text):
        return int(text)
    if "number" in admitted and _DECIMAL.fullmatch(text):
        number = exact(text)
        return text if isinstance(number, Numeral) else number  # as text it is decoded with every digit
    return text


def _as_listed(byte: re.Match[str]) -> str:
    r"""A byte that is no UTF-8 as listings write it, `\xff`, which file tools take back."""
    return f"\\x{ord(byte[0]) - 0xDC00:02x}"


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _object(text: str) -> dict[str, Any]:
    try:
        # Exactly, or not at all: what is put together from two places must not rest on a guess.
        value: object = loads(text or "{}")
    except (ValueError, RecursionError, NotFinite) as error:
        raise BuildError(f"--args is not valid JSON ({error}): {clip(text, 0, 80)!r}") from None
    if not isinstance(value, dict):
        raise BuildError(
            f"--args must be a JSON object to be combined with NAME=VALUE, got {clip(text, 0, 80)!r}"
        )
    return cast("dict[str, Any]", value)


def _admitted(tool: Tool | None) -> dict[str, frozenset[str]]:
    """JSON types that each parameter takes; none for what takes any. `hosts=a hosts=b` gives a list two."""
    if tool is None:
        return {}
    shape = tool.signature.shape
    properties: dict[str, Any] = shape.get("properties", {})
    return {name: types_of(node, shape) or frozenset[str]() for name, node in properties.items()}


def call_line(outcome: Outcome) -> str:
    """`▸ read a.txt  [allow]`: what the call did to the world, and who said so."""
    effects = ", ".join(escape_invisible(str(Effect(e["kind"], e["target"]))) for e in outcome.effects)
    return f"▸ {effects or 'no effects'}  [{decision_text(outcome.decision, outcome.approver)}]"


def _show(outcome: Outcome) -> None:
    result = outcome.result
    # A call that failed before it could be planned has nothing to tell of effects and decision.
    unplanned = result.error is not None and (
        status_of(result.error.code) == USAGE
        or (not outcome.effects and status_of(result.error.code) == FAILED)
    )
    if not unplanned:
        print_note(call_line(outcome))
    if result.error is None:
        print_line(escape_controls(result.text))
    elif result.error.code == SuspendedCall.default_code:
        # A single call cannot be taken up again, so the answer would have nowhere to go.
        print_error(result.error.message, "No one can answer here. Run it in a terminal.")
    else:
        print_error(result.error.message, result.error.hint)
    for repair in result.notes.repairs:
        print_note(f"note: {escape_controls(repair)}")
