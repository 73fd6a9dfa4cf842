"""Parameters: what a model fills, and by which names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.core.annotations import MISSING
from pegboard.core.errors import BuildError
from pegboard.core.params import EffectMarker
from pegboard.core.values import record


@record
class Parameter:
    """One parameter that the model fills.

    Attributes:
        name: its name in the function and in the schema.
        annotation: the resolved type, Annotated and all.
        default: the default, MISSING where there is none.
        marker: the effect whose target its value is, also from inside Optional or list.
        aliases: further spellings that are accepted, not advertised.
        examples: example values for the schema.
        verbatim: see `Verbatim`.
        unadvertised: see `Unadvertised`.
        optional: it may be left out without a default; the function is then called without it.
    """

    name: str
    annotation: Any
    default: Any = MISSING
    marker: EffectMarker | None = None
    aliases: tuple[str, ...] = ()
    examples: tuple[object, ...] = ()
    verbatim: bool = False
    unadvertised: bool = False
    optional: bool = False

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is MISSING and not self.optional


def aliases_of(parameters: tuple[Parameter, ...], inject: Mapping[str, Any], label: str) -> dict[str, str]:
    """Accepted spelling -> parameter.

    An alias that comes with a marker gives way to a parameter of that name, and is dropped where two
    parameters would claim it; one written with `Alias` must be free.
    """
    names = {p.name for p in parameters} | set(inject)
    explicit: dict[str, str] = {}
    for parameter in parameters:
        for alias in parameter.aliases:
            if alias in names or explicit.get(alias, parameter.name) != parameter.name:
                raise BuildError(f"{label}: alias {alias!r} of parameter {parameter.name!r} is taken already")
            explicit[alias] = parameter.name
    claims: dict[str, list[str]] = {}
    for parameter in parameters:
        for alias in parameter.marker.aliases if parameter.marker else ():
            if alias not in names and alias not in explicit:
                claims.setdefault(alias, []).append(parameter.name)
    return {**{alias: owners[0] for alias, owners in claims.items() if len(owners) == 1}, **explicit}
