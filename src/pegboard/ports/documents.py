"""Documents: what a tool may ask of files that are no plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from pegboard.core.content import Image

DocumentKind: TypeAlias = Literal["pdf", "docx", "xlsx", "pptx", "html", "notebook", "csv", "image"]

OFFICE: Final = "application/vnd.openxmlformats-officedocument"
"""The beginning of the media types of Office's files; alone where it is not known which one a file is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document, read.

    Attributes:
        kind: what it was read as.
        text: Markdown; for an image one line with its size.
        image: the picture, downscaled and without metadata; only for an image.
        pages: pages, slides or sheets in the whole document, None where it has none.
        note: what was left out and how to get it, may be empty.
    """

    kind: DocumentKind
    text: str
    image: Image | None = None
    pages: int | None = None
    note: str = ""


class Documents(Protocol):
    """Readers of documents; each runs in a limited child process."""

    def kind_of(self, name: str, mime_type: str | None = None) -> DocumentKind | None:
        """How a file would be read, by its name or, for one without a telling name, its media type;
        None for plain text and for what no reader knows. Of PDF and Office files the content decides."""
        ...

    async def read(self, kind: DocumentKind, data: bytes, *, pages: str | None = None) -> Document:
        """Read a whole file.

        Args:
            data: the file's bytes.
            pages: `1-5`, `3`, `2,7-9` or `10-`: pages of a PDF, slides, or sheets by number.

        Raises:
            InvalidArguments: `pages` names none of its pages.
            Unsupported: damaged, encrypted, or made to exhaust memory.
            TooLarge: needs more memory than a reader may take.
            TimedOut: took longer than its deadline.
            Unavailable: the reader's package is not installed.
        """
        ...
