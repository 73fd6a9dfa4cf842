"""Variables that decide what runs or hold secrets: set, exported, printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pegboard.shell.guard.calls import ProgramCall
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.specs import in_section, variables
from pegboard.shell.guard.words import SECRET_NAME, Word

_LOADS: Final = re.compile(
    r"--(?:require|import|loader|experimental-loader|inspect|env-file|eval)|(?:^|\s)-r\b|-javaagent|-agent(?:lib|path)|-XX:On|@|data:"
)


_COUNTS: Final = re.compile(r"[\w.,:+-]*")


_CONFIGURES: Final = re.compile(r"(?:HOME|(?:^|[^S])RC|CONFIG(?:_(?:DIR|FILE|PATH))?|MAKEFILES)$")
_NO_PLACE: Final = re.compile(
    r"(?:UR[IL]|BASE|BASENAME|ROUTES?|ENDPOINT|HREF|PATHNAME|MESSAGE|TEXT|REGEX|PATTERN|QUERY"
    r"|(?:BASE|PUBLIC|CONTEXT|ROUTE|API|URL|MOUNT)_?(?:PATH|PREFIX|DIR|ROOT))$"
)
_RUNS: Final = re.compile(
    r"(?:PAGER|EDITOR|ASKPASS|BROWSER|WRAPPER|LAUNCHER|RUNNER|LINKER|DIFFPROG|CACHEPROG)$"
)
_OPTIONS: Final = re.compile(r"(?:OPTS|OPTIONS?|FLAGS|ADDOPTS|ARGS)$")
_LOADS_MORE: Final = re.compile(
    r"-javaagent|-agent(?:lib|path)|-(?:f|Wl,-)?plugin\b|-wrapper\b|linker=|-toolexec|--?eval(?![\w-])"
)
_IN_OPTIONS: Final = re.compile(r"(?:^|[\s=,:]|-[IL])((?:/|~|\.\./)[^\s,:'\"]*)")
_ELSEWHERE: Final = (
    PathZone.SECRET, PathZone.HOME, PathZone.SYSTEM, PathZone.OUTSIDE, PathZone.ABOVE, PathZone.DEVICE, PathZone.NETWORK,
)  # fmt: skip
_COMMAND: Final = re.compile(r"\S+\s+(?:\S+\s+)*-\w*[ce]\b")


def _leads(call: ProgramCall, name: str, upper: str, value: Word, lasting: bool) -> None:
    """A variable of any other name: what it names as a program or as a place outside decides like an operand.

    Args:
        lasting: a command gets it; else it is the shell's own until something exports it.
    """
    text = value.text
    said = Word(f"{name}={text}", value.source)
    if not text or not (lasting or _CONFIGURES.search(upper)):
        return
    if _RUNS.search(upper):
        if not re.fullmatch(r"[\w.+-]*", text):
            call.ask_unless_known(said if value.known else None, f"{name}= decides what runs")
        return
    if not value.known:
        return
    plugin = upper == "PYTEST_ADDOPTS" and re.search(r"(?:^|\s)-p\s*(?!no:)\w", text)
    if plugin or (_OPTIONS.search(upper) and _LOADS_MORE.search(text)):
        call.ask_unless_known(said, f"{name}= makes a program load or run something else")
        return
    if _COMMAND.match(text) and in_section(text.split(None, 1)[0], "shells", "interpreters"):
        call.judge.script(call, text)
    paths = _IN_OPTIONS.findall(text) if _OPTIONS.search(upper) else text.split(":")
    for path in () if "://" in text else paths:
        if path[:1] not in ("/", "~", "."):
            continue
        place = call.found.places.resolve(path, call.cwd)
        plain = place.kind is PathZone.OUTSIDE and path[:1] == "/" and place.target.count("/") < 3
        if place.kind in _ELSEWHERE and not (plain and _NO_PLACE.search(upper)):
            call.ask_unless_known(said, f"{name}= leads to {place.target}, {place.kind.value}")
            return


def reaches_programs(words: Sequence[Word]) -> bool:
    """Whether what is assigned in front of these words, or by them, ends in a program's environment."""
    if not words:
        return False
    if words[0].text not in ("declare", "typeset", "local", "readonly"):
        return True
    return any(re.fullmatch(r"-[a-zA-Z]*x[a-zA-Z]*", word.text) for word in words[1:])


def judge_assignment(call: ProgramCall, name: str, value: Word, *, lasting: bool = True) -> None:
    """A variable that a command, or all that follows, gets."""
    upper = name.upper()
    if upper in variables("harmless"):
        return
    if not (upper in variables("decide") or upper.startswith(tuple(variables("prefixes")))):
        _leads(call, name, upper, value, lasting)
        return
    text = value.text
    if upper == "HOME":
        # The sandbox has its own; programs that read start-up files there are asked about by path.
        call.maybe_path(value)
        return
    if upper in ("CDPATH", "PYTHONWARNINGS", "PS1", "PS2", "PS3", "IFS", "POSIXLY_CORRECT", "TMUX"):
        return
    if upper == "LESS" and re.fullmatch(r"-?[A-Za-z0-9]*", text):
        return
    if upper in ("HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTFILE"):
        call.ask(f"{name} decides whether the shell keeps its history")
    elif not _harmless(call, upper, value):
        call.ask_unless_known(
            Word(f"{name}={text}", value.source), f"{name}= changes what runs or where it connects"
        )


def _harmless(call: ProgramCall, upper: str, value: Word) -> bool:
    """Whether a variable that could decide what runs does not with this value."""
    text = value.text
    if upper.startswith("PIP_") and upper not in variables("decide") and _COUNTS.fullmatch(text):
        return True
    if not value.known:
        return False
    if upper in variables("path_lists") and _stays_inside(call, text):
        return True
    if (
        upper in variables("option_lists")
        and not _LOADS.search(text)
        and not re.search("exec|overlay|eval", text)
    ):
        return True
    if text == "":
        return upper not in ("PATH", "GIT_CONFIG_NOSYSTEM")
    searched = upper.startswith(("LD_", "DYLD_", "BASH_")) or "PATH" in upper
    return text in variables("harmless_values") and not searched


def _stays_inside(call: ProgramCall, text: str) -> bool:
    parts = [p for p in text.split(":") if p]
    return all(call.found.places.resolve(p, call.cwd).kind.name in ("INSIDE", "WORKSPACE") for p in parts)


def set_(call: ProgramCall) -> bool:
    texts = [w.text for w in call.args]
    if "history" in texts and "+o" in texts:
        call.ask("the shell would stop keeping its history")
    if not call.args and call.name == "set":
        call.ask("set prints all variables")
    return True


def declare(call: ProgramCall) -> bool:
    texts = [w.text for w in call.args]
    if "HISTFILE" in texts and call.name == "unset":
        call.ask("the shell would stop keeping its history")
    named = [text for text in texts if text[:1] != "-"]
    lists = any(re.fullmatch(r"-\w*p\w*|-x", text) for text in texts) and not named and "-f" not in texts
    if lists or (not texts and call.name in ("export", "declare", "typeset")):
        call.ask(f"{call.name} prints the environment")
    points = any(re.fullmatch(r"-[A-Za-z]*n[A-Za-z]*", text) for text in texts)
    if points and call.name != "unset" and "-p" not in texts:
        call.ask_unless_known(None, "a name reference points to a variable that is unknown before it runs")
    return True


def env_printed(call: ProgramCall) -> bool:
    """`env` or `printenv` without a command."""
    names = [w.text for w in call.args if not w.text.startswith("-") and "=" not in w.text]
    if call.name == "printenv" and names:
        if any(SECRET_NAME.search(n) or HOLE in n for n in names):
            call.ask(f"prints {names[0].replace(HOLE, '…')}")
        return True
    call.ask(f"{call.name} prints the environment")
    return True
