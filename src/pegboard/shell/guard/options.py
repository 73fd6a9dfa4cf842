"""Command-line options as getopt reads them, and the table row that says what a program's options do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pegboard.core.effects import Verdict
from pegboard.shell.guard.words import Word

Operands: TypeAlias = Literal[
    "read", "write", "text", "pattern-read", "read-write", "look", "delete", "doubtful"
]
"""What operands are: files read; files written; text; a pattern, then files; files read and a last one written;
names that are looked at without their content; files removed; not known."""


def names(text: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """What a program's options and operands do (a row of tables.py).

    Attributes:
        takes: short options with a value.
        long_takes: long options whose value may be the next word.
        text: options, short or long, whose value is no path.
        runs: options that run a program or load code.
        writes: options whose value is a file or folder written.
        operands: what the operands are.
        read_only: nothing is changed as long as no `runs` or `writes` option stands there.
        single_dash: options are whole words after one dash (`-exec`), never bundles.
        verdict, reason: of any use at all.
        decides: of a program that runs what its arguments or its input say: only a rule that names it
            allows it.
    """

    takes: str = ""
    long_takes: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    operands: Operands = "doubtful"
    read_only: bool = False
    single_dash: bool = False
    verdict: Verdict = "allow"
    reason: str = ""
    decides: bool = False


def asks(reason: str, verdict: Verdict = "ask", *, decides: bool = False) -> ProgramSpec:
    """The row of a program any use of which asks (or is denied)."""
    return ProgramSpec(operands="doubtful", verdict=verdict, reason=reason, decides=decides)


@dataclass(frozen=True, slots=True)
class Option:
    """One option and its value; `flag` is `-x` or `--name`."""

    flag: str
    value: Word | None


def parse(args: Iterable[Word], program: ProgramSpec) -> tuple[list[Option], list[Word]]:
    """Split arguments into options and operands, permuting as GNU getopt does."""
    options: list[Option] = []
    operands: list[Word] = []
    rest = iter(args)
    for word in rest:
        text = word.text
        if text == "--":
            operands.extend(rest)
        elif len(text) < 2 or text[0] != "-" or (text[1].isdigit() and not program.takes.isdigit()):
            operands.append(word)
        elif text.startswith("--") or program.single_dash:
            name, equals, value = text.partition("=")
            if equals:
                options.append(Option(name, Word(value, word.source, word.glob, word.secret)))
            elif name in program.long_takes:
                options.append(Option(name, next(rest, None)))
            else:
                options.append(Option(name, None))
        else:
            _bundle(word, rest, program.takes, options)
    return options, operands


def _bundle(word: Word, rest: Iterable[Word], takes: str, options: list[Option]) -> None:
    text = word.text
    for at in range(1, len(text)):
        letter = text[at]
        if letter in takes:
            value = text[at + 1 :]
            if value:
                made: Word | None = Word(value, word.source, word.glob, word.secret)
            else:
                made = next(iter(rest), None)
            options.append(Option("-" + letter, made))
            return
        options.append(Option("-" + letter, None))


def stands_for(flag: str, names: frozenset[str]) -> bool:
    """Whether an option is one of `names`, GNU abbreviations of long ones included."""
    if flag in names:
        return True
    if len(flag) < 5 or not flag.startswith("--"):
        return False
    return any(name.startswith(flag) for name in names)
