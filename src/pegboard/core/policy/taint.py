"""Taint: which calls bring in private or untrusted content, and what may follow.

Untrusted content may hold instructions; private content may not leave. Either alone is ordinary work. A
session that holds both asks before anything goes out, with the sources named: that is how data is stolen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, cast

from pegboard.core.effects import Effect, Plan
from pegboard.core.hosts import host_matches
from pegboard.core.policy.grants import below
from pegboard.core.policy.policy import Decision, EffectDecision
from pegboard.core.policy.rules import Situation, glob, path_matches, path_regex

PRIVATE: Final = "private"
UNTRUSTED: Final = "untrusted"

Labels: TypeAlias = Mapping[str, str]
"""Label -> where it comes from, for people."""

SECRET_FILES: Final = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.keystore", "*.jks", "*.gpg", "*.asc",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd",
    ".git-credentials", "credentials", "credentials.*", "secrets.*", "*.tfstate", "*.tfvars", "**/.ssh/**",
    "**/.gnupg/**", "**/.aws/**", "**/.kube/**", "**/.docker/config.json", "*.ovpn", "*_history", "wallet.dat",
)  # fmt: skip
"""gitignore globs of files that hold secrets by custom; what is read from them is private."""

_HARMLESS: Final = re.compile(r"(?:.*[./])?(?:example|sample|template|dist|pub)$", re.IGNORECASE)
_OUTWARD: Final = frozenset({"connect", "send", "spawn", "schedule", "spend", "control", "call"})
PIPED: Final = "\n\n<stdin>\n"
"""Stands in a task before what was piped into the command."""
HOOKED: Final = "\n\n<hook>\n"
"""Stands in a message before what a hook adds to it."""

ATTACHED: Final = "\n\n<attached>\n"
"""Stands in a message before the files and command output that were put beside what a person typed."""

_URL: Final = re.compile(r"https?://[^\s<>\"'`\\^{}|]+", re.IGNORECASE)
_TRAILING: Final = ".,;:!?)]}*_"
_FOUND_IN: Final = re.compile(r"^([^\s:][^:\n]{0,300}?)[:-]\d+[:-]|^([^\s:][^:\n]{0,300}):$", re.MULTILINE)
_LOOPBACK: Final = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)(?::\d+)?", re.IGNORECASE)
_HINTS: Final = (
    ".env", ".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".gpg", ".asc", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd", "credentials", "secrets.",
    ".tfstate", ".tfvars", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".ovpn", "_history", "wallet.dat",
)  # fmt: skip
"""A text that holds none of these names no file of SECRET_FILES; looking is cheaper than matching."""
_ADDRESS: Final = re.compile(r"[@.:/\d]")
_SOURCES: Final = 8
_URLS: Final = 10_000
_TYPED: Final = 200_000
"""Characters of what a user typed that are looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRules:
    """What counts as private or trusted.

    Attributes:
        private: path globs beside SECRET_FILES, and `call:SERVER/TOOL` or `connect:HOST` globs whose
            results are private.
        trusted: `connect:HOST` or `call:SERVER/TOOL` globs whose results are not untrusted.
    """

    private: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def _secret_files() -> re.Pattern[str]:
    # Made by the first path that is looked at: a process that reads no file never needs it.
    return re.compile("|".join(f"(?:{path_regex(p)})" for p in SECRET_FILES), re.IGNORECASE)


@lru_cache(maxsize=4096)
def _is_secret(path: str) -> bool:
    return _secret_files().fullmatch(path.lstrip("/")) is not None and not _HARMLESS.match(path)


class Provenance(Protocol):
    """Labels of files (and of whatever else is written), kept beyond the session."""

    def labels(self, workspace: str, path: str) -> Labels:
        """The labels of a path and of everything below it."""
        ...

    def add_labels(self, workspace: str, path: str, labels: Labels) -> None:
        """Give a path these labels beside those it has."""
        ...

    def drop(self, workspace: str, path: str) -> None:
        """The path is gone, or wholly new."""
        ...


class MemoryProvenance:
    """Provenance of one process."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, str]] = {}

    def labels(self, workspace: str, path: str) -> Labels:
        """See Provenance."""
        out: dict[str, str] = {}
        for (where, kept), labels in self._kept.items():
            if where == workspace and below(path, kept):
                out.update(labels)
        return out

    def add_labels(self, workspace: str, path: str, labels: Labels) -> None:
        """See Provenance."""
        self._kept.setdefault((workspace, path), {}).update(labels)

    def drop(self, workspace: str, path: str) -> None:
        """See Provenance."""
        for key in [k for k in self._kept if k[0] == workspace and below(path, k[1])]:
            del self._kept[key]


class TaintTracker:
    """What each session holds, and what its calls bring in.

    Args:
        rules: what counts as private and trusted.
        provenance: labels of files; in memory where None.
        spilled: labels of a `spill:ID`, whichever session it comes from; None = nothing is spilled.
    """

    def __init__(
        self,
        rules: TaintRules | None = None,
        *,
        provenance: Provenance | None = None,
        spilled: Callable[[str], frozenset[str]] | None = None,
    ) -> None:
        self.rules = rules or TaintRules()
        self._provenance = provenance or MemoryProvenance()
        self._spilled = spilled
        self.held: dict[str, dict[str, list[str]]] = {}
        self._urls: dict[str, dict[str, None]] = {}
        self._typed: dict[str, str] = {}

    # -- what a session holds -----------------------------------------------------------------

    def sources(self, session: str) -> Mapping[str, list[str]]:
        """Label -> sources, the first ones."""
        return self.held.get(session, _NOTHING)

    def add(self, session: str, label: str, source: str) -> None:
        """The session has read something of this label."""
        sources = self.held.setdefault(session, {}).setdefault(label, [])
        if source not in sources and len(sources) < _SOURCES:
            sources.append(source)

    def labels(self, session: str, inherited: frozenset[str]) -> frozenset[str]:
        """All labels of a session, with those that it was started with."""
        held = self.held.get(session)
        return inherited if not held else inherited.union(held)

    def endorse_text(self, session: str, text: str) -> None:
        """A user's text, a search result or a page's links: the addresses in it are endorsed as they stand."""
        known = self._urls.setdefault(session, {})
        for match in _URL.finditer(text):
            url = match[0]
            known[url] = None
            # A sentence may end behind an address; the address without its stop is meant too.
            known[url.rstrip(_TRAILING)] = None
        while len(known) > _URLS:
            del known[next(iter(known))]

    def add_user_text(self, session: str, text: str) -> None:
        """What the user typed: the destinations in it are the user's own choice for what goes out.

        What was piped in or attached beside it, and what a hook says, comes from elsewhere and endorses nothing.
        """
        for mark in (PIPED, ATTACHED, HOOKED):
            text = text.partition(mark)[0]
        self.endorse_text(session, text)
        self._typed[session] = f"{self._typed.get(session, '')}\n{text}"[-_TYPED:]

    def user_text(self, session: str) -> str:
        """What the user typed in a session, the end of it where that is long; empty if nothing."""
        return self._typed.get(session, "").strip("\n")

    def is_typed(self, session: str, text: str) -> bool:
        """Whether a text appears in what the user typed, letter for letter and not inside a longer word or address."""
        return _standing(text).search(self._typed.get(session, "")) is not None

    def is_named(self, session: str, effect: Effect) -> bool:
        """Whether the user has typed every part of an effect's destination, word for word."""
        typed = self._typed.get(session, "").lower()
        if not typed or effect.kind not in ("connect", "send"):
            return False
        # A channel (`mail:`) is how it goes; to whom is what counts.
        target = effect.target.lower()
        name = target.partition(":")[2] if effect.kind == "send" else target
        return len(name) > 1 and all(_stands_in(one.strip(), typed) for one in name.split(","))

    def endorses(self, session: str, url: str, inherited: frozenset[str] = frozenset()) -> bool:
        """Whether a GET of this very address needs no question: it stands byte for byte in such a text."""
        return PRIVATE not in self.labels(session, inherited) and url in self._urls.get(session, _NOTHING)

    # -- what a call brings in ----------------------------------------------------------------

    def labels_of_reads(self, plan: Plan, situation: Situation) -> dict[str, str]:
        """The labels of what the call's effects read; what it reaches is not counted yet."""
        out: dict[str, str] = {}
        for effect in plan.effects:
            if effect.kind == "read":
                self._of_path(effect.target, situation, out)
            elif effect.kind == "exec" and effect.argv is not None:
                for word in effect.argv[1:]:
                    # A program reads the files that it is given, whether or not the guard knows it.
                    if word[:1] != "-":
                        self._of_path(word.removeprefix("./"), situation, out)
        return out

    def labels_of_result(
        self, plan: Plan, situation: Situation, *, reached: Iterable[str] | None = None
    ) -> dict[str, str]:
        """The labels of a call's result: what it read, and what it reached.

        Args:
            reached: the hosts that its connections went to; None = all that it planned.
        """
        out = self.labels_of_reads(plan, situation)
        effects = plan.effects
        if reached is not None:
            effects = (
                *(e for e in effects if e.kind != "connect"),
                *(Effect("connect", host) for host in reached),
            )
        for effect in effects:
            if effect.kind in ("connect", "call"):
                # Code of the embedding program itself is no foreign tool, whatever it may do.
                ours = effect.kind == "call" and effect.target.startswith("python/")
                if not ours and not self._matches(self.rules.trusted, effect):
                    out.setdefault(UNTRUSTED, str(effect))
                if self._matches(self.rules.private, effect, any_port=True):
                    out.setdefault(PRIVATE, str(effect))
        return out

    def private_match(self, plan: Plan, situation: Situation, text: str) -> str | None:
        """A private file in which a search over a tree found something; its result names it."""
        if not any(e.kind == "read" for e in plan.effects):
            return None
        if ":" not in text and "-" not in text:
            # One of them stands behind the file's name; most short results hold neither.
            return None
        if not self.rules.private and not any(map(text.lower().__contains__, _HINTS)):
            return None
        for match in _FOUND_IN.finditer(text):
            path = match[1] or match[2]
            if self.is_private(path, situation):
                return path
        return None

    def is_private(self, path: str, situation: Situation) -> bool:
        """Whether a path is private by custom or by declaration."""
        if self.rules.private and any(
            ":" not in p and path_matches(p, path, situation) for p in self.rules.private
        ):
            return True
        return _is_secret(path)

    def _of_path(self, path: str, situation: Situation, out: dict[str, str]) -> None:
        if path.startswith("spill:"):
            for label in () if self._spilled is None else self._spilled(path):
                out.setdefault(label, f"read {path}")
            return
        if PRIVATE not in out and self.is_private(path, situation):
            out[PRIVATE] = f"read {path}"
        for label, source in self._provenance.labels(situation.workspace, path).items():
            out.setdefault(label, f"read {path} ({source})")

    @staticmethod
    def _matches(patterns: tuple[str, ...], effect: Effect, *, any_port: bool = False) -> bool:
        for pattern in patterns:
            kind, colon, target = pattern.partition(":")
            if colon and kind == effect.kind:
                if kind == "connect" and host_matches(target, effect.target, any_port=any_port):
                    return True
                if kind != "connect" and glob(target)(effect.target):
                    return True
        return False

    # -- what follows -------------------------------------------------------------------------

    def propagate(
        self, plan: Plan, session: str, inherited: frozenset[str], own: Labels, data: Any, workspace: str
    ) -> None:
        """A call has run: its session holds what it brought, and what it wrote carries what its session holds."""
        for label, source in own.items():
            self.add(session, label, source)
        wrote, gone, moved = _written(plan, data)
        for path in gone:
            self._provenance.drop(workspace, path)
        held = self.sources(session)
        carried = {label: ", ".join(held.get(label, ["an earlier step"])) for label in {*inherited, *held}}
        for path in wrote:
            if carried:
                self._provenance.add_labels(workspace, path, carried)
        for old, new in moved:
            if labels := self._provenance.labels(workspace, old):
                self._provenance.add_labels(workspace, new, labels)
            self._provenance.drop(workspace, old)

    def tighten(
        self, decision: Decision, plan: Plan, situation: Situation, session: str, labels: frozenset[str],
        *, confined: bool = True, chat: str = "",
    ) -> Decision:  # fmt: skip
        """The decision with what taint asks for: both labels and an outward effect ask, naming the sources.

        Args:
            confined: commands run without network unless it is granted; where not, each goes outward.
            chat: `CHANNEL:CHAT` that the run answers; what it says goes there anyway. Empty = none.
        """
        brings = self.labels_of_reads(plan, situation)
        if not {PRIVATE, UNTRUSTED} <= labels.union(brings) or decision.verdict == "deny":
            return decision
        outward = [
            e for e in decision.effects
            if _goes_out(e, confined) and not e.despite_taint and not self.is_named(session, e.effect)
            and (not chat or str(e.effect) != f"send {chat}")
        ]  # fmt: skip
        if not outward:
            return decision
        held = self.sources(session)
        named = [
            f"{label} content from {', '.join(held.get(label) or [brings.get(label, 'an earlier step')])}"
            for label in (UNTRUSTED, PRIVATE)
        ]
        reason = (
            f"this session has read {' and '.join(named)}; approval is needed to send data out:  "
            + ", ".join(str(e.effect) for e in outward)
        )
        effects = tuple(
            EffectDecision(e.effect, "ask", "taint", reason) if e in outward else e for e in decision.effects
        )
        return replace(
            decision, verdict="ask", rule="taint", reason=reason, effects=effects, tainted=tuple(named)
        )


def _stands_in(name: str, typed: str) -> bool:
    """Whether an address stands in a text as a whole: `a.example` not in `a.example.org`.

    A plain word has to be marked as one (`@ann`, `#general`, `//intranet`): a text that speaks of Ann does not say
    that anything may go to her.
    """
    return bool(name) and _standing(name, "" if _ADDRESS.search(name) else "[@#/]").search(typed) is not None


def _standing(text: str, mark: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.@+-]){mark}{re.escape(text)}(?![\w@+-]|\.\w)")


_NOTHING: Final[Mapping[str, Any]] = {}


def _goes_out(answer: EffectDecision, confined: bool) -> bool:
    effect = answer.effect
    if effect.kind == "control" and effect.at_least == "allow":
        # Its tool says that it only looks at something of ours, such as a background command.
        return False
    if effect.kind == "connect" and _LOOPBACK.fullmatch(effect.target):
        return False
    return effect.kind in _OUTWARD or (effect.kind == "exec" and not confined and not effect.read_only)


def _written(plan: Plan, data: Any) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Paths that a call wrote, that are gone or wholly new, and that it moved."""
    wrote: list[str] = []
    gone: list[str] = []
    moved: list[tuple[str, str]] = []
    for path, kind, to in _changes(plan, data):
        if kind == "move":
            moved.append((path, to))
            continue
        if kind in ("delete", "create"):
            gone.append(path)
        if kind != "delete":
            wrote.append(path)
    known = {p for p in (*wrote, *gone, *(m for pair in moved for m in pair))}
    for effect in plan.effects:
        if effect.kind == "write" and effect.target not in known:
            wrote.append(effect.target)
        elif effect.kind == "delete" and effect.target not in known:
            gone.append(effect.target)
    return wrote, gone, moved


def _changes(plan: Plan, data: Any) -> Iterable[tuple[str, str, str]]:
    for change in plan.changes.changes:
        yield change.path, change.kind, change.moved_to or ""
    if plan.changes or not isinstance(data, dict):
        return
    # What a command changed is known afterwards only; its tool reports it as data.
    reported = cast("dict[str, Any]", data).get("changes")
    for row in cast("list[Any]", reported) if isinstance(reported, list) else ():
        if isinstance(row, dict):
            told = cast("dict[str, Any]", row)
            yield str(told.get("path", "")), str(told.get("kind")), str(told.get("moved_to") or "")
