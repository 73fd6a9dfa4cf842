"""OutputReader: reads a final answer into the type that the agent promises."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from jsonschema_rs import validator_for
from pydantic import TypeAdapter, ValidationError

from pegboard.core.schema.repair import Malformed, guess_json


class OutputReader:
    """Reads text into `kind`: a pydantic model, dataclass, TypedDict or any type pydantic knows.

    `str` takes the text as it is; a mapping is a JSON Schema that the value must fit.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._given = dict(cast("Mapping[str, Any]", kind)) if isinstance(kind, Mapping) else None
        self._adapter: TypeAdapter[Any] = TypeAdapter(Any if isinstance(kind, Mapping) else kind)

    @property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the output, None for plain text."""
        return None if self._kind is str else self._given or self._adapter.json_schema()

    def instructions(self, before: str) -> str:
        """The system prompt with what the final answer must look like."""
        if self.schema is None:
            return before
        wanted = json.dumps(self.schema, ensure_ascii=False)
        return f"{before}\n\nGive your final answer as JSON only, by this JSON Schema:\n{wanted}".strip()

    def read(self, text: str) -> Any:
        """The typed value.

        Raises:
            ValueError: what does not fit, one line for each place.
        """
        if self._kind is str:
            return text
        try:
            value = guess_json(text)
        except Malformed as error:
            raise ValueError(
                "the JSON is cut off" if error.truncated else f"it is not JSON ({error})"
            ) from None
        if self._given is not None:
            wrong = list(validator_for(self._given).iter_errors(value))
            if wrong:
                raise ValueError("; ".join(f"{_place(e.instance_path)}: {e.message}" for e in wrong))
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            places = [f"{_place(e['loc'])}: {e['msg']}" for e in error.errors()]
            raise ValueError("; ".join(places)) from None


def _place(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path)) or "value"
