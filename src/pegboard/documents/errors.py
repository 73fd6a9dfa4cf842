"""Refused: a reader's no, in a form that crosses the process border."""

from __future__ import annotations

from typing import Literal, TypeAlias

Code: TypeAlias = Literal["invalid_arguments", "unsupported", "too_large", "unavailable"]


class DocumentRefused(Exception):
    """A document that is not read.

    Args:
        code: which ToolError the parent makes of it.
        message: what is the matter, with values.
        hint: what to do next.
    """

    def __init__(self, code: Code, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.hint = hint
