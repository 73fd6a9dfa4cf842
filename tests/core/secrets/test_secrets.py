"""secret://NAME: put in last, only for bound destinations, never seen elsewhere (G-11, K-87)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pegboard import Effect, Executor, tool
from pegboard.core.codec import event_to_dict
from pegboard.core.effects import Plan
from pegboard.core.errors import InvalidArguments, PermissionDenied
from pegboard.core.result import Shaper
from pegboard.core.secrets.handles import SecretBinding, check_references, fill_references, references
from pegboard.core.secrets.redact import Redactor
from tests.ledger import owes

VALUE = "hunter2-0123456789"


class Handles:
    """Two named secrets."""

    def __init__(self, **bindings: SecretBinding) -> None:
        self._bindings = bindings or {"api": SecretBinding(name="api", hosts=("*.example.com",))}
        self.looked_up: list[str] = []

    def binding(self, name: str) -> SecretBinding | None:
        return self._bindings.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._bindings)

    def value(self, name: str) -> str:
        self.looked_up.append(name)
        return VALUE


def door_with(handles: Handles, seen: list[Any]) -> Executor:
    @tool(effects=lambda a: [Effect("connect", a["host"])])
    def post(host: str, headers: dict[str, str], parts: list[str] | None = None) -> str:
        """Post with headers."""
        seen.append((headers, parts))
        return f"sent {headers}"

    door = Executor([post], policy=["allow connect"])
    door.wiring.safeguards = replace(door.wiring.safeguards, secrets=handles)
    door.pipeline.parts.guards = door.wiring.safeguards
    door.pipeline.parts.shaper = Shaper(redactor=Redactor({"api": VALUE}))
    return door


CALL = {
    "host": "a.example.com",
    "headers": {"Authorization": "Bearer secret://api"},
    "parts": ["x", "secret://api"],
}


@owes("G-11", "K-87")
async def test_the_tool_gets_the_value_and_records_digests_and_results_do_not() -> None:
    seen: list[Any] = []
    door = door_with(Handles(), seen)

    result = await door.call("post", CALL)

    assert seen == [({"Authorization": f"Bearer {VALUE}"}, ["x", VALUE])]
    assert result.ok
    assert VALUE not in result.text
    records = str([event_to_dict(e) for e in door.events])
    assert VALUE not in records
    assert "secret://api" in records


@owes("G-11")
async def test_a_destination_that_is_not_bound_is_refused_before_the_value_is_looked_up() -> None:
    seen: list[Any] = []
    handles = Handles()
    door = door_with(handles, seen)

    result = await door.call("post", {**CALL, "host": "evil-example.com"})
    preview = await door.preview("post", {**CALL, "host": "evil-example.com"})

    assert result.error is not None and result.error.code == "permission_denied"
    assert "*.example.com" in result.error.message
    assert preview.decision == "deny"
    assert not seen and not handles.looked_up


async def test_an_unknown_name_says_which_are_known() -> None:
    result = await door_with(Handles(), []).call("post", {**CALL, "parts": ["secret://aip"]})

    assert result.error is not None and result.error.code == "invalid_arguments"
    assert "'aip'" in result.error.message and "api" in result.error.message


async def test_without_any_configured_secret_the_text_is_text() -> None:
    seen: list[Any] = []
    door = door_with(Handles(), seen)
    door.pipeline.parts.guards = replace(door.pipeline.parts.guards, secrets=None)

    await door.call("post", CALL)

    assert seen[0][1] == ["x", "secret://api"]


@pytest.mark.parametrize(("effects", "fits"), [
    ((Effect("connect", "a.example.com"),), True),
    ((Effect("read", "x"), Effect("connect", "a.example.com:443")), True),
    ((Effect("connect", "a.example.com"), Effect("write", "log")), False),
    ((Effect("connect", "a.example.com"), Effect("connect", "b.org")), False),
    ((Effect("exec", "gh pr list", ("gh", "pr", "list")),), True),
    ((Effect("exec", "gh x; rm", None),), False),
    ((Effect("exec", "curl x", ("curl", "x")),), False),
    ((Effect("call", "github/search"),), True),
    ((Effect("send", "mail:me"),), True),
    ((Effect("send", "mail:you"),), False),
    ((Effect("read", "x"),), False),
    ((), False),
])  # fmt: skip
@owes("G-11")
def test_every_effect_must_be_a_bound_destination(effects: tuple[Effect, ...], fits: bool) -> None:
    everywhere = SecretBinding(
        name="api",
        hosts=("*.example.com",),
        commands=("gh **",),
        servers=("github/*",),
        recipients=("mail:me",),
    )
    sent = {"x": "secret://api"}

    if fits:
        assert check_references(sent, sent, Plan(effects), Handles(api=everywhere)) == {"api"}
    else:
        with pytest.raises(PermissionDenied):
            check_references(sent, sent, Plan(effects), Handles(api=everywhere))


def test_a_secret_that_is_bound_to_nothing_says_so() -> None:
    sent = {"x": "secret://api"}

    with pytest.raises(PermissionDenied, match="it has none"):
        check_references(sent, sent, Plan((Effect("connect", "a"),)), Handles(api=SecretBinding(name="api")))


def test_a_reference_where_no_text_can_stand_is_an_error() -> None:
    plan = Plan((Effect("connect", "a.example.com"),))

    with pytest.raises(InvalidArguments, match="takes no secret"):
        check_references({"x": "secret://api"}, {"x": object()}, plan, Handles())


@pytest.mark.parametrize(("text", "names"), [
    ("secret://a", {"a"}), ("x secret://a.b-c, secret://d.", {"a.b-c", "d"}), ("secret://", set[str]()),
    ("secret:/a", set[str]()), (3, set[str]()), ({"secret://k": ("secret://v",)}, {"k", "v"}),
])  # fmt: skip
def test_references_are_found_wherever_text_stands(text: Any, names: set[str]) -> None:
    assert references({"x": [text, None]}) == names


def test_filling_makes_new_values_and_leaves_the_old() -> None:
    before: dict[str, Any] = {"secret://a": ["secret://a!", ("secret://b", 1)], "n": None}

    after = fill_references(before, {"a": "A"})

    assert after == {"A": ["A!", ("secret://b", 1)], "n": None}
    assert before == {"secret://a": ["secret://a!", ("secret://b", 1)], "n": None}


def test_a_redactor_learns_later_secrets_too() -> None:
    redactor = Redactor({"one": "first-secret-value"})

    redactor.learn({"two": VALUE})
    redactor.learn({"again": VALUE})

    assert VALUE not in redactor.redact(f"a {VALUE} b first-secret-value")[0]
    assert "first-secret-value" not in redactor.redact("first-secret-value")[0]


async def test_partial_updates_are_redacted_too() -> None:
    from pegboard import current_context

    shown: list[Any] = []

    @tool(effects=[Effect("connect", "a.example.com")])
    async def slow(key: str) -> str:
        """Report progress."""
        current_context().emit({"at": key})
        return "done"

    door = door_with(Handles(), [])
    other = Executor([slow], policy=["allow connect"])
    other.pipeline.parts.guards = door.pipeline.parts.guards
    other.pipeline.parts.shaper = door.pipeline.parts.shaper
    other.context = replace(other.context, emit=shown.append)

    await other.call("slow", {"key": "secret://api"})

    assert shown and VALUE not in str(shown)


@owes("G-11")
@pytest.mark.parametrize(("effects", "fits"), [
    ((Effect("exec", "make", ("make",)), Effect("connect", "a.example.com")), True),
    ((Effect("exec", "make", ("make",)), Effect("connect", "b.org")), False),
    ((Effect("exec", "make", ("make",)),), False),
    # No command: nothing stands between that could put the value in for one host alone.
    ((Effect("write", "x"), Effect("connect", "a.example.com")), False),
])  # fmt: skip
def test_a_place_holder_is_for_commands_that_reach_a_bound_host(
    effects: tuple[Effect, ...], fits: bool
) -> None:
    binding = SecretBinding(name="api", hosts=("*.example.com",))
    sent = {"x": "secret://api"}

    if fits:
        assert check_references(sent, sent, Plan(effects), Handles(api=binding), placeholders=True) == {"api"}
    else:
        with pytest.raises(PermissionDenied):
            check_references(sent, sent, Plan(effects), Handles(api=binding), placeholders=True)
