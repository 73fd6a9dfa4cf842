"""Offered: the tools and skills that the settings name, each loaded when somebody wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.app.builtins import builtin
from pegboard.config.load import Config
from pegboard.config.paths import Paths
from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.toolkit import Toolkit

if TYPE_CHECKING:
    from pegboard.interop.skills import Skills


class ConfiguredTools:
    """What one App offers, without the tools of MCP servers."""

    def __init__(self, config: Config, paths: Paths) -> None:
        self._config = config
        self._paths = paths
        self._toolkit: Toolkit | None = None
        self._skills: Skills | None = None

    @property
    def toolkit(self) -> Toolkit:
        """All the tools.

        Raises:
            ConfigError: two of them have one name, or a file of the settings makes none.
        """
        if self._toolkit is None:
            self._toolkit = builtin(*(self._config.tools or ()))
            if self._config.tool_files:
                self._toolkit = self._with_files(self._toolkit)
        return self._toolkit

    @property
    def skills(self) -> Skills | None:
        """The skills that the settings name; None without any."""
        if self._skills is None and self._config.tool_files.skills:
            from pegboard.app.toolfiles import skills_of

            self._skills = skills_of(self._config, self._paths)
        return self._skills

    def only(self, name: str) -> Toolkit:
        """Just the named tool, or all where none is called so, since the answer then lists them."""
        from pegboard.tools import TOOLS

        if self._toolkit is None and name in TOOLS and name in (self._config.tools or TOOLS):
            return builtin(name)
        found = self.toolkit.resolve(name)
        return self.toolkit if found is None else Toolkit([found])

    def _with_files(self, toolkit: Toolkit) -> Toolkit:
        from pegboard.app.toolfiles import tools_of

        skills = self.skills
        try:
            toolkit += tools_of(self._config)
            return toolkit if skills is None else toolkit + skills.toolkit()
        except ConfigError:
            raise
        except BuildError as error:
            raise ConfigError(
                f"{', '.join(map(str, self._config.files))}: {error}; remove one of them, or set a prefix"
            ) from error
