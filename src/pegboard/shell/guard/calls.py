"""One program call to judge, and the vocabulary in which program rules speak about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from pegboard.shell.guard.findings import Findings
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.options import Option, ProgramSpec, parse, stands_for
from pegboard.shell.guard.segments import StdinSource
from pegboard.shell.guard.words import Word

PATH_LIKE: Final = re.compile(r"^(?:/|~|\.\.?(?:/|$))|/\.\.(?:/|$)")
URL: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class NestedJudge(Protocol):
    """What a rule may ask of the judge for the commands inside a command."""

    def inner(self, call: ProgramCall, words: list[Word], *, stdin: StdinSource | None = None) -> None:
        """Judge an inner program call, with the same folder."""
        ...

    def script(self, call: ProgramCall, text: str, *, stdin: StdinSource | None = None) -> None:
        """Judge a text that a shell runs."""
        ...


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One program with its arguments.

    Attributes:
        name: the program's name without folder.
        program: the word that names it.
        args: the arguments.
        cwd: the folder it runs in, None = not known.
        other_cwds: where it runs if an earlier `cd` fails.
        stdin: what feeds it.
        found: where rules report.
        judge: for inner commands.
        piped_on: its output goes to another program.
    """

    name: str
    program: Word
    args: list[Word]
    cwd: str | None
    other_cwds: tuple[str, ...]
    stdin: StdinSource | None
    found: Findings
    judge: NestedJudge
    piped_on: bool = False

    def read(self, word: Word, *, plain: bool = True) -> None:
        """The operand is a file that is read."""
        if word.text and word.text != "-":
            self.found.read(word.text, self.cwd, glob=word.glob, plain=plain)

    def write(self, word: Word) -> None:
        """The operand is a file that is created or changed."""
        if word.text and word.text != "-":
            self.found.write(word.text, self.cwd, glob=word.glob)

    def delete(self, word: Word, *, recursive: bool = False) -> None:
        """The operand is removed."""
        if word.text:
            for folder in dict.fromkeys((self.cwd, *self.other_cwds)):
                self.found.delete(word.text, folder, glob=word.glob, recursive=recursive)

    def stat(self, word: Word) -> None:
        """The operand's name is looked at, not its content."""
        kind = self.found.places.resolve(word.text, self.cwd, glob=word.glob).kind
        if kind in (PathZone.HOME, PathZone.OUTSIDE, PathZone.NETWORK) or (
            kind is PathZone.SECRET and word.text[:1] in "/~"
        ):
            self.read(word, plain=False)

    def maybe_path(self, word: Word) -> None:
        """The operand may be a path, a URL or anything."""
        text = word.text
        if URL.match(text):
            if not text.startswith("file:"):
                host = host_of(text)
                self.found.connect(host, verdict="allow" if is_loopback(host) else "ask")
        elif word.known or text[:1] != HOLE:
            # `concat:/etc/x`, `msl:/x`: a name of a kind before the path.
            if kind := re.match(r"[A-Za-z][A-Za-z0-9]{1,15}:(?=[/~](?!/))", text):
                text = text[kind.end() :]
            at = text.find("=")
            if 0 < at < len(text) - 1 and text[0] != "/" and PATH_LIKE.search(text[at + 1 :]):
                text = text[at + 1 :]
            named = "/" in text or "." in text or word.glob or text.startswith(("~", "id_", "cred"))
            if named and text not in ("/", ".", "./") and not text.startswith("//"):
                self.found.read(text.removeprefix("@"), self.cwd, glob=word.glob, plain=False)

    def ask(self, reason: str) -> None:
        """This call needs a person's yes."""
        self.found.ask(reason)

    def ask_unless_known(self, word: Word | None, reason: str) -> None:
        """This call needs a yes: `word`, or what is not known where it is None, decides what it runs."""
        token = HOLE
        if word is not None and word.known and word.text:
            # As it stands among the arguments, where a pattern would have to spell it: `--pager=./x`, `-P./x`.
            holds = (w.text for w in self.args if w.text[:1] == "-" and w.text.endswith(word.text))
            token = word.text if any(w.text == word.text for w in self.args) else next(holds, word.text)
        self.found.ask_unless_known(token, reason)

    def deny(self, reason: str) -> None:
        """This call must not run."""
        self.found.deny(reason)

    def options(self, program: ProgramSpec) -> tuple[list[Option], list[Word]]:
        """The arguments, split."""
        return parse(self.args, program)

    def has(self, *flags: str) -> bool:
        """Whether one of these words stands among the arguments."""
        return any(word.text in flags for word in self.args)

    def in_folder(self, cwd: str | None) -> ProgramCall:
        """The same call in another folder."""
        return replace(self, cwd=cwd, other_cwds=())

    def named(self, name: str, args: list[Word]) -> ProgramCall:
        """A call of another program in the same place."""
        return replace(self, name=name, args=args)


Rule = Callable[[ProgramCall], bool]
"""Judges one program's call; returns whether the call changes nothing (the read-only table)."""


def by_table(call: ProgramCall, program: ProgramSpec) -> bool:
    """Judge a call by its row of tables.py."""
    if program.verdict == "deny":
        call.deny(f"{call.name} {program.reason}")
    elif program.verdict == "ask":
        if program.decides:
            call.ask_unless_known(call.program, f"{call.name} {program.reason}")
        else:
            call.ask(f"{call.name} {program.reason}")
    options, operands = call.options(program)
    read_only = program.read_only
    if program.operands == "doubtful":
        _outputs(call)
    for option in options:
        if program.runs and stands_for(option.flag, program.runs):
            call.ask_unless_known(
                option.value or Word(option.flag, option.flag), f"{call.name} {option.flag} runs a program"
            )
        elif program.writes and stands_for(option.flag, program.writes):
            read_only = False
            if option.value is not None:
                call.write(option.value)
        elif option.value is not None and option.flag not in program.text:
            call.maybe_path(option.value)
        elif option.value is None and len(option.flag) > 3 and option.flag[2] == "/":
            call.maybe_path(Word(option.flag[2:], option.flag))
    return _operands(call, program, operands, options) and read_only


_OUTPUT: Final = re.compile(
    r"--(?:out(?:put)?(?:[-_]?(?:file|dir|path|directory))?|outDir|dest(?:ination)?|log[-_]?file|target[-_]?dir|prefix|to|save)(?:=(.*))?|-[oO](.*)",
    re.DOTALL,
)


def _outputs(call: ProgramCall) -> None:
    """Options of any program that by custom name its output: outside paths among them are written."""
    for at, word in enumerate(call.args):
        match = _OUTPUT.fullmatch(word.text) if word.text[:1] == "-" else None
        if match is None:
            continue
        value = match[1] or match[2] or (call.args[at + 1].text if at + 1 < len(call.args) else "")
        if PATH_LIKE.search(value):
            call.found.write(value, call.cwd)


def _operands(call: ProgramCall, program: ProgramSpec, operands: list[Word], options: list[Option]) -> bool:
    """Judge operands as the row says; returns False where one is written."""
    match program.operands:
        case "read":
            for word in operands:
                call.maybe_path(word) if URL.match(word.text) else call.read(word)
        case "pattern-read":
            given = any(
                o.flag in ("-e", "-f", "--regexp", "--file", "--from-file", "--files") for o in options
            )
            for word in operands if given else operands[1:]:
                call.read(word)
        case "look":
            for word in operands:
                call.stat(word)
        case "write":
            for word in operands:
                call.write(word)
            return False
        case "read-write":
            for word in operands[:1]:
                call.read(word)
            for word in operands[1:]:
                call.write(word)
            return len(operands) < 2
        case "delete":
            for word in operands:
                call.delete(word)
            return False
        case "doubtful":
            for word in operands:
                call.maybe_path(word)
        case "text":
            pass
    return True


def host_of(url: str) -> str:
    """`host` or `host:port` of a URL or of `host/path`; HOLE where it is not known."""
    rest = url.split("://", 1)[-1]
    host = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    return HOLE if HOLE in host else host.lower()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which inside the sandbox is the sandbox."""
    name = re.sub(r":\d+$", "", host)
    return name in ("localhost", "[::1]", "0.0.0.0") or re.fullmatch(r"127(?:\.\d{1,3}){3}", name) is not None
