"""Arguments: what the request says for a parameter, copied from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pegboard.models.router.paths import FILE, IN, PATH, QUOTE, SCOPE, body_of, folders
from pegboard.models.router.request import ParsedRequest
from pegboard.models.router.vocabulary import EXTENSIONS, HERE, NO_NAMES

FLAGS: Final = re.IGNORECASE | re.DOTALL
_TAIL: Final = rf"(?:\s+(?:anywhere|somewhere|everywhere|at all))?(?:\s+{IN}\s+{SCOPE})?[\s?.!。？！,]*$"
_NOUN: Final = (
    r"(?:(?:the|a|an|any|all|every|each|some|exact|literal|whole|our|my|its|where|that|which)\s+)*"
    r"(?:(?:strings?|words?|text|terms?|phrases?|patterns?|regex(?:p|es)?|regular expressions?|expressions?|symbols?|names?|identifiers?|keywords?"
    r"|functions?|methods?|class(?:es)?|variables?|constants?|lines?|occurrences?|uses?|usages?|references?|instances?|mentions?"
    r"|places?|calls?|callers?|definitions?|imports|files?|type|struct|interface|decorator|macro|module|setting|option|flag|error|message)\s+"
    r"(?:(?:of|to|for|with|containing|that (?:contains?|mentions?|uses?|says?|matches)|mentioning|matching|called|named)\s+)?)*"
)
_USED: Final = (
    r"(?:used|defined|called|declared|set|imported|implemented|created|handled|initiali[sz]ed|mentioned|referenced|configured"
    r"|raised|invoked|assigned|instantiated|located|documented|tested|read|written|registered|logged|thrown|exported|found)"
)
_HAS: Final = (
    r"(?:mentions?|contains?|uses?|imports?|references?|includes?|has|have|having|defines?|calls?|says?|mentioning|containing|using|importing"
    r"|calling|refers? to|talks? about|match(?:es)?|needs?|depends? on|declares?|raises?|implements?|sets?|logs?)"
)

_PATTERNS: Final = tuple(
    re.compile(pattern, FLAGS)
    for pattern in (
        rf"\b(?:search|look|looking|grep|rg|scan|hunt|check|seek|searching)\b(?:\s+[^\s]+){{0,7}}?\s+for\s+{_NOUN}(?P<p>.+?){_TAIL}",
        rf"\b(?:grep|rg|ag|ack)\s+(?:-\w+\s+)*{_NOUN}(?P<p>[^\s]+)\s+{SCOPE}\s*$",
        rf"\b(?:grep|rg|ag|ack)\s+(?:-\w+\s+)*{_NOUN}(?P<p>.+?){_TAIL}",
        rf"\b(?:find|locate|show|list|get|give|display|search|spot|track down|see|identify|print|tell|count)\b(?:\s+(?:me|us|out))*\s+"
        rf"(?:(?:every|all|any|each|the|of)\s+)*(?:\w+\s+)??(?:places?|lines?|files?|spots?|locations?|occurrences?|instances?|uses?|usages?|references?|mentions?"
        rf"|calls?|callers?|definitions?|imports?|modules?|functions?|code|everything|everywhere|anything)\s+(?:(?:of|to|where|with|that|which|in which|for|we|i)\s+)*"
        rf"(?:{_HAS}\s+)?{_NOUN}(?P<p>.+?)(?:\s+(?:is|are|gets?|was|were|being)\s+\w+)?{_TAIL}",
        rf"\bwhere(?:'s|\s+(?:is|are|was|were))\s+{_NOUN}(?P<p>.+?)\s+(?:being\s+|actually\s+|first\s+)?{_USED}{_TAIL}",
        rf"\bwhere\s+(?:do|does|did|can|could|in)\b.*?\b(?:use|call|define|import|set|declare|handle|create|mention|reference|find|raise|need|read|write|log|configure|see)s?\s+{_NOUN}(?P<p>.+?)(?:\s+{_USED})?{_TAIL}",
        rf"\bwhere(?:'s|\s+(?:is|are|was|were))\s+{_NOUN}(?P<p>[\ue004\ue006]+){_TAIL}",
        rf"\b(?:which|what)\s+(?:of\s+)?(?:\w+\s+)??(?:files?|modules?|places?|lines?|scripts?|documents?|functions?|classes|tests?|code|parts?)\b.*?\b{_HAS}\s+{_NOUN}(?P<p>.+?){_TAIL}",
        rf"\b(?:is|are)\s+{_NOUN}(?P<p>(?!there\b)\S+|[\ue004\ue006]+)\s+(?:still\s+|ever\s+)?{_USED}\s+(?:anywhere|somewhere){_TAIL}",
        rf"\b(?:is|are)\s+there\s+(?:(?:anything\s+about|something\s+about|any|a|an|some|still|more|other)\s+)*{_NOUN}(?P<p>.+?)(?:\s+(?:statements?|calls?|comments?|lines?|markers?|left|remaining|still|anywhere|somewhere))*{_TAIL}",
        rf"\b(?:who|what(?:\s+code)?)\s+(?:calls?|uses?|imports?|references?|defines?)\s+{_NOUN}(?P<p>.+?){_TAIL}",
        rf"\b(?:does|do|did)\s+(?:(?:(?:any|some)\w*(?:\s+\w+)??\s+{IN}\s+)?{SCOPE}|(?:any|some)\w*(?:\s+\w+)?)\s+(?:anywhere\s+)?(?:contain|mention|use|include|have|import|define|reference|call|say)\s+{_NOUN}(?P<p>.+?)[\s?.!]*$",
        rf"\bhow\s+(?:often|many times)\s+(?:is|are|do|does|did)\s+(?:we\s+|i\s+)?(?:use\s+|call\s+)?{_NOUN}(?P<p>.+?)(?:\s+(?:{_USED}|appears?|occurs?|shows? up))?{_TAIL}",
        rf"\b(?:find|locate|search|spot|track down|look up)\s+(?:me\s+|out\s+)?{_NOUN}(?P<p>.+?)(?:\s+(?:is|are)\s+{_USED})?{_TAIL}",
        r"(?:搜索|搜一下|搜|查找|寻找|检索|查一下|找一下|找出|找到|找|grep)\s*(?:一下)?\s*"
        rf"(?:{PATH}|[A-Za-z0-9_~-]+)\s*(?:目录|文件夹|文件)?(?:里面|里|中|下面|下|内)(?:的)?\s*(?:所有|全部)?(?:包含|含有|出现)?(?:的)?\s*(?P<p>.+?)(?:的)?(?:文件|地方|位置|行|内容)?[。？！\s]*$",
        r"(?:搜索|搜一下|搜|查找|寻找|检索|查一下|找一下|找出|找到|找|grep)\s*(?:一下|所有|全部|出|哪里)*\s*(?:包含|含有|出现|提到|使用|用到|调用)?(?:了)?\s*"
        r"(?:字符串|单词|关键字|关键词|文本|函数|类|变量|词)?\s*(?P<p>.+?)(?:的)?(?:文件|地方|位置|行|内容|字样)?[。？！\s]*$",
        r"(?:哪些|哪个|什么|哪几个)(?:文件|地方|代码|模块)(?:里面|里|中)?(?:包含|含有|提到|用到|用|使用|调用|引用|出现|导入|有)(?:了|过)?\s*(?:字符串|单词|关键字|关键词|函数|类|变量|词)?\s*(?P<p>.+?)[了的吗呢？。\s]*$",
        r"(?P<p>[\ue004\ue006]+|[A-Za-z_][\w.]*)\s*(?:这个|那个)?(?:函数|类|变量|方法)?\s*(?:是)?(?:在哪里|在哪儿|在哪|在什么地方|在哪些地方)",
        r"(?:函数|类|变量|方法)\s*(?P<p>[\ue004\ue006]+|[A-Za-z_][\w.]*)\s*(?:是)?(?:在哪里|在哪儿|在哪|在什么地方)",
    )
)


@dataclass(frozen=True, slots=True)
class ExtractedValue:
    """A value for a parameter, and where it stood in the masked text (-1 where it is implied)."""

    value: str
    start: int = -1
    end: int = -1


def pattern_of(request: ParsedRequest) -> ExtractedValue | None:
    """What a search looks for."""
    start, end = body_of(request.masked)
    body = request.masked[:end]
    for pattern in _PATTERNS:
        match = pattern.search(body, start)
        if match is None:
            continue
        found = _clean_pattern(request, *match.span("p"))
        if found is not None:
            return found
    for kind in ("quoted", "name"):
        for span in request.of(kind):
            first = request.origin.index(span.start)
            return ExtractedValue(span.text, first, first + span.end - span.start)
    return None


def _clean_pattern(request: ParsedRequest, start: int, end: int) -> ExtractedValue | None:
    masked = request.masked[start:end]
    literal = re.search("[\ue004]+", masked)
    if literal is not None:
        # A quoted piece inside a longer phrase is what is meant: the string "x" as a whole word.
        start, end = start + literal.start(), start + literal.end()
        return ExtractedValue(request.copy(start, end), start, end)
    trailing = re.search(
        r"\s+(?:statements?|calls?|comments?|markers?|lines?|entries|messages?|function|method|class|variable|symbol|string|word|text|keyword|anywhere|somewhere|everywhere)$", masked, re.IGNORECASE
    )  # fmt: skip
    if trailing is not None and trailing.start() > 0:
        end = start + trailing.start()
    text = request.copy(start, end).strip().strip("，,;:：")
    plural = re.fullmatch(r"([A-Z]{2,})s", text)
    if plural is not None:
        text = plural[1]
    words = text.lower().split()
    if re.search("[\u3400-\u9fff]", text) and (len(text) > 8 or re.search(r"一[家个些种位]|什么|怎么", text)):
        return None
    if not text or all(word in NO_NAMES or word in HERE for word in words):
        return None
    # "find me a good restaurant" is no search in files.
    if (
        words[0] in ("a", "an", "some", "my", "me", "good", "out", "how", "why", "what", "something")
        and len(words) > 1
    ):
        return None
    return ExtractedValue(text, start, end) if len(words) <= 6 else None


def scope_of(request: ParsedRequest, pattern: ExtractedValue | None) -> ExtractedValue | None:
    """Where a search looks: a file or folder outside the pattern."""
    outside = None if pattern is None or pattern.start < 0 else (pattern.start, pattern.end)
    if pattern is not None and outside is not None:
        # As the program takes it: grep PATTERN PLACE.
        last = re.fullmatch(rf"\s+(?P<place>{PATH}|[\w~-]+)\s*", request.masked[pattern.end :])
        if last is not None and re.search(
            r"\b(?:grep|rg|ag|ack)\b", request.masked[: pattern.start], re.IGNORECASE
        ):
            first, end = (pattern.end + place for place in last.span("place"))
            return ExtractedValue(request.copy(first, end), first, end)
    for span in request.of("file"):
        start = request.origin.index(span.start)
        if outside is None or start >= outside[1] or start + span.end - span.start <= outside[0]:
            return ExtractedValue(span.text, start, start + span.end - span.start)
    places = folders(request, outside=outside)
    return ExtractedValue(places[0].text, places[0].start, places[0].end) if places else None


def folder_of(request: ParsedRequest) -> ExtractedValue | None:
    """Which folder is meant; `.` where none is named."""
    for place in folders(request):
        if place.text not in {span.text for span in request.of("file")}:
            return ExtractedValue(place.text, place.start, place.end)
    return ExtractedValue(".")


_FILE_CUES: Final = tuple(
    re.compile(pattern, FLAGS)
    for pattern in (
        rf"\bfile\s+(?:called\s+|named\s+|at\s+)?(?P<p>{PATH}|{QUOTE}|[\w.-]+)",
        rf"\b(?:cat|less|head|tail|more)\s+(?:-\w+\s+)*(?P<p>{PATH}|{QUOTE}|[\w.-]+)\s*$",
        r"(?P<p>[\w-]+)\s+file\b",
        rf"文件\s*(?P<p>{PATH}|{QUOTE}|[A-Za-z0-9_.-]+)",
    )
)


def file_of(request: ParsedRequest, *, writing: bool = False) -> ExtractedValue | None:
    """Which file is meant."""
    spans = request.of("file", "path")
    if writing:
        target = re.search(
            rf"\b(?:to|into|in|as|called|named|file|at|inside)\s+(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+|named\s+)?(?P<p>{FILE})",
            request.masked,
            FLAGS,
        )
        if target is not None:
            return ExtractedValue(request.copy(*target.span("p")), *target.span("p"))
    for span in spans:
        start = request.origin.index(span.start)
        return ExtractedValue(span.text, start, start + span.end - span.start)
    for cue in _FILE_CUES:
        match = cue.search(request.masked)
        if match is None:
            continue
        text = request.copy(*match.span("p"))
        if text.lower() not in NO_NAMES and text.lower() not in HERE and not re.search(r"\s", text):
            return ExtractedValue(text, *match.span("p"))
    for span in request.of("quoted"):
        if looks_like_path(span.text):
            start = request.origin.index(span.start)
            return ExtractedValue(span.text, start, start + span.end - span.start)
    return None


def looks_like_path(text: str) -> bool:
    """Whether quoted text is a path: it ends like a file or has a slash inside."""
    ending = re.fullmatch(r"[\w ./~-]*[\w~/]\.([A-Za-z]\w{0,9})", text)
    if ending is not None and ending[1].lower() in EXTENSIONS:
        return True
    return re.fullmatch(r"[\w.~-]*/[\w./-]+", text) is not None


_CONTENTS: Final = tuple(
    re.compile(pattern, FLAGS)
    for pattern in (
        rf"\b(?:write|save|put|store|add|record|note|append)\s+(?:down\s+)?(?:this|that|it|the following)(?:\s+(?:text|line|note))?\s+(?:to|into|in|as)\s+(?:the\s+)?(?:file\s+)?{FILE}\s*[:：]\s*(?P<p>.+?)$",
        r"(?:with|containing|contains?|including|holding|whose|having)\s+(?:just\s+|only\s+)?(?:the\s+|a\s+|an\s+|its\s+|this\s+|following\s+|single\s+)*(?:text|contents?|line|lines|body|message|words?|string|sentence|phrase|number|value|data|code|json|snippet|note)"
        r"\s*(?:should be|is|are|set to|of|that says|saying|:|：)?\s*[:：]?\s*(?P<p>.+?)$",
        r"\b(?:that|which|and it should|it should|should)\s+(?:just\s+|only\s+)?(?:says?|reads?|contains?|states?|holds?|include)\s*[:：]?\s*(?P<p>.+?)$",
        r"\b(?:saying|reading|containing|stating)\s*[:：]?\s*(?P<p>.+?)$",
        r"\b(?:contents?|text|body)\s*(?:should be|is|=|:|：)\s*[:：]?\s*(?P<p>.+?)$",
        rf"(?:write|put|save|store|add|echo|insert|record|append|note|jot down|dump|place|enter)\s+(?:down\s+)?(?:(?:the|this|a|an)\s+)?(?:(?:following\s+)?(?:text|line|word|words|number|string|sentence|phrase|message|content|value|note|code)\s+)?[:：]?\s*(?P<p>.+?)"
        rf"\s+(?:to|into|in|as|inside|at)\s+(?:the\s+|a\s+|my\s+)?(?:new\s+)?(?:text\s+)?(?:file\s+)?(?:called\s+|named\s+)?{FILE}",
        rf"\b(?:in|into|to|inside)\s+(?:the\s+)?(?:file\s+)?{FILE}\s*,?\s*(?:write|put|save|store|add|insert|record|note|enter)\s*(?:down\s+)?(?:the\s+)?(?:(?:text|line|word|words|number|string)\s+)?[:：]?\s*(?P<p>.+?)$",
        rf"{FILE}\s+with\s*[:：]?\s+(?P<p>.+?)(?:\s+(?:in|inside)(?:\s+(?:it|there))?)?$",
        rf"{FILE}\s*[:：]\s*(?P<p>.+?)$",
        rf"(?:把|将)\s*(?P<p>.+?)\s*(?:这(?:句|行|段)话?|几个字)?\s*(?:写入|写到|写进|写在|保存到|保存为|保存进|存到|存入|存进|存为|放到|放进|放入|添加到|加到|记到|记在|输入到)\s*(?:文件)?\s*{PATH}",
        rf"(?:写入|保存|写|存|添加|记录)\s*(?:一行|文本|内容|文字)?\s*[:：]?\s*(?P<p>.+?)\s*(?:到|至|进|入|在)\s*(?:文件)?\s*{PATH}",
        rf"(?:在|向|往|到|给)\s*(?:文件)?\s*{PATH}\s*(?:文件)?\s*(?:里面|里|中|内)?\s*(?:写入|写上|写下|写|添加|加入|保存|存入|放入|记下)\s*(?:一行|文本|内容|文字)?\s*[:：]?\s*(?P<p>.+?)[。！\s]*$",
        r"(?:内容|文本|文字|里面)(?:是|为|写着|写上|写)?\s*[:：]?\s*(?P<p>.+?)[。！\s]*$",
        r"(?:写着|写上|包含|含有)\s*[:：]?\s*(?P<p>.+?)[。！\s]*$",
    )
)
_EMPTY: Final = re.compile(r"\b(?:empty|blank)\b|\btouch\b|空(?:的|白)?(?:文本)?文件", re.IGNORECASE)


def content_of(request: ParsedRequest) -> ExtractedValue | None:
    """What is to be written."""
    start, end = body_of(request.masked)
    target = file_of(request, writing=True)
    quoted = [span for span in request.of("quoted") if target is None or span.text != target.value]
    quoted = [span for span in quoted if not _inside_code(request.text, span.start, span.end)]
    if quoted:
        longest = max(quoted, key=lambda span: len(span.text))
        first = request.origin.index(longest.start)
        return ExtractedValue(longest.text, first, first + longest.end - longest.start)
    # A closing mark belongs to the content: "with the text Hello, world!".
    whole = len(request.masked.rstrip())
    body = request.masked[: whole if not request.masked[end:whole].strip(" ?.!。！？") else end]
    for pattern in _CONTENTS:
        match = pattern.search(body, start)
        if match is None or not match["p"].strip():
            continue
        first, last = match.span("p")
        inside = re.search(
            r"\s+(?:in|inside)\s+(?:it|there)[.!]?$|\s+(?:里面|在里面)$", match["p"], re.IGNORECASE
        )
        if inside is not None:
            last = first + inside.start()
        text = request.copy(first, last).strip()
        if re.fullmatch(r"[^\s.]+\.", text):
            text, last = text[:-1], last - 1
        if text and re.fullmatch(PATH, request.masked[first:last]) is None:
            return ExtractedValue(text, first, last)
    return ExtractedValue("") if _EMPTY.search(request.masked) else None


def _inside_code(text: str, start: int, end: int) -> bool:
    """Whether quotes are part of a longer piece: print('hi'), {"a": 1}."""
    return re.match(r"[^\s,.;:!?。，；：！？\u3400-\u9fff]", text[end : end + 1]) is not None or (
        re.search(r"[(\[{=:]$", text[:start]) is not None
        or re.match(r"\s*:\s*[^\s].*[}\]]", text[end:]) is not None
    )


_EDITS: Final = tuple(
    re.compile(pattern, FLAGS)
    for pattern in (
        rf"\b(?:replace|change|swap|substitute|rename|update|edit|turn|alter|modify|correct|fix)\s+(?:(?:the|all|every|each|any)\s+)*(?:(?:text|string|word|line|value|occurrences?|instances?|name|variable|function)\s+(?:of\s+)?)*(?P<old>.+?)\s+(?:with|to|by|into|for|=>|->|→)\s+(?:the\s+(?:text|string|word|line)\s+)?(?P<new>.+?)(?:\s+{IN}\s+{SCOPE})?[\s.!]*$",
        rf"\b(?:replace|change|swap|substitute|rename|update|edit|turn)\s+(?P<old>{QUOTE}|[\ue006]+|\S+)\s+in\s+(?:the\s+)?(?:file\s+)?{FILE}\s+(?:with|to|by|into|for)\s+(?P<new>.+?)[\s.!]*$",
        rf"(?:把|将)\s*{FILE}\s*(?:文件)?\s*(?:里面|里|中|内)?\s*(?:的)?\s*(?P<old>.+?)\s*(?:改成|改为|替换成|替换为|换成|换为|变成)\s*(?P<new>.+?)[。！\s]*$",
        rf"(?:在|把|将)?\s*{FILE}?\s*(?:里面|里|中)?[，,]?\s*(?:把|将|用)\s*(?P<old>.+?)\s*(?:改成|改为|替换成|替换为|换成|换为|变成)\s*(?P<new>.+?)[。！\s]*$",
    )
)


def edit_of(request: ParsedRequest) -> tuple[ExtractedValue, ExtractedValue] | None:
    """The text that an edit replaces, and what it puts in its place."""
    start, end = body_of(request.masked)
    body = request.masked[:end]
    target = file_of(request)
    quoted = [span for span in request.of("quoted") if target is None or span.text != target.value]
    if len(quoted) >= 2:
        return ExtractedValue(quoted[0].text), ExtractedValue(quoted[1].text)
    for pattern in _EDITS:
        # The narrower forms come later; a file inside `old` means that an earlier one took too much.
        match = pattern.search(body, start)
        if match is not None and re.search(FILE, match["old"]) is None:
            old, new = (request.copy(*match.span(group)).strip() for group in ("old", "new"))
            if old and new:
                return ExtractedValue(old), ExtractedValue(new)
    return None


_KINDS: Final = {
    "python": "py", "javascript": "js", "typescript": "ts", "markdown": "md", "rust": "rs", "java": "java", "yaml": "yaml", "json": "json",
    "text": "txt", "html": "html", "css": "css", "shell": "sh", "ruby": "rb", "csv": "csv", "toml": "toml", "log": "log", "pdf": "pdf",
    "image": "png", "sql": "sql", "xml": "xml", "go": "go", "c": "c",
}  # fmt: skip
_ENDING: Final = re.compile(
    r"(?:ending (?:in|with)|extension|后缀(?:为|是)?)\s*[`'\"]?\.?(\w{1,8})", re.IGNORECASE
)
_KIND_FILES: Final = re.compile(rf"\b({'|'.join(_KINDS)})\s*(?:files?|文件|scripts?)", re.IGNORECASE)
_NAMED: Final = re.compile(
    rf"\b(?:files?|named|called)\s+(?:called\s+|named\s+)?({FILE})|\bwhere\s+is\s+(?:the\s+file\s+)?({FILE})",
    re.IGNORECASE,
)


def glob_of(request: ParsedRequest) -> ExtractedValue | None:
    """Which file names are looked for, as a glob pattern."""
    for span in request.of("glob"):
        return ExtractedValue(span.text if "/" in span.text else f"**/{span.text}")
    for span in request.of("quoted"):
        if "*" in span.text:
            return ExtractedValue(span.text)
    ending = _ENDING.search(request.masked)
    if ending is not None:
        return ExtractedValue(f"**/*.{request.copy(*ending.span(1))}")
    kind = _KIND_FILES.search(request.masked)
    if kind is not None:
        return ExtractedValue(f"**/*.{_KINDS[kind[1].lower()]}")
    named = _NAMED.search(request.masked)
    if named is not None:
        group = 1 if named[1] is not None else 2
        return ExtractedValue(f"**/{request.copy(*named.span(group))}")
    return None


_DOMAIN: Final = re.compile(
    r"(?<![\w@./])(?:www\.)?(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|edu|gov|app|ai|co|uk|de|fr|cn|jp|example|test|local)(?:/[^\s\"'<>，。]*)?(?![\w])",
    re.IGNORECASE,
)


def url_of(request: ParsedRequest) -> ExtractedValue | None:
    """Which URL is meant; a bare host name gets `https://`."""
    for span in request.of("url"):
        start = request.origin.index(span.start)
        return ExtractedValue(span.text, start, start + span.end - span.start)
    domain = _DOMAIN.search(request.text)
    return None if domain is None else ExtractedValue("https://" + domain[0].rstrip(".,;:!?"))
