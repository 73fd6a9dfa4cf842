"""Bytes to text, and back without touching a byte that nobody asked to change (DESIGN 6, decisions 16)."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import Unsupported

_PROBE: Final = 8192
_CHUNK: Final = 1 << 20
_SAMPLE: Final = 16384

#: Byte order marks, the longer before its own prefix.
_MARKS: Final[tuple[tuple[bytes, str, str], ...]] = (
    (codecs.BOM_UTF8, "utf-8", "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16-be"),
)

#: The legacy encodings that are considered. All are stateless, so that a piece of a file
#: decodes and encodes on its own; all keep ASCII, so that newlines are one byte.
LEGACY: Final[tuple[str, ...]] = (
    "gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1251", "koi8_r", "cp1252",
    "cp1250", "cp1253", "cp1255", "cp1256", "cp1254",
)  # fmt: skip


class NotText(Unsupported):
    """The bytes are no text in any encoding that could be written back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a file's bytes stand for text.

    Attributes:
        codec: Python codec for everything after the mark; it leaves no mark of its own.
        bom: the byte order mark that stands before the text, mostly empty.
        label: name for people and for `Slice.encoding` (`utf-8`, `utf-8-sig`, `utf-16-le`, `cp1252` …).
        certain: from a mark or strict UTF-8; False = the best guess of a legacy encoding.
    """

    codec: str
    bom: bytes = b""
    label: str
    certain: bool = True

    @property
    def wide(self) -> bool:
        """Whether a newline is more than one byte (UTF-16, UTF-32)."""
        return self.codec.startswith(("utf-16", "utf-32"))

    def encode(self, text: str) -> bytes:
        """The bytes of a piece of text, without mark.

        Raises:
            Unsupported: a character has no place in this encoding; nothing was written.
        """
        try:
            return text.encode(self.codec)
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            raise Unsupported(
                f"the file is in {self.label}, which has no character {char!r} (U+{ord(char):04X})",
                hint="Write the text without that character, or rewrite the whole file as UTF-8.",
                details={"encoding": self.label, "character": char},
            ) from None


UTF8: Final = Encoding(codec="utf-8", label="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A whole file as text.

    Attributes:
        text: every character, line endings as they stand in the file, no byte order mark.
        encoding: how to turn it back.
        newline: `\\n`, `\\r\\n`, `\\r` or `mixed`; `\\n` where there is no line ending.
    """

    text: str
    encoding: Encoding
    newline: str

    @property
    def label(self) -> str:
        """The encoding's name for people."""
        return self.encoding.label

    def encode(self, text: str) -> bytes:
        """A whole file of the same encoding with other text; `decode(d).encode(decode(d).text) == d`."""
        return self.encoding.bom + self.encoding.encode(text)


def detect(data: bytes) -> Encoding:
    """How these bytes stand for text: mark, strict UTF-8, charset-normalizer, cp1252 (DESIGN 6).

    Holds at most 1 MiB of decoded text at a time where the file is UTF-8.

    Raises:
        NotText: NUL bytes without a mark, a mark that lies, or mostly control characters.
    """
    for mark, codec, label in _MARKS:
        if data.startswith(mark):
            return _marked(data, mark, codec, label)
    if b"\0" in data[:_PROBE]:
        raise NotText(
            f"binary content ({len(data)} bytes, NUL bytes in it)",
            hint="This tool changes text files only.",
        )
    if data.isascii() or is_utf8(data):
        return UTF8
    return Encoding(codec=(codec := _legacy(data)), label=codec.replace("_", "-"), certain=False)


def decode(data: bytes) -> Decoded:
    """A whole file as text that can be written back exactly.

    Raises:
        NotText: see `detect`.
    """
    encoding = detect(data)
    text = data[len(encoding.bom) :].decode(encoding.codec)
    return Decoded(text=text, encoding=encoding, newline=newline_of(text))


def newline_of(text: str) -> str:
    """The line ending in use: `\\n`, `\\r\\n`, `\\r` (only where there is no `\\n` at all) or `mixed`."""
    feeds = text.count("\n")
    if not feeds:
        return "\r" if "\r" in text else "\n"
    pairs = text.count("\r\n")
    if not pairs:
        return "\n"
    return "\r\n" if pairs == feeds else "mixed"


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are strict UTF-8, checked a piece at a time so that no whole copy is made."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    view = memoryview(data)
    try:
        for start in range(0, len(data), _CHUNK):
            decoder.decode(view[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def round_trips(data: bytes, codec: str) -> bool:
    """Whether the bytes decode in this codec, hold no undefined character and encode back to themselves."""
    try:
        return data.decode(codec).encode(codec) == data
    except (UnicodeDecodeError, UnicodeEncodeError):
        return False


def codec_with(data: bytes, text: str) -> Encoding | None:
    """The first legacy encoding in which these bytes hold this text, which is not plain ASCII; None for none."""
    if text.isascii():
        return None
    for codec in LEGACY:
        try:
            piece = text.encode(codec)
        except UnicodeEncodeError:
            continue
        if any(p in data for p in (piece, piece.replace(b"\n", b"\r\n"))) and round_trips(data, codec):
            return Encoding(codec=codec, label=codec.replace("_", "-"), certain=False)
    return None


def _marked(data: bytes, mark: bytes, codec: str, label: str) -> Encoding:
    body = data[len(mark) :]
    if not (is_utf8(body) if codec == "utf-8" else round_trips(body, codec)):
        raise NotText(
            f"the file begins with the byte order mark of {label} but is not valid {label}",
            hint="Repair the file's encoding first; it was not changed.",
        )
    return Encoding(codec=codec, bom=mark, label=label)


def _legacy(data: bytes) -> str:
    """The likeliest legacy codec that gives back these very bytes."""
    sample = _sample(data)
    if _looks_binary(sample):
        raise NotText(
            f"binary content ({len(data)} bytes, mostly control characters)",
            hint="This tool changes text files only.",
        )
    for codec in (*_guesses(sample), "cp1252"):
        if round_trips(data, codec):
            return codec
    # Latin-1 gives every byte a character, so that nothing is lost even where the guess is poor.
    return "latin-1"


def _sample(data: bytes) -> bytes:
    """Whole lines around the bytes that are not ASCII: plain lines say nothing about the encoding."""
    if len(data) <= _SAMPLE:
        return data
    lines: list[bytes] = []
    size = 0
    for line in data[: 64 * _SAMPLE].split(b"\n"):
        if not line.isascii():
            lines.append(line[:_SAMPLE])
            size += len(line) + 1
            if size >= _SAMPLE:
                break
    return b"\n".join(lines)


def _looks_binary(sample: bytes) -> bool:
    controls = sum(sample.count(bytes((c,))) for c in range(32) if c not in b"\t\n\r\f\x1b")
    return controls * 10 > len(sample)


def _guesses(sample: bytes) -> list[str]:
    """Candidates of charset-normalizer, best first, with its ties decided by what the letters are."""
    from charset_normalizer import from_bytes

    matches = list(from_bytes(sample, cp_isolation=list(LEGACY)))
    if not matches:
        return []
    least = matches[0].chaos
    tied = [name for m in matches if m.chaos <= least for name in m.could_be_from_charset]
    # A tie between Western and Central European pages: take the one that most files of the world use.
    if tied[0] == "cp1250" and "cp1252" in tied:
        tied.insert(0, "cp1252")
    # Korean pages hold Chinese characters too, but Korean text is nearly all Hangul.
    if tied[0] == "cp949" and len(tied) > 1 and _hangul_share(sample) < 0.9:
        tied = [name for name in tied if name != "cp949"]
    return [*tied, *(m.encoding for m in matches if m.chaos > least)]


def _hangul_share(sample: bytes) -> float:
    letters = [c for c in sample.decode("cp949", "ignore") if not c.isascii()]
    return sum("가" <= c <= "힣" for c in letters) / len(letters) if letters else 1.0
