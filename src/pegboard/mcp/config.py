"""ServerConfig: one MCP server, as its settings say it is started and used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from pegboard.core.errors import ConfigError, check_text
from pegboard.mcp.naming import Style

Transport: TypeAlias = Literal["stdio", "streamable_http", "sse", "http_sse"]

PASSED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of ours that a server process gets; everything else only where its config says so."""

OAUTH: Final = ("client_id", "scope", "client_secret", "private_key", "algorithm", "issuer")
"""Keys under `oauth`. A secret or key makes it the client's own login, with no person (client credentials)."""

_ASKS: Final = re.compile(
    r"^--?[\w-]*(?:token|secret|passw|key|auth|credential|header|cookie|pat$)", re.IGNORECASE
)
_LONGEST_TOLD: Final = 300
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server.

    Attributes:
        name: how we call it; what it says about itself never replaces this.
        transport: stdio, streamable_http, sse (legacy), or http_sse: streamable first, then sse.
        command, args, env, cwd: stdio: the program; `env` is added to a short allow-list of ours.
        url, headers: HTTP.
        timeout_s: wall seconds of one call.
        tool_timeouts: the same for single tools, by the server's own tool name.
        progress_extends: progress restarts `timeout_s`; `max_s` still bounds the call.
        max_s: wall seconds of one call whatever progress says.
        start_s: wall seconds for starting and listing.
        allow, deny: shell patterns over tool, resource and prompt names; None = all are offered.
        resources, prompts: whether those become tools.
        naming: how its tools are called here: mcp, double_underscore or raw.
        protocol: auto, or the revision to speak.
        parallel: calls of one turn may run side by side.
        oauth: what authorisation needs beyond discovery, by the names of OAUTH; empty = a person logs in.
        disabled: it is listed and not started.
        env_file: a file of further `NAME=VALUE` lines, read by whoever reads the settings; `env` wins.
        source: where it was configured, for messages.
        fault: why it cannot be started although it is listed, empty where it can.
        notes: keys that stand in the settings and mean nothing here, one sentence each, for people.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 30.0
    tool_timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    progress_extends: bool = False
    max_s: float = 600.0
    start_s: float = 30.0
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    resources: bool = True
    prompts: bool = True
    naming: Style = "mcp"
    protocol: str = "auto"
    parallel: bool = False
    oauth: Mapping[str, str] = field(default_factory=dict[str, str])
    disabled: bool = False
    env_file: str = ""
    source: str = ""
    fault: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for what in ("name", "command", "url"):
            check_text(getattr(self, what), f"an MCP server's {what}")
        if not NAME.match(self.name):
            raise ConfigError(
                f"MCP server name {self.name!r} must be 1 to 48 letters, digits, _, - or ., "
                "starting with a letter or digit"
            )
        if self.transport == "stdio" and not self.command:
            raise ConfigError(f"MCP server {self.name!r} needs a command, or a url")
        if self.transport != "stdio" and not self.fault and not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"MCP server {self.name!r}: the url {self.url!r} must start with http:// or https://"
            )

    @property
    def command_line(self) -> str:
        """What starting it runs, or the address: shown whole before the first start."""
        import shlex

        return shlex.join((self.command, *self.args)) if self.transport == "stdio" else self.url

    @property
    def redacted_command(self) -> str:
        """`command_line` for an error, which may be shown to a model and kept: without secrets, cut where it is long."""
        import shlex

        from pegboard.core.secrets.redact import Redactor, redaction_mark

        if self.transport == "stdio":
            # What follows an option of such a name is a secret, whatever it looks like.
            words = [
                redaction_mark(word)
                if i and _ASKS.search(self.args[i - 1]) and not word.startswith("-")
                else word
                for i, word in enumerate(self.args)
            ]
            plain = " ".join((shlex.quote(self.command), *map(shlex.quote, words)))
        else:
            parts = urlsplit(self.url)
            plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        shown, _ = Redactor({**self.env, **self.headers}).redact(plain)
        cut = len(shown) > _LONGEST_TOLD
        return f"{shown[:_LONGEST_TOLD]} … [{len(shown)} characters]" if cut else shown
