"""Frames of the long connection of Feishu, in the wire format of Protocol Buffers
(https://protobuf.dev/programming-guides/encoding/): message `pbbp2.Frame` of Feishu's own clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pegboard.ports.channel import Disconnected

CONTROL = 0
DATA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame.

    Attributes:
        sequence, log: numbers that an answer repeats.
        service: of the connection, as its URL has it.
        method: CONTROL for pings, DATA for events.
        headers: `type`, `message_id`, and `sum` and `seq` for one of several parts.
        payload: JSON.
        rest: the fields payload_encoding, payload_type and LogIDNew by their numbers, which an answer repeats.
    """

    sequence: int = 0
    log: int = 0
    service: int = 0
    method: int = DATA
    headers: dict[str, str] = field(default_factory=dict[str, str])
    payload: bytes = b""
    rest: dict[int, bytes] = field(default_factory=dict[int, bytes])


def encode(frame: Frame) -> bytes:
    """A frame as bytes."""
    numbers = (frame.sequence, frame.log, frame.service, frame.method)
    out = b"".join(_varint(n << 3) + _varint(value) for n, value in enumerate(numbers, 1))
    for key, value in frame.headers.items():
        out += _bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode()))
    texts = frame.rest | ({8: frame.payload} if frame.payload else {})
    return out + b"".join(_bytes(n, text) for n, text in sorted(texts.items()))


def decode(data: bytes) -> Frame:
    """Bytes as a frame.

    Raises:
        Disconnected: they are none.
    """
    try:
        numbers: dict[int, int] = {}
        texts: dict[int, bytes] = {}
        headers: dict[str, str] = {}
        for number, value in _fields(data):
            if isinstance(value, int):
                numbers[number] = value
            elif number == 5:
                pair = dict(_fields(value))
                headers[_text(pair.get(1))] = _text(pair.get(2))
            else:
                texts[number] = value
    except (IndexError, ValueError):
        raise Disconnected(
            f"Feishu sent {len(data)} bytes that are not a frame of its long connection"
        ) from None
    return Frame(
        sequence=numbers.get(1, 0), log=numbers.get(2, 0), service=numbers.get(3, 0), method=numbers.get(4, 0),
        headers=headers, payload=texts.pop(8, b""), rest=texts,
    )  # fmt: skip


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        match tag & 7:
            case 0:
                yield tag >> 3, value
            case 2 if at + value <= len(data):
                yield tag >> 3, data[at : at + value]
                at += value
            case kind:
                raise ValueError(kind)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, text: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(text)) + text


def _text(value: int | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
