"""Text that streams is shown word by word, and no secret in it at any time."""

from __future__ import annotations

import pytest

from pegboard.core.secrets.redact import Redactor
from pegboard.gateway.pieces import PieceRedactor

SECRET = "sk-proj-4f9A8s7d6F5g4H3j2K1l0Z9x8C7v6B5n4M3q"
TEXT = f"The key is {SECRET} and the\npassword is {SECRET}\nThat is all."


@pytest.mark.parametrize("size", [1, 3, 7, 40, 1000])
def test_a_secret_in_pieces_of_any_size_is_not_shown(size: int) -> None:
    redactor = Redactor({"NAME": SECRET})
    pieces = PieceRedactor(redactor.redact)

    shown = [pieces.feed(TEXT[at : at + size]) for at in range(0, len(TEXT), size)]
    whole = "".join(shown) + pieces.rest(TEXT)

    assert SECRET[:20] not in whole
    assert (
        whole.replace(redactor.redact(SECRET)[0], "X") == "The key is X and the\npassword is X\nThat is all."
    )


def test_words_are_shown_when_they_are_whole() -> None:
    pieces = PieceRedactor(Redactor({}).redact)

    assert [pieces.feed(p) for p in ("It ", "sa", "ys one", ".\nNe", "xt")] == [
        "It ",
        "",
        "says ",
        "one.\n",
        "",
    ]
    assert pieces.rest("It says one.\nNext.") == "Next."
