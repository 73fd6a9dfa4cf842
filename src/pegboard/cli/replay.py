"""`pegboard replay`: a recorded run again, without model and world; or what two runs did differently."""

from __future__ import annotations

import asyncio
import difflib

from pegboard.app.home import App
from pegboard.cli.options import Options
from pegboard.cli.show import note, paint, print_json, safe, say
from pegboard.core.events import Event
from pegboard.runtime.replay import Divergence, replay, split
from pegboard.runtime.replay_live import behaviour, replay_live


def replay_run(run: str, *, live_model: str | None, against: str | None, options: Options) -> int:
    """Carry out the command; the exit status is 1 where something differs."""
    with options.open() as app:
        row = app.run_row(run)
        events = app.session_events(row.stream)
        if against is not None:
            other = app.run_row(against)
            theirs = split(app.session_events(other.stream), other.id)[1]
            return _compare(split(events, row.id)[1], theirs, row.id, other.id, options)
        if live_model is not None:
            return asyncio.run(_live(app, events, row.id, live_model, options))
        try:
            done = asyncio.run(replay(events, row.id))
        except Divergence as differs:
            if options.json:
                print_json(
                    {"run": row.id, "same": False, "event": differs.place, "recorded": differs.expected,
                     "replayed": differs.got}
                )  # fmt: skip
            else:
                note(paint(f"run {row.id}: {safe(str(differs))}", "red"))
            return 1
    if options.json:
        print_json({"run": row.id, "same": True, "events": done.events})
    else:
        ended = "as it went" if done.finished is not None else "up to where its process ended"
        say(f"run {row.id} replays exactly {ended}: {done.events} events")
    return 0


async def _live(app: App, events: list[Event], run: str, model: str, options: Options) -> int:
    async with app.executor() as door:
        agent = app.agent(door, model=model)
        opened = agent.model()
        note(f"model: {opened.name}; your data goes to {opened.destination}; results are the recorded ones")
        try:
            now = await replay_live(
                events, run, model=opened, instructions=agent.instructions, toolkit=app.toolkit,
                limits=agent.limits,
            )  # fmt: skip
        finally:
            await opened.aclose()
    return _compare(split(events, run)[1], now, run, f"{run} with {model}", options)


def _compare(one: list[Event], two: list[Event], name: str, other: str, options: Options) -> int:
    lines = list(difflib.unified_diff(behaviour(one), behaviour(two), name, other, lineterm=""))
    if options.json:
        print_json({"run": name, "against": other, "same": not lines, "diff": lines})
    elif not lines:
        say(f"{name} and {other} did the same")
    for line in [] if options.json else lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        say(paint(safe(line), colour) if colour else safe(line))
    return 1 if lines else 0
