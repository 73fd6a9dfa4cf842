"""A piece of a text shows no part of a secret, wherever it is cut."""

from __future__ import annotations

import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import PURE, Executor, tool
from pegboard.core.schema.problems import format_json
from pegboard.core.schema.signature import Signature
from pegboard.core.secrets.clip import clip
from pegboard.core.secrets.redact import MARK, Redactor

PASSWORD = "Qx7vR2mKp9"
TEXTS = (
    f"could not reach https://maria:{PASSWORD}@host.example/path and gave up after three tries",
    f"Authorization: Bearer {PASSWORD}{PASSWORD}{PASSWORD} was sent to the server and it said no",
    f"export API_KEY={PASSWORD}{PASSWORD} before you start the program, else it will not work at all",
)


def parts_of(secret: str, size: int = 5) -> set[str]:
    return {secret[i : i + size] for i in range(len(secret) - size + 1)}


@pytest.mark.parametrize("text", TEXTS)
def test_no_cut_shows_a_part_of_a_secret(text: str) -> None:
    secret = parts_of(PASSWORD)
    for start in range(len(text)):
        for end in (start + 12, start + 40, len(text)):
            piece, _ = Redactor().redact(clip(text, start, end))
            assert not any(part in piece for part in secret), (start, end, piece)


@given(st.text(), st.integers(-50, 50), st.integers(-50, 50) | st.none())
def test_a_text_without_secrets_is_cut_as_a_slice(text: str, start: int, end: int | None) -> None:
    whole, found = Redactor().redact(text)

    if not found:
        assert clip(text, start, end) == text[slice(start, end)]
    assert MARK.sub("", clip(whole, 0, 0)) == ""


def test_a_secret_far_from_the_edges_is_left_to_whoever_redacts_the_piece() -> None:
    text = "a" * 5000 + f" https://m:{PASSWORD}@h " + "b" * 5000

    assert clip(text, 10, len(text) - 10) == text[10:-10]


def test_two_secrets_at_one_edge_have_a_mark_each() -> None:
    text = f"https://a:{PASSWORD}1@h https://b:{PASSWORD}2@h"

    assert len(MARK.findall(clip(text, 12))) == 2


@pytest.mark.parametrize("before", range(0, 60, 3))
def test_what_is_quoted_of_bad_arguments_shows_no_part_of_a_password(before: int) -> None:
    def take(n: int, path: str = "") -> None: ...

    signature = Signature.of(take)
    address = f"https://maria:{PASSWORD}@host.example/"
    told = [
        format_json("x" * before + address + "y" * 200),
        format_json({"a": "x" * before + address}),
        *signature.errors(json.dumps({"n": "x" * before + address})),
        *signature.errors('{"n": "' + "x" * before + address),
        *signature.errors('{"n": 1, "path": "' + address + "x" * before + '" \\q }'),
        *signature.errors(json.dumps({address + "x" * (180 - before): 1})),
    ]

    redactor = Redactor()
    for text in told:
        assert not any(part in redactor.redact(text)[0] for part in parts_of(PASSWORD)), text


KNOWN = "plumviolin77stairs"


@pytest.mark.parametrize("spelled", [KNOWN, KNOWN[::-1], KNOWN.encode().hex()])
def test_a_known_value_is_recognised_where_a_cut_goes_through_it(spelled: str) -> None:
    redactor = Redactor({"PASSPHRASE": KNOWN})
    text = f"it said that {spelled} would not open the door"

    for start in range(len(text)):
        for end in (start + 8, start + 20, len(text)):
            piece, _ = redactor.redact(clip(text, start, end))
            assert not any(part in piece for part in parts_of(spelled)), (start, end, piece)
    del redactor
    gc.collect()
    assert clip(text, 0, 20) == text[:20]


def test_a_value_that_is_learned_later_is_known_to_every_cut() -> None:
    redactor = Redactor()
    redactor.learn({"PASSPHRASE": KNOWN})

    assert KNOWN[:5] not in clip(f"say {KNOWN}", 0, 12)


async def test_the_first_error_of_an_executor_shows_no_part_of_a_secret_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOOR_PASSWORD", KNOWN)

    @tool(effects=PURE)
    def enter(word: str) -> str:
        """Enter."""
        return word

    for before in range(30):
        async with Executor([enter]) as door:
            result = await door.call("enter", '{"word": "' + "x" * before + KNOWN + '" "more"}')
        assert not result.ok
        assert not any(part in str(result) for part in parts_of(KNOWN)), str(result)
