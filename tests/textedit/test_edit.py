"""Edits: what was asked for changes, every other byte stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pegboard.core.errors import InvalidArguments, NotFound, NotUnique, ToolError, Unsupported
from pegboard.textedit import style
from pegboard.textedit.edit import Edit, EditResult, apply_edit, apply_edits
from pegboard.textedit.match import AlreadyApplied
from tests.ledger import owes
from tests.textedit.cases import cases

EDITS = cases("3-edit")


def edit(before: str | bytes, old: str, new: str, **options: Any) -> EditResult:
    """One edit of a file called f."""
    data = before.encode() if isinstance(before, str) else before
    return apply_edit(data, Edit(old=old, new=new, **options), path="f")


def after(before: str | bytes, old: str, new: str, **options: Any) -> str:
    """The text after one edit."""
    return edit(before, old, new, **options).data.decode()


@pytest.mark.parametrize(
    "case",
    [c for c in EDITS.values() if "calc" in c and "after_hex" in str(c["expect"])],
    ids=lambda c: c["id"],
)
@owes("edit-01", "edit-02", "edit-03", "edit-04", "edit-05", "edit-06", "edit-08", "edit-09", "edit-11")
def test_the_bytes_after_an_edit_of_another_projects_failure(case: dict[str, Any]) -> None:
    given, expect = case["input"], case["expect"]
    wanted = expect.get("after_hex") or expect["either"]["after_hex"]

    done = edit(
        bytes.fromhex(given["before_hex"]),
        given["old"],
        given["new"],
        replace_all=case["calc"].get("all", False),
    )

    assert done.data.hex() == wanted


@pytest.mark.parametrize(
    "case",
    [c for c in EDITS.values() if isinstance(c["expect"], dict) and "after" in c["expect"]],
    ids=lambda c: c["id"],
)
@owes("edit-12", "edit-13", "edit-20")
def test_the_text_after_an_edit_of_another_projects_failure(case: dict[str, Any]) -> None:
    given = case["input"]

    assert after(given["before"], given["old"], given["new"]) == case["expect"]["after"]


@owes("edit-15")
def test_composed_accents_match_decomposed_ones_and_other_lines_stay() -> None:
    given = EDITS["edit-15"]["input"]

    done = after(given["before"], given["old"], given["new"])

    assert style.loose(done).text.startswith("résumé = 2\n")
    assert done.split("\n", 1)[1] == given["before"].split("\n", 1)[1]


@owes("N-40", "X-12", "edit-16")
def test_a_text_that_occurs_three_times_is_refused_with_its_lines() -> None:
    given = EDITS["edit-16"]["input"]

    with pytest.raises(NotUnique) as caught:
        edit(given["before"], given["old"], given["new"])

    assert "occurs 3 times in f (lines 1, 3, 5)" in caught.value.message
    assert "replace_all" in caught.value.hint


@owes("edit-17")
def test_a_tolerant_match_with_two_places_is_refused() -> None:
    given = EDITS["edit-17"]["input"]

    with pytest.raises(NotUnique, match="lines 2, 6"):
        edit(given["before"], given["old"], given["new"])


@owes("edit-18")
@pytest.mark.parametrize("pair", EDITS["edit-18"]["input"]["cases"])
def test_an_edit_that_changes_nothing_or_names_nothing_is_refused(pair: list[str]) -> None:
    with pytest.raises(InvalidArguments):
        edit(EDITS["edit-18"]["input"]["before"], *pair)


@owes("edit-19")
def test_the_new_text_is_put_in_letter_by_letter() -> None:
    given = EDITS["edit-19"]["input"]

    assert after(given["before"], given["old"], given["new"]) == "v = \\1 $& \\g<0> %s {x} \\n\n"


@owes("edit-32")
def test_pasted_line_numbers_are_no_part_of_the_text() -> None:
    assert after("a\nb\n", "     2→b", "c") == "a\nc\n"
    assert after("b\nb\nb\n", "     2→b", "     2→c") == "b\nc\nb\n"
    assert after("a\nb\nc\n", "     1→a\n     2→b", "x") == "x\nc\n"
    assert after("p\na\nb\n", "1\ta\n2\tb", "x") == "p\nx\n"
    with pytest.raises(InvalidArguments, match="line number"):
        edit("a\nb\n", "b", "     2→c")
    with pytest.raises(NotFound):
        edit("a\nb\n", "     2→zzz", "c")


@owes("edit-33")
def test_several_edits_are_all_made_or_none_and_the_failing_one_is_named() -> None:
    given = EDITS["edit-33"]["input"]
    edits = [Edit(old=old, new=new) for old, new in given["edits"]]

    with pytest.raises(NotFound, match="edit 2 of 3") as caught:
        apply_edits(given["before"].encode(), edits, path="f")

    assert caught.value.details["edit"] == 2
    done = apply_edits(given["before"].encode(), [edits[0], edits[2]], path="f")
    assert done[-1].data == b"A\nb\nC\n"
    with pytest.raises(NotFound) as alone:
        apply_edits(b"a\n", [edits[1]], path="f")
    assert not alone.value.message.startswith("edit")


@owes("edit-35")
def test_an_edit_that_was_made_already_says_so() -> None:
    given = EDITS["edit-35"]["input"]

    with pytest.raises(AlreadyApplied, match="new text already present at line 1") as caught:
        edit(given["before"], given["old"], given["new"])

    assert caught.value.code == "already_applied"
    for nothing in ("", "}", "x = 1"):
        with pytest.raises(NotFound):
            edit("x = 2\n}\n", "x = 1\ny", nothing)


@owes("X-12")
def test_occurrence_line_hint_and_expected_replacements_choose() -> None:
    text = "a=1\nb=0\na=1\nc=0\na=1\n"

    assert after(text, "a=1", "X", occurrence=2) == "a=1\nb=0\nX\nc=0\na=1\n"
    assert after(text, "a=1", "X", occurrence=2, line_hint=4) == "a=1\nb=0\nX\nc=0\na=1\n"
    with pytest.raises(
        InvalidArguments, match="occurrence 1 is in line 1, but line_hint 5 is nearer to another"
    ):
        edit(text, "a=1", "X", occurrence=1, line_hint=5)
    assert after(text, "a=1", "X", line_hint=5) == "a=1\nb=0\na=1\nc=0\nX\n"
    assert after(text, "a=1", "X", expected=3) == "X\nb=0\nX\nc=0\nX\n"
    assert edit(text, "a=1", "X", replace_all=True).lines == (1, 3, 5)
    with pytest.raises(NotUnique, match="expected 2 replacements"):
        edit(text, "a=1", "X", expected=2)
    with pytest.raises(NotUnique, match="expected 2 replacements"):
        edit(text, "a=1", "X", expected=2, replace_all=True)
    with pytest.raises(NotUnique):
        edit(text, "a=1", "X", line_hint=4)
    with pytest.raises(InvalidArguments, match="occurrence is 4, but"):
        edit(text, "a=1", "X", occurrence=4)
    with pytest.raises(InvalidArguments, match="the old text occurs once"):
        edit(text, "b=0", "X", occurrence=2)
    with pytest.raises(InvalidArguments, match="the first is 1"):
        edit(text, "a=1", "X", occurrence=0)
    with pytest.raises(InvalidArguments, match="excludes"):
        edit(text, "a=1", "X", replace_all=True, line_hint=1)


def test_many_places_are_named_shortly() -> None:
    with pytest.raises(NotUnique, match=r"lines 1, 2, .* and 30 more"):
        edit("x\n" * 40, "x", "y")


def test_choosing_works_for_tolerant_matches_too() -> None:
    text = "if a:\n\tx()\nif b:\n\tx()\n"

    assert after(text, "    x()\n", "    y()\n", occurrence=2) == "if a:\n\tx()\nif b:\n\ty()\n"
    assert after(text, "    x()\n", "    y()\n", replace_all=True) == "if a:\n\ty()\nif b:\n\ty()\n"


# ---- line endings, marks, encodings -------------------------------------------------------------


def test_in_a_file_of_mixed_endings_kept_lines_keep_theirs() -> None:
    data = b"one\r\ntwo\nthree\r\nfour\n"

    assert edit(data, "one\ntwo\nthree", "one\n2\nthree").data == b"one\r\n2\nthree\r\nfour\n"


def test_new_lines_take_the_ending_of_where_they_go() -> None:
    data = b"a\r\nb\r\n" + b"c\nd\n"

    assert edit(data, "a", "a\nx").data == b"a\r\nx\r\nb\r\nc\nd\n"
    assert edit(data, "d", "d\nx").data == b"a\r\nb\r\nc\nd\nx\n"
    assert edit(b"a\r\nb", "b", "b\nc").data == b"a\r\nb\r\nc"
    assert edit(b"z\r\nz\r\n", "z", "x\ny", replace_all=True).data == b"x\r\ny\r\nx\r\ny\r\n"


def test_a_leading_newline_in_the_old_text_takes_the_whole_crlf() -> None:
    assert edit(b"a\r\nb\r\n", "\nb", "\nB").data == b"a\r\nB\r\n"


def test_old_mac_files_have_lines_too() -> None:
    assert edit(b"a\rb\rc\r", "a\nb", "A\nB\nx").data == b"A\rB\rx\rc\r"


def test_a_tolerant_match_in_a_crlf_file_writes_crlf() -> None:
    data = b"if x:\r\n\ta()\r\n\tb()\r\n"

    done = edit(data, "    a()\n    b()", "    a()\n    c()\n    d()")

    assert done.strategy == "trimmed"
    assert done.data == b"if x:\r\n\ta()\r\n\tc()\r\n\td()\r\n"


def test_a_new_character_that_the_encoding_lacks_is_refused() -> None:
    with pytest.raises(Unsupported, match="cp1252"):
        edit("café = 1\n".encode("cp1252"), "= 1", "= 新")


def test_what_the_model_sent_decides_between_encodings() -> None:
    data = "# 旧\nx\n".encode("gb18030")

    assert edit(data, "# 旧", "# 新").data == "# 新\nx\n".encode("gb18030")


def test_a_legacy_file_without_the_text_is_a_plain_miss() -> None:
    with pytest.raises(NotFound):
        edit("café = 1\n".encode("cp1252"), "nowhere", "x")
    with pytest.raises(NotFound):
        edit("café = 1\n".encode("cp1252"), "thé", "x")


# ---- the view is not the file --------------------------------------------------------------------


@owes("edit-04")
@pytest.mark.parametrize("hidden", ["\x0c", "\x1b[31m", "\u200d", "\u200b"])
def test_an_invisible_character_is_matched_over_and_kept(hidden: str) -> None:
    done = edit(f"alpha {hidden}beta\ngamma\n", "alpha beta\ngamma", "alpha beta\ndelta")

    assert done.data.decode() == f"alpha {hidden}beta\ndelta\n"
    assert done.strategy == "shown"


def test_the_escape_sequence_may_have_been_taken_out_whole_or_in_part() -> None:
    text = "\x1b[31mred\x1b[0m light\n"

    assert after(text, "red light", "red lamp") == "\x1b[31mred\x1b[0m lamp\n"
    assert after(text, "[31mred[0m light", "[31mred[0m lamp") == "\x1b[31mred\x1b[0m lamp\n"


def test_curly_quotes_are_matched_by_plain_ones_and_kept() -> None:
    assert after("say(“hi”)  # ok\n", 'say("hi")', 'say("hi", 2)') == "say(“hi”, 2)  # ok\n"
    assert after("if x:\n\tsay(“hi”)\n", 'if x:\n  say("hi")', 'if x:\n  say("ho")') == "if x:\n\tsay(“ho”)\n"
    assert after("a “b” c\n", 'a "b" c', "a “b” d") == "a “b” d\n"


def test_a_change_of_the_quotes_themselves_is_made() -> None:
    assert after("x = “a” + b\n", 'x = "a" + b', "x = 'a' + b") == "x = 'a' + b\n"


@owes("N-40")
def test_a_hidden_secret_stays_byte_for_byte() -> None:
    text = 'host = "a"\nkey = "sk-123"  # prod\nport = 1\n'

    assert after(text, 'key = "[redacted:k-1]"  # prod', 'key = "[redacted:k-1]"  # test') == text.replace(
        "prod", "test"
    )
    assert after(text, 'key = "[redacted:k-1]"', 'key = env("K")') == text.replace('"sk-123"', 'env("K")')
    assert after(text, "key = [redacted:k-1]", "key2 = [redacted:k-1]") == text.replace("key", "key2")
    pem = "a\n-----BEGIN\nxyz\n-----END\nb = 1\n"
    assert after(pem, "a\n[redacted:pem]\nb = 1", "a\n[redacted:pem]\nb = 2") == pem.replace("1", "2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("port = 1", "port = [redacted:k-1]"),
        ('key = "[redacted:k-1]"', 'key = "[redacted:k-2]"'),
        ('key = "[redacted:k-1]"', 'key = "[redacted:k-1][redacted:k-1]"'),
        ("key = [redacted:k-1]", "key = 2"),
    ],
)
def test_a_mark_is_never_written_where_a_secret_stood(old: str, new: str) -> None:
    with pytest.raises(InvalidArguments):
        edit('key = "sk-123"\nport = 1\n', old, new)


def test_a_mark_is_not_written_by_replacing_all_either() -> None:
    for options in ({"replace_all": True}, {"expected": 2}, {"occurrence": 1}):
        with pytest.raises(InvalidArguments, match="hidden"):
            edit("a\nb\na\n", "a", "[redacted:k-1]", **options)


def test_a_mark_with_nothing_around_it_or_too_many_marks_find_nothing() -> None:
    for old in ("[redacted:a]", " ".join(f"x [redacted:a{n}]" for n in range(5))):
        with pytest.raises(NotFound):
            edit("secret\n", old, "y")


def test_a_mark_that_is_the_files_own_text_is_text() -> None:
    text = "Secrets show as [redacted:id-1] in results.\n"

    assert after(text, "[redacted:id-1] in", "[redacted:id-1] within") == text.replace(" in ", " within ")


# ---- re-indentation ------------------------------------------------------------------------------


def test_new_lines_are_indented_as_the_file_is() -> None:
    before = "class A:\n\tdef f(self):\n\t\treturn 1\n"

    done = after(
        before,
        "def f(self):\n    return 1",
        "def f(self):\n    if self:\n        return 2\n    return 1",
    )

    assert done == "class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 2\n\t\treturn 1\n"


def test_two_spaces_for_four_and_four_for_two() -> None:
    two = "if a:\n  if b:\n    c()\n"

    done = after(two, "if a:\n    if b:\n        c()", "if a:\n    if b:\n        if d:\n            c()")

    assert done == "if a:\n  if b:\n    if d:\n      c()\n"


def test_a_line_that_only_moves_in_keeps_its_characters() -> None:
    before = "def f():\n\ta = “x”\n\treturn a\n"

    done = after(before, '    a = "x"\n    return a', '    if b:\n        a = "x"\n    return a')

    assert done == "def f():\n\tif b:\n\t\ta = “x”\n\treturn a\n"


def test_blank_lines_and_dedent_past_the_left_edge_are_harmless() -> None:
    before = "\t\ta()\n\t\tb()\n"

    done = after(before, "    a()\n    b()", "    a()\n\nc()\n    b()")

    assert done == "\t\ta()\n\n\tc()\n\t\tb()\n"


def test_an_old_text_that_ends_with_a_newline_takes_the_line_ending_with_it() -> None:
    before = "x\n\ta()\n\tb()\ny\n"

    assert after(before, "    a()\n", "") == "x\n\tb()\ny\n"
    assert after(before, "    a()\n    b()\n", "    c()\n") == "x\n\tc()\ny\n"
    assert after("x\n\ta()", "    a()\n", "    c()\n") == "x\n\tc()"
    assert after(before, "    a()", "") == "x\n\n\tb()\ny\n"


def test_spaces_inside_a_line_are_compared_loosely_at_last() -> None:
    done = edit("x  =   f( a )\ny = 1\n", "x = f( a )\ny = 1", "x = f( a )\ny = 2")

    assert done.strategy == "normalized"
    assert done.data == b"x  =   f( a )\ny = 2\n"


# ---- approximate ---------------------------------------------------------------------------------

LONG = "def total(items):\n    result = 0\n    for item in items:\n        result += item.price\n    return result\n"


def test_a_nearly_right_text_is_merged_and_lines_left_alone_stay_as_the_file_has_them() -> None:
    before = "import x\n\n" + LONG + "\nprint(1)\n"
    believed = LONG.replace("item.price", "item.prise")

    done = edit(before, believed, believed.replace("return result", "return round(result)"))

    assert done.strategy == "fuzzy"
    assert done.data.decode() == before.replace("return result", "return round(result)")


def test_a_change_of_a_line_that_is_not_as_believed_is_refused_with_the_closest_text() -> None:
    believed = LONG.replace("item.price", "item.prise")

    with pytest.raises(NotFound) as caught:
        edit(LONG, believed, believed.replace("item.prise", "item.cost"))

    assert "closest text begins at line 1" in caught.value.message
    assert "+        result += item.price" in caught.value.message


def test_two_nearly_right_places_are_refused() -> None:
    believed = LONG.replace("item.price", "item.prise")

    with pytest.raises(NotFound):
        edit(LONG + "\n" + LONG.replace("0", "1"), believed, believed.replace("return result", "return 1"))


def test_an_extra_or_missing_line_in_the_file_survives_the_merge() -> None:
    commented = LONG.replace(
        "result = 0", "result = 0  # the sum of all the prices that were found in the given items"
    )
    before = commented.replace("    return result\n", "    log(1)\n    return result\n")

    done = edit(before, commented, commented.replace("total(items)", "total(items, tax)"))

    assert done.strategy == "fuzzy"
    assert done.data.decode() == before.replace("total(items)", "total(items, tax)")


# ---- misses --------------------------------------------------------------------------------------


@owes("N-41", "C-14")
def test_a_miss_shows_the_closest_text_as_a_diff_and_names_what_no_eye_sees() -> None:
    with pytest.raises(NotFound) as caught:
        edit("a = 1\nvalue\u00a0= compute(first)\n", "valu = compute(first, 2)", "x")
    message = caught.value.message

    assert message.startswith("Text not found in f: valu = compute(first, 2)\n")
    assert "+value\\u00a0= compute(first)" in message
    assert caught.value.details["line"] == 2


def test_a_long_old_text_is_quoted_by_its_first_fifty_characters() -> None:
    with pytest.raises(NotFound, match="Text not found in f: " + "q" * 50 + r"\.\.\."):
        edit("nothing like it\n", "q" * 80, "x")


def test_an_empty_file_has_nothing_to_edit() -> None:
    with pytest.raises(NotFound):
        edit("", "a", "b")


# ---- properties ----------------------------------------------------------------------------------

_TEXT = st.text(alphabet="abé“\u200b\t \n", max_size=40)
_NEWLINES = st.sampled_from(["\n", "\r\n"])


@given(_TEXT, st.text(alphabet="xyzXYZ\n", min_size=1, max_size=12), _TEXT, _TEXT, _NEWLINES)
def test_every_byte_outside_the_old_text_stays(
    head: str, old: str, tail: str, new: str, newline: str
) -> None:
    assume(old.strip() and old != new and (newline == "\n" or "\n" in head + tail + old))
    before = (head + old + tail).replace("\n", newline)

    done = edit(before, old, new)

    assert done.data.decode() == (head + new + tail).replace("\n", newline)


_NOISE = st.sampled_from(["\x0c", "\x1b", "\u200d", "\u200b", "\u202e"])


@given(st.text(alphabet="ab \n", max_size=20), st.text(alphabet="ab \n", max_size=20), st.data())
def test_an_edit_through_the_view_changes_the_view_as_asked_and_keeps_what_lies_outside(
    head: str, tail: str, data: st.DataObject
) -> None:
    old, new = "X one Y", data.draw(st.sampled_from(["X two Y", "X one Y Z", "Q", "X\nY", "one"]))
    noisy = "".join(
        "".join(data.draw(st.lists(_NOISE, max_size=1)))
        + ("\r\n" if c == "\n" and data.draw(st.booleans()) else c)
        for c in old
    )

    done = edit(head + noisy + tail, old, new).data.decode()

    assert style.shown(done).text == head + new + tail
    assert done.startswith(head)
    assert done.endswith(tail)


_WORDS = st.lists(st.sampled_from(["alpha", "beta = 1", "gamma()", "delta", ""]), min_size=1, max_size=5)


@given(_WORDS, _WORDS, st.integers(0, 3))
def test_re_indented_lines_say_the_same_as_the_new_text(old: list[str], new: list[str], depth: int) -> None:
    assume(any(old) and old != new and old[0])
    found = "\n".join("\t" * depth + line if line else line for line in old)
    before = f"START\n{found}\nEND\n"
    sent = ["    " * depth + line if line else line for line in old]
    wanted = ["    " * depth + line if line else line for line in new]

    try:
        done = after(before, "\n".join(sent), "\n".join(wanted))
    except ToolError as error:
        assert isinstance(error, NotUnique | AlreadyApplied | NotFound)
        return

    expected = "\n".join("\t" * depth + line if line else line for line in new)
    assert done == f"START\n{expected}\nEND\n"


# ---- what hosts and models send along ---------------------------------------------------------

MARK = "\ufeff"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("new", ["bye", MARK + "bye"])
def test_a_byte_order_mark_that_is_sent_along_stays_where_it_is(codec: str, new: str) -> None:
    done = edit("hello\nworld\n".encode(codec), MARK + "hello", new)

    assert done.data == "bye\nworld\n".encode(codec)


def test_a_byte_order_mark_alone_is_no_text_to_replace() -> None:
    with pytest.raises(InvalidArguments, match="old_string is empty"):
        edit("hello\n".encode("utf-8-sig"), MARK, "x")


@owes("edit-32")
@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("     1\ta\n     2\tb", "     1\tA\n     2\tb", "A\nb\nc\n"),
        ("     1→a\n     2→b", "     1→a\nnew\n     2→b", "a\nnew\nb\nc\n"),
        ("     2→b", "     2→B\n     3→more", "a\nB\nmore\nc\n"),
        ("     2\tb", "7\tseven\nrest", "a\n7\tseven\nrest\nc\n"),
    ],
)
def test_line_numbers_pasted_into_both_texts_reach_no_file(old: str, new: str, wanted: str) -> None:
    assert after("a\nb\nc\n", old, new) == wanted


@owes("N-41", "K-38")
@pytest.mark.parametrize(
    ("before", "old", "advice"),
    [
        ("a\nb\n", "a\\nb", "escaped once less"),
        ("a\tb\r\nc\r\n", "a\\tb\\nc", "escaped once less"),
        ('print("hi")\n', 'print(\\"hi\\")', "escaped once less"),
        ("if (a < b && c) {}\n", "if (a &lt; b &amp;&amp; c) {}", "entities"),
        ("nothing alike\n", "x\\ny", "copy"),
    ],
)
def test_a_text_that_was_escaped_once_too_often_is_told_as_such(before: str, old: str, advice: str) -> None:
    with pytest.raises(NotFound) as caught:
        apply_edits(before.encode(), [Edit(old=old, new="z")], path="f")

    assert advice in caught.value.hint


@owes("edit-06", "D-20")
@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("old", "new"), [("abc", "\ufeffabd"), ("\ufeffabc", "\ufeffabd"), ("\ufeffabc", "abd")]
)
def test_a_byte_order_mark_stays_one_whoever_sends_it_along(codec: str, old: str, new: str) -> None:
    (edited,) = apply_edits("abc\nx\n".encode(codec), [Edit(old=old, new=new)], path="f")

    assert edited.data == "abd\nx\n".encode(codec)


LISTED = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"


@owes("edit-32", "K-38")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # cat -n and nl, grep -n, bat, compilers, editors: a number, a sign, at most a space.
        ("5: def b():\n6:     return 2", "5: def b():\n6:     return 3"),
        ("5:def b():\n6:    return 2", "5:def b():\n6:    return 3"),
        ("  5| def b():\n  6|     return 2", "  5| def b():\n  6|     return 3"),
        ("5 | def b():\n6 |     return 2", "def b():\n    return 3"),
        ("5|def b():\n6|    return 2", "def b():\n    return 3"),
        ("5→def b():\n6→    return 2", "5→def b():\n6→    return 3"),
        ("5→ def b():\n6→     return 2", "5→ def b():\n6→     return 3"),
        ("3:\n4:\n5: def b():\n6:     return 2\n", "3:\n4:\n5: def b():\n6:     return 3\n"),
        ("6:     return 2", "6:     return 3"),
        ("6:    return 2", "    return 3"),
        # The file grew above since it was listed: two lines in this order are proof enough.
        ("9: def b():\n10:     return 2", "9: def b():\n10:     return 3"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_lines_copied_from_a_listing_are_found_without_their_numbers(old: str, new: str, end: str) -> None:
    done = edit(LISTED.replace("\n", end), old, new)

    assert done.data.decode() == LISTED.replace("return 2", "return 3").replace("\n", end)
    assert done.strategy == "numbered"


@owes("edit-32", "edit-17")
@pytest.mark.parametrize(
    ("before", "old", "new", "error"),
    [
        # Not this line, not all lines numbered, a number left out, in two places, part of a line.
        (LISTED, "6:     return 1", "    return 3", NotFound),
        (LISTED, "5: def b():\n    return 2", "x", NotFound),
        (LISTED, "5: def b():\n7:     return 2", "x", NotFound),
        ("a\nb\na\nb\n", "7: a\n8: b", "c", NotUnique),
        ("a = 1\nb = 2\n", "1: a = 1\n2: b", "c", NotFound),
        ("aa\nb\n", "1: a\n2: b", "c", NotFound),
        # What is to be written is no guess: some of its lines are numbered and some are not.
        (LISTED, "5: def b():\n6:     return 2", "5: def b():\n    return 3", InvalidArguments),
    ],
    ids=repr,
)
def test_what_only_looks_like_a_listing_changes_nothing(
    before: str, old: str, new: str, error: type[ToolError]
) -> None:
    with pytest.raises(error):
        edit(before, old, new)


@owes("edit-32")
def test_numbers_that_are_the_files_own_stay() -> None:
    assert after("1: a\n2: b\n", "1: a\n2: b", "1: c\n2: b") == "1: c\n2: b\n"
    assert after("  1: a\n  2: b\n", "1: a\n2: b", "1: c\n2: b") == "  1: c\n  2: b\n"


@owes("edit-13", "K-38")
@pytest.mark.parametrize(
    ("before", "old", "new", "wanted"),
    [
        ("wait...\nx = 1\n", "wait…\nx = 1", "wait…\nx = 2", "wait...\nx = 2\n"),
        ("wait…\nx = 1\n", "wait...\nx = 1", "wait...\nx = 2", "wait…\nx = 2\n"),
        ("a ... b ... c\n", "a … b … c", "a … b … d", "a ... b ... d\n"),
        ("  f(*args, ...)\n", "f(*args, …)", "g(*args, …)", "  g(*args, ...)\n"),
        # The writer's U+2026 for three dots is a habit: new ones are written as the file writes them.
        ("a\nb...\n", "a\nb…", "…\nb…", "...\nb...\n"),
    ],
    ids=repr,
)
def test_an_ellipsis_is_found_as_three_dots_and_stays_as_the_file_has_it(
    before: str, old: str, new: str, wanted: str
) -> None:
    done = edit(before, old, new)

    assert (done.data.decode(), done.strategy) == (wanted, "normalized")


def test_an_ellipsis_that_fits_in_two_places_is_refused() -> None:
    with pytest.raises(NotUnique, match="lines 1, 2"):
        edit("f(...)\nf(...)\n", "f(…)", "g(…)")


def test_a_python_file_that_parses_still_does_after_a_re_indented_edit() -> None:
    before = "def f():\n    a()\n    b()\n"

    with pytest.raises(NotFound, match="would not parse"):
        apply_edit(before.encode(), Edit(old="a()\nb()\n", new="if x:\na()\nb()\n"), path="f.py")
