"""The error tree.

PegboardError
├── ToolError                what a model may read: code, message, hint, retryable, details
│   ├── InvalidArguments     invalid_arguments
│   ├── UnknownTool          unknown_tool
│   ├── PermissionDenied     permission_denied
│   ├── BudgetExceeded       budget_exceeded
│   ├── NotFound             not_found
│   ├── NotUnique            not_unique
│   ├── Conflict             conflict
│   ├── TooLarge             too_large
│   ├── OutsideWorkspace     outside_workspace
│   ├── Unsupported          unsupported
│   ├── Unavailable          unavailable
│   ├── TimedOut             timeout
│   ├── CallCancelled        cancelled
│   ├── Interrupted          interrupted (nobody knows whether it happened)
│   ├── SuspendedCall        suspended (waits for a person; details: pending)
│   └── InternalError        internal_error
├── BuildError               what a developer reads when a tool, kit, policy or config is made
│   ├── ToolNotFoundError    a kit or registry was asked for a name that it lacks
│   └── ConfigError          a config file, key or reference is wrong
├── ToolExecutionDenied      only with raise_errors=True
└── ModelError               what a caller reads when a model cannot be reached or answers garbage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, TypeGuard, cast

_STOPS: Final = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "\n")


def sentences(message: str, hint: str) -> str:
    """Both as text: messages of other programs end as they like, and two sentences must not run together."""
    if not hint:
        return message
    return f"{message}{'' if message.endswith(_STOPS) else '.'} {hint}"


class PegboardError(Exception):
    """Any error that Pegboard raises on purpose."""


class ToolError(PegboardError):
    """A failed call, told so that a model can act on it.

    Args:
        message: what happened, with the values.
        hint: what to do next, one sentence; empty when there is nothing to say.
        code: stable snake_case word for programs; the class has a default.
        retryable: whether the same call may succeed later without a change.
        details: JSON-able facts for programs.
    """

    default_code: ClassVar[str] = "tool_error"
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str | None = None,
        retryable: bool | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        # An exception given as the message is its text: what a model reads has to be text.
        self.message = str(message)
        super().__init__(self.message)
        self.hint = str(hint)
        self.code = self.default_code if code is None else code
        self.retryable = self.default_retryable if retryable is None else retryable
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return sentences(self.message, self.hint)

    def to_dict(self) -> dict[str, Any]:
        """`{code, message, hint, retryable}` and `details` where there are any."""
        out: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }
        if self.details:
            out["details"] = self.details
        return out


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's signature; nothing ran."""

    default_code = "invalid_arguments"


class UnknownTool(ToolError):
    """No tool of that name in this toolkit; nothing ran."""

    default_code = "unknown_tool"


class PermissionDenied(ToolError):
    """The policy or a person refused; nothing ran."""

    default_code = "permission_denied"


class BudgetExceeded(ToolError):
    """A budget is used up; nothing ran."""

    default_code = "budget_exceeded"


class NotFound(ToolError):
    """The named thing does not exist."""

    default_code = "not_found"


class NotUnique(ToolError):
    """The description fits several things; nothing was changed."""

    default_code = "not_unique"


class Conflict(ToolError):
    """The thing changed since it was read; nothing was changed."""

    default_code = "conflict"


class TooLarge(ToolError):
    """Over a limit; the message names the limit and the size."""

    default_code = "too_large"


class OutsideWorkspace(ToolError):
    """A path leaves the workspace and the folders that were allowed."""

    default_code = "outside_workspace"

    @classmethod
    def of(cls, path: str) -> OutsideWorkspace:
        """The refusal of a path, which may be shown as it stands."""
        return cls(
            f"{path} is outside the workspace.",
            hint="Use a path inside the workspace, or ask the user to allow that folder.",
            details={"path": path},
        )


class Unsupported(ToolError):
    """The thing is of a kind that this tool cannot handle."""

    default_code = "unsupported"


class Unavailable(ToolError):
    """A needed part is missing on this machine; the hint says how to get it."""

    default_code = "unavailable"


class TimedOut(ToolError):
    """The deadline passed; what was started has been ended."""

    default_code = "timeout"
    default_retryable = True


class CallCancelled(ToolError):
    """The call was cancelled before it finished."""

    default_code = "cancelled"


class Interrupted(ToolError):
    """The process ended while the call ran: nobody knows whether it took effect."""

    default_code = "interrupted"


class SuspendedCall(ToolError):
    """The call waits for a person; `details["pending"]` is the id to answer."""

    default_code = "suspended"


class InternalError(ToolError):
    """A tool raised something that it should not have; the type is named, no system detail."""

    default_code = "internal_error"


class BuildError(PegboardError):
    """A tool, toolkit, policy or config is wrong; raised to the developer at build time."""


class ToolNotFoundError(BuildError, LookupError):
    """A registry or toolkit was asked for a tool that it lacks."""


class ConfigError(BuildError):
    """A config file, key, value or reference is wrong; the message names file and key."""


class ToolExecutionDenied(PegboardError):
    """A denied call, raised only where the caller asked for exceptions."""


class ModelError(PegboardError):
    """A model could not be used.

    Args:
        message: what happened, with the values.
        hint: what to do next.
        retryable: whether trying again may help (rate limit, overload, connection).
        status: the HTTP status, where there was one.
        too_long: whether the conversation was larger than the model takes; a shorter one may be answered.
        figures: what the model takes and what it was sent, in the provider's tokens; None if it did not say.
        wait_s: seconds that the provider asks to wait before the next try; None if it did not say.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        retryable: bool = False,
        status: int | None = None,
        too_long: bool = False,
        figures: tuple[int, int] | None = None,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(sentences(message, hint))
        self.message = message
        self.hint = hint
        self.retryable = retryable
        self.status = status
        self.too_long = too_long
        self.figures = figures
        self.wait_s = wait_s


def format_value(value: object) -> str:
    """A value for an error text: short, and with its type where that is not plain."""
    return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"


def check_text(value: object, what: str, *, meant: str = "text") -> str:
    """The value where it is text.

    Raises:
        BuildError: it is not; `what` takes `meant`.
    """
    if not isinstance(value, str):
        raise BuildError(f"{what} takes {meant}, got {format_value(value)}")
    return value


def check_sequence(value: object, what: str, things: str) -> tuple[Any, ...]:
    """The things of a list; None = none.

    Raises:
        BuildError: one thing, a text or a mapping was given, whose parts would be taken for the things.
    """
    if value is None:
        return ()
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise BuildError(f"{what} takes a list of {things}, got {format_value(cast(object, value))}")
    return tuple(cast("Iterable[Any]", value))


def check_callables(value: object, what: str, things: str) -> tuple[Any, ...]:
    """The functions of a list; None = none.

    Raises:
        BuildError: it is no list, or one of them cannot be called.
    """
    found = check_sequence(value, what, things)
    for one in found:
        if not callable(one) or isinstance(one, type):
            raise BuildError(f"{what} takes a list of {things}, and {format_value(one)} is not one")
    return found


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a whole or floating number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
