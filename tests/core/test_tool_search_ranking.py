from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from pegboard.core.tool_search import rank, words


def test_identifiers_are_cut_into_their_words() -> None:
    assert words("read_file readFile HTTPServer") == ["read", "fil", "read", "fil", "http", "server"]


@pytest.mark.parametrize(
    "forms",
    ["file files", "search searching searched searches", "directory directories", "match matches matching",
     "cache caches cached caching", "class classes", "run running runs", "write writes writing", "copy copies",
     "save saved saving saves", "status", "grep grepped"],
)  # fmt: skip
def test_english_forms_of_one_word_are_one_word(forms: str) -> None:
    assert len(set(words(forms))) == 1


def test_unspaced_scripts_become_pairs_and_a_lone_sign_stays() -> None:
    assert words("读取文件 a 找") == ["读取", "取文", "文件", "a", "找"]


def test_full_width_letters_are_the_same_words() -> None:
    assert words("ＲＥＡＤ　ｆｉｌｅ") == words("read file")


def test_the_score_is_okapi_bm25() -> None:
    # Two documents of one word each, one holder: ln(1 + 1.5/1.5) * 1 * 2.2 / (1 + 1.2).
    assert rank("cat", ["cat", "dog"]) == [(0, approx(math.log(2)))]


def test_a_word_repeated_in_the_query_counts_twice() -> None:
    (once,) = rank("cat", ["cat", "dog"])
    (twice,) = rank("cat cat", ["cat", "dog"])

    assert twice[1] == approx(2 * once[1])


def test_equal_scores_keep_the_documents_order_and_strangers_are_left_out() -> None:
    assert [i for i, _ in rank("cat", ["cat", "dog", "cat"])] == [0, 2]


def test_chinese_requests_find_chinese_descriptions() -> None:
    assert rank("请读取这个文件", ["列出目录", "读取文件内容", "搜索文本"])[0][0] == 1


def test_nothing_comes_of_nothing() -> None:
    assert rank("", ["a"]) == []
    assert rank("a", []) == []
    assert rank("a", ["", ""]) == []


@given(st.text(), st.lists(st.text(), max_size=6))
def test_scores_are_positive_finite_and_falling_for_any_text(query: str, documents: list[str]) -> None:
    found = rank(query, documents)

    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < math.inf for score in scores)
    assert len({i for i, _ in found}) == len(found)
