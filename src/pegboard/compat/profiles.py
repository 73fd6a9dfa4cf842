"""The profiles: nanobot, nanobot-net, moltbot, artifactflow and claude-code as data (ledger X-62, G-20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.compat import wording as say
from pegboard.core.profiles import Given, Profile, Row

_Schema = dict[str, Any]


def _text(description: str, **more: Any) -> _Schema:
    return {"type": "string", "description": description, **more}


def _whole(description: str, **more: Any) -> _Schema:
    return {"type": "integer", "description": description, **more}


def _flag(description: str, **more: Any) -> _Schema:
    return {"type": "boolean", "description": description, **more}


def _need(name: str, schema: _Schema, to: str | None = "") -> Given:
    return Given(name=name, schema=schema, to=to, required=True)


def _may(name: str, schema: _Schema, to: str | None = "") -> Given:
    return Given(name=name, schema=schema, to=to)


_MS: Final = "Timeout in milliseconds (max 600000)."

# -- 000 and 001 ------------------------------------------------------------------------------

_NANOBOT: Final = (
    Row(
        name="read_file",
        tool="read_file",
        description="Read the contents of a file at the given path.",
        parameters=(_need("path", _text("The file path to read")),),
        fixed={"numbered": False},
    ),
    Row(
        name="write_file",
        tool="write_file",
        description="Write content to a file at the given path. Creates parent directories if needed.",
        parameters=(
            _need("path", _text("The file path to write to")),
            _need("content", _text("The content to write")),
        ),
    ),
    Row(
        name="edit_file",
        tool="edit_file",
        description="Edit a file by replacing old_text with new_text. The old_text must exist exactly once.",
        parameters=(
            _need("path", _text("The file path to edit")),
            _need("old_text", _text("The exact text to find and replace"), "old_string"),
            _need("new_text", _text("The text to replace with"), "new_string"),
        ),
    ),
    Row(
        name="list_dir",
        tool="list_dir",
        description="List the contents of a directory.",
        parameters=(_need("path", _text("The directory path to list")),),
        adapt=lambda given: {"style": "emoji", **given},
    ),
    Row(
        name="exec",
        tool="exec",
        description="Execute a shell command and return its output. Use with caution.",
        parameters=(
            _need("command", _text("The shell command to execute")),
            _may("working_dir", _text("Optional working directory for the command")),
        ),
    ),
    Row(
        name="glob",
        tool="glob",
        description="Match file paths with a glob pattern, newest first.",
        parameters=(
            _need("pattern", _text("Glob pattern, for example **/*.py")),
            _may("path", _text("Directory to look in", default=".")),
        ),
    ),
    Row(
        name="grep",
        tool="grep",
        description="Search file contents with a regular expression.",
        parameters=(
            _need("pattern", _text("Regular expression")),
            _may("path", _text("Directory or file to search", default=".")),
        ),
    ),
    Row(
        name="delete_file",
        tool="delete_file",
        description="Delete a file (asks for confirmation).",
        parameters=(_need("path", _text("The file path to delete")),),
    ),
    Row(
        name="ask_user",
        tool="ask_user",
        description="Ask the user a question and wait for the reply.",
        parameters=(_need("question", _text("The question")),),
    ),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web. Returns titles, URLs, and snippets.",
        parameters=(
            _need("query", _text("Search query")),
            _may("count", _whole("Results (1-10)", minimum=1, maximum=10)),
        ),
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch URL and extract readable content.",
        parameters=(
            _need("url", _text("URL to fetch")),
            _may(
                "extractMode",
                _text("Form of the content", enum=["markdown", "text"], default="markdown"),
                "extract_mode",
            ),
            _may("maxChars", _whole("Maximum characters", minimum=100), "max_chars"),
        ),
    ),
    Row(
        name="message",
        tool="message",
        description="Send a message to the user or another chat.",
        parameters=(
            _need("content", _text("The message content to send")),
            _may("channel", _text("Target channel")),
            _may("chat_id", _text("Target chat")),
            _may("media", {"type": "array", "items": {"type": "string"}, "description": "File paths"}),
        ),
    ),
    Row(
        name="spawn",
        tool="spawn",
        description="Spawn a subagent to handle a task in the background.",
        parameters=(_need("task", _text("The task")), _may("label", _text("Optional short label"))),
    ),
    Row(
        name="cron",
        tool="cron",
        description="Schedule reminders and recurring tasks. Actions: add, list, remove.",
        parameters=(
            _need("action", _text("Action to perform", enum=["add", "list", "remove"])),
            _may("message", _text("Reminder message (for add)")),
            _may("every_seconds", _whole("Interval in seconds (for recurring tasks)")),
            _may("cron_expr", _text("Cron expression like '0 9 * * *'")),
            _may("tz", _text("IANA timezone for cron expressions")),
            _may("at", _text("ISO datetime for one-time execution")),
            _may("job_id", _text("Job ID (for remove)")),
        ),
    ),
)

# -- 002 --------------------------------------------------------------------------------------


_NET: Final = (
    Row(
        name="read_file",
        tool="read_file",
        description="Read the contents of a file. Returns the file content with line numbers.",
        parameters=(
            _need("path", _text("Path of the file")),
            _may("startLine", _whole("First line, counted from 1"), "offset"),
            _may("endLine", _whole("Last line, inclusive"), "end_line"),
        ),
        render=say.chain(say.on_success(say.net_read), say.net_failure),
    ),
    Row(
        name="write_file",
        tool="write_file",
        description="Write content to a file. Creates parent directories if needed.",
        parameters=(_need("path", _text("Path of the file")), _need("content", _text("The whole content"))),
        render=say.chain(say.on_success(say.net_wrote), say.net_failure),
    ),
    Row(
        name="edit_file",
        tool="edit_file",
        description="Edit a file by replacing specific text.",
        parameters=(
            _need("path", _text("Path of the file")),
            _need("oldText", _text("The text to replace"), "old_string"),
            _need("newText", _text("The text to put in its place"), "new_string"),
        ),
        render=say.chain(say.on_success(say.net_edited), say.net_failure),
    ),
    Row(
        name="list_dir",
        tool="list_dir",
        description="List contents of a directory.",
        parameters=(
            _need("path", _text("Path of the directory")),
            _may("recursive", _flag("List everything below it", default=False)),
        ),
    ),
    Row(
        name="exec",
        tool="exec",
        description="Execute a shell command. Use with caution.",
        parameters=(
            _need("command", _text("The command")),
            _may("timeout", {"type": "number", "description": "Seconds", "default": 60}),
            _may("workingDir", _text("Directory to run it in"), "working_dir"),
        ),
        render=say.chain(say.on_success(say.net_exec), say.net_failure),
        max_chars=say.MAX_OUTPUT + len(say.TRUNCATED),
    ),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web using Brave Search API.",
        parameters=(_need("query", _text("Search query")), _may("count", _whole("Results", default=5))),
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch and extract main content from a URL.",
        parameters=(
            _need("url", _text("URL to fetch")),
            _may("maxChars", _whole("Maximum characters", default=50000), "max_chars"),
        ),
    ),
    Row(
        name="message",
        tool="message",
        description="Send a message to a specific channel and chat.",
        parameters=(
            _need("content", _text("The message")),
            _may("channel", _text("Channel")),
            _may("chatId", _text("Chat"), "chat_id"),
        ),
        render=say.on_success(lambda _r, _a: "Message sent successfully"),
    ),
    Row(
        name="spawn",
        tool="spawn",
        parameters=(_need("task", _text("The task")), _may("label", _text("A short label"))),
        description="Create a sub-agent.",
    ),
    Row(
        name="cron",
        tool="cron",
        description="Manage scheduled tasks.",
        parameters=(
            _need("action", _text("add, list or remove", enum=["add", "list", "remove"])),
            _may("name", _text("Name of the job")),
            _may("schedule", _text("Cron expression")),
            _may("message", _text("What to say or do")),
        ),
    ),
)

# -- 003 --------------------------------------------------------------------------------------


def _read_write_edit(read: str, write: str, edit: str) -> tuple[Row, ...]:
    path = _need("file_path", _text("Path of the file"), "path")
    return (
        Row(
            name=read,
            tool="read_file",
            description="Read a file, with line numbers.",
            parameters=(
                path,
                _may("offset", _whole("First line, counted from 1")),
                _may("limit", _whole("Number of lines")),
            ),
        ),
        Row(
            name=write,
            tool="write_file",
            description="Write a file, overwriting what is there.",
            parameters=(path, _need("content", _text("The whole content"))),
        ),
        Row(
            name=edit,
            tool="edit_file",
            description="Replace an exact text in a file.",
            parameters=(
                path,
                _need("old_string", _text("The text to replace")),
                _need("new_string", _text("The text to put in its place")),
                _may("replace_all", _flag("Replace every occurrence", default=False)),
            ),
        ),
    )


def _command(name: str, description: str, render: Any = None) -> Row:
    return Row(
        name=name,
        tool="exec",
        description=description,
        parameters=(
            _need("command", _text("The command to run")),
            _may("description", _text("What the command does, in 5-10 words")),
            _may("timeout", {"type": "number", "description": _MS}, "timeout_ms"),
            _may("run_in_background", _flag("Run it in the background"), "background"),
        ),
        render=render,
    )


_MOLTBOT: Final = (
    *_read_write_edit("read", "write", "edit"),
    _command("exec", "Run a shell command."),
    Row(
        name="process",
        tool="process",
        description="Manage background commands.",
        parameters=(
            _need("action", _text("What to do", enum=["list", "stop", "output"])),
            _may("task_id", _text("Which background command"), "process_id"),
        ),
    ),
    Row(name="apply_patch", tool="apply_patch"),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web.",
        parameters=(
            _need("query", _text("Search query")),
            _may("count", _whole("Results (1-10)", minimum=1, maximum=10)),
            _may("country", _text("Country code: US, DE, ALL")),
            _may("search_lang", _text("Language: en, de, fr")),
            _may("freshness", _text("Time range: pd, pw, pm, py")),
        ),
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch a page.",
        parameters=(_need("url", _text("URL of the page")), _may("prompt", _text("What to extract"))),
    ),
    Row(
        name="message",
        tool="message",
        description="Send a message on any channel.",
        parameters=(
            _may("channel", _text("telegram, whatsapp …")),
            _may("target", _text("User or group"), "chat_id"),
            _may("accountId", _text("Account"), "account_id"),
            _may("message", _text("The text"), "content"),
            _may("media", _text("Path of a media file")),
            _may("buffer", _text("Base64 media data")),
            _may("replyTo", _text("Message to answer"), "reply_to"),
            _may("silent", _flag("Without a notification")),
        ),
        # Used in the document's own example although its parameter list lacks it (ledger M-32): `caption`
        # passes through to the tool unadvertised.
    ),
)

# -- claude-code ------------------------------------------------------------------------------

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
    from dataclasses import replace

    return replace(
        row, render=say.cc_failure if text is None else say.chain(say.on_success(text), say.cc_failure)
    )


_CC_READ, _CC_WRITE, _CC_EDIT = _read_write_edit("Read", "Write", "Edit")
_CLAUDE_CODE: Final = (
    _cc(_CC_READ),
    _cc(_CC_WRITE, say.cc_wrote),
    _cc(_CC_EDIT, say.cc_edited),
    _cc(_command("Bash", "Run a bash command."), say.cc_bash),
    Row(
        name="BashOutput",
        tool="process",
        description="New output of a background command.",
        parameters=(_need("bash_id", _text("Which background command"), "process_id"),),
        fixed={"action": "output"},
    ),
    Row(
        name="KillShell",
        tool="process",
        description="End a background command.",
        parameters=(_need("shell_id", _text("Which background command"), "process_id"),),
        fixed={"action": "kill"},
    ),
    _cc(
        Row(
            name="Glob",
            tool="glob",
            description="Find files by name, newest first.",
            parameters=(
                _need("pattern", _text("Glob pattern")),
                _may("path", _text("Directory to search in")),
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
                _need("pattern", _text("Regular expression")),
                _may("path", _text("File or directory to search in")),
                _may("glob", _text("Only files that match, such as *.js")),
                _may("type", _text("File type, such as py")),
                _may(
                    "output_mode",
                    _text(
                        "What to show",
                        enum=["content", "files_with_matches", "count"],
                        default="files_with_matches",
                    ),
                    "mode",
                ),
                _may("-i", _flag("Ignore case"), "ignore_case"),
                _may("-n", _flag("Show line numbers (always shown)"), None),
                _may("-A", _whole("Lines after each match"), "-A"),
                _may("-B", _whole("Lines before each match"), "-B"),
                _may("-C", _whole("Lines around each match"), "context"),
                _may("head_limit", _whole("How many lines at most"), "limit"),
                _may("multiline", _flag("Let the pattern span lines")),
            ),
            adapt=_grep_mode,
        )
    ),
    Row(
        name="LS",
        tool="list_dir",
        description="List a directory.",
        parameters=(_need("path", _text("The directory")),),
    ),
    Row(
        name="WebFetch",
        tool="web_fetch",
        description="Fetch a page.",
        parameters=(_need("url", _text("URL of the page")), _may("prompt", _text("What to extract"))),
    ),
    Row(
        name="WebSearch",
        tool="web_search",
        description="Search the web.",
        parameters=(_need("query", _text("Search query")),),
    ),
    Row(
        name="Task",
        tool="call_subagent",
        description="Give a task to a subagent and wait for its answer.",
        parameters=(
            _may("description", _text("The task in 3-5 words"), None),
            _need("prompt", _text("The task"), "instruction"),
            _need("subagent_type", _text("Which agent"), "agent_name"),
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
                            "question": _text("The question"),
                            "header": _text("A short label"),
                            "options": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {"label": _text("The answer"), "description": _text("Why")},
                                    "required": ["label"],
                                },
                            },
                            "multiSelect": _flag("Whether several may be chosen"),
                        },
                        "required": ["question"],
                    },
                },
            ),
        ),
        adapt=_question,
    ),
)

# -- 004 --------------------------------------------------------------------------------------

_ARTIFACTFLOW: Final = (
    Row(
        name="call_subagent",
        tool="call_subagent",
        description="Route the task to a subagent.",
        parameters=(
            _need("agent_name", _text("Name of the subagent")),
            _need("instruction", _text("The task in full")),
        ),
    ),
    Row(
        name="web_search",
        tool="web_search",
        description="Search the web for information using Bocha AI search engine",
        parameters=(
            _need("query", _text("Search query using keywords.")),
            _may(
                "freshness",
                _text(
                    "Time range filter: 'noLimit', 'oneDay', 'oneWeek', 'oneMonth', 'oneYear'",
                    default="noLimit",
                ),
            ),
            _may("count", _whole("Number of results to return (1-50)", default=10)),
        ),
    ),
    Row(
        name="web_fetch",
        tool="web_fetch",
        description="Fetch the content of web pages or PDFs",
        parameters=(
            _need(
                "url_list",
                {"type": "array", "items": {"type": "string"}, "description": "URLs to fetch"},
                "urls",
            ),
            _may("max_content_length", _whole("Characters of each page", default=10000), "max_chars"),
            _may("max_concurrent", _whole("How many at once (max 5)", default=3), None),
        ),
    ),
    Row(
        name="create_artifact",
        tool="create_artifact",
        description="Create a new artifact",
        parameters=(
            _need("id", _text("Unique id of the artifact")),
            _may("content_type", _text("Kind of content", default="markdown")),
            _need("title", _text("Title")),
            _need("content", _text("The content")),
        ),
    ),
    Row(
        name="read_artifact",
        tool="read_artifact",
        description="Read an artifact, also an old version",
        parameters=(_need("id", _text("The artifact")), _may("version", _whole("Which version"))),
    ),
    Row(
        name="update_artifact",
        tool="update_artifact",
        description="Replace one text in an artifact (fuzzy matching)",
        parameters=(
            _need("id", _text("The artifact")),
            _need("old_str", _text("The text to replace")),
            _need("new_str", _text("The text to put in its place")),
        ),
    ),
    Row(
        name="rewrite_artifact",
        tool="rewrite_artifact",
        description="Replace the whole content of an artifact",
        parameters=(_need("id", _text("The artifact")), _need("content", _text("The new content"))),
    ),
)

PROFILES: Final[dict[str, Profile]] = {
    p.name: p
    for p in (
        Profile(name="nanobot", rows=_NANOBOT),
        Profile(name="nanobot-net", rows=_NET, words=say.net_failure),
        Profile(name="moltbot", rows=_MOLTBOT),
        Profile(name="artifactflow", rows=_ARTIFACTFLOW),
        Profile(name="claude-code", rows=_CLAUDE_CODE, words=say.cc_failure),
    )
}
"""Name → profile."""
