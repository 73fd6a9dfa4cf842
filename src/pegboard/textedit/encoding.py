"""Bytes to text, and back without touching a byte that nobody asked to change."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import Final

from pegboard.core.errors import Unsupported

_ESCAPES: Final = range(0xDC80, 0xDD00)
"""What Python's surrogateescape makes of the bytes 80 to FF."""
_SHIFT: Final = 0xEF80 - 0xDC80
_SHOWN: Final = {escape: escape + _SHIFT for escape in _ESCAPES}
_BYTES: Final = {mark: escape for escape, mark in _SHOWN.items()}
_ASCII: Final = bytes(range(0x80))
_SHARE: Final = 4


def shown_utf8(data: bytes) -> str:
    """Bytes as UTF-8, a mark for each that fits nowhere."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return marked(data.decode("utf-8", "surrogateescape"))


def marked(escaped: str) -> str:
    """A text decoded with `surrogateescape`, its surrogates as marks."""
    return escaped.translate(_SHOWN)


def bytes_of(text: str) -> bytes:
    """The bytes of a text with marks.

    Raises:
        UnicodeEncodeError: a surrogate that is no text.
    """
    text.encode("utf-8")
    return text.translate(_BYTES).encode("utf-8", "surrogateescape")


def bad_bytes(text: str) -> int:
    """How many marks a text has."""
    return 0 if text.isascii() else sum("\uef80" <= char <= "\uefff" for char in text)


def is_damaged_utf8(data: bytes) -> bool:
    """Whether bytes that are no UTF-8 are nearly UTF-8.

    At most one byte in five beyond ASCII may be bad. Legacy text does not come near: two of its bytes are a
    character of UTF-8 by chance only.
    """
    text = data.decode("utf-8", "surrogateescape")
    high = len(data.translate(None, _ASCII))
    bad = sum("\udc80" <= char <= "\udcff" for char in text if char > "\x7f")
    return bad * _SHARE <= high - bad and bad_bytes(text) == 0


#: The encodings that are considered, of two that fit a text equally well the earlier. All are stateless, so that a
#: piece of a file decodes and encodes on its own; all keep ASCII, so that newlines are one byte.
LEGACY: Final[tuple[str, ...]] = (
    "cp1252", "cp1250", "cp1251", "gb18030", "big5", "cp932", "euc_jp", "cp949", "koi8_r", "koi8_u",
    "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "tis_620", "iso8859_2", "iso8859_5", "iso8859_6",
    "iso8859_7", "iso8859_8", "iso8859_9", "iso8859_13", "iso8859_15", "cp866", "cp850", "cp852", "cp437", "cp855",
    "cp857", "cp737", "cp775", "cp862", "cp864", "mac_roman", "mac_cyrillic", "mac_latin2", "mac_greek",
    "mac_turkish", "johab", "big5hkscs",
)  # fmt: skip

#: Where a text names its encoding: PEP 263 (its first two lines), XML 1.0 §4.3.3, HTML's meta, CSS Syntax 3 §3.2.
_NAMED: Final = re.compile(
    rb"""\A(?:[^\n]*\n)?[ \t\f]*\#[^\n]*?coding[:=][ \t]*([-\w.]+)
    |\A\s*<\?xml\s[^>]*?encoding\s*=\s*["']([-\w.:]+)
    |<meta\s[^>]*?charset\s*=\s*["']?\s*([-\w.:]+)
    |\A@charset\s"([-\w.:]+)";""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMED_BYTES: Final = 1024
_NAMEABLE: Final = {codecs.lookup(c).name: c for c in (*LEGACY, "latin-1", "shift_jis", "gbk", "euc_kr")}


def named_codec(data: bytes) -> str:
    """The codec that a text names at its beginning: `utf-8`, a legacy one, or empty."""
    found = _NAMED.search(data[:_NAMED_BYTES])
    if found is None:
        return ""
    try:
        name = codecs.lookup(found[found.lastindex or 0].decode("ascii")).name
    except LookupError:
        return ""
    return name if name == "utf-8" else _NAMEABLE.get(name, "")


_SAMPLE_BYTES: Final = 64 * 1024
_FEW_SIGNS: Final = 8


def guess(data: bytes, *, whole: bool = True) -> str:
    """The likeliest codec of bytes that are no UTF-8, one that gives back these very bytes: first the one they name.

    cp1252 that cannot be becomes latin-1, which always can.

    Args:
        whole: `data` is a whole file; otherwise its end may lie inside a character.
    """
    fits = round_trips if whole else _decodes
    if (named := named_codec(data)) not in ("", "utf-8") and fits(data, named):
        return named
    first = next(i for i, byte in enumerate(data) if byte >= 0x80)
    start = max(0, first - _SAMPLE_BYTES // 4)
    sample = data[start : start + _SAMPLE_BYTES]
    if len(sample) == _SAMPLE_BYTES:
        # No character may be cut: the library takes none that does not decode.
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    return next((codec for codec in _likely(sample) if fits(data, codec)), "latin-1")


def round_trips(data: bytes, codec: str) -> bool:
    """Whether the bytes decode in this codec, hold no undefined character and encode back to themselves."""
    try:
        return data.decode(codec).encode(codec) == data
    except (UnicodeDecodeError, UnicodeEncodeError):
        return False


def _likely(sample: bytes) -> list[str]:
    """The codecs that charset-normalizer finds, the best first; of those that it ranks alike the commonest."""
    from charset_normalizer import from_bytes

    signs = re.findall(rb"[\x80-\xff]+", sample)
    if len(signs) < _FEW_SIGNS and all(len(sign) == 1 for sign in signs):
        # So few single letters and signs prove nothing: most are those of Western text.
        return ["cp1252"]
    found = list(from_bytes(sample, cp_isolation=list(LEGACY), enable_fallback=False))
    alike = [one for one in found if (one.chaos, one.coherence) == (found[0].chaos, found[0].coherence)]
    first = {codec for one in alike for codec in one.could_be_from_charset}
    rest = [codec for one in found for codec in one.could_be_from_charset]
    return [*(codec for codec in LEGACY if codec in first), *rest, "cp1252"]


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, final=False)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


_PROBE: Final = 8192
_WIDE_UNITS: Final = 64
_SAMPLE: Final = 16384
_CHUNK: Final = 1 << 20

#: Byte order marks, the longer before its own prefix.
_MARKS: Final[tuple[tuple[bytes, str, str], ...]] = (
    (codecs.BOM_UTF8, "utf-8", "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16-be"),
)


class NotText(Unsupported):
    """The bytes are no text in any encoding that could be written back unchanged."""


def guess_note(label: str, remedy: str = "name another with encoding=") -> str:
    """What every reader says of an encoding that is a guess.

    Args:
        label: the encoding's name.
        remedy: what to do where the text looks wrong.
    """
    return f"encoding guessed: {label}; if the text looks wrong, {remedy}"


NUL_NOTE: Final = "the text holds NUL characters, for which many programs take a file for a binary one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a file's bytes stand for text.

    Attributes:
        codec: Python codec for everything after the mark; it leaves no mark of its own.
        bom: the byte order mark that stands before the text, mostly empty.
        label: name for people and for `Slice.encoding` (`utf-8`, `utf-8-sig`, `utf-16-le`, `cp1252` …).
        certain: from a mark, strict UTF-8 or the text's own word; False = the best guess of a legacy encoding.
        damaged: UTF-8 with bytes that are none, each shown as a mark (see `damage`).
    """

    codec: str
    bom: bytes = b""
    label: str
    certain: bool = True
    damaged: bool = False

    @property
    def wide(self) -> bool:
        """Whether a newline is more than one byte (UTF-16, UTF-32)."""
        return self.codec.startswith(("utf-16", "utf-32"))

    def decode(self, data: bytes) -> str:
        """A piece of the file, without byte order mark, as text."""
        return shown_utf8(data) if self.damaged else data.decode(self.codec)

    def encode(self, text: str) -> bytes:
        """The bytes of a piece of text, without mark.

        Raises:
            Unsupported: a character has no place in this encoding; nothing was written.
        """
        try:
            return bytes_of(text) if self.damaged else text.encode(self.codec)
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            raise Unsupported(
                f"the file is in {self.label}, which has no character {char!r} (U+{ord(char):04X})",
                hint="Write the text without that character, or rewrite the whole file as UTF-8.",
                details={"encoding": self.label, "character": char},
            ) from None


UTF8: Final = Encoding(codec="utf-8", label="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
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
    """How these bytes stand for text: mark, UTF-8, what the text names, charset-normalizer, cp1252.

    An ASCII text that names a legacy encoding is in that one.

    UTF-8 is strict, or nearly so (`damage.is_damaged_utf8`).

    Holds at most 1 MiB of decoded text at a time where the file is UTF-8.

    Raises:
        NotText: more than stray NUL bytes, a mark that lies, or mostly control characters.
    """
    for mark, codec, label in _MARKS:
        if data.startswith(mark):
            return _marked(data, mark, codec, label)
    wide = wide_codec(data)
    if wide is not None and round_trips(data, wide):
        return Encoding(codec=wide, label=wide, certain=False)
    if is_binary(data[:_PROBE]):
        raise NotText(
            f"binary content ({len(data)} bytes, NUL bytes in it)",
            hint="This tool changes text files only.",
        )
    named = named_codec(data)
    if named and data.isascii():
        return _named(named)
    if is_utf8(data):
        return UTF8
    _refuse_controls(data)
    if is_damaged_utf8(data):
        return Encoding(codec="utf-8", label="utf-8", certain=False, damaged=True)
    codec = guess(data)
    return _named(codec) if codec == named else _legacy(codec)


def _named(codec: str) -> Encoding:
    return UTF8 if codec == "utf-8" else replace(_legacy(codec), certain=True)


def _legacy(codec: str) -> Encoding:
    return Encoding(codec=codec, label=codec.replace("_", "-"), certain=False)


def decode(data: bytes) -> DecodedText:
    """A whole file as text that can be written back exactly.

    Raises:
        NotText: see `detect`.
    """
    encoding = detect(data)
    text = encoding.decode(data[len(encoding.bom) :])
    return DecodedText(text=text, encoding=encoding, newline=newline_of(text))


def as_before(content: str, before: bytes) -> tuple[bytes, str]:
    """The bytes of a text that replaces a file, in the file's encoding, with its mark and line ends, and a note.

    What `read_file` shows has neither mark nor CR, so a text without any CR takes the file's line ends. An encoding that
    the text names and the file did not name goes before the file's. The note says what could not be kept, or that the
    encoding is a guess; it is empty otherwise.
    """
    try:
        old = decode(before)
    except NotText:
        return UTF8.encode(content), ""
    named = named_codec(content[:_NAMED_BYTES].encode("utf-8", "replace"))
    anew = before.isascii() or named not in ("", named_codec(before))
    if anew and not old.encoding.bom and not old.encoding.wide:
        old = replace(old, encoding=_named(named or "utf-8"))
    notes: list[str] = []
    if "\r" not in content and "\n" in content:
        if old.newline == "mixed":
            notes.append("the file had line ends of both kinds, now all are LF")
        else:
            content = content.replace("\n", old.newline)
    content = content.removeprefix("\ufeff") if old.encoding.bom else content
    try:
        data = old.encode(content)
    except Unsupported as lacking:
        char = lacking.details.get("character")
        if char is None:
            raise
        notes.append(f"the file was in {old.label}, which has no character {char!r}; it is UTF-8 now")
        return UTF8.encode(content), "; ".join(notes)
    if not old.encoding.certain and not old.encoding.damaged and not content.isascii():
        notes.append(f"the file stays in {old.label}, which is a guess")
    return data, "; ".join(notes)


def newline_of(text: str) -> str:
    """The line ending in use: `\\n`, `\\r\\n`, `\\r` (only where there is no `\\n` at all) or `mixed`."""
    feeds = text.count("\n")
    if not feeds:
        return "\r" if "\r" in text else "\n"
    pairs = text.count("\r\n")
    if not pairs:
        return "\n"
    return "\r\n" if pairs == feeds else "mixed"


def bom_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark names (`utf-8-sig`, `utf-16-le` …), None where there is no mark."""
    if head[:1] not in (b"\xef", b"\xff", b"\xfe", b"\0"):
        return None
    return next((label for mark, _, label in _MARKS if head.startswith(mark)), None)


def bom_length(head: bytes) -> int:
    """How many bytes the byte order mark has, 0 where there is none."""
    return next((len(mark) for mark, _, _ in _MARKS if head.startswith(mark)), 0)


def wide_codec(head: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, None for anything else: zero bytes stand in the high places of its ASCII.

    Where most characters are none of ASCII, much text must decode to letters and signs alone.
    """
    if b"\0" not in head or bom_encoding(head) is not None:
        return None
    for codec, size, high in (
        ("utf-32-le", 4, 2),
        ("utf-32-be", 4, 1),
        ("utf-16-le", 2, 1),
        ("utf-16-be", 2, 0),
    ):
        units, zeros = len(head) // size, head[high::size].count(0)
        if len(head) % size or zeros <= head[1 - high % 2 :: 2].count(0) * (size == 2):
            continue
        sample = head[:_SAMPLE]
        try:
            text = codecs.getincrementaldecoder(codec)().decode(sample, final=len(sample) == len(head))
        except UnicodeDecodeError:
            continue
        if "".join(text.split()).isprintable() and (zeros * 2 >= units or units >= _WIDE_UNITS):
            return codec
    return None


def is_binary(head: bytes, *, padded: bool = False) -> bool:
    """Whether NUL bytes say that a file beginning so is no text; a few in what is otherwise UTF-8 are stray.

    `padded`: of a text that is padded with NULs they do not count, however many.
    """
    if b"\0" not in head or bom_encoding(head) not in (None, "utf-8-sig") or wide_codec(head) is not None:
        return False
    sample = head[:_SAMPLE]
    return _looks_binary(sample.translate(None, b"\0") if padded else sample) or not is_utf8(
        head, whole=False
    )


def name_of(data: bytes, *, whole: bool = True) -> str:
    """The name of the encoding as `detect` finds it, for reading: what is no text in any has one too.

    Args:
        whole: `data` is the whole file, so a cut character at its end is no UTF-8.
    """
    marked = bom_encoding(data) or wide_codec(data)
    if marked is not None:
        return marked
    if is_utf8(data, whole=whole) or is_damaged_utf8(data):
        return "utf-8"
    return guess(data, whole=whole)


def is_utf8(data: bytes, *, whole: bool = True) -> bool:
    """Whether the bytes are strict UTF-8, checked a piece at a time so that no whole copy is made.

    Args:
        whole: without it, the end may lie inside a character.
    """
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    view = memoryview(data)
    try:
        for start in range(0, len(data), _CHUNK):
            decoder.decode(view[start : start + _CHUNK])
        decoder.decode(b"", final=whole)
    except UnicodeDecodeError:
        return False
    return True


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
            return _legacy(codec)
    return None


def _marked(data: bytes, mark: bytes, codec: str, label: str) -> Encoding:
    body = data[len(mark) :]
    if codec == "utf-8" and not is_utf8(body) and is_damaged_utf8(body):
        return Encoding(codec=codec, bom=mark, label=label, damaged=True)
    if not (is_utf8(body) if codec == "utf-8" else round_trips(body, codec)):
        raise NotText(
            f"the file begins with the byte order mark of {label} but is not valid {label}",
            hint="Repair the file's encoding first; it was not changed.",
        )
    return Encoding(codec=codec, bom=mark, label=label)


def _refuse_controls(data: bytes) -> None:
    if _looks_binary(data[:_SAMPLE]):
        raise NotText(
            f"binary content ({len(data)} bytes, mostly control characters)",
            hint="This tool changes text files only.",
        )


def _looks_binary(sample: bytes) -> bool:
    controls = sum(sample.count(bytes((c,))) for c in range(32) if c not in b"\t\n\r\f\x1b")
    return controls * 10 > len(sample)
