"""Rules of interpreters: code in an argument, a program file, a module."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import ProgramCall
from pegboard.shell.guard.code import judge_code
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import REACHES

# language: (options whose value is code, options with another value)
_CODE: Final[dict[str, tuple[str, str, str]]] = {
    "python": ("c", "", "WXQ"), "perl": ("eE", "", "IMmCxDF"), "ruby": ("e", "", "ICEFKrTxWi"),
    "node": ("ep", "--eval --print", "rC"), "php": ("rBRE", "--run --process-code", "dczftS"), "lua": ("e", "", "l"),
    "Rscript": ("e", "", ""), "R": ("e", "", "f"), "julia": ("eE", "--eval --print", "CJLptmH"), "bun": ("ep", "--eval --print", ""),
    "elixir": ("e", "--eval", "rS"), "scala": ("e", "", ""), "groovy": ("e", "", ""), "swift": ("e", "", ""), "raku": ("e", "", "IM"),
    "erl": ("", "-eval", ""), "ghc": ("e", "", "o"), "clojure": ("e", "--eval", ""), "racket": ("e", "--eval", "l"),
}  # fmt: skip


_ALIASES: Final = {
    "pypy": "python", "ipython": "python", "bpython": "python", "nodejs": "node", "ts-node": "node", "tsx": "node",
    "luajit": "lua", "jruby": "ruby", "kotlin": "scala", "clj": "clojure", "hy": "python", "janet": "lua", "iex": "elixir",
}  # fmt: skip


_SAFE_LOADS: Final = re.compile(r"^[A-Za-z][\w:]*(?:=[\w,:]*)?$")


def interpreter(call: ProgramCall) -> bool:
    """`python`, `perl`, `node` and their like: inline code is judged, code from a pipe asks, files run."""
    base = re.sub(r"[\d.]+$", "", call.name)
    language = _ALIASES.get(base, base)
    code_flags, code_long, takes = _CODE.get(language, ("e", "--eval -eval", ""))
    args = call.args
    at = 0
    coded = False
    in_place = False
    while at < len(args):
        word = args[at]
        text = word.text
        if text == "--" or text[:1] != "-" or text == "-":
            at += text == "--"
            break
        name, equals, value = text.partition("=")
        if name in code_long.split() or (text.startswith("--") and name in ("--eval", "--print")):
            code = Word(value, word.source) if equals else (args[at + 1] if at + 1 < len(args) else word)
            judge_code(call, code.text, language)
            coded = True
            at += 1 if equals else 2
        elif name in ("--require", "--import", "--loader", "--experimental-loader", "--env-file"):
            call.maybe_path(
                Word(value, word.source) if equals else (args[at + 1] if at + 1 < len(args) else word)
            )
            if "data:" in text or (
                not equals and at + 1 < len(args) and args[at + 1].text.startswith("data:")
            ):
                call.ask_unless_known(call.program, f"{call.name} {name} loads code from its argument")
            at += 1 if equals else 2
        elif text.startswith("--"):
            at += 1
        elif language == "python" and (module := re.match(r"-[bBdEhiIOPqsSuv]*m(.*)", text)):
            rest = args[at + 1 :]
            return (
                _module(call, module[1], rest)
                if module[1]
                else _module(call, rest[0].text if rest else "", rest[1:])
            )
        else:
            step, code_word, opens_in_place = _short(
                call, args, at, code_flags, takes, language in ("perl", "ruby")
            )
            in_place = in_place or opens_in_place
            if code_word is not None:
                judge_code(call, code_word.text, language)
                coded = True
                if language == "python":
                    return False
            at += step
    operands = args[at:]
    if coded:
        for word in operands:
            call.write(word) if in_place else call.maybe_path(word)
        return False
    _program_file(call, operands, language)
    return False


def _short(
    call: ProgramCall, args: list[Word], at: int, code: str, takes: str, edits: bool
) -> tuple[int, Word | None, bool]:
    """One bundle of short options: words used, the code in it, whether files are edited in place."""
    text = args[at].text
    in_place = False
    for index in range(1, len(text)):
        letter = text[index]
        rest = text[index + 1 :]
        if letter in code and rest != "e":
            value = (
                Word(rest, args[at].source)
                if rest
                else (args[at + 1] if at + 1 < len(args) else Word("", ""))
            )
            return (1 if rest else 2), value, in_place
        if letter == "i" and edits:
            in_place = True
            # perl and ruby take a suffix right behind -i; a code letter behind it would be that suffix.
            return 1, None, True
        if letter in takes:
            # In a sandbox code may load the same by itself.
            if (
                letter in "rMm"
                and not call.found.confined
                and (
                    REACHES.match(rest)
                    or (not rest and at + 1 < len(args) and REACHES.match(args[at + 1].text))
                )
            ):
                call.ask_unless_known(
                    call.program,
                    f"{call.name} -{letter} loads what reaches files, programs or other machines",
                )
            if letter in "rMm" and not _SAFE_LOADS.match(
                rest.lstrip("-") or (args[at + 1].text if at + 1 < len(args) else "")
            ):
                call.maybe_path(Word(rest, rest) if rest else args[min(at + 1, len(args) - 1)])
            return (1 if rest or letter in "CFD" else 2), None, in_place
    return 1, None, in_place


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
        if place.kind not in (
            PathZone.INSIDE,
            PathZone.PROTECTED,
            PathZone.WORKSPACE,
            PathZone.TEMPORARY,
            PathZone.PUBLIC,
        ):
            call.read(first)
            call.ask_unless_known(first, f"{call.name} runs {place.target}, which is {place.kind.value}")
    for word in rest:
        call.maybe_path(word)


def _module(call: ProgramCall, name: str, rest: list[Word]) -> bool:
    """`python -m NAME`."""
    if HOLE in name:
        call.ask_unless_known(None, f"{call.name} -m runs a module that is not known before it runs")
    elif name in (
        "pip",
        "pipx",
        "uv",
        "poetry",
        "twine",
        "hatch",
        "build",
        "flit",
        "pdm",
        "ansible",
        "awscli",
        "pegboard",
    ):
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
    elif name in (
        "smtplib",
        "ftplib",
        "telnetlib",
        "webbrowser",
        "code",
        "asyncio",
        "poplib",
        "imaplib",
        "nntplib",
    ):
        call.ask(f"{call.name} -m {name} reaches other machines or runs typed code")
    else:
        for word in rest:
            call.maybe_path(word)
    return False
