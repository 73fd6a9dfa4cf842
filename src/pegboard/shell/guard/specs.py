"""What the guard knows of programs: the rows of `programs.toml`, read once and compiled one by one when needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from pegboard.core.effects import Verdict


def names(text: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(text.split())


def _flags() -> Any:
    return field(default=frozenset[str]())


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A condition on a call's arguments and what follows from it; all tests that are given must hold.

    Attributes:
        has, no: words of which one stands, or none stands, among the arguments.
        option, value: options of which one is given, GNU abbreviations included, and what its value fits.
        any: fits a whole argument.
        operand: fits a whole operand.
        first: fits the first argument, empty if there is none.
        plain: fits the first argument that is no option, empty if there is none.
        line: fits all arguments, joined by blanks.
        fed: is in the text on standard input; text that is not known counts.
        ask, deny, decide: the reason; `{name}`, `{word}`, `{first}`, `{plain}` are filled in. `decide` asks, and only
            a rule that spells the word allows it.
        token: the deciding word: `word` that fits, the `next` one, the `program`, `none` = no rule can spell it.
        connect: a host that is reached, for the reason `why`.
        write: a path that is written.
        reads: True = nothing is changed after all, False = something is.
        stop: nothing else of the row is looked at.
    """

    has: frozenset[str] = _flags()
    no: frozenset[str] = _flags()
    option: frozenset[str] = _flags()
    value: re.Pattern[str] | None = None
    any: re.Pattern[str] | None = None
    operand: re.Pattern[str] | None = None
    first: re.Pattern[str] | None = None
    plain: re.Pattern[str] | None = None
    line: re.Pattern[str] | None = None
    fed: re.Pattern[str] | None = None
    ask: str = ""
    deny: str = ""
    decide: str = ""
    token: str = "word"
    connect: str = ""
    why: str = ""
    write: str = ""
    reads: bool | None = None
    stop: bool = False

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> When:
        """A condition as the file has it."""
        made = dict(raw)
        for key in made.keys() & {"has", "no", "option"}:
            made[key] = names(made[key])
        for key in made.keys() & {"value", "any", "operand", "first", "plain", "line", "fed"}:
            made[key] = re.compile(made[key], re.DOTALL)
        return cls(**made)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """What a program's options and operands do.

    Attributes:
        takes: short options with a value.
        long_takes: long options whose value may be the next word.
        text: options, short or long, whose value is no path.
        runs: options that run a program or load code.
        reads, writes: options whose value is a file or folder that is read, or written.
        script: options whose value is a text that a shell runs.
        again: why a program that runs a command again and again asks, unless that only reads.
        deep: options by which a whole tree is deleted.
        asks, decides_by: what options do that ask, by option; `decides_by` those that only a rule that spells them allows.
        operands: what the operands are: `read`, `write`, `text`, `look` (names without their content), `delete`, `doubtful`
            (not known); `pattern-read` (a pattern, then files), `read-write` (the last is written); `command`, `script`
            (joined, the text of one), `scripts` (each), `write-command` (a file, then a command).
        read_only: nothing is changed unless a `runs` or `writes` option is given.
        plus: words with a `+` in front are options too.
        single_dash: options are whole words after one dash (`-exec`), never bundles.
        verdict, reason: of any use at all.
        decides: of a program that runs what its arguments or its input say: only a rule that names it allows it.
        answers: the program only answers a question, and the verdict does not apply.
        when: conditions, in order.
        rule: the name of the function that judges the program, `row` if the row alone does.
        section: of the file.
        facts: what only that function reads.
    """

    takes: str = ""
    long_takes: frozenset[str] = _flags()
    text: frozenset[str] = _flags()
    runs: frozenset[str] = _flags()
    reads: frozenset[str] = _flags()
    writes: frozenset[str] = _flags()
    script: frozenset[str] = _flags()
    again: str = ""
    deep: frozenset[str] = _flags()
    asks: tuple[tuple[frozenset[str], str], ...] = ()
    decides_by: tuple[tuple[frozenset[str], str], ...] = ()
    operands: str = "doubtful"
    read_only: bool = False
    plus: bool = False
    single_dash: bool = False
    verdict: Verdict = "allow"
    reason: str = ""
    decides: bool = False
    answers: When | None = None
    when: tuple[When, ...] = ()
    rule: str = "row"
    section: str = "runs"
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, section: str, raw: Mapping[str, Any] | str) -> ProgramSpec:
        """A row as a section of the file has it."""
        row: dict[str, Any] = {"why": raw} if isinstance(raw, str) else dict(raw)
        operands, read_only, verdict = SECTIONS[section]
        single = row.pop("single", False)
        lists = {
            key: names(row.pop(key, "")) for key in ("takes", "text", "runs", "reads", "writes", "script")
        }
        asks: dict[str, str] = row.pop("asks", {})
        decides_by: dict[str, str] = row.pop("decides_by", {})
        valued = lists["takes"] | lists["text"] | lists["reads"] | lists["writes"] | lists["script"]
        return cls(
            takes="" if single else "".join(f[1] for f in valued | lists["runs"] if len(f) == 2),
            long_takes=frozenset(f for f in valued if single or len(f) > 2),
            deep=names(row.pop("deep", "")), script=lists["script"], again=row.pop("again", ""), text=lists["text"], runs=lists["runs"], reads=lists["reads"], writes=lists["writes"],
            asks=tuple((names(flags), why) for flags, why in asks.items()),
            decides_by=tuple((names(flags), why) for flags, why in decides_by.items()), operands=row.pop("operands", operands),
            read_only=not row.pop("changes", not read_only), single_dash=single, plus=row.pop("plus", False),
            verdict=verdict, reason=row.pop("why", ""), decides=row.pop("decides", section == "decides"),
            answers=When.of(row.pop("answers")) if "answers" in row else None,
            when=tuple(map(When.of, row.pop("when", ()))), rule=row.pop("rule", _RULES.get(section, "row")),
            section=section, facts=row,
        )  # fmt: skip


SECTIONS: Final[dict[str, tuple[str, bool, Verdict]]] = {
    "reads": ("read", True, "allow"), "looks": ("look", True, "allow"), "prints": ("text", True, "allow"),
    "changes": ("write", False, "allow"), "runs": ("doubtful", False, "allow"), "asks": ("doubtful", False, "ask"),
    "decides": ("doubtful", False, "ask"), "denies": ("doubtful", False, "deny"), "net": ("doubtful", False, "allow"),
    "shells": ("doubtful", False, "allow"), "interpreters": ("doubtful", False, "allow"),
    "managers": ("doubtful", False, "allow"),
}  # fmt: skip
"""Section of the file → what operands are, whether nothing is changed, the verdict."""
_RULES: Final = {"shells": "shell", "interpreters": "interpreter", "managers": "manager"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A program that runs the command among its arguments and changes nothing else.

    Attributes:
        takes: its options with a value.
        lead, skip: words before, and behind, the options that are not the command's.
        first: what the first argument looks like if there is a command at all.
        raises: the command gets other rights or another root.
    """

    takes: frozenset[str] = _flags()
    lead: int = 0
    skip: int = 0
    first: re.Pattern[str] | None = None
    raises: bool = False


@lru_cache(maxsize=1)
def facts() -> Mapping[str, Any]:
    """The whole file."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name("programs.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[str, Mapping[str, Any] | str]]:
    return {
        name: (section, raw)
        for section in SECTIONS
        for key, raw in facts().get(section, {}).items()
        for name in key.split()
    }


@lru_cache(maxsize=512)
def spec_of(name: str) -> ProgramSpec | None:
    """The row of a program; None if there is none."""
    found = _index().get(name)
    return None if found is None else ProgramSpec.of(*found)


@lru_cache(maxsize=512)
def in_section(name: str, *sections: str) -> bool:
    """Whether a program's row is in one of these sections, as `shells` and `interpreters`."""
    return name in _index() and _index()[name][0] in sections


@lru_cache(maxsize=1)
def _wrappers() -> dict[str, Wrapper]:
    return {
        name: Wrapper(
            takes=names(row.get("takes", "")), lead=row.get("lead", 0), skip=row.get("skip", 0), raises=section == "raises",
            first=re.compile(row["first"]) if "first" in row else None,
        )
        for section in ("wraps", "raises")
        for key, row in facts()[section].items()
        for name in key.split()
    }  # fmt: skip


@lru_cache(maxsize=512)
def wrapper_of(name: str) -> Wrapper | None:
    """What is known of a wrapper; None if the program is none."""
    return _wrappers().get(name)


@cache
def variables(kind: str) -> frozenset[str]:
    """A list of names of environment variables, or of values."""
    return names(facts()["variables"][kind])


@lru_cache(maxsize=1)
def _recipes() -> dict[str, tuple[str, ...]]:
    return {name: tuple(files.split()) for key, files in facts()["recipes"].items() for name in key.split()}


@lru_cache(maxsize=512)
def recipes(name: str) -> tuple[str, ...]:
    """The files of a folder of which a program runs the first that is there."""
    return _recipes().get(name, ())


@lru_cache(maxsize=512)
def subcommand(program: str, name: str) -> ProgramSpec | None:
    """The row of a program's subcommand, from the section of that name."""
    raw = next((raw for key, raw in facts()[program].items() if name in key.split()), None)
    return None if raw is None else ProgramSpec.of("runs", raw)
