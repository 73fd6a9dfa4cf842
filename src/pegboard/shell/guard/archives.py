"""Rules of programs that pack, unpack and mirror trees of files."""

from __future__ import annotations

import lzma
import os
import posixpath
import re
import zlib
from dataclasses import replace
from itertools import islice
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, Rule, by_table, names, parse, stands_for
from pegboard.shell.guard.operands import HOLE, PathZone, is_protected, outermost
from pegboard.shell.guard.tables import PROGRAMS
from pegboard.shell.guard.words import Word

_TAR: Final = ProgramSpec(
    takes="fCTXIbgKLNVF", long_takes=names("--file --directory --files-from --exclude-from --use-compress-program --exclude --transform "
                                          "--one-top-level --index-file --info-script --new-volume-script --rsh-command --rmt-command --listed-incremental")
)  # fmt: skip


_TAR_RUNS: Final = names(
    "--to-command --use-compress-program --checkpoint-action --info-script --new-volume-script --rsh-command --rmt-command -I -F"
)


def tar(call: ProgramCall) -> bool:
    args: list[Word] = [*call.args]
    # Old style: `tar xzf a.tar`, the first word is a bundle and takes its values in order.
    if args and args[0].text[:1] != "-" and re.fullmatch(r"[A-Za-z]+", args[0].text):
        letters = args[0].text
        rest = args[1:]
        args = []
        for letter in letters:
            args.append(Word("-" + letter, letters))
            if letter in _TAR.takes and rest:
                args.append(rest.pop(0))
        args.extend(rest)
    options, operands = parse(args, _TAR)
    cwd = call.cwd
    flags = {o.flag for o in options}
    lists = bool(flags & {"-t", "--list"})
    extracts = bool(flags & {"-x", "--extract", "--get"})
    for option in options:
        if stands_for(option.flag, _TAR_RUNS) and not (
            option.flag in ("-I", "--use-compress-program") and _compressor(option.value)
        ):
            call.ask_unless_known(
                option.value or Word(option.flag, option.flag), f"tar {option.flag} runs a program"
            )
        if option.flag == "--index-file" and option.value:
            call.write(option.value)
        if option.flag in ("-P", "--absolute-names") and extracts:
            call.ask("tar -P writes to the absolute paths stored in the archive")
        if option.flag in ("-C", "--directory", "--one-top-level") and option.value:
            if extracts:
                call.write(option.value)
            else:
                call.read(option.value)
            cwd = _joined(cwd, option.value)
    for option in options:
        if option.flag in ("-f", "--file") and option.value:
            if re.match(r"[\w.@-]+:", option.value.text) and "--force-local" not in flags:
                call.found.connect(option.value.text.split(":")[0].rpartition("@")[2])
            (call.read if extracts or lists else call.write)(option.value)
        if option.flag in ("-T", "-X", "--files-from", "--exclude-from") and option.value:
            call.read(option.value)
    if not extracts and not lists:
        for word in operands:
            call.in_folder(cwd).read(word)
    if extracts:
        packed = [o.value for o in options if o.flag in ("-f", "--file") and o.value]
        _unpacks(call, packed, operands, Word(cwd or HOLE, "."))
    if any(stands_for(flag, names("--remove-files")) for flag in flags):
        for word in operands:
            call.in_folder(cwd).delete(word, recursive=True)
    return lists


_CPIO: Final = ProgramSpec(
    takes="EFHIOCDRM", long_takes=names("--pattern-file --file --format --directory --owner --message --io-size --block-size")
)  # fmt: skip


def cpio(call: ProgramCall) -> bool:
    """`cpio -i` writes wherever the archive says, unless that is forbidden; `-p` writes into its operand."""
    options, operands = call.options(_CPIO)
    flags = {option.flag for option in options}
    lists = bool(flags & {"-t", "--list"})
    extracts = bool(flags & {"-i", "--extract"}) and not lists
    if extracts and not flags & {"--no-absolute-filenames"}:
        call.ask("cpio -i writes to the absolute paths stored in the archive")
    for option in options:
        if stands_for(option.flag, names("--rsh-command --to-command")):
            call.ask_unless_known(
                option.value or Word(option.flag, option.flag), f"cpio {option.flag} runs a program"
            )
        if option.value is None:
            continue
        if option.flag in ("-O", "-D", "--directory") or (option.flag in ("-F", "--file") and not extracts):
            call.write(option.value)
        elif option.flag in ("-F", "-I", "-E", "--file", "--pattern-file"):
            call.read(option.value)
    if flags & {"-p", "--pass-through"}:
        for word in operands[-1:]:
            call.write(word)
    return lists


def _compressor(value: Word | None) -> bool:
    return (
        value is not None
        and re.fullmatch(
            r"(?:gzip|pigz|bzip2|pbzip2|xz|pxz|zstd|zstdmt|lz4|lzip|lzop|brotli)(?: -[\w-]+)*", value.text
        )
        is not None
    )


def _joined(cwd: str | None, word: Word) -> str | None:
    if not word.known or (cwd is None and not word.text.startswith("/")):
        return None
    return posixpath.normpath(posixpath.join(cwd or "/", word.text))


_RSYNC: Final = ProgramSpec(
    takes="efTB", long_takes=names("--rsh --exclude --include --filter --exclude-from --include-from --files-from --rsync-path --temp-dir "
                                  "--backup-dir --log-file --partial-dir --compare-dest --link-dest --password-file --port --chmod --chown")
)  # fmt: skip


def rsync(call: ProgramCall) -> bool:
    options, operands = call.options(_RSYNC)
    for option in options:
        if stands_for(option.flag, names("--rsh --rsync-path -e --daemon --server")):
            call.ask_unless_known(
                option.value or Word(option.flag, option.flag), f"rsync {option.flag} runs a program"
            )
        if option.value and stands_for(
            option.flag, names("--log-file --backup-dir --temp-dir -T --partial-dir")
        ):
            call.write(option.value)
        if option.value and stands_for(
            option.flag, names("--exclude-from --include-from --files-from --password-file")
        ):
            call.read(option.value)
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


_ZIP: Final = ProgramSpec(
    takes="bntxiOP",
    long_takes=names("--exclude --include --temp-path --suffixes --from-date --out --password"),
)
_UNZIP: Final = ProgramSpec(takes="dxPO")


def zip_(call: ProgramCall) -> bool:
    """`zip ARCHIVE SOURCE …`: `-m` removes the sources."""
    options, operands = call.options(_ZIP)
    if any("TT" in w.text or w.text == "--unzip-command" for w in call.args if w.text[:1] == "-"):
        call.ask_unless_known(None, "zip -TT runs a program")
    for option in options:
        if option.value and option.flag in ("-O", "--out", "-b", "--temp-path"):
            call.write(option.value)
    for word in operands[:1]:
        call.write(word)
    _packs(call, operands[1:], removes=any(o.flag in ("-m", "--move") for o in options))
    return False


def unzip(call: ProgramCall) -> bool:
    """`unzip ARCHIVE MEMBER … -d FOLDER`."""
    options, operands = call.options(_UNZIP)
    flags = {option.flag for option in options}
    if "-:" in flags:
        call.ask("unzip -: writes to the paths above the folder stored in the archive")
    lists = bool(flags & {"-l", "-t", "-v", "-Z", "-p"})
    folder = next((o.value for o in options if o.flag == "-d" and o.value), Word(".", "."))
    for word in operands[:1]:
        call.read(word)
    if not lists:
        _unpacks(call, operands[:1], operands[1:], folder)
    return lists


def seven_zip(call: ProgramCall) -> bool:
    """`7z a ARCHIVE SOURCE …`, `rar a …`: `-sdel`, `-df` and the command `m` remove the sources."""
    words = [w for w in call.args if not w.text.startswith("-")]
    command, rest = (words[0].text, words[1:]) if words else ("", [])
    folder = next((Word(w.text[2:], w.source) for w in call.args if re.match(r"-o.", w.text)), None)
    if command in ("a", "u", "m", "mf", "f", "d", "rn"):
        for word in rest[:1]:
            call.write(word)
        removes = command in ("m", "mf") or any(re.fullmatch(r"-(?:sdel|d[frw])", w.text) for w in call.args)
        if command not in ("d", "rn"):
            _packs(call, rest[1:], removes=removes)
        return False
    for word in rest[:1]:
        call.read(word)
    if command in ("x", "e"):
        if call.name.startswith("un") and rest[1:] and rest[-1].text.endswith("/"):
            folder, rest = rest[-1], rest[:-1]
        _unpacks(call, rest[:1], rest[1:], folder or Word(".", "."))
    return command in ("l", "t", "i")


def unpacker(call: ProgramCall) -> bool:
    """`unar ARCHIVE`: the archive is read."""
    for word in call.options(ProgramSpec(takes="oepEk", long_takes=names("--output-directory")))[1]:
        call.read(word)
    for option in call.options(ProgramSpec(takes="oepEk", long_takes=names("--output-directory")))[0]:
        if option.flag in ("-o", "--output-directory") and option.value:
            call.write(option.value)
    return False


def _packs(call: ProgramCall, sources: list[Word], *, removes: bool) -> None:
    for word in sources:
        call.read(word)
        if removes:
            call.delete(word, recursive=True)


def _unpacks(call: ProgramCall, archives: list[Word], members: list[Word], folder: Word) -> None:
    """Members that are named, else the protected ones of an archive that is there, come into a folder."""
    stored = [] if members else [name for word in archives for name in _protected_members(call, word)]
    if not members or call.found.places.resolve(folder.text, call.cwd).kind is not PathZone.WORKSPACE:
        call.write(folder)
    for name in [*stored, *(word.text for word in members)]:
        call.found.write(posixpath.join(folder.text, name), call.cwd)


_MAX_LISTED: Final = 1_000_000
"""Bytes of an archive that is listed, """
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


_KEEPS: Final = names("-k --keep -c --stdout --to-stdout -t --test -l --list -h --help -V --version")
_REPLACES: Final = names(
    "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma pigz unpigz pbzip2 lzip lzop compress uncompress"
)


def compress(call: ProgramCall) -> bool:
    """`gzip FILE` puts `FILE.gz` in its place; `zstd` and `lz4` keep it unless told otherwise."""
    by_table(call, PROGRAMS[call.name])
    options, operands = call.options(PROGRAMS[call.name])
    flags = {option.flag for option in options}
    if flags & {"--rm", "-j"} or (call.name in _REPLACES and not flags & _KEEPS):
        for word in operands:
            call.delete(word, recursive=bool(flags & {"-r", "--recursive"}))
    return False


ARCHIVERS: Final[dict[str, Rule]] = {
    **dict.fromkeys(("tar", "gtar", "bsdtar"), tar), "cpio": cpio, "rsync": rsync, "zip": zip_, "unzip": unzip,
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "rar", "unrar", "unrar-free"), seven_zip), **dict.fromkeys(("unar", "lsar"), unpacker),
    **dict.fromkeys((*_REPLACES, "zstd", "lz4", "brotli"), compress),
}  # fmt: skip
