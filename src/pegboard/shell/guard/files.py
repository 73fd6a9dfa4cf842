"""Rules of programs that copy, move and make files, and of programs that run what files or operands say."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, Rule, stands_for
from pegboard.shell.guard.code import judge_code
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.rows import by_row
from pegboard.shell.guard.specs import in_section, names
from pegboard.shell.guard.words import Word, huge, writes_forever


def copy(call: ProgramCall) -> bool:
    """`cp`, `mv`, `ln`, `install`: sources, then one target."""
    options, operands = call.options()
    into = [o.value for o in options if o.value and stands_for(o.flag, names("-t --target-directory"))]
    if call.name == "install" and any(stands_for(o.flag, names("-d --directory")) for o in options):
        for word in operands:
            call.write(word)
        return False
    for option in options:
        if option.flag == "-m" and option.value and _gives_rights(option.value.text):
            call.ask("install gives set-user or set-group rights")
        if option.flag == "--strip-program":
            call.ask_unless_known(option.value, "install --strip-program runs a program")
    sources, targets = (operands, into) if into else (operands[:-1], operands[-1:])
    if call.name == "ln" and len(operands) == 1:
        sources, targets = operands, [Word(".", ".")]
    links = call.name == "ln" and any(o.flag in ("-s", "--symbolic") for o in options)
    for word in sources:
        if call.name == "mv":
            if call.found.places.resolve(word.text, call.cwd).kind is PathZone.SECRET:
                # Under another name nobody would know it for a secret.
                call.read(word)
            call.delete(word, recursive=call.cwd is not None)
        elif links and targets:
            _link(call, word, targets[0])
        else:
            call.read(word)
    itself = any(o.flag == "-T" or stands_for(o.flag, names("--no-target-directory")) for o in options)
    parents = any(stands_for(o.flag, names("--parents")) for o in options)
    for word in targets:
        call.place(sources, word, folder=True if into else None, itself=itself, parents=parents)
    return False


def _link(call: ProgramCall, source: Word, target: Word) -> None:
    """A symbolic link's text is read from the folder that the link stands in."""
    folder = posixpath.dirname(target.text.rstrip("/"))
    text = source.text
    if not text.startswith(("/", "~")) and folder and target.known:
        text = posixpath.join(folder, text)
        call.found.read(text, call.cwd, plain=False)
    else:
        call.read(source)
    if call.found.places.resolve(text, call.cwd).kind is PathZone.PROTECTED:
        call.ask(f"a link to {text}, a protected file of the workspace, could be written through")


def _gives_rights(mode: str) -> bool:
    return re.fullmatch(rf".*{HOLE}.*|[-+=]?0?[2-7][0-7]{{3}}|.*[+=][rwxXt]*s.*", mode, re.DOTALL) is not None


def chmod(call: ProgramCall) -> bool:
    options = r"--?(?:[Rvcf]+|recursive|verbose|changes|silent|quiet|reference=.*)"
    args = [w for w in call.args if not re.fullmatch(options, w.text)]
    if args and not call.has("--reference"):
        if call.name == "chmod" and _gives_rights(args[0].text):
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
        if equals and name in ("if", "of"):
            (call.read if name == "if" else call.write)(Word(value, word.source, word.glob))
        elif HOLE in name:
            call.ask("dd has an operand that is not known before it runs")
    if any(w.text.startswith("of=") for w in call.args) and writes_forever([call.program, *call.args]):
        call.ask("dd without count writes until nothing more fits")
    return False


def sized(call: ProgramCall) -> bool:
    """`truncate -s`, `fallocate -l`: a size that no disk of ours has."""
    if any(huge(word.text) for word in call.args):
        call.ask(f"{call.name} makes a file that fills the disk")
    return by_row(call)


def tee(call: ProgramCall) -> bool:
    if call.stdin is not None and writes_forever(call.stdin.argv):
        call.ask("tee writes until nothing more fits")
    return by_row(call)


_INSTALLS: Final = names("DESTDIR PREFIX BINDIR LIBDIR DATADIR SYSCONFDIR")


def make(call: ProgramCall) -> bool:
    options, operands = call.options()
    for option in options:
        value = option.value
        if option.flag == "--eval" or (option.flag == "-E" and call.name in ("make", "gmake")):
            call.ask_unless_known(value, "make --eval runs its argument")
        if value is None or option.flag not in ("-f", "--file", "--makefile", "-C", "--directory", "-I"):
            continue
        rules = f"{call.name} {option.flag} takes rules"
        if not value.known or value.text in ("-", "/dev/stdin") or value.text.startswith("/dev/fd"):
            call.ask_unless_known(None, f"{rules} that are not known before it runs")
        call.read(value)
        kind = call.found.places.resolve(value.text, call.cwd).kind
        if kind not in (PathZone.INSIDE, PathZone.WORKSPACE, PathZone.PUBLIC):
            call.ask_unless_known(value, f"{rules} from outside the workspace")
    for word in operands:
        name, equals, value = word.text.partition("=")
        if not equals:
            continue
        if name.upper() in _INSTALLS:
            call.write(Word(value, word.source))
        if re.match(r"\S+\s", value) and in_section(value.split()[0], "shells", "interpreters"):
            call.judge.script(call, value)
        decides = name in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE")
        if decides or re.search(r"[;&|`]|\$\(|\$\{|\brm\b|\n", value):
            call.ask_unless_known(word, f"make {name}= decides what runs")
    return False


_SQL_ACTS: Final = re.compile(
    r"(?:^|[\s\n])\.(?:shell|system|load|import|output|once|open|save|backup|clone|restore|read|excel|log|cd|archive|ar)\b"
    r"|\b(?:load_extension|writefile|readfile|edit|fts3_tokenizer)\s*\(|\battach\b|\bdrop\s+(?:table|database|schema|view)\b"
    r"|\bdelete\s+from\s+\w+\s*(?:;|$)|\btruncate\b|\bvacuum\s+into\b",
    re.IGNORECASE,
)


def sqlite3(call: ProgramCall) -> bool:
    plain = [w for w in call.args if not w.text.startswith("-")]
    fed = call.stdin.text or "" if call.stdin else ""
    sql = " ".join([*(w.text for w in plain[1:]), fed])
    if call.stdin is not None and call.stdin.text is None:
        call.ask_unless_known(None, "sqlite3 runs statements that another program writes")
    if HOLE in sql:
        call.ask_unless_known(None, "sqlite3 runs a statement that is not known before it runs")
    if acts := _SQL_ACTS.search(sql):
        reason = f"the statement contains {acts[0].strip()!r}"
        if re.search(r"\.(?:shell|system|load|read)|load_ext|edit", acts[0], re.IGNORECASE):
            call.ask_unless_known(None, f"{reason}, which runs something else")
        else:
            call.ask(reason)
    if call.has("-cmd", "-init"):
        call.ask_unless_known(None, "sqlite3 -cmd and -init run statements")
    for word in plain[:1]:
        call.write(word)
    return False


def rename(call: ProgramCall) -> bool:
    """`rename`: Perl's takes code, util-linux' two texts; then files."""
    operands = call.options()[1]
    if operands and re.match(r"[sy][^\w\s]|tr\W", operands[0].text):
        if re.search(r"\W[a-z]*e[a-z]*$", operands[0].text):
            call.ask_unless_known(operands[0], "rename runs code on each name (the flag e)")
        judge_code(call, operands[0].text, "perl")
        files = operands[1:]
    else:
        files = operands[2:]
    for word in files:
        call.write(word)
    return False


_CMAKE_AS: Final = {
    "rm": "rm", "remove": "rm -f", "remove_directory": "rm -r", "copy": "cp", "copy_directory": "cp -r", "copy_if_different": "cp",
    "copy_directory_if_different": "cp -r", "rename": "mv", "make_directory": "mkdir", "touch": "touch", "touch_nocreate": "touch", "cat": "cat",
    "create_symlink": "ln -s", "create_hardlink": "ln", "env": "env", "time": "time", "tar": "tar", "chdir": "env -C",
}  # fmt: skip


def cmake(call: ProgramCall) -> bool:
    """`cmake -E TOOL` is that tool; everything else builds."""
    if not call.args or call.args[0].text != "-E":
        return by_row(call)
    known = _CMAKE_AS.get(call.args[1].text if len(call.args) > 1 else "")
    if known is not None:
        call.judge.inner(call, [*(Word(part, part) for part in known.split()), *call.args[2:]])
    return False


RULES: Final[dict[str, Rule]] = {
    "copy": copy, "chmod": chmod, "dd": dd, "sized": sized, "tee": tee, "make": make, "sqlite3": sqlite3, "rename": rename,
    "cmake": cmake,
}  # fmt: skip
