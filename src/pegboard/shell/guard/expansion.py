"""What words become: every value that can be known before the command runs, HOLE for the rest."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pegboard.shell.guard import words as w
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.segments import Segment, StdinSource
from pegboard.shell.guard.words import Word

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_VALUES: Final = 16
SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD_?|CREDENTIALS?|AUTH|APIKEY|PAT)(?:$|_|\d)",
    re.IGNORECASE,
)
_NOT_SECRET: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})


@dataclass(slots=True)
class Expander(ABC):
    """The words of one script text. Commands inside words are visited, which the walk over statements does."""

    source: bytes
    on_segment: Callable[[Segment], str | None]
    on_problem: Callable[[str, bool], None]
    home: str
    workspace: str
    cwd: str | None
    other_cwds: tuple[str, ...] = ()
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    functions: set[str] = field(default_factory=set[str])
    bodies: list[str] = field(default_factory=list[str])
    stdin: StdinSource | None = None
    last: tuple[Word, ...] = ()
    quiet: bool = False
    nesting: int = 0
    piped_on: bool = False

    def text(self, node: Node) -> str:
        """The node's source text."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    @abstractmethod
    def visit(self, node: Node) -> None:
        """Visit a node and everything below it."""

    @abstractmethod
    def subshell(self, node: Node) -> None:
        """Visit what runs in a shell of its own."""

    def children(self, node: Node) -> None:
        """Visit the named children in order."""
        for child in node.named_children:
            self.visit(child)

    def assignment(self, node: Node) -> tuple[str, Word]:
        """`name=value`; subscripts are looked through."""
        name_node = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        name = ""
        if name_node is not None:
            name = self.text(name_node)
            if name_node.type == "subscript":
                self.children(name_node)
                name = name.split("[", 1)[0]
        if value is None:
            return name, Word("", "")
        if value.type == "array":
            self.children(value)
            return name, Word(HOLE, self.text(value))
        made = self.words(value, assigning=True)
        return name, made[0] if len(made) == 1 else Word(HOLE, self.text(value))

    # -- words

    def words(self, node: Node, *, assigning: bool = False) -> list[Word]:
        """The words that a node becomes; commands inside it are visited."""
        built, secret = self.built(node, False)
        source = self.text(node)
        if assigning:
            translate = w.TO_TEXT
            made = [Word(text.translate(translate), source, False, secret) for text in built]
            return made if len(made) == 1 else [Word(HOLE, source, False, secret)]
        return [word for text in built for word in w.finished(text, source, secret=secret)]

    def built(self, node: Node, quoted: bool) -> tuple[list[str], bool]:
        """The node's possible values with marks, and whether a secret variable went in."""
        kind = node.type
        if kind in (
            "word",
            "number",
            "variable_name",
            "file_descriptor",
            "test_operator",
            "special_variable_name",
        ):
            if not node.named_child_count:
                text = self.text(node)
                return [w.double_quoted(text) if quoted else w.unquoted(text)], False
        elif kind == "raw_string":
            return [self.text(node)[1:-1]], False
        elif kind == "translated_string":
            # `$"rm"` is `"rm"` where no message catalogue translates it.
            return self.built(node.named_children[0], quoted) if node.named_children else ([""], False)
        elif kind == "ansi_c_string":
            return [w.ansi_c(self.text(node)[2:-1])], False
        elif kind == "simple_expansion":
            return self.variable(self.text(node)[1:], quoted)
        elif kind == "expansion":
            return self.expansion(node, quoted)
        elif kind in ("command_substitution", "process_substitution"):
            return [self.substitution(node)], False
        elif kind == "arithmetic_expansion":
            self.children(node)
            return [HOLE], False
        elif kind == "brace_expression":
            return [HOLE], False
        return self.pieces(node, quoted or kind in ("string", "heredoc_body"))

    def pieces(self, node: Node, quoted: bool) -> tuple[list[str], bool]:
        """Children joined with the raw text between them, which the grammar does not always name."""
        out = [""]
        secret = False
        start, end = node.start_byte, node.end_byte
        if node.type == "string":
            start, end = start + 1, end - 1
        at = start
        clean: Callable[[str], str] = w.double_quoted if quoted else w.unquoted
        for child in node.named_children:
            if child.start_byte > at:
                gap = clean(self.source[at : child.start_byte].decode("utf-8", "replace"))
                out = [o + gap for o in out]
            if child.type in ("string_content", "heredoc_content"):
                value, hidden = [clean(self.text(child))], False
            else:
                value, hidden = self.built(child, quoted)
            secret = secret or hidden
            out = [o + v for o in out for v in value] if len(value) * len(out) <= _MAX_VALUES else [HOLE]
            at = max(at, child.end_byte)
        if at < end:
            gap = clean(self.source[at:end].decode("utf-8", "replace"))
            out = [o + gap for o in out]
        return out, secret

    def variable(self, name: str, quoted: bool) -> tuple[list[str], bool]:
        """What `$name` may hold."""
        if name == "HOME":
            return [self.home], False
        if name == "PWD":
            return [self.cwd or HOLE], False
        if name == "TMPDIR":
            return ["/tmp"], False
        if name == "IFS" and name not in self.values:
            return [" " if quoted else w.SPLIT], False
        secret = bool(SECRET_NAME.search(name)) and name not in _NOT_SECRET
        known = self.values.get(name)
        if known and not quoted and "IFS" in self.values:
            return [HOLE], secret
        if known:
            return (known if quoted else [w.fields_of_value(v) for v in known]), False
        return [HOLE], secret

    def expansion(self, node: Node, quoted: bool) -> tuple[list[str], bool]:
        """`${…}`: only the plain form has a known value; all commands inside are visited."""
        self.children(node)
        text = self.text(node)[2:-1]
        if text.isidentifier():
            return self.variable(text, quoted)
        if "@P" in text and not self.quiet:
            self.on_problem("a prompt expansion runs commands in its value", False)
        name = re.match(r"[!#]?(\w+)", text)
        secret = bool(
            name and not text.startswith("#") and SECRET_NAME.search(name[1]) and name[1] not in _NOT_SECRET
        )
        return [HOLE], secret and ":+" not in text and "+" not in text[:1]

    def substitution(self, node: Node) -> str:
        """`$(…)`, backquotes, `<(…)`: visited as a subshell; a few have a value that is known."""
        text = self.text(node)
        before, last, on = self.stdin, self.last, self.piped_on
        self.stdin, self.piped_on = None, False
        if not self.quiet:
            self.subshell(node)
            inner = self.last
            self.last = last
            if node.type == "process_substitution":
                self.stdin, self.piped_on = before, on
                programs = tuple(word.text for word in inner[:1])
                return f"/dev/fd/{HOLE}{' '.join(programs)}"
        self.stdin, self.piped_on = before, on
        command = text.strip("$()`").strip()
        if command == "pwd":
            return self.cwd or HOLE
        if command == "git rev-parse --show-toplevel":
            return self.workspace
        if re.fullmatch(r"mktemp(?: -d)?", command):
            return "/tmp/" + HOLE
        # A path that is only printed is that path; the name of a program stays unknown, so that it asks.
        if printed := re.fullmatch(r"(?:echo|printf)\s+(['\"]?)([./~][\w./~@+-]*)\1", command):
            return printed[2]
        return HOLE

    # -- values

    def collect(self, root: Node) -> None:
        """Note the literal values of variables, wherever they are set; one unknown value spoils a name.

        The order is not looked at: a name that is set twice may hold either value in any place.
        """
        self.quiet = True
        spoilt: set[str] = set()
        seen: dict[str, list[str]] = {}
        for node in _find(root, ("variable_assignment", "for_statement", "command")):
            if node.type == "command":
                spoilt.update(self._read_names(node))
                continue
            if node.type == "for_statement":
                name_node = node.child_by_field_name("variable")
                name = self.text(name_node) if name_node is not None else ""
                made = [word for v in node.children_by_field_name("value") for word in self.words(v)]
                values = [word.text for word in made] or [HOLE]
            else:
                name, word = self.assignment(node)
                appended = b"+=" in self.source[node.start_byte : node.end_byte]
                values = [HOLE if appended else word.text]
            if any(value.startswith(HOLE) for value in values):
                spoilt.add(name)
            seen.setdefault(name, []).extend(values)
            if name not in spoilt and len(seen[name]) <= _MAX_VALUES:
                self.values[name] = list(dict.fromkeys(seen[name]))
            else:
                spoilt.add(name)
            if name in spoilt:
                self.values.pop(name, None)
        for name in spoilt:
            self.values.pop(name, None)
        self.quiet = False

    def _read_names(self, node: Node) -> list[str]:
        """Names that `read`, `mapfile`, `printf -v` or `getopts` set to what nobody knows."""
        parts = self.text(node).split()
        return (
            parts[1:]
            if parts and parts[0] in ("read", "mapfile", "readarray", "printf", "getopts", "let")
            else []
        )


def _find(root: Node, kinds: tuple[str, ...]) -> Iterable[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack.extend(reversed(node.named_children))
