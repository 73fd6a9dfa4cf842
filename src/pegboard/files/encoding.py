"""Which encoding bytes are in: BOM, strict UTF-8, charset-normalizer, cp1252 (DESIGN 6)."""

from __future__ import annotations

import codecs
import re
from typing import Final

#: Longest first: the UTF-32-LE mark starts with the UTF-16-LE one.
_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_SAMPLE_BYTES: Final = 64 * 1024

#: Two-byte encodings with the rows of their everyday characters, the narrower before the wider:
#: Korean syllables and kana with kanji are also valid (but odd) simplified Chinese.
_EAST_ASIAN: Final = (
    ("cp949", re.compile(rb"[\xa1-\xa3\xb0-\xc8][\xa1-\xfe]")),
    ("euc_jp", re.compile(rb"[\xa1\xa4\xa5][\xa1-\xfe]|[\xb0-\xb7][\xa1-\xfe]")),
    ("gb18030", re.compile(rb"[\xa1\xa3\xb0-\xd7][\xa1-\xfe]")),
    ("cp932", re.compile(rb"\x81[\x40-\xac]|\x82[\x9f-\xf1]|\x83[\x40-\x96]|[\x88-\x97][\x40-\xfc]")),
    ("big5", re.compile(rb"[\xa1\xa4-\xc6][\x40-\x7e\xa1-\xfe]")),
)

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-elf"),
    (b"\xcf\xfa\xed\xfe", "application/x-mach-binary"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"MZ\x90\x00", "application/vnd.microsoft.portable-executable"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x00asm", "application/wasm"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


def bom_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark names, None where there is no mark."""
    if head[:1] not in (b"\xef", b"\xff", b"\xfe", b"\0"):
        return None
    return next((name for mark, name in _BOMS if head.startswith(mark)), None)


def bom_length(head: bytes) -> int:
    """How many bytes the byte order mark has, 0 where there is none."""
    return next((len(mark) for mark, _ in _BOMS if head.startswith(mark)), 0)


def sniff_type(head: bytes) -> str | None:
    """The media type that the first bytes give away, None where they say nothing."""
    if head.startswith(b"RIFF") and len(head) >= 12:
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "image/avif" if head[8:12] == b"avif" else "video/mp4"
    if head.startswith(b"BM") and len(head) >= 14 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def is_utf8(data: bytes, *, whole: bool = True) -> bool:
    """Whether `data` is strict UTF-8; with `whole=False` its end may lie inside a character."""
    if data.isascii():
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def detect(data: bytes, *, whole: bool = True) -> str:
    """The name of the encoding of some bytes (`utf-8` for plain ASCII).

    Args:
        whole: `data` is the whole file, so a cut character at its end is no UTF-8.

    UTF-16 and UTF-32 are told by their mark only. cp1252 that cannot be becomes latin-1, which
    always can.
    """
    marked = bom_encoding(data)
    if marked is not None:
        return marked
    if is_utf8(data, whole=whole):
        return "utf-8"
    return _guess(data)


def _guess(data: bytes) -> str:
    """The legacy encoding of bytes that are no UTF-8."""
    first = next(i for i, byte in enumerate(data) if byte >= 0x80)
    start = max(0, first - _SAMPLE_BYTES // 4)
    sample = data[start : start + _SAMPLE_BYTES]
    if _is_dense(sample):
        east = _east_asian(data, sample)
        if east is not None:
            return east
        found = _normalizer(sample)
        if found is not None and _decodes(data, found):
            return found
    return "cp1252" if _decodes(data, "cp1252") else "latin-1"


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

    best = from_bytes(sample, enable_fallback=False).best()
    return None if best is None else best.encoding


def _east_asian(data: bytes, sample: bytes) -> str | None:
    """The two-byte encoding whose common characters the text is made of, None where none fits."""
    scored = [
        (_share(sample, encoding, common), -rank, encoding)
        for rank, (encoding, common) in enumerate(_EAST_ASIAN)
        if _decodes(data, encoding)
    ]
    share, _, encoding = max(scored, default=(0.0, 0, ""))
    return encoding if share >= 0.8 else None


def _share(sample: bytes, encoding: str, common: re.Pattern[bytes]) -> float:
    """Share of the two-byte characters that lie in the encoding's common rows."""
    text = codecs.getincrementaldecoder(encoding)().decode(sample, final=False)
    wide = [char.encode(encoding) for char in text if char >= "\x80"]
    return sum(common.fullmatch(char) is not None for char in wide) / len(wide) if wide else 0.0


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, final=False)
    except (UnicodeDecodeError, LookupError):
        return False
    return True
