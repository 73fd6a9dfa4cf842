"""Theme 1: a typed function becomes a schema that every provider takes."""

from __future__ import annotations

import enum
import functools
import importlib.util
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel

from pegboard import PURE, Context, Executor, Inject, ToolCall, Toolkit, tool
from pegboard.core.errors import BuildError
from tests.cases.kit import nodes, of_kind, row_id, rows
from tests.ledger import owes

DIALECTS = ("openai-chat", "openai-chat-strict", "openai-responses", "anthropic", "gemini", "mcp")

PRELUDE = """
from __future__ import annotations
import enum
from enum import Enum
from typing import *
from pydantic import BaseModel
from pegboard import Context as RunContext
"""


def compiled(source: str, folder: Path) -> ModuleType:
    """A module file with this source, imported: annotations are resolved as users' are."""
    name = f"case_{abs(hash((source, str(folder))))}"
    lines: list[str] = []
    for line in source.splitlines():
        one_line = line.lstrip().startswith(("def ", "async def ")) and not line.rstrip().endswith(":")
        lines.append(f"{line}: return repr(locals())" if one_line and "return" not in line else line)
    path = folder / f"{name}.py"
    path.write_text(PRELUDE + "\n".join(lines).replace("from __future__ import annotations", "") + "\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def the_tool(source: str, folder: Path) -> Any:
    module = compiled(source, folder)
    found = [v for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__
             and not isinstance(v, type)]  # fmt: skip
    return tool(effects=PURE)(found[-1])


def parameters(entry: dict[str, Any]) -> dict[str, Any]:
    inner = entry.get("function", entry)
    return inner.get("parameters") or inner.get("input_schema") or inner.get("inputSchema") or {}


def exported(made: Any, name: str) -> dict[str, Any]:
    """The parameters of one tool as a dialect sends them."""
    listed = Toolkit([made]).schemas(name)
    if name == "gemini":
        declared = listed[0]
        return (declared.get("functionDeclarations") or declared.get("function_declarations") or [declared])[
            0
        ]["parameters"]
    return parameters(listed[0])


@owes("schema-01", "schema-05", "schema-07", "schema-09", "schema-10", "schema-18")
@pytest.mark.parametrize("row", of_kind("1-schema", "schema"), ids=row_id)
async def test_a_function_takes_what_its_case_accepts_and_refuses_the_rest(
    row: dict[str, Any], tmp_path: Path
) -> None:
    made = the_tool(row["input"]["py"], tmp_path)
    door = Executor([made])

    for accepted in row["calc"]["accept"]:
        assert (await door.call(made.name, accepted)).ok, accepted
    for refused in row["calc"]["reject"]:
        result = await door.call(made.name, refused)
        assert not result.ok and result.error is not None
        assert result.error.code == "invalid_arguments", refused


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("row", [r for r in rows("1-schema").values() if r["id"] not in ("schema-04", "schema-23")], ids=row_id)  # fmt: skip
def test_every_case_is_a_root_object_without_unions_in_every_dialect(
    row: dict[str, Any], name: str, tmp_path: Path
) -> None:
    begun = time.process_time()

    schema = exported(the_tool(row["input"]["py"], tmp_path), name)

    assert time.process_time() - begun < 1
    assert str(schema["type"]).lower() == "object"
    assert isinstance(schema["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & set(schema)
    for node in nodes(schema):
        if str(node.get("type")).lower() == "array":
            assert "items" in node
    if name == "gemini":
        assert "$ref" not in str(schema) and "$defs" not in str(schema)
        assert all("" not in node["enum"] for node in nodes(schema) if isinstance(node.get("enum"), list))
        for node in nodes(schema):
            if "anyOf" in node:
                assert set(node) <= {"anyOf"}


@owes("schema-01")
async def test_an_optional_text_is_left_out_or_null_and_strict_lists_it() -> None:
    @tool(effects=PURE)
    def f(q: str, lang: Optional[str] = None) -> str:  # noqa: UP045
        """Find."""
        return f"{q}|{lang!r}"

    plain, strict = exported(f, "openai-chat"), exported(f, "openai-chat-strict")

    assert plain["required"] == ["q"]
    assert sorted(strict["required"]) == ["lang", "q"]
    assert strict["additionalProperties"] is False
    assert "null" in str(strict["properties"]["lang"])
    assert str(await Executor([f]).call("f", {"q": "x", "lang": None})) == "x|None"
    assert str(await Executor([f]).call("f", {"q": "x"})) == "x|None"


@owes("schema-02")
async def test_strict_carries_no_default_and_null_means_the_default() -> None:
    @tool(effects=PURE)
    def top(n: int = 5) -> str:
        """Top."""
        return f"top {n}"

    strict, plain = exported(top, "openai-chat-strict"), exported(top, "openai-chat")

    assert not any("default" in node for node in nodes(strict))
    assert plain["properties"]["n"]["default"] == 5
    assert "n" not in plain.get("required", [])
    for arguments in ({"n": None}, {}, '{"n": null}'):
        assert str(await Executor([top]).call("top", arguments)) == "top 5"


@owes("schema-03")
def test_postponed_unions_are_the_unions_themselves(tmp_path: Path) -> None:
    later = the_tool("def hi(name: str | None = None, k: int = 3)->str", tmp_path)

    @tool(effects=PURE)
    def hi(name: Optional[str] = None, k: int = 3) -> str:  # noqa: UP045
        return ""

    assert exported(later, "openai-chat") == exported(hi, "openai-chat")


@owes("schema-04")
def test_a_type_that_only_the_checker_sees_is_named_at_registration(tmp_path: Path) -> None:
    source = "if TYPE_CHECKING:\n  from decimal import Decimal\ndef pay(x: 'Decimal')->str"

    with pytest.raises(BuildError) as caught:
        Toolkit([the_tool(source, tmp_path)]).check()

    assert all(word in str(caught.value) for word in ("pay", "x", "Decimal"))


class Fruit(str, enum.Enum):  # noqa: UP042
    APPLE = "apple"
    PEAR = "pear"


@owes("schema-05")
async def test_an_enum_is_listed_by_value_and_arrives_as_a_member() -> None:
    @tool(effects=PURE)
    def fruit(c: Fruit) -> str:
        """Fruit."""
        return c.name

    door = Executor([fruit])

    assert exported(fruit, "openai-chat")["properties"]["c"]["enum"] == ["apple", "pear"]
    assert str(await door.call("fruit", {"c": "apple"})) == "APPLE"
    for wrong in ("APPLE", "plum"):
        said = str(await door.call("fruit", {"c": wrong}))
        assert "apple" in said and "pear" in said


@owes("schema-06")
async def test_an_empty_choice_can_still_be_made_where_it_cannot_be_listed() -> None:
    @tool(effects=PURE)
    def f(code: Literal["", "DE", "FR"] = "") -> str:
        """Country."""
        return f"<{code}>"

    assert all("" not in n["enum"] for n in nodes(exported(f, "gemini")) if isinstance(n.get("enum"), list))
    assert str(await Executor([f]).call("f", {"code": ""})) == "<>"


@owes("schema-07")
async def test_a_literal_of_integers_tells_text_numbers_and_booleans_apart() -> None:
    @tool(effects=PURE)
    def lvl(n: Literal[1, 2, 3]) -> int:
        """Level."""
        return n

    door = Executor([lvl])

    for given in (2, "2"):
        data = (await door.call("lvl", {"n": given})).data
        assert (data, type(data)) == (2, int)
    for wrong in (4, "x", True):
        result = await door.call("lvl", {"n": wrong})
        assert not result.ok and all(n in str(result) for n in "123")


class Pt(BaseModel):
    lat: float


class Line(BaseModel):
    start: Pt
    end: Pt


@owes("schema-08")
async def test_a_model_used_twice_is_written_out_twice_for_gemini() -> None:
    @tool(effects=PURE)
    def draw(c: Line) -> str:
        """Draw."""
        return f"{c.start.lat} {c.end.lat}"

    line = exported(draw, "gemini")["properties"]["c"]

    assert "$ref" not in str(line)
    for side in ("start", "end"):
        assert str(line["properties"][side]["properties"]["lat"]["type"]).lower() == "number"
    assert (
        str(await Executor([draw]).call("draw", {"c": {"start": {"lat": 1}, "end": {"lat": 2.5}}}))
        == "1.0 2.5"
    )


class Node(BaseModel):
    name: str
    kids: list[Node] = []


@owes("schema-09")
async def test_a_recursive_model_is_finite_everywhere_and_arrives_whole() -> None:
    @tool(effects=PURE)
    def tree(n: Node) -> int:
        """Depth."""
        depth, at = 1, n
        while at.kids:
            depth, at = depth + 1, at.kids[0]
        return depth

    nested: dict[str, Any] = {"name": "5"}
    for level in "4321":
        nested = {"name": level, "kids": [nested]}

    for name in ("openai-chat", "anthropic"):
        assert "$defs" in exported(tree, name) and "$ref" in str(exported(tree, name))
    assert len(str(exported(tree, "gemini"))) < 20_000
    assert (await Executor([tree]).call("tree", {"n": nested})).data == 5


@owes("schema-10")
async def test_a_map_is_never_sent_as_an_empty_closed_object() -> None:
    @tool(effects=PURE)
    def tally(m: dict[str, int]) -> int:
        """Sum."""
        return sum(m.values())

    strict = Toolkit([tally]).schemas("openai-chat-strict")[0]["function"]

    assert exported(tally, "openai-chat")["properties"]["m"]["additionalProperties"] == {"type": "integer"}
    assert not strict.get("strict")
    assert strict["parameters"]["properties"]["m"].get("additionalProperties") is not False
    assert (await Executor([tally]).call("tally", {"m": {"a": 1, "b": 2}})).data == 3


@owes("schema-18")
async def test_a_tool_without_parameters_is_whole_in_every_dialect_and_runs_on_nothing() -> None:
    @tool(effects=PURE)
    def ping() -> str:
        """Ping."""
        return "pong"

    for name in DIALECTS:
        if name == "gemini":
            continue  # It takes no empty `properties`; the generic test covers it.
        schema = exported(ping, name)
        assert (schema["type"], schema["properties"], schema.get("required", [])) == ("object", {}, [])
    assert exported(ping, "openai-chat-strict")["additionalProperties"] is False
    for arguments in ({}, "", None, "null", "{}"):
        assert str(await Executor([ping]).call("ping", arguments)) == "pong"


@owes("schema-19")
async def test_bare_containers_say_what_they_hold() -> None:
    @tool(effects=PURE)
    def f(xs: list, m: dict, ys: list[Any]) -> int:  # type: ignore[type-arg]
        """Count."""
        return len(xs) + len(m) + len(ys)

    strict = Toolkit([f]).schemas("openai-chat-strict")[0]["function"]

    assert not strict.get("strict")
    for name in DIALECTS:
        for node in nodes(exported(f, name)):
            if str(node.get("type")).lower() == "array":
                assert "items" in node
    assert (await Executor([f]).call("f", {"xs": [1], "m": {"a": 1}, "ys": []})).data == 2


@owes("schema-20")
async def test_a_union_with_a_default_stands_alone_for_gemini() -> None:
    @tool(effects=PURE)
    def pick(slot: Union[int, str] = 9) -> str:  # noqa: UP007
        """Pick."""
        return repr(slot)

    for node in nodes(exported(pick, "gemini")):
        if "anyOf" in node:
            assert set(node) == {"anyOf"}
    assert str(await Executor([pick]).call("pick", {})) == "9"
    assert str(await Executor([pick]).call("pick", {"slot": "x"})) == "'x'"


@dataclass
class Login:
    user: str


@owes("schema-22")
async def test_a_model_cannot_forge_what_the_runtime_gives() -> None:
    seen: list[Any] = []

    @tool(effects=PURE)
    def f(ctx: Context, who: Inject[Login], q: str) -> str:
        """Ask."""
        seen.append((ctx, who))
        return q

    door = Executor([f], provide=[Login("owner")])

    for name in DIALECTS:
        assert "ctx" not in str(exported(f, name)) and "who" not in str(exported(f, name))
    assert "ctx" not in str(Toolkit([f]).schemas("xml"))
    assert (await door.call("f", {"q": "x"})).ok
    for forged in ("ctx", "who"):
        await door.call("f", {"q": "x", forged: {"user": "root"}})
    assert all(isinstance(c, Context) and w.user == "owner" for c, w in seen)


@owes("schema-23")
async def test_methods_partials_and_blocking_functions_are_tools() -> None:
    class K:
        def m(self, a: int) -> int:
            return a

        async def n(self, a: int) -> int:
            return a

    kit = Toolkit([tool(K().m, effects=PURE), tool(K().n, effects=PURE)])

    assert kit.names == ("m", "n")
    assert "self" not in str(kit.schemas("openai-chat"))
    for name in kit.names:
        assert (await Executor(kit).call(name, {"a": 3})).data == 3
    partial = functools.partial(K().m)
    try:
        assert tool(partial, effects=PURE).name == "m"
    except BuildError as error:
        assert "name" in str(error)

    both = threading.Barrier(2)

    @tool(effects=PURE)
    def meet() -> str:
        """Wait for the other one: alone, in order, none would ever return."""
        both.wait(timeout=30)
        return "met"

    results = await Executor([meet]).turn([ToolCall(str(i), "meet", "{}") for i in range(2)])
    assert [str(r) for r in results] == ["met", "met"]
