"""Finding files by name: globs, file types, and what a folder holds."""

from __future__ import annotations

import heapq
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace
from pegboard.core.policy.patterns import NEVER, wildmatch
from pegboard.core.schema.problems import did_you_mean
from pegboard.core.secrets.clip import clip
from pegboard.files.walk import MAX_DEPTH, Skipped, TreeWalk, open_folder, scope_below
from pegboard.ports.files import DirectoryEntry, DirectoryListing, EntryKind

MAX_WAYS: Final = 1_000
"""Globs without braces that one with braces may stand for."""


def _choices(pattern: str) -> list[str]:
    """The globs without braces that a glob stands for: `{a,b{c,d}}` are `a`, `bc` and `bd`.

    Raises:
        InvalidArguments: an open brace, or more than MAX_WAYS of them.
    """
    done: list[str] = []
    pending = [pattern]
    while pending:
        glob = pending.pop()
        parts = _first_braces(glob)
        if parts is None:
            done.append(glob)
        else:
            head, choices, tail = parts
            pending += [head + choice + tail for choice in reversed(choices)]
        if len(done) + len(pending) > MAX_WAYS:
            shown = pattern if len(pattern) <= 80 else f"{clip(pattern, 0, 80)}…"
            raise InvalidArguments(
                f"the braces of the glob {shown!r} stand for more than {MAX_WAYS:,} patterns",
                hint="Use fewer alternatives, or a wildcard in place of some.",
            )
    return done


_PART: Final = re.compile(r"\\.|\[[!^]?\]?[^\]]*\]|[{},]", re.DOTALL)


def _first_braces(glob: str) -> tuple[str, list[str], str] | None:
    """What stands before the first braces, their alternatives, and what follows; None without any."""
    opened, depth, cuts = -1, 0, list[int]()
    for part in _PART.finditer(glob):
        match part[0]:
            case "{":
                depth += 1
                if depth == 1:
                    opened, cuts = part.start(), [part.start()]
            case "," if depth == 1:
                cuts.append(part.start())
            case "}" if depth == 0:
                raise _malformed(glob, f"has a `}}` at position {part.end()} that nothing opened")
            case "}":
                depth -= 1
                if depth == 0:
                    cuts.append(part.start())
                    choices = [glob[a + 1 : b] for a, b in pairwise(cuts)]
                    return glob[:opened], choices, glob[part.end() :]
            case _:
                pass
    if depth:
        raise _malformed(glob, f"has a `{{` at position {opened + 1} that is never closed")
    return None


def _malformed(pattern: str, what: str) -> InvalidArguments:
    return InvalidArguments(
        f"the glob {pattern!r} {what}", hint="Close it, or put a backslash before a literal [ { } or \\."
    )


@lru_cache(maxsize=512)
def glob_regex(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a glob over a whole relative path; use with `fullmatch`.

    `*` and `?` stop at `/`, `**` as a whole component spans folders and may be empty in front (`**/x`
    matches `x`), `[a-z]` and `[!a-z]` are classes, `{a,b{c,d}}` alternatives, a backslash makes the next
    character literal.

    Raises:
        InvalidArguments: an open bracket or brace, or a trailing backslash.
    """
    sources = [wildmatch(glob, pathname=True) for glob in _choices(pattern)]
    if NEVER in sources:
        at_end = pattern.endswith("\\")
        raise _malformed(pattern, "ends in a backslash" if at_end else "has a `[` that is never closed")
    return re.compile("|".join(sources), re.IGNORECASE if ignore_case else 0)


FILE_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "c": ("*.c", "*.h"),
    "config": ("*.cfg", "*.conf", "*.config", "*.ini"),
    "cpp": ("*.cc", "*.cpp", "*.cxx", "*.h", "*.hh", "*.hpp", "*.hxx", "*.inl"),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss", "*.sass", "*.less"),
    "csv": ("*.csv", "*.tsv"),
    "dart": ("*.dart",),
    "docker": ("*Dockerfile*", "*.dockerfile"),
    "elixir": ("*.ex", "*.eex", "*.exs", "*.heex"),
    "go": ("*.go",),
    "graphql": ("*.graphql", "*.graphqls"),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.htm", "*.html", "*.ejs"),
    "java": ("*.java", "*.jsp", "*.properties"),
    "js": ("*.js", "*.jsx", "*.cjs", "*.mjs", "*.vue"),
    "json": ("*.json", "*.json5", "*.jsonl", "*.jsonc"),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk", "*.mak"),
    "md": ("*.md", "*.markdown", "*.mdown", "*.mdx"),
    "perl": ("*.pl", "*.pm", "*.t"),
    "php": ("*.php",),
    "protobuf": ("*.proto",),
    "py": ("*.py", "*.pyi"),
    "r": ("*.r", "*.R", "*.Rmd"),
    "rst": ("*.rst",),
    "ruby": ("*.rb", "*.gemspec", "*.rake", "Gemfile", "Rakefile"),
    "rust": ("*.rs",),
    "scala": ("*.scala", "*.sbt"),
    "sh": ("*.sh", "*.bash", "*.zsh", "*.ksh", "*.fish", ".bashrc", ".zshrc", ".profile"),
    "sql": ("*.sql",),
    "svelte": ("*.svelte",),
    "swift": ("*.swift",),
    "tf": ("*.tf", "*.tfvars", "*.hcl"),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "txt": ("*.txt",),
    "vue": ("*.vue",),
    "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
    "zig": ("*.zig",),
}

_TYPE_ALIASES: Final = {
    "bash": "sh", "c++": "cpp", "csharp": "cs", "golang": "go", "javascript": "js", "jsx": "js", "kt": "kotlin",
    "markdown": "md", "python": "py", "rb": "ruby", "rs": "rust", "shell": "sh", "terraform": "tf", "tsx": "ts",
    "typescript": "ts", "yml": "yaml",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Which files count, by name.

    Attributes:
        glob: `*.py` at any depth, `src/**/*.py` from the searched folder, `!*.min.js` leaves out,
            several divided by commas.
        type: a name of FILE_TYPES or a common alias of one.
    """

    glob: str | None = None
    type: str | None = None

    def accept(self) -> Callable[[str], bool] | None:
        """A test of a path below the searched folder, None where everything counts.

        Raises:
            InvalidArguments: a malformed glob or an unknown type.
        """
        kinds = [_matcher(glob) for glob in self._type_globs()]
        wanted = [_matcher(glob) for glob in self._globs() if not glob.startswith("!")]
        unwanted = [_matcher(glob[1:]) for glob in self._globs() if glob.startswith("!")]
        if not (kinds or wanted or unwanted):
            return None

        def accepts(path: str) -> bool:
            if kinds and not any(fits(path) for fits in kinds):
                return False
            if wanted and not any(fits(path) for fits in wanted):
                return False
            return not any(fits(part) for fits in unwanted for part in _with_ancestors(path))

        return accepts

    def by_name(self) -> tuple[str, ...]:
        """Globs of file names alone that restrict what is looked at; `accept` decides in the end."""
        wanted = tuple(g for g in self._globs() if not g.startswith("!")) or self._type_globs()
        return () if any("/" in glob for glob in wanted) else wanted

    def _globs(self) -> list[str]:
        return [g for g in divided(self.glob or "") if g != "!"]

    def _type_globs(self) -> tuple[str, ...]:
        if not self.type:
            return ()
        name = self.type.lower().lstrip("*.")
        name = _TYPE_ALIASES.get(name, name)
        if name not in FILE_TYPES:
            raise InvalidArguments(
                f"there is no file type {self.type!r}{did_you_mean(name, [*FILE_TYPES, *_TYPE_ALIASES], otherwise='.')}",
                hint=f"Types: {', '.join(FILE_TYPES)}. For anything else use glob, for example glob='*.{name}'.",
            )
        return FILE_TYPES[name]


def divided(globs: str) -> list[str]:
    """The globs of a list divided by commas; one within braces divides nothing."""
    parts = [glob.strip() for glob in re.split(r",(?![^{]*\})", globs)]
    return [glob for glob in parts if glob]


def leaving_out(globs: str) -> NameFilter:
    """The filter that leaves out what some globs, divided by commas, name; a `!` before one adds nothing."""
    return NameFilter(",".join(f"!{glob.lstrip('!')}" for glob in divided(globs)))


def _matcher(glob: str) -> Callable[[str], bool]:
    anchored = "/" in glob.rstrip("/")
    fits = glob_regex(glob.strip("/").removeprefix("./")).fullmatch
    if anchored:
        return lambda path: fits(path) is not None
    return lambda path: fits(path.rpartition("/")[2]) is not None


def _with_ancestors(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts) + 1)]


def list_dir(
    root: Path,
    rel: str,
    *,
    depth: int = 1,
    limit: int = 1000,
    denied: Callable[[str], bool] | None = None,
) -> DirectoryListing:
    """Entries below `rel` of `root`, hidden ones too, each folder before what is in it.

    Within a folder: folders first, then the rest, each by name. Links are shown as links and not
    entered. `.git` is shown and not entered.

    Args:
        depth: levels; 1 = the folder itself.
        limit: entries at most; `truncated` says whether there were more.
        denied: told paths below `root`; True leaves one out.

    Raises:
        NotFound, Unsupported (no folder), Unavailable, OutsideWorkspace: about `rel`.
    """
    prefix = "" if rel in ("", ".") else rel.rstrip("/") + "/"
    top = open_folder(root, rel)
    walk = TreeWalk(
        top=top,
        scope=None,
        hidden=True,
        git=True,
        depth=max(1, depth),
        folders=True,
        folders_first=True,
        closed=frozenset((".git",)),
        denied=None if denied is None else lambda path: denied(prefix + path),
    )
    entries: list[DirectoryEntry] = []
    truncated = False
    try:
        for fd, folder, entry in walk:
            if len(entries) >= limit:
                truncated = True
                break
            entries.append(_entry(fd, folder, entry.name))
    finally:
        os.close(top)
    return DirectoryListing(entries=tuple(entries), truncated=truncated, skipped=walk.skipped.sentences())


def _entry(fd: int, folder: str, name: str) -> DirectoryEntry:
    try:
        facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return DirectoryEntry(path=folder + name, kind="other")
    return DirectoryEntry(
        path=folder + name, kind=_kind(facts.st_mode), size=facts.st_size, mtime_ns=facts.st_mtime_ns
    )


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"


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
        git=".git" in base.split("/") or any(".git" in _pieces(part) for part in parts),
        depth=MAX_DEPTH if "**" in rest or "{" in rest else len(parts),
        denied=options.leaves_out(where, base),
        fits=lambda path: regex.fullmatch(path) is not None,
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
    skipped = walk.skipped.sentences() + links.sentences() + walk.left_out.sentences()
    if not entries and os.path.isdir(root / where / rest):
        named = f"{shown}{rest}"
        skipped = (f"{named} is a folder; {named}/** finds what is in it", *skipped)
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


def below(folder: str, glob: str) -> str:
    """The glob relative to a folder, where it or an alternative of it begins with the folder's absolute path."""
    if "/" not in glob.lstrip("/!"):
        return glob
    if glob.rstrip("/") == folder:
        return "**"
    return re.sub(rf"(\A|[!{{,]){re.escape(folder.rstrip('/'))}/", r"\1", glob)


def _join(rel: str, base: str) -> str:
    parts = [p for p in (*rel.split("/"), *base.split("/")) if p not in ("", ".")]
    return "/".join(parts) or "."


def _pieces(part: str) -> list[str]:
    return re.split(r"[{,}]", part)


def _starts_dotted(part: str) -> bool:
    return any(choice.startswith(".") for choice in _pieces(part)) if "{" in part else part.startswith(".")
