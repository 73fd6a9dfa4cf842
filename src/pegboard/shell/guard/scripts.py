"""Scripts: the walk over a parsed one, and which files of the workspace a command runs, by content.

The walk meets every command node and works out the value of every word as far as it can. An approval of a command
that runs a script is bound to the script's content.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard.core.effects import Effect
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.specs import in_section, recipes
from pegboard.shell.guard.words import (
    SPLIT,
    TO_TEXT,
    Expander,
    Redirect,
    Segment,
    StdinSource,
    Word,
    fields_of_value,
    finished,
    marked,
)  # fmt: skip
from pegboard.shell.guard.wrappers import fed_text, fed_words

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


MAX_DEPTH: Final = 12
_MAX_FOLDERS: Final = 4
MOVES: Final = frozenset({"cd", "pushd", "popd"})
_MAX_NESTING: Final = 60


@dataclass(slots=True)
class ScriptWalker(Expander):
    """One pass over a syntax tree; `on_segment` is called for each simple command, inner ones first."""

    def visit(self, node: Node) -> None:
        """Visit a node and everything below it."""
        kind = node.type
        if kind == "comment":
            return
        self.nesting += 1
        try:
            if self.nesting > _MAX_NESTING:
                self.on_problem("is nested too deeply to be judged", False)
                return
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, node)
            elif kind in _WORDS:
                self.words(node)
            else:
                self.children(node)
        finally:
            self.nesting -= 1

    # -- statements

    def command(
        self,
        node: Node,
        redirects: Iterable[Redirect] = (),
        stdin: StdinSource | None = None,
        rest: Sequence[Word] = (),
    ) -> None:
        """A simple command with its assignments and redirections, and what `redirect` found behind those."""
        self._for_each_value(node, lambda: self._command(node, redirects, stdin, rest))

    def _for_each_value(self, node: Node, judge: Callable[[], None]) -> None:
        """Judge what stands there once for each value that its variables may hold."""
        chosen = [] if self.quiet else self.several(node)
        if not chosen:
            judge()
            return
        held, start = self.values, (self.cwd, self.also)
        ends, lasts = dict[str | None, None](), dict[tuple[Word, ...], None]()
        for values in chosen:
            self.cwd, self.also = start
            self.values = {**held, **values}
            self.narrowed = len(chosen) > 1
            judge()
            ends.update(dict.fromkeys((self.cwd, *self.also)))
            lasts[self.last] = None
        self.values, self.narrowed = held, False
        self._stand_in(ends)
        self.last = self.last if len(lasts) == 1 else ()

    def _stand_in(self, folders: Iterable[str | None]) -> None:
        """Go on in each of these folders; too many are none that is known."""
        self.cwd, *also = folders
        self.also = tuple(also)
        if len(also) >= _MAX_FOLDERS:
            self.cwd, self.also = None, ()

    def _command(
        self, node: Node, redirects: Iterable[Redirect], stdin: StdinSource | None, rest: Sequence[Word]
    ) -> None:
        argv: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        moved = list(redirects)
        stdin = stdin or self.stdin
        end = -1
        for child in node.named_children:
            kind = child.type
            if child.start_byte == end and argv and kind not in _REDIRECTS and not self.quiet:
                self.on_problem("the words of the command cannot be separated", False)
            end = child.end_byte if kind in _WORDS or kind == "command_name" else -1
            if kind == "variable_assignment":
                assigned.append(self.assignment(child))
            elif kind in _REDIRECTS:
                fed = self.redirect(child, moved, rest=argv)
                stdin = fed or stdin
            elif kind == "command_name":
                for part in child.named_children or [child]:
                    # The name of a program is not taken from what another prints, so that it asks.
                    self.naming = True
                    built = self.built(part, False)[0]
                    self.naming = False
                    argv.extend(
                        finished(built[0], self.text(part))
                        if len(built) == 1
                        else [Word(HOLE, self.text(part))]
                    )
            elif kind != "comment":
                argv.extend(self.words(child))
        rest = (*self._overlooked(node), *rest)
        text = " ".join((self.text(node), *(word.source for word in rest)))
        if self.narrowed:
            # Each of several commands is shown as what it is.
            text = " ".join(word.shown for word in (*argv, *rest))
        self.emit(text, [*argv, *rest], assigned, moved, stdin)

    def emit(
        self,
        text: str,
        argv: list[Word],
        assigned: list[tuple[str, Word]],
        moved: list[Redirect],
        stdin: StdinSource | None,
    ) -> None:
        """Hand one segment on, and follow its `cd`."""
        self.last = tuple(argv)
        if self.quiet:
            return
        segment = Segment(
            text, argv, assigned, moved, stdin, self.cwd, self.other_cwds,
            frozenset(self.functions), self.piped_on,
        )  # fmt: skip
        ends = dict[str | None, None]()
        for cwd in (self.cwd, *self.also):
            moved_to = self.on_segment(replace(segment, cwd=cwd))
            # `cd` into a folder that is not there leaves the shell where it is.
            if moved_to is not None and cwd is not None and (moved_to == HOLE or not os.path.isdir(moved_to)):
                self.other_cwds = (*self.other_cwds, cwd)[-4:]
            ends[cwd if moved_to is None else None if moved_to == HOLE else moved_to] = None
        self._stand_in(ends)

    def declaration(self, node: Node) -> None:
        """`export`, `declare`, `local`, `readonly`, `typeset`, `unset`: builtins with assignments."""
        name = self.text(node.children[0]) if node.children else "declare"
        argv = [Word(name, name)]
        assigned: list[tuple[str, Word]] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                key, value = self.assignment(child)
                assigned.append((key, value))
                argv.append(Word(f"{key}={value.text}", self.text(child), False, value.secret))
            else:
                argv.extend(self.words(child))
        self.emit(self.text(node), argv, assigned, [], None)

    def assignments(self, node: Node) -> None:
        """Assignments that stand alone."""
        found = [node] if node.type == "variable_assignment" else node.named_children
        assigned = [self.assignment(n) for n in found if n.type == "variable_assignment"]
        if not self.quiet:
            self.emit(self.text(node), [], assigned, [], None)

    def redirected(self, node: Node) -> None:
        """A statement with redirections; here-documents may carry a pipe's further commands."""
        body = node.child_by_field_name("body")
        if body is not None and body.type == "command":
            self._for_each_value(node, lambda: self._redirected(node))
        else:
            self._redirected(node)

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        moved: list[Redirect] = []
        stdin: StdinSource | None = None
        later: list[Node] = []
        rest: list[Word] = []
        for child in node.named_children:
            if child.type in _REDIRECTS:
                fed = self.redirect(child, moved, later, rest)
                stdin = fed or stdin
            elif body is None or child.id != body.id:
                self.visit(child)
        if body is not None and body.type == "list":
            # `cd x && cmd > file`: the grammar hangs the redirection on the list, bash on its last command.
            moved.clear()
            rest.clear()
            body = self.sequence(body, leave_last=True)
            stdin = None
            for child in node.named_children:
                if child.type in _REDIRECTS:
                    stdin = self.redirect(child, moved, None, rest) or stdin
        was_piped, self.piped_on = self.piped_on, self.piped_on or bool(later)
        if body is not None and body.type == "command":
            self.command(body, moved, stdin, rest)
        else:
            before, self.stdin = self.stdin, stdin or self.stdin
            if rest and not self.quiet:
                self.on_problem("the words after a redirection cannot be separated", False)
            if moved and not self.quiet:
                self.emit(self.text(node), [], [], moved, None)
            if body is not None:
                self.visit(body)
            self.stdin = before
        self.piped_on = was_piped
        written = StdinSource(None, self.last)
        if (
            stdin is not None
            and stdin.text is not None
            and [w.text for w in self.last] in (["cat"], ["cat", "-"])
        ):
            # `cat <<E | python3`: what is written is the document.
            written = stdin
        before, self.stdin = self.stdin, written
        for child in later:
            self.visit(child)
        self.stdin = before

    def bare_redirect(self, node: Node) -> None:
        """A redirection without a command, as in `$(< file)`."""
        moved: list[Redirect] = []
        self.redirect(node, moved)
        if moved and not self.quiet:
            self.emit(self.text(node), [], [], moved, None)

    def redirect(
        self,
        node: Node,
        moved: list[Redirect],
        later: list[Node] | None = None,
        rest: list[Word] | None = None,
    ) -> StdinSource | None:
        """Record one redirection; returns what it feeds to standard input, if it does.

        The grammar hangs what stands behind it, as in `rm <f -rf x`, on it; for bash these are words of the
        command, and they go to `rest`.
        """
        if node.type == "herestring_redirect":
            made = [word for child in node.named_children for word in self.words(child)]
            return StdinSource(" ".join(word.text for word in made) + "\n")
        if node.type == "heredoc_redirect":
            return self.heredoc(node, moved, later, rest)
        operator = ""
        target: list[Word] = []
        for child in node.children:
            if child.type == "file_descriptor":
                continue
            if not child.is_named:
                operator += child.type
            elif rest is None or not target:
                target.extend(self.words(child))
            else:
                rest.extend(self.words(child))
        if rest is not None:
            rest.extend(self._overlooked(node))
        moved.append(Redirect(operator, tuple(target)))
        if operator != "<":
            return None
        return StdinSource(None, tuple(self._sole_command(node.named_children[-1])) or (Word("<", "<"),))

    def heredoc(
        self, node: Node, moved: list[Redirect], later: list[Node] | None, rest: list[Word] | None
    ) -> StdinSource:
        """The document's text, with HOLE for expansions; commands in it run unless its mark is quoted."""
        start = next((c for c in node.named_children if c.type == "heredoc_start"), None)
        quoted = start is not None and any(c in "'\"\\" for c in self.text(start))
        text = ""
        for child in node.named_children:
            if child.type == "heredoc_body":
                raw = self.text(child)
                seen = any(c.type == "command_substitution" for c in child.named_children)
                if not quoted and not seen and not self.quiet and re.search(r"(?<!\\)(?:`|\$\()", raw):
                    # The grammar overlooks a substitution at the start of an indented document.
                    self.on_problem("a here-document runs a command that cannot be parsed", False)
                text = self.text(child) if quoted else "".join(self.built(child, True)[0][:1])
            elif child.type in _REDIRECTS:
                self.redirect(child, moved, later, rest)
            elif rest is not None and child.type in _WORDS:
                rest.extend(self.words(child))
            elif child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                if later is None or child.type in _WORDS:
                    self.visit(child)
                else:
                    later.append(child)
            if child.type == "heredoc_start" and rest is not None:
                rest.extend(self._overlooked(child))
        return StdinSource(text.translate(TO_TEXT))

    def _overlooked(self, node: Node) -> list[Word]:
        """The word `-` behind a node, which the grammar drops in front of `<<` and `2>`: `make -f - <<E`."""
        dropped = _DROPPED.match(self.source, node.end_byte)
        return [Word("-", "-")] if dropped else []

    def pipeline(self, node: Node) -> None:
        """Each part reads what the part before it writes."""
        before, stand, on = self.stdin, (self.cwd, self.other_cwds, self.also), self.piped_on
        parts = [c for c in node.named_children if c.type != "comment"]
        for index, child in enumerate(parts):
            self.piped_on = on or index < len(parts) - 1
            self.last = ()
            self.visit(child)
            self.stdin = StdinSource(None, self.last)
            self.cwd, self.other_cwds, self.also = stand
        self.stdin, self.piped_on = before, on

    def sequence(self, node: Node, *, leave_last: bool = False) -> Node:
        """`a && b || c`: the grammar nests to the left, so the left spine is walked without recursion."""
        parts: list[Node] = []
        at: Node | None = node
        while at is not None:
            inner: Node | None = None
            for child in reversed(at.named_children):
                if child.type == "list" and inner is None:
                    inner = child
                else:
                    parts.append(child)
            at = inner
        parts.reverse()
        for part in parts[:-1] if leave_last else parts:
            self.visit(part)
        return parts[-1]

    def subshell(self, node: Node) -> None:
        """Its `cd` ends with it."""
        stand = self.cwd, self.other_cwds, self.also
        self.children(node)
        self.cwd, self.other_cwds, self.also = stand

    def printed(self, node: Node, quoted: bool) -> str:
        """What a substitution prints: a literal text, or the names that a search program hands on."""
        source = StdinSource(None, tuple(self._sole_command(node)))
        if not source.argv:
            return HOLE
        text = fed_text(source)
        if text is not None:
            return text.rstrip("\n") if quoted else fields_of_value(text.rstrip("\n"))
        return SPLIT.join(map(marked, fed_words(source)))

    def _sole_command(self, node: Node) -> list[Word]:
        """The words of a substitution's only command, none where it holds anything else."""
        parts = [child for child in node.named_children if child.type != "comment"]
        body = parts[0] if len(parts) == 1 and node.type.endswith("_substitution") else None
        if body is not None and body.type == "redirected_statement":
            body = body.child_by_field_name("body")
        if body is None or body.type != "command":
            return []
        quiet, self.quiet = self.quiet, True
        named = [c for c in body.named_children if c.type in _WORDS or c.type == "command_name"]
        made = [word for child in named for word in self.words(child)]
        self.quiet = quiet
        return made

    def function(self, node: Node) -> None:
        """The body is judged where it stands; one that starts itself in the background is a bomb."""
        name_node = node.child_by_field_name("name")
        name = self.text(name_node) if name_node is not None else ""
        self.functions.add(name)
        if name in MOVES and not self.quiet:
            self.on_problem(f"a function named {name} hides where the commands after it run", False)
        body = node.child_by_field_name("body")
        if body is None:
            return
        if name and not self.quiet and _multiplies(name, self.text(body)):
            self.on_problem(f"the function {name!r} starts copies of itself without end", True)
        before, self.stdin = self.stdin, None
        self.subshell(body)
        self.stdin = before

    def loop(self, node: Node) -> None:
        """`for NAME in WORDS`: the words are visited, the values were collected before."""
        name = node.child_by_field_name("variable")
        if name is not None and not self.quiet:
            self.emit(self.text(name), [], [(self.text(name), Word(HOLE, self.text(name)))], [], None)
        self.children(node)

    def endless(self, node: Node) -> None:
        """`while :` and `for ((;;))`: one that only starts more in the background never stops doing so."""
        group = next((c for c in node.named_children if c.type in ("do_group", "compound_statement")), None)
        if group is not None and not self.quiet and _FOREVER.match(self.text(node)):
            started, waited = False, ""
            for child, after in pairwise([*group.children, group]):
                started = started or after.type == "&"
                # What waits in the background holds up nothing.
                waited += "" if after.type == "&" else f" {self.text(child)}"
            if started and not _PAUSES.search(waited):
                self.on_problem("a loop without end starts processes in the background", True)
        held = self.values
        condition = node.child_by_field_name("condition")
        name = _READS.fullmatch(self.text(condition)) if condition is not None else None
        if name is not None and self.stdin is not None:
            # `find … | while read NAME`: a name on each line.
            text = fed_text(self.stdin)
            lines = (
                fed_words(self.stdin) if text is None else [Word(line, line) for line in text.splitlines()]
            )
            self.values = {**held, name[1]: [*map(marked, lines)] or [HOLE]}
        self.children(node)
        self.values = held

    def test(self, node: Node) -> None:
        """`[[ … ]]`, `[ … ]`, `(( … ))`: a quoted subscript is evaluated once more by bash."""
        text = self.text(node)
        if not self.quiet and "[" in text[2:-2] and _SUBSCRIPT.search(text):
            self.on_problem("a subscript in a test runs a command", False)
        self.children(node)
        if not self.quiet:
            word = Word("[[" if text.startswith("[[") else "test", text)
            self.emit(self.text(node), [word], [], [], None)


def _multiplies(name: str, body: str) -> bool:
    """Whether a function's body pipes the function into itself or starts it in the background."""
    own = rf"(?<![\w.-]){re.escape(name)}(?![\w.-])"
    return bool(re.search(rf"{own}[^;&|\n]{{0,200}}(?:\|&?\s*{own}|(?<!&)&(?!&))", body))


_FOREVER: Final = re.compile(
    r"while\s+(?:(?:command\s+|builtin\s+)?(?::|true|\(\(\s*1\s*\)\)|\[\[?\s+[^\s\]$]+\s+\]\]?|test\s+[^\s$;]+))\s*[;\n]"
    r"|until\s+(?:false|!\s*(?::|true))\s*[;\n]|for\s*\(\([^;)]*;\s*1?\s*;[^)]*\)\)"
)
_READS: Final = re.compile(
    r"(?:IFS=(?:\S*|'[^']*'|\$'[^']*')\s+)?read(?:\s+-[rsa-z]*(?:\s+(?:''|\"\"|\$'[^']*'))?)*\s+(\w+)\s*;?"
)
_PAUSES: Final = re.compile(r"\b(?:wait|sleep|break|exit|return|read)\b")
_SUBSCRIPT: Final = re.compile(r"\[[^\]]*(?:\$\(|`)")
_DROPPED: Final = re.compile(rb"(?:[ \t]|\\\n)+-(?:(?:[ \t]|\\\n)*<<|(?:[ \t]|\\\n)+\d+[<>])")
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WORDS: Final = frozenset(
    {
        "word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "simple_expansion",
        "expansion", "command_substitution", "process_substitution", "arithmetic_expansion", "number",
        "brace_expression", "extglob_pattern", "regex",
    }
)  # fmt: skip
_HANDLERS: Final[dict[str, Callable[[ScriptWalker, Node], object]]] = {
    "command": ScriptWalker.command,
    "redirected_statement": ScriptWalker.redirected,
    "pipeline": ScriptWalker.pipeline,
    "list": ScriptWalker.sequence,
    "subshell": ScriptWalker.subshell,
    "function_definition": ScriptWalker.function,
    "declaration_command": ScriptWalker.declaration,
    "unset_command": ScriptWalker.declaration,
    "variable_assignment": ScriptWalker.assignments,
    "variable_assignments": ScriptWalker.assignments,
    "test_command": ScriptWalker.test,
    "for_statement": ScriptWalker.loop,
    "while_statement": ScriptWalker.endless,
    "c_style_for_statement": ScriptWalker.endless,
    "file_redirect": ScriptWalker.bare_redirect,
    "herestring_redirect": ScriptWalker.bare_redirect,
    "heredoc_redirect": ScriptWalker.bare_redirect,
}


_parsers = threading.local()


def bash_parser() -> Parser:
    """This thread's parser; loading the grammar takes milliseconds, so it happens at the first command."""
    try:
        return _parsers.bash
    except AttributeError:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        _parsers.bash = Parser(Language(tree_sitter_bash.language()))
        return _parsers.bash


# -- bindings

MAX_SCRIPT_BYTES: Final = 16_000_000
"""A larger file is bound by size and time of change instead of its content."""

_VERSION: Final = re.compile(r"[\d.]+$")
_BY_OPTION: Final = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed"})
_FILES: Final = ("-f", "--file", "--makefile")
_ELSEWHERE: Final = ("-C", "--directory", "--prefix", "--cwd", "--dir")
_PARTS: Final = re.compile(r"[\s'\"=@:,;|&<>()]+")
_MOST: Final = 32


def bind_scripts(
    effects: Sequence[Effect], *, workspace: Path, working_dir: str | None = None
) -> tuple[Effect, ...]:
    """The effects, with `bound` set on each exec that runs files of the workspace.

    Args:
        effects: of one command, as the guard found them.
        workspace: only files that really lie in it are looked at.
        working_dir: of the call.
    """
    folders = _folders(effects, workspace / (working_dir or ""))
    read = [e.target for e in effects if e.kind == "read"]
    return tuple(_bound(e, folders, workspace, read) if e.kind == "exec" and e.argv else e for e in effects)


def _folders(effects: Iterable[Effect], start: Path) -> list[Path]:
    """Where the command may stand when it names a file: at the start, and wherever it changes to."""
    out = [start]
    for effect in effects:
        if effect.argv is not None and len(effect.argv) > 1 and effect.argv[0] in ("cd", "pushd"):
            out += [folder / effect.argv[-1] for folder in tuple(out)[:8]]
    return out


def _bound(effect: Effect, folders: Sequence[Path], workspace: Path, read: Sequence[str]) -> Effect:
    argv = effect.argv or ()
    found: dict[str, None] = {}
    lists = list(_candidates(argv))
    if effect.decisive:
        # What its words or its input say decides what runs: `bash < x`, `cat x | sh`, `vim -S x`, `.read x`.
        parts = dict.fromkeys(part for word in argv[1:] for part in _PARTS.split(word) if part)
        lists += [[part] for part in [*parts][:_MOST]]
        marks = [_mark(workspace / name, workspace) for name in read[:_MOST]]
        found.update(dict.fromkeys(filter(None, marks)))
    for names in lists:
        for folder in folders:
            marks = [m for name in names if (m := _mark(folder / name, workspace)) is not None]
            found.update(dict.fromkeys(marks[:1]))
    if not found:
        return effect
    return replace(effect, bound=" ".join((*filter(None, (effect.bound,)), *found)))


def _candidates(argv: Sequence[str]) -> Iterator[Sequence[str]]:
    """Lists of names; of each the first that is a file is run."""
    if "/" in argv[0]:
        yield argv[:1]
    program = posixpath.basename(argv[0])
    if program in ("source", ".") or any(
        in_section(name, "shells", "interpreters") for name in (program, _VERSION.sub("", program))
    ):
        words = [w for w in argv[1:] if not w.startswith("-")]
        if "-m" in argv[1:-1]:
            module = argv[argv.index("-m", 1) + 1].replace(".", "/")
            words = [f"{module}.py", f"{module}/__main__.py", *words]
        yield words
    if argv[:2] == ("go", "run"):
        yield from ([word] for word in argv[2:])
    if program in _BY_OPTION:
        yield from ([name] for name in _values(argv, _FILES))
    if recipe := recipes(program):
        named = _values(argv, _FILES)
        moved = [*_values(argv, _ELSEWHERE)] or [""]
        yield from ([posixpath.join(at, name) for name in (*named, *recipe)] for at in moved)


def _values(argv: Sequence[str], flags: Sequence[str]) -> list[str]:
    """What stands behind these options: as the next word, behind `=`, or joined to a short one."""
    out: list[str] = []
    for word, after in pairwise((*argv, "")):
        name, _, value = word.partition("=")
        if word in flags:
            out.append(after)
        elif name in flags:
            out.append(value)
        else:
            out += [word[2:] for flag in flags if len(flag) == 2 and word.startswith(flag)]
    return out


def _mark(path: Path, workspace: Path) -> str | None:
    """`PATH sha256:HEX`, None where there is no such file in the workspace."""
    try:
        real = path.resolve()
        if not real.is_relative_to(workspace.resolve()):
            return None
        # Not blocking: a pipe of that name must not hold the plan up.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError, RuntimeError):
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        name = real.relative_to(workspace.resolve()).as_posix()
        if about.st_size > MAX_SCRIPT_BYTES:
            return f"{name} size:{about.st_size}:{about.st_mtime_ns}"
        return f"{name} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
