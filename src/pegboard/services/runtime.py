"""What the services need of whoever composes them: executors and agents over one workspace, and who answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pegboard.config.load import Config
    from pegboard.config.paths import Paths
    from pegboard.core.call.call import Middleware
    from pegboard.core.call.pipeline import Pipeline, Preview
    from pegboard.core.context import Context
    from pegboard.core.policy.approval import Approver
    from pegboard.core.policy.policy import Policy
    from pegboard.core.result import ToolResult
    from pegboard.core.secrets.redact import Redactor
    from pegboard.core.toolkit import Toolkit
    from pegboard.models.servers import LocalServer
    from pegboard.runtime.subagents import SubagentRuns
    from pegboard.shell.sandbox.selection import SelectedBackend


def _log(text: str) -> None:
    logging.getLogger("pegboard").warning("%s", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """Who takes part in a call or run.

    Attributes:
        approver: answers where the policy asks; None = nobody, so that what asks is denied or goes on waiting.
        people: objects that answer questions and the like, as `provide` takes them.
        notify: is given each sentence that a person should know; a warning to `logging` unless it is set.
        accept_server: asked whether a model server of this machine may be used from now on, where no model was
            named and none is there; None = nobody can accept one.
        middleware: around every authorised run, outermost first.
    """

    approver: Approver | None = None
    people: Sequence[Any] = ()
    notify: Callable[[str], None] = _log
    accept_server: Callable[[LocalServer], Awaitable[bool]] | None = None
    middleware: Sequence[Middleware] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """What an agent is told before a run, and the project's files that it was read from."""

    text: str
    files: tuple[str, ...] = ()


NOBODY = Interaction()
"""Nobody answers, and warnings are logged."""


class ToolExecutor(Protocol):
    """What the services use of an Executor."""

    toolkit: Toolkit
    context: Context
    wiring: Any
    hooks: Any
    on_warning: Callable[[str], None]

    @property
    def pipeline(self) -> Pipeline:
        """Carries out single calls."""
        ...

    @property
    def policy(self) -> Policy:
        """What decides."""
        ...

    async def refresh_tools(self, name: str | None = None) -> None:
        """See Executor."""
        ...

    def call(
        self, name: str, arguments: str | Mapping[str, Any] | None = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """See Executor."""
        ...

    async def preview(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> Preview:
        """See Executor."""
        ...

    async def explain(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See Executor."""
        ...

    def set_policy(self, policy: Policy) -> None:
        """See Executor."""
        ...

    def set_mode(self, mode: str) -> None:
        """See Executor."""
        ...


class Runtime(Protocol):
    """Pegboard opened over a workspace; `pegboard.app.App` is one."""

    paths: Paths
    config: Config
    workspace: Path
    policy: Policy

    @property
    def toolkit(self) -> Toolkit:
        """The tools that are offered, without those of MCP servers."""
        ...

    @property
    def tools_from(self) -> Mapping[str, str]:
        """The Python files and modules that tools were loaded from, and the SHA-256 of each file."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Takes the secrets of this machine out of what is kept and shown."""
        ...

    def executor(
        self,
        interaction: Interaction = NOBODY,
        *,
        session: str = "cli",
        only: str | None = None,
        recorded: bool = True,
        mode: str | None = None,
        code: bool = False,
        toolkit: Toolkit | None = None,
    ) -> AbstractAsyncContextManager[ToolExecutor]:
        """An executor over the workspace, ended with the block.

        Args:
            interaction: who answers.
            session: the key of its calls' session.
            only: build just what the tool of this name needs, for one call.
            recorded: False for a preview: nothing is written.
            mode: decide by this mode; None = the runtime's.
            code: offer `run_code` whatever the settings say: a run that uses it goes on.
            toolkit: offer these; None = the runtime's tools.
        """
        ...

    def agent(self, executor: Any, *, model: str | None, turns: int | None = None, output: Any = None) -> Any:
        """An Agent by the settings over an executor of this runtime.

        Raises:
            NoModel: no model was named and none was found.
            ModelError: the model cannot be used.
        """
        ...

    async def instructions(self, executor: Any, *, session: str) -> Instructions:
        """What an agent of this runtime is told before a run of a session, as it is now."""
        ...

    def subagents(self, executor: Any, *, model: str | None) -> SubagentRuns:
        """The subagents of kept sessions, over an executor of this runtime.

        Args:
            executor: whose tools they get.
            model: answers where their spec names none.

        Raises:
            ModelError: the model cannot be used.
        """
        ...

    def at(self, workspace: Path, *, mode: str | None = None) -> AbstractContextManager[Runtime]:
        """The same settings over another workspace and in another mode."""
        ...

    def select_sandbox(
        self, folder: Path | None = None, *, backend: str | None = None, require: bool | None = None
    ) -> SelectedBackend:
        """The confinement for commands in a folder (the workspace), found by running something in it.

        Raises:
            Unavailable: one is required and none works here, or the named one does not.
        """
        ...

    def mcp_servers(self) -> Sequence[Any]:
        """The configured MCP servers, none of them started."""
        ...
