"""Git remotes: the URLs that a git command connects to, and the hosts in them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"ssh": 22, "git": 9418, "git+ssh": 22, "ssh+git": 22, "ftp": 21, "ftps": 990}
"""Ports of schemes other than the web's, which every host is granted with."""

_SCP: Final = re.compile(r"(?:[\w.+-]+@)?(\[[0-9a-fA-F:]+\]|[\w.-]+):(?!//)(.*)", re.DOTALL)
_TIMEOUT_S: Final = 5.0


def host_of_remote(url: str) -> str:
    """`host` or `host:port` of a remote's URL, of the form `me@host:path` too; empty for a path of this machine."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return ""
        if parts.scheme == "file" or not host:
            return ""
        host = f"[{host}]" if ":" in host else host
        web = {"http": 80, "https": 443}.get(parts.scheme)
        port = port or _PORTS.get(parts.scheme)
        return host if port in (None, web) else f"{host}:{port}"
    match = _SCP.fullmatch(url)
    return f"{match[1].lower()}:22" if match else ""


def without_credentials(url: str) -> str:
    """The URL without a user's name and password, as it may be shown and recorded."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


class Remotes:
    """The remotes of the repository that a folder lies in.

    Args:
        folder: where git runs.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def urls(self, name: str, *, push: bool) -> Sequence[str]:
        """The URLs that git uses for a remote now, rewritten as `insteadOf` says; none if there is no such remote."""
        if not any((place / ".git").exists() for place in (Path(self._folder), *Path(self._folder).parents)):
            return ()
        remote = name or self._default(push=push)
        return self._git("remote", "get-url", "--all", *(["--push"] if push else []), "--", remote)

    def names(self) -> Sequence[str]:
        """All of them."""
        return self._git("remote")

    def _default(self, *, push: bool) -> str:
        """The remote that a command without one means (git-push, git-fetch)."""
        branch = next(iter(self._git("symbolic-ref", "--short", "HEAD")), "")
        keys = [f"branch.{branch}.pushRemote", "remote.pushDefault"] if push else []
        for key in (*keys, f"branch.{branch}.remote"):
            if found := self._git("config", "--get", key):
                return found[-1]
        names = self.names()
        return names[0] if len(names) == 1 else "origin"

    def _git(self, *words: str) -> Sequence[str]:
        # As in the sandbox, where the person's own settings are out of reach.
        environment = {
            "PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
        }  # fmt: skip
        try:
            done = subprocess.run(
                ["git", "-c", "safe.directory=*", "-C", self._folder, *words],
                capture_output=True, timeout=_TIMEOUT_S, check=False, env=environment,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ()
        return done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else ()
