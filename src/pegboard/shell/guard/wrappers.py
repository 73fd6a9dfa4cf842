"""Programs that run the program named in their arguments: looked through to the inner one."""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, parse
from pegboard.shell.guard.languages import says_otherwise
from pegboard.shell.guard.listings import printed_names
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.tables import INTERPRETERS, SHELLS
from pegboard.shell.guard.words import StdinSource, Word

# name: (short options with a value, long options with a value, words before the command)
_PLAIN: Final[dict[str, tuple[str, str, int]]] = {
    "nice": ("n", "--adjustment", 0), "nohup": ("", "", 0), "setsid": ("", "", 0), "time": ("fo", "--format --output", 0),
    "timeout": ("ks", "--kill-after --signal", 1), "gtimeout": ("ks", "--kill-after --signal", 1),
    "stdbuf": ("ioe", "--input --output --error", 0), "ionice": ("cn", "--class --classdata", 0),
    "chrt": ("TPD", "", 1), "taskset": ("", "", 1), "builtin": ("", "", 0), "exec": ("a", "", 0),
    "busybox": ("", "", 0), "toybox": ("", "", 0), "noglob": ("", "", 0), "nocorrect": ("", "", 0),
    "strace": ("abeoOpPsSuUEIX", "", 0), "ltrace": ("abeopsuDFlnxA", "", 0), "valgrind": ("", "", 0),
    "caffeinate": ("tw", "", 0), "xvfb-run": ("nsefpw", "--server-num --server-args", 0), "fakeroot": ("lsbfu", "", 0),
    "faketime": ("f", "", 1), "rlwrap": ("HfbCcDeIlmNnpPqrSstvWwz", "", 0), "unbuffer": ("", "", 0), "chronic": ("", "", 0),
    "dbus-run-session": ("", "--config-file", 0), "setarch": ("", "", 1), "linux32": ("", "", 0), "linux64": ("", "", 0),
    "i386": ("", "", 0), "x86_64": ("", "", 0), "numactl": ("CNmipl", "--cpunodebind --membind --interleave", 0),
    "cgexec": ("g", "", 0), "prlimit": ("", "", 0), "eatmydata": ("", "", 0), "systemd-inhibit": ("", "--what --who --why", 0),
    "coproc": ("", "", 0), "catchsegv": ("", "", 0), "hyperfine": ("wrmMLpcSs", "", 0), "command": ("", "", 0),
    "systemd-cat": ("tp", "--identifier --priority", 0), "direnv": ("", "", 2), "dotenv": ("fe", "", 0),
}  # fmt: skip

_PRIVILEGED: Final[dict[str, tuple[str, str, int]]] = {
    "sudo": ("CDghpRrtTUu", "--user --group --host --prompt --chdir --chroot", 0), "doas": ("Cu", "", 0),
    "pkexec": ("", "--user", 0), "runuser": ("ugGcsw", "--user --group --shell", 0), "gosu": ("", "", 1),
    "su-exec": ("", "", 1), "setpriv": ("", "--reuid --regid --groups", 0), "run0": ("ugD", "--user --group", 0),
    "please": ("ut", "", 0), "unshare": ("SGRw", "--map-user --root --wd", 0), "chroot": ("", "--userspec --groups", 1),
    "nsenter": ("tSGrw", "--target", 0), "systemd-run": ("pEtuH", "--unit --property --setenv --uid --gid", 0),
    "firejail": ("", "", 0), "bwrap": ("", "", 0), "proot": ("rbwq", "", 0), "capsh": ("", "", 0), "dzdo": ("u", "", 0),
    "start-stop-daemon": ("", "", 0), "machinectl": ("", "", 2), "su": ("cgGsw", "--command --shell", 1),
}  # fmt: skip


def peel_plain(call: ProgramCall) -> list[Word] | None:
    """The inner command of a wrapper that changes nothing else; None where `call` is no such wrapper."""
    row = _PLAIN.get(call.name)
    if call.name == "perf" and call.args[:1] and call.args[0].text in ("stat", "record", "trace", "mem"):
        return _after_options(call.args[1:], ("eoprCGFc", "--event --output --freq --count", 0)) or None
    if row is None:
        return [*call.args] if call.name.startswith(("ld-linux", "ld-musl")) else None
    if call.name == "command" and call.args and call.args[0].text in ("-v", "-V"):
        return None
    if call.name == "hyperfine" or (call.name == "direnv" and [w.text for w in call.args[:1]] != ["exec"]):
        return None
    return _after_options(call.args, row)


def gives_rights(name: str) -> bool:
    """Whether a program runs another with other rights or in another root."""
    return name in _PRIVILEGED


def peel_privileged(call: ProgramCall) -> list[Word] | None:
    """The inner command of a program that gives other rights; None where `call` is none."""
    row = _PRIVILEGED.get(call.name)
    return None if row is None else _after_options(call.args, row)


def _after_options(args: list[Word], row: tuple[str, str, int]) -> list[Word]:
    short, long, skip = row
    long_names = long.split()
    at = 0
    while at < len(args):
        text = args[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("--"):
            at += 2 if text in long_names else 1
        elif text.startswith("-") and len(text) > 1:
            at += 2 if text[-1] in short and _takes_next(text, short) else 1
        else:
            break
    rest = args[at + skip :]
    # `sudo A=1 prog`, `doas A=1 prog`: assignments before the program.
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0].text):
        rest = rest[1:]
    return rest


def _takes_next(text: str, short: str) -> bool:
    for index, letter in enumerate(text[1:], 1):
        if letter in short:
            return index == len(text) - 1
    return False


def env(call: ProgramCall) -> tuple[list[tuple[str, Word]], list[Word]]:
    """`env`: its assignments and its inner command; `-S` is split as env splits it."""
    args = list(call.args)
    assigned: list[tuple[str, Word]] = []
    at = 0
    while at < len(args):
        word = args[at]
        text = word.text
        split = re.match(r"(?:-[iv0]*S|--split-string=?)(.*)", text, re.DOTALL)
        if split:
            value, skip = (split[1], 1) if split[1] else (args[at + 1].text if at + 1 < len(args) else "", 2)
            try:
                # env puts in the values of `${NAME}`, and of nothing else.
                parts = [
                    Word(re.sub(r"\$\{\w*\}", HOLE, part), word.source)
                    for part in shlex.split(value.replace("\\_", " "))
                ]
            except ValueError:
                parts = [Word(HOLE, word.source)]
            args[at : at + skip] = parts
        elif text in ("-u", "--unset", "-C", "--chdir"):
            at += 2
        elif text.startswith("-"):
            at += 1
        elif "=" in text and re.match(r"[A-Za-z_]\w*=", text):
            name, _, value = text.partition("=")
            assigned.append((name, Word(value, word.source, False, word.secret)))
            at += 1
        else:
            return assigned, args[at:]
    return assigned, []


_XARGS: Final = ProgramSpec(
    takes="aEILnPsdJRS",
    long_takes=frozenset({"--arg-file", "--delimiter", "--max-args", "--max-procs", "--replace"}),
)


def xargs(call: ProgramCall) -> bool:
    """`xargs PROGRAM`: the inner call, with the words that standard input gives where these are known."""
    at = 0
    mark = ""
    args = call.args
    while at < len(args):
        text = args[at].text
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or len(text) == 1:
            break
        letter = text[1]
        if text.startswith("--"):
            name, _, value = text.partition("=")
            if name == "--replace":
                mark = value or "{}"
            if name == "--arg-file":
                call.read(Word(value, text) if value else args[min(at + 1, len(args) - 1)])
            at += 2 if not value and name in _XARGS.long_takes and name != "--replace" else 1
            continue
        if letter in "Ii":
            mark = text[2:] or (args[at + 1].text if letter == "I" and at + 1 < len(args) else "{}")
        if letter == "a":
            call.read(
                Word(text[2:], text) if text[2:] else (args[at + 1] if at + 1 < len(args) else args[at])
            )
        at += 2 if letter in _XARGS.takes and len(text) == 2 else 1
    inner = list(args[at:]) or [Word("echo", "echo")]
    given = fed_words(call.stdin)
    if not mark:
        run_for_each(call, [*inner, *given])
    for value in given if mark else ():
        run_for_each(call, [put_in(word, mark, value) for word in inner])
    return True


def put_in(word: Word, mark: str, value: Word) -> Word:
    """A word with a name in the place of its mark."""
    if mark not in word.text:
        return word
    return Word(word.text.replace(mark, value.text), word.source, word.glob or value.glob, word.secret)


def run_for_each(call: ProgramCall, inner: list[Word]) -> None:
    """Judge a command run for each of many words; a shell in it may only do what reads."""
    name = inner[0].text.rpartition("/")[2] if inner else ""
    before = len(call.found.effects)
    call.judge.inner(call, inner)
    if len(inner) > 2 and re.fullmatch(r"python[\d.]*", name) and inner[1].text == "-m" and inner[2].known:
        # What is added are arguments of a module that is named.
        return
    if name in SHELLS or name in INTERPRETERS or name == "env":
        made = call.found.effects[before:]
        if any(e.kind != "read" and not (e.kind == "exec" and e.read_only) for e in made):
            call.ask_unless_known(None, f"{call.name} runs {name} for each word that it is given")


def fed_words(source: StdinSource | None) -> list[Word]:
    """The words on standard input as far as they are known; else one word that stands for many."""
    if source is None:
        return [Word(HOLE, "words on standard input")]
    text = fed_text(source)
    if text is not None:
        return [Word(part, part) for part in text.split()] if HOLE not in text else [Word(HOLE, text)]
    return printed_names(source.argv)


def fed_text(source: StdinSource) -> str | None:
    """The literal text on standard input, None where another program decides it."""
    if source.text is not None:
        return source.text
    words = source.argv
    if not words or words[0].text not in ("echo", "printf"):
        return None
    texts = [word.text for word in words[1:]]
    if any("\\" in text or word.glob for text, word in zip(texts, words[1:], strict=True)):
        return HOLE
    if words[0].text == "echo":
        return " ".join(t for t in texts if not re.fullmatch(r"-[neE]+", t)) + "\n"
    if texts and "%" in texts[0]:
        return "\n".join(texts[1:]) + "\n" if re.fullmatch(r"(?:%s\s*)+", texts[0]) else HOLE
    return "\n".join(texts) + "\n"


def shell(call: ProgramCall) -> bool:
    """`sh`, `bash` and their like: the script they run is judged, an unseen one asks."""
    args = call.args
    at = 0
    reads_stdin = False
    while at < len(args):
        text = args[at].text
        if text in ("-", "--"):
            at += 1
            break
        if text[:1] not in "-+" or len(text) < 2:
            break
        if text in ("--rcfile", "--init-file") or text.startswith(("--rcfile=", "--init-file=")):
            call.ask_unless_known(None, f"{call.name} {text} runs a start-up file")
            at += 2 if "=" not in text else 1
            continue
        if text in ("-o", "+o", "-O", "+O"):
            at += 2
            continue
        if text.startswith("-") and not text.startswith("--"):
            if "i" in text and text.isalpha() is False and re.fullmatch(r"-[a-z]*i[a-z]*", text):
                call.ask(f"{call.name} starts interactively")
            if "c" in text or text.lower() in ("-command", "-encodedcommand", "-enc"):
                _script_argument(call, at)
                return True
            if "n" in text:
                # The script is parsed and not run.
                return True
            reads_stdin = reads_stdin or "s" in text
        at += 1
    if at < len(args) and not reads_stdin:
        script_file(call, args[at])
    else:
        script_on_stdin(call)
    return False


def _script_argument(call: ProgramCall, at: int) -> None:
    rest = call.args[at + 1 :]
    while rest and rest[0].text[:1] in ("-", "+") and len(rest[0].text) > 1:
        rest = rest[2:] if rest[0].text in ("-o", "+o", "-O", "+O") else rest[1:]
    if not rest:
        return
    if not rest[0].known:
        call.ask_unless_known(None, f"{call.name} -c runs a script that is not known before it runs")
    elif says_otherwise(call.name, rest[0].text):
        call.ask_unless_known(
            rest[0], f"{call.name} has a language of its own, in which this script is not judged"
        )
    call.judge.script(call, rest[0].text, stdin=call.stdin)


def script_on_stdin(call: ProgramCall) -> None:
    """A shell that reads its script from standard input."""
    if call.stdin is None:
        return
    text = fed_text(call.stdin)
    if text is None or HOLE in text:
        call.ask_unless_known(None, f"{call.name} runs what another program writes")
    if text is not None:
        call.judge.script(call, text)


_MAX_SCRIPT: Final = 65_536


def script_file(call: ProgramCall, word: Word) -> None:
    """A shell runs a file: its content is judged where it can be seen, else a person is asked."""
    if not word.known or word.glob:
        call.ask_unless_known(None, f"{call.name} runs a script that is not known before it runs")
        return
    if word.text.startswith("/dev/fd/") or word.text == "/dev/stdin":
        script_on_stdin(call)
        return
    place = call.found.places.resolve(word.text, call.cwd)
    if place.kind not in (PathZone.INSIDE, PathZone.PROTECTED):
        call.read(word)
        call.ask_unless_known(word, f"{call.name} runs {place.target}, which is {place.kind.value}")
        return
    text = file_text(os.path.join(call.found.places.root, place.target))
    if text is None:
        if not re.search(r"(?:^|/)bin/activate$", word.text):
            call.ask_unless_known(
                word, f"{call.name} runs {place.target}, whose content is not there to be judged"
            )
        return
    call.judge.script(call, text)


def file_text(path: str) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MAX_SCRIPT + 1)
    except OSError:
        return None
    return None if len(data) > _MAX_SCRIPT or b"\x00" in data else data.decode("utf-8", "replace")


REACHES: Final = re.compile(
    r"-?(?:IO::(?:Socket|Pty|All)|Socket\b|LWP|Net::|HTTP::|File::(?:Path|Copy|Slurp)|IPC::|Inline|Sys::|socket\b|net/|open-uri|open3|pty\b|fileutils|drb|webrick)"
)


def script_words(call: ProgramCall, words: list[Word]) -> None:
    """Words that are joined and run by a shell (`eval`, `watch`, `ssh`, `parallel`)."""
    text = " ".join(word.text for word in words)
    if HOLE in text:
        call.ask_unless_known(None, f"{call.name} runs text that is not known before it runs")
    call.judge.script(call, text)


def operands_of(call: ProgramCall, takes: str, long: str = "") -> list[Word]:
    """Arguments behind the options."""
    return parse(call.args, ProgramSpec(takes=takes, long_takes=frozenset(long.split())))[1]
