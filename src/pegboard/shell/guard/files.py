"""Rules of programs that read, write, move and remove files."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from pegboard.shell.guard.archives import ARCHIVERS
from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, Rule, by_table, names, stands_for
from pegboard.shell.guard.code import judge_code
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.searches import awk, fd, find, sed
from pegboard.shell.guard.tables import INTERPRETERS, PROGRAMS, SHELLS
from pegboard.shell.guard.words import Word, huge, writes_forever
from pegboard.shell.guard.wrappers import operands_of

_RM: Final = ProgramSpec()
_RECURSIVE: Final = names("-r -R --recursive")


def rm(call: ProgramCall) -> bool:
    options, operands = call.options(_RM)
    recursive = any(stands_for(o.flag, _RECURSIVE) for o in options)
    if any(stands_for(o.flag, names("--no-preserve-root")) for o in options):
        call.deny("rm --no-preserve-root")
    for word in operands:
        call.delete(word, recursive=recursive)
    return False


_COPY: Final = ProgramSpec(
    takes="tSZmog", long_takes=names("--target-directory --suffix --mode --owner --group")
)


def copy(call: ProgramCall) -> bool:
    """`cp`, `mv`, `ln`, `install`: sources, then one target."""
    options, operands = call.options(_COPY)
    into = [o.value for o in options if o.value and stands_for(o.flag, names("-t --target-directory"))]
    if any(stands_for(o.flag, names("-d --directory")) for o in options) and call.name == "install":
        for word in operands:
            call.write(word)
        return False
    if any(o.flag == "-m" and o.value and _gives_rights(o.value.text) for o in options):
        call.ask("install gives set-user or set-group rights")
    for strip in (o for o in options if o.flag == "--strip-program"):
        call.ask_unless_known(strip.value, "install --strip-program runs a program")
    sources, targets = (operands, into) if into else (operands[:-1], operands[-1:])
    if call.name == "ln" and len(operands) == 1:
        sources, targets = operands, [Word(".", ".")]
    for word in sources:
        if call.name == "mv":
            if call.found.places.resolve(word.text, call.cwd).kind is PathZone.SECRET:
                # Under another name nobody would know it for a secret.
                call.read(word)
            call.delete(word, recursive=call.cwd is not None)
        elif call.name == "ln" and any(o.flag in ("-s", "--symbolic") for o in options) and targets:
            _link(call, word, targets[0])
        else:
            call.read(word)
    itself = any(o.flag == "-T" or stands_for(o.flag, names("--no-target-directory")) for o in options)
    parents = any(stands_for(o.flag, names("--parents")) for o in options)
    for word in targets:
        call.place(sources, word, folder=None if not into else True, itself=itself, parents=parents)
    return False


def _link(call: ProgramCall, source: Word, target: Word) -> None:
    """A symbolic link's text is read from the folder that the link stands in."""
    folder = posixpath.dirname(target.text.rstrip("/"))
    if not source.text.startswith(("/", "~")) and folder and target.known:
        text = posixpath.join(folder, source.text)
        call.found.read(text, call.cwd, plain=False)
    else:
        text = source.text
        call.read(source)
    if call.found.places.resolve(text, call.cwd).kind is PathZone.PROTECTED:
        call.ask(f"a link to {text}, a protected file of the workspace, could be written through")


def _gives_rights(mode: str) -> bool:
    if HOLE in mode:
        return True
    return bool(re.fullmatch(r"[-+=]?0?[2-7][0-7]{3}", mode) or re.search(r"[ugoa]*[+=][rwxXt]*s", mode))


def chmod(call: ProgramCall) -> bool:
    args = [
        w
        for w in call.args
        if not re.fullmatch(r"--?(?:[Rvcf]+|recursive|verbose|changes|silent|quiet|reference=.*)", w.text)
    ]
    if args and not call.has("--reference"):
        if _gives_rights(args[0].text) and call.name == "chmod":
            call.ask("chmod gives set-user or set-group rights")
        args = args[1:]
    for word in args:
        if call.found.places.resolve(word.text, call.cwd).kind in (PathZone.ABOVE, PathZone.HOME):
            call.deny(f"{call.name} on {word.text}, which contains more than the workspace")
        call.write(word)
    return False


def dd(call: ProgramCall) -> bool:
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if equals and name == "of":
            call.write(Word(value, word.source, word.glob))
        elif equals and name == "if":
            call.read(Word(value, word.source, word.glob))
        elif HOLE in name:
            call.ask("dd has an operand that is not known before it runs")
    if any(w.text.startswith("of=") for w in call.args) and writes_forever([call.program, *call.args]):
        call.ask("dd without count writes until nothing more fits")
    return False


def sized(call: ProgramCall) -> bool:
    """`truncate -s`, `fallocate -l`: a size that no disk of ours has."""
    if any(huge(word.text) for word in call.args):
        call.ask(f"{call.name} makes a file that fills the disk")
    return by_table(call, PROGRAMS[call.name])


def tee(call: ProgramCall) -> bool:
    if call.stdin is not None and writes_forever(call.stdin.argv):
        call.ask("tee writes until nothing more fits")
    return by_table(call, PROGRAMS["tee"])


def shred(call: ProgramCall) -> bool:
    for word in call.options(
        ProgramSpec(takes="ns", long_takes=names("--iterations --size --random-source"))
    )[1]:
        call.delete(word)
    return False


def editor(call: ProgramCall) -> bool:
    """`vim` and its like: start-up commands run anything."""
    for at, word in enumerate(call.args):
        text = word.text
        if (text.startswith("+") and not re.fullmatch(r"\+(?:\d+|/[^!|]*|\$)?", text)) or text in (
            "-c",
            "--cmd",
            "-S",
            "-s",
            "-u",
            "-U",
            "-W",
            "-w",
            "-i",
            "-es",
            "-e",
            "-Es",
            "-E",
        ):
            given = call.args[at + 1] if text[0] == "-" and at + 1 < len(call.args) else word
            call.ask_unless_known(given, f"{call.name} {text} runs editor commands")
            return False
        if re.match(r"-(?:c|S|u)\S|--cmd", text):
            call.ask_unless_known(word, f"{call.name} {text} runs editor commands")
        if not text.startswith(("-", "+")) and at >= 0:
            call.write(word)
    return False


def less(call: ProgramCall) -> bool:
    for word in call.args:
        if word.text.startswith("+") and not re.fullmatch(r"\+\+?(?:\d+|G|F|/[^!|]*)", word.text):
            call.ask_unless_known(word, f"{call.name} {word.text} runs pager commands")
            return False
    operands = [w for w in call.args if not w.text.startswith("+")]
    return by_table(call.named(call.name, operands), PROGRAMS.get(call.name, PROGRAMS["less"]))


def make(call: ProgramCall) -> bool:
    program = ProgramSpec(
        takes="fCIjloW", long_takes=names("--file --makefile --directory --eval --include-dir --jobs")
    )
    options, operands = call.options(program)
    for option in options:
        if option.flag == "--eval" or (option.flag == "-E" and call.name in ("make", "gmake")):
            call.ask_unless_known(option.value, "make --eval runs its argument")
        if option.value and option.flag in ("-f", "--file", "--makefile", "-C", "--directory", "-I"):
            if (
                not option.value.known
                or option.value.text in ("-", "/dev/stdin")
                or option.value.text.startswith("/dev/fd")
            ):
                call.ask_unless_known(
                    None, f"{call.name} {option.flag} takes rules that are not known before it runs"
                )
            call.read(option.value)
            if call.found.places.resolve(option.value.text, call.cwd).kind not in (
                PathZone.INSIDE,
                PathZone.WORKSPACE,
                PathZone.PUBLIC,
            ):
                call.ask_unless_known(
                    option.value, f"{call.name} {option.flag} takes rules from outside the workspace"
                )
    for word in operands:
        name, equals, value = word.text.partition("=")
        if equals and name.upper() in ("DESTDIR", "PREFIX", "BINDIR", "LIBDIR", "DATADIR", "SYSCONFDIR"):
            call.write(Word(value, word.source))
        if equals and re.match(r"\S+\s", value) and value.split()[0] in (*SHELLS, *INTERPRETERS):
            call.judge.script(call, value)
        if equals and (
            name in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE")
            or re.search(r"[;&|`]|\$\(|\$\{|\brm\b|\n", value)
        ):
            call.ask_unless_known(word, f"make {name}= decides what runs")
    return False


def sqlite3(call: ProgramCall) -> bool:
    texts = [w for w in call.args if not w.text.startswith("-")]
    sql = " ".join(w.text for w in texts[1:]) + " " + (call.stdin.text or "" if call.stdin else "")
    if call.stdin is not None and call.stdin.text is None:
        call.ask_unless_known(None, "sqlite3 runs statements that another program writes")
    if HOLE in sql:
        call.ask_unless_known(None, "sqlite3 runs a statement that is not known before it runs")
    acts = re.search(
        r"(?:^|[\s\n])\.(?:shell|system|load|import|output|once|open|save|backup|clone|restore|read|excel|log|cd|archive|ar)\b"
        r"|\b(?:load_extension|writefile|readfile|edit|fts3_tokenizer)\s*\(|\battach\b|\bdrop\s+(?:table|database|schema|view)\b"
        r"|\bdelete\s+from\s+\w+\s*(?:;|$)|\btruncate\b|\bvacuum\s+into\b",
        sql,
        re.IGNORECASE,
    )
    if acts and re.search(r"\.(?:shell|system|load|read)|load_ext|edit", acts[0], re.IGNORECASE):
        call.ask_unless_known(None, f"the statement contains {acts[0].strip()!r}, which runs something else")
    elif acts:
        call.ask(f"the statement contains {acts[0].strip()!r}")
    if call.has("-cmd", "-init"):
        call.ask_unless_known(None, "sqlite3 -cmd and -init run statements")
    for word in texts[:1]:
        call.write(word)
    return False


def rename(call: ProgramCall) -> bool:
    """`rename`: Perl's takes code, util-linux' two texts; then files."""
    operands = operands_of(call, "")
    if operands and re.match(r"[sy][^\w\s]|tr\W", operands[0].text):
        if re.search(r"\W[a-z]*e[a-z]*$", operands[0].text):
            call.ask_unless_known(operands[0], "rename runs code on each name (the flag e)")
        judge_code(call, operands[0].text, "perl")
        operands = operands[1:]
    for word in operands:
        call.maybe_path(word)
    return False


_CMAKE_AS: Final = {
    "rm": "rm", "remove": "rm -f", "remove_directory": "rm -r", "copy": "cp", "copy_directory": "cp -r", "copy_if_different": "cp",
    "copy_directory_if_different": "cp -r", "rename": "mv", "make_directory": "mkdir", "touch": "touch", "touch_nocreate": "touch", "cat": "cat",
    "create_symlink": "ln -s", "create_hardlink": "ln", "env": "env", "time": "time", "tar": "tar", "chdir": "env -C",
}  # fmt: skip


def cmake(call: ProgramCall) -> bool:
    """`cmake -E TOOL` is that tool; everything else builds."""
    if call.args[:1] and call.args[0].text == "-E":
        known = _CMAKE_AS.get(call.args[1].text if len(call.args) > 1 else "")
        if known is not None:
            call.judge.inner(call, [*(Word(part, part) for part in known.split()), *call.args[2:]])
        return False
    return by_table(call, ProgramSpec())


RULES: Final[dict[str, Rule]] = {
    "rename": rename, "prename": rename, "perl-rename": rename, "cmake": cmake,
    "rm": rm, "rmdir": lambda c: _deletes(c), "unlink": lambda c: _deletes(c), "trash": lambda c: _deletes(c), "srm": rm, "grm": rm,
    "cp": copy, "mv": copy, "ln": copy, "install": copy, "gcp": copy, "gmv": copy, "link": copy,
    "chmod": chmod, "chown": chmod, "chgrp": chmod, "dd": dd, "tee": tee, "truncate": sized, "fallocate": sized, "shred": shred, "wipe": shred,
    "find": find, "gfind": find, "bfs": find, "fd": fd, "fdfind": fd, "sed": sed, "gsed": sed, "awk": awk, "gawk": awk, "mawk": awk, "nawk": awk,
    **ARCHIVERS,
    "vim": editor, "vi": editor, "nvim": editor, "view": editor, "vimdiff": editor, "gvim": editor, "rvim": editor, "nano": editor,
    "pico": editor, "micro": editor, "less": less, "more": less, "most": less, "make": make, "gmake": make, "bmake": make, "remake": make,
    "sqlite3": sqlite3, "sqlite": sqlite3,
}  # fmt: skip


def _deletes(call: ProgramCall) -> bool:
    for word in call.options(ProgramSpec())[1]:
        call.delete(word)
    return False
