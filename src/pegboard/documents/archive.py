"""Looks at a zip-based document before any reader unpacks it: zip and XML bombs are refused."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Final

from pegboard.documents.errors import DocumentRefused

MAX_TOTAL_BYTES: Final = 256 << 20
MAX_ENTRIES: Final = 10_000
MAX_RATIO: Final = 200
"""Unpacked over packed size; Office files stay below 30."""

_FREE_BYTES: Final = 4 << 20
_XML_HEAD: Final = 1 << 16
_XML_PROLOG: Final = 1 << 22
_ELEMENT: Final = re.compile(rb"<\0?[A-Za-z_]")
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def check_archive(data: bytes) -> None:
    """Refuse an archive that unpacks to too much, lies about it, or declares XML entities.

    Raises:
        Refused: with the sizes found.
    """
    if data.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DocumentRefused("unsupported", "the document is encrypted", "Remove its password first.")
        raise DocumentRefused(
            "unsupported",
            "the file is an old binary Office document with a new extension",
            "Convert it with the program that made it, or with LibreOffice.",
        )
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise DocumentRefused(
            "unsupported", f"the file is damaged or is not an Office document: {error}"
        ) from None
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise DocumentRefused(
            "unsupported", f"the archive has {len(entries)} entries, over the limit of {MAX_ENTRIES}"
        )
    total = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if total > MAX_TOTAL_BYTES:
        raise DocumentRefused(
            "unsupported", f"the archive unpacks to {total} bytes, over the limit of {MAX_TOTAL_BYTES}"
        )
    if total > _FREE_BYTES and total > packed * MAX_RATIO:
        raise DocumentRefused(
            "unsupported",
            f"the archive unpacks {packed} bytes to {total}: this is an archive bomb, not a document",
        )
    for entry in entries:
        if entry.flag_bits & 1:
            raise DocumentRefused("unsupported", "the document is encrypted", "Remove its password first.")
        if entry.filename.endswith((".xml", ".rels", ".vml")):
            _check_xml(archive, entry)


def _check_xml(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    try:
        with archive.open(entry) as part:
            head = part.read(_XML_HEAD)
            # A document type stands before the first element, however much space is before it.
            while len(head) < entry.file_size and not _ELEMENT.search(head) and len(head) < _XML_PROLOG:
                head += part.read(_XML_HEAD) or b"<x"
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, ValueError) as error:
        raise DocumentRefused("unsupported", f"the part {entry.filename} is damaged: {error}") from None
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "replace").encode()
    # Office never writes a document type; entities are how a few bytes become gigabytes.
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise DocumentRefused(
            "unsupported", f"the part {entry.filename} declares XML entities, which Office programs never do"
        )
