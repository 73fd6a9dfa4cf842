"""Which legacy encoding bytes are in that are no UTF-8; the same answer for reading and for editing."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

#: The encodings that are considered. All are stateless, so that a piece of a file
#: decodes and encodes on its own; all keep ASCII, so that newlines are one byte.
LEGACY: Final[tuple[str, ...]] = (
    "gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1251", "koi8_r", "cp1252",
    "cp1250", "cp1253", "cp1255", "cp1256", "cp1254",
)  # fmt: skip

_SAMPLE_BYTES: Final = 64 * 1024

#: Two-byte encodings with the rows of their everyday characters, the narrower before the wider:
#: Korean syllables and kana with kanji are also valid (but odd) simplified Chinese.
_EAST_ASIAN: Final = (
    ("cp949", re.compile(rb"[\xa1-\xa3\xb0-\xc8][\xa1-\xfe]")),
    ("euc_jp", re.compile(rb"[\xa1\xa4\xa5\xb0-\xcf][\xa1-\xfe]")),
    ("gb18030", re.compile(rb"[\xa1\xa3\xb0-\xd7][\xa1-\xfe]")),
    ("cp932", re.compile(rb"\x81[\x40-\xac]|\x82[\x9f-\xf1]|\x83[\x40-\x96]|[\x88-\x97][\x40-\xfc]")),
    ("big5", re.compile(rb"[\xa1\xa4-\xc6][\x40-\x7e\xa1-\xfe]")),
)


def guess(data: bytes, *, whole: bool = True) -> str:
    """The likeliest codec of bytes that are no UTF-8, one that gives back these very bytes.

    cp1252 that cannot be becomes latin-1, which always can.

    Args:
        whole: `data` is a whole file; otherwise its end may lie inside a character.
    """
    fits = round_trips if whole else _decodes
    first = next(i for i, byte in enumerate(data) if byte >= 0x80)
    start = max(0, first - _SAMPLE_BYTES // 4)
    sample = data[start : start + _SAMPLE_BYTES]
    if _is_dense(sample):
        east = _east_asian(data, sample, fits)
        if east is not None:
            return east
        found = _normalizer(sample)
        if found is not None and fits(data, found):
            return found
    return "cp1252" if fits(data, "cp1252") else "latin-1"


def round_trips(data: bytes, codec: str) -> bool:
    """Whether the bytes decode in this codec, hold no undefined character and encode back to themselves."""
    try:
        return data.decode(codec).encode(codec) == data
    except (UnicodeDecodeError, UnicodeEncodeError):
        return False


def _is_dense(sample: bytes) -> bool:
    """Whether bytes over 0x7f stand beside one another, as in scripts that are not Latin.

    In Western text they are single accents and signs; guessing by statistics there names a
    sister page at random.
    """
    runs = re.findall(rb"[\x80-\xff]+", sample)
    together = sum(len(run) for run in runs if len(run) > 1)
    return together * 2 > sum(len(run) for run in runs)


def _normalizer(sample: bytes) -> str | None:
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=list(LEGACY), enable_fallback=False).best()
    return None if best is None else best.encoding


def _east_asian(data: bytes, sample: bytes, fits: Callable[[bytes, str], bool]) -> str | None:
    """The two-byte encoding whose common characters the text is made of, None where none fits."""
    scored = [
        (_share(sample, encoding, common), -rank, encoding)
        for rank, (encoding, common) in enumerate(_EAST_ASIAN)
        if _decodes(sample, encoding)
    ]
    likely = (encoding for share, _, encoding in sorted(scored, reverse=True) if share >= 0.8)
    return next((encoding for encoding in likely if fits(data, encoding)), None)


def _share(sample: bytes, encoding: str, common: re.Pattern[bytes]) -> float:
    """Share of the two-byte characters that lie in the encoding's common rows."""
    text = codecs.getincrementaldecoder(encoding)().decode(sample, final=False)
    wide = {char: times for char, times in Counter(text).items() if char >= "\x80"}
    if encoding == "euc_jp" and not _has_kana(wide):
        # Its kanji lie where simplified Chinese and Korean have their everyday characters.
        return 0.0
    usual = sum(times for char, times in wide.items() if common.fullmatch(char.encode(encoding)) is not None)
    return usual / sum(wide.values()) if wide else 0.0


def _has_kana(characters: dict[str, int]) -> bool:
    """Whether at least one character in eight is kana, as in any Japanese sentence."""
    kana = sum(times for char, times in characters.items() if "\u3041" <= char <= "\u30fe")
    return kana * 8 >= sum(characters.values())


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, final=False)
    except (UnicodeDecodeError, LookupError):
        return False
    return True
