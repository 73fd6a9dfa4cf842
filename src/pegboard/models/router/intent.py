"""intent: which actions a request points to, and how strongly."""

from __future__ import annotations

import re
from typing import Final

from pegboard.models.router.arguments import looks_like_path
from pegboard.models.router.commands import command_of
from pegboard.models.router.paths import body_of
from pegboard.models.router.request import ParsedRequest
from pegboard.models.router.vocabulary import ACTIONS, VERBS

_QUESTIONS: Final[tuple[tuple[re.Pattern[str], str, float], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), action, weight)
    for pattern, action, weight in (
        (r"\bwhere(?:'s)?\b", "search", 3.0),
        (r"\b(?:which|what)\s+(?:\w+\s+)??(?:files?|modules?|places?|lines?|scripts?|functions?|classes|tests?|code|parts?)\b.*?\b(?:mention|contain|use|import|reference|include|define|call|refer|talk|match|depend|raise|need|say|have|has)", "search", 5.0),
        (r"\b(?:which|what)(?:'s|\s+is|\s+are)?\s+(?:\w+\s+)??(?:files|folders|directories|subfolders|subdirectories|entries|items|things)\b", "list", 4.0),
        (r"\bwhat(?:'s|\s+is|\s+are|\s+do (?:we|i|you) have|\s+lives|\s+lies|\s+have we got|\s+else is)\s+(?:\w+\s+)?(?:in|inside|under|within)\b(?!.*[\ue001])", "list", 3.0),
        (r"\bwhat(?:'s|\s+is|\s+does|\s+are|\s+did|\s+do)\b.*[\ue001]", "read", 2.0),
        (r"\b(?:is|are)\s+there\s+(?:a|an|any|some)?\s*(?:file\s+)?(?:called\s+|named\s+)?[\ue001]", "list", 4.0),
        (r"\b(?:is|are)\s+there\s+(?:a|an|any|some)?\s*(?:\w+\s+)?(?:files?|(?:sub)?folders?|(?:sub)?director(?:y|ies))\b(?!.*\b(?:contain|mention|with))", "list", 4.0),
        (r"\b(?:is|are)\s+there\s+(?:any|a|an|some|still|anything\s+about|something\s+about)\b(?!\s*(?:file\s+)?[\ue001])", "search", 2.5),
        (r"\b(?:does|do)\b.*\b(?:contain|mention|use|include|import|define|reference|call)\b", "search", 3.0),
        (r"\b(?:who|what)\s+(?:calls?|uses?|imports?|references?|defines?)\b", "search", 4.0),
        (r"\bhow\s+(?:often|many times)\b", "search", 3.0),
        (r"\b(?:occurrences?|usages?|references?|mentions?|instances?)\s+(?:of|to)\b", "search", 3.0),
        (r"\b(?:lines?|places?|files?)\s+(?:(?:that|which|where|with)\s+)*(?:contain|mention|match|us(?:e|ing)|ha(?:s|ve)|includ|import|call|where)", "search", 5.0),
        (r"\b(?:every|all|any|each|the)\s+lines?\s+with\b", "search", 5.0),
        (r"\b(?:is|are)\b.*\b(?:used|mentioned|referenced|imported|called|defined|set|declared)\s+(?:any|some)where\b", "search", 4.0),
        (r"^(?:a\s+)?(?:new\s+)?(?:text\s+)?file\b.*\b(?:with|containing|saying)\b|\bnew\s+(?:text\s+)?file\b", "write", 4.0),
        (r"[\ue001]\s+with\s+(?:the\s+)?(?:text|contents?|line)\b", "write", 2.0),
        (r"\b(?:look|looking|search|grep|scan|check|hunt|searching)\b.*\bfor\b", "search", 3.0),
        (r"\b(?:files|folders|subfolders|directories|everything|entries)\s+(?:is|are|there)?\s*(?:in|under|inside|of|from|within|at)\s+(?:the\s+)?[\ue002\ue003]", "list", 3.0),
        (r"\b(?:whether|if)\b.*\b(?:appears?|occurs?|exists?|is used|are used|contains?|mentions?|shows? up)\b", "search", 5.0),
        (r"\b(?:under|beneath|below)\s+(?:the\s+)?[\ue002\ue003]", "list", 3.0),
        (r"\b(?:present|found|contained|included|mentioned)\s+(?:in|inside|within|anywhere)\b", "search", 4.0),
        (r"[\ue004].*\b(?:into|to|as)\b.*[\ue001]", "write", 3.0),
        (r"[\ue001]\s+with\s*[:：]", "write", 2.0),
        (r"\bhow many\b.*\b(?:files|folders|directories|entries|items)\b", "list", 3.0),
        (r"\b(?:contents?|listing)\s+of\b.*\b(?:folder|directory|dir)\b", "list", 3.0),
        (r"\b(?:listing|structure|layout|tree)\s+of\b", "list", 4.0),
        (r"\b(?:folder|directory|dir)\b", "list", 1.0),
        (r"[\ue002]", "list", 1.5),
        (r"\b(?:list|show|see|give|display|print|enumerate|view|get)\b.*\b(?:files|folders|everything|subfolders|directories|entries)\b(?!\s+(?:that|which|where|with|containing|mention))", "list", 3.0),
        (r"\b(?:current|this|working)\s+(?:directory|folder|dir)\b|\bfiles?\b.*\bhere\b|\bwhat(?:'s| is) here\b", "list", 3.0),
        (r"\bwhat\b.*\b(?:say|says|said|contain|contains|look like|looks like)\b", "read", 1.5),
        (r"[\ue001]", "read", 1.0),
        (r"[\ue003]", "read", 0.5),
        (r"\b(?:contents?|text)\s+of\b", "read", 1.0),
        (r"[\ue000]", "fetch", 4.0),
        (r"\b(?:page|website|webpage|site|web ?page|url|link)\b", "fetch", 1.0),
        (r"[\ue005]", "glob", 4.0),
        (r"\b(?:find|list|show|get|locate|which|what)\s+(?:(?:me|us|all|every|any|the|of|my|our|are)\s+)*(?:python|javascript|typescript|markdown|yaml|json|text|html|css|csv|toml|rust|java|log|pdf|shell)\s+files\b|\bextension\b|\bending in\b", "glob", 9.0),
        (r"\bfind\s+(?:the\s+)?file\b|\bfiles?\s+(?:named|called)\b|\bwhere\s+is\s+(?:the\s+file\s+)?[\ue001]", "glob", 3.0),
        (r"(?:创建|新建|写入|保存|存到|存入|写到|写进)", "write", 3.0),
        (r"(?:把|将).*(?:改成|改为|替换|换成)", "edit", 4.0),
        (r"(?:运行|执行|跑一下|启动)", "run", 3.0),
        (r"(?:列出|罗列|列一下|有哪些(?:文件|东西|目录)|有什么(?:文件|东西)?|有啥)", "list", 4.0),
        (r"(?:目录|文件夹)", "list", 1.0),
        (r"(?:搜索|搜一下|搜|查找|寻找|检索|查一下|找一下|找出|找到|[里中下内]找|找.*[\ue004\ue006]|哪些(?:文件|地方)(?:里|中)?(?:包含|含|提到|用|调用|使用|引用|出现|导入)|在哪(?:里|儿)?|什么地方)", "search", 4.0),
        (r"(?:读取|阅读|读一下|读|打开|查看|看看|看一下|显示|展示|总结|概括|说了什么|写了什么|内容)", "read", 2.0),
        (r"(?:抓取|下载|访问|获取|网页|网址|网站)", "fetch", 2.0),
    )
)  # fmt: skip


def intent(request: ParsedRequest) -> dict[str, float]:
    """How strongly the request points to each action."""
    found: dict[str, float] = dict.fromkeys(ACTIONS, 0.0)
    start, end = body_of(request.masked)
    body = request.masked[start:end]
    verb = _first_verb(body)
    for action, verbs in VERBS.items():
        if verb in verbs.split():
            found[action] += 3.0
    for pattern, action, weight in _QUESTIONS:
        if pattern.search(body):
            found[action] += weight
    later = set(re.findall(r"[a-z]+", body.lower()))
    for action, verbs in VERBS.items() if not request.chinese else ():
        if any(word in later and word != verb for word in verbs.split()):
            found[action] += 0.5
    if re.match(r"(?:who|what|why|when|how|whose|whom)\b", body, re.IGNORECASE):
        # "Who wrote Hamlet?" asks; it does not order.
        found["write"] = min(found["write"], 0.5)
    if found["glob"] >= 4.0:
        # Files of one kind are to be found by name, not a folder listed.
        found["list"] = min(found["list"], 3.0)
    if any(looks_like_path(span.text) for span in request.of("quoted")):
        found["read"] += 1.0
    if command_of(request) is not None:
        found["run"] += _command_weight(request, body)
    return {name: weight for name, weight in found.items() if weight}


def _command_weight(request: ParsedRequest, body: str) -> float:
    copied = command_of(request)
    if copied is None:
        return 0.0
    program = copied.value.split()[0]
    if (
        copied.start >= 0
        and request.masked[: copied.start].strip() == ""
        and program in ("cat", "ls", "grep", "find", "tree", "head")
    ):
        return 1.0
    return 2.0 if re.search(r"\b(?:use|using|with|via|by|do|try)\b", body, re.IGNORECASE) else 3.0


def _first_verb(body: str) -> str:
    known = set(" ".join(VERBS.values()).split())
    lead = re.match(
        r"(?:(?:in|inside|under|from|within)\s+(?:the\s+)?\S+(?:\s+(?:folder|directory|file))?\s*,?\s*)?([a-z]+)",
        body,
        re.IGNORECASE,
    )
    if lead is not None and lead[1].lower() in known:
        return lead[1].lower()
    if re.search("[\u3400-\u9fff]", body):
        return ""
    if lead is not None and lead[1].lower() in (
        "where",
        "what",
        "which",
        "who",
        "is",
        "are",
        "how",
        "does",
        "do",
        "why",
        "when",
    ):
        return ""
    for word in re.findall(r"[a-z]+", body.lower())[:8]:
        if word in known:
            return word
    return ""
