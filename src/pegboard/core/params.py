"""Parameter markers: types that carry description, aliases and effect; and `Inject[Port]`."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, TypeVar

from pegboard.core.effects import EffectKind
from pegboard.core.values import record

T = TypeVar("T")


@record
class EffectMarker:
    """In `Annotated[...]`: the parameter's value is the target of an effect.

    Attributes:
        kind: the effect's kind.
        description: used where the docstring says nothing about the parameter.
        aliases: other spellings of the parameter name that are accepted, not advertised.
    """

    kind: EffectKind
    description: str
    aliases: tuple[str, ...] = ()


@record
class InjectMarker:
    """In `Annotated[...]`: the runtime fills the parameter; the schema does not show it."""


@record
class Alias:
    """In `Annotated[...]`: further spellings of a parameter's name, accepted but not advertised."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@record
class Unadvertised:
    """In `Annotated[...]`: the parameter is accepted and no model is told of it: another program's way to say
    what the parameters that are shown say."""


@record
class Verbatim:
    """In `Annotated[...]`: the text is kept as it stands, in a file for example.

    Half a surrogate pair in it is refused; in other arguments U+FFFD takes its place.
    """


@record
class Example:
    """In `Annotated[...]`: an example value, shown in schemas and prompts."""

    value: object


_PATH_ALIASES: Final = (
    "file_path", "filePath", "filepath", "filename", "file_name", "fileName", "file", "target_file", "absolute_path",
    "relative_path", "relative_workspace_path",
)  # fmt: skip

ReadPath: TypeAlias = Annotated[
    str, EffectMarker("read", "Path of the file, relative to the workspace.", _PATH_ALIASES)
]
"""A path that the tool reads (effect `read`)."""

WritePath: TypeAlias = Annotated[
    str, EffectMarker("write", "Path of the file, relative to the workspace.", _PATH_ALIASES)
]
"""A path that the tool writes (effect `write`)."""

DeletePath: TypeAlias = Annotated[
    str, EffectMarker("delete", "Path of the file, relative to the workspace.", _PATH_ALIASES)
]
"""A path that the tool deletes (effect `delete`)."""

Url: TypeAlias = Annotated[str, EffectMarker("connect", "An http or https URL.", ("uri", "link"))]
"""A URL that the tool connects to (effect `connect host`)."""

Command: TypeAlias = Annotated[str, EffectMarker("exec", "The shell command to run.", ("cmd",))]
"""A command that the tool runs (effect `exec`)."""

Recipient: TypeAlias = Annotated[str, EffectMarker("send", "Whom the message goes to.", ("target", "to"))]
"""Whom the tool sends to (effect `send`)."""

Inject: TypeAlias = Annotated[T, InjectMarker()]
"""`files: Inject[Files]`: filled by the runtime, absent from the schema."""
