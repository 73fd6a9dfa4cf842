"""Rules of shell builtins and of programs that look at or change the machine."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, Rule
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.rows import by_row
from pegboard.shell.guard.scripts import MOVES
from pegboard.shell.guard.specs import names
from pegboard.shell.guard.variables import declare, env_printed, judge_assignment, set_
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import script_file


def trap(call: ProgramCall) -> bool:
    args = [w for w in call.args if w.text not in ("-p", "-l", "--")]
    if len(args) > 1 and args[0].text not in ("", "-"):
        call.shell_text(args[:1])
    return True


def alias(call: ProgramCall) -> bool:
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if equals:
            first = value.split()[:1]
            if name in MOVES or (first and "/" in first[0] and name != first[0].rpartition("/")[2]):
                call.ask_unless_known(word, f"{name} would mean {value[:40]!r}")
            if HOLE in value:
                call.ask_unless_known(None, f"the alias {name} is not known before it runs")
            destroys = [w for w in value.split()[:4] if w in _DESTROYERS]
            if destroys and first != [name]:
                call.ask_unless_known(word, f"{name} would mean {destroys[0]}")
            call.judge.script(call, value)
    return True


def source(call: ProgramCall) -> bool:
    if call.args:
        script_file(call, call.args[0])
    return False


_ENVIRONMENT: Final = re.compile(
    r"(?![-/.]).*(?<![.\w\"'-])(?:env|\$ENV|strenv|envsubst|input_filename|load_str|load)\b(?!\s*[:\"']).*|.*(?:[|(]\s*env|\$ENV)\b.*",
    re.DOTALL,
)


def jq(call: ProgramCall) -> bool:
    reads = by_row(call)
    for at, word in enumerate(call.args):
        if word.text in ("--rawfile", "--slurpfile"):
            for file in call.args[at + 2 : at + 3]:
                call.read(file)
        if _ENVIRONMENT.fullmatch(word.text):
            call.ask(f"{call.name} prints the environment")
    if call.name == "yq" and any(re.fullmatch(r"-\w*i\w*|--in-?place", w.text) for w in call.args):
        for word in [w for w in call.args if not w.text.startswith("-")][1:]:
            call.write(word)
    return reads and call.name == "jq"


def arithmetic(call: ProgramCall) -> bool:
    _sets(call)
    for word in call.args:
        if re.search(r"\$\(|`", word.text):
            call.ask_unless_known(None, f"{call.name} evaluates text that runs a command")
    return True


def _sets(call: ProgramCall) -> None:
    """Variables that a builtin sets to what it reads or prints (`read PATH`, `printf -v PATH`)."""
    named = call.args
    if call.name == "printf":
        named = [after for word, after in pairwise(call.args) if word.text == "-v"]
    elif call.name == "getopts":
        named = call.args[1:2]
    for word in named:
        if match := re.fullmatch(r"([A-Za-z_]\w*)(?:\[.*\])?(?:[-+*/%&|^]?=.*)?", word.text, re.DOTALL):
            judge_assignment(call, match[1], Word(HOLE, word.source))


def getopts(call: ProgramCall) -> bool:
    _sets(call)
    return True


def mapfile(call: ProgramCall) -> bool:
    for word, after in pairwise(call.args):
        if word.text == "-C":
            call.shell_text([after])
    return arithmetic(call)


def printf(call: ProgramCall) -> bool:
    return arithmetic(call) if call.has("-v") else True


_NAME_SERVER: Final = names("hosts ahosts ahostsv4 ahostsv6 networks")


def getent(call: ProgramCall) -> bool:
    """Asking for a host asks a name server, whose owner learns the name."""
    plain = [w for w in call.args if not w.text.startswith("-")]
    if plain and (not plain[0].known or plain[0].text in _NAME_SERVER):
        for word in plain[1:]:
            call.found.connect(word.text.lower(), f"looks up {word.text.replace(HOLE, '…')}")
    return True


def ps(call: ProgramCall) -> bool:
    """BSD's `e` among options without a dash shows each process's environment, `-E` on some systems."""
    options, operands = call.options()
    shows = any(option.flag == "-E" for option in options)
    for before, word in pairwise((Word("", ""), *operands)):
        lists = before.text[-1:] in ("o", "O", "U", "t", "k")
        shows = shows or (not lists and re.fullmatch(r"[A-Za-z]*e[A-Za-z]*", word.text) is not None)
    if shows:
        call.ask("ps shows the environment of processes")
    return True


_DESTROYERS: Final = names("rm dd shred mv chmod chown eval kill sudo")

RULES: Final[dict[str, Rule]] = {
    "getent": getent, "ps": ps, "trap": trap, "alias": alias, "source": source, "set": set_, "declare": declare,
    "env_printed": env_printed, "jq": jq, "sets": arithmetic, "getopts": getopts, "mapfile": mapfile, "printf": printf,
}  # fmt: skip
"""Rules by the names that rows give them."""
