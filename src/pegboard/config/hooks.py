"""Hooks as settings: `hooks.json` in the form that Claude Code, Codex, goose and Deep Agents share, and `[hooks]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.config.reading import parse_file, path_of, texts
from pegboard.config.trust import Trust, within
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.schema.problems import did_you_mean
from pegboard.interop.hooks import EVENTS, Hook, OnFailure, files_named

if TYPE_CHECKING:
    from pegboard.config.plugins import Plugin

FOREIGN: Final = (".claude", ".codex", ".agents", ".goose", ".deepagents")
"""Folders whose hooks are written for other agents."""

_DOTTED: Final = {
    "session.start": "SessionStart", "session.end": "SessionEnd", "user.prompt": "UserPromptSubmit",
    "permission.request": "PermissionRequest", "input.required": "Notification", "task.complete": "Stop",
    "context.compact": "PreCompact", "tool.error": "PostToolUseFailure",
}  # fmt: skip
"""Events of Deep Agents."""

_OWN: Final = ("files", "on_failure", "timeout_s", "env")
_ROW: Final = frozenset({
    "type", "command", "timeout", "timeout_s", "on_failure", "name", "statusMessage", "matcher", "description",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFile:
    """What one file says.

    Attributes:
        hooks: in their order.
        notes: what of it is not used here, a sentence each.
    """

    hooks: tuple[Hook, ...] = ()
    notes: tuple[str, ...] = ()


def read_hooks(path: Path, *, own: bool = True) -> HooksFile:
    """The hooks of a `hooks.json`, or of the key `hooks` of another agent's settings.

    Args:
        path: the file.
        own: it is the user's and not a project's.

    Raises:
        ConfigError: it cannot be read, or is no table.
    """
    value = parse_file(path, comments=True)
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: expected a table with hooks, got {type(value).__name__}")
    table = cast("Mapping[str, Any]", value)
    inner: Any = table.get("hooks", table if path.name == "hooks.json" else {})
    root = path.parent.parent if path.parent.name == "hooks" else path.parent
    made = Hook(event="Stop", run="true", file=path, root=root, own=own, foreign_names=_is_foreign(path))
    return _hooks(inner, path, made)


def read_hook_settings(value: Mapping[str, Any], path: Path, *, own: bool) -> HooksFile:
    """`[hooks]` of our own settings: files to read, defaults, and hooks by event.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    for key in value:
        if key not in (*_OWN, *EVENTS):
            meant = did_you_mean(key, (*_OWN, *EVENTS), otherwise=f"; known: {', '.join((*_OWN, *EVENTS))}")
            raise ConfigError(f"{path}: unknown key hooks.{key}{meant}")
    try:
        made = Hook(
            event="Stop", run="true", file=path, root=path.parent, own=own,
            on_failure=cast("OnFailure", value.get("on_failure", "")), timeout_s=_seconds(value.get("timeout_s", 60)),
            passed=texts(value.get("env", []), path, "hooks.env"),
        )  # fmt: skip
    except BuildError as error:
        raise ConfigError(f"{path}: hooks: {error}") from None
    found = _hooks({k: v for k, v in value.items() if k in EVENTS}, path, made)
    if found.notes:
        raise ConfigError(found.notes[0])
    hooks, notes = list(found.hooks), list[str]()
    for name in texts(value.get("files", []), path, "hooks.files"):
        more = read_hooks(path_of(name, path, "hooks.files"), own=own)
        defaults = {"on_failure": made.on_failure} if made.on_failure else {}
        hooks += [h if h.on_failure else replace(h, passed=made.passed, **defaults) for h in more.hooks]
        notes += more.notes
    return HooksFile(hooks=tuple(hooks), notes=tuple(notes))


def scripts_of(hooks: Iterable[Hook], workspace: Path) -> list[Path]:
    """Files of the workspace that the commands of hooks name."""
    found = (files_named(workspace, hook) for hook in hooks)
    return list(dict.fromkeys(p for paths in found for p in paths))


def script_names(hooks: Iterable[Hook], workspace: Path) -> tuple[str, ...]:
    """The same, relative to the workspace, whose path is real."""
    return tuple(str(path.relative_to(workspace)) for path in scripts_of(hooks, workspace))


def trusted_hooks(
    configured: Iterable[Hook],
    files: Iterable[Path],
    trust: Trust,
    workspace: Path | None,
    plugins: Iterable[Plugin] = (),
) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """The hooks that count, and a sentence for each that does not.

    Args:
        configured: those of the settings.
        files: further files, those of the workspace trusted already.
        trust: what the user trusts.
        workspace: what lies in it is the project's, whoever names it.
        plugins: trusted plug-ins, whose hooks come last.
    """
    hooks: list[Hook] = []
    notes: list[str] = []
    for hook in configured:
        if workspace is not None and hook.file is not None and within(hook.file, workspace):
            hook = replace(hook, own=False)
            if (why := refusal(hook, trust, workspace)) is not None:
                notes.append(f"{hook.label} is ignored: {why}")
                continue
        hooks.append(hook)
    for path in files:
        try:
            read = read_hooks(path, own=workspace is None or not within(path, workspace))
        except ConfigError as error:
            notes.append(f"{error}; its hooks are ignored")
            continue
        hooks += read.hooks
        notes += read.notes
    for plugin in plugins:
        read = hooks_of_plugin(plugin)
        hooks += read.hooks
        notes += read.notes
    return tuple(hooks), tuple(notes)


def hooks_of_plugin(plugin: Plugin) -> HooksFile:
    """The hooks of a plug-in; they may run as long as its folder is as it was trusted."""
    hooks, notes = list[Hook](), list[str]()
    for path in plugin.hooks:
        try:
            read = read_hooks(path, own=False)
        except ConfigError as error:
            notes.append(f"plug-in {plugin.name}: its hooks are ignored: {error}")
            continue
        made = {
            "root": plugin.root,
            "pinned": plugin.root,
            "variables": plugin.variables(),
            "foreign_names": True,
        }
        hooks += [replace(hook, **made) for hook in read.hooks]
        notes += [f"plug-in {plugin.name}: {note}" for note in read.notes]
    return HooksFile(hooks=tuple(hooks), notes=tuple(notes))


def refusal(hook: Hook, trust: Trust, workspace: Path) -> str | None:
    """Why a project's hook may not run now; None if what it consists of is as it was when it was trusted."""
    if hook.own or hook.file is None:
        return None
    for path in (hook.pinned or hook.file, *scripts_of([hook], workspace)):
        if not trust.trusts(path):
            return f"{path} is not as you trusted it; look at it and run: pegboard trust {path}"
    return None


def _is_foreign(path: Path) -> bool:
    return any(part in FOREIGN for part in path.parts)


def _hooks(value: Any, path: Path, made: Hook) -> HooksFile:
    hooks: list[Hook] = []
    notes: list[str] = []
    for where, event, row in _rows(value, path, notes):
        try:
            hooks.append(_hook(event, row, made))
        except (BuildError, ValueError) as error:
            notes.append(f"{path}: {where} is ignored: {error}")
            continue
        if "if" in row:
            notes.append(f"{path}: {where}: the key 'if' is ignored, so this hook runs more often")
        if unknown := sorted(set(row) - _ROW - {"if", "async", "asyncRewake", "once", "shell", "events"}):
            notes.append(f"{path}: {where}: the key {unknown[0]!r} is ignored")
    return HooksFile(hooks=tuple(hooks), notes=tuple(notes))


def _rows(value: Any, path: Path, notes: list[str]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Place, event and table of each hook, with the matcher of its group in it."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        # Deep Agents: a list, each with its events.
        for index, one in enumerate(cast("Sequence[Any]", value)):
            row = _table(one)
            for event in _list(row.get("events")) or [*_DOTTED]:
                yield f"hooks[{index}]", _DOTTED.get(str(event), str(event)), row
        return
    for event, groups in _table(value).items():
        if event not in EVENTS:
            notes.append(f"{path}: hooks for {event} are ignored: Pegboard has no such event")
            continue
        for index, group in enumerate(_list(groups)):
            table = _table(group)
            for row in _list(table.get("hooks", [table])):
                yield f"hooks.{event}[{index}]", event, {"matcher": table.get("matcher", ""), **_table(row)}


def _hook(event: str, row: Mapping[str, Any], made: Hook) -> Hook:
    """One hook.

    Raises:
        BuildError, ValueError: it is none that can be used here.
    """
    kind = row.get("type", "command")
    if kind != "command":
        raise ValueError(f"hooks of type {kind!r} are not supported, only commands")
    command: Any = row.get("command")
    matcher: Any = row.get("matcher") or ""
    if not isinstance(matcher, str):
        raise ValueError(f"its matcher is {matcher!r:.60} and no text")
    if isinstance(command, list) and all(isinstance(w, str) for w in cast("list[Any]", command)):
        command = tuple(cast("list[str]", command))
    elif not isinstance(command, str):
        raise ValueError("it has no command")
    seconds = row.get("timeout_s", row.get("timeout"))
    return replace(
        made,
        event=event,
        run=command,
        matcher=matcher,
        name=str(row.get("name") or ""),
        timeout_s=made.timeout_s if seconds is None else _seconds(seconds),
        on_failure=row.get("on_failure", made.on_failure),
    )


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise BuildError(f"a timeout is a number of seconds above 0, not {value!r:.60}")
    return min(float(value), 600.0)


def _table(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
