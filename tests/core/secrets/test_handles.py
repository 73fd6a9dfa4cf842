"""Place holders of secrets: random, as long as the secret, found again in a command's text."""

from __future__ import annotations

import pytest

from pegboard.core.errors import Unavailable
from pegboard.core.secrets.handles import Placeholders


def test_a_place_holder_is_as_long_as_its_secret_and_says_nothing_of_it() -> None:
    made = Placeholders()
    assert made.find_in(["anything"]) == ()

    one = made.for_secret("key", "sécret-value", ("api.example.org",))

    assert len(one) == len("sécret-value".encode())
    assert made.for_secret("key", "sécret-value", ("api.example.org",)) == one
    assert made.for_secret("key", "another-value", ("api.example.org",)) != one
    (swap,) = made.find_in([f"x {made.for_secret('key', 'another-value', ('api.example.org',))} y"])
    assert (swap.name, swap.value) == ("key", "another-value")
    assert "another-value" not in repr(swap)


def test_a_secret_that_is_too_short_has_none() -> None:
    with pytest.raises(Unavailable, match="needs 8 or more"):
        Placeholders().for_secret("pin", "1234567", ("h",))
