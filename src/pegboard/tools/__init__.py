"""tools: one tool a file, named as the tool; the table that finds them."""

from __future__ import annotations

from typing import Final

TOOLS: Final[dict[str, str]] = {
    "read_file": "pegboard.tools.read_file:read_file",
    "write_file": "pegboard.tools.write_file:write_file",
    "edit_file": "pegboard.tools.edit_file:edit_file",
    "list_dir": "pegboard.tools.list_dir:list_dir",
    "glob": "pegboard.tools.glob:glob",
    "grep": "pegboard.tools.grep:grep",
    "exec": "pegboard.tools.exec:exec_",
    "ask_user": "pegboard.tools.ask_user:ask_user",
    "delete_file": "pegboard.tools.delete_file:delete_file",
    "apply_patch": "pegboard.tools.apply_patch:apply_patch",
    "process": "pegboard.tools.process:process",
    "create_artifact": "pegboard.tools.create_artifact:create_artifact",
    "read_artifact": "pegboard.tools.read_artifact:read_artifact",
    "update_artifact": "pegboard.tools.update_artifact:update_artifact",
    "rewrite_artifact": "pegboard.tools.rewrite_artifact:rewrite_artifact",
    "list_artifacts": "pegboard.tools.list_artifacts:list_artifacts",
    "grep_artifact": "pegboard.tools.grep_artifact:grep_artifact",
    "export_artifact": "pegboard.tools.export_artifact:export_artifact",
    "import_artifact": "pegboard.tools.import_artifact:import_artifact",
    "code": "pegboard.tools.code:code",
    "web_search": "pegboard.tools.web_search:web_search",
    "web_fetch": "pegboard.tools.web_fetch:web_fetch",
    "run_code": "pegboard.tools.run_code:run_code",
    "search_tools": "pegboard.tools.search_tools:search_tools",
    "browser": "pegboard.tools.browser:browser",
    "image": "pegboard.tools.image:image",
    "image_generate": "pegboard.tools.image_generate:image_generate",
    "image_describe": "pegboard.tools.image_describe:image_describe",
    "canvas": "pegboard.tools.canvas:canvas",
    "nodes": "pegboard.tools.nodes:nodes",
    "tts": "pegboard.tools.tts:tts",
    "message": "pegboard.tools.message:message",
    "todo": "pegboard.tools.todo:todo",
    "propose_plan": "pegboard.tools.propose_plan:propose_plan",
    "cron": "pegboard.tools.cron:cron",
    "schedule_task": "pegboard.tools.schedule_task:schedule_task",
    "memory_search": "pegboard.tools.memory_search:memory_search",
    "memory_read": "pegboard.tools.memory_read:memory_read",
    "memory_write": "pegboard.tools.memory_write:memory_write",
    "spawn": "pegboard.tools.spawn:spawn",
    "sessions_spawn": "pegboard.tools.sessions_spawn:sessions_spawn",
    "call_subagent": "pegboard.tools.call_subagent:call_subagent",
    "subagents": "pegboard.tools.subagents:subagents",
    "sessions_list": "pegboard.tools.sessions_list:sessions_list",
    "sessions_history": "pegboard.tools.sessions_history:sessions_history",
    "sessions_send": "pegboard.tools.sessions_send:sessions_send",
    "session_status": "pegboard.tools.session_status:session_status",
    "gateway": "pegboard.tools.gateway:gateway",
    "agents_list": "pegboard.tools.agents_list:agents_list",
}
"""Built-in tools by name; loaded at first use."""

DEFAULT: Final[tuple[str, ...]] = (
    "read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "exec", "ask_user", "delete_file",
    "apply_patch", "process", "web_search", "web_fetch",
)  # fmt: skip
"""What `builtin()` gives without names."""

MEMORY: Final = ("memory_search", "memory_read", "memory_write")
"""What agents have too where the settings enable the memory."""

AGENT: Final[tuple[str, ...]] = (*DEFAULT, "todo", "propose_plan")
"""What agents on the command line have unless the settings name tools; `propose_plan` in mode plan only."""
