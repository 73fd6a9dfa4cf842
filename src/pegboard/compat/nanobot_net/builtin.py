"""NanoBot.Net's own tools by the names of their factories; `CreateReadFileTool` is `create_read_file_tool`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegboard.compat.builtin import builtin_tool, restricted, searching, shown
from pegboard.compat.messages import CallbackMessages, message_tool
from pegboard.compat.rules import compile_rules
from pegboard.core.tool import Tool

_PROFILE = "nanobot-net"


class FileTools:
    """Tools for files; they work in the workspace of the executor that calls them."""

    @staticmethod
    def create_read_file_tool() -> Tool:
        """`read_file`."""
        return shown(builtin_tool("read_file"), _PROFILE)

    @staticmethod
    def create_write_file_tool() -> Tool:
        """`write_file`."""
        return shown(builtin_tool("write_file"), _PROFILE)

    @staticmethod
    def create_edit_file_tool() -> Tool:
        """`edit_file`."""
        return shown(builtin_tool("edit_file"), _PROFILE)

    @staticmethod
    def create_list_dir_tool() -> Tool:
        """`list_dir`."""
        return shown(builtin_tool("list_dir"), _PROFILE)


class ShellTools:
    """Tools for commands."""

    @staticmethod
    def create_exec_tool(default_timeout: float = 60, additional_denied_patterns: Sequence[str] = ()) -> Tool:
        """`exec`; what the default and the additional texts deny is refused in every executor.

        Args:
            default_timeout: seconds for a command that says no other.
            additional_denied_patterns: texts that no command may have.
        """
        rules = compile_rules(
            "nanobot-net", {"additionalDeniedPatterns": list(additional_denied_patterns)}
        ).rules
        return shown(restricted(builtin_tool("exec"), rules), _PROFILE, {"timeout": default_timeout})


class WebTools:
    """Tools for the web."""

    @staticmethod
    def create_web_search_tool(api_key: str | None = None) -> Tool:
        """`web_search` with Brave; without a key `BRAVE_API_KEY` is read at each search."""
        return shown(searching("brave", api_key), _PROFILE)

    @staticmethod
    def create_web_fetch_tool() -> Tool:
        """`web_fetch`."""
        return shown(builtin_tool("web_fetch"), _PROFILE)


class MessageTools:
    """Tools for messages."""

    @staticmethod
    def create_message_tool(message_bus: Any = None) -> Tool:
        """`message`.

        Args:
            message_bus: an object whose `publish_outbound(message)`, async or not, takes each message on; None = the
                channels of this machine.
        """
        messages = None if message_bus is None else CallbackMessages(lambda: message_bus.publish_outbound)
        return shown(message_tool(messages), _PROFILE)


class CronTools:
    """Tools for scheduled jobs."""

    @staticmethod
    def create_cron_tool() -> Tool:
        """`cron`; `remove` takes the job's name."""
        return shown(builtin_tool("cron"), _PROFILE)


class SpawnTools:
    """Tools that start subagents."""

    @staticmethod
    def create_spawn_tool() -> Tool:
        """`spawn`."""
        return shown(builtin_tool("spawn"), _PROFILE)
