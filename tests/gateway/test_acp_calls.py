"""How calls look in an editor: diffs by hand, titles that pretend nothing, output that is no markup."""

from __future__ import annotations

from pathlib import Path

from pegboard.core.content import Image, Text
from pegboard.core.effects import Change, Effect
from pegboard.core.result import ToolResult
from pegboard.gateway.acp.calls import content_of, diffs_of, fenced, kind_of, locations_of, title_of
from pegboard.textedit.diff import unified

HERE = Path("/w")


def change(path: str, before: bytes | None, after: bytes | None) -> Change:
    kind = "create" if before is None else "delete" if after is None else "modify"
    return Change(path=path, kind=kind, before=before, after=after, diff=unified(path, before, after))


def test_each_part_of_a_change_is_a_diff_of_its_own() -> None:
    before = b"".join(b"%d\n" % n for n in range(1, 31))
    after = before.replace(b"2\n3\n", b"2\nthree\n", 1).replace(b"29\n", b"", 1)

    first, second = diffs_of(HERE, [change("a.txt", before, after)])
    [place] = locations_of(HERE, [Effect("write", "a.txt")], [change("a.txt", before, after)], {})

    assert first == {
        "type": "diff", "path": "/w/a.txt", "oldText": "1\n2\n3\n4\n5\n6\n", "newText": "1\n2\nthree\n4\n5\n6\n",
    }  # fmt: skip
    assert (second["oldText"], second["newText"]) == ("26\n27\n28\n29\n30\n", "26\n27\n28\n30\n")
    assert place == {"path": "/w/a.txt", "line": 1}


def test_a_missing_last_newline_is_kept_on_each_side() -> None:
    [added] = diffs_of(HERE, [change("a.txt", b"one", b"one\n")])
    [removed] = diffs_of(HERE, [change("a.txt", b"one\n", b"one")])
    [neither] = diffs_of(HERE, [change("a.txt", b"1\nx", b"2\nx")])

    assert (added["oldText"], added["newText"]) == ("one", "one\n")
    assert (removed["oldText"], removed["newText"]) == ("one\n", "one")
    assert (neither["oldText"], neither["newText"]) == ("1\nx", "2\nx")


def test_new_deleted_and_binary_files_are_told_apart() -> None:
    [new] = diffs_of(HERE, [change("n.txt", None, b"x\n")])
    gone, gone_line = diffs_of(HERE, [change("g.txt", b"x\n", None)])
    [binary] = diffs_of(HERE, [change("b.bin", b"\0\1", b"\0\2\3")])

    assert new == {"type": "diff", "path": "/w/n.txt", "newText": "x\n"}
    assert (gone["oldText"], gone["newText"]) == ("x\n", "")
    assert gone_line["content"]["text"].startswith("D g.txt")
    assert binary["content"]["text"] == "M b.bin (binary, 2 bytes -> 3 bytes)"


def test_a_title_shows_what_is_invisible_and_all_lines_of_a_command() -> None:
    hidden = title_of("read_file", [Effect("read", "a\u202etxt.exe")], {})
    command = title_of("exec", [Effect("exec", "ls"), Effect("exec", "rm x")], {"command": "ls\nrm x"})
    search = title_of("grep", [Effect("read", "**/src")], {"pattern": "TODO"})

    assert hidden == "read_file a\\u202etxt.exe"
    assert command == "ls ⏎ rm x"
    assert search.startswith("grep TODO ")
    assert len(title_of("exec", [Effect("exec", "x")], {"command": "y" * 5000})) <= 301


def test_kinds_follow_what_a_call_does() -> None:
    effects = {
        "execute": [Effect("write", "x"), Effect("exec", "touch x")], "delete": [Effect("delete", "x")],
        "edit": [Effect("read", "x"), Effect("write", "x")], "fetch": [Effect("connect", "example.com")],
        "read": [Effect("read", "x")], "other": [Effect("call", "server/tool")],
    }  # fmt: skip

    assert {kind: kind_of("tool", done) for kind, done in effects.items()} == {k: k for k in effects}
    assert (kind_of("grep", effects["read"]), kind_of("todo", [])) == ("search", "think")


def test_output_ends_no_fence_and_pictures_come_as_pictures() -> None:
    tricky = "```\n# heading\n````\n"
    result = ToolResult(content=(Text(tricky), Image(data=b"\x89PNG", mime_type="image/png")))

    text, picture = content_of(result, "execute", ())

    assert text["content"]["text"] == f"`````\n{tricky.rstrip()}\n`````"
    assert picture["content"] == {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}
    assert fenced("plain") == "```\nplain\n```"
