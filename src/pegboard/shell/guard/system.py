"""Rules of shell builtins and of programs that look at or change the machine."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, Rule, by_table, stands_for
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.runners import (
    entr,
    flock,
    hyperfine,
    nodemon,
    parallel,
    script_program,
    watch,
)
from pegboard.shell.guard.scripts import MOVES
from pegboard.shell.guard.tables import (
    PROGRAMS,
)
from pegboard.shell.guard.variables import declare, env_printed, judge_assignment, set_
from pegboard.shell.guard.words import Word
from pegboard.shell.guard.wrappers import script_file, script_words


def eval_(call: ProgramCall) -> bool:
    script_words(call, call.args)
    return True


def trap(call: ProgramCall) -> bool:
    args = [w for w in call.args if w.text not in ("-p", "-l", "--")]
    if len(args) > 1 and args[0].text not in ("", "-"):
        script_words(call, args[:1])
    return True


def alias(call: ProgramCall) -> bool:
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if equals:
            first = value.split()[:1]
            if name in MOVES or (first and "/" in first[0] and name != first[0].rpartition("/")[2]):
                call.ask_unless_known(word, f"{name} would mean {value[:40]!r}")
            if HOLE in value:
                call.ask_unless_known(None, f"the alias {name} is not known before it runs")
            destroys = [w for w in value.split()[:4] if w in _DESTROYERS]
            if destroys and first != [name]:
                call.ask_unless_known(word, f"{name} would mean {destroys[0]}")
            call.judge.script(call, value)
    return True


def shopt(call: ProgramCall) -> bool:
    if call.has("expand_aliases"):
        call.ask("aliases decide what the names of programs mean")
    return True


def source(call: ProgramCall) -> bool:
    if call.args:
        script_file(call, call.args[0])
    return False


def jq(call: ProgramCall) -> bool:
    reads = by_table(call, PROGRAMS[call.name])
    for at, word in enumerate(call.args[:-2]):
        if word.text in ("--rawfile", "--slurpfile"):
            call.read(call.args[at + 2])
    for word in call.args:
        if (
            re.search(
                r"(?<![.\w\"'-])(?:env|\$ENV|strenv|envsubst|input_filename|load_str|load)\b(?!\s*[:\"'])",
                word.text,
            )
            and not word.text.startswith(("-", "/"))
            and word.text[:1] != "."
        ) or re.search(r"[|(]\s*(?:env|\$ENV)\b|\$ENV\b", word.text):
            call.ask(f"{call.name} prints the environment")
    in_place = call.name == "yq" and any(re.fullmatch(r"-\w*i\w*|--in-?place", w.text) for w in call.args)
    if in_place:
        for word in [w for w in call.args if not w.text.startswith("-")][1:]:
            call.write(word)
    return reads and call.name == "jq"


def date(call: ProgramCall) -> bool:
    options, operands = call.options(
        ProgramSpec(
            takes="dfrs",
            long_takes=frozenset({"--date", "--file", "--reference", "--set"}),
        )
    )
    for option in options:
        if stands_for(option.flag, frozenset({"-s", "--set"})):
            call.ask("date sets the clock")
        if option.flag in ("-f", "--file", "-r", "--reference") and option.value:
            call.read(option.value)
    if any(re.fullmatch(r"\d{8,12}(?:\.\d\d)?", w.text) for w in operands):
        call.ask("date sets the clock")
    return True


def kill(call: ProgramCall) -> bool:
    args = list(call.args)
    texts = [w.text for w in args]
    if texts[:1] and texts[0] in ("-l", "-L", "--list", "--table"):
        return True
    if texts[:1] and texts[0] in ("-s", "-n", "--signal"):
        args = args[2:]
    elif texts[:1] and re.fullmatch(r"-(?:[A-Za-z]\w*|\d+)", texts[0]) and len(texts) > 1:
        args = args[1:]
    for word in args:
        if word.text in ("-1", "0", "-0"):
            call.deny("kill ends every process")
        elif word.text == "1" or re.fullmatch(r"-\d+", word.text):
            call.ask(f"kill {word.text} ends more than one process")
    return False


def pkill(call: ProgramCall) -> bool:
    operands = call.options(
        ProgramSpec(takes="gGPstuUFR", long_takes=frozenset({"--signal", "--user", "--euid", "--parent"}))
    )
    if any(
        o.flag in ("-u", "-U", "-g", "-G", "-P", "-s", "-t", "-v", "--user", "--euid") for o in operands[0]
    ) or any(len(re.sub(r"[.*^$]", "", w.text)) < 3 or not w.known for w in operands[1]):
        call.ask("pkill may end processes that are not meant")
    return False


_STATUS: Final = frozenset(
    [
        "status",
        "is-active",
        "is-enabled",
        "is-failed",
        "list-units",
        "list-unit-files",
        "list-timers",
        "list-dependencies",
        "show",
        "cat",
        "get-default",
        "help",
    ]
)
_POWER: Final = frozenset(
    [
        "poweroff",
        "reboot",
        "halt",
        "kexec",
        "rescue",
        "emergency",
        "suspend",
        "hibernate",
        "hybrid-sleep",
        "exit",
        "soft-reboot",
        "isolate",
        "default",
    ]
)


def systemctl(call: ProgramCall) -> bool:
    plain = [w.text for w in call.args if not w.text.startswith("-")]
    if plain and plain[0] in _POWER:
        call.deny(f"systemctl {plain[0]} stops or restarts the machine")
    elif plain and plain[0] not in _STATUS:
        call.ask(f"systemctl {plain[0].replace(HOLE, '…')} changes services")
    return True


def service(call: ProgramCall) -> bool:
    if not call.has("status", "--status-all"):
        call.ask("service changes services")
    return True


def crontab(call: ProgramCall) -> bool:
    if [w.text for w in call.args] != ["-l"]:
        call.ask("crontab changes what runs later")
    return True


def ip(call: ProgramCall) -> bool:
    if call.has("set", "add", "del", "delete", "change", "replace", "flush", "append", "up", "down", "exec"):
        call.ask(f"{call.name} changes the network")
    return True


def few(call: ProgramCall) -> bool:
    """Programs that show with no argument and change with one: `hostname`, `mount`, `sysctl`, `timedatectl` …"""
    plain = [w.text for w in call.args if not w.text.startswith("-")]
    shows = {
        "timedatectl": ("status", "show", "list-timezones"),
        "hostnamectl": ("status",),
        "localectl": ("status",),
        "ifconfig": (),
        "route": (),
    }
    if call.name == "sysctl":
        if any("=" in t for t in plain) or call.has("-w", "-p", "--load", "--system", "--write"):
            call.deny("sysctl changes the kernel's settings")
    elif (
        call.name in ("hostname", "mount", "domainname")
        and call.has("-F", "-b", "--file", "-a", "--all", "-o", "--bind")
    ) or (
        plain and not (plain[0] in shows.get(call.name, ()) or (call.name == "ifconfig" and len(plain) == 1))
    ):
        call.ask(f"{call.name} changes the system")
    return True


def journalctl(call: ProgramCall) -> bool:
    if any(
        w.text.startswith(
            ("--vacuum", "--rotate", "--flush", "--setup-keys", "--file", "--directory", "-D", "--root")
        )
        for w in call.args
    ):
        call.ask("journalctl removes or reads other logs")
    return True


def tester(call: ProgramCall) -> bool:
    if any(re.search(r"\[[^\]]*(?:\$\(|`)", w.text) for w in call.args):
        call.ask_unless_known(None, "a subscript in a test runs a command")
    return True


def arithmetic(call: ProgramCall) -> bool:
    _sets(call)
    for word in call.args:
        if re.search(r"\$\(|`", word.text):
            call.ask_unless_known(None, f"{call.name} evaluates text that runs a command")
    return True


def _sets(call: ProgramCall) -> None:
    """Variables that a builtin sets to what it reads or prints (`read PATH`, `printf -v PATH`)."""
    named = call.args
    if call.name == "printf":
        named = [call.args[at + 1] for at, word in enumerate(call.args[:-1]) if word.text == "-v"]
    elif call.name == "getopts":
        named = call.args[1:2]
    for word in named:
        match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[.*\])?(?:[-+*/%&|^]?=.*)?", word.text, re.DOTALL)
        if match:
            judge_assignment(call, match[1], Word(HOLE, word.source))


def getopts(call: ProgramCall) -> bool:
    _sets(call)
    return True


def mapfile(call: ProgramCall) -> bool:
    for at, word in enumerate(call.args[:-1]):
        if word.text == "-C":
            script_words(call, call.args[at + 1 : at + 2])
    return arithmetic(call)


def hash_(call: ProgramCall) -> bool:
    if any(re.match(r"-[a-z]*p", word.text) for word in call.args):
        call.ask_unless_known(None, "hash -p decides what a name runs")
    return True


def printing(call: ProgramCall) -> bool:
    return arithmetic(call) if call.name == "printf" and call.has("-v") else True


def dc(call: ProgramCall) -> bool:
    if any("!" in w.text or w.text.startswith(("-f", "--file")) for w in call.args) or (
        call.stdin and "!" in (call.stdin.text or "!")
    ):
        call.ask_unless_known(None, "dc runs commands with !")
    return True


def getent(call: ProgramCall) -> bool:
    """Asking for a host asks a name server, whose owner learns the name."""
    plain = [w for w in call.args if not w.text.startswith("-")]
    if plain and (
        not plain[0].known or plain[0].text in ("hosts", "ahosts", "ahostsv4", "ahostsv6", "networks")
    ):
        for word in plain[1:] or [Word("", "")]:
            if word.text:
                call.found.connect(word.text.lower(), f"looks up {word.text.replace(HOLE, '…')}")
    return True


def ps(call: ProgramCall) -> bool:
    """BSD's `e` among options without a dash shows each process's environment, `-E` on some systems."""
    options, operands = call.options(
        ProgramSpec(takes="oOCuUpgGtsqk", long_takes=frozenset({"--sort", "--format", "--pid"}))
    )
    before = ""
    for word in operands:
        if (
            re.fullmatch(r"[A-Za-z]+", word.text)
            and "e" in word.text
            and before[-1:] not in ("o", "O", "U", "t", "k")
        ):
            call.ask("ps shows the environment of processes")
        before = word.text
    if any(option.flag == "-E" for option in options):
        call.ask("ps shows the environment of processes")
    return True


def gpg(call: ProgramCall) -> bool:
    if call.has("--verify", "--version", "--list-keys", "-k", "--fingerprint", "--print-md"):
        return True
    return by_table(call, PROGRAMS["gpg"])


_DESTROYERS: Final = frozenset({"rm", "dd", "shred", "mv", "chmod", "chown", "eval", "kill", "sudo"})

RULES: Final[dict[str, Rule]] = {
    "getent": getent, "ps": ps, "eval": eval_, "trap": trap, "alias": alias, "shopt": shopt, "source": source, ".": source, "set": set_, "export": declare, "declare": declare, "typeset": declare,
    "readonly": declare, "local": declare, "unset": declare, "printenv": env_printed, "jq": jq, "yq": jq, "gojq": jq, "date": date, "kill": kill, "pkill": pkill,
    "systemctl": systemctl, "service": service, "crontab": crontab, "script": script_program, "watch": watch, "flock": flock, "parallel": parallel, "sem": parallel,
    "rush": parallel, "entr": entr, "nodemon": nodemon, "watchexec": entr, "hyperfine": hyperfine, "ip": ip, "bridge": ip, "hostname": few, "mount": few, "domainname": few,
    "sysctl": few, "timedatectl": few, "hostnamectl": few, "localectl": few, "ifconfig": few, "route": few, "journalctl": journalctl, "test": tester, "[": tester,
    "[[": tester, "let": arithmetic, "getopts": getopts, "printf": printing, "read": arithmetic, "mapfile": mapfile, "readarray": mapfile, "hash": hash_, "gpg": gpg, "dc": dc, "gpg2": gpg,
}  # fmt: skip
