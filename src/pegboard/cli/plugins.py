"""`pegboard plugins`: packages of skills, MCP servers, hooks, agents and slash commands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from pegboard.cli.option_types import Json, exit_with
from pegboard.cli.show import escape_controls, print_json, print_line, print_note
from pegboard.config.environment import environment
from pegboard.config.paths import Paths
from pegboard.config.plugins import Plugin
from pegboard.core.errors import BuildError
from pegboard.services.plugins import InstalledPlugin, Plugins


def plugins_command(
    action: Annotated[str, typer.Argument(metavar="[ACTION]", help="list, add or remove.")] = "list",
    name: Annotated[
        str,
        typer.Argument(
            metavar="[SOURCE|NAME]",
            help="For add: a folder or the address of a git repository. For remove: a name.",
        ),
    ] = "",
    ref: Annotated[
        str, typer.Option("--ref", metavar="REF", help="Branch, tag or commit (default: the default branch).")
    ] = "",
    folder: Annotated[
        str, typer.Option("--folder", metavar="DIR", help="The plug-in's folder in the source.")
    ] = "",
    json: Json = False,
) -> None:
    """List, add or remove plug-ins; what they bring counts after pegboard trust."""
    plugins = Plugins(Paths.of(), environment())
    match action:
        case "list" if not name:
            exit_with(asyncio.run(_list(plugins, json=json)))
        case "add" if name:
            exit_with(asyncio.run(_add(plugins, name, ref, folder, json=json)))
        case "remove" if name:
            exit_with(asyncio.run(_remove(plugins, name)))
        case _:
            raise BuildError(f"plugins {action!r}: use list, add SOURCE or remove NAME")


async def _list(plugins: Plugins, *, json: bool) -> int:
    found = await plugins.list()
    if json:
        print_json({"plugins": [_row(one) for one in found]})
    elif not found:
        print_line("no plug-ins; add one: pegboard plugins add FOLDER-OR-GIT-ADDRESS")
    for one in () if json else found:
        _print_plugin(one)
    return 0


async def _add(plugins: Plugins, source: str, ref: str, folder: str, *, json: bool) -> int:
    added = await plugins.add(source, ref=ref, folder=folder)
    if json:
        row = {**_row(added.installed), "updated": added.updated, "changes": dict(added.changes)}
        print_json({**row, "left_out": list(added.left_out)})
        return 0
    for file, change in added.changes.items():
        print_line(escape_controls(change if "\n" in change else f"{file}: {change}"))
    if added.unchanged:
        print_line(f"{added.installed.name} has not changed")
    _print_plugin(added.installed)
    for sentence in added.left_out:
        print_note(f"not copied: {sentence}")
    return 0


async def _remove(plugins: Plugins, name: str) -> int:
    await plugins.remove(name)
    print_line(f"removed {name}")
    return 0


def _print_plugin(one: InstalledPlugin) -> None:
    version = f" {one.plugin.version}" if one.plugin and one.plugin.version else ""
    pinned = f"commit {one.commit[:12]}" if one.commit else f"SHA-256 {one.sha256[:16]}…"
    state = "trusted" if one.trusted else "not trusted"
    print_line(
        escape_controls(f"{one.name}{version}  {state}  {pinned}  from {one.source or 'an unknown place'}")
    )
    if one.fault or one.plugin is None:
        print_line(escape_controls(f"  it cannot be used: {one.fault}"))
        return
    for line in plugin_lines(one.plugin):
        print_line(escape_controls(f"  {line}"))
    if one.changed:
        print_line("  its files were changed after it was added; to restore them, add it again")
    if not one.trusted:
        print_line(f"  it is not used until you run: pegboard trust {one.root}")


def plugin_lines(plugin: Plugin) -> Iterator[str]:
    """What a plug-in brings, a line each."""
    from pegboard.config.agent_files import AgentFiles, read_agents, read_commands
    from pegboard.config.hooks import hooks_of_plugin
    from pegboard.interop.skills import read_skill

    if plugin.description:
        yield plugin.description
    for folder in plugin.skills:
        skill = read_skill(folder)
        yield f"skill    {skill.name}: {skill.description}"
    for server in plugin.servers:
        if not server.fault:
            yield f"server   {server.name} runs: {server.command_line}"
    read = hooks_of_plugin(plugin)
    for hook in read.hooks:
        command = "" if callable(hook.run) else hook.run if isinstance(hook.run, str) else " ".join(hook.run)
        yield f"hook     {hook.event} {hook.matcher or '*'} runs: {command}"
    files = AgentFiles(agents=plugin.agents, commands=plugin.commands)
    (agents, no_agents), (commands, no_commands) = read_agents(files), read_commands(files)
    for agent in agents:
        yield f"agent    {agent.name}: {agent.description}"
    for command in commands:
        yield f"command  /{command.name}: {command.description}"
    for note in (*plugin.notes, *read.notes, *no_agents, *no_commands):
        yield f"note: {note}"


def _row(one: InstalledPlugin) -> dict[str, Any]:
    plugin = one.plugin
    brings = {} if plugin is None else {
        "version": plugin.version,
        "skills": [p.name for p in plugin.skills],
        "servers": [{"name": s.name, "runs": s.command_line} for s in plugin.servers if not s.fault],
        "hooks": [str(p.relative_to(plugin.root)) for p in plugin.hooks],
        "agents": [p.stem for p in plugin.agents],
        "commands": [":".join(p.relative_to(w).with_suffix("").parts) for w, p in plugin.commands],
        "notes": list(plugin.notes),
    }  # fmt: skip
    return {
        "name": one.name, "root": str(one.root), "source": one.source, "commit": one.commit, "sha256": one.sha256,
        "trusted": one.trusted, "changed": one.changed, "fault": one.fault, **brings,
    }  # fmt: skip
