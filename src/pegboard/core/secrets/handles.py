"""Place holders: what a confined command sees of a secret, until the egress proxy puts the value in (security.md)."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments, PermissionDenied, Unavailable
from pegboard.core.hosts import host_matches
from pegboard.core.policy.patterns import exec_pattern_matches
from pegboard.core.policy.rules import glob

_REFERENCE: Final = re.compile(r"secret://([A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]|[A-Za-z0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretBinding:
    """Where a secret may go.

    Attributes:
        name: as in `secret://NAME`.
        hosts: host patterns, whole labels (`*.example.com`).
        commands: command patterns, token by token; their processes see the value.
        servers: `SERVER/TOOL` globs of foreign tools.
        recipients: `CHANNEL:CHAT` globs.
    """

    name: str
    hosts: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()

    def allows(self, effect: Effect) -> bool:
        """Whether the value may be where this effect is done."""
        match effect.kind:
            case "connect":
                return any(host_matches(p, effect.target) for p in self.hosts)
            case "exec":
                argv = effect.argv
                return argv is not None and any(exec_pattern_matches(p, argv) for p in self.commands)
            case "call":
                return any(glob(p)(effect.target) for p in self.servers)
            case "send":
                return any(glob(p)(effect.target) for p in self.recipients)
            case _:
                return False


class SecretHandles(Protocol):
    """The secrets that a user has named."""

    def binding(self, name: str) -> SecretBinding | None:
        """Where the secret may go; None where there is no secret of that name."""
        ...

    def names(self) -> tuple[str, ...]:
        """All names."""
        ...

    def value(self, name: str) -> str:
        """The value, looked up anew.

        Raises:
            Unavailable: its source cannot be read; the message names the source, never the value.
        """
        ...


def references(value: Any) -> frozenset[str]:
    """Names of the secrets that a JSON-able value refers to, keys of objects included."""
    if isinstance(value, str):
        return frozenset(_REFERENCE.findall(value)) if "secret://" in value else _NONE
    if isinstance(value, Mapping):
        rows = cast("Mapping[Any, Any]", value)
        return _NONE.union(*map(references, rows.keys()), *map(references, rows.values()))
    if isinstance(value, list | tuple):
        return _NONE.union(*map(references, cast("list[Any]", value)))
    return _NONE


def may_reveal(binding: SecretBinding, plan: Plan) -> bool:
    """Whether the value itself may be given to the call: everything that it does is bound."""
    going = [e for e in plan.effects if _goes_anywhere(e)]
    return bool(going) and all(map(binding.allows, going))


def _goes_anywhere(effect: Effect) -> bool:
    """Whether an effect could carry a value along: not reading, nor control of a thing of ours that its tool allows."""
    return effect.kind != "read" and not (effect.kind == "control" and effect.at_least == "allow")


def may_substitute(binding: SecretBinding, plan: Plan) -> bool:
    """Whether a place holder may be given to the call: a command that reaches a bound host, whatever else it does."""
    kinds = {e.kind for e in plan.effects}
    return "exec" in kinds and any(e.kind == "connect" and binding.allows(e) for e in plan.effects)


def check_references(
    sent: Mapping[str, Any],
    decoded: Mapping[str, Any],
    plan: Plan,
    handles: SecretHandles,
    *,
    placeholders: bool = False,
) -> frozenset[str]:
    """The secrets that a call refers to, where each may go where the call goes.

    Args:
        placeholders: commands are confined, and an egress proxy can put values in.

    Raises:
        InvalidArguments: no such secret, or it stands where no value can be put in.
        PermissionDenied: the call does something that the secret is not bound to.
    """
    names = references(sent)
    for name in sorted(names):
        binding = handles.binding(name)
        if binding is None:
            known = ", ".join(handles.names()) or "none"
            raise InvalidArguments(
                f"there is no secret called {name!r}; known: {known}",
                hint="Name one of these, or leave the reference out.",
            )
        if not may_reveal(binding, plan) and not (placeholders and may_substitute(binding, plan)):
            astray = [e for e in plan.effects if _goes_anywhere(e) and not binding.allows(e)]
            where = ", ".join(map(str, astray)) or "nowhere that can be named"
            raise PermissionDenied(
                f"secret://{name} may not be used here: the call goes to {where}, which is not among the "
                f"destinations of this secret ({_bound(binding)})",
                hint="Use it only in a call to one of its destinations.",
                details={"rule": f"secret {name}", "decision": "deny"},
            )
    if names - references(dict(decoded)):
        raise InvalidArguments(
            "a secret:// reference stands in a parameter that takes no secret",
            hint="Put it into a parameter of plain text.",
        )
    return names


def fill_references(value: Any, values: Mapping[str, str]) -> Any:
    """The value with every reference to a named secret replaced; a new object where there was one."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda m: values.get(m[1], m[0]), value) if "secret://" in value else value
    if isinstance(value, dict):
        return {
            fill_references(k, values): fill_references(v, values)
            for k, v in cast("dict[Any, Any]", value).items()
        }
    if isinstance(value, list):
        return [fill_references(v, values) for v in cast("list[Any]", value)]
    if type(value) is tuple:
        return tuple(fill_references(v, values) for v in cast("tuple[Any, ...]", value))
    return value


def _bound(binding: SecretBinding) -> str:
    rows = (("hosts", binding.hosts), ("commands", binding.commands), ("servers", binding.servers),
            ("recipients", binding.recipients))  # fmt: skip
    return "; ".join(f"{what}: {', '.join(found)}" for what, found in rows if found) or "it has none"


_NONE: Final[frozenset[str]] = frozenset()


SHORTEST: Final = 8
"""Bytes; a shorter place holder could stand in ordinary text by chance."""

_ALPHABET: Final = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """One secret of one command.

    Attributes:
        name: as in `secret://NAME`.
        placeholder: what the command sees; as many UTF-8 bytes as `value`.
        value: what the bound hosts see.
        hosts: host patterns, each with an optional port.
    """

    name: str
    placeholder: str
    value: str
    hosts: tuple[str, ...]

    def __repr__(self) -> str:
        """Without the value."""
        return f"Swap({self.name!r})"


class Placeholders:
    """The place holders of one process; random, and the same for a secret as long as its value stays."""

    def __init__(self) -> None:
        self._swaps: dict[str, Substitution] = {}

    def for_secret(self, name: str, value: str, hosts: tuple[str, ...]) -> str:
        """The place holder of a secret.

        Raises:
            Unavailable: the value is too short for one.
        """
        known = self._swaps.get(name)
        if known is not None and known.value == value and known.hosts == hosts:
            return known.placeholder
        size = len(value.encode("utf-8", "surrogatepass"))
        if size < SHORTEST:
            raise Unavailable(
                f"secret {name!r} has {size} bytes; one that commands send to hosts needs {SHORTEST} or more",
                hint="Ask the user to use a longer secret, or to bind it to the command itself.",
            )
        import secrets

        made = "".join(secrets.choice(_ALPHABET) for _ in range(size))
        self._swaps[name] = Substitution(name=name, placeholder=made, value=value, hosts=hosts)
        return made

    def find_in(self, texts: Iterable[str]) -> tuple[Substitution, ...]:
        """The secrets whose place holders stand in a command's text, variables or input."""
        if not self._swaps:
            return ()
        whole = "\0".join(texts)
        return tuple(s for s in self._swaps.values() if s.placeholder in whole)
