"""Bytes to text and back, exactly."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pegboard.core.errors import Unsupported
from pegboard.textedit.encoding import (
    LEGACY,
    UTF8,
    NotText,
    as_before,
    codec_with,
    decode,
    detect,
    is_utf8,
    name_of,
    newline_of,
)
from tests.ledger import owes

SENTENCES = [
    ("gb18030", "这是一个比较长的中文文本文件，用来测试编码检测。\n第二行也有内容。\n"),
    ("gb18030", "标题=旧\r\n路径=值\r\n"),
    ("cp932", "これは日本語のテキストです。\nテスト\n"),
    ("cp949", "한국어 텍스트 파일입니다\n"),
    ("big5", "繁體中文測試檔案\n第二行\n"),
    ("cp1251", "Привет мир, это тест кодировки\n"),
    ("koi8-r", "Привет мир, это тест кодировки\n"),
    ("cp1252", "naïve “quoted” café déjà vu — ok\n"),
    ("cp1252", "limit = 10\n# garçon list\n"),
    ("cp1250", "Zażółć gęślą jaźń\n"),
]


@pytest.mark.parametrize(("codec", "text"), SENTENCES)
def test_a_sentence_in_a_legacy_encoding_is_read_as_it_was_written(codec: str, text: str) -> None:
    decoded = decode(text.encode(codec))

    assert decoded.text == text
    assert decoded.encode(decoded.text) == text.encode(codec)
    assert not decoded.encoding.certain


@pytest.mark.parametrize(
    ("mark", "codec", "label"),
    [
        (b"\xef\xbb\xbf", "utf-8", "utf-8-sig"),
        (b"\xff\xfe", "utf-16-le", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be", "utf-16-be"),
        (b"\xff\xfe\x00\x00", "utf-32-le", "utf-32-le"),
        (b"\x00\x00\xfe\xff", "utf-32-be", "utf-32-be"),
    ],
)
def test_a_byte_order_mark_decides_and_stays(mark: bytes, codec: str, label: str) -> None:
    data = mark + "key=é\r\n".encode(codec)

    decoded = decode(data)

    assert (decoded.text, decoded.label, decoded.newline) == ("key=é\r\n", label, "\r\n")
    assert decoded.encode(decoded.text) == data


def test_a_mark_that_lies_is_refused() -> None:
    with pytest.raises(NotText, match="not valid utf-16-le"):
        decode(b"\xff\xfea")
    with pytest.raises(NotText, match="not valid utf-8-sig"):
        decode(b"\xef\xbb\xbf\xff")


@owes("edit-30")
def test_binary_content_is_refused_with_its_size() -> None:
    with pytest.raises(NotText, match=r"binary content \(12 bytes"):
        decode(bytes.fromhex("89504e470d0a1a0a0000000d"))
    with pytest.raises(NotText, match="mostly control characters"):
        decode(b"\x01\x02\xff\x03\x04\xfe" * 9)


def test_a_large_file_is_judged_by_its_lines_that_are_not_ascii() -> None:
    data = b"plain line\n" * 50_000 + "Größe der Straße\n".encode("cp1252") * 3

    assert decode(data).text.endswith("Größe der Straße\n")


def test_a_large_legacy_file_is_sampled_and_still_round_trips() -> None:
    data = "Привет мир, это тест кодировки\n".encode("cp1251") * 2000

    assert decode(data).encode(decode(data).text) == data


def test_utf8_split_over_two_pieces_is_valid_and_a_cut_sequence_is_not() -> None:
    piece = b"a" * ((1 << 20) - 1)

    assert is_utf8(piece + "é".encode() + piece)
    assert not is_utf8(piece + b"\xc3")


def test_a_character_that_the_encoding_lacks_is_named() -> None:
    with pytest.raises(Unsupported, match=r"cp1252, which has no character '新' \(U\+65B0\)"):
        decode("café\n".encode("cp1252")).encode("新")
    with pytest.raises(Unsupported):
        UTF8.encode("\ud83d")


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        ("", "\n"),
        ("a", "\n"),
        ("a\nb\n", "\n"),
        ("a\r\nb\r\n", "\r\n"),
        ("a\rb\r", "\r"),
        ("a\r\nb\n", "mixed"),
    ],
)
def test_the_line_ending_in_use(text: str, newline: str) -> None:
    assert newline_of(text) == newline


def test_text_that_was_sent_is_evidence_of_the_encoding() -> None:
    found = codec_with("标题=旧\r\n".encode("gb18030"), "标题")

    assert found is not None
    assert found.codec == "gb18030"
    assert codec_with(b"abc", "abc") is None
    assert codec_with(b"abc", "新") is None


@given(st.binary(max_size=200))
def test_whatever_decodes_encodes_back_to_the_same_bytes(data: bytes) -> None:
    try:
        decoded = decode(data)
    except NotText:
        return

    assert decoded.encode(decoded.text) == data
    assert "\ufffd" not in decoded.text or "\ufffd".encode() in data or not decoded.encoding.certain


@given(st.sampled_from(LEGACY), st.text(max_size=60))
def test_text_in_any_supported_encoding_round_trips(codec: str, text: str) -> None:
    try:
        data = text.encode(codec)
        assume(b"\0" not in data)
        decoded = decode(data)
    except (UnicodeEncodeError, NotText):
        return

    assert decoded.encode(decoded.text) == data


def test_plain_utf8_is_certain() -> None:
    assert detect("é\n".encode()) == UTF8
    assert detect(b"") == UTF8


def test_detection_of_a_cut_sample_allows_half_a_character_at_its_end() -> None:
    assert name_of("aé".encode()[:2], whole=False) == "utf-8"
    assert name_of("aé".encode()[:2]) == "cp1252"


@pytest.mark.parametrize(("codec", "text"), SENTENCES)
def test_reading_and_editing_find_the_same_encoding(codec: str, text: str) -> None:
    data = text.encode(codec)

    assert name_of(data).replace("_", "-") == detect(data).label


@given(st.text(min_size=1).filter(lambda t: not t.isascii()), st.binary(max_size=3), st.data())
def test_utf8_with_any_bytes_in_it_comes_back_exactly(text: str, bad: bytes, data: st.DataObject) -> None:
    # So much good text that three bytes and the character that they tear are at most a fifth.
    whole = text.encode() + "é".encode() * 16
    at = data.draw(st.integers(0, len(whole)))
    torn = whole[:at] + bad + whole[at:]

    try:
        found = decode(torn)
    except NotText:
        return

    assert found.encode(found.text) == torn
    assert "\ufffd" not in found.text or "\ufffd" in text or not found.encoding.damaged


@pytest.mark.parametrize(
    ("torn", "text"),
    [
        # Four bytes of two good characters stand against one bad byte: exactly one in five.
        (b"\xc3\xa9\xc3\xa9\xff", "éé\uefff"),
        (b"\xff\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "\uefff日本語"),
        (b"\xef\xbb\xbf\xc3\xa9\xc3\xa9\xff", "éé\uefff"),
    ],
)
def test_a_byte_in_five_may_be_no_utf8(torn: bytes, text: str) -> None:
    found = decode(torn)

    assert found.text == text
    assert found.encoding.damaged
    assert found.encode(text) == torn


@pytest.mark.parametrize(
    ("data", "codec"),
    [(b"\xc3\xa9 \xff", "cp1252"), (b"caf\xe9", "cp1252"), ("\uef80éééé".encode() + b"\xff", "cp1252")],
)
def test_what_is_not_nearly_utf8_or_holds_marks_of_its_own_is_legacy(data: bytes, codec: str) -> None:
    found = detect(data)

    assert not found.damaged
    assert data.decode(found.codec).encode(found.codec) == data


@pytest.mark.parametrize(("codec", "text"), SENTENCES)
def test_legacy_text_is_never_taken_for_damaged_utf8(codec: str, text: str) -> None:
    assert not detect(text.encode(codec)).damaged


POLISH = "Zażółć gęślą jaźń. Wczoraj poszliśmy do kina, żeby obejrzeć nowy film. Dziękuję bardzo za pomoc, źle się czułem.\n"
RUSSIAN = "Вчера вечером мы пошли в кино, чтобы посмотреть новый фильм. Большое спасибо за помощь. Книга лежит на столе.\n"
THAI = "เมื่อวานตอนเย็นเราไปดูหนังเรื่องใหม่ที่โรงภาพยนตร์ ขอบคุณมากสำหรับความช่วยเหลือ\n"


@owes("edit-11")
@pytest.mark.parametrize(
    ("codec", "text"),
    [
        *(
            ("iso8859_2", POLISH),
            ("cp1250", POLISH),
            ("cp852", POLISH),
        ),
        *((codec, RUSSIAN) for codec in ("iso8859_5", "cp866", "mac_cyrillic", "cp1251", "koi8_r")),
        ("tis_620", THAI),
    ],
)
def test_a_paragraph_in_a_national_encoding_is_read_and_is_never_called_certain(
    codec: str, text: str
) -> None:
    found = decode(text.encode(codec))

    assert found.text == text
    assert not found.encoding.certain


NAMING = [
    "#!/usr/bin/python\n# -*- coding: iso-8859-2 -*-\nx = '{}'\n",  # PEP 263
    "<?xml version='1.0' encoding='ISO-8859-2'?>\n<a>{}</a>\n",  # XML 1.0 §4.3.3
    '<html>\n<head><meta charset="iso-8859-2"></head>\n{}\n',
    '@charset "iso-8859-2";\na {{ content: "{}" }}\n',  # CSS Syntax 3 §3.2
]


@pytest.mark.parametrize("text", NAMING)
@pytest.mark.parametrize("letter", ["ż", "z"])
def test_a_text_that_names_its_encoding_is_in_that_one(text: str, letter: str) -> None:
    found = decode(text.format(letter).encode("iso8859-2"))

    assert found.text == text.format(letter) and found.encoding.certain
    assert found.encode(text.format("ł")) == text.format("ł").encode("iso8859-2")
    with pytest.raises(Unsupported, match="no character '你'"):
        found.encode(text.format("你"))


@pytest.mark.parametrize("text", NAMING)
def test_a_text_that_replaces_a_file_is_in_the_encoding_that_it_names(text: str) -> None:
    old, new = text.format("z"), text.format("ż")

    assert as_before(new, old.encode()) == (new.encode("iso8859-2"), "")
    assert as_before(new, b"") == (new.encode("iso8859-2"), "")
    other = new.lower().replace("iso-8859-2", "utf-8")
    assert as_before(other, text.format("ł").encode("iso8859-2")) == (other.encode(), "")
    assert as_before("ż\n", old.encode()) == ("ż\n".encode(), "")
    assert as_before(new, text.format("ł").encode()) == (new.encode(), ""), "the file was UTF-8 all the same"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["Server started\nport=8080\n", "a\n", RUSSIAN + "port=1\n" + THAI])
def test_utf16_and_utf32_without_a_mark_are_text_and_come_back_exactly(codec: str, text: str) -> None:
    found = decode(text.encode(codec))

    assert (found.text, found.label) == (text, codec)
    assert found.encode(text) == text.encode(codec)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3\0\1\0\2",
        b"".join(n.to_bytes(2, "little") for n in range(256)),
        b"\x7fELF\2\1\1" + bytes(9) + b"\2\0>\0\1\0\0\0",
        b"text\n" + bytes(512),
    ],
)
def test_numbers_and_padding_are_not_taken_for_wide_text(data: bytes) -> None:
    with pytest.raises(NotText, match="binary content"):
        detect(data)


def test_a_few_stray_zero_bytes_leave_a_text_a_text() -> None:
    data = b"first line of the log\n\0second line of it\nthird\n"

    assert decode(data).encode(decode(data).text) == data
