"""`judge`: what a command will do and whether it may, as far as parsing tells; runs nothing.

A single program's call is judged by the rule of its name, by its row in the tables, by where the program lies.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from pegboard.core.effects import THIS_COMMAND, Effect, Verdict
from pegboard.core.errors import check_text
from pegboard.core.secrets.clip import clip
from pegboard.ports.shell import Inspection
from pegboard.shell.guard import (
    archives,
    files,
    git,
    interpreters,
    network,
    packages,
    searches,
    system,
    variables,
    wrappers,
)
from pegboard.shell.guard.calls import UNKNOWN, Findings, ProgramCall, Rule, TooMuch
from pegboard.shell.guard.complexity import PLAIN_LENGTH, intricate
from pegboard.shell.guard.operands import HOLE, OperandResolver, PathZone
from pegboard.shell.guard.rows import by_row
from pegboard.shell.guard.scripts import MAX_DEPTH, ScriptWalker, bash_parser
from pegboard.shell.guard.specs import in_section, names, spec_of, wrapper_of
from pegboard.shell.guard.words import Segment, StdinSource, Word, hidden_characters, writes_forever

MAX_COMMAND_BYTES: Final = 100_000
"""Longer commands ask unparsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one command.

    Attributes:
        decision: the strictest verdict in `workspace` mode: `allow`, `ask` or `deny`.
        reason: why, one clause; empty for `allow`.
        effects: as in `ports.shell.Inspection`, in the order of the command.
        read_only: every segment stands in the read-only table and nothing is written.
    """

    decision: Verdict
    reason: str
    effects: tuple[Effect, ...]
    read_only: bool

    @property
    def segments(self) -> tuple[str, ...]:
        """The command's segments as text."""
        return tuple(effect.target for effect in self.effects if effect.kind == "exec")


def judge(
    command: str,
    workspace: Path | str,
    *,
    working_dir: Path | str | None = None,
    home: Path | str | None = None,
    confined: bool = False,
) -> Judgement:
    """Judge a bash command as `workspace` mode does: inside and without network passes, the rest asks.

    The guard is for asking well; the sandbox is the boundary.

    Args:
        command: text for `bash -c`; over MAX_COMMAND_BYTES it asks unparsed.
        workspace: the folder that may be read and written.
        working_dir: where the command starts, relative to the workspace or absolute; None = the workspace.
        home: what `~` means; None = the home folder of this process's user.
        confined: a sandbox confines the command. Code in its words (`python3 -c`, `node -e`, here-documents) then gets
            the answer of a file of the workspace that holds it; the commands that it starts are still among the effects.

    Returns:
        A Judgement; no text raises.
    """
    check_text(command, "judge(…)", meant="a command as text")
    root = os.fspath(
        check_text(workspace, "workspace=…", meant="a path") if not isinstance(workspace, Path) else workspace
    )
    home_text = str(home) if home is not None else _own_home()
    places = OperandResolver(root, home_text)
    found = Findings(places, confined)
    given = command
    problem = hidden_characters(command)
    if problem:
        found.ask(f"the command {problem}")
        command = re.sub("[\x00-\x08\x0b-\x1f\x7f]", " ", command)
    cwd = (
        places.root
        if working_dir is None
        else posixpath.normpath(posixpath.join(places.root, str(working_dir)))
    )
    if len(command) > MAX_COMMAND_BYTES or len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
        found.ask(f"the command is longer than {MAX_COMMAND_BYTES} bytes")
        found.close_segment(clip(command, 0, 200) + "…", None, read_only=False)
    else:
        try:
            _Judge(found, 0).text(command, cwd, (), None)
        except TooMuch:
            pass
        except RecursionError:
            # The nesting limit counts our own frames; the caller may already stand deep in the stack.
            found.ask("the command is nested too deeply to be judged")
            found.effects.append(
                Effect("exec", clip(command, 0, 200), at_least="ask", reason=found.reason, bound=UNKNOWN)
            )
    effects = _bound(_with_verdict(found, command), given, cwd)
    writes = any(e.kind in ("write", "delete") for e in effects)
    read_only = (
        not writes and found.decision == "allow" and all(e.read_only for e in effects if e.kind == "exec")
    )
    return Judgement(decision=found.decision, reason=found.reason, effects=effects, read_only=read_only)


def _with_verdict(found: Findings, command: str) -> tuple[Effect, ...]:
    """The effects; where none carries the verdict on the command as a whole, one more that does.

    A policy sees effects only: what made the guard ask must not get lost between them.
    """
    rank = ("allow", "ask", "deny").index
    carried = max((rank(e.at_least or "allow") for e in found.effects), default=0)
    if rank(found.decision) <= carried:
        return tuple(found.effects)
    whole = Effect("exec", clip(command, 0, 200), at_least=found.decision, reason=found.reason, bound=UNKNOWN)
    return (*found.effects, whole)


def _bound(effects: tuple[Effect, ...], command: str, cwd: str) -> tuple[Effect, ...]:
    """The effects, those whose words do not tell what is done bound to the command as a whole.

    Else an `always` to one command that does not parse, or to one `rm "$x"`, would be one to every such.
    """
    if not any(effect.bound == UNKNOWN for effect in effects):
        return effects
    digest = hashlib.sha256(f"{cwd}\0{command}".encode("utf-8", "surrogatepass")).hexdigest()
    mark = f"{THIS_COMMAND}sha256:{digest}"
    return tuple(replace(e, bound=mark) if e.bound == UNKNOWN else e for e in effects)


def _known(words: list[Word]) -> bool:
    return all(word.known for word in words)


def inspection(judgement: Judgement) -> Inspection:
    """The judgement in the shape of the Shell port."""
    return Inspection(
        effects=judgement.effects,
        decision=judgement.decision,
        reason=judgement.reason,
        read_only=judgement.read_only,
    )


@lru_cache(maxsize=1)
def _own_home() -> str:
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/root" if os.getuid() == 0 else "/home/user"


_AS_LETTERS = bytes(b if 0x20 <= b < 0x7F or b in b"\t\n" else 0x78 for b in range(256))


class _Judge:
    """Judges one script text; inner texts get their own, one level deeper."""

    def __init__(self, found: Findings, depth: int, nesting: int = 0) -> None:
        self.found = found
        self.depth = depth
        self.nesting = nesting
        self.walk: ScriptWalker | None = None

    def text(self, command: str, cwd: str | None, others: tuple[str, ...], stdin: StdinSource | None) -> None:
        """Parse and judge a script text."""
        found = self.found
        if self.depth > MAX_DEPTH:
            found.ask("scripts are nested too deeply to be judged")
            found.close_segment(clip(command, 0, 200), None, read_only=False)
            return
        # Bash joins lines at a backslash before it looks at words; the grammar does not everywhere.
        if len(command) > PLAIN_LENGTH and intricate(command):
            found.ask("the command is long and intricate, so it is not judged")
            found.close_segment(clip(command, 0, 200) + "…", None, read_only=False)
            return
        if "\\\n" in command:
            command = _JOIN.sub(r"\1", command)
        if _TWICE.search(command):
            # The grammar cuts `a$B-c$D/` in two words; braces keep it whole.
            command = _PLAIN_VARIABLE.sub(r"${\1}", command)
        source = command.encode("utf-8", "replace")
        # The grammar's scanner has crashed the process on some non-ASCII and control bytes. To bash
        # they are letters of a word, so it is shown letters; every offset stays the same.
        tree = bash_parser().parse(source.translate(_AS_LETTERS))
        walk = ScriptWalker(
            source,
            self.segment,
            self.problem,
            found.places.home,
            found.places.root,
            cwd,
            others,
            stdin=stdin,
            nesting=self.nesting,
        )
        self.walk = walk
        root = tree.root_node
        if b"=" in source or b"${" in source or b"for " in source or b"select " in source:
            walk.collect(root)
        if root.has_error:
            self.problem("the command does not parse, so what it does is not known", False)
        walk.visit(root)

    def problem(self, reason: str, fatal: bool) -> None:
        """Something about the text as a whole."""
        (self.found.deny if fatal else self.found.ask)(reason)
        self.found.close_segment(reason, None, read_only=False)
        self.found.open_segment()

    def segment(self, segment: Segment) -> str | None:
        """Judge one simple command; returns the new folder where it is a `cd`."""
        found = self.found
        found.open_segment()
        call = ProgramCall(
            "",
            Word("", ""),
            [],
            segment.cwd,
            segment.other_cwds,
            segment.stdin,
            found,
            self,
            segment.piped_on,
        )
        self._redirects(call, segment)
        for name, value in segment.assigned:
            variables.judge_assignment(call, name, value, lasting=variables.reaches_programs(segment.words))
        if not segment.words:
            if found.verdict != "allow":
                found.close_segment(segment.text, (), read_only=False)
            return None
        return self._run(call, segment.words, segment.text)

    def inner(self, call: ProgramCall, words: list[Word], *, stdin: StdinSource | None = None) -> None:
        """Judge a program call inside another; the outer segment stays open."""
        if not words:
            return
        found = self.found
        kept = found.open_segment()
        inside = ProgramCall(
            "", Word("", ""), [], call.cwd, call.other_cwds, stdin or None, found, self, call.piped_on
        )
        if self.depth > MAX_DEPTH:
            found.ask("programs are nested too deeply to be judged")
            found.close_segment(words[0].source, None, read_only=False)
        else:
            self.depth += 1
            self._run(inside, words, " ".join(word.shown for word in words))
            self.depth -= 1
        found.resume(kept)

    def script(self, call: ProgramCall, text: str, *, stdin: StdinSource | None = None) -> None:
        """Judge a text that a shell inside this command runs."""
        found = self.found
        kept = found.open_segment()
        problem = hidden_characters(text.replace(HOLE, "")) if HOLE in text else ""
        if problem:
            found.ask(f"the inner command {problem}")
        # An unknown piece of the text may be any text; in a word it is an unknown value.
        nesting = (self.walk.nesting if self.walk else 0) + 4
        _Judge(found, self.depth + 1, nesting).text(
            text.replace(HOLE, "${_}"), call.cwd, call.other_cwds, stdin
        )
        found.resume(kept)

    def _redirects(self, call: ProgramCall, segment: Segment) -> None:
        for redirect in segment.redirects:
            operator, target = redirect.operator, redirect.target
            if len(target) < 1:
                continue
            if len(target) > 1:
                call.ask("a redirection has more than one target")
            word = target[0]
            duplicates = operator.endswith("&") and (
                word.text.isdigit() or word.text.rstrip("-").isdigit() or word.text == "-"
            )
            if duplicates or word.text.startswith("/dev/fd/" + HOLE):
                continue
            if operator in ("<", "<&"):
                call.read(word)
            else:
                call.write(word)
                if writes_forever(segment.words) and word.text not in ("/dev/null", "/dev/full"):
                    call.ask(f"{segment.words[0].text} writes until nothing more fits")

    def _run(self, call: ProgramCall, words: list[Word], text: str) -> str | None:
        """Look through wrappers to the program and judge it by its rule or its row."""
        found = self.found
        for _ in range(MAX_DEPTH + 1):
            program, args = words[0], words[1:]
            if not program.known or program.glob or not program.text:
                if not program.text and program.known and len(words) == 1:
                    return None
                found.ask("the program's name is not known before it runs")
                found.close_segment(text, None, read_only=False)
                return None
            name = program_name(program.text)
            call = ProgramCall(
                name, program, args, call.cwd, call.other_cwds, call.stdin, found, self, call.piped_on
            )
            peeled = self._peel(call)
            if peeled is None:
                break
            wrapper = wrapper_of(name)
            if peeled and wrapper is not None and wrapper.raises:
                # A rule such as `deny exec:sudo **` speaks of the outer command too.
                outer = " ".join(w.shown for w in words[: len(words) - len(peeled)])
                found.close_segment(
                    outer, tuple(w.shown for w in words), read_only=False, known=_known(words)
                )
                text = " ".join(w.shown for w in peeled)
            if not peeled:
                raises = wrapper is not None and wrapper.raises
                found.close_segment(
                    text, tuple(w.shown for w in words), read_only=not raises, known=_known(words)
                )
                return None
            words = peeled
        else:
            found.ask("wrappers are nested too deeply to be judged")
            found.close_segment(text, None, read_only=False)
            return None
        argv = tuple(word.shown for word in words)
        if name == "cd" or name == "pushd":
            moved = self._cd(call)
            found.close_segment(text, argv, read_only=True, known=_known(words))
            return moved
        read_only = judge_program(call)
        found.close_segment(text, argv, read_only=read_only and not found.wrote, known=_known(words))
        return None

    def _peel(self, call: ProgramCall) -> list[Word] | None:
        if call.name == "env":
            assigned, rest = wrappers.env(call)
            for name, value in assigned:
                variables.judge_assignment(call, name, value)
            if any(w.text.startswith(("--chdir", "-C")) for w in call.args[: len(call.args) - len(rest)]):
                self.found.ask("env runs a program in another folder")
            if not rest:
                variables.env_printed(call)
            return rest
        if call.name.startswith(("ld-linux", "ld-musl")):
            return [*call.args]
        wrapper = wrapper_of(call.name)
        inner = wrappers.peel(call, wrapper) if wrapper is not None else None
        if wrapper is None or inner is None:
            return None
        if wrapper.raises:
            if [w.text for w in call.args] in (["--version"], ["--help"], ["-V"], ["-h"]):
                return []
            self.found.ask(f"{call.name} gives a command other rights or another root")
            for word, after in pairwise((*call.args, Word("", ""))):
                flag, equals, text = word.text.partition("=")
                if flag in ("-c", "--command") and (not equals or flag in wrapper.takes):
                    call.shell_text([Word(text, word.source) if equals else after])
                    return []
        elif call.name in ("strace", "ltrace", "time"):
            if call.name != "time" and any(re.match(r"-p|--attach", w.text) for w in call.args):
                self.found.ask(f"{call.name} -p watches another process")
            for word, after in pairwise(call.args[: len(call.args) - len(inner) + 1]):
                if word.text in ("-o", "--output"):
                    call.write(after)
        return inner

    def _cd(self, call: ProgramCall) -> str:
        operands = [w for w in call.args if not re.fullmatch(r"-[LPe@]+|--", w.text)]
        if not operands:
            return self.found.places.home
        word = operands[0]
        if not word.known or word.text == "-" or word.glob:
            return HOLE
        place = self.found.places.resolve(word.text, call.cwd)
        if place.kind is PathZone.SECRET:
            call.read(word)
        text = word.text
        if text.startswith("~"):
            if place.kind is PathZone.UNKNOWN:
                return HOLE
            return (
                place.target
                if place.target.startswith("/")
                else posixpath.join(self.found.places.root, place.target)
            )
        if call.cwd is None and not text.startswith("/"):
            return HOLE
        return posixpath.normpath(posixpath.join(call.cwd or "/", text))


_JOIN: Final = re.compile(r"((?:^|[^\\])(?:\\\\)*)\\\n")
_PLAIN_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)")
_TWICE: Final = re.compile(r"\$[A-Za-z_]\w{0,60}[^\s'\"$]{0,200}\$[A-Za-z_]")


# -- one program


def judge_program(call: ProgramCall) -> bool:
    """Judge one program by its rule, its row or its place; returns whether it changes nothing."""
    name, program = call.name, call.program.text
    if not name.isascii():
        call.ask(f"the program name {name!r} is not written in plain letters")
    if len(call.args) == 1 and "/" not in program and _only_tells(name, call.args[0].text):
        return True
    secret = next((w for w in (call.program, *call.args) if w.secret), None)
    if secret is not None and name not in _SETS_OR_TESTS:
        call.ask(f"{secret.source} puts a secret into the command")
    _gone_for_good(call)
    if "/" in program and not _known_file(call):
        if name in ("gradlew", "mvnw"):
            return by_row(call)
        for word in call.args:
            call.maybe_path(word)
        return False
    read_only = _rule(call)
    if (call.cwd is not None and not read_only) or call.cwd not in (None, call.found.places.root):
        _outside(call)
    return read_only


def _rule(call: ProgramCall) -> bool:
    name = call.name
    base = interpreters.VERSION.sub("", name)
    spec = spec_of(name)
    if spec is None and in_section(base, "interpreters"):
        spec = spec_of(base)
    if spec is not None:
        return by_row(call, spec) if spec.rule == "row" else RULES[spec.rule](call)
    if name.startswith("mkfs"):
        call.deny(f"{name} formats a disk")
    if name.startswith("pip") and re.fullmatch(r"pip\d[\d.]*", name):
        return packages.manager(call.named("pip", call.args))
    if name.startswith("git-"):
        return git.git(call.named("git", [Word(name[4:], name), *call.args]))
    if re.fullmatch(r"(?:vim|emacs|gdb|lldb|ssh|scp)-?[\d.]+", name):
        call.ask(f"{name} runs what its arguments say")
    return _unknown(call)


def _unknown(call: ProgramCall) -> bool:
    """A program nobody knows."""
    _carried(call)
    _outward(call)
    return by_row(call)


def _gone_for_good(call: ProgramCall) -> None:
    """Words by which frameworks and migration tools empty a database, whatever program they are given to."""
    if not _MAY_EMPTY.search(" ".join([word.text for word in call.args])):
        return
    for word, after in pairwise((*call.args, Word("", ""))):
        if _EMPTIES.fullmatch(word.text) or _EMPTIES.fullmatch(f"{word.text} {after.text}"):
            call.ask(f"{call.name} {word.text} empties a database")


def _outward(call: ProgramCall) -> None:
    """A program nobody knows that is told to publish, as its first or second word."""
    plain = [w.text for w in call.args if w.text[:1] != "-"][:2]
    if any(re.fullmatch(r"publish|(?:gh-)?deploy|upload|submit|release", text) for text in plain):
        call.ask(f"{call.name} {' '.join(plain)} publishes")


def _carried(call: ProgramCall) -> None:
    """A program nobody knows may run what its arguments name: destruction among them asks."""
    for at, word in enumerate(call.args):
        first, *more = word.text.split(maxsplit=1) or [""]
        name = program_name(first) if word.known else ""
        after = more or [w.text for w in call.args[at + 1 : at + 2]]
        if not after or (
            name not in _DESTROYERS and not (in_section(name, "shells") and after[0].startswith("-"))
        ):
            continue
        before = len(call.found.effects)
        if more:
            # A whole command in one word may as well be a text: it counts only if it asks.
            call.judge.script(call, word.text)
        else:
            call.judge.inner(call, call.args[at:])
        if any(effect.at_least not in (None, "allow") for effect in call.found.effects[before:]):
            call.ask(f"{call.name} may run the {name} among its arguments")
        elif more:
            del call.found.effects[before:]
            continue
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
        if _ruled(call.name) and call.name not in ("gradlew", "mvnw"):
            call.ask(f"{text} has the name of a known program but is in the workspace")
        elif re.search(r"\.(?:sh|bash)$", place.target):
            _script_program(call, place.target)
        return False
    if place.kind in _ELSEWHERE:
        call.ask(f"runs {text}, which is {place.kind.value}")
        return spec_of(call.name) is not None
    elif place.kind is PathZone.TEMPORARY:
        call.ask(f"runs {text} from a temporary folder")
    return False


def _script_program(call: ProgramCall, target: str) -> None:
    text = wrappers.file_text(posixpath.join(call.found.places.root, target))
    if text is not None and re.match(r"#!\s*\S*(?:/|\s)(?:ba|da|z|k)?sh\b", text):
        call.judge.script(call, text)


def _outside(call: ProgramCall) -> None:
    """A program that is no mere printer works in a folder outside."""
    spec = call.spec
    if call.cwd is None or (spec.section in ("prints", "looks") and spec.read_only):
        return
    kind = call.found.places.resolve(call.cwd, "/").kind
    if kind in _ELSEWHERE and kind is not PathZone.UNKNOWN:
        call.ask(f"{call.name} works in {call.cwd}, {kind.value}")


def program_name(program: str) -> str:
    """The name by which rules and rows know a program: without folder, in small letters."""
    name = posixpath.basename(posixpath.normpath(program)) if "/" in program else program
    return name.lower() if name.isascii() and name.isupper() else name


def _only_tells(name: str, argument: str) -> bool:
    """Whether a lone argument makes the program print its help or version and nothing else."""
    if argument in ("--help", "--version"):
        return True
    known = in_section(name, "net", "asks", "decides") and name not in ("at", "batch", "ed", "ex", "m4")
    return known and argument in ("-V", "-version", "version", "help")


_MAY_EMPTY: Final = re.compile(
    r"drop|reset|fresh|wipe|purge|truncate|undo:all|refresh|credentials|--accept|downgrade|--all|clean|flush|dbshell"
)
_EMPTIES: Final = re.compile(
    r"(?:db|database)[:.](?:drop|reset|purge|wipe|truncate\w*)(?:[:.]\w+)*|db:migrate:undo:all|migrate:(?:fresh|reset|refresh)"
    r"|ecto\.(?:drop|reset)|credentials:(?:show|edit)|drop-all|--force-reset|--accept-data-loss|migrate reset|downgrade base"
    r"|(?:migrate:)?rollback --all|\S*manage\.py (?:flush|dbshell|sqlflush|reset_db|reset_schema)|database drop"
)
_ELSEWHERE: Final = (
    PathZone.SYSTEM, PathZone.OUTSIDE, PathZone.UNKNOWN, PathZone.SECRET, PathZone.HOME, PathZone.ABOVE,
)  # fmt: skip
_SETS_OR_TESTS: Final = names("[ [[ test export declare local readonly unset :")
_DESTROYERS: Final = names("rm dd shred wipefs mkfs chmod chown sudo eval kill")
RULES: Final[dict[str, Rule]] = {
    **archives.RULES, **files.RULES, **network.RULES, **packages.RULES, **searches.RULES, **system.RULES,
    "git": git.git, "interpreter": interpreters.interpreter, "parallel": wrappers.parallel, "shell": wrappers.shell,
    "xargs": wrappers.xargs, "unknown": _unknown,
}  # fmt: skip
"""Rules by the names that rows give them."""


def _ruled(name: str) -> bool:
    """Whether a name stands for a program whose arguments are looked at one by one."""
    spec = spec_of(name)
    return spec is not None and (spec.rule not in ("row", "interpreter") or bool(spec.when))
