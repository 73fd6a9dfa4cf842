"""`pegboard sessions`: the conversations that are kept."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Final

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, pluralise, print_json, print_line, print_note, table
from pegboard.core.errors import BuildError
from pegboard.ports.sessions import SessionEntry


def sessions_command(
    action: Annotated[
        str, typer.Argument(help="list, show, search, branch, compact, rename or delete.")
    ] = "list",
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A session's key or label; for search, words.")
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="For branch, the new key; for rename, the label.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="RUN", help="For branch: go up to the end of this run.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="How many sessions, messages or matches to show.")
    ] = 50,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List, show, search, branch, compact, rename or delete sessions."""
    options = Options(workspace=workspace, config=config, json=json)
    if action not in _ACTIONS:
        raise BuildError(f"sessions {action!r}: use {', '.join(_ACTIONS)}")
    act, needs = _ACTIONS[action]
    if not key and needs:
        raise BuildError(f"sessions {action} needs {needs}")
    if at and action != "branch":
        raise BuildError("--at is for sessions branch")
    if action == "branch" and not new:
        raise BuildError(f"sessions branch needs {needs}")
    exit_with(options.run(partial(act, key=key or "", new=new or "", at=at or "", limit=limit, json=json)))


async def _list(app: App, *, limit: int, json: bool, **_: str) -> int:
    rows = (await app.sessions.rows())[:limit]
    if json:
        for row in rows:
            print_json(asdict(row))
    elif not rows:
        print_line("no sessions yet")
    else:
        table(
            [
                (
                    escape_controls(r.key), escape_controls(r.label) or "-",
                    f"{r.status}, {r.waiting} waiting" if r.waiting else r.status, str(r.messages),
                    time.strftime("%Y-%m-%d %H:%M", time.localtime(r.last_active)),
                    escape_controls(r.task.replace("\n", " "))[:50],
                )
                for r in rows
            ],
            head=("session", "label", "status", "messages", "last used", "began with"),
        )  # fmt: skip
    return 0


async def _show(app: App, *, key: str, limit: int, json: bool, **_: str) -> int:
    row = await app.sessions.find(key)
    history = await app.sessions.messages(row.key, limit=limit)
    if json:
        print_json({**asdict(row), "total": history.total, "dropped": history.dropped,
                    "history": [asdict(entry) for entry in history.entries]})  # fmt: skip
        return 0
    label = f"  @{row.label}" if row.label else ""
    print_line(paint(escape_controls(f"{row.key}{label}  {row.status}"), "bold"))
    if row.parent or row.branched_from:
        how = f"started by {row.parent}" if row.parent else f"branched from {row.branched_from}"
        print_line(escape_controls(how))
    if (before := history.total - len(history.entries)) > 0:
        print_note(f"{pluralise(before, 'earlier message')}; see them with --limit {history.total}")
    for entry in history.entries:
        _print_entry(entry)
    for line in history.dropped:
        print_note(f"compacted: {line}")
    if row.waiting:
        print_note(f"{pluralise(row.waiting, 'message')} waiting; run it with: pegboard worker")
    return 0


async def _search(app: App, *, key: str, limit: int, json: bool, **_: str) -> int:
    found = await app.sessions.search(key, limit=limit)
    for entry in found:
        if json:
            print_json(asdict(entry))
        else:
            print_line(paint(escape_controls(f"{entry.session}  {entry.run}"), "bold"))
            _print_entry(entry)
    if not found:
        print_note(f"no message has {key!r}")
    return 0


def _print_entry(entry: SessionEntry) -> None:
    match entry.role:
        case "user":
            by = "" if entry.by == "user" else f"{entry.by}: "
            print_line(f"> {by}{escape_controls(entry.text)}")
        case "tool":
            first, _, rest = escape_controls(entry.text).partition("\n")
            whole = f"  [{entry.spill}]" if entry.spill else ""
            print_line(paint(f"  {entry.by}: {first[:200]}{' …' if rest else ''}{whole}", "dim"))
        case _:
            print_line(escape_controls(entry.text))


async def _branch(app: App, *, key: str, new: str, at: str, json: bool, **_: object) -> int:
    row = await app.sessions.find(key)
    runs = await app.sessions.branch(row.key, new, at=at)
    if json:
        print_json({"session": new, "branched_from": row.key, "runs": runs})
    else:
        print_line(f"{new} has the first {pluralise(runs, 'run')} of {row.key}")
    return 0


async def _compact(app: App, *, key: str, json: bool, **_: object) -> int:
    row = await app.sessions.find(key)
    done = await app.sessions.compact(row.key)
    if json:
        print_json({"session": row.key} if done is None else {"session": row.key, **asdict(done)})
    elif done is None or not done.dropped:
        print_line(f"{row.key} is short already")
    else:
        print_line(f"{row.key}: about {done.before_tokens} tokens are now {done.after_tokens}")
        for line in done.dropped:
            print_line(f"  {line}")
    return 0


async def _rename(app: App, *, key: str, new: str, json: bool, **_: object) -> int:
    row = await app.sessions.find(key)
    await app.sessions.rename(row.key, new)
    if json:
        print_json({"session": row.key, "label": new})
    else:
        print_line(f"{row.key} is @{new}" if new else f"{row.key} has no label")
    return 0


async def _delete(app: App, *, key: str, json: bool, **_: object) -> int:
    row = await app.sessions.find(key)
    await app.sessions.delete(row.key)
    if json:
        print_json({"session": row.key, "deleted": True})
    else:
        print_line(f"{row.key} is deleted; pegboard audit verify still covers its records")
    return 0


_ACTIONS: Final[dict[str, tuple[Callable[..., Awaitable[int]], str]]] = {
    "list": (_list, ""),
    "show": (_show, "a session; see: pegboard sessions"),
    "search": (_search, "words to look for"),
    "branch": (_branch, "a session and the key of the new one"),
    "compact": (_compact, "a session; see: pegboard sessions"),
    "rename": (_rename, "a session and its label"),
    "delete": (_delete, "a session; see: pegboard sessions"),
}
"""What each action does, and what it needs; empty = nothing."""
