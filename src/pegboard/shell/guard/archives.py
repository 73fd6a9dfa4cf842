"""Rules of programs that pack, unpack and mirror trees of files."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, names, parse, stands_for
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
    if flags & {"--remove-files"}:
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
    for at, word in enumerate(operands):
        remote = re.match(r"(?:rsync://|[\w.@-]+::?)", word.text)
        if remote and not word.text.startswith(("/", ".")):
            call.found.connect(re.split(r"[:/]", word.text.removeprefix("rsync://"))[0].rpartition("@")[2])
        elif at == len(operands) - 1 and len(operands) > 1:
            call.write(word)
            if deletes:
                call.delete(Word(word.text.rstrip("/") or "/", word.source), recursive=True)
        else:
            call.read(word)
    return False
