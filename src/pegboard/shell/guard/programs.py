"""One program's call: by the rule of its name, by its row in the tables, by where the program lies."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import Final

from pegboard.shell.guard import files, git, interpreters, network, packages, queries, system, wrappers
from pegboard.shell.guard.calls import ProgramCall, Rule, by_table
from pegboard.shell.guard.operands import PathZone
from pegboard.shell.guard.options import ProgramSpec
from pegboard.shell.guard.tables import INTERPRETERS, NETWORK, PRIVILEGE, PROGRAMS, SHELLS
from pegboard.shell.guard.words import Word


def judge_program(call: ProgramCall) -> bool:
    """Judge one program by its rule, its row or its place; returns whether it changes nothing."""
    name, program = call.name, call.program.text
    if not name.isascii():
        call.ask(f"the program name {name!r} is not written in plain letters")
    if len(call.args) == 1 and "/" not in program and _only_tells(name, call.args[0].text):
        return True
    secret = next((w for w in (call.program, *call.args) if w.secret), None)
    if secret is not None and name not in (
        "[",
        "[[",
        "test",
        "export",
        "declare",
        "local",
        "readonly",
        "unset",
        ":",
    ):
        call.ask(f"{secret.source} puts a secret into the command")
    _gone_for_good(call)
    if "/" in program and not _known_file(call):
        if name in ("gradlew", "mvnw"):
            return packages.publishes(call)
        for word in call.args:
            call.maybe_path(word)
        return False
    read_only = _rule(call)
    if (call.cwd is not None and not read_only) or call.cwd not in (None, call.found.places.root):
        _outside(call)
    return read_only


def _rule(call: ProgramCall) -> bool:
    name = call.name
    rule = RULES.get(name)
    if rule is not None:
        return rule(call)
    if name in PROGRAMS:
        return by_table(call, PROGRAMS[name])
    if name in SHELLS:
        return wrappers.shell(call)
    if name in PRIVILEGE:
        call.ask(f"{name} gives a command other rights")
    base = re.sub(r"[\d.]+$", "", name)
    if name in ("dart", "swift"):
        _outward(call)
    if base in INTERPRETERS or name in INTERPRETERS:
        return interpreters.interpreter(call)
    if name.startswith("mkfs"):
        call.deny(f"{name} formats a disk")
    if name.startswith("pip") and re.fullmatch(r"pip\d[\d.]*", name):
        return packages.manager(call)
    if name.startswith("git-"):
        return git.git(call.named("git", [Word(name[4:], name), *call.args]))
    if re.fullmatch(r"(?:vim|emacs|gdb|lldb|ssh|scp)-?[\d.]+", name):
        call.ask(f"{name} runs what its arguments say")
    _carried(call)
    _outward(call)
    return by_table(call, _UNKNOWN)


def _gone_for_good(call: ProgramCall) -> None:
    """Words by which frameworks and migration tools empty a database, whatever program they are given to."""
    if not _MAY_EMPTY.search(" ".join([word.text for word in call.args])):
        return
    for word, after in pairwise((*call.args, Word("", ""))):
        if _EMPTIES.fullmatch(word.text) or _EMPTIES.fullmatch(f"{word.text} {after.text}"):
            call.ask(f"{call.name} {word.text} empties a database")
    if call.name in ("flyway",) and call.has("clean"):
        call.ask("flyway clean empties a database")


def _outward(call: ProgramCall) -> None:
    """A program nobody knows that is told to publish, as its first or second word."""
    plain = [w.text for w in call.args if w.text[:1] != "-"][:2]
    if call.name in ("flutter", "dart") and plain[:1] == ["pub"]:
        call.found.connect("pub.dev", f"{call.name} pub fetches packages")
    elif call.name == "swift" and plain[:2] in (["package", "update"], ["package", "resolve"]):
        call.found.connect("package registry", "swift package fetches packages")
    elif any(re.fullmatch(r"publish|deploy|upload|submit|release", text) for text in plain):
        call.ask(f"{call.name} {' '.join(plain)} publishes")


def _carried(call: ProgramCall) -> None:
    """A program nobody knows may run what its arguments name: destruction among them asks."""
    for at, word in enumerate(call.args[:-1]):
        name = program_name(word.text) if word.known else ""
        if name not in _DESTROYERS and not (name in SHELLS and call.args[at + 1].text.startswith("-")):
            continue
        before = len(call.found.effects)
        call.judge.inner(call, call.args[at:])
        if any(effect.at_least not in (None, "allow") for effect in call.found.effects[before:]):
            call.ask(f"{call.name} may run the {name} among its arguments")
        return


def _known_file(call: ProgramCall) -> bool:
    """Whether a program named by its path is the one of that name; says where it lies if it asks."""
    text = call.program.text
    place = call.found.places.resolve(text, call.cwd)
    if place.kind is PathZone.PUBLIC:
        return True
    if place.kind in (PathZone.INSIDE, PathZone.PROTECTED):
        # A virtual environment's or node's own programs do what their names say.
        if re.search(r"(?:^|/)(?:\.?venv|env|node_modules/\.bin|\.tox/[^/]+)(?:/bin)?/[^/]+$", place.target):
            return True
        if (call.name in RULES or call.name in SHELLS) and call.name not in ("gradlew", "mvnw"):
            call.ask(f"{text} has the name of a known program but is in the workspace")
        elif re.search(r"\.(?:sh|bash)$", place.target):
            _script_program(call, place.target)
        return False
    if place.kind in (
        PathZone.SYSTEM,
        PathZone.OUTSIDE,
        PathZone.UNKNOWN,
        PathZone.SECRET,
        PathZone.HOME,
        PathZone.ABOVE,
    ):
        if call.name in RULES or call.name in PROGRAMS or call.name in SHELLS:
            call.found.ask(f"runs {text}, which is {place.kind.value}")
            return True
        call.ask(f"runs {text}, which is {place.kind.value}")
    elif place.kind is PathZone.TEMPORARY:
        call.ask(f"runs {text} from a temporary folder")
    return False


def _script_program(call: ProgramCall, target: str) -> None:
    text = wrappers.file_text(posixpath.join(call.found.places.root, target))
    if text is not None and re.match(r"#!\s*\S*(?:/|\s)(?:ba|da|z|k)?sh\b", text):
        call.judge.script(call, text)


def _outside(call: ProgramCall) -> None:
    """A program that is no mere printer works in a folder outside."""
    row = PROGRAMS.get(call.name)
    if (
        call.cwd is None
        or (row is not None and row.operands in ("text", "look"))
        or call.name in _HARMLESS_ANYWHERE
    ):
        return
    kind = call.found.places.resolve(call.cwd, "/").kind
    if kind in (PathZone.HOME, PathZone.OUTSIDE, PathZone.ABOVE, PathZone.SYSTEM, PathZone.SECRET):
        call.ask(f"{call.name} works in {call.cwd}, {kind.value}")


def program_name(program: str) -> str:
    """The name by which rules and rows know a program: without folder, in small letters."""
    name = posixpath.basename(posixpath.normpath(program)) if "/" in program else program
    return name.lower() if name.isascii() and name.isupper() else name


def _only_tells(name: str, argument: str) -> bool:
    """Whether a lone argument makes the program print its help or version and nothing else."""
    if argument in ("--help", "--version"):
        return True
    row = PROGRAMS.get(name)
    known = name in NETWORK or (
        row is not None and row.verdict == "ask" and name not in ("at", "batch", "ed", "ex", "m4")
    )
    return known and argument in ("-V", "-version", "version", "help")


_UNKNOWN: Final = ProgramSpec()
_MAY_EMPTY: Final = re.compile(
    r"drop|reset|fresh|wipe|purge|truncate|undo:all|refresh|credentials|--accept|downgrade|--all|clean|flush|dbshell"
)
_EMPTIES: Final = re.compile(
    r"(?:db|database)[:.](?:drop|reset|purge|wipe|truncate\w*)(?:[:.]\w+)*|db:migrate:undo:all|migrate:(?:fresh|reset|refresh)"
    r"|ecto\.(?:drop|reset)|credentials:(?:show|edit)|drop-all|--force-reset|--accept-data-loss|migrate reset|downgrade base"
    r"|(?:migrate:)?rollback --all|\S*manage\.py (?:flush|dbshell|sqlflush|reset_db|reset_schema)|database drop"
)
_HARMLESS_ANYWHERE: Final = frozenset(
    {"true", "false", ":", "echo", "printf", "pwd", "exit", "wait", "sleep", "export", "set"}
)
_DESTROYERS: Final = frozenset(
    {"rm", "dd", "shred", "wipefs", "mkfs", "chmod", "chown", "sudo", "eval", "kill"}
)
RULES: Final[dict[str, Rule]] = {
    **network.RULES, **packages.RULES, **files.RULES, **system.RULES, **queries.RULES, "git": git.git, "hub": git.git, "xargs": wrappers.xargs, "gxargs": wrappers.xargs,
}  # fmt: skip
