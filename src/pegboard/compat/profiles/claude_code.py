"""Names, parameters and texts that Claude Code shows its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from pegboard.compat import wording as say
from pegboard.compat.profiles.builders import flag, integer, optional, required, row, text
from pegboard.compat.profiles.files_and_commands import command, read_write_edit
from pegboard.core.profiles import ProfileParameter, ToolProfile

_MODES: Final = {"files_with_matches": "files"}


def _grep_mode(given: dict[str, Any]) -> dict[str, Any]:
    mode = given.get("mode", "files_with_matches")
    return {**given, "mode": _MODES.get(str(mode), mode)}


def _questions(given: dict[str, Any]) -> dict[str, Any]:
    """`multiSelect` of each question under our name; their headers are left out."""
    questions: Any = given.get("questions")
    if not isinstance(questions, list):
        return given
    names = {"question": "question", "options": "options", "multiSelect": "multi_select"}
    rows = [
        {names[k]: v for k, v in cast("Mapping[str, Any]", one).items() if k in names}
        if isinstance(one, Mapping)
        else one
        for one in cast("list[Any]", questions)
    ]
    return {**given, "questions": rows}


def _cc(row: ToolProfile, text: Any = None) -> ToolProfile:
    return replace(
        row, render=say.cc_failure if text is None else say.chain(say.on_success(text), say.cc_failure)
    )


_CC_READ, _CC_WRITE, _CC_EDIT = read_write_edit("Read", "Write", "Edit")
CLAUDE_CODE: Final = (
    _cc(_CC_READ),
    _cc(_CC_WRITE, say.cc_wrote),
    _cc(_CC_EDIT, say.cc_edited),
    _cc(command("Bash", "Run a bash command."), say.cc_bash),
    row(
        "BashOutput",
        "New output of a background command.",
        required("bash_id", text("Which background command"), "process_id"),
        tool="process",
        fixed={"action": "output"},
    ),
    row(
        "KillShell",
        "End a background command.",
        required("shell_id", text("Which background command"), "process_id"),
        tool="process",
        fixed={"action": "kill"},
    ),
    _cc(
        row(
            "Glob",
            "Find files by name, newest first.",
            required("pattern", text("Glob pattern")),
            optional("path", text("Directory to search in")),
            tool="glob",
        ),
        say.cc_glob,
    ),
    _cc(
        row(
            "Grep",
            "Search file contents with a regular expression.",
            required("pattern", text("Regular expression")),
            optional("path", text("File or directory to search in")),
            optional("glob", text("Only files that match, such as *.js")),
            optional("type", text("File type, such as py")),
            optional(
                "output_mode",
                text(
                    "What to show",
                    enum=["content", "files_with_matches", "count"],
                    default="files_with_matches",
                ),
                "mode",
            ),
            optional("-i", flag("Ignore case"), "ignore_case"),
            optional("-n", flag("Show line numbers (always shown)"), None),
            optional("-A", integer("Lines after each match"), "after"),
            optional("-B", integer("Lines before each match"), "before"),
            optional("-C", integer("Lines around each match"), "context"),
            optional("head_limit", integer("How many lines at most"), "limit"),
            optional("multiline", flag("Let the pattern span lines")),
            tool="grep",
            adapt=_grep_mode,
        )
    ),
    row(
        "LS",
        "List a directory.",
        required("path", text("The directory")),
        tool="list_dir",
    ),
    row(
        "WebFetch",
        "Fetch a page.",
        required("url", text("URL of the page")),
        optional("prompt", text("What to extract")),
        tool="web_fetch",
    ),
    row(
        "WebSearch",
        "Search the web.",
        required("query", text("Search query")),
        tool="web_search",
    ),
    row(
        "Task",
        "Give a task to a subagent and wait for its answer.",
        optional("description", text("The task in 3-5 words"), None),
        required("prompt", text("The task"), "instruction"),
        required("subagent_type", text("Which agent"), "agent_name"),
        tool="call_subagent",
    ),
    row(
        "AskUserQuestion",
        "Ask the user a question and wait for the answer.",
        ProfileParameter(
            name="questions",
            required=True,
            schema={
                "type": "array",
                "description": "The questions, one to four.",
                "items": {
                    "type": "object",
                    "properties": {
                        "question": text("The question"),
                        "header": text("A short label"),
                        "options": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"label": text("The answer"), "description": text("Why")},
                                "required": ["label"],
                            },
                        },
                        "multiSelect": flag("Whether several may be chosen"),
                    },
                    "required": ["question"],
                },
            },
        ),
        tool="ask_user",
        adapt=_questions,
    ),
)
