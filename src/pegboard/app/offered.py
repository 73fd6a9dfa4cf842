"""The tools and skills that the settings name, each loaded when it is wanted, with secrets bound to their hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.app.builtins import builtin
from pegboard.config.environment import environment
from pegboard.config.load import Config
from pegboard.config.paths import Paths
from pegboard.config.secrets import ConfiguredSecrets, SecretSpec
from pegboard.config.tools import OpenAPIFile, PythonTools
from pegboard.config.trust import Trust
from pegboard.core.effects import Effect
from pegboard.core.errors import BuildError, ConfigError, PermissionDenied, ToolError, Unavailable
from pegboard.core.toolkit import RUN_CODE, Toolkit
from pegboard.net.client import HttpClient

if TYPE_CHECKING:
    from pegboard.interop.skills import Skills


class ConfiguredTools:
    """What one App offers, without the tools of MCP servers."""

    def __init__(self, config: Config, paths: Paths, on_warning: Callable[[str], None]) -> None:
        self._config = config
        self._paths = paths
        self._on_warning = on_warning
        self._toolkit: Toolkit | None = None
        self._skills: Skills | None = None

    @property
    def toolkit(self) -> Toolkit:
        """All the tools.

        Raises:
            ConfigError: two of them have one name, or a file of the settings makes none.
        """
        if self._toolkit is None:
            from pegboard.tools import AGENT, MEMORY

            # An agent that people reach on a channel can write to them, and to others.
            usual = (*AGENT, "message") if self._config.channels else AGENT
            names = self._config.tools or usual
            more = [
                *(MEMORY if self._config.memory.enabled else ()),
                *([RUN_CODE] if self._config.code.enabled else ()),
            ]
            self._toolkit = builtin(*dict.fromkeys([*names, *more]))
            if self._config.channels:
                from pegboard.app.messages import channel_tools

                self._toolkit += Toolkit(channel_tools(self._config))
            if self._config.tool_files:
                self._toolkit = self._with_files(self._toolkit)
        return self._toolkit

    @property
    def skills(self) -> Skills | None:
        """The skills that the settings name; None without any."""
        files = self._config.tool_files
        if self._skills is None and (files.skills or files.found):
            self._skills = skills_of(self._config, self._paths, self._on_warning)
        return self._skills

    def python_digests(self) -> dict[str, str]:
        """The Python places that the tools come from, as they were written, and the SHA-256 of each file."""
        places = self._config.tool_files.python
        if not places:
            return {}
        from pegboard.interop.python_tools import sha256_of

        return {place.given: sha256_of(place.place) for place in places}

    def only(self, name: str) -> Toolkit:
        """Just the named tool, or all where none is called so, since the answer then lists them."""
        from pegboard.tools import TOOLS

        if name == RUN_CODE:
            # Its programs call the others.
            return self.toolkit if name in self.toolkit else self.toolkit + builtin(name)
        own = self._config.tool_files.python
        if self._toolkit is None and not own and name in TOOLS and name in (self._config.tools or TOOLS):
            return builtin(name)
        found = self.toolkit.resolve(name)
        if found is None and name in TOOLS and not self._config.tools:
            return builtin(name)
        return self.toolkit if found is None else Toolkit([found])

    def _with_files(self, toolkit: Toolkit) -> Toolkit:
        skills = self.skills
        try:
            more = tools_of(self._config, self._on_warning)
            clash = next((name for name in more.names if name in toolkit), None)
            if clash is not None and self._config.tool_files.python:
                places = ", ".join(p.given for p in self._config.tool_files.python)
                raise ConfigError(
                    f"two tools are called {clash!r}: a built-in one and one of {places}; rename yours, or list "
                    "the built-in tools that you want in the settings: tools = [...]"
                )
            toolkit += more
            return toolkit if skills is None else toolkit + skills.toolkit()
        except ConfigError:
            raise
        except BuildError as error:
            raise ConfigError(
                f"{', '.join(map(str, self._config.files))}: {error}; remove one of them, or set a prefix"
            ) from error


class HostSecrets:
    """The user's secrets for HTTP tools: each goes to the hosts it is bound to and no others."""

    def __init__(self, specs: Mapping[str, SecretSpec]) -> None:
        self._specs = specs
        # What is looked up here is hidden by the tool that sends it, in whatever the server sends back.
        self._handles = ConfiguredSecrets(specs, environment=environment(), learn=_nothing)

    def for_host(self, host: str) -> Callable[[str], str]:
        """Name → value for one host.

        Raises, when called:
            Unavailable: there is no such secret, or its source has nothing.
            PermissionDenied: it is not bound to this host.
        """

        def value(name: str) -> str:
            binding = self._handles.binding(name)
            if binding is None:
                raise Unavailable(
                    f"the settings have no secret {name!r}",
                    hint=f"Ask the user to write a table [secrets.{name}] with from and hosts.",
                )
            if not binding.allows(Effect("connect", host)):
                raise PermissionDenied(
                    f"secret://{name} may not go to {host}; it is bound to "
                    f"{', '.join(binding.hosts) or 'no host'}",
                    hint=f"Ask the user to add the host to secrets.{name}.hosts.",
                )
            return self._handles.value(name)

        return value


def tools_of(config: Config, on_warning: Callable[[str], None]) -> Toolkit:
    """The tools that the settings name beside built-in ones; no skills.

    Args:
        config: the settings.
        on_warning: is told of each file that cannot be read, and of each OpenAPI document that makes no tools: it
            costs its own tools.

    Raises:
        ConfigError: a file or plug-in is wrong; the message names it and the settings' key.
    """
    files = config.tool_files
    if not files:
        return Toolkit([])
    secrets = HostSecrets(config.secrets)
    client = HttpClient(allow=config.network.allow_hosts, allow_cidrs=config.network.allow_cidrs)
    kits: list[Toolkit] = []
    for place in files.python:
        kits.append(_python(place))
    for path in files.http:
        from pegboard.interop.http_tools import http_tools

        try:
            kits.append(
                _made("http_tools", lambda path=path: http_tools(path, secrets=secrets, client=client))
            )
        except OSError as error:
            on_warning(f"the tools of {path} are missing: {error}")
    for one in files.openapi:
        try:
            kits.append(_made(f"openapi.{one.name}", lambda one=one: _openapi(one, secrets, client)))
        except ConfigError as error:
            on_warning(f"{error}; its tools are left out")
    if files.plugins:
        from pegboard.interop.plugins import plugin_tools

        kits.append(_made("plugins.allow", lambda: plugin_tools(files.plugins)))
    return _made("tool files", lambda: Toolkit(kits))


def skills_of(config: Config, paths: Paths, on_warning: Callable[[str], None]) -> Skills | None:
    """The skills that the settings name; None without any.

    Args:
        config: the settings.
        paths: where the list of trusted files lies.
        on_warning: is told of each skill that cannot be read, and why: only that one is missing.

    Raises:
        ConfigError: two skills have one name; the message names both.
    """
    files = config.tool_files
    if not files.skills and not files.found:
        return None
    from pegboard.interop.skills import Skills

    trust = Trust(paths)

    def still(path: Path) -> bool | None:
        real = path.resolve()
        if any(real.is_relative_to(root) and not trust.trusts(root) for root in files.pinned):
            return False
        return None if real not in files.inside else trust.trusts(path)

    return _made(
        "skills.folders",
        lambda: Skills(
            files.skills, trusted=still, found=files.found, of_plugin=files.of_plugin, on_warning=on_warning
        ),
    )


def _python(one: PythonTools) -> Toolkit:
    from pegboard.interop.python_tools import python_tools

    kit = python_tools(one.place, sha256=one.sha256)
    if kit is not None:
        return kit
    file = Path(one.place.partition(":")[0].replace(".", "/") + ".py")
    there = f"; to load the file, write {file}" if file.is_file() else ""
    raise ConfigError(f"no module is installed for the tools of {one.given!r}{there}")


def _openapi(one: OpenAPIFile, secrets: HostSecrets, client: HttpClient) -> Toolkit:
    from pegboard.interop.openapi import openapi_tools

    try:
        kit = openapi_tools(
            one.file.read_bytes(),
            base_url=one.base_url, auth=one.auth, headers=one.headers, keep=one.keep, timeout_s=one.timeout_s,
            secrets=secrets, client=client,
        )  # fmt: skip
    except (BuildError, OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{one.file}: {error}") from error
    return kit.prefixed(one.prefix) if one.prefix else kit


def _made(key: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (BuildError, ToolError) as error:
        raise ConfigError(f"settings key {key}: {error}") from error


def _nothing(_: Mapping[str, str]) -> None:
    return None
