"""Which tool a request means: words ranked, then what can be filled from the request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pegboard.core.tool_search import rank
from pegboard.models.router.fill import ParameterKind, RoutableTool, fill, kind_by_name, properties
from pegboard.models.router.intent import intent
from pegboard.models.router.paths import folders
from pegboard.models.router.request import ParsedRequest
from pegboard.models.router.vocabulary import ACTIONS, VERBS


@dataclass(frozen=True, slots=True)
class CandidateCall:
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


def choices(request: ParsedRequest, tools: Iterable[RoutableTool]) -> list[CandidateCall]:
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
    out: list[CandidateCall] = []
    for index, (tool, known) in enumerate(zip(kit, profiles, strict=True)):
        profile = known
        arguments = fill(request, tool, profile)
        if arguments is None:
            continue
        if profile and not any(actions.get(name, 0.0) >= LEAST for name in profile):
            if profile[0] in _NEEDS:
                continue
            # No table knows requests of this kind: words alone decide.
            profile = ()
        if profile == ("list",) and not _asks_for_listing(request):
            continue
        agreement = sum(actions.get(name, 0.0) for name in profile)
        score = agreement + ranked.get(index, 0.0) / best + _evidence(request, tool, arguments)
        if not profile:
            # A tool of another kind: words alone, so more of them are wanted.
            score = 3 * ranked.get(index, 0.0) / best if _overlap(request, tool) >= 2 else 0.0
        out.append(CandidateCall(tool.name, arguments, score))
    return sorted(out, key=lambda choice: -choice.score)


_LISTED: Final = re.compile(
    r"\b(?:files?|folders?|director(?:y|ies)|dir|ls|entries|everything|here|subfolders?|subdirectories|contents?|listing|structure|tree|cwd|workspace)\b"
    r"|文件|目录|这里|有什么|有哪些|有啥",
    re.IGNORECASE,
)


def _asks_for_listing(request: ParsedRequest) -> bool:
    """Whether files are what is to be listed: three fruits are not."""
    return (
        bool(_LISTED.search(request.masked))
        or any(place.sure for place in folders(request))
        or bool(request.of("file"))
    )


def _cue(request: ParsedRequest) -> str:
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


def _hints(tool: RoutableTool) -> list[str]:
    hints: object = getattr(tool, "hints", ())
    return [hints] if isinstance(hints, str) else [str(hint) for hint in cast(Iterable[object], hints)]


def _profile(tool: RoutableTool) -> tuple[str, ...]:
    """The actions of a tool, from its name first, else from its description's first words, and
    its parameters' kinds."""
    kinds: set[ParameterKind] = {kind_by_name(name, spec) for name, spec in properties(tool).items()}
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


def _overlap(request: ParsedRequest, tool: RoutableTool) -> int:
    """How many different words of the request the tool's name, hints and description hold."""
    document = " ".join([tool.name, *_hints(tool), tool.description])
    return sum(1 for word in set(re.findall(r"\w{3,}", _cue(request).lower())) if rank(word, [document, ""]))


def _evidence(request: ParsedRequest, tool: RoutableTool, arguments: Mapping[str, Any]) -> float:
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
