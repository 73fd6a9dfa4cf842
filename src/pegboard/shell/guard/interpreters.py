"""Rules of interpreters: code in an argument, a program file, a module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pegboard.shell.guard.calls import ProgramCall
from pegboard.shell.guard.code import judge_code
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.rows import follow
from pegboard.shell.guard.specs import names, spec_of
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import REACHES

_SAFE_LOADS: Final = re.compile(r"^[A-Za-z][\w:]*(?:=[\w,:]*)?$")
_PRELOADS: Final = ("--require", "--import", "--loader", "--experimental-loader", "--env-file")
VERSION: Final = re.compile(r"[\d.]+$")


def interpreter(call: ProgramCall) -> bool:
    """`python`, `perl`, `node` and their like: inline code is judged, code from a pipe asks, files run."""
    base = VERSION.sub("", call.name)
    spec = spec_of(base) or call.spec
    follow(call, spec.when)
    language = spec.facts.get("language", base)
    code_flags = spec.facts.get("code", "-e --eval -eval").split()
    args, at = call.args, 0
    coded = in_place = False
    while at < len(args):
        word, text = args[at], args[at].text
        if text in ("-", "--") or text[:1] != "-":
            at += text == "--"
            break
        name, equals, value = text.partition("=")
        given = Word(value, word.source) if equals else args[at + 1] if at + 1 < len(args) else word
        step = 1 if equals else 2
        if (len(name) > 2 and name in code_flags) or name in ("--eval", "--print"):
            judge_code(call, given.text, language)
            coded = True
        elif name in _PRELOADS:
            call.maybe_path(given)
            if "data:" in text or (not equals and given.text.startswith("data:")):
                call.ask_unless_known(call.program, f"{call.name} {name} loads code from its argument")
        elif text.startswith("--"):
            step = 1
        elif language == "python" and (module := re.match(r"-[bBdEhiIOPqsSuv]*m(.*)", text)):
            rest = args[at + 1 :]
            name, rest = (module[1], rest) if module[1] else (rest[0].text if rest else "", rest[1:])
            return _module(call, name, rest)
        else:
            step, code, opened = _short(call, at, code_flags, spec.takes, language in ("perl", "ruby"))
            in_place = in_place or opened
            if code is not None:
                judge_code(call, code.text, language)
                coded = True
                if language == "python":
                    return False
        at += step
    operands = args[at:]
    if not coded:
        _program_file(call, operands, language)
        return False
    for word in operands:
        call.write(word) if in_place else call.maybe_path(word)
    return False


def _short(
    call: ProgramCall, at: int, code: Sequence[str], takes: str, edits: bool
) -> tuple[int, Word | None, bool]:
    """One bundle of short options: words used, the code in it, whether files are edited in place."""
    args = call.args
    text, next_word = args[at].text, args[at + 1] if at + 1 < len(args) else Word("", "")
    after = next_word.text
    for index, letter in enumerate(text[1:], 1):
        rest = text[index + 1 :]
        if f"-{letter}" in code and rest != "e":
            return (1, Word(rest, args[at].source), False) if rest else (2, next_word, False)
        if letter == "i" and edits:
            # perl and ruby take a suffix right behind -i; a code letter behind it would be that suffix.
            return 1, None, True
        if letter not in takes:
            continue
        if letter in "rMm":
            # In a sandbox code may load the same by itself.
            if not call.found.confined and REACHES.match(rest or after):
                reason = f"{call.name} -{letter} loads what reaches files, programs or other machines"
                call.ask_unless_known(call.program, reason)
            if not _SAFE_LOADS.match(rest.lstrip("-") or after):
                call.maybe_path(Word(rest, rest) if rest else next_word)
        return (1 if rest or letter in "CFD" else 2), None, False
    return 1, None, False


def _program_file(call: ProgramCall, operands: list[Word], language: str) -> None:
    if not operands or operands[0].text in ("-", "/dev/stdin") or operands[0].text.startswith("/dev/fd/"):
        if call.stdin is None:
            if operands and operands[0].text.startswith("/dev/fd/"):
                call.ask_unless_known(None, f"{call.name} runs what another program writes")
            return
        text = call.stdin.text
        if text is None:
            call.ask_unless_known(None, f"{call.name} runs what another program writes")
        else:
            judge_code(call, text, language)
        return
    first, *rest = operands
    if first.text.endswith("setup.py") and any(w.text in ("upload", "register") for w in rest):
        call.ask("setup.py upload publishes")
    if language == "deno" and first.text == "eval":
        judge_code(call, " ".join(w.text for w in rest if not w.text.startswith("-")), "deno")
        return
    if not first.known or re.match(r"[a-z][a-z0-9+.-]*:", first.text):
        call.ask_unless_known(
            first if first.known else None, f"{call.name} runs a program that is not known before it runs"
        )
    else:
        place = call.found.places.resolve(first.text, call.cwd)
        if place.kind not in _RUNS_IN:
            call.read(first)
            call.ask_unless_known(first, f"{call.name} runs {place.target}, which is {place.kind.value}")
    for word in rest:
        call.maybe_path(word)


_PROGRAM_MODULES: Final = names("pip pipx uv poetry twine hatch build flit pdm ansible awscli pegboard")
_NET_MODULES: Final = names("smtplib ftplib telnetlib webbrowser code asyncio poplib imaplib nntplib")


def _module(call: ProgramCall, name: str, rest: list[Word]) -> bool:
    """`python -m NAME`."""
    if HOLE in name:
        call.ask_unless_known(None, f"{call.name} -m runs a module that is not known before it runs")
    elif name in _PROGRAM_MODULES:
        call.judge.inner(call, [Word(name, name), *rest])
    elif name in ("venv", "virtualenv"):
        for word in rest:
            if not word.text.startswith("-"):
                call.write(word)
    elif name == "ensurepip":
        if any(w.text.startswith(("--user", "--root", "--upgrade")) for w in rest):
            call.ask("ensurepip installs outside the workspace")
    elif name == "timeit":
        for word in rest:
            judge_code(call, word.text, "python")
    elif name in _NET_MODULES:
        call.ask(f"{call.name} -m {name} reaches other machines or runs typed code")
    else:
        for word in rest:
            call.maybe_path(word)
    return False


_RUNS_IN: Final = (
    PathZone.INSIDE,
    PathZone.PROTECTED,
    PathZone.WORKSPACE,
    PathZone.TEMPORARY,
    PathZone.PUBLIC,
)
