"""`pegboard trust`: trust a project's file as it is now."""

from __future__ import annotations

from pathlib import Path

from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.config.load import NAMES
from pegboard.config.paths import Paths, current_folder
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError


def trust(file: Path | None, *, remove: bool, show: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    book = Trust(Paths.of())
    if show:
        known = book.list()
        if options.json:
            print_json(known)
        elif not known:
            print_line("nothing is trusted")
        else:
            table([(path, digest[:16]) for path, digest in known.items()])
        return 0
    path = file or _project_file(options.workspace or current_folder())
    if not path.is_file():
        raise ConfigError(f"{path} is not a file")
    if remove:
        gone = book.remove(path)
        print_line(f"{path} is no longer trusted" if gone else f"{path} was not trusted")
        return 0
    digest = book.add(path)
    if options.json:
        print_json({"path": str(path.resolve()), "sha256": digest})
    else:
        # Escaped: what is trusted must be what was seen.
        print_line(escape_controls(path.read_text(encoding="utf-8", errors="replace").rstrip()))
        print_line(f"-- {path} is now trusted (SHA-256 {digest[:16]}…); any change revokes it")
    return 0


def _project_file(workspace: Path) -> Path:
    for name in (*NAMES, ".mcp.json"):
        if (workspace / name).is_file():
            return workspace / name
    raise ConfigError(f"no {NAMES[0]} or .mcp.json in {workspace}; name the file to trust")
