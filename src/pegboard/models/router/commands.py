"""The command that a request names."""

from __future__ import annotations

import re
from typing import Final

from pegboard.models.router.arguments import FLAGS, ExtractedValue
from pegboard.models.router.paths import QUOTE, body_of
from pegboard.models.router.request import ParsedRequest
from pegboard.models.router.vocabulary import NO_NAMES, PROGRAMS, PROSE_PROGRAMS

_COMMAND_CUES: Final = tuple(
    re.compile(pattern, FLAGS)
    for pattern in (
        r"\b(?:run|execute|exec|start|launch|invoke|running|executing|kick off|fire up|spin up|trigger)\s*[:：]?\s+(?:(?:the|this|a|following|shell|bash|terminal|command|cmd|program|script|line)\s+)*[:：]?\s*(?P<p>.+?)$",
        r"\b(?:use|using|with|via|by|through|do|try|type|perform|call|issue|output of|result of)\s+(?:(?:the|a|an)\s+)?(?:command\s+)?[:：]?\s*(?P<p>.+?)$",
        r"\bwhat\s+(?:does|do|would|will)\s+(?P<p>.+?)\s+(?:print|output|say|show|return|give|produce|display|report)s?$",
        r"^\s*(?:please\s+)?(?:check|show|see|view|display|give|get|what(?:'s|\s+is)|tell|look\s+at)\s+(?:me\s+)?(?:the\s+|our\s+|my\s+)?(?:current\s+)?(?P<p>git\s+(?:status|log|diff|stash\s+list)\b.*?)$",
        r"\bcommand\s*[:：]\s*(?P<p>.+?)$",
        r"\$\s+(?P<p>.+?)$",
        r"(?:运行|执行|跑一下|跑|启动|使用|用|调用)\s*(?:一下)?\s*(?:命令|指令|脚本|程序)?\s*[:：]?\s*(?P<p>[ -~\ue000-\ue006]+)",
    )
)


_COMMAND_TAIL: Final = re.compile(
    r"(?:[,;]?\s+(?:and|then)\s+(?:then\s+)?(?:tell|show|report|give|let|print|say|see|explain|summari[sz]e|return|describe|paste|what|how|which|whether|check|make sure|send|share|list|display)\b"
    r"|\s+to\s+(?:see|check|find|get|install|list|show|know|tell|verify|tell|say|give|build|test|make|update|look|print|compile|start|learn|determine|count|figure|display|inspect)\b"
    r"|\s+(?:for me|please|so that|so i|because|in order to|in (?:the|a|my) (?:terminal|shell|console|command line|sandbox|project|repo|repository|workspace|background)|in (?:terminal|bash|shell))\b"
    r"|[;,]\s+(?:please|and|then|thanks|what|how|which|tell)\b|\s+[?]|[?!]\s+\w|\.\s+[A-Z]).*$",
    re.IGNORECASE | re.DOTALL,
)


_ORDERED: Final = re.compile(
    r"(?:^|[.?!;,:]\s+|\b(?:and|then|please)\s+)(?:use|run|try|call|type|execute)\s+(?:(?:the\s+)?command\s+)?$",
    re.IGNORECASE,
)
"""What stands before a program's name where a clause orders it: `What time is it? Use date`."""

_SCRIPT_RUNNERS: Final = {".py": "python3", ".sh": "bash", ".js": "node", ".rb": "ruby", ".pl": "perl"}


def command_of(request: ParsedRequest) -> ExtractedValue | None:
    """Which shell command is to be run."""
    start, end = body_of(request.masked)
    body = request.masked[:end]
    bare = _command_at(request, start, end, need_program=True)
    if bare is not None:
        return bare
    weak: ExtractedValue | None = None
    for number, cue in enumerate(_COMMAND_CUES):
        for match in cue.finditer(body, start):
            literal = re.match(rf"(?:the\s+)?({QUOTE})", match["p"])
            if literal is not None:
                first = match.start("p") + literal.start(1)
                last = match.start("p") + literal.end(1)
                return ExtractedValue(request.copy(first, last), first, last)
            found = _command_at(request, match.start("p"), match.end("p"), need_program=number in (1, 2))
            if found is None:
                continue
            program = found.value.split()[0]
            if program in PROGRAMS or "/" in program or "." in program:
                return found
            # "start the server with npm start": an unknown word counts only where nothing better comes.
            if weak is None and not re.search(
                r"\s(?:the|a|my|our)\s+$", body[: match.start("p")], re.IGNORECASE
            ):
                weak = found
    if weak is not None:
        return weak
    for span in request.of("quoted"):
        program = span.text.split()[0] if span.text.split() else ""
        if program in PROGRAMS or program.startswith("./"):
            first = request.origin.index(span.start)
            return ExtractedValue(span.text, first, first + span.end - span.start)
    return None


def _command_at(request: ParsedRequest, start: int, end: int, *, need_program: bool) -> ExtractedValue | None:
    tail = _COMMAND_TAIL.search(request.masked, start, end)
    if tail is not None:
        end = tail.start()
    text = request.copy(start, end).strip().rstrip("。，,")
    first = text.split()[0] if text.split() else ""
    if need_program:
        known = (
            first in PROGRAMS
            and (
                first not in PROSE_PROGRAMS
                or re.match("\\S+\\s+[-\ue000-\ue006]", request.masked[start:end].strip()) is not None
                or (start > 0 and first == "make")
                # A word of English alone is a program where a clause orders it and says no more.
                or (text.rstrip(".!?") == first and _ORDERED.search(request.masked[:start]) is not None)
            )
        )
        if not known and not first.startswith("./"):
            return None
        if re.search(r"\b(?:the|a|an|my|is|are|for|all|please|does)\b", text) and not re.search(
            r"[\"'`]", text
        ):
            return None
    elif not first or first.lower() in NO_NAMES or not re.match(r"[\w./~$-]", first, re.ASCII):
        return None
    if re.fullmatch(r"[\w/-]+\.\w+(?:\s.*)?", text) and first not in PROGRAMS:
        runner = _SCRIPT_RUNNERS.get(first[first.rfind(".") :])
        if runner is not None:
            return ExtractedValue(f"{runner} {text}", start, end)
    return ExtractedValue(text, start, end)
