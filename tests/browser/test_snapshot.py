"""The text of a page, its refs and its secrets, without a browser."""

from __future__ import annotations

import pytest

from pegboard.browser.snapshot import PageText, Secrets, changed_lines, read_ref
from pegboard.core.errors import InvalidArguments

FIRST = """- generic [active] [ref=e1]:
  - link "Near [ref=e9]" [ref=e2] [cursor=pointer]:
    - /url: next?a=1
  - link "Quoted" [ref=e3]:
    - /url: "https://other.example/?q=\\"x\\""
  - iframe [ref=e4]:
    - link "Inside" [ref=f1e2]:
      - /url: inner
    - link "Far" [ref=f1e3]:
      - /url: https://far.example/
  - textbox "Pin" [ref=e5]: 1234"""
SECOND = FIRST.replace("[ref=e", "[ref=f2e")


def test_refs_say_their_tab_and_links_their_whole_address() -> None:
    page = PageText("t7")

    shown, other = page.show(FIRST, "https://shop.example/base/")
    again = page.show(FIRST, "https://shop.example/base/")[1]
    moved = page.show(SECOND, "https://shop.example/")[1]

    assert "[ref=t7e1]" in shown
    assert (other, again, moved) == (True, False, True)
    assert page.links["t7f2e2"] == "https://shop.example/next?a=1"
    page.show(FIRST, "https://shop.example/base/")
    assert page.links == {
        "t7e2": "https://shop.example/base/next?a=1",
        "t7e3": 'https://other.example/?q="x"',
        "t7f1e3": "https://far.example/",
    }


def test_a_part_is_the_element_with_what_it_holds() -> None:
    page = PageText("t1")
    page.show(FIRST, "https://shop.example/")

    assert page.part("e3").splitlines() == [
        '- link "Quoted" [ref=t1e3]:', '  - /url: "https://other.example/?q=\\"x\\""'
    ]  # fmt: skip
    assert page.part("e5") == '- textbox "Pin" [ref=t1e5]: 1234'
    assert page.part("e99") == ""


@pytest.mark.parametrize("text", ["t2f1e3", "[ref=t2f1e3]", "ref=t2f1e3", " @t2f1e3 ", "aria-ref=t2f1e3"])
def test_a_ref_is_read_as_models_write_it(text: str) -> None:
    assert read_ref(text) == ("t2", "f1e3")


@pytest.mark.parametrize("text", ["", "button", "e", "t2", "12", "e1 e2", "t1e1; e2"])
def test_what_is_no_ref_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        read_ref(text)


def test_secrets_are_hidden_a_short_one_only_where_it_is_a_fields_value() -> None:
    secrets = Secrets()
    for value in ("1234", "", 'long "one" & more'):
        secrets.add(value)

    assert secrets.hide('- textbox "Pin" [ref=e5]: 1234\n- text: 1234 items') == (
        '- textbox "Pin" [ref=e5]: [hidden]\n- text: 1234 items'
    )
    for spelled in (
        'long "one" & more',
        r'"long \"one\" & more"',
        "long%20%22one%22%20%26%20more",
        "long+%22one%22+%26+more",
    ):
        assert "one" not in secrets.hide(f"x {spelled} y")


def test_changes_are_the_lines_that_changed_and_the_whole_where_that_is_shorter() -> None:
    before = "\n".join(f"- text: line {n}" for n in range(50))

    assert changed_lines(before, before.replace("- text: line 0", "- text: line 0 [active]")).startswith(
        "Nothing changed"
    )
    assert changed_lines(before, before.replace("line 7", "line seven")) == (
        "Changed in the snapshot:\n- - text: line 7\n+ - text: line seven"
    )
    assert changed_lines(before, "- text: all new") == "- text: all new"
