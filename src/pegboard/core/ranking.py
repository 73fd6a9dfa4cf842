"""Lexical ranking: which of some short texts fit a query best, in any language.

Used where a tool is looked for by words (tool search, the keyword router). Pure:
no data files, no state; the same input gives the same order on every machine.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
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
