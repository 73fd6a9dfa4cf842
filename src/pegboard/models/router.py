"""router: from a plain request to one tool call, by words and copied literals; no language model.

It makes no call on a negation or a condition. A question, or a request to look at something, only reads.
It writes and runs only what stands in quotation marks or backticks, after a plain imperative that it
understands to the last word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast

READ_CHARACTERS: Final = 2_000
"""Of a request at most this many characters are looked at."""


class RoutableTool(Protocol):
    """What the router looks at in a tool; `kinds` and `hints` too where it has them."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The call that a request plainly asks for."""

    tool: str
    arguments: dict[str, str]

    def __str__(self) -> str:
        return " ".join([self.tool, *(f'{name}="{value}"' for name, value in self.arguments.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request with a letter of a private range in the place of each literal.

    Attributes:
        text: as it was sent.
        step: the first step, with letters for its literals.
        rest: what stands after `and then`, as it was sent; empty if there is one step.
        literals: what each letter stands for.
        doubt: the first word of a negation or condition, empty if there is none.
    """

    text: str
    step: str
    rest: str
    literals: Mapping[str, str]
    doubt: str

    @property
    def chinese(self) -> bool:
        """Whether to answer in Chinese."""
        return re.search(r"[\u4e00-\u9fff]", self.text) is not None

    @property
    def is_question(self) -> bool:
        """Whether it asks for something to be told."""
        return _QUESTION.search(self.step) is not None

    def text_of(self, masked: str) -> str:
        """The text behind a piece of `step`."""
        return _LITERAL.sub(lambda match: self.literals[match[0]], masked).strip()


# A literal's letter tells its kind: in quotation marks, a path in quotation marks, a URL, a path, a glob pattern.
_KINDS: Final = {"quoted": 0xE000, "named": 0xE100, "url": 0xE200, "path": 0xE300, "glob": 0xE400}
_OF_A_KIND: Final = 0x100
_QUOTED: Final = "[\ue000-\ue1ff]"
_PROSE: Final = "[\ue000-\ue0ff]"
_FILE: Final = "[\ue100-\ue1ff\ue300-\ue3ff]"
_URL: Final = "[\ue200-\ue2ff]"
_GLOB: Final = "[\ue400-\ue4ff]"
_LITERAL: Final = re.compile("[\ue000-\ue4ff]")
_PRIVATE: Final = re.compile("[\ue000-\uf8ff]")

_LATIN: Final = r"[^\W\u3400-\u9fff\uf900-\ufaff]"
_SPANS: Final = re.compile(
    r"```(?:\w*\n)?(?P<fence>.+?)```|`(?P<tick>[^`\n]+)`|\"(?P<double>[^\"]+)\"|“(?P<curly>[^”]+)”|「(?P<corner>[^」]+)」"
    r"|(?<!\w)'(?P<single>[^'\n]+)'(?!\w)|(?<!\w)‘(?P<bent>[^’\n]+)’(?!\w)"
    r"|(?P<url>https?://[^\s<>\"'`，。！？；、）]+)"
    rf"|(?P<path>(?:{_LATIN}|[.~/@+$*?-])+)",
    re.DOTALL | re.IGNORECASE,
)
_KNOWN: Final = re.compile("Dockerfile|Makefile|README|LICEN[SC]E|CHANGELOG|Gemfile|Jenkinsfile|Procfile")
_PATH: Final = re.compile(
    rf"(?:~|\.\.?)?/?|.*/.*|\.{_LATIN}[\w.-]*|.*{_LATIN}\.[^\W\d_]\w{{1,9}}|.*{_LATIN}{{2}}\.[^\W\d_]|{_KNOWN.pattern}"
)
"""A word that is a path: with a slash, hidden, with an ending, or known by its name."""

_DOUBT: Final = re.compile(
    r"\b(?:not|no|nope|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|avoid|stop|refrain|skip|forget|cancel|forbid\w*"
    r"|prohibit\w*|prevent|cease|quit|but|instead|rather|except\w*|excluding|barring|unless|lest|if|when|whenever|while|once|until"
    r"|till|after|before|provided|providing|assum(?:e|ing)|given that|suppose|supposing|should|would|unlikely|hardly|in case"
    r"|in the event|(?:as|so) (?:soon|long) as|conditions?|conditional\w*|contingent|pending|depending|subject to"
    r"|were (?:you|i|it) to|only|otherwise|else)\b|\w*n['’]t\b"
    r"|\b(?:do|does|did|ca|wo|sha|should|would|could|must|need|is|are|was|were|has|have|had|ai)nt\b"
    r"|[不没别勿莫未无非休若]|禁止|避免|停止|取消|拒绝|如果|假如|假设|要是|一旦|除非|除了|只要|只有|只在|否则|的话|万一|倘|时候|以后"
    r"|之后|之前|直到|当(?!前)",
    re.IGNORECASE,
)
"""Words of a negation or a condition. Rather one too many: a request that is not plain is declined."""
_POLITE: Final = r"(?:(?:please|kindly|hello|hi|hey|ok|okay|now|just|go ahead and|so|then|first|next|请你?|麻烦你?|帮我|帮忙|现在)[\s,，!！]*)*"
_WISH: Final = r"(?:(?:can|could|will) you\s+|(?:i|we) (?:want|need|would like)\s+(?:you\s+)?to\s+|i['’]d like (?:you )?to\s+|(?:can|could|may) i\s+|let['’]?s\s+|let me\s+)?"
_START: Final = re.compile(rf"\s*{_POLITE}{_WISH}{_POLITE}(?:in {_FILE},?\s*)?", re.IGNORECASE)
_WISHED: Final = re.compile(r"(?<!\w)(?:i would|we would|would you)(?= like| please)", re.IGNORECASE)
_QUESTION: Final = re.compile(
    r"^\s*(?:(?:hello|hi|hey|please|so)[\s,!]+)*(?:what|which|where|who|whose|how|why|is|are|was|were|does|do|did|has|have|whats|wheres)\b"
    r"|吗|什么|哪|多少|几个|谁|怎么|为何",
    re.IGNORECASE,
)
_NEXT: Final = re.compile(
    r"[\s,;.]+(?:and\s+)?(?:then|afterwards)[\s,]+|[，,；;。\s]*(?:然后|接着)", re.IGNORECASE
)
_REPORT: Final = re.compile(
    r"[\s,]+and (?:then )?(?:tell|show|give|report|say|explain|print|summari[sz]e|let me know)\b[^\ue000-\ue4ff]*$",
    re.IGNORECASE,
)
"""What to do with the result: it is quoted anyway."""


def read_request(text: str) -> Request:
    """Find the literals, the first step, and what forbids a call."""
    text = _PRIVATE.sub(" ", text.strip()[:READ_CHARACTERS])
    literals: dict[str, str] = {}
    sources: dict[str, str] = {}
    counts = dict.fromkeys(_KINDS, 0)

    def mask(match: re.Match[str]) -> str:
        group = cast(str, match.lastgroup)
        value, tail = match[group].strip("\n"), ""
        kind: str | None = group
        if group == "url":
            value, tail = _trimmed(value, ".,;:!?*" if value.count("(") == value.count(")") else ".,;:!?*)")
        elif group == "path":
            value, tail = _trimmed(value, ".?")
            kind = "glob" if "*" in value else "path" if _PATH.fullmatch(value) else None
        else:
            kind = "named" if _is_path(value) else "quoted"
            if re.fullmatch(r"https?://\S+", value):
                kind = "url"
        if kind is None or not value or counts[kind] == _OF_A_KIND:
            return match[0]
        letter = chr(_KINDS[kind] + counts[kind])
        counts[kind] += 1
        literals[letter], sources[letter] = value, match[0].removesuffix(tail) if tail else match[0]
        return letter + tail

    masked = _WISHED.sub("i want", _SPANS.sub(mask, text))
    doubt = _DOUBT.search(re.sub(r"(\w)[不没]\1|有没有", "", masked))
    parts = _NEXT.split(_REPORT.sub("", masked), maxsplit=1)
    if not parts[0].strip():
        parts = [masked]
    rest = _LITERAL.sub(lambda match: sources[match[0]], parts[1]) if len(parts) > 1 else ""
    return Request(
        text=text, step=parts[0].strip(), rest=rest, literals=literals, doubt=doubt[0] if doubt else ""
    )


def _trimmed(value: str, ends: str) -> tuple[str, str]:
    """The value without punctuation at its end, and that."""
    kept = value if re.fullmatch(r"\.\.?", value) else value.rstrip(ends)
    return kept, value[len(kept) :]


def _is_path(quoted: str) -> bool:
    """Whether what stands in quotation marks may be a path too."""
    return (
        re.fullmatch(r"[^\s*?<>|\"']+/[^\s*?<>|\"']*|[^\n*?<>|\"'=(){};]*\w\.[^\W\d_]\w{0,9}", quoted)
        is not None
    )


Found: TypeAlias = tuple[str, dict[str, str]]
"""A role, and values by the kind of parameter that takes them."""

# -- What it writes and runs: forms that fit to the last word. -------------------------------------------------

_FILL: Final = r"(?:(?:the|a|an|my|this|following|new|text|string|line|words?|phrase|command|script|program|shell|file|named|called|number|sentence|contents?)\s+)*"
_END: Final = (
    r"(?:[\s,]*(?:please|now|for me|thanks|thank you|in (?:the|a) (?:terminal|shell|sandbox)))*[\s,.!。！]*"
)
_INTO: Final = r"\s+(?:in|into|to|inside|under)\s+"
_ORDERS: Final = tuple(
    (role, re.compile(rf"\s*{_POLITE}(?:{form}){_END}", re.IGNORECASE))
    for role, form in (
        ("run", rf"(?:run|execute|start|launch|invoke)\s+{_FILL}(?P<command>{_QUOTED})"),
        ("run", rf"(?:运行|执行)(?:命令|一下)*[:：\s]*(?P<command>{_QUOTED})"),
        ("write", rf"(?:write|save|put|store)\s+{_FILL}(?P<content>{_PROSE}){_INTO}{_FILL}(?P<path>{_FILE})"),
        ("write", rf"(?:create|make|write)\s+{_FILL}(?P<path>{_FILE})\s+(?:with|containing|saying|that says|that contains)"
                  rf"\s+{_FILL}(?:content\s+)?:?\s*(?P<content>{_PROSE})"),
        ("write", rf"(?:把|将)\s*(?P<content>{_PROSE})\s*(?:写入|写到|写进|保存到|存到|存入)\s*(?:文件)?\s*(?P<path>{_FILE})\s*[里中]?"),
        ("write", rf"(?:创建|新建)(?:一个|文件|名为|叫|\s)*(?P<path>{_FILE})\s*(?:的文件|文件)?[，,\s]*(?:内容[为是]|写入)[:：\s]*(?P<content>{_PROSE})"),
        ("edit", rf"(?:replace|change)\s+{_FILL}(?P<old>{_QUOTED})\s+(?:with|by|to)\s+{_FILL}(?P<new>{_QUOTED})\s+in\s+{_FILL}(?P<path>{_FILE})"),
        ("edit", rf"in\s+{_FILL}(?P<path>{_FILE}),?\s+(?:replace|change)\s+{_FILL}(?P<old>{_QUOTED})\s+(?:with|by|to)\s+{_FILL}(?P<new>{_QUOTED})"),
        ("edit", rf"[把将在]\s*(?P<path>{_FILE})\s*[里中]?的?\s*把?(?P<old>{_QUOTED})\s*(?:替换成|替换为|改成|改为|换成)\s*(?P<new>{_QUOTED})"),
    )
)  # fmt: skip


def _orders(request: Request) -> Iterator[Found]:
    if not request.is_question and not re.search("[?？]", request.step):
        for role, form in _ORDERS:
            if match := form.fullmatch(request.step):
                yield role, {kind: request.literals[letter] for kind, letter in match.groupdict().items()}


# -- What it reads. --------------------------------------------------------------------------------------------

_LOOK: Final = re.compile(
    r"(?:read|open|show|see|view|display|print|cat|less|head|tail|summari[sz]e|explain|describe|review|inspect|check|preview|give|tell"
    r"|look|take a look|load|go to|grab|pull|(?:the )?contents? of|search|find|grep|rg|locate|scan|seek|hunt|list|ls|dir|tree|browse|enumerate|fetch|download|get|retrieve|visit|curl|wget"
    r"|glob)\b"
    r"|.*?(?:读|打开|看|显示|展示|总结|概括|列出|搜|查|找|抓取|获取|下载|访问)",
    re.IGNORECASE,
)
_SEARCH: Final = re.compile(
    r"\b(?:search|find|grep|rg|locate|scan|seek|hunt|look\b.* for|where|who|lines?|mention\w*|contain\w*|references?|usages?|uses?|used"
    r"|calls?|called|defined|imports?|matching|present|appears?)\b|\bthere\b.*\bin\b|搜|找|哪.*(?:包含|提到|用|定义|调用)|有没有",
    re.IGNORECASE,
)
_THING: Final = (
    r"(?:(?:the|a|an|any|all|every|each|some|exact)\s+)*(?:(?:strings?|words?|text|phrases?|patterns?|lines?|symbols?|functions?"
    r"|class(?:es)?|methods?|variables?|uses|usages|occurrences|references)\s+(?:(?:of|to|with|containing)\s+)?)?"
)
_WORD: Final = rf"(?:{_LATIN}|[$-])+"
_CUED: Final = re.compile(
    r"(?:\b(?:for|(?:mention|contain|reference|use|import|call|define)s?|mentioning|containing|using|about|word|string"
    rf"|variable|function|class|method)(?:\s+of)?\s+{_THING}|(?:搜索|查找|寻找|找到|找|包含|提到|用到|使用|调用)了?\s*)"
    rf"(?P<pattern>{_WORD}(?:\s+{_WORD})??|{_FILE})"
    r"(?=\s*(?:[?.!。？]|$|\s(?:is|are|set|used|defined|called|declared|in|inside|within|under|across|anywhere|here|from)\b|的|这))"
    r"|\b(?:is|are)\s+(?P<subject>[\w$-]+)\s+(?:still\s+)?(?:used|mentioned|called|defined|imported|referenced)\b",
    re.IGNORECASE,
)
_SCOPE: Final = (
    r"(?:\b(?:in|inside|within|under|across|from|of|search|在)\s*(?:the\s+)?(?:file\s+)?|^\s*grep .*)"
)
_SOURCES: Final = re.compile(r"\b(?:files?|code|lines?|anywhere|project)\b|文件|代码", re.IGNORECASE)
_LOCATE: Final = re.compile(r"\b(?:find|locate|where)\b|找|哪", re.IGNORECASE)
_CODE: Final = re.compile(
    r"(?<![\w$])(?:[A-Z]{3,}(?=s?\b)|[A-Za-z_$]*(?:_|[a-z](?=[A-Z]))[\w$]*|[A-Za-z_$][\w$]*(?=\())", re.ASCII
)
"""A word that only code has: TODO, snake_case, camelCase, a call."""
_PLACE: Final = re.compile(
    r"\b(?:in|inside|within|under|across|from)\s+(?:(?:the|my|our|this)\s+)*(?!folder|directory)(?P<after>[\w-]+)(?=[\s?.!,]|$)(?!\s+files?\b)"
    rf"|\b(?:the|list|of|my|our|search)\s+(?P<before>[\w-]+|{_QUOTED})(?=\s+(?:folder|directory)\b)"
    rf"|\b(?:folder|directory)\s+(?:named\s+|called\s+)?(?P<named>[\w-]+|{_QUOTED})"
    r"|(?P<chinese>[A-Za-z0-9_-]+)\s*(?:目录|文件夹|里|中|下)",
    re.IGNORECASE,
)
_ANYWHERE: Final = re.compile(
    r"the|an?|this|my|our|your|that|here|it|them|which|what|any|each|every|all|is|of|called|named|one|project|repo(?:sitory)?"
    r"|code(?:base)?|workspace|current|working|source|directory|folder|tree|root|contents|files?|total|general|detail|order"
    r"|full|short|english|french|german|chinese",
    re.IGNORECASE,
)
"""Words after `in` that name no folder."""
_FILES: Final = re.compile(
    r"\b(?:what|which|how many|any|there|the|all|list|ls|show|see)\s+(?:(?:the|all|of|my|me)\s+)*(?:files|folders|directories|subfolders|entries)\b"
    r"|^\s*(?:ls|dir|tree)\b|\b(?:this|current) (?:folder|directory)|\bin here\b|文件夹|目录|哪些文件|什么文件",
    re.IGNORECASE,
)
_FOLDER: Final = re.compile(
    r"\b(?:folder|directory|dir|ls|list|listing|tree|under)\b|目录|文件夹|列出", re.IGNORECASE
)
_DEFINITION: Final = re.compile(
    rf"\s*(?:what|who)(?:['’]?s| is| are)\s+(?:a |an |the )?{_FILE}[\s?.!]*", re.IGNORECASE
)


def _reads(request: Request) -> Iterator[Found]:
    """What a look or a question may mean, the most certain first."""
    step = request.step
    begin = cast("re.Match[str]", _START.match(step)).end()
    looks = _LOOK.match(step, begin) is not None
    if not (looks or request.is_question) or _DEFINITION.fullmatch(step):
        return
    if urls := re.findall(_URL, step):
        if len(urls) == 1:
            yield "fetch", {"url": request.literals[urls[0]], "question": request.text}
        return
    paths = re.findall(_FILE, step)
    place = _place(request)
    if len(globs := re.findall(_GLOB, step)) == 1:
        pattern = request.literals[globs[0]]
        where = request.literals[paths[0]] if paths else place or "."
        yield "glob", {"pattern": pattern if "/" in pattern else f"**/{pattern}", "path": where}
    if _SEARCH.search(step):
        yield from _searches(request, paths, place, looks)
    folders = [path for path in paths if _is_folder(request.literals[path], step)]
    if folders or (_FILES.search(step) and not paths):
        if len(folders) < 2:
            yield "list", {"path": request.literals[folders[0]] if folders else place or "."}
    elif place and _FOLDER.search(step) and not paths:
        yield "list", {"path": place}
    elif len(paths) == 1:
        yield "read", {"path": request.literals[paths[0]]}


def _searches(request: Request, paths: list[str], place: str, looks: bool) -> Iterator[Found]:
    step = request.step
    here = [path for path in paths if re.search(rf"{_SCOPE}{path}", step, re.IGNORECASE)]
    where = request.literals[here[-1]] if here else place or "."
    literal = [
        letter
        for letter in re.findall(_QUOTED, step)
        if letter not in here and request.literals[letter] != place
    ]
    if len(literal) == 1:
        yield "search", {"pattern": request.literals[literal[0]], "path": where}
    elif not literal:
        free = [path for path in paths if path not in here]
        scope = paths[0] if paths and not here and len(paths) == 1 else ""
        if code := _CODE.search(step):
            yield "search", {"pattern": code[0], "path": request.literals[scope] if scope else where}
        elif cue := _CUED.search(step):
            if looks or place or here or scope or _SOURCES.search(step):
                pattern = request.text_of(cue["pattern"] or cue["subject"])
                yield "search", {"pattern": pattern, "path": request.literals[scope] if scope else where}
        elif len(free) == 1 and _LOCATE.search(step):
            yield "glob", {"pattern": f"**/{request.literals[free[0]]}", "path": where}


def _place(request: Request) -> str:
    """The folder that is named by a bare word, empty if there is none."""
    if re.search(r"\bhome (?:folder|directory)\b|主目录", request.step, re.IGNORECASE):
        return "~"
    if re.search(r"\bparent (?:folder|directory)\b|上级目录", request.step, re.IGNORECASE):
        return ".."
    for match in _PLACE.finditer(request.step):
        word = next(group for group in match.groups() if group)
        if not _ANYWHERE.fullmatch(word) and not _CODE.fullmatch(word):
            return request.text_of(word)
    return ""


def _is_folder(path: str, step: str) -> bool:
    last = path.rstrip("/").rpartition("/")[2]
    if path.endswith("/") or last in ("", ".", "..", "~"):
        return True
    return (
        "." not in last and not _KNOWN.fullmatch(last) and bool(_FOLDER.search(step) or _FILES.search(step))
    )


# -- Which tool takes it. --------------------------------------------------------------------------------------

_PARAMETERS: Final = tuple(
    (kind, re.compile(form))
    for kind, form in (
        ("old", r"old|search_?(?:text|string)|find"), ("new", r"new|replace(?!_all)"),
        ("url", r"(?:url|uri|link|href|address)$"), ("command", r"command$|cmd$|script$"),
        ("pattern", r"pattern$|regex|glob$|query$"), ("question", r"question$|prompt$"),
        ("content", r".*(?:content|text|body|data)s?$"), ("path", r".*(?:path|file|dir|directory|folder|filename)$"),
    )
)  # fmt: skip
_ROLES: Final = {
    "read": (("path",), "read view open cat"),
    "list": (("path",), "list ls dir tree"),
    "search": (("pattern", "path"), "grep search rg"),
    "glob": (("pattern", "path"), "glob"),
    "fetch": (("url",), "fetch browse page url web http download"),
    "write": (("path", "content"), "write create save"),
    "edit": (("path", "old", "new"), "edit replace modify"),
    "run": (("command",), "exec bash shell run command terminal"),
}
"""What a tool of each role must take, and the words that tell it."""
_READING: Final = ("read", "list", "search", "glob", "fetch")


def choose(request: Request, tools: Iterable[RoutableTool]) -> Choice | None:
    """The call that the request plainly asks for, None if it asks for none or is not plain."""
    if request.doubt:
        return None
    kit = list(tools)
    if (named := _named(request, kit)) is not None:
        return named
    for role, values in (*_orders(request), *_reads(request)):
        suited = [(score, tool) for tool in kit if (score := _suits(tool, role))]
        for _, tool in sorted(suited, key=lambda pair: -pair[0]):
            if (arguments := _arguments(tool, values, _ROLES[role][0])) is not None:
                return Choice(tool=tool.name, arguments=arguments)
    return None


def _named(request: Request, kit: list[RoutableTool]) -> Choice | None:
    """A tool that is called by its name: `set_timer minutes=5 sound="bell"`."""
    value = rf"{_LITERAL.pattern}|[\w.-]+"
    match = re.fullmatch(
        rf"\s*{_POLITE}(?:(?:use|call)\s+)?([\w.-]+)((?:\s+\w+=(?:{value}))+)[\s.]*", request.step
    )
    tool = next((tool for tool in kit if match and tool.name == match[1]), None)
    if match is None or tool is None:
        return None
    pairs = re.findall(rf"(\w+)=({value})", match[2])
    if not _only_reads(tool) and not all(re.fullmatch(_QUOTED, value) for _, value in pairs):
        return None
    return Choice(tool=tool.name, arguments={name: request.text_of(value) for name, value in pairs})


def _suits(tool: RoutableTool, role: str) -> int:
    """2 where the tool's name tells the role, 1 where its hints or first sentence do, 0 where it is another one."""
    if role in _READING and not _only_reads(tool):
        return 0
    name = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool.name).lower())
    if told := set(name) & _WORDS:
        return 2 if told & set(_ROLES[role][1].split()) else 0
    hints: Iterable[str] = getattr(tool, "hints", ())
    text = re.findall(r"[a-z]+", f"{' '.join(hints)} {tool.description.partition('.')[0]}".lower())
    return 1 if set(text) & set(_ROLES[role][1].split()) else 0


_WORDS: Final = frozenset(word for _, words in _ROLES.values() for word in words.split())


def _only_reads(tool: RoutableTool) -> bool:
    """Whether the tool says of itself that it only reads; one that can say nothing is believed."""
    kinds: Callable[[], Iterable[str]] | None = getattr(tool, "kinds", None)
    if kinds is None:
        return True
    return set(kinds()) <= {"read", "connect"} and (
        any(kinds()) or not callable(getattr(tool, "effects", None))
    )


def _arguments(tool: RoutableTool, values: Mapping[str, str], needed: Iterable[str]) -> dict[str, str] | None:
    """The values by the tool's own names; None where it wants others too, or cannot take them all."""
    names = cast("Mapping[str, Any]", tool.schema.get("properties", {}))
    required = cast("Collection[str]", tool.schema.get("required", ()))
    takes: dict[str, str] = {}
    for name in names:
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        kind = next((kind for kind, form in _PARAMETERS if form.match(snake)), "")
        if kind in values and (kind in needed or name in required):
            takes.setdefault(kind, name)
    out = {name: values[kind] for kind, name in takes.items()}
    lost = any(kind in values and kind not in takes and values[kind] != "." for kind in needed)
    return out if not lost and set(required) <= set(out) else None
