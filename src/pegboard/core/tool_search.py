"""Deferral: a kit that advertises few tools and finds the others by words.

Beyond some thirty tools the schemas cost more than they help. `deferred(kit)` shows a model the tools that are
kept, `search_tools` and `call_tool`; the list never changes during a run, so prompt caches hold, and it works
with every provider. A `call_tool` is turned into the call that it means before anything else looks at it:
policy, approval, preview, journal and history see the real tool.
"""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Final, cast

from pegboard.core.content import ToolCall
from pegboard.core.effects import PURE
from pegboard.core.errors import Unsupported
from pegboard.core.schema.decode import read_object
from pegboard.core.schema.numerals import as_sent
from pegboard.core.schema.problems import Problem, raise_invalid
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, import_object

# Scripts that are written without spaces: their runs are cut into bigrams.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_RUNS: Final = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Okapi BM25 (Robertson and Zaragoza 2009, eq. 3.15). Tool texts are short and of
# like length, so length counts for less than the usual 0.75.
_K1: Final = 1.2
_B: Final = 0.4


def words(text: str) -> list[str]:
    """The text's index words, in order, repeated where they repeat.

    Identifiers are cut (`read_file`, `readFile` → read, file), English endings are
    folded (`files` → file), unspaced scripts give overlapping pairs (目录下 → 目录, 录下).
    """
    out: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text)):
        if re.match(f"[{_UNSPACED}]", run):
            out.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        else:
            out.extend(_fold(part.casefold()) for part in _CAMEL.split(run))
    return out


def rank(query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
    """The documents that share a word with the query, best first.

    A word that stands twice in the query counts twice.

    Args:
        query: words of the request.
        documents: the texts to rank; a word repeated in a text weighs more.

    Returns:
        `(index into documents, score)`, scores above 0 and falling; equal scores
        keep the documents' order.
    """
    counts = [Counter(words(document)) for document in documents]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(counts)
    for word, times in Counter(words(query)).items():
        holders = [i for i, count in enumerate(counts) if word in count]
        rarity = math.log(1 + (len(counts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for i in holders:
            frequency = counts[i][word]
            norm = _K1 * (1 - _B + _B * lengths[i] / mean)
            scores[i] += times * rarity * frequency * (_K1 + 1) / (frequency + norm)
    found = [(i, score) for i, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


_FIELD_B: Final = 0.6
_PAIR: Final = 0.5
_EMPTY: Final = (
    "a abl about actually after all also am an and another any appreciat are as at bas be becaus been "
    "befor being between both but by can could currently d did do doe doing don dur each either every "
    "finally find first follow for from furthermor get giv given go going got had has hav he hello help "
    "her hi his how i id if im in into is it its ive just kindly know least less let like ll m many may "
    "me might mor moreover most much my need next no not now of ok okay on onc one only or other our out "
    "own per pleas please possibl re really s sam second seem she should show sinc so som such sur t tak "
    "tell than thank that the their them then ther these they third this those to too took two until up "
    "us use used using ve very via wanna want was we were what when where which whil who whom whos will "
    "with within would yes you your "
)
_EMPTY_WORDS: Final = frozenset(_EMPTY.split())
"""English words that say nothing about a tool, and the tails of contractions, in the form that `words` gives them."""


class TextIndex:
    """Documents of several weighted fields, prepared once, so that a search costs only what it finds.

    Field-weighted BM25 (Robertson, Zaragoza and Taylor 2004): each field's length counts for itself. Pairs of
    neighbouring words count as words too, so that `board game` finds the board games before the boards.

    Args:
        documents: each a mapping of field name to text, in a stable order.
        weights: field name → weight; a field without one is left out.
        prose: fields whose neighbouring words are no terms: long texts about other things.
    """

    __slots__ = ("_count", "_postings")

    def __init__(
        self,
        documents: Iterable[Mapping[str, str]],
        weights: Mapping[str, float],
        *,
        prose: Collection[str] = (),
    ) -> None:
        paired = [name not in prose for name in weights]
        cut = [
            [(weight, words(document.get(name, ""))) for name, weight in weights.items()]
            for document in documents
        ]
        self._count = len(cut)
        means = [
            (sum(len(fields[f][1]) for fields in cut) / self._count if self._count else 0.0) or 1.0
            for f in range(len(weights))
        ]
        gathered: dict[str, tuple[array[int], array[float]]] = {}
        for index, fields in enumerate(cut):
            found: dict[str, float] = {}
            for mean, pairs, (weight, run) in zip(means, paired, fields, strict=True):
                share = weight / (1 - _FIELD_B + _FIELD_B * len(run) / mean)
                for word in run:
                    found[word] = found.get(word, 0.0) + share
                for pair in _pairs(run) if pairs else ():
                    found[pair] = found.get(pair, 0.0) + share * _PAIR
            for word, frequency in found.items():
                holders = gathered.get(word)
                if holders is None:
                    holders = gathered[word] = (array("l"), array("d"))
                holders[0].append(index)
                holders[1].append(frequency * (_K1 + 1) / (frequency + _K1))
        self._postings = gathered

    def __len__(self) -> int:
        return self._count

    def search(self, query: str, *, limit: int = 5) -> list[tuple[int, float]]:
        """The best documents: `(index, score)`, scores above 0 and falling; ties in the documents' order.

        Args:
            query: words of the request, in any language; a repeated word counts once.
            limit: how many at most.
        """
        run = words(query)
        wanted = dict.fromkeys(w for w in run if w not in _EMPTY_WORDS)
        # A query of nothing but empty words is still a query.
        wanted = {**(wanted or dict.fromkeys(run)), **dict.fromkeys(_pairs(run))}
        scores: dict[int, float] = {}
        for word in wanted:
            holders = self._postings.get(word)
            if holders is None:
                continue
            held = len(holders[0])
            rarity = math.log(1 + (self._count - held + 0.5) / (held + 0.5))
            for index, weight in zip(*holders, strict=True):
                scores[index] = scores.get(index, 0.0) + rarity * weight
        best = heapq.nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return [(index, score) for index, score in best]


def _pairs(run: Sequence[str]) -> list[str]:
    return [f"{a} {b}" for a, b in pairwise(run)]


def _fold(word: str) -> str:
    """Without the commonest English endings (write, writes, writing, written apart); a rough
    stem is enough, since both sides are cut the same way."""
    for ending, least in (("ing", 6), ("ies", 5), ("ed", 5), ("es", 5), ("s", 4)):
        if len(word) >= least and word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


BEYOND: Final = 30
"""Tools that a kit may have before schemas are deferred."""

WEIGHTS: Final[Mapping[str, float]] = {
    "name": 4.0,
    "hints": 2.0,
    "description": 1.0,
    "parameters": 2.0,
    "texts": 1.0,
    "values": 3.0,
}
"""Fields of a tool and their weights; measured by bench/tool_search.py."""

PROSE: Final = ("texts", "values")

SEARCH: Final = "search_tools"
CALL: Final = "call_tool"


def fields_of(tool: Any) -> dict[str, str]:
    """A tool as the index reads it; anything with name, description and schema will do."""
    names: list[str] = []
    texts: list[str] = []
    values: list[str] = []
    _walk(tool.schema, names, texts, values, 0)
    return {
        "name": tool.name,
        "hints": " ".join(getattr(tool, "hints", ())),
        "description": tool.description,
        "parameters": " ".join(names),
        "texts": " ".join(texts),
        "values": " ".join(values),
    }


def _walk(schema: Any, names: list[str], texts: list[str], values: list[str], depth: int) -> None:
    """Names, descriptions and enumerated values of every property, three levels deep."""
    if not isinstance(schema, Mapping) or depth > 3:
        return
    node = cast("Mapping[str, Any]", schema)
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        for name, sub in cast("Mapping[str, Any]", properties).items():
            names.append(name)
            if isinstance(sub, Mapping):
                inner = cast("Mapping[str, Any]", sub)
                texts.append(str(inner.get("description") or ""))
                enum = inner.get("enum")
                values += [str(v) for v in cast("list[Any]", enum)] if isinstance(enum, list) else []
                _walk(inner, names, texts, values, depth + 1)
    _walk(node.get("items"), names, texts, values, depth + 1)


class ToolIndex:
    """A kit's tools, found by words or by name; the index is built at the first search."""

    def __init__(self, kit: Iterable[Tool]) -> None:
        self._tools = [t for t in kit if t.name not in (SEARCH, CALL)]
        self._kit = Toolkit(self._tools)
        self._index: TextIndex | None = None

    def __len__(self) -> int:
        return len(self._tools)

    def search(self, query: str, *, limit: int = 5) -> list[Any]:
        """See ports.catalogue."""
        if self._index is None:
            self._index = TextIndex([fields_of(t) for t in self._tools], WEIGHTS, prose=PROSE)
        return [_found(self._tools[i], score) for i, score in self._index.search(query, limit=limit)]

    def select(self, names: Iterable[str]) -> list[Any]:
        """See ports.catalogue."""
        tools = [self._kit.resolve(name) for name in names]
        return [_found(t, 0.0) for t in dict.fromkeys(tools) if t is not None]

    def nearest(self, name: str) -> list[str]:
        """See ports.catalogue."""
        return self._kit.nearest(name)


def _found(tool: Tool, score: float) -> Any:
    made = import_object("pegboard.ports.tool_search:FoundTool")
    return made(name=tool.name, description=tool.description, parameters=tool.schema, score=round(score, 3))


async def _never(name: str, arguments: Any = None) -> str:
    raise Unsupported(
        "call_tool works only in a kit whose tools are deferred",
        hint=f"Call {name} directly.",
    )


def _call_tool() -> Tool:
    return Tool(
        _never,
        name=CALL,
        description=(
            "Call a tool that search_tools found. `name` is its name, `arguments` an object that fits its "
            "parameters. Tools in your own list are called directly."
        ),
        effects=PURE,
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the tool, as search_tools gave it."},
                "arguments": {"type": "object", "description": "Its arguments."},
            },
            "required": ["name"],
        },
    )


class SearchableToolkit(Toolkit):
    """A kit whose models see only some of it.

    Args:
        tools: all tools; every one may be called, also directly by name.
        keep: names or shell patterns of the tools that stay advertised.
    """

    __slots__ = ("_shown",)

    def __init__(self, tools: Iterable[Any], *, keep: Iterable[str] = ()) -> None:
        kit = Toolkit(tools)
        patterns = tuple(keep)
        extra = [
            *([] if SEARCH in kit else [import_object("pegboard.tools.search_tools:search_tools")]),
            *([] if CALL in kit else [_call_tool()]),
        ]
        super().__init__([*kit, *extra])
        self._shown = Toolkit(
            t for t in self if t.name in (SEARCH, CALL) or any(fnmatchcase(t.name, p) for p in patterns)
        )

    def advertised(self) -> Toolkit:
        """The kept tools, `search_tools` and `call_tool`."""
        return self._shown

    def unwrap_call(self, call: ToolCall) -> ToolCall:
        """The call inside a `call_tool`.

        Raises:
            InvalidArguments: it names no tool.
        """
        if call.name != CALL:
            return call
        given, _ = read_object(call.arguments, name=CALL)
        name = given.get("name")
        if not isinstance(name, str) or not name.strip():
            raise_invalid([Problem(".name", "is required but missing")], name=CALL)
        if name == CALL:
            raise_invalid([Problem(".name", "call_tool cannot call itself")], name=CALL)
        # Some models put the arguments beside the name and not below it.
        inner = (
            given["arguments"] if "arguments" in given else {k: v for k, v in given.items() if k != "name"}
        )
        return ToolCall(call.id, name, as_sent(cast("Any", inner)), call.raw)


def with_tool_search(toolkit: Toolkit, *, beyond: int = BEYOND, keep: Iterable[str] = ()) -> Toolkit:
    """The kit with its schemas deferred if it has more than `beyond` tools, else the kit itself.

    Args:
        kit: all tools.
        beyond: how many tools are shown whole.
        keep: names or patterns of tools that stay advertised; empty = the built-in ones among them.
    """
    if len(toolkit) <= beyond or isinstance(toolkit, SearchableToolkit):
        return toolkit
    kept = tuple(keep) or tuple(
        n for n in cast("Iterable[str]", import_object("pegboard.tools:DEFAULT")) if n in toolkit
    )
    return SearchableToolkit(toolkit, keep=kept)
