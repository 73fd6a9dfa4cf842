"""What words become: the text of each word of a command, as far as it can be known before the command runs.

While a word is being built, control characters mark what was not quoted; the input holds none
(`hidden_characters` refuses them), so marks and text cannot be confused.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from pegboard.shell.guard.operands import HOLE

if TYPE_CHECKING:
    from tree_sitter import Node


STAR: Final = "\x01"
MARK: Final = "\x02"
BRACKET: Final = "\x03"
OPEN: Final = "\x04"
COMMA: Final = "\x05"
CLOSE: Final = "\x06"
SPLIT: Final = "\x07"

_TO_MARKS: Final = str.maketrans({"*": STAR, "?": MARK, "[": BRACKET, "{": OPEN, ",": COMMA, "}": CLOSE})
TO_TEXT: Final = str.maketrans(
    {STAR: "*", MARK: "?", BRACKET: "[", OPEN: "{", COMMA: ",", CLOSE: "}", SPLIT: " "}
)
_MARKS: Final = re.compile("[\x01-\x07]")
_SPECIAL: Final = re.compile(r"[*?\[{,}\\]")
_MAX_WORDS: Final = 64


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program would get it.

    Attributes:
        text: its value, HOLE where a piece is not known.
        source: how it stands in the command.
        glob: an unquoted wildcard stands in it.
        secret: the value of a variable whose name speaks of a secret went into it.
    """

    text: str
    source: str
    glob: bool = False
    secret: bool = False

    @property
    def known(self) -> bool:
        """Whether the value is known before the command runs."""
        return HOLE not in self.text

    @property
    def shown(self) -> str:
        """The value, or the source where it is not known; what rules and people see."""
        return self.text if HOLE not in self.text else self.source


def unquoted(text: str) -> str:
    """Text that stood outside quotes: backslashes removed, wildcards and braces marked."""
    if not _SPECIAL.search(text):
        return text
    if "\\" not in text:
        return text.translate(_TO_MARKS)
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            if text[at] != "\n":
                out.append(text[at])
        else:
            out.append(char.translate(_TO_MARKS))
        at += 1
    return "".join(out)


def double_quoted(text: str) -> str:
    """Text that stood in double quotes: only `\\$`, `` \\` ``, `\\"`, `\\\\` and line joins are escapes."""
    return _DOUBLE.sub(lambda m: "" if m[1] == "\n" else m[1], text) if "\\" in text else text


_DOUBLE: Final = re.compile(r'\\([$`"\\\n])')


def ansi_c(text: str) -> str:
    """Text of `$'…'` with its escapes decoded (bash manual, ANSI-C quoting)."""

    def value(match: re.Match[str]) -> str:
        body = match[1]
        if body[0] in "xuU" and len(body) > 1:
            code = int(body[1:], 16)
        elif body[0] in "01234567":
            code = int(body, 8) & 0xFF
        elif body[0] == "c" and len(body) > 1:
            code = ord(body[1]) & 0x1F
        else:
            return _ANSI_LETTERS.get(body, "\\" + body)
        # Marks are control characters; what would decode to one is not a value we can follow.
        return HOLE if code < 8 or code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)

    return _ANSI.sub(value, text)


_ANSI: Final = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_ANSI_LETTERS: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": " ", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def fields_of_value(value: str) -> str:
    """A known variable's value put in unquoted: blanks split, wildcards act."""
    return re.sub(r"[ \t\n]+", SPLIT, value).translate(_WILD)


def marked(word: Word) -> str:
    """A word's text as a value: a pattern becomes names that may be any, in quotes too."""
    return word.text.translate(_WILD) if word.glob else word.text


_WILD: Final = str.maketrans({"*": STAR, "?": MARK, "[": BRACKET})


def finished(built: str, source: str, *, secret: bool = False) -> list[Word]:
    """The words that a built text becomes: braces expanded, split, marks back to text."""
    if not _MARKS.search(built):
        return [Word(built, source, False, secret)]
    out: list[Word] = []
    for text in _braces(built):
        parts = [p for p in text.split(SPLIT) if p] if SPLIT in text else [text]
        for part in parts:
            glob = STAR in part or MARK in part or BRACKET in part
            out.append(Word(part.translate(TO_TEXT), source, glob, secret))
            if len(out) > _MAX_WORDS:
                return [Word(HOLE, source, True, secret)]
    return out


def _braces(text: str) -> list[str]:
    """`a{b,c}` → `ab`, `ac`; over the limit the text becomes one unknown word."""
    done: list[str] = []
    todo = [text]
    while todo:
        now = todo.pop()
        found = _BRACE.search(now)
        if not found:
            done.append(now)
        else:
            todo.extend(
                now[: found.start()] + part + now[found.end() :] for part in reversed(found[1].split(COMMA))
            )
        if len(done) + len(todo) > _MAX_WORDS:
            return [HOLE]
    return done


_BRACE: Final = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*{COMMA}[^{OPEN}{CLOSE}]*){CLOSE}")


@dataclass(frozen=True, slots=True)
class StdinSource:
    """What feeds a command's standard input: a literal text, or the command on the pipe's left."""

    text: str | None = None
    argv: tuple[Word, ...] = ()


SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD_?|CREDENTIALS?|AUTH|APIKEY|PAT)(?:$|_|\d)",
    re.IGNORECASE,
)


def writes_forever(words: Sequence[Word]) -> bool:
    """Whether a command's output never ends: `yes`, or a source without end that nothing counts."""
    texts = [word.text for word in words]
    if texts[:1] == ["yes"]:
        return True
    if texts[:1] == ["head"] and any(huge(text) for text in texts[1:]):
        return True
    endless = any(re.fullmatch(r"(?:if=)?/dev/(?:zero|full|random|urandom)", text) for text in texts[1:])
    return (
        endless
        and texts[0] in _COPIERS
        and (not any(t.startswith("count=") for t in texts) or _blocks(texts) > MAX_BYTES)
    )


_COPIERS: Final = frozenset(
    [
        "cat",
        "dd",
        "pv",
        "tee",
        "cp",
        "base64",
        "base32",
        "gzip",
        "bzip2",
        "xz",
        "zstd",
        "lz4",
        "sed",
        "awk",
        "gawk",
        "nl",
        "rev",
        "tac",
        "fold",
        "strings",
        "tr",
        "openssl",
    ]
)
MAX_BYTES: Final = 64 << 30
"""A file that a command makes larger than this is made to fill the disk."""

_SIZE: Final = re.compile(
    r"(?:-c|--bytes=|-s|--size=|-l|--length=)?[<>%/+]?(\d{1,30})([KMGTPEZY]?)(i?B?)", re.IGNORECASE
)


def huge(text: str) -> bool:
    """Whether a size, as coreutils write it, is past MAX_BYTES."""
    return size(text) > MAX_BYTES


def size(text: str) -> int:
    """Bytes of `10`, `4K`, `2GiB`, `1TB`; 0 where the text is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return 0
    power = " KMGTPEZY".index(match[2].upper() or " ")
    return int(match[1]) * (1000 if match[3].upper() == "B" and power else 1024) ** power


def _blocks(texts: Sequence[str]) -> int:
    """Bytes that `dd` copies: `bs` times `count`."""
    block, count = 512, 0
    for text in texts:
        name, _, value = text.partition("=")
        if name == "bs":
            block = size(value) or size(value.rstrip("cwb")) or 512
        elif name == "count":
            count = size(value)
    return block * count


@dataclass(frozen=True, slots=True)
class Redirect:
    """One redirection: operator without descriptor, and its target words."""

    operator: str
    target: tuple[Word, ...]


@dataclass(slots=True)
class Segment:
    """One simple command, as the walk hands it on."""

    text: str
    words: list[Word]
    assigned: list[tuple[str, Word]]
    redirects: list[Redirect]
    stdin: StdinSource | None
    cwd: str | None
    #: Where the command would run if an earlier `cd` had failed; deleting looks at these too.
    other_cwds: tuple[str, ...]
    functions: frozenset[str]
    piped_on: bool = False


_MAX_VALUES: Final = 16
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
    also: tuple[str | None, ...] = ()
    narrowed: bool = False
    naming: bool = False
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
    def printed(self, node: Node, quoted: bool) -> str:
        """What a substitution prints, as far as that is known."""

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
        made, secret = self.built(value, False)
        source = self.text(value)
        text = made[0].translate(TO_TEXT) if len(made) == 1 else HOLE
        return name, Word(text, source, False, secret)

    def _assigned(self, node: Node) -> tuple[str, list[str]]:
        """A variable's name and what the assignment may give it."""
        name, word = self.assignment(node)
        value = node.child_by_field_name("value")
        if word.known or value is None or value.type == "array":
            return name, [word.text]
        return name, [text.translate(TO_TEXT) for text in self.built(value, False)[0]]

    # -- words

    def words(self, node: Node) -> list[Word]:
        """The words that a node becomes; commands inside it are visited."""
        built, secret = self.built(node, False)
        source = self.text(node)
        return [word for text in built for word in finished(text, source, secret=secret)]

    def built(self, node: Node, quoted: bool) -> tuple[list[str], bool]:
        """The node's possible values with marks, and whether a secret variable went in."""
        kind = node.type
        if kind in _PLAIN:
            if not node.named_child_count:
                text = self.text(node)
                return [double_quoted(text) if quoted else unquoted(text)], False
        elif kind == "raw_string":
            return [self.text(node)[1:-1]], False
        elif kind == "translated_string":
            # `$"rm"` is `"rm"` where no message catalogue translates it.
            return self.built(node.named_children[0], quoted) if node.named_children else ([""], False)
        elif kind == "ansi_c_string":
            return [ansi_c(self.text(node)[2:-1])], False
        elif kind == "simple_expansion":
            return self.variable(self.text(node)[1:], quoted)
        elif kind == "expansion":
            return self.expansion(node, quoted)
        elif kind in ("command_substitution", "process_substitution"):
            return [self.substitution(node, quoted)], False
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
        clean: Callable[[str], str] = double_quoted if quoted else unquoted
        for child in node.named_children:
            if child.start_byte > at:
                gap = clean(self.source[at : child.start_byte].decode("utf-8", "replace"))
                out = [o + gap for o in out]
            if child.type in ("string_content", "heredoc_content"):
                value, hidden = [clean(self.text(child))], False
            else:
                value, hidden = self.built(child, quoted)
            secret = secret or hidden
            out = [o + v for o in out for v in value] if len(value) * len(out) <= _MAX_WORDS else [HOLE]
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
            return [" " if quoted else SPLIT], False
        secret = bool(SECRET_NAME.search(name)) and name not in _NOT_SECRET
        known = self.values.get(name)
        if known and not quoted and "IFS" in self.values:
            return [HOLE], secret
        if known:
            secret = secret and any(value.startswith(HOLE) for value in known)
            return (known if quoted else [fields_of_value(v) for v in known]), secret
        return [HOLE], secret

    def expansion(self, node: Node, quoted: bool) -> tuple[list[str], bool]:
        """`${…}`: only the plain form has a known value; all commands inside are visited."""
        self.children(node)
        text = self.text(node)[2:-1]
        if text.isidentifier():
            return self.variable(text, quoted)
        if default := _DEFAULT.match(self.text(node)):
            return self.variable(default[1], quoted)
        if "@P" in text and not self.quiet:
            self.on_problem("a prompt expansion runs commands in its value", False)
        name = re.match(r"[!#]?(\w+)", text)
        secret = bool(
            name and not text.startswith("#") and SECRET_NAME.search(name[1]) and name[1] not in _NOT_SECRET
        )
        return [HOLE], secret and ":+" not in text and "+" not in text[:1]

    def substitution(self, node: Node, quoted: bool) -> str:
        """`$(…)`, backquotes, `<(…)`: visited as a subshell; a few have a value that is known."""
        text = self.text(node)
        before, last, on = self.stdin, self.last, self.piped_on
        naming, self.naming = self.naming, False
        # Into `>(…)` goes what another program writes.
        fed = StdinSource(None, (Word(">", ">"),)) if text.startswith(">(") else None
        self.stdin, self.piped_on = fed, False
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
        if naming:
            return HOLE
        return self.printed(node, quoted)

    # -- values

    def collect(self, root: Node) -> None:
        """Note the literal values of variables, wherever they are set; one unknown value spoils a name.

        The order is not looked at: a name that is set twice may hold either value in any place.
        """
        self.quiet = True
        for node in _find(root, ("variable_assignment", "for_statement", "command", "expansion")):
            match node.type:
                case "command":
                    for name in self._read_names(node):
                        self._may_hold(name, HOLE)
                case "for_statement":
                    name_node = node.child_by_field_name("variable")
                    name = self.text(name_node) if name_node is not None else ""
                    made = [word for v in node.children_by_field_name("value") for word in self.words(v)]
                    self._may_hold(name, *(map(marked, made) if made else [HOLE]))
                case "expansion":
                    if default := _DEFAULT.match(self.text(node)):
                        made = [self.built(c, True)[0] for c in node.named_children[1:2]]
                        known = self.values.get(default[1], [HOLE])
                        self._may_hold(default[1], *known, *(made[0] if made else [""]))
                case _:
                    name, values = self._assigned(node)
                    appended = b"+=" in self.source[node.start_byte : node.end_byte]
                    self._may_hold(name, *([HOLE] if appended else values))
        self.quiet = False

    def _may_hold(self, name: str, *values: str) -> None:
        held = dict.fromkeys((*self.values.get(name, ()), *values))
        self.values[name] = [*held] if len(held) <= _MAX_WORDS else [HOLE]

    def several(self, node: Node) -> list[dict[str, list[str]]]:
        """The values under which a command is judged: each of those that its variables may hold, together.

        Over the limit all values stand side by side, and a program's name is not known.
        """
        names = {
            name
            for found in _find(node, ("simple_expansion", "expansion"))
            if (name := _NAME.sub("", self.text(found))) in self.values and len(self.values[name]) > 1
        }
        count = prod(len(self.values[name]) for name in names)
        if not names or count > _MAX_VALUES:
            return []
        return [
            dict(zip(sorted(names), ([value] for value in chosen), strict=True))
            for chosen in product(*(self.values[name] for name in sorted(names)))
        ]

    def _read_names(self, node: Node) -> list[str]:
        """Names that `read`, `mapfile`, `printf -v` or `getopts` set to what nobody knows."""
        parts = self.text(node).split()
        return (
            parts[1:]
            if parts and parts[0] in ("read", "mapfile", "readarray", "printf", "getopts", "let")
            else []
        )


_PLAIN: Final = frozenset(
    ("word", "number", "variable_name", "file_descriptor", "test_operator", "special_variable_name")
)
_DEFAULT: Final = re.compile(r"\$\{(\w+):?[-=]")
_NAME: Final = re.compile(r"^\$\{?|(?::?[-=].*)?\}$", re.DOTALL)


def _find(root: Node, kinds: tuple[str, ...]) -> Iterable[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack.extend(reversed(node.named_children))


# Everything that is neither printable ASCII, tab, newline, nor an ordinary letter range; looked at one by one.
_SUSPECT: Final = re.compile(r"[^\t\n -~]")
_JOINERS: Final = frozenset("\u200c\u200d")


def hidden_characters(command: str) -> str:
    """Why the text may not run unseen; empty where nothing is wrong with its characters.

    Control characters, no-break and other odd blanks, and invisible format characters are refused;
    joiners between letters of other scripts or emoji are part of those words.
    """
    if command.isascii() and command.isprintable():
        return ""
    for match in _SUSPECT.finditer(command):
        char = match[0]
        category = unicodedata.category(char)
        if category in ("Cc", "Cs", "Co", "Cn") or char in "\u2028\u2029":
            return f"contains the control character U+{ord(char):04X}"
        if category == "Zs" and char != "\u3000":
            return f"contains the unusual blank U+{ord(char):04X}"
        if category == "Cf" and not (char in _JOINERS and _joins(command, match.start())):
            return f"contains the invisible character U+{ord(char):04X}"
        if 0x115F <= ord(char) <= 0x1160 or char in "\u3164\uffa0\u034f\u17b4\u17b5\u2800":
            return f"contains the invisible character U+{ord(char):04X}"
    return ""


def _joins(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return bool(before and after) and ord(before) > 0x2FF and ord(after) > 0x2FF
