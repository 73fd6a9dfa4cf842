"""Opens a zip-based document: bombs are refused, damaged and missing parts give way to empty ones."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any, Final, TypeVar

from pegboard.documents.damage import Damage
from pegboard.documents.errors import DocumentRefused

T = TypeVar("T")

MAX_TOTAL_BYTES: Final = 256 << 20
MAX_ENTRIES: Final = 10_000
MAX_RATIO: Final = 200
"""Unpacked over packed size; Office files stay below 30."""

_FREE_BYTES: Final = 4 << 20
_XML_HEAD: Final = 1 << 16
_XML_PROLOG: Final = 1 << 22
_ELEMENT: Final = re.compile(rb"<\0?[A-Za-z_]")
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, ValueError)
"""What zipfile raises over a part that cannot be unpacked."""
_EMPTY_RELATIONS: Final = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"/>'
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def open_archive(data: bytes, reader: Callable[[io.BytesIO], T], damage: Damage) -> T:
    """The document as a library opens it; where parts of it are damaged or missing, with empty ones in their place.

    Raises:
        DocumentRefused: see `check_archive`.
        Exception: whatever the library raises.
    """
    check_archive(data)
    try:
        return reader(io.BytesIO(data))
    except Exception:
        mended, damaged = _mended(data)
        if not damaged:
            raise
        opened = reader(io.BytesIO(mended))
        damage.parts += [f"the part {name}" for name in damaged]
        return opened


def _mended(data: bytes) -> tuple[bytes, list[str]]:
    """The archive with an empty part for each that cannot be unpacked, is no XML or is missing, and their names."""
    etree: Any = import_module("lxml.etree")
    out = io.BytesIO()
    damaged: list[str] = []
    missing: dict[str, None] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as made:
        names = frozenset(given.namelist())
        for entry in given.infolist():
            is_xml = entry.filename.endswith((".xml", ".rels"))
            try:
                content = given.read(entry)
                tree = etree.fromstring(content) if is_xml else None
                if entry.filename.endswith(".rels") and (lost := _lost(entry.filename, tree, names)):
                    missing |= dict.fromkeys(lost)
                    content = etree.tostring(tree)
            except (*_DAMAGED, SyntaxError):  # lxml's own is one
                damaged.append(entry.filename)
                content = _EMPTY_RELATIONS if entry.filename.endswith(".rels") else b"<empty/>" * is_xml
            made.writestr(entry.filename, content)
        for name in missing:
            if name.endswith(".xml"):
                made.writestr(name, b"<empty/>")
    return out.getvalue(), [*damaged, *missing]


def _lost(name: str, relations: Any, names: Collection[str]) -> list[str]:
    """The parts to which a list of relations leads and that are not there; only relations to XML stay in the list."""
    folder = posixpath.dirname(posixpath.dirname(name))
    lost: list[str] = []
    for one in list(relations):
        target = one.get("Target", "")
        part = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
        if one.get("TargetMode") == "External" or target.startswith("#") or part in names:
            continue
        lost.append(part)
        if not part.endswith(".xml"):
            relations.remove(one)
    return lost


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
    except _DAMAGED:
        return  # Nobody can read it; `open_archive` puts an empty one in its place.
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "replace").encode()
    # Office never writes a document type; entities are how a few bytes become gigabytes.
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise DocumentRefused(
            "unsupported", f"the part {entry.filename} declares XML entities, which Office programs never do"
        )
