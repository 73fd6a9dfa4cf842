"""Toolkit: unique names, its algebra, and what a model may call a tool."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pegboard import PURE, BuildError, Executor, ReadPath, Tool, Toolkit, tool
from pegboard.core.errors import ToolNotFoundError
from pegboard.core.toolkit import as_tool
from tests.ledger import owes


def named(*names: str, aliases: tuple[str, ...] = ()) -> list[Tool]:
    def one(text: str = "") -> str:
        """Say."""
        return text

    return [Tool(one, name=n, effects=PURE, aliases=aliases) for n in names]


KIT = Toolkit(named("read_file", "write_file", "web_search"))


@owes("N-23", "K-08")
def test_a_kit_is_ordered_counted_and_looked_up() -> None:
    assert KIT.names == ("read_file", "write_file", "web_search")
    assert [t.name for t in KIT] == list(KIT.names)
    assert len(KIT) == 3
    assert "read_file" in KIT
    assert "x" not in KIT
    assert KIT["read_file"] is KIT.get("read_file")
    assert KIT.get("x") is None
    assert repr(KIT) == "Toolkit(read_file, write_file, web_search)"


@owes("D-05", "X-03")
def test_a_missing_name_raises_with_the_nearest() -> None:
    with pytest.raises(ToolNotFoundError, match="Tool 'web_serch' not registered; did you mean 'web_search'"):
        KIT["web_serch"]
    with pytest.raises(ToolNotFoundError, match="there are: none"):
        Toolkit()["x"]


def test_two_tools_of_one_name_are_refused_with_both_ways_out() -> None:
    with pytest.raises(BuildError) as caught:
        KIT + named("read_file")

    assert ".renamed(" in str(caught.value)
    assert ".without('read_file')" in str(caught.value)


def test_kits_add_up_with_tools_functions_and_lists_on_both_sides() -> None:
    @tool(effects=PURE)
    def extra() -> str:
        """Say."""
        return ""

    assert (KIT + extra).names[-1] == "extra"
    assert ([extra] + KIT).names[0] == "extra"  # noqa: RUF005  (the operator is what is tested)
    kit = KIT.keep("web_*") + (KIT.keep("read_file"), extra)  # noqa: RUF005
    assert kit.names == ("web_search", "read_file", "extra")


def test_keep_without_prefixed_and_renamed_give_new_kits() -> None:
    assert KIT.keep("*_file").names == ("read_file", "write_file")
    assert KIT.keep("web_search", "read_file").names == ("read_file", "web_search")
    assert KIT.without("*_file").names == ("web_search",)
    assert KIT.prefixed("fs_").names == ("fs_read_file", "fs_write_file", "fs_web_search")
    assert KIT.renamed({"web_search": "find"}).names == ("read_file", "write_file", "find")
    assert KIT.names == ("read_file", "write_file", "web_search")
    for wrong in (KIT.keep, KIT.without):
        with pytest.raises(ToolNotFoundError, match="'nope' not registered"):
            wrong("nope")
    with pytest.raises(ToolNotFoundError):
        KIT.renamed({"nope": "x"})


async def test_a_renamed_tool_runs_and_keeps_its_description() -> None:
    result = await Executor(KIT.renamed({"web_search": "find"})).call("find", {"text": "x"})

    assert str(result) == "x"


@owes("args-29", "K-06", "X-62")
@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("read_file", "read_file"),
        ("READ_FILE", "read_file"),
        (" read_file ", "read_file"),
        ("read-file", "read_file"),
        ("read file", "read_file"),
        ("functions.read_file", "read_file"),
        ("tools:read_file", "read_file"),
        ("default_api/read_file", "read_file"),
        ("Read", "read_file"),
        ("readFile", "read_file"),
        ("Write", "write_file"),
        ("write", "write_file"),
        ("web-Search", "web_search"),
        ("writ", None),
        ("read_files", None),
        ("red_file", None),
        ("file", None),
        ("bash", None),
        ("", None),
    ],
)
def test_name_noise_and_aliases_resolve_and_similar_names_never_do(sent: str, meant: str | None) -> None:
    found = KIT.resolve(sent)

    assert (found.name if found else None) == meant


@owes("X-62", "X-55", "K-06")
def test_names_of_other_systems_are_no_aliases_only_those_that_the_documents_list() -> None:
    kit = Toolkit(named("read_file", "write_file", "edit_file", "exec", "glob", "grep", "list_dir", "cron"))

    listed = {name: kit.resolve(name) for name in ("Edit", "Bash", "find_files", "schedule_task")}
    others = ("str_replace", "shell", "ls", "list_directory", "search_files", "cat", "run", "put_file")

    assert {name: found.name for name, found in listed.items() if found} == {
        "Edit": "edit_file", "Bash": "exec", "find_files": "glob", "schedule_task": "cron",
    }  # fmt: skip
    assert [name for name in others if kit.resolve(name) is not None] == []


@owes("N-25", "K-06")
async def test_an_unknown_name_is_told_with_the_nearest_and_a_long_one_with_its_length() -> None:
    executor = Executor(Toolkit(named("list_dir", "grep")))

    near = await executor.call("list_directory", {})
    long = await executor.call("x" * 120_000, {})

    assert "Did you mean 'list_dir'?" in near.text
    assert "120000 characters" in long.text
    assert len(long.text) < 400


@owes("K-06")
def test_what_is_no_text_is_no_tools_name() -> None:
    assert KIT.resolve(cast(Any, ["read_file"])) is None


def test_noise_that_fits_two_tools_resolves_to_neither() -> None:
    kit = Toolkit(named("Read_file", "read-file"))

    assert kit.resolve("READ_FILE") is None
    assert kit.resolve("read-file") is kit["read-file"]


def test_an_alias_of_a_tool_resolves_unless_it_is_a_tool_itself() -> None:
    kit = Toolkit([*named("search", aliases=("find", "read_file")), *named("read_file")])

    assert kit.resolve("Find") is kit["search"]
    assert kit.resolve("read_file") is kit["read_file"]
    assert kit.resolve("read_FILE") is kit["read_file"]


@owes("args-28")
async def test_a_tool_outside_the_kit_is_refused_without_listing_what_else_exists() -> None:
    agents = Toolkit(named("web_search"))

    result = await Executor(agents).call("delete_file", {"path": "x"})

    assert result.error is not None
    assert result.error.code == "unknown_tool"
    assert "web_search" in str(result)
    assert "write_file" not in str(result)


def test_check_tells_of_all_wrong_tools_at_once() -> None:
    class Odd:
        """No JSON schema."""

    def one(x: Odd) -> str:
        """Say."""
        return ""

    kit = Toolkit([Tool(one, name=n, effects=PURE) for n in ("a", "b")] + named("fine"))

    with pytest.raises(BuildError) as caught:
        kit.check()

    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines if line[:2] in ("a:", "b:")] == ["a", "b"]
    assert KIT.check() is KIT


@owes("N-20", "K-08")
def test_schemas_are_rendered_once_and_given_as_a_list_of_their_own() -> None:
    first = KIT.schemas()
    first.clear()

    assert [s["function"]["name"] for s in KIT.schemas()] == list(KIT.names)
    assert KIT.schemas() == KIT.schemas()


def test_a_rendering_that_is_text_is_given_as_it_is() -> None:
    kit = Toolkit(named("a"))
    kit._rendered["xml"] = "<tools/>"

    assert kit.schemas("xml") == "<tools/>"


def test_tools_are_made_of_functions_subclasses_and_things_that_say_how() -> None:
    class Weather(Tool):
        """Tells the weather."""

        effects = PURE

        async def run(self) -> str:
            """Tell."""
            return "rain"

    class Foreign:
        def to_tool(self) -> Any:
            return Weather

    assert as_tool(Weather).name == "weather"
    assert as_tool(Foreign()).name == "weather"
    for wrong in (5, "read_file", dict):
        with pytest.raises(BuildError, match="is not a tool"):
            as_tool(wrong)


@owes("G-13")
def test_a_tool_knows_the_schema_of_its_result() -> None:
    @tool(effects=PURE)
    def count() -> dict[str, int]:
        """Count."""
        return {}

    assert count.output_schema == count.signature.output_schema
    assert as_tool(lambda_named).name == "lambda_named"


def lambda_named(path: ReadPath) -> str:
    """Read."""
    return path
