"""Slash commands of a session in an editor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pegboard.app.app import App
from pegboard.core.errors import PegboardError
from pegboard.files.undo import UndoReport
from pegboard.gateway.acp.calls import fenced
from pegboard.services.redaction import shown_changes
from pegboard.services.sessions import Conversation, model_line

Act: TypeAlias = Callable[[str, App, Conversation], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command: what it does, its line of help, and what may stand behind its name."""

    act: Act
    help: str
    hint: str = ""


async def run_command(name: str, rest: str, app: App, talk: Conversation) -> str:
    """Carry out `/name rest`; what the person is told, failures too."""
    try:
        return await COMMANDS[name].act(rest, app, talk)
    except PegboardError as error:
        return str(error)


async def _undo(rest: str, app: App, talk: Conversation) -> str:
    return _undone(await app.undo.undo(rest or None), "undone", app)


async def _redo(rest: str, app: App, talk: Conversation) -> str:
    return _undone(await app.undo.undo(rest or None, redo=True), "redone", app)


async def _diff(rest: str, app: App, talk: Conversation) -> str:
    changes = shown_changes(await app.undo.session_changes(talk.session), app.redactor.redact)
    diffs = "\n".join(change.diff or change.summary() for change in changes)
    return fenced(diffs, "diff") if diffs else "No file was changed in this session."


async def _compact(rest: str, app: App, talk: Conversation) -> str:
    done = await talk.compact()
    if done is None:
        return "There is nothing to shorten yet."
    return f"Shortened from about {done.before_tokens} to {done.after_tokens} tokens."


async def _status(rest: str, app: App, talk: Conversation) -> str:
    use = talk.context_use()
    share = "" if use.share is None else f" ({use.share:.0%})"
    return "\n".join(
        (
            f"- session {talk.session}", f"- workspace {app.workspace}", f"- mode {talk.executor.policy.mode}",
            f"- {model_line(talk.model)}", f"- context {use.tokens} tokens{share}",
        )
    )  # fmt: skip


def _undone(report: UndoReport, verb: str, app: App) -> str:
    lines = [f"- {change.summary()}" for change in report.changes.changes]
    lines += [f"- {path}: later edits are kept" for path in report.kept]
    lines += [f"- {one.path}: not changed: {one.reason}" for one in report.conflicts]
    lines += [f"- not {verb}: {missed}" for missed in report.missed]
    if not lines:
        return f"There is nothing to be {verb}."
    head = f"{verb.capitalize()}:" if report.applied else f"Not {verb}:"
    return "\n".join((head, *lines))


COMMANDS: Final[dict[str, SlashCommand]] = {
    "undo": SlashCommand(_undo, "Undo the last file changes, or those of a call or run", "call or run"),
    "redo": SlashCommand(_redo, "Undo an undo", "call or run"),
    "diff": SlashCommand(_diff, "Show what this session changed in files"),
    "compact": SlashCommand(_compact, "Shorten what the model is sent of this session"),
    "status": SlashCommand(_status, "Show session, mode, model and context"),
}
