"""Services by type or name, and the tool set that they register."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pegboard.compat.messages import CallbackMessages, message_tool
from pegboard.core.errors import BuildError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import import_object

DEFAULT_TOOLS: Final = (
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "exec",
    "web_search",
    "web_fetch",
)
"""What `add_nanobot_tools` registers, as far as this installation has it."""


class ServiceCollection:
    """What may be asked for, by type or name; each made once, when it is first asked for."""

    def __init__(self) -> None:
        self._factories: dict[Any, Callable[[ServiceProvider], Any]] = {}

    def add_singleton(self, key: Any, made: Any = None) -> ServiceCollection:
        """Register an object, or a function of the provider that makes it.

        Args:
            key: a type or a name; an object alone is registered under its type.
            made: the object or factory.
        """
        if made is None:
            key, made = cast(Any, type(key)), key
        is_factory = inspect.isfunction(made) or inspect.ismethod(made)
        self._factories[key] = (
            cast("Callable[[ServiceProvider], Any]", made) if is_factory else lambda _p: made
        )
        return self

    def build_service_provider(self) -> ServiceProvider:
        """The provider."""
        return ServiceProvider(dict(self._factories))


class ServiceProvider:
    """Gives what was registered."""

    def __init__(self, factories: Mapping[Any, Callable[[ServiceProvider], Any]]) -> None:
        self._factories = factories
        self._made: dict[Any, Any] = {}

    def get_service(self, key: Any) -> Any | None:
        """The service, None where there is none."""
        if key not in self._made:
            if key not in self._factories:
                return next((self._get(k) for k in self._factories if _fits(k, key)), None)
            self._get(key)
        return self._made[key]

    def get_required_service(self, key: Any) -> Any:
        """The service.

        Raises:
            BuildError: nothing provides it.
        """
        found = self.get_service(key)
        if found is None:
            name = getattr(key, "__name__", key)
            raise BuildError(f"no service {name} is registered; add it with services.add_singleton(…)")
        return found

    def _get(self, key: Any) -> Any:
        if key not in self._made:
            self._made[key] = self._factories[key](self)
        return self._made[key]


def _fits(registered: Any, wanted: Any) -> bool:
    return isinstance(registered, type) and isinstance(wanted, type) and issubclass(registered, wanted)


class WorkspaceManager:
    """Knows the workspace."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def get_workspace_path(self) -> Path:
        """Its path."""
        return self._path


class NanoBotTools(tuple[Tool, ...]):
    """The registered tools: read-only, under this type in the services."""

    __slots__ = ()


MESSAGE_BUS: Final = "message_bus"
"""Key of the message bus in the services; with one registered the set has `message`, which publishes there."""


def add_nanobot_tools(
    services: ServiceCollection, workspace_path: str | Path | None = None
) -> ServiceCollection:
    """Register the tool set: seven tools, and `message` where a bus is registered.

    `provider.get_required_service(NanoBotTools)` gives the tuple. Give it to an Executor or Agent with the
    workspace of `workspace_of(provider, workspace_path)`.
    """

    def make(provider: ServiceProvider) -> NanoBotTools:
        workspace_of(provider, workspace_path)
        known = cast("Mapping[str, str]", import_object("pegboard.tools:TOOLS"))
        tools = [cast(Tool, import_object(known[n])) for n in DEFAULT_TOOLS if n in known]
        bus: Any = provider.get_service(MESSAGE_BUS)
        if bus is not None:
            tools.append(message_tool(CallbackMessages(lambda: bus.publish_outbound)))
        return NanoBotTools(tools)

    services.add_singleton(NanoBotTools, make)
    return services


def workspace_of(provider: ServiceProvider, workspace_path: str | Path | None = None) -> Path:
    """The workspace: as given, else the workspace manager's.

    Raises:
        BuildError: neither is there.
    """
    if workspace_path is not None:
        return Path(workspace_path)
    return cast(WorkspaceManager, provider.get_required_service(WorkspaceManager)).get_workspace_path()
