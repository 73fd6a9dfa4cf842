"""Judges a call by its program's row: the one interpreter of `programs.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pegboard.shell.guard.calls import PATH_LIKE, URL, Option, ProgramCall, stands_for
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.specs import ProgramSpec, When
from pegboard.shell.guard.words import Word


def by_row(call: ProgramCall, row: ProgramSpec | None = None) -> bool:
    """Judge a call by its program's row, or by another one; returns whether nothing is changed."""
    row = row or call.spec
    options, operands = call.options(row)
    if row.answers is not None and _fitting(call, row.answers, options, operands):
        for word in call.args[1:]:
            call.maybe_path(word)
        return row.answers.reads is True
    if row.verdict == "deny":
        call.deny(f"{call.name} {row.reason}")
    elif row.decides:
        call.ask_unless_known(call.program, f"{call.name} {row.reason}")
    elif row.verdict == "ask":
        call.ask(f"{call.name} {row.reason}")
    reads, stopped = follow(call, row.when, options, operands)
    read_only = row.read_only if reads is None else reads
    if stopped:
        return read_only
    if row.operands == "doubtful":
        _outputs(call)
    for option in options:
        read_only = _option(call, row, option) and read_only
    return _operands(call, row, operands, options) and read_only


def follow(
    call: ProgramCall,
    conditions: Iterable[When],
    options: Sequence[Option] = (),
    operands: Sequence[Word] = (),
) -> tuple[bool | None, bool]:
    """Do what the conditions that hold say; returns whether they make the call read or change, and whether one stops."""
    reads: bool | None = None
    for when in conditions:
        found = _fitting(call, when, options, operands)
        for word in found:
            _act(call, when, word)
        if found:
            reads = reads if when.reads is None else when.reads
            if when.stop:
                return reads, True
    return reads, False


_NO_WORD: Final = Word("", "")


def _fitting(
    call: ProgramCall, when: When, options: Sequence[Option], operands: Sequence[Word]
) -> Sequence[Word]:
    """The words for which a condition holds, an empty one if it is about no word in particular."""
    args = call.args
    texts = [word.text for word in args]
    plain = next((text for text in texts if text[:1] != "-"), "")
    fed = call.stdin
    if (
        (when.no and when.no.intersection(texts))
        or (when.first and not when.first.fullmatch(texts[0] if texts else ""))
        or (when.plain and not when.plain.fullmatch(plain))
        or (when.line and not when.line.fullmatch(" ".join(texts)))
        or (when.fed and (fed is None or not (fed.text is None or when.fed.search(fed.text))))
    ):
        return ()
    if when.option:
        return [
            option.value or Word(option.flag, option.flag)
            for option in options
            if stands_for(option.flag, when.option)
            and (when.value is None or (option.value and when.value.fullmatch(option.value.text)))
        ]
    if when.has:
        return [word for word in args if word.text in when.has]
    if when.any:
        return [word for word in args if when.any.fullmatch(word.text)]
    if when.operand:
        return [word for word in operands if when.operand.fullmatch(word.text)]
    return (_NO_WORD,)


def _act(call: ProgramCall, when: When, word: Word) -> None:
    args = call.args

    def filled(text: str) -> str:
        plain = next((w.text for w in args if w.text[:1] != "-"), "")
        first = args[0].text if args else ""
        return text.format(name=call.name, word=word.text, first=first, plain=plain).replace(HOLE, "…")

    if when.deny:
        call.deny(filled(when.deny))
    if when.ask:
        call.ask(filled(when.ask))
    if when.decide:
        token: Word | None = word
        if when.token == "program":
            token = call.program
        elif when.token == "next":
            at = next((i for i, w in enumerate(args) if w is word), len(args))
            token = args[at + 1] if at + 1 < len(args) else word
        call.ask_unless_known(None if when.token == "none" else token, filled(when.decide))
    if when.connect:
        call.found.connect(filled(when.connect), filled(when.why))
    if when.write:
        call.write(Word(when.write, call.name))


def _option(call: ProgramCall, row: ProgramSpec, option: Option) -> bool:
    """What one option does; returns whether it changes nothing."""
    flag, value = option.flag, option.value
    for flags, why in row.asks:
        if stands_for(flag, flags):
            call.ask(f"{call.name} {flag} {why}")
    for flags, why in row.decides_by:
        if stands_for(flag, flags):
            call.ask_unless_known(value, f"{call.name} {flag} {why}")
    if row.runs and stands_for(flag, row.runs):
        call.ask_unless_known(value or Word(flag, flag), f"{call.name} {flag} runs a program")
    elif row.writes and stands_for(flag, row.writes):
        if value is not None:
            call.write(value)
        return False
    elif row.reads and stands_for(flag, row.reads):
        if value is not None:
            call.read(value)
    elif row.script and stands_for(flag, row.script):
        if value is not None:
            call.shell_text([value])
    elif value is not None and flag not in row.text:
        call.maybe_path(value)
    elif value is None and len(flag) > 3 and flag[2] == "/":
        call.maybe_path(Word(flag[2:], flag))
    return True


_OUTPUT: Final = re.compile(
    r"--(?:out(?:put)?(?:[-_]?(?:file|dir|path|directory))?|outDir|dest(?:ination)?|log[-_]?file|target[-_]?dir|prefix|to|save)(?:=(.*))?|-[oO](.*)",
    re.DOTALL,
)


def _outputs(call: ProgramCall) -> None:
    """Options of any program that by custom name its output: outside and protected paths among them are written."""
    for at, word in enumerate(call.args):
        match = _OUTPUT.fullmatch(word.text) if word.text[:1] == "-" else None
        if match is None:
            continue
        value = match[1] or match[2] or (call.args[at + 1].text if at + 1 < len(call.args) else "")
        protected = call.found.places.resolve(value, call.cwd).kind is PathZone.PROTECTED
        if value and (protected or PATH_LIKE.search(value)):
            call.found.write(value, call.cwd)


_PATTERN_OPTIONS: Final = frozenset(("-e", "-f", "--regexp", "--file", "--from-file", "--files"))


def _operands(call: ProgramCall, row: ProgramSpec, operands: list[Word], options: list[Option]) -> bool:
    """Judge operands as the row says; returns whether none of them is changed."""
    match row.operands:
        case "read":
            for word in operands:
                call.maybe_path(word) if URL.match(word.text) else call.read(word)
        case "pattern-read":
            for word in operands if any(o.flag in _PATTERN_OPTIONS for o in options) else operands[1:]:
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
            deep = any(stands_for(o.flag, row.deep) for o in options)
            for word in operands:
                call.delete(word, recursive=deep)
            return False
        case "doubtful":
            for word in operands:
                call.maybe_path(word)
        case "script" | "scripts" | "command" | "write-command":
            return _commands(call, row, operands)
        case _:
            pass
    return True


def _commands(call: ProgramCall, row: ProgramSpec, operands: list[Word]) -> bool:
    """Judge operands that are commands, or the text of one; returns whether the program itself changes nothing."""
    before = len(call.found.effects)
    if row.operands == "write-command":
        for word in operands[:1]:
            call.write(word)
        operands = operands[1:]
    if row.operands == "script":
        call.shell_text(operands)
    elif row.operands == "scripts":
        for word in operands:
            call.shell_text([word])
    elif operands and operands[0].text in row.script:
        call.shell_text(operands[1:2])
    elif operands:
        call.judge.inner(call, operands)
    once_more(call, row, before)
    return True


def once_more(call: ProgramCall, row: ProgramSpec, before: int) -> None:
    """A program that runs a command again and again asks unless what runs only reads."""
    made = call.found.effects[before:]
    if row.again and (not made or any(e.kind == "exec" and not e.read_only for e in made)):
        call.ask(f"{call.name} {row.again}")
