"""Programs that run the program named in their arguments: looked through to the inner one."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, parse
from pegboard.shell.guard.languages import says_otherwise
from pegboard.shell.guard.listings import printed_names
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.rows import once_more
from pegboard.shell.guard.specs import Wrapper, in_section
from pegboard.shell.guard.words import StdinSource, Word


def peel(call: ProgramCall, wrapper: Wrapper) -> list[Word] | None:
    """The inner command of a wrapper, empty if it has none; None if it is used for something else."""
    if wrapper.first is not None and not wrapper.first.fullmatch(call.args[0].text if call.args else ""):
        return None
    rest = call.args[wrapper.lead :]
    at = 0
    while at < len(rest):
        text = rest[at].text
        if text == "--":
            at += 1
            break
        if len(text) < 2 or text[0] != "-":
            break
        at += 2 if text in wrapper.takes or (text[1] != "-" and _takes_next(text, wrapper.takes)) else 1
    inner = rest[at + wrapper.skip :]
    # `sudo A=1 prog`, `doas A=1 prog`: assignments before the program.
    while inner and re.match(r"[A-Za-z_]\w*=", inner[0].text):
        inner = inner[1:]
    return inner or (None if wrapper.lead else [])


def _takes_next(text: str, takes: frozenset[str]) -> bool:
    """Whether the last letter of a bundle is the first one with a value, which is then the next word."""
    return next((at for at, letter in enumerate(text) if f"-{letter}" in takes), 0) == len(text) - 1


def env(call: ProgramCall) -> tuple[list[tuple[str, Word]], list[Word]]:
    """`env`: its assignments and its inner command; `-S` is split as env splits it."""
    args = list(call.args)
    assigned: list[tuple[str, Word]] = []
    at = 0
    while at < len(args):
        word = args[at]
        text = word.text
        split = re.match(r"(?:-[iv0]*S|--split-string=?)(.*)", text, re.DOTALL)
        if split:
            value, skip = (split[1], 1) if split[1] else (args[at + 1].text if at + 1 < len(args) else "", 2)
            try:
                # env puts in the values of `${NAME}`, and of nothing else.
                parts = [
                    Word(re.sub(r"\$\{\w*\}", HOLE, part), word.source)
                    for part in shlex.split(value.replace("\\_", " "))
                ]
            except ValueError:
                parts = [Word(HOLE, word.source)]
            args[at : at + skip] = parts
        elif text in ("-u", "--unset", "-C", "--chdir"):
            at += 2
        elif text.startswith("-"):
            at += 1
        elif "=" in text and re.match(r"[A-Za-z_]\w*=", text):
            name, _, value = text.partition("=")
            assigned.append((name, Word(value, word.source, False, word.secret)))
            at += 1
        else:
            return assigned, args[at:]
    return assigned, []


def xargs(call: ProgramCall) -> bool:
    """`xargs PROGRAM`: the inner call, with the words that standard input gives where these are known."""
    options, inner = call.options()
    mark = ""
    for option in options:
        value = option.value.text if option.value else ""
        if option.flag in ("-I", "-i", "--replace"):
            mark = value or "{}"
        elif option.flag in ("-a", "--arg-file") and option.value:
            call.read(option.value)
    own = call.args[: len(call.args) - len(inner)]
    mark = next((w.text[2:] for w in own if re.match(r"-i.", w.text)), mark)
    inner = inner or [Word("echo", "echo")]
    given = fed_words(call.stdin)
    if not mark:
        run_for_each(call, [*inner, *given])
    for value in given if mark else ():
        run_for_each(call, [put_in(word, mark, value) for word in inner])
    return True


def put_in(word: Word, mark: str, value: Word) -> Word:
    """A word with a name in the place of its mark."""
    if mark not in word.text:
        return word
    return Word(word.text.replace(mark, value.text), word.source, word.glob or value.glob, word.secret)


def run_for_each(call: ProgramCall, inner: list[Word]) -> None:
    """Judge a command run for each of many words; a shell in it may only do what reads."""
    name = inner[0].text.rpartition("/")[2] if inner else ""
    before = len(call.found.effects)
    call.judge.inner(call, inner)
    if len(inner) > 2 and re.fullmatch(r"python[\d.]*", name) and inner[1].text == "-m" and inner[2].known:
        # What is added are arguments of a module that is named.
        return
    if name == "env" or in_section(name, "shells", "interpreters"):
        made = call.found.effects[before:]
        if any(e.kind != "read" and not (e.kind == "exec" and e.read_only) for e in made):
            call.ask_unless_known(None, f"{call.name} runs {name} for each word that it is given")


def fed_words(source: StdinSource | None) -> list[Word]:
    """The words on standard input as far as they are known; else one word that stands for many."""
    if source is None:
        return [Word(HOLE, "words on standard input")]
    text = fed_text(source)
    if text is not None:
        return [Word(part, part) for part in text.split()] if HOLE not in text else [Word(HOLE, text)]
    return printed_names(source.argv)


def fed_text(source: StdinSource) -> str | None:
    """The literal text on standard input, None where another program decides it."""
    if source.text is not None:
        return source.text
    words = source.argv
    if not words or words[0].text not in ("echo", "printf"):
        return None
    texts = [word.text for word in words[1:]]
    if any("\\" in text or word.glob for text, word in zip(texts, words[1:], strict=True)):
        return HOLE
    if words[0].text == "echo":
        return " ".join(t for t in texts if not re.fullmatch(r"-[neE]+", t)) + "\n"
    if texts and "%" in texts[0]:
        return "\n".join(texts[1:]) + "\n" if re.fullmatch(r"(?:%s\s*)+", texts[0]) else HOLE
    return "\n".join(texts) + "\n"


def shell(call: ProgramCall) -> bool:
    """`sh`, `bash` and their like: the script they run is judged, an unseen one asks."""
    args = call.args
    at = 0
    reads_stdin = False
    while at < len(args):
        text = args[at].text
        if text in ("-", "--"):
            at += 1
            break
        if text[:1] not in "-+" or len(text) < 2:
            break
        if text in ("--rcfile", "--init-file") or text.startswith(("--rcfile=", "--init-file=")):
            call.ask_unless_known(None, f"{call.name} {text} runs a start-up file")
            at += 2 if "=" not in text else 1
            continue
        if text in ("-o", "+o", "-O", "+O"):
            at += 2
            continue
        if text.startswith("-") and not text.startswith("--"):
            if "i" in text and text.isalpha() is False and re.fullmatch(r"-[a-z]*i[a-z]*", text):
                call.ask(f"{call.name} starts interactively")
            if "c" in text or text.lower() in ("-command", "-encodedcommand", "-enc"):
                _script_argument(call, at)
                return True
            if "n" in text:
                # The script is parsed and not run.
                return True
            reads_stdin = reads_stdin or "s" in text
        at += 1
    if at < len(args) and not reads_stdin:
        script_file(call, args[at])
    else:
        script_on_stdin(call)
    return False


def _script_argument(call: ProgramCall, at: int) -> None:
    rest = call.args[at + 1 :]
    while rest and rest[0].text[:1] in ("-", "+") and len(rest[0].text) > 1:
        rest = rest[2:] if rest[0].text in ("-o", "+o", "-O", "+O") else rest[1:]
    if not rest:
        return
    if not rest[0].known:
        call.ask_unless_known(None, f"{call.name} -c runs a script that is not known before it runs")
    elif says_otherwise(call.name, rest[0].text):
        call.ask_unless_known(
            rest[0], f"{call.name} has a language of its own, in which this script is not judged"
        )
    call.judge.script(call, rest[0].text, stdin=call.stdin)


def script_on_stdin(call: ProgramCall) -> None:
    """A shell that reads its script from standard input."""
    if call.stdin is None:
        return
    text = fed_text(call.stdin)
    if text is None or HOLE in text:
        call.ask_unless_known(None, f"{call.name} runs what another program writes")
    if text is not None:
        call.judge.script(call, text)


_MAX_SCRIPT: Final = 65_536


def script_file(call: ProgramCall, word: Word) -> None:
    """A shell runs a file: its content is judged where it can be seen, else a person is asked."""
    if not word.known or word.glob:
        call.ask_unless_known(None, f"{call.name} runs a script that is not known before it runs")
        return
    if word.text.startswith("/dev/fd/") or word.text == "/dev/stdin":
        script_on_stdin(call)
        return
    place = call.found.places.resolve(word.text, call.cwd)
    if place.kind not in (PathZone.INSIDE, PathZone.PROTECTED):
        call.read(word)
        call.ask_unless_known(word, f"{call.name} runs {place.target}, which is {place.kind.value}")
        return
    text = file_text(os.path.join(call.found.places.root, place.target))
    if text is None:
        if not re.search(r"(?:^|/)bin/activate$", word.text):
            call.ask_unless_known(
                word, f"{call.name} runs {place.target}, whose content is not there to be judged"
            )
        return
    call.judge.script(call, text)


def file_text(path: str) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MAX_SCRIPT + 1)
    except OSError:
        return None
    return None if len(data) > _MAX_SCRIPT or b"\x00" in data else data.decode("utf-8", "replace")


REACHES: Final = re.compile(
    r"-?(?:IO::(?:Socket|Pty|All)|Socket\b|LWP|Net::|HTTP::|File::(?:Path|Copy|Slurp)|IPC::|Inline|Sys::|socket\b|net/|open-uri|open3|pty\b|fileutils|drb|webrick)"
)


def parallel(call: ProgramCall) -> bool:
    """`parallel COMMAND ::: INPUT …`: known inputs are judged one by one."""
    row = call.spec
    stop = next((i for i, w in enumerate(call.args) if _INPUTS.fullmatch(w.text)), len(call.args))
    command = parse(call.args[:stop], replace(row, operands="command"))[1]
    inputs = call.args[stop + 1 :]
    far = call.has("-S", "--sshlogin", "--sshloginfile")
    known = all(w.known and not _INPUTS.fullmatch(w.text) for w in inputs)
    if command and inputs and known and call.args[stop].text == ":::" and not far:
        for given in inputs:
            _with_input(call, command, given)
        return False
    before = len(call.found.effects)
    if command:
        call.shell_text(command)
    once_more(call, row, before)
    if far:
        call.ask(f"{call.name} {row.again}")
    return False


_INPUTS: Final = re.compile(r":::+\+?")


def _with_input(call: ProgramCall, command: list[Word], given: Word) -> None:
    words = [put_in(word, "{}", given) for word in command]
    if not any("{" in word.text for word in command):
        words.append(given)
    text = len(command) == 1 and re.search(r"[\s;&|<>$`]", command[0].text)
    if text or any("{" in word.text for word in words):
        call.shell_text(words)
        call.ask(f"{call.name} {call.spec.again}")
    else:
        call.judge.inner(call, words)
