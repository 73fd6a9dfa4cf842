"""Offered: what our server offers besides tools: resources and prompts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pegboard.core.errors import NotFound, ToolError


class Resources(Protocol):
    """Things that a client can read."""

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """`{uri, name, description?, mimeType?}` of each."""
        ...

    async def templates(self) -> Sequence[Mapping[str, Any]]:
        """`{uriTemplate, name, description?, mimeType?}` of each."""
        ...

    async def read(self, uri: str) -> Sequence[Mapping[str, Any]]:
        """`{uri, mimeType?, text | blob}` of its parts.

        Raises:
            NotFound: there is none.
        """
        ...

    async def etag(self, uri: str) -> Hashable:
        """A value that is another once the resource is; cheap, for it is asked again and again while one is watched.

        Raises:
            NotFound: there is none.
        """
        ...


class Prompts(Protocol):
    """Texts that a client can get."""

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """`{name, description?, arguments?}` of each."""
        ...

    async def get(self, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """`{description?, messages}`.

        Raises:
            NotFound: there is none.
        """
        ...

    async def complete(self, name: str, argument: str, value: str) -> Sequence[str]:
        """Values that an argument may take."""
        ...

    async def etag(self) -> Hashable:
        """A value that is another once a prompt is, has come or has gone; cheap, as Resources.mark."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """One text prompt with `{argument}` places."""

    name: str
    description: str
    text: str
    arguments: tuple[str, ...] = ()


class TextPrompts:
    """Prompts with named places."""

    def __init__(self, prompts: Sequence[Prompt] = ()) -> None:
        self._prompts = {p.name: p for p in prompts}

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """See Prompts."""
        return [
            {
                "name": p.name,
                "description": p.description,
                "arguments": [{"name": a, "required": True} for a in p.arguments],
            }
            for p in self._prompts.values()
        ]

    async def get(self, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """See Prompts."""
        prompt = self._prompts.get(name)
        if prompt is None:
            raise NotFound(f"there is no prompt {name!r}; there are: {', '.join(self._prompts) or 'none'}")
        missing = [a for a in prompt.arguments if a not in arguments]
        if missing:
            raise ToolError(f"prompt {name!r} needs {', '.join(missing)}", code="invalid_arguments")
        text = prompt.text
        for argument in prompt.arguments:
            text = text.replace("{" + argument + "}", arguments[argument])
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": prompt.description, "messages": [message]}

    async def complete(self, name: str, argument: str, value: str) -> Sequence[str]:
        """See Prompts."""
        return ()

    async def etag(self) -> Hashable:
        """See Prompts."""
        return tuple(self._prompts.values())
