"""Lexical ranking: which of some short texts fit a query best, in any language.

Used where a tool is looked for by words (tool search, the keyword router). Pure:
no data files, no state; the same input gives the same order on every machine.
"""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

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
