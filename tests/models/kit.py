"""A kit of plain tools for model tests: what a model sees of a tool, and nothing that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KitTool:
    """A tool as a model sees it."""

    name: str
    description: str
    hints: tuple[str, ...] = ()
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True)
class Kit:
    """An ordered collection of tools."""

    tools: tuple[KitTool, ...] = ()

    def __iter__(self) -> Iterator[KitTool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


def strings(required: str, **descriptions: str) -> dict[str, Any]:
    """An object schema of string parameters; `required` names the required ones."""
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, text in descriptions.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


READ = KitTool(
    name="read_file",
    description="Read a text file of the workspace, with line numbers. Use list_dir for folders.",
    hints=("open", "show", "cat", "view", "print", "contents"),
    schema=strings("path", path="Path of the file, relative to the workspace."),
)
LIST = KitTool(
    name="list_dir",
    description="List the entries of a folder, folders first.",
    hints=("ls", "directory", "folder", "files", "tree"),
    schema=strings("", path="Path of the folder, relative to the workspace."),
)
GREP = KitTool(
    name="grep",
    description="Search file contents with a regular expression.",
    hints=("search", "find", "where", "look for", "occurrences"),
    schema=strings("pattern", pattern="The regular expression.", path="File or folder to search in."),
)
WRITE = KitTool(
    name="write_file",
    description="Write a text file, whole; parent folders are made.",
    hints=("create", "save", "new file", "put", "store"),
    schema=strings(
        "path content", path="Path of the file, relative to the workspace.", content="The whole text."
    ),
)
EXEC = KitTool(
    name="exec",
    description="Run a shell command in the sandbox and return its output.",
    hints=("run", "execute", "command", "shell", "terminal", "bash"),
    schema=strings("command", command="The shell command to run."),
)
FETCH = KitTool(
    name="web_fetch",
    description="Fetch a web page and return its readable text.",
    hints=("url", "download", "website", "page", "http", "link"),
    schema=strings("url", url="An http or https URL."),
)
SIX = Kit((READ, LIST, GREP, WRITE, EXEC, FETCH))
EDIT = KitTool(
    name="edit_file",
    description="Replace text in a file of the workspace.",
    hints=("replace", "change", "modify", "rename"),
    schema=strings(
        "path old_string new_string",
        path="Path of the file, relative to the workspace.",
        old_string="The text to replace.",
        new_string="The text to put in its place.",
    ),
)
GLOB = KitTool(
    name="glob",
    description="Find files by name pattern, newest first.",
    hints=("find files", "files matching", "extension"),
    schema=strings("pattern", pattern="Glob pattern, for example **/*.py.", path="Folder to look in."),
)
ASK = KitTool(
    name="ask_user",
    description="Ask the person a question.",
    hints=("question",),
    schema=strings("question", question="The question."),
)
EIGHT = Kit((READ, WRITE, EDIT, LIST, GLOB, GREP, EXEC, ASK))
