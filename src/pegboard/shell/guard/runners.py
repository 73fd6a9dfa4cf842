"""Rules of programs that run a command now and then, again and again, or for each of many inputs."""

from __future__ import annotations

import re

from pegboard.shell.guard.calls import ProgramCall
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import script_words


def script(call: ProgramCall) -> bool:
    """`script -c`, `watch`, `flock -c`, `su -c`, `parallel`, `entr`: a shell text or a command among the arguments."""
    args = call.args
    for at, word in enumerate(args):
        if word.text in ("-c", "--command") and at + 1 < len(args):
            script_words(call, args[at + 1 : at + 2])
            return False
        if word.text.startswith("--command="):
            script_words(call, [Word(word.text.partition("=")[2], word.source)])
            return False
    return False


def script_program(call: ProgramCall) -> bool:
    call.ask("script runs a command and records it")
    return script(call)


def watch(call: ProgramCall) -> bool:
    rest = list(call.args)
    while rest and rest[0].text.startswith("-"):
        rest = rest[2:] if rest[0].text in ("-n", "--interval", "-s", "--shotsdir") else rest[1:]
    before = len(call.found.effects)
    script_words(call, rest)
    made = call.found.effects[before:]
    if not made or any(e.kind == "exec" and not e.read_only for e in made):
        call.ask("watch runs a command again and again")
    return False


def flock(call: ProgramCall) -> bool:
    rest = [w for w in call.args]
    while rest and rest[0].text.startswith("-") and rest[0].text != "-c":
        rest = rest[2:] if rest[0].text in ("-w", "-E", "--timeout", "--wait") else rest[1:]
    if rest:
        call.write(rest[0])
    if len(rest) > 1 and rest[1].text in ("-c", "--command"):
        script_words(call, rest[2:3])
    elif len(rest) > 1:
        call.judge.inner(call, rest[1:])
    return False


def parallel(call: ProgramCall) -> bool:
    texts = [w.text for w in call.args]
    stop = next((i for i, t in enumerate(texts) if re.fullmatch(r":::+\+?", t)), len(texts))
    rest = call.args[:stop]
    while rest and rest[0].text.startswith("-"):
        rest = (
            rest[2:]
            if rest[0].text
            in ("-j", "--jobs", "-a", "--arg-file", "-I", "-N", "-n", "--colsep", "-C", "-S", "--sshlogin")
            else rest[1:]
        )
    before = len(call.found.effects)
    inputs = call.args[stop + 1 :]
    sources = [w for w in call.args[stop:] if re.fullmatch(r":::+\+?", w.text)]
    local = not call.has("-S", "--sshlogin", "--sshloginfile")
    if rest and local and [w.text for w in sources] == [":::"] and all(HOLE not in w.text for w in inputs):
        return _for_each(call, rest, inputs)
    if rest:
        script_words(call, rest)
    made = call.found.effects[before:]
    if (
        not made
        or any(e.kind == "exec" and not e.read_only for e in made)
        or call.has("-S", "--sshlogin", "--sshloginfile")
    ):
        call.ask(f"{call.name} runs a command for each of its inputs")
    return False


def _for_each(call: ProgramCall, command: list[Word], inputs: list[Word]) -> bool:
    """`parallel COMMAND ::: INPUT …`: what runs stands there, so it is judged input by input."""
    for given in inputs:
        words = [
            Word(w.text.replace("{}", given.text), w.source, w.glob or ("{}" in w.text and given.glob))
            for w in command
        ]
        if not any("{" in w.text for w in command):
            words.append(given)
        if (len(command) == 1 and re.search(r"[\s;&|<>$`]", command[0].text)) or "{" in " ".join(
            w.text for w in words
        ):
            script_words(call, words)
            call.ask(f"{call.name} runs a command for each of its inputs")
        else:
            call.judge.inner(call, words)
    return False


def entr(call: ProgramCall) -> bool:
    rest = list(call.args)
    while rest and rest[0].text.startswith("-"):
        if "s" in rest[0].text:
            script_words(call, rest[1:2])
            return False
        rest = rest[1:]
    if rest:
        call.judge.inner(call, rest)
    return False


def nodemon(call: ProgramCall) -> bool:
    for at, word in enumerate(call.args[:-1]):
        if word.text in ("-x", "--exec", "-s", "--shell", "--on-change-start"):
            script_words(call, call.args[at + 1 : at + 2])
    return False


def hyperfine(call: ProgramCall) -> bool:
    for word in [w for w in call.args if not w.text.startswith("-") and not w.text.isdigit()]:
        script_words(call, [word])
    return False
