"""Where a path operand leads: inside the workspace, or to which kind of place outside it."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from glob import iglob
from itertools import islice
from typing import Final

from pegboard.core.protected import PROTECTED, protected_entry

HOLE: Final = "\x00"
"""Stands in a word for a piece whose value is not known before the command runs."""


_MOST_NAMES: Final = 2_000
"""Names of a tree that are looked at on the disk."""


class PathZone(Enum):
    """Kinds of place, as far as a verdict depends on them."""

    INSIDE = "inside the workspace"
    WORKSPACE = "the workspace itself"
    PROTECTED = "a protected file of the workspace"
    ABOVE = "a folder that contains the workspace"
    SECRET = "a file of secrets"
    TEMPORARY = "the sandbox's temporary folder"
    HARMLESS = "a harmless device"
    PUBLIC = "a public system file"
    SYSTEM = "a system path"
    DEVICE = "a device"
    NETWORK = "a network connection of the shell"
    HOME = "the home folder"
    OUTSIDE = "outside the workspace"
    UNKNOWN = "not known before it runs"


@dataclass(frozen=True, slots=True)
class Operand:
    """A resolved operand: `target` as effects name it (workspace-relative, or absolute outside)."""

    kind: PathZone
    target: str
    glob: bool = False


class OperandResolver:
    """Resolves operands of one command against one workspace; follows links, changes nothing."""

    def __init__(self, workspace: str, home: str) -> None:
        self.root = os.path.realpath(workspace)
        self.home = posixpath.normpath(home)
        # A workspace under /tmp makes its neighbours there real files, not the sandbox's own.
        first = self.root.split("/")
        self._near_temporary = "/".join(first[:3]) if self.root.startswith("/tmp/") else None

    def resolve(self, text: str, cwd: str | None, *, glob: bool = False, follow: bool = True) -> Operand:
        """Where `text` leads from folder `cwd` (None = not known).

        Args:
            text: the operand; HOLE for unknown pieces; `~` is read as home.
            cwd: absolute folder in which the command would run.
            glob: unquoted wildcards stand in `text`.
            follow: whether a link in last place is followed, as reading does and deleting does not.
        """
        if text.startswith(HOLE):
            return Operand(PathZone.UNKNOWN, text.replace(HOLE, "…"), glob)
        if text.startswith("~"):
            text = self._tilde(text, cwd)
            if text.startswith(HOLE):
                return Operand(PathZone.UNKNOWN, text.replace(HOLE, "…"), glob)
        if HOLE in text:
            # What is known in front of the hole decides: `build/$x` is taken to stay in build/.
            text = text.split(HOLE, 1)[0] + "…"
        absolute = text.startswith("/")
        if not absolute and cwd is None:
            return Operand(PathZone.SECRET if is_secret(text) else PathZone.UNKNOWN, text, glob)
        path = posixpath.normpath(text if absolute else f"{cwd}/{text}")
        if path.startswith("//"):
            path = path[1:]
        if path.startswith(("/dev/", "/proc/")):
            return self._outside(path, glob, True)
        real = self._real(path, follow)
        inside = self._inside(real, glob)
        if inside is not None:
            return inside
        return self._outside(real, glob, absolute and ".." not in text)

    def on_disk(self, text: str, cwd: str | None) -> str | None:
        """The absolute path of an operand that is known, None otherwise."""
        if HOLE in text or (cwd is None and text[:1] not in ("/", "~")):
            return None
        return posixpath.join(cwd or "/", self._tilde(text, cwd) if text.startswith("~") else text)

    def is_folder(self, text: str, cwd: str | None) -> bool:
        """Whether an operand names a folder that is there now."""
        path = self.on_disk(text, cwd)
        return path is not None and os.path.isdir(path)

    def protected_below(self, text: str, cwd: str | None, *, glob: bool = False) -> list[str]:
        """Protected names in a tree, relative to it; with `glob` in what fits the pattern, from its folder on."""
        path = self.on_disk(text, cwd)
        if path is None:
            return []
        start = posixpath.dirname(path) if glob else path
        trees = iglob(path) if glob else (path,)
        made = (
            posixpath.join(at, name)
            for tree in trees
            for at, folders, files in os.walk(tree)
            for name in (*folders, *files)
        )
        found = (posixpath.relpath(name, start) for name in islice(made, _MOST_NAMES))
        return outermost(name for name in found if is_protected(name))

    def _inside(self, real: str, glob: bool) -> Operand | None:
        if real == self.root:
            return Operand(PathZone.WORKSPACE, ".", glob)
        if real.startswith(self.root + "/"):
            target = real[len(self.root) + 1 :]
            if glob and target in ("*", "?*", "**"):
                return Operand(PathZone.WORKSPACE, target, True)
            if is_secret(target, glob):
                return Operand(PathZone.SECRET, target, glob)
            if is_protected(target):
                return Operand(PathZone.PROTECTED, target, glob)
            fits = glob and fits_protected(target)
            return Operand(PathZone.PROTECTED if fits else PathZone.INSIDE, target, glob)
        if self.root.startswith(real if real.endswith("/") else real + "/"):
            return Operand(PathZone.ABOVE, real, glob)
        return None

    def _outside(self, path: str, glob: bool, typed_plainly: bool) -> Operand:
        # `/*` names every top folder, the workspace's own among them.
        kind = PathZone.ABOVE if glob and posixpath.dirname(path) == "/" else _system_kind(path)
        if kind is PathZone.TEMPORARY and self._is_home(path):
            # A home folder below /tmp is a home folder, not the sandbox's scratch space.
            kind = PathZone.OUTSIDE
        if kind is PathZone.TEMPORARY:
            near = self._near_temporary
            if (
                not typed_plainly
                or path == "/tmp"
                or (near and (path == near or path.startswith(near + "/")))
            ):
                kind = PathZone.OUTSIDE
        if kind is PathZone.OUTSIDE or path.startswith(self.home + "/"):
            if path == self.home or (glob and posixpath.dirname(path) == self.home):
                kind = PathZone.HOME
            elif is_secret(path, glob) or _HOME_SECRET.search(path):
                kind = PathZone.SECRET
            else:
                kind = PathZone.OUTSIDE
        if kind is not PathZone.TEMPORARY and kind is not PathZone.SECRET and is_secret(path, glob):
            kind = PathZone.SECRET
        return Operand(kind, path, glob)

    def _is_home(self, path: str) -> bool:
        """Whether a path is the home folder, below it, or holds it."""
        return f"{path}/".startswith(f"{self.home}/") or f"{self.home}/".startswith(f"{path}/")

    def _tilde(self, text: str, cwd: str | None) -> str:
        name, slash, rest = text[1:].partition("/")
        if name == "":
            return self.home + slash + rest
        if name == "+":
            return (cwd or HOLE) + slash + rest
        if name == "-":
            # The folder before the last `cd`.
            return HOLE + slash + rest
        if name == "root":
            return "/root" + slash + rest
        if not name.replace("-", "").replace("_", "").isalnum():
            return text
        return f"/home/{name}{slash}{rest}"

    def _real(self, path: str, follow: bool) -> str:
        """The real path; below the (real) root only what is there is looked at, component by component."""
        if path == self.root:
            return path
        if not path.startswith(self.root + "/"):
            try:
                return os.path.realpath(path) if follow else _real_parent(path)
            except (OSError, ValueError):
                return path
        parts = path[len(self.root) + 1 :].split("/")
        at = self.root
        for index, part in enumerate(parts):
            at = f"{at}/{part}"
            if not follow and index == len(parts) - 1:
                return path
            try:
                mode = os.lstat(at).st_mode
            except (OSError, ValueError):
                return path
            if stat.S_ISLNK(mode):
                return os.path.realpath(path) if follow else _real_parent(path)
        return path


def outermost(paths: Iterable[str]) -> list[str]:
    """Paths without those below another of them."""
    out: list[str] = []
    for path in paths:
        if not any(path == other or path.startswith(other + "/") for other in out):
            out.append(path)
    return out


def _real_parent(path: str) -> str:
    parent, name = posixpath.split(path)
    return posixpath.join(os.path.realpath(parent), name)


_GIT_INTERNAL: Final = re.compile(
    r"(?:^|/)\.git(?:$|/(?:info|objects|refs|HEAD|index|packed-refs)(?:/|$))", re.IGNORECASE
)


def is_protected(target: str) -> bool:
    """Whether a workspace file may only be changed after asking."""
    return protected_entry(target) is not None or _GIT_INTERNAL.search(target) is not None


_PROTECTED_NAMES: Final = tuple(name for name in PROTECTED if "/" not in name)


def fits_protected(target: str) -> bool:
    """Whether a pattern names a protected file; bash's `*` leaves out names with a dot in front."""
    parts = target.split("/")
    return any(
        fnmatch.fnmatchcase(name, part.replace("[^", "[!"))
        for at, part in enumerate(parts)
        if part[:1] == "." or (part[:1] == "p" and at == 0)
        for name in _PROTECTED_NAMES
    )


_REPOSITORY: Final = re.compile(r"(?:^|/)\.(?:git|hg|jj|svn|bzr|pijul)(?:/|$)", re.IGNORECASE)


def is_repository(target: str) -> bool:
    """Whether a path is a repository's own folder or lies in one."""
    return _REPOSITORY.search(target) is not None


_SECRET: Final = re.compile(
    r"(?:^|/)(?:\.env(?!\.(?:example|sample|template|dist|defaults?)$)(?:\.[\w.-]+)?|\.netrc|_netrc|\.pgpass|\.my\.cnf"
    r"|\.git-credentials|\.npmrc|\.pypirc|\.htpasswd|\.boto|\.s3cfg|\.dockercfg|\.vault-token|\.databrickscfg"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|[\w.-]*(?:private|secret|server|client|tls|ssl|signing)[\w-]*[._-]?key\.pem"
    r"|(?:key|privkey|private)\.pem|[\w.-]+\.(?:p12|pfx|jks|keystore|kdbx|ppk|key)"
    r"|\.aws/credentials|\.docker/config\.json|\.kube/config|credentials(?:\.(?:json|ya?ml|ini|xml|db))?"
    r"|(?:prod|production|staging|live)[\w-]*\.(?:pem|p8)"
    r"|(?:\.?secrets?|private|credentials)/(?:.*/)?[\w.-]+\.(?:pem|p8|asc|gpg|json|ya?ml|toml|env|ini|txt|conf|pass|enc)"
    r"|secrets?\.(?:json|ya?ml|toml|env|ini|txt)|service[_-]account[\w-]*\.json|\.ssh(?:/(?!known_hosts$|config$).*)?"
    r"|\.gnupg(?:/.*)?|\.password-store(?:/.*)?|shadow-?|gshadow-?|sudoers|master\.passwd|\.bash_history|\.zsh_history"
    r"|wallet\.dat|Login Data|logins\.json|key[34]\.db|cookies\.sqlite)$",
    re.IGNORECASE,
)
_HOME_SECRET: Final = re.compile(
    r"/\.(?:ssh|gnupg|aws|azure|kube|docker|password-store|mozilla|config/(?:gcloud|gh|hub|op|google-chrome|chromium"
    r"|BraveSoftware|rclone|pegboard|containers)|local/share/(?:keyrings|pegboard)|terraform\.d|cargo/credentials"
    r"|gem/credentials|netlify|fly)(?:/|$)|/Library/Keychains(?:/|$)"
)
_SECRET_NAMES: Final = (
    ".env", ".env.local", ".env.production", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", "id_rsa",
    "id_ed25519", "id_ecdsa", "credentials", "shadow", "secrets.json", "secrets.yaml", "secrets.yml",
)  # fmt: skip


@lru_cache(maxsize=1024)
def is_secret(path: str, glob: bool = False) -> bool:
    """Whether a name is one under which secrets are kept; wildcards count where they single one out."""
    if _SECRET.search(path):
        return True
    if not glob:
        return False
    name = posixpath.basename(path)
    # A bare `*` reads whole folders, which is no way to name a secret; `.e*` and `id_?sa` are.
    if name[:1] in ("*", "?", "") or "*" in posixpath.dirname(path).replace("**", ""):
        return False
    return any(fnmatch.fnmatchcase(secret, name) for secret in _SECRET_NAMES)


_HARMLESS: Final = frozenset(
    [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/tty",
    ]
)
_PUBLIC: Final = re.compile(
    r"/(?:usr|lib|lib32|lib64|bin|sbin|opt|nix|snap)(?:/|$)"
    r"|/etc/(?:os-release|lsb-release|debian_version|issue|hostname|hosts|resolv\.conf|localtime|timezone|locale\.conf"
    r"|alternatives|ssl/certs|ca-certificates|nsswitch\.conf|ld\.so\.cache|services|protocols|mime\.types|shells)(?:/|$)"
    r"|/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|stat|filesystems|mounts|self/(?:status|limits|stat|cgroup|mounts))$"
    r"|/sys/(?:class|devices|fs/cgroup)(?:/|$)"
)
_SYSTEM: Final = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|lib32|lib64|libx32|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var|nix|snap"
    r"|System|Library|Applications|Users|private|Volumes)?$"
    r"|/(?:bin|boot|dev|etc|lib|lib32|lib64|libx32|opt|proc|root|run|sbin|srv|sys|usr|var|nix|snap|System|Library)/"
)


@lru_cache(maxsize=1024)
def _system_kind(path: str) -> PathZone:
    if path in _HARMLESS or path.startswith("/dev/fd/"):
        return PathZone.HARMLESS
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        return PathZone.NETWORK
    if path.startswith("/dev/shm/"):
        return PathZone.TEMPORARY
    if path.startswith("/dev/"):
        return PathZone.DEVICE
    if path.startswith("/proc/") and _PROC_SECRET.search(path):
        return PathZone.SECRET
    if path.startswith(("/tmp/", "/var/tmp/")) or path == "/tmp":
        return PathZone.TEMPORARY
    if _PUBLIC.match(path):
        return PathZone.PUBLIC
    if _SYSTEM.match(path):
        return PathZone.SYSTEM
    return PathZone.OUTSIDE


_PROC_SECRET: Final = re.compile(r"/(?:environ|mem|maps|root|cwd|fd|kcore|kmem|auxv|cmdline|keys)(?:/|$)")
