"""Parts: what an agent is made of, checked when it is made (see `pegboard.core.errors`)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.call.call import TurnHook
from pegboard.core.errors import BuildError, check_sequence, check_text, format_value
from pegboard.core.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.interop.hooks import Hooks


def limits_of(given: object) -> Limits:
    """The limits; None = the usual ones.

    Raises:
        BuildError: something else.
    """
    if given is None:
        return Limits()
    if not isinstance(given, Limits):
        raise BuildError(f"limits=… takes Limits(turns=…, …), got {format_value(given)}")
    return given


def model_of(given: Any) -> Any:
    """A model, a name, a list of these, or None.

    Raises:
        BuildError: something else, or an empty list.
    """
    if isinstance(given, list | tuple):
        several = cast("list[Any] | tuple[Any, ...]", given)
        if not several:
            raise BuildError("model=[] names no model; omit it to use the first one available")
        return [model_of(one) for one in several]
    if given is None or isinstance(given, str):
        return given
    if not callable(getattr(given, "converse", None)):
        raise BuildError(
            f"model=… takes a name such as 'openai:gpt-5', a model such as ScriptedModel([…]), or a list of these, "
            f"got {format_value(given)}"
        )
    return given


def output_of(kind: Any) -> Any:
    """A type or JSON Schema that answers can be read into; None = text.

    Raises:
        BuildError: pydantic knows no such type, or the schema is not valid.
    """
    if kind is None or kind is str:
        return kind
    given: object = kind
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    if isinstance(kind, Mapping):
        from jsonschema_rs import ValidationError, validator_for

        try:
            validator_for(dict(cast("Mapping[str, Any]", kind)))
        except (ValidationError, ValueError) as error:
            raise BuildError(
                f"the output's JSON Schema is not valid: {str(error).partition(chr(10))[0]}"
            ) from error
        return cast("Any", kind)
    try:
        if isinstance(given, str | bytes):
            # pydantic takes a text for the name of a type
            raise PydanticUserError("it is a value", code=None)
        TypeAdapter(kind)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        reason = str(error).partition("\n")[0]
        raise BuildError(f"output=… takes a type, got {format_value(kind)}: {reason}") from error
    return kind


def key_of(session: Any) -> str | None:
    """A session's key; None = a fresh session.

    Raises:
        BuildError: something else.
    """
    return None if session is None else check_text(session, "session=…", meant="a text as its key")


def hooks_of(given: object, workspace: Path | None) -> tuple[tuple[TurnHook, ...], Hooks | None]:
    """The functions of a turn's calls among some hooks, and the hooks of events; None = there are none of these.

    Raises:
        BuildError: one is neither a function, a Hook, Hooks, nor the path of a hooks.json.
        ConfigError: a file cannot be read, or holds a hook that cannot be used.
    """
    what = "functions of a turn's calls and the context, Hooks and paths of hooks.json files"
    rows = check_sequence(given, "hooks=…", what)
    turn: tuple[Any, ...] = tuple(one for one in rows if callable(one) and not isinstance(one, type))
    if len(turn) == len(rows):
        return turn, None
    from pathlib import Path

    from pegboard.config.environment import environment
    from pegboard.config.hooks import read_hooks
    from pegboard.core.errors import ConfigError
    from pegboard.interop.hooks import Hook, Hooks

    hooks: list[Hook] = []
    for one in rows:
        match one:
            case Hooks():
                return turn, one
            case Hook():
                hooks.append(one)
            case str() | PathLike():
                read = read_hooks(Path(cast("str", one)))
                if read.notes:
                    # A guard that is left out unseen would be worse than none.
                    raise ConfigError(read.notes[0])
                hooks += read.hooks
            case _ if one not in turn:
                raise BuildError(f"hooks=… takes a list of {what}, and {format_value(one)} is not one")
            case _:
                pass
    return turn, Hooks(hooks, environment=environment(), workspace=workspace)
