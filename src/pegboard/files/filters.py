"""Which files grep looks at: globs as in a gitignore line, and named file types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import InvalidArguments
from pegboard.files.patterns import glob_regex

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

    def narrow(self) -> tuple[str, ...]:
        """Globs that ripgrep may restrict itself to; at most one of the two filters."""
        wanted = tuple(g for g in self._globs() if not g.startswith("!"))
        return wanted or self._type_globs()

    def _globs(self) -> list[str]:
        return [g for g in divided(self.glob or "") if g != "!"]

    def _type_globs(self) -> tuple[str, ...]:
        if not self.type:
            return ()
        name = self.type.lower().lstrip("*.")
        name = _TYPE_ALIASES.get(name, name)
        if name not in FILE_TYPES:
            near = difflib.get_close_matches(name, [*FILE_TYPES, *_TYPE_ALIASES], 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidArguments(
                f"there is no file type {self.type!r}.{guess}",
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
