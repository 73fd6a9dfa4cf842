"""Signature: names and annotations when a tool is made, schema at first use."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable
from typing import Annotated, Any

import jsonschema_rs
import pytest

from pegboard.core.context import Context
from pegboard.core.errors import BuildError, InvalidArguments
from pegboard.core.schema.annotations import MISSING, Alias, Inject, Unadvertised
from pegboard.core.schema.signature import Signature
from tests.core.schema import signatures as given
from tests.ledger import DATA, owes


def cases(*ids: str) -> list[dict[str, Any]]:
    with (DATA / "cases" / "dev.jsonl").open(encoding="utf-8") as lines:
        rows = {row["id"]: row for row in map(json.loads, lines)}
    return [rows[i] for i in ids]


SCHEMA_CASES = {
    "schema-01": given.search,
    "schema-05": given.fruit,
    "schema-07": given.level,
    "schema-09": given.tree,
    "schema-10": given.tally,
    "schema-18": given.ping,
}


@owes("schema-01", "schema-05", "schema-07", "schema-09", "schema-10", "schema-18", "K-03")
@pytest.mark.parametrize("case", cases(*SCHEMA_CASES), ids=list(SCHEMA_CASES))
def test_the_schema_of_a_case_accepts_and_rejects_what_the_case_says(case: dict[str, Any]) -> None:
    schema = Signature.of(SCHEMA_CASES[case["id"]]).schema
    validator = jsonschema_rs.Draft202012Validator(dict(schema))

    for value in case["calc"]["accept"]:
        assert validator.is_valid(value), value
    for value in case["calc"]["reject"]:
        assert not validator.is_valid(value), value


@owes("C-01", "C-04", "C-07", "K-01", "X-07")
def test_a_typed_function_becomes_a_schema_with_its_docstring() -> None:
    signature = Signature.of(given.lookup)

    assert signature.description == "Look rows up.\n\nNothing is changed."
    assert signature.documented.returns == "The rows as text."
    assert signature.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in words."},
            "limit": {"type": "integer", "description": "How many rows."},
            "threshold": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "where": {"$ref": "#/$defs/Where"},
        },
        "required": ["query", "limit", "threshold", "tags", "where"],
        "additionalProperties": False,
        "$defs": {
            "Where": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "op": {"enum": ["eq", "lt", "gt"], "type": "string"},
                    "value": {"type": "number"},
                },
                "required": ["field", "op", "value"],
                "additionalProperties": False,
            }
        },
    }
    jsonschema_rs.meta.validate(dict(signature.schema))


@owes("schema-02", "C-04")
def test_a_default_is_in_the_schema_and_an_absent_or_null_argument_takes_it() -> None:
    signature = Signature.of(given.top)

    assert signature.schema["properties"] == {"n": {"type": "integer", "default": 5}}
    assert signature.schema["required"] == []
    assert signature.decode('{"n": null}').arguments == {"n": 5}
    assert signature.decode("{}").arguments == {"n": 5}


@owes("schema-03")
def test_postponed_unions_give_the_same_schema_as_optional() -> None:
    assert Signature.of(given.search_604).schema == Signature.of(given.search).schema


@owes("schema-04")
def test_a_name_known_only_to_the_type_checker_is_refused_with_function_parameter_and_name() -> None:
    with pytest.raises(BuildError) as caught:
        Signature.of(given.pay)

    assert all(word in str(caught.value) for word in ("pay", "'x'", "'Decimal'"))


def test_an_annotation_that_is_no_expression_is_refused() -> None:
    def odd(x: int) -> None: ...

    odd.__annotations__["x"] = "int["
    with pytest.raises(BuildError, match="odd: cannot resolve the annotation 'int\\['"):
        Signature.of(odd)


def test_annotations_may_name_what_stands_in_the_function_that_defines_the_tool() -> None:
    class Local:
        pass

    later: Any
    seen: list[Any] = [lambda: later]  # noqa: F821  a cell that stays empty

    def tool(x: Inject[Local], y: Annotated[int, later_marker()] = 0) -> str:
        return str((seen, Local, later))  # noqa: F821

    assert Signature.of(tool).inject == {"x": Local}


def later_marker() -> Alias:
    return Alias("why")


@owes("schema-22")
def test_injected_parameters_are_absent_from_the_schema_and_a_value_for_one_is_unknown() -> None:
    signature = Signature.of(given.injected)

    assert signature.inject == {"ctx": Context, "files": given.Files, "more": given.Files}
    assert signature.optional_inject == {"more"}
    assert list(signature.schema["properties"]) == ["q"]
    with pytest.raises(InvalidArguments, match=r"\.ctx: unknown argument"):
        signature.decode({"q": "x", "ctx": {"user": "root"}})


@owes("schema-22", "A-17")
def test_an_injected_name_is_not_passed_on_by_a_function_that_takes_other_names() -> None:
    signature = Signature.of(given.injected_open)

    assert signature.decode('{"q": "x", "extra": 1}').arguments == {"q": "x", "extra": 1}
    with pytest.raises(InvalidArguments, match=r"\.ctx: unknown argument"):
        signature.decode('{"q": "x", "ctx": 1}')
    assert signature.schema["additionalProperties"] is True


def test_a_port_is_optional_by_type_or_by_default() -> None:
    assert Signature.of(given.optional_port).optional_inject == {"files", "other"}


def test_a_port_may_be_named_as_text() -> None:
    def tool(files: Any) -> None: ...

    tool.__annotations__["files"] = Inject["given.Files"]
    assert Signature.of(tool).inject == {"files": given.Files}


@owes("schema-23", "C-02", "C-03")
def test_methods_callables_partials_and_lambdas_are_tools_without_self() -> None:
    kit = given.Kit()

    for callable_, name in ((kit.m, "m"), (kit.n, "n"), (kit, "Kit"), (functools.partial(kit.m), "partial")):
        signature = Signature.of(callable_)
        assert list(signature.schema["properties"]) == ["a"], name
        assert signature.name == name
    assert Signature.of(given.Kit.m, bound=True).schema["required"] == ["a"]
    assert Signature.of(lambda x, y=2: x + y, name="add").schema["properties"]["y"]["type"] == "integer"
    assert Signature.of(kit).description == "Call it."
    assert Signature.of(functools.partial(kit.m)).description == "A method."


def test_a_partial_keeps_what_it_has_fixed_out_of_the_schema() -> None:
    signature = Signature.of(functools.partial(given.search, lang="de"))

    assert list(signature.schema["properties"]) == ["q"]
    assert list(Signature.of(functools.partial(given.search, "x")).schema["properties"]) == ["lang"]


def test_a_wrapped_function_shows_the_signature_of_the_function_inside() -> None:
    @functools.wraps(given.injected)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return given.injected(*args, **kwargs)

    signature = Signature.of(outer)

    assert [p.name for p in signature.parameters] == ["q"]
    assert set(signature.inject) == {"ctx", "files", "more"}


def test_a_class_is_called_with_its_initialisers_parameters() -> None:
    signature = Signature.of(given.Row)

    assert signature.schema["required"] == ["id"]


class _Marked:
    def method(self, a: int, **rest: Any) -> None: ...

    method.note = 1  # type: ignore[attr-defined]  a function with attributes is read by inspect


def test_a_method_with_attributes_is_read_too() -> None:
    signature = Signature.of(_Marked().method)

    assert [p.name for p in signature.parameters] == ["a"]
    assert signature.var_keyword
    with pytest.raises(BuildError, match="without its object"):
        Signature.of(_Marked.method)


def _with(function: Any) -> Any:
    function.note = 1
    return function


@pytest.mark.parametrize("mark", [lambda f: f, _with], ids=["plain", "with attributes"])
def test_signatures_that_json_cannot_call_are_refused(mark: Any) -> None:
    def positional(a: int, /) -> None: ...
    def variadic(*values: int) -> None: ...

    with pytest.raises(BuildError, match=r"positional: parameter 'a' is positional-only.*remove the '/'"):
        Signature.of(mark(positional))
    with pytest.raises(BuildError, match=r"variadic: \*values has no place.*values: list\[str\]"):
        Signature.of(mark(variadic))


def test_an_unbound_method_and_a_function_without_signature_are_refused() -> None:
    with pytest.raises(BuildError, match="without its object"):
        Signature.of(given.Kit.m)
    with pytest.raises(BuildError, match="Python cannot tell"):
        Signature.of(getattr)
    with pytest.raises(BuildError, match="no place in a JSON object"):
        Signature.of(given.Kit().variadic)


@owes("schema-05")
def test_an_enum_shows_its_values_and_the_function_gets_a_member() -> None:
    signature = Signature.of(given.fruit)

    assert signature.schema["properties"]["c"]["enum"] == ["apple", "pear"]
    assert signature.decode('{"c": "apple"}').arguments["c"] is given.Fruit.APPLE
    for wrong in ("APPLE", "plum"):
        with pytest.raises(InvalidArguments, match="'apple' or 'pear'"):
            signature.decode({"c": wrong})


@owes("schema-07")
def test_true_is_no_member_of_a_literal_of_integers() -> None:
    signature = Signature.of(given.level)

    assert signature.decode('{"n": 2}').arguments == {"n": 2}
    assert signature.decode('{"n": "2"}').arguments == {"n": 2}
    for wrong in ("4", '"x"', "true"):
        with pytest.raises(InvalidArguments, match=r"1, 2,? (or )?3"):
            signature.decode(f'{{"n": {wrong}}}')


@owes("schema-09")
def test_a_recursive_model_keeps_its_reference_and_decodes_at_depth_five() -> None:
    signature = Signature.of(given.tree)
    value: dict[str, Any] = {"name": "leaf"}
    for depth in range(5):
        value = {"name": str(depth), "kids": [value]}

    node = signature.decode({"n": value}).arguments["n"]

    for _ in range(5):
        assert isinstance(node, given.Node)
        node = node.kids[0]
    assert node.name == "leaf"


@owes("schema-10")
def test_a_map_keeps_its_value_type() -> None:
    signature = Signature.of(given.tally)

    assert signature.schema["properties"]["m"]["additionalProperties"] == {"type": "integer"}
    assert given.tally(**signature.decode({"m": {"a": 1, "b": 2}}).arguments) == 3


@owes("schema-18")
def test_a_tool_without_parameters_has_an_empty_closed_object_and_runs_on_nothing() -> None:
    signature = Signature.of(given.ping)

    assert signature.schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    for nothing in ("{}", "", "null", " ", None, {}):
        assert signature.decode(nothing).arguments == {}
    with pytest.raises(InvalidArguments, match="takes none"):
        signature.decode({"x": 1})


@owes("schema-19")
def test_bare_lists_and_maps_have_items_and_free_keys() -> None:
    properties = Signature.of(given.loose).schema["properties"]

    assert properties == {
        "xs": {"type": "array", "items": {}},
        "m": {"type": "object", "additionalProperties": True},
    }


def test_a_parameter_without_annotation_is_read_off_its_default_or_takes_anything() -> None:
    properties = Signature.of(given.anything).schema["properties"]

    assert properties == {"a": {}, "b": {"type": "integer", "default": 3}, "c": {"default": None}}


def test_a_none_default_of_a_type_without_none_only_means_optional() -> None:
    signature = Signature.of(given.none_default)

    assert signature.schema["properties"]["limit"] == {"type": "integer"}
    assert signature.decode('{"limit": null}').arguments == {"limit": None, "name": "n"}


def test_a_pydantic_field_gives_bounds_description_and_default() -> None:
    signature = Signature.of(given.bounded)

    assert signature.schema["properties"]["n"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "default": 5, "description": "Between one and nine.",
    }  # fmt: skip
    assert signature.decode("{}").arguments == {"n": 5, "m": 0}
    with pytest.raises(InvalidArguments, match=r"\.n: must be less than or equal to 9, got 12"):
        signature.decode({"n": 12})
    assert Signature.of(given.needed).parameters[0].default is MISSING
    assert repr(MISSING) == "MISSING"


@owes("U-12")
def test_a_mutable_default_is_copied_for_each_call() -> None:
    signature = Signature.of(given.read)

    signature.decode('{"path": "a"}').arguments["pages"].append(1)

    assert signature.decode('{"path": "a"}').arguments["pages"] == []


def test_markers_give_description_aliases_and_examples() -> None:
    signature = Signature.of(given.read)

    assert (
        signature.schema["properties"]["path"]["description"]
        == "Path of the file, relative to the workspace."
    )
    assert signature.schema["properties"]["pages"]["examples"] == [[1, 2]]
    assert signature.parameters[0].marker is not None
    assert signature.decode({"file_path": "a", "page_numbers": [3]}).arguments == {"path": "a", "pages": [3]}


def test_markers_are_found_inside_lists_and_unions() -> None:
    markers = [p.marker.kind if p.marker else None for p in Signature.of(given.read_many).parameters]

    assert markers == ["read", "read"]


def test_an_alias_that_two_parameters_would_claim_is_nobodys() -> None:
    signature = Signature.of(given.copy)

    assert signature.aliases == {}
    with pytest.raises(InvalidArguments, match=r"\.file_path: unknown argument"):
        signature.decode({"file_path": "a", "dst": "b"})


def test_an_alias_written_out_must_be_free() -> None:
    def taken(a: Annotated[int, Alias("b")], b: int) -> None: ...
    def twice(a: Annotated[int, Alias("x")], b: Annotated[int, Alias("x")]) -> None: ...

    for function in (taken, twice):
        with pytest.raises(BuildError, match=r"alias .* is taken already"):
            Signature.of(function)


def test_unhashable_metadata_is_read_too() -> None:
    def tool(a: Annotated[int, ["unhashable"], Alias("b")]) -> None: ...

    assert Signature.of(tool).aliases == {"b": "a"}


def test_a_type_that_json_cannot_say_is_named_at_check() -> None:
    with pytest.raises(BuildError, match="opaque: parameter 'x' has a type that cannot be said in JSON"):
        Signature.of(given.opaque).check()


def test_a_type_without_json_schema_is_named_at_check() -> None:
    from collections.abc import Callable

    def tool(f: Callable[[int], int]) -> None: ...

    with pytest.raises(BuildError, match="tool: a type cannot be said in JSON"):
        Signature.of(tool).check()


def test_names_inside_a_type_are_resolved_at_check() -> None:
    def good(xs: Any) -> None: ...
    def bad(xs: Any) -> None: ...

    good.__annotations__["xs"] = list["given.Box"]  # type: ignore[type-arg]
    bad.__annotations__["xs"] = list["Nowhere"]  # type: ignore[type-arg]  # noqa: F821
    good.__module__ = __name__

    assert Signature.of(good).schema["properties"]["xs"]["items"] == {"$ref": "#/$defs/Box"}
    with pytest.raises(BuildError, match=r"bad: parameter 'xs'.*Nowhere"):
        Signature.of(bad).check()


@owes("G-13")
def test_a_declared_result_has_a_schema_and_a_check() -> None:
    signature = Signature.of(given.boxed)

    assert signature.output_schema is not None
    assert signature.output_schema["properties"]["id"] == {"type": "integer"}
    assert signature.output.dump(given.Row(1)) == {"id": 1, "tags": []}
    with pytest.raises(ValueError):
        signature.output.dump("no row")
    signature.check()


@owes("G-13")
def test_text_blocks_streams_and_unknown_results_declare_nothing() -> None:
    from collections.abc import AsyncIterator

    from pegboard.core.content import Image
    from pegboard.core.result import ToolResult

    returns = (
        str,
        None,
        Any,
        ToolResult,
        Image,
        list[Image],
        str | given.Box,
        given.Opaque,
        AsyncIterator[int],
        "Nowhere",
        list["Nowhere"],  # type: ignore[name-defined]  # noqa: F821
    )
    for annotation in returns:

        def tool() -> Any: ...

        tool.__annotations__["return"] = annotation
        assert Signature.of(tool).output_schema is None, annotation
    with pytest.raises(ValueError, match="declares no result"):
        Signature.of(given.ping).output.dump("x")


@owes("G-13")
def test_lists_optionals_maps_and_awaitables_declare_what_they_hold() -> None:
    for annotation, kind in (
        (list[str], "array"),
        (list[given.Box], "array"),
        (dict[str, int], "object"),
        (Awaitable[given.Page], "object"),
        (int, "integer"),
        (list["given.Box"], "array"),
    ):

        def tool() -> Any: ...

        tool.__annotations__["return"] = annotation
        schema = Signature.of(tool).output_schema
        assert schema is not None
        assert schema["type"] == kind

    def maybe() -> given.Box | None: ...
    def untyped(): ...

    assert Signature.of(maybe).output_schema is not None
    assert Signature.of(untyped).output_schema is None


def test_a_result_type_without_json_schema_declares_nothing() -> None:
    from collections.abc import Callable

    def tool() -> Callable[[int], int]: ...

    assert Signature.of(tool).output_schema is None


def test_the_text_form_names_the_parameters() -> None:
    assert repr(Signature.of(given.lookup)) == "<Signature lookup(query, limit, threshold, tags, where)>"


def test_an_optional_context_is_injected_too() -> None:
    signature = Signature.of(given.maybe_context)

    assert signature.inject == {"ctx": Context}
    assert signature.optional_inject == {"ctx"}


def test_an_alias_gives_way_to_a_parameter_of_its_name() -> None:
    aliases = Signature.of(given.move).aliases

    assert {"file_path", "file_path", "filename"} <= set(aliases)
    assert "file" not in aliases


def test_typed_dicts_of_the_standard_library_work_wherever_they_stand() -> None:
    def modern(
        x: given.Modern,
        pages: list[given.Page],
        noted: Annotated[given.Page, "n"],
        plain: Annotated[int, "n"],
        maybe: given.Page | None = None,
        many: given.Page | int = 0,
    ) -> None: ...

    schema = Signature.of(modern).schema

    page = schema["$defs"]["Page"]
    assert page == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["title", "size"],
        "additionalProperties": False,
    }
    decoded = Signature.of(modern).decode(
        {
            "x": {"pages": 1},
            "pages": [{"title": "t", "size": 1}],
            "noted": {"title": "t", "size": 1},
            "plain": 1,
        }
    )
    assert decoded.arguments["pages"] == [{"title": "t", "size": 1}]


def test_a_wrong_reading_of_itself_in_a_typed_dict_is_told() -> None:
    def tool(book: given.Book) -> None: ...

    signature = Signature.of(tool)
    try:
        signature.check()
    except BuildError as error:
        assert "tool: parameter 'book'" in str(error)
    else:
        # Later Pythons read it rightly.
        with pytest.raises(InvalidArguments, match="pages"):
            signature.decode({"book": {"pages": [], "next": {}}})


def test_a_callable_object_of_a_builtin_kind_has_no_module_to_look_in() -> None:
    from pegboard.core.schema.annotations import local_scope

    assert local_scope(len) == {}


def test_a_pattern_that_cannot_be_run_is_named_at_registration() -> None:
    from pydantic import Field

    def tool(a: int, code: Annotated[str, Field(pattern=r"^(?=x)x$")]) -> None: ...

    with pytest.raises(BuildError) as caught:
        Signature.of(tool).check()

    for word in ("tool", '"code"', "^(?=x)x$", "look-around"):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("default", [float("inf"), float("-inf"), float("nan")])
def test_a_default_that_json_cannot_say_is_not_shown_and_still_taken(default: float) -> None:
    def tool(a: float = default, b: float = 1.5) -> None: ...

    signature = Signature.of(tool)

    assert signature.schema["properties"] == {
        "a": {"type": "number"},
        "b": {"default": 1.5, "type": "number"},
    }
    assert str(signature.decode({}).arguments["a"]) == str(default)


@owes("X-11")
def test_an_unadvertised_parameter_is_decoded_as_any_other_and_no_model_is_told_of_it() -> None:
    def search(pattern: str, whole: Annotated[bool, Unadvertised(), Alias("-w")] = False) -> str:
        """Search.

        Args:
            pattern: What to look for.
            whole: Only whole words.
        """
        return f"{pattern} {whole}"

    signature = Signature.of(search)

    assert list(signature.schema["properties"]) == ["pattern"]
    assert "whole" not in json.dumps(signature.schema)
    assert signature.decode({"pattern": "x", "whole": True}).arguments == {"pattern": "x", "whole": True}
    assert signature.decode({"pattern": "x", "-w": "true"}).arguments == {"pattern": "x", "whole": True}
    assert signature.decode({"pattern": "x"}).arguments == {"pattern": "x", "whole": False}
