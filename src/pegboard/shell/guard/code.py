"""Code in other languages inside a command: awk and sed programs, `python -c`, `perl -e`, `node -e` …

Nothing is parsed here: a few dozen names tell code that only computes from code that acts. The
sandbox is the boundary; this is for asking well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, host_of, is_loopback
from pegboard.shell.guard.operands import HOLE, PathZone, is_protected
from pegboard.shell.guard.words import Word

_ACTS: Final = re.compile(
    r"""(?<!platform\.)\bsystem\b|\bpopen|\b(?:exec[lv]?[pe]{0,2}|eval|execSync|execFile\w*|spawn\w*|fork|unlink\w*|rmtree|rmSync
    |rmdir\w*|removedirs|rimraf|shell_exec|passthru|proc_open|syscall|dlopen|qx|instance_eval|class_eval|send_file|Function
    |atob|unhexlify|fromhex|b64decode|run_module|runpy|fetch|vars|globals|locals|setattr|delattr|getattr|breakpoint|input
    |require_relative|do_file|loadstring|dofile)\b\s*[(\s'"{`/$\[]
    |\b(?:subprocess|pty|ctypes|cffi|child_process|cluster|worker_threads|asyncio\.create_subprocess\w*|importlib|imp|builtins|__builtins__|marshal|pickle|shelve
    |base64|codecs|binascii|shutil\.(?:rmtree|move)|os\.(?:remove|kill|exec|spawn|posix_spawn|fork|unlink|rename|replace|chmod
    |chown|setuid|environ|getenv|putenv|truncate|symlink|link|startfile|dup2)|environ|getenv|process\.(?:env|kill|binding
    |mainModule|dlopen)|ENVIRON|ENV|WebAssembly|Deno|Bun|FileUtils|Open3|IO\.popen|Kernel|TCPSocket|UDPSocket|create_connection|vm|fs/promises|multiprocessing|threading\.Thread|signal\.(?:alarm|raise)
    |webbrowser|antigravity|turtle_server|xmlrpc|http\.server|code\.interact|Runtime\.getRuntime|ProcessBuilder|os\.execute
    |io\.popen|package\.loadlib|fsockopen|curl_exec|file_put_contents|install\.packages|install_\w+|Pkg\.\w+|chr\(|fromCharCode|Buffer\.from|\.constructor)\b
    |__import__|__(?!name__|version__|file__|doc__|main__|init__|future__)\w+__|\bimport\s*\(|\brequire\s*\(\s*[^'"\s]
    |\b(?:rm|unlink|write|append|truncate|rename|chmod|chown|copy|cp|symlink)\w*Sync\b|\bFile\.(?:delete|unlink|write|open|rename)
    |\bwhile\s*(?:\(\s*)?(?:1|true|True)\b[^\n]{0,80}\bfork\b|\bopen\s*\(?[^()]*['"]\s*[|>]|\|\s*['"]\s*[,)]|%x[\[({]""",
    re.VERBOSE,
)
_TICKS: Final = re.compile(r"`|\bkill\s*\(?\s*['\"\w-]+\s*,|<[~/.$][^<>\n]{0,200}[*?~][^<>\n]{0,200}>")
_LITERAL: Final = re.compile(r"""'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)\"""")
_TICK_LANGUAGES: Final = frozenset({"perl", "ruby", "php", "raku", "crystal", "jruby", "julia"})


def judge_code(call: ProgramCall, code: str, language: str) -> None:
    """Ask where code does more than compute, and judge the paths that it names.

    In a sandbox code that is known runs unasked, as a file of the workspace does that holds it.
    """
    if HOLE in code:
        call.ask_unless_known(None, f"{call.name} runs code that is not known before it runs")
    elif call.found.confined:
        call.found.note(lambda: _judge_known(call, code, language))
    else:
        _judge_known(call, code, language)


def _judge_known(call: ProgramCall, code: str, language: str) -> None:
    if len(code) > 20_000:
        call.ask_unless_known(None, f"{call.name} runs more inline code than can be judged")
        return
    acts = (
        _ACTS.search(code)
        or (re.match(r"\s*[!%]", code) if call.name.startswith("ipython") else None)
        or (_TICKS.search(code) if language in _TICK_LANGUAGES else None)
    )
    if acts:
        # Running code is what an interpreter is for: a rule that names it means that.
        call.ask_unless_known(call.program, f"{call.name} runs code with {acts[0].strip(' (')!r}")
        judge_started(call, code)
    for match in _LITERAL.finditer(code):
        text = match[1] if match[1] is not None else match[2]
        if re.match(r"(?:https?|ftp|wss?)://", text):
            # Loading what could connect is confined; a host that is named could be granted.
            host = host_of(text)
            call.found.connect(host, verdict="allow" if is_loopback(host) else "ask")
        if "." in text and text[:1] not in "/~." and len(text) < 200 and is_protected(text):
            call.ask(f"{call.name} runs code that names {text}, a protected file of the workspace")
        if (
            text
            and (text[0] in "/~." or text.startswith("id_"))
            and len(text) > 1
            and "\n" not in text
            and " " not in text
        ):
            call.found.read(text, call.cwd, plain=False)
            if call.found.places.resolve(text, call.cwd).kind is PathZone.PROTECTED:
                call.ask(f"{call.name} runs code that names {text}, a protected file of the workspace")


_STARTS: Final = re.compile(
    r"""(?:\b(?:system|popen\w*|Popen|exec(?:Sync|File\w*|[lv]p?e?)?|spawn\w*|check_\w+|run|call|getoutput|getstatusoutput
    |shell_exec|passthru|proc_open|qx)\s*\(?|`|\bqx[{(/|])\s*(?P<list>\[)?\s*(?P<words>(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    (?:\s*,\s*(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))*)""",
    re.VERBOSE,
)
_MAX_STARTED: Final = 8


def judge_started(call: ProgramCall, code: str) -> None:
    """Commands that stand as literals in code which starts them: a rule that denies must see these too."""
    for match in islice(_STARTS.finditer(code), _MAX_STARTED):
        literals = [m[1] if m[1] is not None else m[2] for m in _LITERAL.finditer(match["words"])]
        if HOLE in match["words"] or not literals or not literals[0]:
            continue
        if match["list"] or (len(literals) > 1 and " " not in literals[0]):
            call.judge.inner(call, [Word(text, text) for text in literals])
        else:
            call.judge.script(call, literals[0].replace('\\"', '"').replace("\\'", "'"))


_AWK_ACTS: Final = re.compile(
    r"\bsystem\s*\(|\|\s*&?\s*getline|getline\s*\w*\s*<|\|&|\bprintf?\b[^;}\n]*\|\s*[\"\w$(]|@load|@include|ENVIRON|\bfflush\s*\(\s*\""
)
_AWK_WRITES: Final = re.compile(r"\bprintf?\b[^;}\n]*?>>?\s*(\"[^\"]*\"|[A-Za-z$]\w*)")


def judge_awk(call: ProgramCall, program: str) -> bool:
    """An awk program; returns whether it only reads."""
    if program.startswith(HOLE):
        call.ask_unless_known(None, "awk runs a program that is not known before it runs")
        return False
    acts = _AWK_ACTS.search(program)
    if acts:
        call.ask_unless_known(Word(program, program), f"the awk program runs or reads something: {acts[0]!r}")
        judge_started(call, program)
        return False
    if "/inet/" in program:
        call.found.connect("", "the awk program opens a network connection")
    reads = True
    for match in _AWK_WRITES.finditer(program):
        reads = False
        if match[1].startswith('"'):
            call.found.write(match[1][1:-1], call.cwd)
        elif "(" not in match[0]:
            call.ask("the awk program writes to a file that it names itself")
    return reads


def judge_sed(call: ProgramCall, script: str) -> bool:
    """A sed script: `e` runs, `w` writes, `r` reads; returns whether it only prints."""
    reads = True
    for what, name in _sed_acts(script):
        if what == "e":
            call.ask_unless_known(Word(script, script), "the sed script runs a command (e)")
            reads = False
        elif what == "w":
            call.found.write(name, call.cwd)
            reads = False
        else:
            call.found.read(name, call.cwd)
    return reads


def _sed_acts(script: str) -> Iterator[tuple[str, str]]:
    """`(e|w|r, file)` for each acting command of a sed script (POSIX sed, with GNU's e, W, R, M, I)."""
    at, end = 0, len(script)
    while at < end:
        char = script[at]
        if char in " \t\n;{}!,~+$0123456789IM":
            at += 1
        elif char == "#":
            at = _line_end(script, at)
        elif char in "/\\":
            delimiter = char if char == "/" else script[at + 1 : at + 2]
            at = _after_section(script, at + (1 if char == "/" else 2), delimiter)
        elif char in "sy":
            delimiter = script[at + 1 : at + 2]
            at = _after_section(script, _after_section(script, at + 2, delimiter), delimiter)
            while at < end and script[at] not in ";\n}":
                if script[at] == "e" and char == "s":
                    yield "e", ""
                if script[at] == "w" and char == "s":
                    stop = _line_end(script, at)
                    yield "w", script[at + 1 : stop].strip()
                    at = stop
                    break
                at += 1
        elif char == "e":
            yield "e", ""
            at = _line_end(script, at)
        elif char in "wWrR":
            stop = _line_end(script, at)
            yield ("w" if char in "wW" else "r"), script[at + 1 : stop].strip()
            at = stop
        elif char in "aic":
            at = _line_end(script, at)
        elif char in ":btT":
            while at < end and script[at] not in ";\n}":
                at += 1
        else:
            at += 1


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _after_section(text: str, at: int, delimiter: str) -> int:
    """Behind the next unescaped delimiter that stands in no bracket expression."""
    if not delimiter:
        return len(text)
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
        elif (
            char == "["
            and delimiter != "["
            and (close := text.find("]", at + 2)) > 0
            and "\n" not in text[at:close]
        ):
            stop = text.find(delimiter, at)
            at = close + 1 if stop > close else stop
        elif char == delimiter:
            return at + 1
        else:
            at += 1
    return len(text)


Judge = Callable[[ProgramCall, str, str], None]
