"""Ring: head and tail kept, memory bounded."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from pegboard.process.output import HeadTailBuffer

_CHUNKS = st.lists(st.binary(max_size=40), max_size=40)


@given(_CHUNKS, st.integers(min_value=2, max_value=60))
def test_a_ring_keeps_exactly_the_first_and_last_bytes(chunks: list[bytes], limit: int) -> None:
    ring = HeadTailBuffer(limit)

    for chunk in chunks:
        ring.feed(chunk)

    whole = b"".join(chunks)
    head, tail = ring.parts()
    assert ring.total == len(whole)
    assert ring.dropped == max(0, len(whole) - limit)
    if len(whole) <= limit:
        assert head + tail == whole
    else:
        assert head == whole[: (limit + 1) // 2]
        assert tail == whole[len(whole) - limit // 2 :]


@given(_CHUNKS, st.integers(min_value=2, max_value=60), st.data())
def test_reading_from_a_position_gives_what_is_kept_of_the_rest(
    chunks: list[bytes], limit: int, data: st.DataObject
) -> None:
    ring = HeadTailBuffer(limit)
    for chunk in chunks:
        ring.feed(chunk)
    whole = b"".join(chunks)
    offset = data.draw(st.integers(min_value=0, max_value=len(whole)))

    text, lost = ring.since(offset)

    assert len(text) + lost == len(whole) - offset
    assert whole.endswith(text) or lost > 0
    if lost == 0:
        assert text == whole[offset:]


def test_many_small_chunks_do_not_cost_an_object_each() -> None:
    ring = HeadTailBuffer(100_000)

    for number in range(60_000):
        ring.feed(b"%d" % (number % 10))

    assert ring.total == 60_000
    assert len(ring._tail) < 100


def test_a_spill_gets_every_byte_up_to_its_limit() -> None:
    spill = io.BytesIO()
    ring = HeadTailBuffer(4, spill=spill, spill_limit=7)

    ring.feed(b"abcde")
    ring.feed(b"fghij")

    assert spill.getvalue() == b"abcdefg"
    assert ring.parts() == (b"ab", b"ij")
