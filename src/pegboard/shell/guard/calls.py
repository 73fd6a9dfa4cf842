"""One program call to judge, its options as getopt reads them, and what is found: effects and verdicts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from pegboard.core.effects import Effect, EffectKind, Verdict
from pegboard.core.hosts import host_note, shown_host
from pegboard.shell.guard.operands import (
    HOLE,
    Operand,
    OperandResolver,
    PathZone,
    fits_protected,
    is_repository,
)
from pegboard.shell.guard.specs import ProgramSpec, spec_of
from pegboard.shell.guard.words import StdinSource, Word

PATH_LIKE: Final = re.compile(r"^(?:/|~|\.\.?(?:/|$))|/\.\.(?:/|$)")
URL: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class NestedJudge(Protocol):
    """What a rule may ask of the judge for the commands inside a command."""

    def inner(self, call: ProgramCall, words: list[Word], *, stdin: StdinSource | None = None) -> None:
        """Judge an inner program call, with the same folder."""
        ...

    def script(self, call: ProgramCall, text: str, *, stdin: StdinSource | None = None) -> None:
        """Judge a text that a shell runs."""
        ...


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One program with its arguments.

    Attributes:
        name: the program's name without folder.
        program: the word that names it.
        args: the arguments.
        cwd: the folder it runs in, None = not known.
        other_cwds: where it runs if an earlier `cd` fails.
        stdin: what feeds it.
        found: where rules report.
        judge: for inner commands.
        piped_on: its output goes to another program.
    """

    name: str
    program: Word
    args: list[Word]
    cwd: str | None
    other_cwds: tuple[str, ...]
    stdin: StdinSource | None
    found: Findings
    judge: NestedJudge
    piped_on: bool = False

    def read(self, word: Word, *, plain: bool = True) -> None:
        """The operand is a file that is read."""
        if word.text and word.text != "-":
            self.found.read(word.text, self.cwd, glob=word.glob, plain=plain)

    def write(self, word: Word) -> None:
        """The operand is a file that is created or changed."""
        if word.text and word.text != "-":
            self.found.write(word.text, self.cwd, glob=word.glob)

    def place(
        self,
        sources: list[Word],
        target: Word,
        *,
        folder: bool | None = None,
        itself: bool = False,
        parents: bool = False,
    ) -> None:
        """Sources are put into the folder `target` under their names, or one of them becomes `target`.

        Args:
            sources: of files and trees; of a tree the protected files in it count too.
            target: what the command names as the place.
            folder: whether `target` is a folder; None = as the disk and the spelling say.
            itself: a tree becomes the target rather than going into it.
            parents: the folders in front of a source's name come along.
        """
        places = self.found.places
        if folder is None:
            named = posixpath.basename(target.text) in ("", ".", "..")
            folder = not itself and (
                len(sources) > 1 or parents or named or places.is_folder(target.text, self.cwd)
            )
        whole = not folder or places.resolve(target.text, self.cwd).kind not in _OWN
        for source in sources:
            name = posixpath.basename(source.text.rstrip("/"))
            # `tpl/.` stands for what is in tpl.
            if not folder or name in (".", "..") or HOLE in name:
                put, whole = target.text, True
            else:
                put = posixpath.join(target.text, source.text if parents else name)
                self.found.write(put, self.cwd, glob=source.glob)
            for below in places.protected_below(source.text, self.cwd, glob=source.glob):
                self.found.write(
                    posixpath.join(posixpath.dirname(put) if source.glob else put, below), self.cwd
                )
        if whole:
            self.write(target)

    def delete(self, word: Word, *, recursive: bool = False) -> None:
        """The operand is removed."""
        if word.text:
            for folder in dict.fromkeys((self.cwd, *self.other_cwds)):
                self.found.delete(word.text, folder, glob=word.glob, recursive=recursive)

    def stat(self, word: Word) -> None:
        """The operand's name is looked at, not its content."""
        kind = self.found.places.resolve(word.text, self.cwd, glob=word.glob).kind
        if kind in (PathZone.HOME, PathZone.OUTSIDE, PathZone.NETWORK) or (
            kind is PathZone.SECRET and word.text[:1] in "/~"
        ):
            self.read(word, plain=False)

    def maybe_path(self, word: Word) -> None:
        """The operand may be a path, a URL or anything."""
        text = word.text
        if URL.match(text):
            if not text.startswith("file:"):
                host = host_of(text)
                self.found.connect(host, verdict="allow" if is_loopback(host) else "ask")
        elif word.known or text[:1] != HOLE:
            # `concat:/etc/x`, `msl:/x`: a name of a kind before the path.
            if kind := re.match(r"[A-Za-z][A-Za-z0-9]{1,15}:(?=[/~](?!/))", text):
                text = text[kind.end() :]
            at = text.find("=")
            if 0 < at < len(text) - 1 and text[0] != "/" and PATH_LIKE.search(text[at + 1 :]):
                text = text[at + 1 :]
            named = "/" in text or "." in text or word.glob or text.startswith(("~", "id_", "cred"))
            if named and text not in ("/", ".", "./") and not text.startswith("//"):
                self.found.read(text.removeprefix("@"), self.cwd, glob=word.glob, plain=False)

    def shell_text(self, words: Iterable[Word]) -> None:
        """Words that are joined and run by a shell (`eval`, `watch`, `ssh`, `parallel`)."""
        text = " ".join(word.text for word in words)
        if HOLE in text:
            self.ask_unless_known(None, f"{self.name} runs text that is not known before it runs")
        self.judge.script(self, text)

    def ask(self, reason: str) -> None:
        """This call needs a person's yes."""
        self.found.ask(reason)

    def ask_unless_known(self, word: Word | None, reason: str) -> None:
        """This call needs a yes: `word`, or what is not known where it is None, decides what it runs."""
        token = HOLE
        if word is not None and word.known and word.text:
            # As it stands among the arguments, where a pattern would have to spell it: `--pager=./x`, `-P./x`.
            holds = (w.text for w in self.args if w.text[:1] == "-" and w.text.endswith(word.text))
            token = word.text if any(w.text == word.text for w in self.args) else next(holds, word.text)
        self.found.ask_unless_known(token, reason)

    def deny(self, reason: str) -> None:
        """This call must not run."""
        self.found.deny(reason)

    @property
    def spec(self) -> ProgramSpec:
        """What is known of the program; an empty row if nothing is."""
        return spec_of(self.name) or NO_SPEC

    def options(self, program: ProgramSpec | None = None) -> tuple[list[Option], list[Word]]:
        """The arguments, split as the program's row says."""
        return parse(self.args, program or self.spec)

    def has(self, *flags: str) -> bool:
        """Whether one of these words stands among the arguments."""
        return any(word.text in flags for word in self.args)

    def in_folder(self, cwd: str | None) -> ProgramCall:
        """The same call in another folder."""
        return replace(self, cwd=cwd, other_cwds=())

    def named(self, name: str, args: list[Word]) -> ProgramCall:
        """A call of another program in the same place."""
        return replace(self, name=name, args=args)


_OWN: Final = (PathZone.INSIDE, PathZone.WORKSPACE)


NO_SPEC: Final = ProgramSpec()
Rule = Callable[[ProgramCall], bool]
"""Judges one program's call; returns whether the call changes nothing."""


def host_of(url: str) -> str:
    """`host` or `host:port` of a URL or of `host/path`; HOLE where it is not known."""
    rest = url.split("://", 1)[-1]
    host = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    return HOLE if HOLE in host else host.lower()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which inside the sandbox is the sandbox."""
    name = re.sub(r":\d+$", "", host)
    return name in ("localhost", "[::1]", "0.0.0.0") or re.fullmatch(r"127(?:\.\d{1,3}){3}", name) is not None


@dataclass(frozen=True, slots=True)
class Option:
    """One option and its value; `flag` is `-x` or `--name`."""

    flag: str
    value: Word | None


_HISTORIC: Final = re.compile(r"[-+]\d+[A-Za-z]*$")
"""`head -50`, `tail +5`, `zip -9r`: a count is an option, and no letter behind it has a value."""
_READS: Final = ("read", "pattern-read", "read-write")
_COMMANDS: Final = ("command", "script", "write-command")
"""Operands whose first one ends the program's own options."""


def parse(args: Iterable[Word], program: ProgramSpec) -> tuple[list[Option], list[Word]]:
    """Split arguments into options and operands, permuting as GNU getopt does."""
    options: list[Option] = []
    operands: list[Word] = []
    rest = iter(args)
    for word in rest:
        text = word.text
        if text == "--":
            operands.extend(rest)
        elif _HISTORIC.match(text) and (
            text[1] not in program.takes if text[0] == "-" else program.operands in _READS
        ):
            options.extend(Option(f"-{letter}", None) for letter in text[1:])
        elif program.plus and text[:1] == "+":
            options.append(Option(text, None))
        elif len(text) < 2 or text[0] != "-":
            operands.append(word)
            if program.operands in _COMMANDS:
                operands.extend(rest)
        elif text.startswith("--") or program.single_dash:
            name, equals, value = text.partition("=")
            if equals:
                options.append(Option(name, Word(value, word.source, word.glob, word.secret)))
            elif name in program.long_takes:
                options.append(Option(name, next(rest, None)))
            else:
                options.append(Option(name, None))
        else:
            _bundle(word, rest, program.takes, options)
    return options, operands


def _bundle(word: Word, rest: Iterable[Word], takes: str, options: list[Option]) -> None:
    text = word.text
    for at in range(1, len(text)):
        letter = text[at]
        if letter in takes:
            value = text[at + 1 :]
            if value:
                made: Word | None = Word(value, word.source, word.glob, word.secret)
            else:
                made = next(iter(rest), None)
            options.append(Option("-" + letter, made))
            return
        options.append(Option("-" + letter, None))


def stands_for(flag: str, names: frozenset[str]) -> bool:
    """Whether an option is one of `names`, GNU abbreviations of long ones included."""
    if flag in names:
        return True
    if len(flag) < 5 or not flag.startswith("--"):
        return False
    return any(name.startswith(flag) for name in names)


# -- what is found

_MAX_EFFECTS: Final = 400
_MAX_SAME: Final = 16
"""Effects back to which an equal one is looked for: what a loop repeats is said once."""
_RANK: Final[dict[Verdict, int]] = {"allow": 0, "ask": 1, "deny": 2}


UNKNOWN: Final = "?"
"""Marks an effect whose meaning the words alone do not tell; `judge` binds it to the whole command."""


class TooMuch(Exception):
    """Judging stops here; the command asks. Never leaves the guard."""


@dataclass(slots=True)
class Findings:
    """Collects; `ask` and `deny` speak of the segment at hand, paths and hosts for themselves.

    Attributes:
        confined: a sandbox confines the command; see `judge`.
    """

    places: OperandResolver
    confined: bool = False
    effects: list[Effect] = field(default_factory=list[Effect])
    decision: Verdict = "allow"
    reason: str = ""
    verdict: Verdict = "allow"
    why: str = ""
    wrote: bool = False
    decisive: tuple[str, ...] = ()

    def open_segment(self) -> tuple[Verdict, str, bool, tuple[str, ...]]:
        """Open a segment; returns what was known of the one at hand, for `resume`."""
        kept = self.verdict, self.why, self.wrote, self.decisive
        self.verdict, self.why, self.wrote, self.decisive = "allow", "", False, ()
        return kept

    def resume(self, kept: tuple[Verdict, str, bool, tuple[str, ...]]) -> None:
        """Go on with the segment that `fresh` left."""
        self.verdict, self.why, self.wrote, self.decisive = kept

    def ask(self, reason: str) -> None:
        """The segment at hand needs a person's yes."""
        self._raise("ask", reason)

    def deny(self, reason: str) -> None:
        """The segment at hand must not run."""
        self._raise("deny", reason)

    def note(self, look: Callable[[], None]) -> None:
        """Keep the commands and the files of the workspace that `look` finds, for rules and labels, and no verdict."""
        kept, decision, reason = self.open_segment(), self.decision, self.reason
        before = len(self.effects)
        look()
        self.effects[before:] = [
            replace(e, at_least="allow", reason="")
            for e in self.effects[before:]
            if e.kind == "exec" or (e.kind == "read" and not e.target.startswith(("/", "…")))
        ]
        self.decision, self.reason = decision, reason
        self.resume(kept)

    def _raise(self, verdict: Verdict, reason: str) -> None:
        if _RANK[verdict] > _RANK[self.verdict]:
            self.verdict, self.why = verdict, reason
        self._decide(verdict, reason)

    def _decide(self, verdict: Verdict, reason: str) -> None:
        if _RANK[verdict] > _RANK[self.decision]:
            self.decision, self.reason = verdict, reason

    def ask_unless_known(self, word: str, reason: str) -> None:
        """The segment needs a yes, for `word` makes it run something else than its program's name says."""
        self.ask(reason)
        if word not in self.decisive:
            self.decisive = (*self.decisive, word)

    def close_segment(
        self, text: str, argv: tuple[str, ...] | None, *, read_only: bool, known: bool = True
    ) -> None:
        """Close the segment at hand as one `exec` effect; `known`: its words have no value yet to come."""
        self._add(
            Effect("exec", text, argv=argv, read_only=read_only and self.verdict == "allow",
                   at_least=self.verdict, reason=self.why, decisive=self.decisive,
                   bound="" if known and argv is not None else UNKNOWN)
        )  # fmt: skip

    def _add(self, effect: Effect) -> None:
        if effect.kind == "exec" and effect in self.effects[-_MAX_SAME:]:
            return
        if len(self.effects) < _MAX_EFFECTS:
            self.effects.append(effect)
        else:
            self._decide("ask", f"the command has more than {_MAX_EFFECTS} effects")
            raise TooMuch

    def _path(self, kind: EffectKind, place: Operand, verdict: Verdict, reason: str) -> None:
        effect = Effect(
            kind,
            place.target,
            at_least=verdict,
            reason=reason if verdict != "allow" else "",
            bound=UNKNOWN if "…" in place.target else "",
        )
        if effect not in self.effects:
            self._add(effect)
        self._decide(verdict, reason)

    def read(self, text: str, cwd: str | None, *, glob: bool = False, plain: bool = True) -> None:
        """A file or folder is read. `plain` False: only noted where it matters (a doubtful operand)."""
        place = self.places.resolve(text, cwd, glob=glob)
        kind = place.kind
        if kind is PathZone.SECRET:
            verdict: Verdict = "ask" if not place.target.startswith("/") else "deny"
            self._path("read", place, verdict, f"{place.target} is a file of secrets")
        elif kind is PathZone.NETWORK:
            self._path("connect", place, "deny", f"{place.target} opens a network connection")
        elif kind in _READ_ASKS and not (kind is PathZone.ABOVE and not plain):
            self._path("read", place, "ask", f"reads {place.target}, {kind.value}")
        elif plain and kind is not PathZone.HARMLESS:
            self._path("read", place, "allow", "")

    def write(self, text: str, cwd: str | None, *, glob: bool = False) -> None:
        """A file is created or changed."""
        place = self.places.resolve(text, cwd, glob=glob)
        kind = _changed(place, glob)
        if kind is PathZone.HARMLESS:
            return
        self.wrote = True
        if kind is PathZone.NETWORK:
            self._path("connect", place, "deny", f"{place.target} opens a network connection")
        elif kind in _WRITE_DENIES or (kind is PathZone.SECRET and place.target.startswith("/")):
            self._path("write", place, "deny", f"writes {place.target}, {kind.value}")
        elif kind is PathZone.OUTSIDE:
            start_up = self._starts_something(place.target)
            self._path(
                "write",
                place,
                "deny" if start_up else "ask",
                f"writes {place.target}, {start_up or kind.value}",
            )
        elif kind is PathZone.PROTECTED or kind is PathZone.HOME or kind is PathZone.ABOVE:
            self._path("write", place, "ask", f"writes {place.target}, {kind.value}")
        elif kind is PathZone.UNKNOWN and (text == HOLE or text.startswith((HOLE + "/", "~"))):
            self._path("write", place, "ask", "writes to a path that is not known before it runs")
        else:
            self._path("write", place, "allow", "")

    def delete(self, text: str, cwd: str | None, *, glob: bool = False, recursive: bool = False) -> None:
        """A file, or with `recursive` a whole tree, is removed."""
        place = self.places.resolve(text, cwd, glob=glob, follow=text.endswith("/"))
        kind = _changed(place, glob)
        self.wrote = True
        if kind in _DELETE_DENIES or (kind is PathZone.SECRET and place.target.startswith("/")):
            self._path("delete", place, "deny", f"deletes {place.target}, {kind.value}")
        elif kind in (PathZone.WORKSPACE, PathZone.PROTECTED, PathZone.OUTSIDE, PathZone.UNKNOWN):
            self._path("delete", place, "ask", f"deletes {place.target}, {kind.value}")
        elif is_repository(place.target) and (recursive or glob or not _LOCK.search(place.target)):
            self._path("delete", place, "ask", f"deletes {place.target}, which belongs to a repository")
        elif place.target.split("/")[0] == "…":
            self._path("delete", place, "ask", "deletes what is not known before it runs")
        elif kind is not PathZone.HARMLESS:
            self._path("delete", place, "allow", "")

    def connect(self, host: str, reason: str = "", verdict: Verdict = "ask", *, bound: str = "") -> None:
        """A host is reached; the sandbox has no network unless that was allowed. `bound`: what a yes is bound to."""
        shown = (host.replace(HOLE, "…") if HOLE in host else shown_host(host)) or "unknown host"
        why = reason or f"connects to {shown}"
        if note := host_note(shown):
            why += f", which {note}"
        effect = Effect(
            "connect",
            shown,
            at_least=verdict,
            reason=why,
            bound=UNKNOWN if HOLE in host or not host else bound,
        )
        if effect not in self.effects:
            self._add(effect)
        self._decide(verdict, why)

    def _starts_something(self, path: str) -> str:
        home = self.places.home + "/"
        if not path.startswith(home):
            return ""
        rest = path[len(home) :]
        return "read when a shell or program starts" if rest.startswith(".") else ""


def _changed(place: Operand, glob: bool) -> PathZone:
    """The kind of a place that is changed: of a pattern for `.env` and `.git` alike, the protected one."""
    inside = place.kind is PathZone.SECRET and not place.target.startswith("/")
    return PathZone.PROTECTED if inside and glob and fits_protected(place.target) else place.kind


_LOCK: Final = re.compile(r"\.lock$|/(?:COMMIT_EDITMSG|MERGE_MSG|gc\.(?:log|pid))$")
"""Files that git leaves behind when it is stopped; removing them loses nothing."""
_READ_ASKS: Final = frozenset(
    {PathZone.ABOVE, PathZone.SYSTEM, PathZone.DEVICE, PathZone.HOME, PathZone.OUTSIDE}
)
_WRITE_DENIES: Final = frozenset({PathZone.SYSTEM, PathZone.PUBLIC, PathZone.DEVICE})
_DELETE_DENIES: Final = frozenset(
    {PathZone.SYSTEM, PathZone.PUBLIC, PathZone.DEVICE, PathZone.HOME, PathZone.ABOVE, PathZone.NETWORK}
)
