from __future__ import annotations

import pytest

from pegboard.models.retry import Retry, asked_wait_s


def test_waits_double_up_to_the_longest_and_end_with_the_attempts() -> None:
    retry = Retry(attempts=5, first_s=1, most_s=3)

    assert [retry.delay_s(n, None, 1.0) for n in range(1, 6)] == [1, 2, 3, 3, None]


def test_half_of_a_wait_is_spread() -> None:
    assert Retry().delay_s(1, None, 0.0) == 0.5


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        # RFC 9110 section 5.6.7: the date of its own example; epoch 784111777.
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 17),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_the_wish_of_a_server_is_read_from_its_headers(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert asked_wait_s(headers, now=784111760) == seconds


def test_a_date_that_has_passed_asks_for_no_wait() -> None:
    assert asked_wait_s({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, now=784111800) == 0
