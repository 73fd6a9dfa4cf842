"""glob: the files that match a pattern, newest first (ledger D-25..D-27)."""

from __future__ import annotations

import heapq
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace
from pegboard.files.filters import leaving_out
from pegboard.files.patterns import glob_regex
from pegboard.files.walk import MAX_DEPTH, Skipped, TreeWalk, open_folder, scope_below
from pegboard.ports.files import DirectoryEntry, DirectoryListing

_META = frozenset("*?[{\\")


def glob_files(
    root: Path,
    rel: str,
    pattern: str,
    *,
    limit: int = 100,
    hidden: bool = False,
    no_ignore: bool = False,
    denied: Callable[[str], bool] | None = None,
    ignore_case: bool = False,
    exclude: str | None = None,
) -> DirectoryListing:
    """Files below `rel` whose path fits `pattern`, newest modification first, at most `limit`.

    Names such as `app/[id]/page.tsx` and `{{name}}/setup.py` are common: where brackets as classes, or braces without
    a comma, find nothing they are taken as they stand, and the answer says so.

    Args:
        root: the workspace's real path.
        rel: the folder to look in, below `root`, without links; paths in the answer are relative to it.
        pattern: over the whole relative path: `*.py` is this folder only, `**/*.py` any depth.
            A component that starts with a dot finds hidden names without `hidden`.
        denied: told paths below `root`; True leaves one out, with all below it.
        ignore_case: `*.md` finds `README.MD`.
        exclude: globs below `rel` to leave out, divided by commas: `*.min.js` at any depth, `dist/**` from `rel`.

    Returns:
        Entries of kind file; `truncated` where more matched; `skipped` says what was left out.

    Raises:
        InvalidArguments: an empty, absolute or malformed pattern.
        NotFound, Unsupported, Unavailable, OutsideWorkspace: about `rel`.
    """
    options = _Options(
        limit=limit, hidden=hidden, no_ignore=no_ignore, denied=denied, ignore_case=ignore_case,
        kept=leaving_out(exclude).accept() if exclude else None,
    )  # fmt: skip
    find = partial(_find, root, rel, options)
    found = find(pattern)
    # Of one thing there is no choice: shells leave braces without a comma alone.
    signs = "[]" if "," in pattern else "[]{}"
    if found.entries or "\\" in pattern or not any(sign in pattern for sign in signs):
        return found
    literal = find("".join("\\" + char if char in signs else char for char in pattern))
    if not literal.entries:
        return found
    what = "brackets" if "[" in pattern else "braces"
    meaning = "a class of characters" if "[" in pattern else "a choice"
    note = f"{what} taken as they stand: as {meaning} the pattern matches nothing"
    return replace(literal, skipped=(note, *literal.skipped))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What glob_files was asked for; `kept` is told paths below `rel`."""

    limit: int
    hidden: bool
    no_ignore: bool
    denied: Callable[[str], bool] | None
    ignore_case: bool
    kept: Callable[[str], bool] | None

    def leaves_out(self, where: str, base: str) -> Callable[[str], bool] | None:
        """What the walk below `where`, which is `base` below `rel`, leaves out; None for nothing."""
        denied, kept = self.denied, self.kept
        prefix, below = ("" if where == "." else where + "/"), (base + "/" if base else "")
        if denied is None and kept is None:
            return None
        return lambda path: (
            (denied is not None and denied(prefix + path)) or (kept is not None and not kept(below + path))
        )


def _find(root: Path, rel: str, options: _Options, pattern: str) -> DirectoryListing:
    base, rest = _split(pattern)
    if options.ignore_case:
        # The folders' names are found as any other, as they may be written otherwise.
        base, rest = "", f"{base}/{rest}" if base else rest
    where = _join(rel, base)
    parts = rest.split("/")
    dotted = any(_starts_dotted(part) for part in parts)
    regex = glob_regex(rest, ignore_case=options.ignore_case)
    try:
        top = open_folder(root, where)
    except NotFound:
        if not base:
            raise
        os.close(open_folder(root, rel))
        return DirectoryListing(entries=(), skipped=(f"the folder {where} does not exist",))
    prefix = "" if where == "." else where + "/"
    walk = TreeWalk(
        top=top,
        scope=None if options.no_ignore else scope_below(root, where),
        hidden=options.hidden or dotted,
        git=".git" in base.split("/") or any(".git" in _choices(part) for part in parts),
        depth=MAX_DEPTH if "**" in rest or "{" in rest else len(parts),
        denied=options.leaves_out(where, base),
    )
    try:
        found, links = _matches(walk, regex, root, prefix)
    finally:
        os.close(top)
    limit = options.limit
    newest = heapq.nsmallest(limit, found) if limit < len(found) else sorted(found)
    shown = f"{base}/" if base else ""
    entries = tuple(
        DirectoryEntry(path=shown + path, kind="file", size=size, mtime_ns=-when)
        for when, path, size in newest
    )
    skipped = walk.skipped.sentences() + links.sentences()
    if not entries:
        skipped += walk.left_out.sentences()
    return DirectoryListing(entries=entries, truncated=len(found) > limit, skipped=skipped)


def _matches(
    walk: TreeWalk, regex: re.Pattern[str], root: Path, prefix: str
) -> tuple[list[tuple[int, str, int]], Skipped]:
    """`(-mtime_ns, path, size)` of every match; links count where they lead to a file inside."""
    found: list[tuple[int, str, int]] = []
    links = Skipped()
    fits = regex.fullmatch
    for fd, folder, entry in walk:
        path = folder + entry.name
        if not fits(path):
            continue
        try:
            facts = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                if not _leads_inside(root, prefix + path):
                    links.add("link", "pointing to no file inside", path)
                    continue
                facts = os.stat(entry.name, dir_fd=fd)
        except OSError:
            # Gone between listing and asking: as if it had never been there.
            continue
        if stat.S_ISREG(facts.st_mode):
            found.append((-facts.st_mtime_ns, path, facts.st_size))
    return found, links


def _leads_inside(root: Path, path: str) -> bool:
    target = os.path.realpath(root / path)
    return os.path.isfile(target) and (root in Path(target).parents)


def _split(pattern: str) -> tuple[str, str]:
    """The leading components without wildcards, and the rest (never empty)."""
    cleaned = re.sub(r"(?<![^/])\*\*/(?:\*\*/)+", "**/", re.sub(r"/{2,}", "/", pattern))
    while cleaned.startswith("./"):
        cleaned = cleaned[2:]
    if not cleaned or cleaned == ".":
        raise InvalidArguments(
            "the glob pattern is empty", hint="Give one, for example **/*.py for all Python files."
        )
    if cleaned.startswith("/"):
        raise InvalidArguments(
            f"the glob pattern {pattern!r} is absolute",
            hint="Patterns are relative to `path`: put the folder into `path` and the rest into `pattern`.",
        )
    if "\0" in cleaned:
        raise InvalidArguments("the glob pattern holds a NUL character")
    if cleaned.endswith("/"):
        cleaned += "**"
    parts = cleaned.split("/")
    if ".." in parts:
        raise OutsideWorkspace(
            f"the glob pattern {pattern!r} climbs out of its folder",
            hint="Put the folder to look in into `path`.",
        )
    literal = 0
    while literal < len(parts) - 1 and not _META & set(parts[literal]):
        literal += 1
    return "/".join(p for p in parts[:literal] if p != "."), "/".join(parts[literal:])


def _join(rel: str, base: str) -> str:
    parts = [p for p in (*rel.split("/"), *base.split("/")) if p not in ("", ".")]
    return "/".join(parts) or "."


def _choices(part: str) -> list[str]:
    return re.split(r"[{,}]", part)


def _starts_dotted(part: str) -> bool:
    return any(choice.startswith(".") for choice in _choices(part)) if "{" in part else part.startswith(".")
