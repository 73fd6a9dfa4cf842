"""Which tool a request means: words ranked, then what can be filled from the request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from pegboard.core.ranking import rank
from pegboard.models.router.arguments import (
    Copied,
    command_of,
    content_of,
    edit_of,
    file_of,
    folder_of,
    glob_of,
    looks_like_path,
    pattern_of,
    scope_of,
    url_of,
)
from pegboard.models.router.places import body_of, folders
from pegboard.models.router.request import Request
from pegboard.models.router.vocabulary import ACTIONS, VERBS

ParameterKind: TypeAlias = Literal[
    "url", "file", "folder", "scope", "pattern", "glob", "command", "content", "old", "new", "question", "number", "flag", "choice", "other"
]  # fmt: skip


class ToolView(Protocol):
    """What the router needs to know of a tool."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def description(self) -> str:
        """What the model reads."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The arguments as JSON Schema."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A call that the router would make.

    Attributes:
        tool: the tool's name.
        arguments: by parameter name.
        score: how sure it is; comparable within one request only.
    """

    tool: str
    arguments: dict[str, Any]
    score: float


LEAST: Final = 0.5
"""A tool whose action the request points to less than this is not considered."""

THRESHOLD: Final = 1.0
"""Below this score the router makes no call."""


def choices(request: Request, tools: Iterable[ToolView]) -> list[Choice]:
    """Every call that can be filled from the request, best first."""
    kit = list(tools)
    actions = intent(request)
    profiles = [_profile(tool) for tool in kit]
    query = " ".join([_cue(request), *(f"act{name} " * round(weight) for name, weight in actions.items())])
    documents = [
        f"{(tool.name + ' ') * 3} {' '.join(_hints(tool) * 2)} {tool.description} "
        + " ".join(f"act{name} " * 3 for name in profile)
        for tool, profile in zip(kit, profiles, strict=True)
    ]
    ranked = dict(rank(query, documents))
    best = max(ranked.values(), default=1.0)
    out: list[Choice] = []
    for index, (tool, profile) in enumerate(zip(kit, profiles, strict=True)):
        arguments = _fill(request, tool, profile)
        if arguments is None:
            continue
        if profile and not any(actions.get(name, 0.0) >= LEAST for name in profile):
            continue
        if profile == ("list",) and not _asks_for_listing(request):
            continue
        agreement = sum(actions.get(name, 0.0) for name in profile)
        score = agreement + ranked.get(index, 0.0) / best + _evidence(request, tool, arguments)
        if not profile:
            # A tool of another kind: words alone, so more of them are wanted.
            score = 3 * ranked.get(index, 0.0) / best if _overlap(request, tool) >= 2 else 0.0
        out.append(Choice(tool.name, arguments, score))
    return sorted(out, key=lambda choice: -choice.score)


_LISTED: Final = re.compile(
    r"\b(?:files?|folders?|director(?:y|ies)|dir|ls|entries|everything|here|subfolders?|subdirectories|contents?|listing|structure|tree|cwd|workspace)\b"
    r"|文件|目录|这里|有什么|有哪些|有啥",
    re.IGNORECASE,
)


def _asks_for_listing(request: Request) -> bool:
    """Whether files are what is to be listed: three fruits are not."""
    return (
        bool(_LISTED.search(request.masked))
        or any(place.sure for place in folders(request))
        or bool(request.of("file"))
    )


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
        (r"\b(?:is|are)\s+there\s+(?:any|a|an|some|still)\b(?!\s*(?:file\s+)?[\ue001])", "search", 2.5),
        (r"\b(?:does|do)\b.*\b(?:contain|mention|use|include|import|define|reference|call)\b", "search", 3.0),
        (r"\b(?:who|what)\s+(?:calls?|uses?|imports?|references?|defines?)\b", "search", 4.0),
        (r"\bhow\s+(?:often|many times)\b", "search", 3.0),
        (r"\b(?:occurrences?|usages?|references?|mentions?|instances?)\s+(?:of|to)\b", "search", 3.0),
        (r"\b(?:lines?|places?|files?)\s+(?:(?:that|which|where|with)\s+)*(?:contain|mention|match|us(?:e|ing)|ha(?:s|ve)|includ|import|call|where)", "search", 5.0),
        (r"^(?:a\s+)?(?:new\s+)?(?:text\s+)?file\b.*\b(?:with|containing|saying)\b|\bnew\s+(?:text\s+)?file\b", "write", 4.0),
        (r"[\ue001]\s+with\s+(?:the\s+)?(?:text|contents?|line)\b", "write", 2.0),
        (r"\b(?:look|looking|search|grep|scan|check|hunt|searching)\b.*\bfor\b", "search", 3.0),
        (r"\b(?:files|folders|subfolders|directories|everything|entries)\s+(?:is|are|there)?\s*(?:in|under|inside|of|from|within|at)\s+(?:the\s+)?[\ue002\ue003]", "list", 3.0),
        (r"\b(?:whether|if)\b.*\b(?:appears?|occurs?|exists?|is used|are used|contains?|mentions?|shows? up)\b", "search", 5.0),
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


def intent(request: Request) -> dict[str, float]:
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


def _command_weight(request: Request, body: str) -> float:
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


def _cue(request: Request) -> str:
    """The request without its spans, their kinds named."""
    names = {
        "\ue000": " url ",
        "\ue001": " file ",
        "\ue002": " folder ",
        "\ue003": " path ",
        "\ue004": " ",
        "\ue005": " glob ",
        "\ue006": " ",
    }
    return re.sub("([\ue000-\ue006])\\1*", lambda match: names[match[1]], request.masked)


def _hints(tool: ToolView) -> list[str]:
    hints: object = getattr(tool, "hints", ())
    return [hints] if isinstance(hints, str) else [str(hint) for hint in cast(Iterable[object], hints)]


def _profile(tool: ToolView) -> tuple[str, ...]:
    """The actions of a tool, from its name first, else from its description's first words, and
    its parameters' kinds."""
    kinds: set[ParameterKind] = {_kind_by_name(name, spec) for name, spec in _properties(tool).items()}
    name = " ".join(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool.name).lower()))
    by_name = _actions_of(name)
    by_text = _actions_of(" ".join(re.findall(r"[a-z]+|[\u3400-\u9fff]+", tool.description.lower())[:6]))
    order = [action for action in (*by_name, *by_text) if _possible(action, kinds)]
    if (
        "url" in kinds
        and kinds & {"old", "content", "command"} == set()
        and not {"search", "send"} & set(by_name)
    ):
        order = [action for action in order if action == "fetch"] or ["fetch"]
    return tuple(dict.fromkeys(order[:1]))


def _actions_of(text: str) -> list[str]:
    tokens = text.split()
    out: list[str] = []
    for token in tokens:
        stems = {token, token.rstrip("s"), re.sub(r"(?:ing|ed|es)$", "", token)}
        # A verb says more than a noun: list_files lists, though a file is read.
        out.extend(
            action for action, verbs in VERBS.items() if stems & set(verbs.split()) and action not in out
        )
    for token in tokens:
        out.extend(
            action for action, known in ACTIONS.items() if token in known.split() and action not in out
        )
    joined = "".join(tokens)
    for action, known in ACTIONS.items():
        if (
            any(word in joined for word in known.split() if not word.isascii() and len(word) > 1)
            and action not in out
        ):
            out.append(action)
    return out


_NEEDS: Final[dict[str, set[str]]] = {
    "read": {"file"},
    "list": {"file", "folder", "scope"},
    "search": {"pattern"},
    "write": {"content"},
    "edit": {"old"},
    "run": {"command"},
    "fetch": {"url"},
    "glob": {"glob"},
}


def _possible(action: str, kinds: set[ParameterKind]) -> bool:
    needs = _NEEDS.get(action)
    if action == "read" and kinds & {"content", "old", "pattern"}:
        return False
    return needs is None or bool(needs & kinds) or (action == "list" and not kinds)


def _properties(tool: ToolView) -> dict[str, Mapping[str, Any]]:
    found: object = tool.schema.get("properties", {})
    return dict(cast(Mapping[str, Mapping[str, Any]], found)) if isinstance(found, Mapping) else {}


_BY_NAME: Final[tuple[tuple[str, ParameterKind], ...]] = (
    (r"^(url|uri|link|href|address|page)$|_url$", "url"),
    (r"^(command|cmd|shell_command|commandline|command_line)$", "command"),
    (r"^(old_string|old_str|old_text|old|search_text|find|before)$", "old"),
    (r"^(new_string|new_str|new_text|new|replacement|replace|replace_with|after)$", "new"),
    (r"^(content|contents|text|body|data|file_text)$", "content"),
    (r"^(glob|glob_pattern|file_pattern)$", "glob"),
    (r"^(pattern|query|regex|regexp|search|search_term|keyword|keywords|needle|q|term)$", "pattern"),
    (r"^(dir|directory|folder|dir_path|directory_path|folder_path|root|dirname)$", "folder"),
    (r"^(path|file_path|filepath|filename|file|file_name|target_file|target|paths)$|_path$", "file"),
    (r"^(question|questions)$", "question"),
)


def _kind_by_name(name: str, spec: Mapping[str, Any]) -> ParameterKind:
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if "enum" in spec:
        return "choice"
    match spec.get("type"):
        case "integer" | "number":
            return "number"
        case "boolean":
            return "flag"
        case _:
            pass
    text = str(spec.get("description", "")).lower()
    for pattern, kind in _BY_NAME:
        if re.search(pattern, plain):
            return "glob" if kind == "pattern" and re.search(r"\bglob\b|\*\*?/|\*\.", text) else kind
    if spec.get("format") == "uri":
        return "url"
    return "other"


def _fill(request: Request, tool: ToolView, profile: tuple[str, ...]) -> dict[str, Any] | None:
    """The arguments, or None where a required one is not in the request."""
    properties = _properties(tool)
    required: object = tool.schema.get("required", [])
    wanted = (
        [str(name) for name in cast(Iterable[object], required)] if isinstance(required, list | tuple) else []
    )
    action = profile[0] if profile else ""
    kinds: dict[str, ParameterKind] = {name: _kind_by_name(name, spec) for name, spec in properties.items()}
    out: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind in ("number", "flag", "choice", "other", "question") and name not in wanted:
            continue
        copied = _value(request, kind, action, properties[name], set(kinds.values()))
        if copied is not None:
            out[name] = copied
        elif name in wanted:
            return None
    return out


def _value(
    request: Request, kind: ParameterKind, action: str, spec: Mapping[str, Any], kinds: set[ParameterKind]
) -> Any:
    copied: Copied | None = None
    match kind:
        case "url":
            copied = url_of(request)
        case "command":
            copied = command_of(request)
        case "pattern":
            copied = pattern_of(request)
            if copied is not None and not _compiles(copied.value):
                return re.escape(copied.value)
        case "glob":
            copied = glob_of(request)
        case "content":
            copied = content_of(request)
        case "old" | "new":
            pair = edit_of(request)
            copied = None if pair is None else pair[0 if kind == "old" else 1]
        case "file" | "folder" | "scope":
            return _path(request, kind, action, kinds)
        case "question" | "other":
            quoted = request.of("quoted")
            copied = Copied(quoted[0].text) if quoted else _rest(request, kind)
        case "number":
            found = re.search(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", request.masked)
            if found is None:
                return None
            return float(found[0]) if "." in found[0] else int(found[0])
        case "choice":
            options = [str(option) for option in cast(Iterable[object], spec.get("enum", []))]
            return next(
                (
                    option
                    for option in options
                    if re.search(rf"\b{re.escape(option)}\b", request.text, re.IGNORECASE)
                ),
                None,
            )
        case "flag":
            return None
    return None if copied is None else copied.value


def _path(request: Request, kind: ParameterKind, action: str, kinds: set[ParameterKind]) -> str | None:
    if action == "list" or (kind == "folder" and "pattern" not in kinds and "glob" not in kinds):
        copied = folder_of(request)
    elif "pattern" in kinds or "glob" in kinds:
        looked_for = pattern_of(request) if "pattern" in kinds else None
        copied = scope_of(request, looked_for)
        if (
            "pattern" not in kinds
            and copied is not None
            and copied.value in {span.text for span in request.of("file")}
        ):
            copied = None
        copied = copied or Copied(".")
    else:
        copied = file_of(request, writing=action == "write")
    return None if copied is None else copied.value


def _rest(request: Request, kind: ParameterKind) -> Copied | None:
    """For a free text parameter: what follows `ask`, `to`, `for`, `in`, `about`, or a capitalised name."""
    start, end = body_of(request.masked)
    body = request.masked[:end]
    if kind == "question":
        asked = re.search(
            r"\b(?:ask|question)\b\s*(?:me|the user|user|them)?\s*[:,]?\s*(.+)$", body[start:], re.IGNORECASE
        )
        return None if asked is None else Copied(request.copy(start + asked.start(1), end))
    named = re.search(
        r"\b(?:for|in|about|to|of|at|called|named)\s+([A-Z][\w-]*(?:\s+[A-Z][\w-]*)*|[\ue006]+)", body[start:]
    )
    return None if named is None else Copied(request.copy(start + named.start(1), start + named.end(1)))


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _overlap(request: Request, tool: ToolView) -> int:
    """How many different words of the request the tool's name, hints and description hold."""
    document = " ".join([tool.name, *_hints(tool), tool.description])
    return sum(1 for word in set(re.findall(r"\w{3,}", _cue(request).lower())) if rank(word, [document, ""]))


def _evidence(request: Request, tool: ToolView, arguments: Mapping[str, Any]) -> float:
    """Spans that the call uses count for it, spans that it leaves count against it."""
    used = [str(value) for value in arguments.values()]
    score = 0.0
    for span in request.spans:
        if span.kind == "name":
            continue
        taken = any(span.text in value or (len(value) > 2 and value in span.text) for value in used)
        weight = 6.0 if span.kind == "url" else 1.0
        score += 0.25 * weight if taken else -weight
    return score
