"""The Chinese catalogue: descriptions and texts as the documents write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pegboard.compat.wording import facts, with_text
from pegboard.core.errors import BuildError
from pegboard.core.result import ToolResult

DESCRIPTIONS: Final[dict[str, str]] = {
    "read_file": "读取指定路径的文件内容。支持文本文件、PDF 和 Office 文档。",
    "write_file": "创建或覆写文件。需要时自动创建上级目录。",
    "edit_file": "精确替换文件中的一段文本。原文本必须只出现一次。",
    "list_dir": "列出目录内容。",
    "delete_file": "删除文件(撤销无法恢复时需确认)。",
    "glob": "用 glob 模式匹配文件路径,按修改时间排序返回。",
    "grep": "用正则表达式搜索文件内容。",
    "exec": "执行 Shell 命令并返回输出。",
    "process": "管理后台任务。",
    "apply_patch": "一次应用涉及多个文件的补丁。",
    "ask_user": "向用户提问,等待用户回复后继续。适用于需要用户确认的操作。",
    "web_search": "搜索互联网获取信息",
    "web_fetch": "获取网页内容,返回纯文本(Markdown 格式)。",
    "message": "跨渠道发送消息。",
    "cron": "创建定时任务,在指定时间或按 cron 表达式重复执行。",
    "schedule_task": "创建定时任务,在指定时间或按 cron 表达式重复执行。",
    "spawn": "在后台启动子代理执行任务。",
    "call_subagent": "路由到 SubAgent,等待其结果。",
    "create_artifact": "创建新 Artifact",
    "read_artifact": "读取 Artifact 内容(支持历史版本)",
    "update_artifact": "增量更新 Artifact(支持模糊匹配)",
    "rewrite_artifact": "完全重写 Artifact 内容",
    "search_tools": "按需求查找可用的工具。",
    "browser": "浏览器自动化。",
    "canvas": "绘制简单图形。",
    "image": "图片生成。",
    "tts": "文本转语音。",
    "gateway": "Gateway 管理。",
    "nodes": "管理移动设备节点。",
    "agents_list": "列出可用 Agent。",
    "sessions_list": "列出所有会话。",
    "sessions_send": "向其他会话发送消息。",
    "sessions_spawn": "创建子 Agent 会话。",
    "sessions_history": "查询会话历史。",
    "session_status": "查询会话状态。",
}
"""Canonical tool name → its description in Chinese."""

MESSAGES: Final[dict[str, dict[str, str]]] = {
    "denied": {"en": "The user refused to run {name}", "zh": "用户拒绝执行 {name}"},
    "pattern": {
        "en": "The command contains a dangerous pattern: {pattern}",
        "zh": "命令包含危险模式: {pattern}",
    },
    "confirm": {
        "en": "⚠️ About to run: {name} ({input}). Go on?",
        "zh": "⚠️ 即将执行: {name} ({input}),确认继续?",
    },
    "scheduled": {
        "en": "Task created: {task}, schedule: {cron_expr}",
        "zh": "任务已创建:{task},调度:{cron_expr}",
    },
    "select_only": {"en": "Error: only SELECT queries are allowed", "zh": "Error: 只允许 SELECT 查询"},
}
"""The documents' texts."""


def message(key: str, locale: str = "en", **values: Any) -> str:
    """One text of the catalogue with its values filled in.

    Raises:
        BuildError: no such text or locale.
    """
    texts = MESSAGES.get(key)
    if texts is None or locale not in texts:
        raise BuildError(f"the catalogue has no text {key!r} in locale {locale!r}")
    return texts[locale].format(**values)


def render_zh(result: ToolResult, arguments: Mapping[str, Any]) -> ToolResult:
    """A refusal and a new job in Chinese; everything else stays."""
    if result.ok and facts(result).get("created") and "job" in facts(result):
        job = facts(result)["job"]
        return with_text(result, message("scheduled", "zh", task=job["message"], cron_expr=job["schedule"]))
    error = result.error
    if error is None or error.code != "permission_denied" or error.details.get("decision") != "ask":
        return result
    name = error.message.split(" ", 1)[0]
    return with_text(result, message("denied", "zh", name=name))
