"""Rules of programs that pack, unpack and mirror trees of files."""

from __future__ import annotations

import lzma
import os
import posixpath
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, Rule, parse, stands_for
from pegboard.shell.guard.operands import HOLE, PathZone, is_protected, outermost
from pegboard.shell.guard.rows import by_row
from pegboard.shell.guard.specs import names
from pegboard.shell.guard.words import Word

_HERE: Final = Word(".", ".")


def tar(call: ProgramCall) -> bool:
    row = call.spec
    args: list[Word] = [*call.args]
    # Old style: `tar xzf a.tar`, the first word is a bundle and takes its values in order.
    if args and re.fullmatch(r"[A-Za-z]+", args[0].text):
        letters, *rest = args
        args = []
        for letter in letters.text:
            args.append(Word("-" + letter, letters.source))
            if letter in row.takes and rest:
                args.append(rest.pop(0))
        args += rest
    options, operands = parse(args, row)
    flags = {o.flag for o in options}
    lists, extracts = bool(flags & {"-t", "--list"}), bool(flags & {"-x", "--extract", "--get"})
    cwd = call.cwd
    packed: list[Word] = []
    for option in options:
        flag, value = option.flag, option.value
        compresses = flag in ("-I", "--use-compress-program") and value and _COMPRESSOR.fullmatch(value.text)
        if stands_for(flag, row.runs) and not compresses:
            call.ask_unless_known(value or Word(flag, flag), f"tar {flag} runs a program")
        if flag in ("-P", "--absolute-names") and extracts:
            call.ask("tar -P writes to the absolute paths stored in the archive")
        if value is None:
            continue
        if flag == "--index-file":
            call.write(value)
        elif flag in ("-C", "--directory", "--one-top-level"):
            (call.write if extracts else call.read)(value)
            known = value.known and (cwd is not None or value.text.startswith("/"))
            cwd = posixpath.normpath(posixpath.join(cwd or "/", value.text)) if known else None
        elif flag in ("-T", "-X", "--files-from", "--exclude-from"):
            call.read(value)
        elif flag in ("-f", "--file"):
            packed.append(value)
            if "--force-local" not in flags and (host := re.match(r"([\w.@-]+):", value.text)):
                call.found.connect(host[1].rpartition("@")[2])
            (call.read if extracts or lists else call.write)(value)
    there = call.in_folder(cwd)
    if extracts:
        _unpacks(call, packed, operands, Word(cwd or HOLE, "."))
    elif not lists:
        for word in operands:
            there.read(word)
    if any(stands_for(flag, names("--remove-files")) for flag in flags):
        for word in operands:
            there.delete(word, recursive=True)
    return lists


_COMPRESSOR: Final = re.compile(
    r"(?:gzip|pigz|bzip2|pbzip2|xz|pxz|zstd|zstdmt|lz4|lzip|lzop|brotli)(?: -[\w-]+)*"
)


def cpio(call: ProgramCall) -> bool:
    """`cpio -i` writes wherever the archive says, unless that is forbidden; `-p` writes into its operand."""
    options, operands = call.options()
    flags = {option.flag for option in options}
    lists = bool(flags & {"-t", "--list"})
    extracts = bool(flags & {"-i", "--extract"}) and not lists
    if extracts and "--no-absolute-filenames" not in flags:
        call.ask("cpio -i writes to the absolute paths stored in the archive")
    by_row(call)
    for option in options:
        if option.flag in ("-F", "--file") and option.value:
            (call.read if extracts else call.write)(option.value)
    if flags & {"-p", "--pass-through"}:
        for word in operands[-1:]:
            call.write(word)
    return lists


def rsync(call: ProgramCall) -> bool:
    by_row(call)
    options, operands = call.options()
    deletes = any(o.flag.startswith("--del") for o in options)
    removes = any(stands_for(o.flag, names("--remove-source-files --remove-sent-files")) for o in options)
    sources, targets = (operands[:-1], operands[-1:]) if len(operands) > 1 else (operands, [])
    for word in operands:
        if _is_remote(word):
            call.found.connect(re.split(r"[:/]", word.text.removeprefix("rsync://"))[0].rpartition("@")[2])
        elif word in sources:
            call.read(word)
            if removes:
                call.delete(word, recursive=True)
    for word in (w for w in targets if not _is_remote(w)):
        # `tpl/` stands for what is in tpl; the name of a remote file is its path's last part.
        came = [replace(w, text=w.text + "." if w.text.endswith("/") else w.text) for w in sources]
        call.place(came, word, folder=True if any(w.text.endswith("/.") for w in came) else None)
        if deletes:
            call.delete(Word(word.text.rstrip("/") or "/", word.source), recursive=True)
    return False


def _is_remote(word: Word) -> bool:
    return re.match(r"rsync://|[\w@-][\w.@-]*::?", word.text) is not None


def zip_(call: ProgramCall) -> bool:
    """`zip ARCHIVE SOURCE …`: `-m` removes the sources."""
    by_row(call)
    options, operands = call.options()
    for word in operands[:1]:
        call.write(word)
    _packs(call, operands[1:], removes=any(o.flag in ("-m", "--move") for o in options))
    return False


def unzip(call: ProgramCall) -> bool:
    """`unzip ARCHIVE MEMBER … -d FOLDER`."""
    options, operands = call.options()
    flags = {option.flag for option in options}
    if "-:" in flags:
        call.ask("unzip -: writes to the paths above the folder stored in the archive")
    lists = bool(flags & {"-l", "-t", "-v", "-Z", "-p"})
    folder = next((o.value for o in options if o.flag == "-d" and o.value), _HERE)
    for word in operands[:1]:
        call.read(word)
    if not lists:
        _unpacks(call, operands[:1], operands[1:], folder)
    return lists


def seven_zip(call: ProgramCall) -> bool:
    """`7z a ARCHIVE SOURCE …`, `rar a …`: `-sdel`, `-df` and the command `m` remove the sources."""
    words = [w for w in call.args if not w.text.startswith("-")]
    command, rest = (words[0].text, words[1:]) if words else ("", [])
    changes = command in ("a", "u", "m", "mf", "f", "d", "rn")
    for word in rest[:1]:
        (call.write if changes else call.read)(word)
    if changes and command not in ("d", "rn"):
        removes = any(re.fullmatch(r"-(?:sdel|d[frw])", w.text) for w in call.args)
        _packs(call, rest[1:], removes=removes or command in ("m", "mf"))
    if command in ("x", "e"):
        folder = next((Word(w.text[2:], w.source) for w in call.args if re.match(r"-o.", w.text)), _HERE)
        if call.name.startswith("un") and rest[1:] and rest[-1].text.endswith("/"):
            folder, rest = rest[-1], rest[:-1]
        _unpacks(call, rest[:1], rest[1:], folder)
    return command in ("l", "t", "i")


def compress(call: ProgramCall) -> bool:
    """`gzip FILE` puts `FILE.gz` in its place; `zstd` and `lz4` keep it unless told otherwise."""
    by_row(call)
    options, operands = call.options()
    flags = {option.flag for option in options}
    keeps = call.spec.facts.get("keeps")
    if flags & {"--rm", "-j"} or (keeps and not flags & names(keeps)):
        for word in operands:
            call.delete(word, recursive=bool(flags & {"-r", "--recursive"}))
    return False


def _packs(call: ProgramCall, sources: Sequence[Word], *, removes: bool) -> None:
    for word in sources:
        call.read(word)
        if removes:
            call.delete(word, recursive=True)


def _unpacks(call: ProgramCall, archives: Sequence[Word], members: Sequence[Word], folder: Word) -> None:
    """Members that are named, else the protected ones of an archive that is there, come into a folder."""
    stored = [] if members else [name for word in archives for name in _protected_members(call, word)]
    if not members or call.found.places.resolve(folder.text, call.cwd).kind is not PathZone.WORKSPACE:
        call.write(folder)
    for name in [*stored, *(word.text for word in members)]:
        call.found.write(posixpath.join(folder.text, name), call.cwd)


_MAX_LISTED: Final = 1_000_000
"""Bytes of an archive whose members are listed."""
_MOST_MEMBERS: Final = 2_000


def _protected_members(call: ProgramCall, word: Word) -> list[str]:
    """Names of an archive's members under which a protected file would be made."""
    import tarfile
    import zipfile

    path = call.found.places.on_disk(word.text, call.cwd)
    try:
        if path is None or not 0 < os.path.getsize(path) <= _MAX_LISTED:
            return []
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                stored = archive.namelist()
        else:
            with tarfile.open(path) as packed:
                stored = [member.name for member in islice(packed, _MOST_MEMBERS)]
    except (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError):
        return []
    return outermost(name for name in map(posixpath.normpath, stored) if is_protected(name))


RULES: Final[dict[str, Rule]] = {
    "tar": tar, "cpio": cpio, "rsync": rsync, "zip": zip_, "unzip": unzip, "seven_zip": seven_zip, "compress": compress,
}  # fmt: skip
