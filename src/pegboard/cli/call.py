"""`pegboard call`: one tool call, previewed or carried out."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

from pegboard.app.home import App, OneCall
from pegboard.cli.approve import approver_for
from pegboard.cli.options import Options
from pegboard.cli.show import effects_line, note, paint, print_changes, print_json, safe, say
from pegboard.core.errors import BuildError
from pegboard.core.pipeline import Preview
from pegboard.core.tool import Tool


def call(tool: str, values: list[str], *, args: str | None, preview: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        arguments = read_arguments(values, args, app.toolkit.resolve(tool))
        return asyncio.run(_call(app, tool, arguments, preview=preview, options=options))


async def _call(
    app: App, tool: str, arguments: dict[str, Any] | str, *, preview: bool, options: Options
) -> int:
    approver = approver_for(options, on_ask="deny")
    async with app.one_call(approver=approver) as door:
        if preview:
            shown = await door.preview(tool, arguments)
            _show_preview(shown, options)
            if shown.error is not None:
                return 2 if shown.error.code in ("invalid_arguments", "unknown_tool") else 1
            return 3 if shown.decision == "deny" else 0
        for line in app.config.ignored:
            note(f"note: {line}")
        await door.call(tool, arguments)
    return _show(door, options)


def read_arguments(values: list[str], args: str | None, tool: Tool | None) -> dict[str, Any] | str:
    """`k=v` pairs and `--args` as one set of arguments; the schema types the values.

    Raises:
        BuildError: a value without `=`, or both ways used together with the JSON no object.
    """
    if args is not None:
        text = sys.stdin.read() if args == "-" else args
        if not values:
            return text
        loaded: Any = json.loads(text or "{}")
    else:
        loaded = {}
    if not isinstance(loaded, dict):
        raise BuildError(f"--args must be a JSON object to be combined with NAME=VALUE, not {args!r}")
    given = cast("dict[str, Any]", loaded)
    listed = _list_parameters(tool)
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise BuildError(
                f"{value!r} is no NAME=VALUE; write for example path=README.md, or use --args '{{…}}'"
            )
        if name in listed and name in given:
            before: Any = given[name]
            given[name] = [*(cast("list[Any]", before) if isinstance(before, list) else [before]), text]
        else:
            given[name] = text
    for name in listed:
        value: Any = given.get(name)
        if isinstance(value, str) and not value.lstrip().startswith("["):
            given[name] = [value]
    return given


def _list_parameters(tool: Tool | None) -> set[str]:
    """Parameters that take a list: `hosts=a hosts=b` gives two."""
    if tool is None:
        return set()
    properties = tool.schema.get("properties", {})
    return {n for n, p in properties.items() if "array" in json.dumps(p.get("type", p.get("anyOf", "")))}


def call_line(outcome: dict[str, Any]) -> str:
    """`▸ read a.txt  [allow]`: what the call did to the world, and who said so."""
    effects = ", ".join(f"{e['kind']} {safe(e['target'])}" for e in outcome["effects"]) or "no effects"
    return f"▸ {effects}  [{outcome['decision']}]"


def _show_preview(preview: Preview, options: Options) -> None:
    if options.json:
        error = preview.error
        print_json(
            {
                "ok": error is None,
                "text": "" if error is None else str(error),
                "data": None,
                "error": None if error is None else error.to_dict(),
                "effects": [e.to_dict() for e in preview.effects],
                "decision": preview.decision,
                "changes": [c.to_dict() for c in preview.changes],
                "notes": {"preview": True, "rule": preview.rule, "reason": preview.reason},
                "call_id": None,
                "run": None,
            }
        )
        return
    if preview.error is not None:
        say(f"error: {safe(str(preview.error))}")
        return
    say(f"effects   {effects_line(preview.effects)}")
    why = f" ({safe(preview.reason or preview.rule)})" if preview.reason or preview.rule else ""
    say(f"decision  {preview.decision}{why}")
    print_changes(preview.changes)


def _show(door: OneCall, options: Options) -> int:
    outcome = door.outcome()
    if options.json:
        print_json(outcome)
    else:
        result = door.result
        text = result.text
        note(call_line(outcome))
        say(safe(text) if result.ok else paint(safe(str(result.error)), "red"))
        for repair in result.notes.repairs:
            note(f"note: {repair}")
    if outcome["ok"]:
        return 0
    code = outcome["error"]["code"]
    if code == "permission_denied":
        return 3
    return 2 if code in ("invalid_arguments", "unknown_tool") else 4 if code == "suspended" else 1
