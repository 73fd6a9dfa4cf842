"""Protected names: files by which other programs run something as the person, and our own settings.

One list for the policy, the file tools, the shell guard and the sandbox. A change of one is asked of a person,
whichever tool makes it; our own settings are changed by no tool.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

OURS: Final = (
    ".pegboard", "pegboard.toml", "pegboard.yaml", "pegboard.yml", "pegboard.json", "pegboard.json5",
)  # fmt: skip
"""Our own settings."""

WORK: Final = (
    ".git", ".git/gitdir", ".git/modules", ".git/worktrees", ".git/rebase-merge", ".git/rebase-apply",
    ".git/sequencer", ".gitmodules", ".hg", ".jj", ".sl",
)  # fmt: skip
"""What version control writes itself in ordinary work: in the sandbox it is checked after a command instead."""

PROTECTED: Final = (
    *WORK, *OURS,
    # Version control: hooks, and settings that name programs.
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".gitconfig", ".husky",
    ".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml", ".jj/workspace-config.toml", ".sl/config",
    ".bzr/branch/branch.conf", ".pijul/config", "_darcs/prefs",
    # Editors.
    ".vscode", ".vscodium", ".vs", ".idea", ".fleet", ".zed", ".helix", ".nova", ".lapce", ".theia", ".settings",
    ".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el",
    ".devcontainer", ".devcontainer.json", ".gdbinit", ".lldbinit",
    # Agents.
    ".mcp.json", ".agent", ".agents", ".claude", ".claude.json", ".codex", ".cursor", ".gemini", ".windsurf", ".kiro",
    ".amazonq", ".roo", ".roomodes", ".kilocode", ".kilocodemodes", ".cline", ".continue", ".continuerc.json",
    ".opencode", "opencode.json", "opencode.jsonc", ".crush", "crush.json", ".crush.json", ".aider.conf.yml", ".amp",
    ".augment", ".copilot", ".github/hooks", ".factory", ".goose", ".junie", ".qwen", ".qoder", ".lingma", ".trae",
    ".rovodev", ".warp", ".zencoder", ".tabnine", ".iflow",
    # Shells and what they and package managers read when they start.
    ".envrc", ".direnv", ".mise.toml", "mise.toml", ".mise", ".autoenv", ".autoenv.zsh",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".ssh", ".netrc", ".npmrc", ".pypirc", ".ripgreprc",
)  # fmt: skip
"""Files and folders by which other programs run something as the person, at any depth of the tree.

`.git`, `.hg`, `.jj` and `.sl` alone mean that name itself: what lies in such a folder is judged by its own entry.
Spelling does not matter: case, Unicode compatibility forms, ignorable characters, trailing dots and spaces, and
NTFS stream names are folded as the file systems that ignore them do.
"""

_ONLY_LEAF: Final = frozenset({".git", ".hg", ".sl"})


def folded(name: str) -> str:
    """The key under which two names are twins: compatibility form, caseless, ignorables dropped."""
    if name.isascii():
        return name.lower()
    kept = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).casefold())


class ProtectedNames:
    """Which relative paths are protected."""

    def __init__(self, entries: Iterable[str] = PROTECTED) -> None:
        self._entries = frozenset(tuple(_loose(part) for part in PurePosixPath(e).parts) for e in entries)
        self._firsts = frozenset(entry[0] for entry in self._entries if entry)
        self._longest = max((len(entry) for entry in self._entries), default=0)

    def match(self, relative: str, *, is_dir: bool = False) -> str | None:
        """The protected entry that covers `relative` (with `/`), None where none does."""
        parts = [_loose(part) for part in relative.split("/") if part not in ("", ".")]
        for start, part in enumerate(parts):
            if part not in self._firsts:
                continue
            for length in range(1, self._longest + 1):
                run = tuple(parts[start : start + length])
                if len(run) < length:
                    break
                if length == 1 and part in _ONLY_LEAF and (is_dir or start + 1 < len(parts)):
                    continue
                if run in self._entries:
                    return "/".join(run)
        return None


@lru_cache(maxsize=16)
def protected_names(entries: tuple[str, ...]) -> ProtectedNames:
    """The same object for the same entries: every session of a worker has some."""
    return ProtectedNames(entries)


def _loose(name: str) -> str:
    """A name as lenient file systems see it (git's is_ntfs_dotgit and is_hfs_dotgit in short)."""
    key = folded(name).split(":", 1)[0].rstrip(" .") or folded(name)
    return ".git" if key == "git~1" else key


_ALL: Final = ProtectedNames()


def protected_entry(target: str) -> str | None:
    """The entry of PROTECTED that covers an effect's target, None where none does."""
    return _ALL.match(target)
