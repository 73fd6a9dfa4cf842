"""URLs before anything connects: the whole corpus, and what it stands for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.net.addresses import classify
from pegboard.web.guard import judge_url, resolve_here
from tests.ledger import SHARED

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (SHARED / "security" / "ssrf.jsonl").read_text(encoding="utf-8").splitlines()
]
MAX_REDIRECTS = 5


def follow(row: dict[str, Any]) -> str:
    """What a client does that judges every hop: `allow` or `block`."""
    answers = {name: list(turns) for name, turns in row.get("dns", {}).items()}

    def resolve(host: str) -> Sequence[str]:
        turns = answers.get(host, [["93.184.215.14"]])
        return turns.pop(0) if len(turns) > 1 else turns[0]

    hops = [row["input"], *row.get("redirects", [])]
    if len(hops) > MAX_REDIRECTS + 1:
        return "block"
    for url in hops:
        verdict = judge_url(url, resolve)
        if not verdict.allowed:
            return "block"
        for wanted in row.get("must_connect", []):
            assert wanted in verdict.addresses
    return "allow"


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_the_corpus(row: dict[str, Any]) -> None:
    assert follow(row) in (row["expect"], row.get("tolerate"))


@pytest.mark.parametrize(
    "url",
    ["http://exa mple.com/", "http://a\\@b/", "//a.example/", "http://", "http:///x", "http://a.example:0/",
     "http://a.example:99999/", "http://a.example:8o/", "http://[::1", "http://[::1]x/", "http://[fe80::1%25lo]/",
     "http://a..example/", "http://a%2eexample/", "http://user@a.example/", "http://0x7f.1/", "http://0177.0.0.1/",
     "http://127.1/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://0x/", "http://printer/",
     "http://a.lan/", "http://a.home.arpa/", f"http://{'a' * 64}.example/", "http://xn--\ud800.example/"],
)  # fmt: skip
def test_what_programs_read_differently_is_refused(url: str) -> None:
    verdict = judge_url(url, lambda _: ["93.184.215.14"])

    assert not verdict.allowed
    assert verdict.reason


def test_the_verdict_says_what_to_connect_to() -> None:
    verdict = judge_url("HTTPS://ExAmPlE.COM.:8443/a?b#c", lambda host: ["93.184.215.14"])

    assert verdict.allowed
    assert (verdict.scheme, verdict.host, verdict.port) == ("https", "example.com", 8443)
    assert verdict.addresses == ("93.184.215.14",)
    assert verdict.target == "/a?b"


def test_other_spellings_of_a_name_are_the_name() -> None:
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14"]

    judge_url("http://ｅｘａｍｐｌｅ。com/", resolve)
    judge_url("http://bücher.example/?q", resolve)

    assert asked == ["example.com", "xn--bcher-kva.example"]


def test_the_owner_may_open_a_private_host_and_no_other() -> None:
    allow = ["127.0.0.1:8000", "wiki.internal"]

    assert judge_url("http://127.0.0.1:8000/", allow=allow).allowed
    assert not judge_url("http://127.0.0.1:8001/", allow=allow).allowed
    assert judge_url("http://wiki.internal/", lambda _: ["10.0.0.1"], allow=allow).allowed


def test_names_that_do_not_resolve_are_refused() -> None:
    def nowhere(host: str) -> Sequence[str]:
        raise OSError("no such name")

    assert "no address" in judge_url("http://a.example/", nowhere).reason
    assert "no address" in judge_url("http://a.example/", lambda _: []).reason
    assert "not an address" in judge_url("http://a.example/", lambda _: ["x"]).reason
    assert set(resolve_here("localhost")) <= {"127.0.0.1", "::1"}


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_every_spelling_of_an_ipv4_address_is_judged_like_its_dotted_form(value: int) -> None:
    parts = value.to_bytes(4, "big")
    dotted = ".".join(map(str, parts))
    public = classify(dotted) is None

    for text in (dotted, str(value), hex(value), f"0{value:o}", f"{parts[0]}.{value & 0xFFFFFF}",
                 ".".join(f"0x{p:x}" for p in parts)):  # fmt: skip
        assert judge_url(f"http://{text}/").allowed is public, text
