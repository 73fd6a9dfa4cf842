"""Names, parameters and texts that Claude Code shows its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from pegboard.compat import wording as say
from pegboard.compat.profiles.files_and_commands import command, read_write_edit
from pegboard.compat.profiles.shapes import flag, may, need, text, whole
from pegboard.core.profiles import Given, Row

_MODES: Final = {"files_with_matches": "files"}


def _grep_mode(given: dict[str, Any]) -> dict[str, Any]:
    mode = given.get("mode", "files_with_matches")
    out = {k: v for k, v in given.items() if k not in ("-A", "-B")}
    around = [v for k, v in given.items() if k in ("-A", "-B") and isinstance(v, int)]
    if around and "context" not in out:
        out["context"] = max(around)
    return {**out, "mode": _MODES.get(str(mode), mode)}


def _question(given: dict[str, Any]) -> dict[str, Any]:
    """The first of `questions`; its options by their labels."""
    questions: Any = given.pop("questions", None)
    if not (isinstance(questions, list) and questions and isinstance(questions[0], Mapping)):
        return given
    first = cast("Mapping[str, Any]", questions[0])
    options = [
        str(cast("Mapping[str, Any]", o).get("label", "")) if isinstance(o, Mapping) else str(o)
        for o in cast("list[Any]", first.get("options") or [])
    ]
    out = {"question": first.get("question", ""), **given}
    if options:
        out["options"] = options
    if first.get("multiSelect"):
        out["multi_select"] = True
    return out


def _cc(row: Row, text: Any = None) -> Row:
    return replace(
        row, render=say.cc_failure if text is None else say.chain(say.on_success(text), say.cc_failure)
    )


_CC_READ, _CC_WRITE, _CC_EDIT = read_write_edit("Read", "Write", "Edit")
CLAUDE_CODE: Final = (
    _cc(_CC_READ),
    _cc(_CC_WRITE, say.cc_wrote),
    _cc(_CC_EDIT, say.cc_edited),
    _cc(command("Bash", "Run a bash command."), say.cc_bash),
    Row(
        name="BashOutput",
        tool="process",
        description="New output of a background command.",
        parameters=(need("bash_id", text("Which background command"), "process_id"),),
        fixed={"action": "output"},
    ),
    Row(
        name="KillShell",
        tool="process",
        description="End a background command.",
        parameters=(need("shell_id", text("Which background command"), "process_id"),),
        fixed={"action": "kill"},
    ),
    _cc(
        Row(
            name="Glob",
            tool="glob",
            description="Find files by name, newest first.",
            parameters=(
                need("pattern", text("Glob pattern")),
                may("path", text("Directory to search in")),
            ),
        ),
        say.cc_glob,
    ),
    _cc(
        Row(
            name="Grep",
            tool="grep",
            description="Search file contents with a regular expression.",
            parameters=(
                need("pattern", text("Regular expression")),
                may("path", text("File or directory to search in")),
                may("glob", text("Only files that match, such as *.js")),
                may("type", text("File type, such as py")),
                may(
                    "output_mode",
                    text(
                        "What to show",
                        enum=["content", "files_with_matches", "count"],
                        default="files_with_matches",
                    ),
                    "mode",
                ),
                may("-i", flag("Ignore case"), "ignore_case"),
                may("-n", flag("Show line numbers (always shown)"), None),
                may("-A", whole("Lines after each match"), "-A"),
                may("-B", whole("Lines before each match"), "-B"),
                may("-C", whole("Lines around each match"), "context"),
                may("head_limit", whole("How many lines at most"), "limit"),
                may("multiline", flag("Let the pattern span lines")),
            ),
            adapt=_grep_mode,
        )
    ),
    Row(
        name="LS",
        tool="list_dir",
        description="List a directory.",
        parameters=(need("path", text("The directory")),),
    ),
    Row(
        name="WebFetch",
        tool="web_fetch",
        description="Fetch a page.",
        parameters=(need("url", text("URL of the page")), may("prompt", text("What to extract"))),
    ),
    Row(
        name="WebSearch",
        tool="web_search",
        description="Search the web.",
        parameters=(need("query", text("Search query")),),
    ),
    Row(
        name="Task",
        tool="call_subagent",
        description="Give a task to a subagent and wait for its answer.",
        parameters=(
            may("description", text("The task in 3-5 words"), None),
            need("prompt", text("The task"), "instruction"),
            need("subagent_type", text("Which agent"), "agent_name"),
        ),
    ),
    Row(
        name="AskUserQuestion",
        tool="ask_user",
        description="Ask the user a question and wait for the answer.",
        parameters=(
            Given(
                name="questions",
                required=True,
                schema={
                    "type": "array",
                    "description": "The question; the first is asked.",
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
        ),
        adapt=_question,
    ),
)
