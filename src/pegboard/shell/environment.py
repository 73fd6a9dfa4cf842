"""The environment of commands: an allow-list, never our own whole environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pegboard.core.errors import InvalidArguments

_PASSED: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME",
    "RUSTUP_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
# No pager, editor or password prompt: nobody sits at the other end.
_UNATTENDED: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}
_ATTENDED: Final = {"TERM": "xterm-256color"}
# What decides which code a program loads, or what the shell does before the command.
_REFUSED: Final = re.compile(
    r"PATH|LD_.*|DYLD_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|PROMPT_COMMAND|PS4|IFS|HOME|SHELL"
    r"|GCONV_PATH|GLIBC_TUNABLES|PEGBOARD_.*|GIT_CONFIG_.*|GIT_EXEC_PATH|GIT_SSH.*|GIT_ASKPASS|SSH_ASKPASS"
    r"|(HTTP|HTTPS|ALL|NO)_PROXY",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def command_environment(
    host: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    passed: Sequence[str] = (),
    prepend: Sequence[str] = (),
    secret_names: Iterable[str] = (),
    terminal: bool = False,
) -> dict[str, str]:
    """The variables of one command.

    Args:
        host: our own environment; only the allow-listed names of it are used.
        extra: what the call adds.
        passed: further names of `host` that the configuration lets through.
        prepend: folders to put before PATH.
        secret_names: names that hold secrets; a call may not set them.
        terminal: a person or program types into it; pagers and editors work then.

    Raises:
        InvalidArguments: the call sets a variable that it may not set, or a malformed one.
    """
    env = {name: host[name] for name in (*_PASSED, *passed) if name in host}
    env.update((name, value) for name, value in host.items() if name.startswith("LC_"))
    env.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    env.setdefault("LANG", "C.UTF-8")
    env.setdefault("HOME", "/")
    env.setdefault(
        "SHELL", "/bin/bash"
    )  # cron, systemd and containers set none; programs that open a shell read it
    env.update(_ATTENDED if terminal else _UNATTENDED)
    if prepend:
        env["PATH"] = ":".join([*prepend, env["PATH"]])
    secrets = set(secret_names)
    for name, value in extra.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise InvalidArguments(f"env: {name!r} is not a variable name or its value contains a NUL byte")
        if _REFUSED.fullmatch(name) or name in secrets:
            raise InvalidArguments(
                f"env: {name} may not be set by a call",
                hint="Set it in the command itself, where it is checked with the rest.",
            )
        env[name] = value
    return env
