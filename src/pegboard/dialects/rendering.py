"""Rendered tools, made once for each toolkit."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pegboard.dialects.names import Alphabet, wire_names
from pegboard.dialects.protocol import ToolkitView

T = TypeVar("T")
KEPT = 64
SHOWN = 5
"""So many notes stand in one log line; `notes()` gives all."""
log = logging.getLogger("pegboard.dialects")


class ToolkitCache(Generic[T]):
    """A value made once for each toolkit; the 64 used last are kept.

    Keyed by identity: a toolkit is immutable, and comparing a thousand tools would cost more than
    it saves. The toolkit is kept with the value, so that its address cannot be used again.
    """

    def __init__(self, make: Callable[[ToolkitView], T]) -> None:
        self._make = make
        self._kept: OrderedDict[int, tuple[ToolkitView, T]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, toolkit: ToolkitView) -> T:
        """The value for this toolkit."""
        key = id(toolkit)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = (toolkit, self._make(toolkit))
                self._kept[key] = found
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
        return found[1]


@dataclass(frozen=True, slots=True)
class RenderedTools:
    """Tools for the wire, and what the provider's subset could not say."""

    tools: list[dict[str, Any]]
    notes: tuple[str, ...] = ()


class ToolRenderer:
    """A dialect's rendered tools and the way back from wire names, each cached for its toolkit."""

    def __init__(
        self, dialect: str, alphabet: Alphabet, render: Callable[[ToolkitView], RenderedTools]
    ) -> None:
        self._dialect = dialect
        self._rendered = ToolkitCache(lambda kit: self._log(render(kit)))
        self._names = ToolkitCache(lambda kit: wire_names(kit, alphabet))

    def tools(self, toolkit: ToolkitView) -> list[dict[str, Any]]:
        """The tools; a new list of shared dicts."""
        self._names(toolkit)
        return list(self._rendered(toolkit).tools)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """What could not be said."""
        return self._rendered(toolkit).notes

    def own_name(self, sent: str, toolkit: ToolkitView | None) -> str:
        """The tool's own name for a name from the wire; itself where nobody knows it."""
        return sent if toolkit is None else self._names(toolkit).get(sent, sent)

    def _log(self, rendered: RenderedTools) -> RenderedTools:
        if rendered.notes:
            more = f"; and {len(rendered.notes) - SHOWN} more" if len(rendered.notes) > SHOWN else ""
            log.warning("%s: %s%s", self._dialect, "; ".join(rendered.notes[:SHOWN]), more)
        return rendered
