"""Language servers and checkers that are known by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """A program that looks at files.

    Attributes:
        name: as the settings and results name it.
        argv: program and arguments. In a command, an argument `{file}` stands for the files that changed.
        kind: a language server, or a command that writes `FILE:LINE: MESSAGE` lines and ends.
        install: how to get it.
    """

    name: str
    argv: tuple[str, ...]
    kind: Literal["server", "command"] = "server"
    install: str = ""


KNOWN: Final[Mapping[str, Checker]] = {
    one.name: one
    for one in (
        Checker(name="pyright", argv=("pyright-langserver", "--stdio"), install="pip install 'pyright[nodejs]'"),
        Checker(name="ruff", argv=("ruff", "server"), install="pip install ruff"),
        Checker(name="gopls", argv=("gopls",), install="go install golang.org/x/tools/gopls@latest"),
        Checker(
            name="tsc", argv=("tsc", "--noEmit", "--pretty", "false"), kind="command", install="npm install -g typescript"
        ),
        Checker(
            name="typescript-language-server", argv=("typescript-language-server", "--stdio"),
            install="npm install -g typescript typescript-language-server",
        ),
        Checker(name="rust-analyzer", argv=("rust-analyzer",), install="rustup component add rust-analyzer"),
        Checker(name="clangd", argv=("clangd",), install="apt-get install clangd"),
    )
}  # fmt: skip
"""What the settings name without saying how it is started."""

_LANGUAGES: Final = {
    ".py": ("python", "pyright"), ".pyi": ("python", "pyright"), ".go": ("go", "gopls"), ".rs": ("rust", "rust-analyzer"),
    ".ts": ("typescript", "typescript-language-server"), ".tsx": ("typescriptreact", "typescript-language-server"),
    ".js": ("javascript", "typescript-language-server"), ".jsx": ("javascriptreact", "typescript-language-server"),
    ".mts": ("typescript", "typescript-language-server"), ".mjs": ("javascript", "typescript-language-server"),
    ".c": ("c", "clangd"), ".h": ("c", "clangd"), ".cpp": ("cpp", "clangd"), ".cc": ("cpp", "clangd"), ".hpp": ("cpp", "clangd"),
}  # fmt: skip
"""By suffix: the language as LSP names it, and the server that finds definitions and uses in it."""


def language_of(path: str) -> str:
    """The language of a file, as `textDocument/didOpen` names it."""
    suffix = PurePosixPath(path).suffix.lower()
    return _LANGUAGES.get(suffix, (suffix.lstrip(".") or "plaintext", ""))[0]


def usual_server(path: str) -> Checker | None:
    """The server that finds definitions and uses in a file like this; None if none is known."""
    return KNOWN.get(_LANGUAGES.get(PurePosixPath(path).suffix.lower(), ("", ""))[1])
