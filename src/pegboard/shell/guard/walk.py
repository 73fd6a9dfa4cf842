"""Walks a parsed command: every command node is met, every word's value is worked out as far as it can be."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pegboard.shell.guard import words as w
from pegboard.shell.guard.expansion import Expander
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.segments import Redirect, Segment, StdinSource
from pegboard.shell.guard.words import Word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH: Final = 12
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
                    argv.extend(self.words(part))
            elif kind != "comment":
                argv.extend(self.words(child))
        text = " ".join((self.text(node), *(word.source for word in rest)))
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
        moved_to = self.on_segment(segment)
        if moved_to is not None:
            if self.cwd is not None and moved_to == HOLE:
                self.other_cwds = (*self.other_cwds, self.cwd)[-4:]
                self.cwd = None
            elif moved_to != HOLE:
                # `cd` into a folder that is not there leaves the shell where it is.
                if self.cwd is not None and not os.path.isdir(moved_to):
                    self.other_cwds = (*self.other_cwds, self.cwd)[-4:]
                self.cwd = moved_to

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
        moved.append(Redirect(operator, tuple(target)))
        return StdinSource(None, (Word("<", "<"),)) if operator == "<" else None

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
        return StdinSource(text.translate(w.TO_TEXT))

    def pipeline(self, node: Node) -> None:
        """Each part reads what the part before it writes."""
        before, cwd, others, on = self.stdin, self.cwd, self.other_cwds, self.piped_on
        parts = [c for c in node.named_children if c.type != "comment"]
        for index, child in enumerate(parts):
            self.piped_on = on or index < len(parts) - 1
            self.last = ()
            self.visit(child)
            self.stdin = StdinSource(None, self.last)
            self.cwd, self.other_cwds = cwd, others
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
        cwd, others = self.cwd, self.other_cwds
        self.children(node)
        self.cwd, self.other_cwds = cwd, others

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
        self.children(node)

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
_PAUSES: Final = re.compile(r"\b(?:wait|sleep|break|exit|return|read)\b")
_SUBSCRIPT: Final = re.compile(r"\[[^\]]*(?:\$\(|`)")
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
