"""Config: what the settings files say, checked, with every key's source known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.config.agent_files import AgentFiles, find_agent_files
from pegboard.config.agents import agents_of, read_agents, read_subagents
from pegboard.config.auto import AutoSettings, read_auto
from pegboard.config.browser import BrowserSettings, read_browser
from pegboard.config.channels import ChannelSettings, read_channels
from pegboard.config.code import CodeSettings, read_code
from pegboard.config.compat import read_documents, without_servers
from pegboard.config.diagnostics import DiagnosticsSettings, read_diagnostics
from pegboard.config.environment import environment as this_environment
from pegboard.config.gateway import GatewaySettings, read_gateway
from pegboard.config.guards import read_budgets, read_secrets, read_taint
from pegboard.config.media import MediaSettings, read_media
from pegboard.config.memory import MemorySettings, read_memory
from pegboard.config.models import read_keys, read_ports, read_rate_limits
from pegboard.config.network import NetworkSettings, read_network
from pegboard.config.paths import Paths
from pegboard.config.reading import (
    KEYS,
    path_of,
    place,
    read_file,
    read_unfilled,
    table_of,
    texts,
    typed,
    written,
)
from pegboard.config.sandbox import SandboxSettings, read_sandbox
from pegboard.config.schedules import ScheduleSettings, read_schedules
from pegboard.config.secrets import SecretSpec
from pegboard.config.sessions import SessionSettings, read_sessions
from pegboard.config.store import StoreSettings, read_store
from pegboard.config.tools import (
    ToolSettings,
    is_python_place,
    python_place,
    read_tool_files,
    trusted_only,
)
from pegboard.config.trust import Trust
from pegboard.config.web import FROM_DOCUMENTS, WebSettings, read_web, web_of_documents
from pegboard.core.errors import ConfigError
from pegboard.core.limits import Limits
from pegboard.core.policy.budgets import Budget
from pegboard.core.policy.policy import MODES
from pegboard.core.policy.rules import Rule
from pegboard.core.policy.taint import TaintRules
from pegboard.core.schema.problems import did_you_mean
from pegboard.ports.subagents import AgentSpec, SubagentLimits
from pegboard.store.rates import RateLimit

if TYPE_CHECKING:
    from pegboard.interop.hooks import Hook

NAMES: Final = tuple(f"pegboard.{ext}" for ext in ("toml", "yaml", "yml", "json", "json5"))
"""Names of settings files, in the order in which they are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings.

    Attributes:
        mode: the policy's mode, None where no file sets one.
        model: which model is used, as `--model` takes it; None where no file says.
        rules: the user's, then the project's where it is trusted (else only its deny and ask rules).
        instructions: added to the system prompt.
        instructions_files: names of the project's files that are read into it, of each folder the first that is there.
        tools: names of built-in tools to offer; None = the default set. Files and modules are in tool_files.
        allowed_dirs, read_only_dirs: folders beside the workspace.
        sandbox: backend to use: auto, bubblewrap, docker, podman, none.
        require_sandbox: refuse to run a command where the sandbox does not work.
        confinement: the whole of `[sandbox]`: backend, image, limits of a command.
        network: private places that are open to the network guard (`[network]`).
        browser: which browser the tool of that name uses (`[browser]`).
        web: how pages are read (`[web]`).
        media: who makes pictures and who speaks (`[media]`).
        schedules: the user's time zone, what is caught up, and heartbeats (`[schedules]`).
        channels: where messages can go (`[channels.NAME]`); the user's alone.
        gateway: webhooks that come in, and what the tool `gateway` may do (`[gateway]`); the user's alone.
        sessions: which sessions a session sees, and how often two answer each other (`[sessions]`).
        auto: the second model of mode `auto` (`[auto]`).
        code: whether models call tools from programs, and what a program may use (`[code]`).
        memory: whether sessions keep notes for later ones (`[memory]`).
        diagnostics: what looks at files that a call has changed (`[diagnostics]`).
        limits: what ends a run.
        agents: agents that a run can start by name (`[agents.NAME]`).
        subagents: how many of them (`[subagents]`).
        fallback_models: who answers where the model cannot, in order.
        allow_models: by tool name or pattern, the models that may have it.
        path_prepend: folders before PATH in commands.
        exec_timeout_s: seconds of a command that sets none.
        budgets: how much tools may be used (`[budgets.NAME]`).
        secrets: what `secret://NAME` stands for and where it may go (`[secrets.NAME]`).
        taint: what is private or trusted (`[taint]`).
        tool_files: further tools: Python files, HTTP definitions, OpenAPI documents, skills, plug-ins.
        agent_files: agents and slash commands that lie in the folders which agents share.
        hooks: the user's own programs at events, those of trusted project files behind the user's.
        model_servers: ports where local model servers are looked for; None = the usual ones.
        store: where history, grants and sessions are kept.
        model_keys: where the key of a server that `--model` names by URL lies, by its address.
        rate_limits: how much may be asked for in a minute, by pattern of the model's name; the first that matches holds.
        files: the files that were read, the user's first.
        ignored: what a file wanted and did not get, one sentence each: mostly an untrusted project's.
    """

    mode: str | None = None
    model: str | None = None
    rules: tuple[Rule, ...] = ()
    instructions: str = ""
    instructions_files: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md")
    tools: tuple[str, ...] | None = None
    allowed_dirs: tuple[str, ...] = ()
    read_only_dirs: tuple[str, ...] = ()
    sandbox: str = "auto"
    require_sandbox: bool = False
    confinement: SandboxSettings = field(default_factory=SandboxSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    web: WebSettings = field(default_factory=WebSettings)
    media: MediaSettings = field(default_factory=MediaSettings)
    schedules: ScheduleSettings = field(default_factory=ScheduleSettings)
    channels: tuple[ChannelSettings, ...] = ()
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    auto: AutoSettings = field(default_factory=AutoSettings)
    code: CodeSettings = field(default_factory=CodeSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)
    limits: Limits = field(default_factory=Limits)
    agents: tuple[AgentSpec, ...] = ()
    subagents: SubagentLimits = field(default_factory=SubagentLimits)
    fallback_models: tuple[str, ...] = ()
    allow_models: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    path_prepend: tuple[str, ...] = ()
    exec_timeout_s: float | None = None
    budgets: tuple[Budget, ...] = ()
    secrets: Mapping[str, SecretSpec] = field(default_factory=dict[str, SecretSpec])
    taint: TaintRules = field(default_factory=TaintRules)
    tool_files: ToolSettings = field(default_factory=ToolSettings)
    agent_files: AgentFiles = field(default_factory=AgentFiles)
    hooks: tuple[Hook, ...] = ()
    model_servers: Mapping[str, int] | None = None
    model_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict[str, RateLimit])
    store: StoreSettings = field(default_factory=StoreSettings)
    files: tuple[Path, ...] = ()
    ignored: tuple[str, ...] = ()

    def all_agents(self) -> tuple[AgentSpec, ...]:
        """The agents of the settings, and those of files under other names."""
        return agents_of(self.agent_files, self.agents)


_LIMITS: Final = (
    "calls", "calls_per_turn", "context_tokens", "money", "soft", "tokens", "tool_calls", "turns", "wall_s",
)  # fmt: skip
_STRICTNESS: Final = {"full": 0, "auto": 1, "workspace": 2, "ask": 3, "plan": 4, "read-only": 5}


def load_config(
    paths: Paths,
    workspace: Path | None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """The user's settings with the project's on top.

    Args:
        paths: where the user's file lies.
        workspace: where the project's file lies; None = none is looked for.
        file: a file that a person named on the command line; read as the user's own and in their place.
        environment: values for `${VAR}`; None = the process environment.

    Raises:
        ConfigError: a file cannot be read, a key is unknown, a value is of the wrong kind, or a
            variable is not set; the message names file and key.
    """
    env = this_environment() if environment is None else environment
    config, trust = Config(), Trust(paths)
    mine = file or _find(paths.config)
    if file is not None and not file.is_file():
        raise ConfigError(f"the config file {file} does not exist")
    if mine is not None:
        config = _apply(config, read_file(mine, env), mine, source="user")
    theirs = None if workspace is None else _find(workspace)
    if theirs is not None and theirs != mine:
        config = _project(config, theirs, env, trusted=trust.trusts(theirs))
    if config.tool_files:
        kept, ignored = trusted_only(config.tool_files, trust, workspace)
        config = replace(config, tool_files=kept, ignored=config.ignored + ignored)
    config = _with_agent_files(config, paths, workspace, trust)
    return replace(config, ignored=(trust.fault, *config.ignored)) if trust.fault else config


def _with_agent_files(config: Config, paths: Paths, workspace: Path | None, trust: Trust) -> Config:
    """The config with the hooks and skills that lie in the folders which agents share."""
    found = find_agent_files(paths, workspace, trust=trust)
    hooks, notes = config.hooks, list(config.ignored)
    if config.hooks or found.hooks or any(plugin.hooks for plugin in found.plugins):
        from pegboard.config.hooks import trusted_hooks

        hooks, more = trusted_hooks(config.hooks, found.hooks, trust, workspace, found.plugins)
        notes += more
    notes += found.notes
    if workspace is not None and (ignored := found.ignored(workspace)):
        notes.append(ignored)
    files = config.tool_files
    skills = ToolSettings(
        found=tuple(s for s in found.skills if s not in files.skills),
        of_plugin=found.of_plugin,
        pinned=tuple(plugin.root for plugin in found.plugins),
    )
    inside = files.inside | found.inside
    return replace(
        config,
        hooks=hooks,
        agent_files=found,
        ignored=tuple(notes),
        tool_files=replace(files + skills, inside=inside),
    )


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a policy file: a table with `rules`, or text with one rule a line and `#` comments.

    Raises:
        ConfigError: it cannot be read, or a rule is wrong; the message names the line.
    """
    if not path.is_file():
        raise ConfigError(f"the policy file {path} does not exist")
    if path.suffix in (".toml", ".yaml", ".yml", ".json", ".json5"):
        table = read_file(path, {})
        for key in table:
            if key not in ("rules", "compat"):
                meant = did_you_mean(str(key), ["rules", "compat"])
                raise ConfigError(
                    f"{place(path, str(key))}: {key!r} is not allowed in a policy file; known: rules, compat{meant}"
                )
        own = _rules(table.get("rules", []), path, "user")
        return own + read_documents(typed(dict, table.get("compat", {}), path, "compat"), path).rules
    lines = path.read_text(encoding="utf-8").splitlines()
    out: list[Rule] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                out.append(Rule.parse(line, source=f"user {path.name}:{number}"))
            except ConfigError as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
    return tuple(out)


def _apply(config: Config, table: dict[str, Any], path: Path, *, source: str) -> Config:
    """The config with a file's keys on top."""
    changes: dict[str, Any] = {"files": (*config.files, path)}
    hosts: tuple[str, ...] = ()
    unusable: list[str] = []
    for key, value in table.items():
        match key:
            case "mode":
                if value not in MODES:
                    raise ConfigError(f"{path}: mode {value!r} is not one of {', '.join(MODES)}")
                changes["mode"] = value
            case "rules":
                changes["rules"] = config.rules + _rules(value, path, source)
            case "model" | "instructions":
                changes[key] = typed(str, value, path, key)
            case "sandbox":
                changes["confinement"] = read_sandbox(value, path, before=config.confinement)
                changes["sandbox"] = changes["confinement"].backend
                if changes["confinement"].require is not None:
                    changes["require_sandbox"] = changes["confinement"].require
            case "network":
                changes[key] = read_network(value, path, before=config.network)
            case "media":
                changes[key] = read_media(value, path, before=config.media)
            case "schedules":
                changes[key] = read_schedules(value, path, before=config.schedules)
            case "channels" if source == "project":
                unusable.append(f"{path.name}: key 'channels' is read from your own settings only")
            case "channels":
                changes[key] = config.channels + read_channels(typed(dict, value, path, key), path)
            case "gateway" if source == "project":
                unusable.append(f"{path.name}: key 'gateway' is read from your own settings only")
            case "gateway":
                changes[key] = read_gateway(value, path, before=config.gateway)
            case "web":
                changes[key] = read_web(value, path, before=config.web)
            case "require_sandbox":
                changes[key] = typed(bool, value, path, key)
            case "exec_timeout_s":
                changes[key] = float(typed((int, float), value, path, key))
            case "allow_models":
                given = cast("dict[str, Any]", typed(dict, value, path, key))
                changes[key] = {
                    tool: tuple(
                        typed(str, m, path, f"{key}.{tool}[]")
                        for m in typed(list, models, path, f"{key}.{tool}")
                    )
                    for tool, models in given.items()
                }
            case "tools" if isinstance(value, dict):
                # Another system's section of that name, as its own file has it.
                section = without_servers(cast("dict[str, Any]", value))
                changes.update(_documents(config, changes, {"moltbot": section} if section else {}, path))
            case "hosts":
                hosts = tuple(typed(str, v, path, "hosts[]") for v in typed(list, value, path, key))
            case "allowed_dirs" | "read_only_dirs" | "path_prepend":
                folders = [path_of(v, path, key) for v in texts(value, path, key)]
                # A missing one on PATH does no harm.
                usable = [
                    p
                    for p in folders
                    if key == "path_prepend" or (p.is_dir() and os.access(p, os.R_OK | os.X_OK))
                ]
                changes[key] = tuple(str(p) for p in usable)
                unusable += [
                    f"{path}: {key}: {p} is not a folder that can be opened"
                    for p in folders
                    if p not in usable
                ]
            case "tools":
                named = [typed(str, v, path, f"{key}[]") for v in typed(list, value, path, key)]
                own = [python_place(one, path.parent) for one in named if is_python_place(one)]
                unusable += [
                    f"{path}: {key}: {one.file} is not a file" for one in own if one.file and not one.file.is_file()
                ]  # fmt: skip
                more = ToolSettings(python=tuple(o for o in own if o.file is None or o.file.is_file()))
                changes["tool_files"] = changes.get("tool_files", config.tool_files) + more
                if chosen := tuple(one for one in named if not is_python_place(one)):
                    changes[key] = chosen
            case "fallback_models" | "instructions_files":
                changes[key] = tuple(typed(str, v, path, f"{key}[]") for v in typed(list, value, path, key))
            case "limits":
                changes["limits"] = _limits(table_of(value, path, key, _LIMITS), path)
            case "agents":
                changes[key] = config.agents + read_agents(value, path)
            case "subagents":
                changes[key] = read_subagents(value, path, before=config.subagents)
            case "auto":
                changes[key] = read_auto(value, path, before=config.auto)
            case "code":
                changes[key] = read_code(value, path, before=config.code)
            case "memory":
                changes[key] = read_memory(value, path, before=config.memory)
            case "diagnostics":
                changes[key] = read_diagnostics(value, path, before=config.diagnostics)
            case "sessions":
                changes[key] = read_sessions(value, path, before=config.sessions)
            case "budgets":
                changes[key] = config.budgets + read_budgets(typed(dict, value, path, key), path)
            case "secrets":
                changes[key] = {**config.secrets, **read_secrets(typed(dict, value, path, key), path)}
            case "model_servers":
                changes[key] = read_ports(typed(dict, value, path, key), path)
            case "model_keys":
                changes[key] = {**config.model_keys, **read_keys(typed(dict, value, path, key), path)}
            case "rate_limits":
                changes[key] = {**config.rate_limits, **read_rate_limits(typed(dict, value, path, key), path)}
            case "taint":
                changes[key] = read_taint(typed(dict, value, path, key), path, before=config.taint)
            case "compat":
                changes.update(_documents(config, changes, typed(dict, value, path, key), path))
            case "http_tools" | "openapi" | "skills" | "plugins":
                more = read_tool_files(key, typed(dict, value, path, key), path)
                changes["tool_files"] = changes.get("tool_files", config.tool_files) + more
                unusable += more.missing
            case "hooks":
                from pegboard.config.hooks import read_hook_settings

                read = read_hook_settings(typed(dict, value, path, key), path, own=source == "user")
                changes[key] = config.hooks + read.hooks
                unusable += read.notes
            case "store" if source != "user":
                # Before a call is made, grants and history of this machine would lie in a project's hands.
                unusable.append(
                    f"{path.name}: key 'store' is ignored: it belongs into your own settings file"
                )
            case "store":
                changes[key] = read_store(value, path)
            case "browser":
                changes[key] = read_browser(value, path, before=config.browser)
            case "mcpservers":
                typed((dict, list), value, path, key)
            case _:
                meant = did_you_mean(key, KEYS, otherwise=f"; known keys: {', '.join(KEYS)}")
                raise ConfigError(f"{path}: unknown key {key!r}{meant}")
    if hosts:
        # Behind the file's own rules, wherever the key stands in it.
        may_reach = _rules([f"allow connect:{host} tool=exec" for host in hosts], path, source, key="hosts")
        changes["rules"] = changes.get("rules", config.rules) + may_reach
    ignored: tuple[str, ...] = changes.pop("ignored", config.ignored)
    return replace(config, **changes, ignored=(*ignored, *unusable))


def _project(config: Config, path: Path, env: Mapping[str, str], *, trusted: bool) -> Config:
    """The project's file on top: whole where the user trusts it, else only what tightens."""
    # Variables are not filled for an untrusted file: it could send a secret into a place of its choice.
    table = read_file(path, env) if trusted else read_unfilled(path)
    if trusted:
        return _apply(config, table, path, source="project")
    rules = _rules(table.get("rules", []), path, "project")
    rules += read_documents(typed(dict, table.get("compat", {}), path, "compat"), path).rules
    tight = tuple(r for r in rules if r.verdict != "allow")
    ignored = [f"rule {str(r)!r}" for r in rules if r.verdict == "allow"]
    mode = table.get("mode")
    # A second model costs money and sees the changes: only the user chooses that.
    stricter = (
        mode in MODES
        and mode != "auto"
        and _STRICTNESS[cast(str, mode)] > _STRICTNESS[config.mode or "workspace"]
    )
    ignored += [
        f"key {k!r}" for k in table if k not in ("rules", "compat") and not (k == "mode" and stricter)
    ]
    return replace(
        config,
        rules=config.rules + tight,
        mode=cast("str | None", mode) if stricter else config.mode,
        files=(*config.files, path),
        ignored=tuple(f"{path.name}: {what} is ignored until you run: pegboard trust" for what in ignored),
    )


def _documents(
    config: Config, changes: Mapping[str, Any], table: dict[str, Any], path: Path
) -> dict[str, Any]:
    """What `[compat.DOCUMENT]` changes: its rules after the file's own, its mode where the file sets none."""
    meant = read_documents(table, path)
    out: dict[str, Any] = {"rules": changes.get("rules", config.rules) + meant.rules}
    if meant.mode is not None and "mode" not in changes and config.mode is None:
        out["mode"] = meant.mode
    for setting, key in (("exec.timeout_s", "exec_timeout_s"), ("exec.path_prepend", "path_prepend")):
        if setting in meant.settings and key not in changes:
            value = meant.settings[setting]
            if key == "exec_timeout_s":
                out[key] = float(typed((int, float), value, path, f"compat: {setting}"))
            else:
                out[key] = tuple(
                    typed(str, v, path, key) for v in typed(list, value, path, f"compat: {setting}")
                )
    if FROM_DOCUMENTS & set(meant.settings):
        out["web"] = web_of_documents(meant.settings, path, before=changes.get("web", config.web))
    return {**out, "ignored": config.ignored + tuple(f"{path.name}: {w}" for w in meant.warnings)}


def _rules(value: Any, path: Path, source: str, *, key: str = "rules") -> tuple[Rule, ...]:
    out: list[Rule] = []
    for index, one in enumerate(typed(list, value, path, key)):
        where = f"{source} {path.name} {key}[{index}]"
        try:
            if isinstance(one, str):
                out.append(Rule.parse(one, source=where))
            else:
                out.append(Rule.from_mapping(typed(dict, one, path, f"rules[{index}]"), source=where))
        except ConfigError as error:
            raise ConfigError(f"{place(path, written(one))}: {key}[{index}]: {error}") from None
    return tuple(out)


def _limits(table: dict[str, Any], path: Path) -> Limits:
    each = typed(dict, table.get("tool_calls", {}), path, "limits.tool_calls")
    for key, value in [*(i for i in table.items() if i[0] != "tool_calls"), *each.items()]:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"{path}: limits.{key} must be a number above 0, not {value!r}")
    return Limits(**table)


def _find(folder: Path) -> Path | None:
    return next((p for name in NAMES if (p := folder / name).is_file()), None)
