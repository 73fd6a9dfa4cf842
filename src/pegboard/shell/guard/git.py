"""Rules of git: which options and keys run programs, what reads only, what leaves the machine or loses work.

Source: git 2.43 manual pages. The subcommands are rows of the section `git`.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import dropwhile, pairwise
from typing import Final, TypeAlias

from pegboard.shell.guard.calls import UNKNOWN, URL, ProgramCall, is_loopback, stands_for
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.remotes import Remotes, host_of_remote, without_credentials
from pegboard.shell.guard.rows import follow
from pegboard.shell.guard.specs import ProgramSpec, names, spec_of, subcommand
from pegboard.shell.guard.words import Word

_NO_WORD: Final = Word("", "")
_NO_ROW: Final = ProgramSpec()


def git(call: ProgramCall) -> bool:
    """One git call; returns whether it only reads."""
    call, rest = _globals(call)
    if not rest:
        return True
    command = rest[0].text
    call = call.named("git", rest[1:])
    if HOLE in command:
        call.ask_unless_known(None, "git runs a subcommand that is not known before it runs")
        return False
    row = subcommand("git", command)
    if row is None:
        call.ask_unless_known(rest[0], f"git {command} may be an alias or a program of that name")
        row = _NO_ROW
    elif row.decides:
        call.ask_unless_known(rest[0], f"git {command} {row.reason}")
    rule = _RULES.get(row.rule)
    if row.rule == "network":
        _network(call, command)
    _options(call, command, row)
    reads = rule(call, row) if rule else row.read_only
    told, _ = follow(call, row.when, *call.options(row))
    _operands(call, command, row)
    writes = any(stands_for(w.text.partition("=")[0], _git().writes) for w in call.args)
    return (reads if told is None else told) and not writes


def _git() -> ProgramSpec:
    return spec_of("git") or _NO_ROW


def _globals(call: ProgramCall) -> tuple[ProgramCall, list[Word]]:
    """The call in the folder that options in front of the subcommand name, and the words from the subcommand on."""
    args = call.args
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        name, equals, value = text.partition("=")
        after = args[at + 1] if at + 1 < len(args) else _NO_WORD
        given = Word(value, text) if equals else after
        step = 1
        if text == "-C":
            call = _moved(call, given)
            step = 2
        elif text.startswith("-c"):
            pair = given.text if text == "-c" and not equals else text[2:]
            _key(call, *pair.partition("=")[::2])
            step = 2 if text == "-c" else 1
        elif name in ("--git-dir", "--work-tree", "--namespace", "--super-prefix"):
            call.read(given)
            if call.found.places.resolve(given.text, call.cwd).kind not in _OWN:
                call.ask(f"git works with {given.text}, outside the workspace")
            step = 1 if equals else 2
        elif name == "--config-env" or (name == "--exec-path" and equals):
            call.ask_unless_known(Word(text, text) if equals else given, f"git {name} decides what runs")
            step = 1 if equals else 2
        at += step
    return call, args[at:]


_OWN: Final = (PathZone.INSIDE, PathZone.WORKSPACE, PathZone.PROTECTED)
_FINE: Final = (PathZone.INSIDE, PathZone.WORKSPACE, PathZone.TEMPORARY)


def _moved(call: ProgramCall, given: Word) -> ProgramCall:
    """The call in the folder of `-C`."""
    places, folder = call.found.places, given.text
    if not given.known or (call.cwd is None and not folder.startswith(("/", "~"))):
        if places.resolve(folder, call.cwd).kind is PathZone.HOME:
            call.ask(f"git works in {folder}, outside the workspace")
        return call.in_folder(None)
    if folder.startswith("~"):
        folder = posixpath.join(places.root, places.resolve(folder, call.cwd).target)
    call = call.in_folder(posixpath.normpath(posixpath.join(call.cwd or "/", folder)))
    place = places.resolve(call.cwd or "/", "/")
    if place.kind not in _FINE:
        call.ask(f"git works in {place.target}, outside the workspace")
    return call


@lru_cache(maxsize=4)
def _keys(patterns: str) -> re.Pattern[str]:
    """One pattern for a list of configuration keys in which `*` stands for any text."""
    return re.compile("|".join(map(fnmatch.translate, patterns.split())), re.IGNORECASE)


def _key(call: ProgramCall, key: str, value: str) -> None:
    """A configuration key that is set."""
    facts = _git().facts
    if HOLE in key:
        call.ask_unless_known(None, "git sets a key that is not known before it runs")
    elif not _keys(facts["harmless"]).match(key) and not (
        _keys(facts["programs"]).match(key) and value in ("", *facts["harmless_programs"].split())
    ):
        pair = f"{key}={value}"
        call.ask_unless_known(
            Word(pair if any(w.text.endswith(pair) for w in call.args) else key, key),
            f"git sets {key}, which can change what runs or where it connects",
        )


def _options(call: ProgramCall, command: str, row: ProgramSpec) -> None:
    for word, after in pairwise((*call.args, _NO_WORD)):
        text = word.text
        if text == "--":
            break
        name, equals, value = text.partition("=")
        if not name.startswith("-"):
            continue
        long = name.startswith("--")
        if long and stands_for(name, _git().runs) and not (name == "--template" and command == "commit"):
            if (command, name) != ("rebase", "--exec"):
                call.ask_unless_known(word, f"git {command} {name} runs a program")
        elif command == "grep" and text.startswith("-O"):
            call.ask_unless_known(word, "git grep -O runs a program")
        elif long and stands_for(name, _git().writes):
            call.write(Word(value, text) if equals else after if after.text else word)
        elif command == "apply" and stands_for(name, names("--directory --unsafe-paths")):
            call.ask(f"git apply {name} can write outside the workspace")
        elif equals and (
            name in ("--template", "--file")
            or (value.startswith(("/", "~", "..")) and command not in ("log", "grep", "commit"))
        ):
            call.maybe_path(Word(value, text))
    if command in ("format-patch", "archive"):
        for word, after in pairwise(call.args):
            if word.text == "-o":
                call.write(after)


def _replaced(call: ProgramCall) -> None:
    """Protected files that git itself would write, remove or move; what changes the index alone is none."""
    if call.has("--cached") or (call.has("--staged", "-S") and not call.has("--worktree", "-W")):
        return
    for word in call.args:
        text = word.text
        if text.startswith("-"):
            if not text.startswith(("--prefix=", "--include=")):
                continue
            text = text.partition("=")[2]
        path = Word(text.partition(":(")[0] or text, word.source, word.glob)
        if call.found.places.resolve(path.text, call.cwd, glob=path.glob).kind is PathZone.PROTECTED:
            call.write(path)


def _operands(call: ProgramCall, command: str, row: ProgramSpec) -> None:
    if "replaces" in row.facts:
        _replaced(call)
    files = ("-F", "--file", *(("-t", "--template") if "message" in row.facts else ("--pathspec-from-file",)))
    if row.operands != "text" or "message" in row.facts:
        for word, after in pairwise((*call.args, _NO_WORD)):
            # `-F FILE`, `-FFILE`: its content ends in a commit.
            if word.text in files:
                call.read(after, plain=False)
            elif "message" in row.facts and re.match(r"-F.", word.text):
                call.read(Word(word.text[2:], word.source), plain=False)
    if row.operands == "text":
        if command == "grep" and call.has("--no-index"):
            for word in [w for w in call.args if not w.text.startswith("-")][1:]:
                call.read(word)
        return
    for word in call.args:
        text = word.text
        if command in _SHOWS:
            # `HEAD:.env` is a file too.
            named = Word(text.rpartition(":")[2], word.source, word.glob)
            if call.found.places.resolve(named.text, call.cwd).kind is PathZone.SECRET:
                call.read(named)
                continue
        path = text.startswith(("/", "~", "../")) or "/../" in text or (command == "add" and text != ".")
        is_range = not text.startswith("../") and re.match(r"\^?[\w./@{}~^-]+\.\.\.?[\w./@{}~^-]*$", text)
        if path and text[:1] != "-" and not is_range:
            call.read(word, plain=False)


_SHOWS: Final = names("annotate blame cat-file diff hash-object show")
"""Commands that print what is in the files that they name."""
_TAKES: Final = names(
    "-o --push-option --receive-pack --exec --upload-pack --depth --deepen -j --jobs --refmap"
)


def _network(call: ProgramCall, command: str) -> None:
    """What a command that reaches a remote connects to, and what it may run for that."""
    urls = [w.text for w in call.args if URL.match(w.text) or re.match(r"[\w.-]+@[\w.-]+:", w.text)]
    if any(w.text.startswith("ext::") for w in call.args) or any(u.startswith("fd::") for u in urls):
        call.ask_unless_known(None, "git uses a transport that runs a program")
    unknown = f"git {command} reaches the repository's remote"
    if command == "clone" and not urls and call.args:
        if call.found.places.resolve(call.args[-1].text, call.cwd).kind is PathZone.INSIDE:
            unknown, remotes = f"git {command} reaches the repository that it names", []
        else:
            remotes = _remotes(call, command)
    else:
        remotes = [("", url) for url in urls] or _remotes(call, command)
    for remote, url in remotes:
        _reach(call, command, url, f" (remote {remote})" if remote else "")
    if not remotes:
        call.found.connect("git remote", unknown, bound=UNKNOWN)
    if command == "clone":
        if call.has("-c", "--config", "-u"):
            call.ask_unless_known(None, "git clone -c sets configuration")
        plain = [w for w in call.args if not w.text.startswith("-")]
        if len(plain) > 1:
            call.write(plain[-1])


def _remotes(call: ProgramCall, command: str) -> list[tuple[str, str]]:
    """The remotes that are named or meant, by the URLs that they have now."""
    words = [after for before, after in pairwise((_NO_WORD, *call.args)) if before.text not in _TAKES]
    plain = next((w.text for w in words if not w.text.startswith("-")), "")
    name = next((w.text.partition("=")[2] for w in call.args if w.text.startswith("--repo=")), "") or plain
    if call.cwd is None or HOLE in name:
        return []
    push, remotes = command in ("push", "send-pack"), Remotes(call.cwd)
    wanted = remotes.names() if call.has("--all", "--multiple") and not push else [name]
    return [(remote, url) for remote in wanted for url in remotes.urls(remote, push=push)]


def _reach(call: ProgramCall, command: str, url: str, which: str) -> None:
    """A remote's URL: its host and, as what a yes is bound to, the URL itself."""
    shown = without_credentials(url)
    host = host_of_remote(url)
    if HOLE in url:
        call.found.connect("", f"git {command} reaches a URL that is not known before it runs")
    elif host:
        reason = f"git {command} connects to {shown}{which}"
        call.found.connect(host, reason, "allow" if is_loopback(host) else "ask", bound=shown)
    else:
        path = Word(url.removeprefix("file://"), url)
        (call.write if command == "push" else call.read)(path)


# -- single subcommands

_GETS: Final = names("--get --get-all --get-regexp --list -l get list --get-urlmatch --get-color")
_UNSETS: Final = ("--unset", "--unset-all", "--remove-section")


def _config(call: ProgramCall, row: ProgramSpec) -> bool:
    if call.has(*_GETS):
        return True
    if call.has("--edit", "-e", "edit"):
        call.ask("git config --edit runs an editor")
    plain = [w.text for w in call.args if not w.text.startswith("-")]
    if call.has("--global", "--system"):
        if len(plain) < 2:
            return not call.has(*_UNSETS)
        call.ask("git config writes configuration outside the workspace")
    for word, after in pairwise(call.args):
        if word.text in ("-f", "--file"):
            call.write(after)
    plain = [text for text in plain if text not in ("set", "unset")]
    if len(plain) == 1 and not call.has(*_UNSETS, "unset", "--add"):
        return True
    if plain:
        _key(call, plain[0], plain[1] if len(plain) > 1 else "")
    return False


def _clean(call: ProgramCall, row: ProgramSpec) -> bool:
    options, operands = call.options(row)
    if any(o.flag == "-n" or stands_for(o.flag, names("--dry-run")) for o in options):
        return True
    for word in [_pathspec(w) for w in operands] or [Word(".", ".")]:
        call.delete(word, recursive=True)
    return False


def _rm(call: ProgramCall, row: ProgramSpec) -> bool:
    options, operands = call.options(row)
    if not call.has("--cached"):
        for word in map(_pathspec, operands):
            call.delete(word, recursive=any(o.flag == "-r" for o in options))
    return False


def _pathspec(word: Word) -> Word:
    """A pathspec as the path that it covers: a pattern acts in quotes too, and one that excludes covers the rest."""
    magic, _, path = word.text.rpartition(")") if word.text.startswith(":(") else ("", "", word.text)
    if re.match(r":[!^/]+|:$", path):
        magic, path = path[:2], path.lstrip(":!^/")
    if "exclude" in magic or magic[1:2] in ("!", "^") or not path:
        return Word(".", word.source)
    return Word(path, word.source, word.glob or ("*" in path and "literal" not in magic))


def _rebase(call: ProgramCall, row: ProgramSpec) -> bool:
    for option in call.options(row)[0]:
        if option.value is not None and (option.flag == "-x" or stands_for(option.flag, names("--exec"))):
            call.judge.script(call, option.value.text)
    return False


def _bisect(call: ProgramCall, row: ProgramSpec) -> bool:
    first = call.args[0].text if call.args else ""
    if first == "run":
        call.judge.inner(call, call.args[1:])
    return first in ("log", "view", "visualize")


def _submodule(call: ProgramCall, row: ProgramSpec) -> bool:
    texts = [w.text for w in call.args]
    if "foreach" in texts:
        rest = dropwhile(lambda text: text.startswith("-"), texts[texts.index("foreach") + 1 :])
        call.judge.script(call, " ".join(rest))
    elif call.has("update", "add", "sync"):
        call.found.connect("git remote", "git submodule reaches the submodules' remotes")
    return texts[:1] in (["status"], [])


def _worktree(call: ProgramCall, row: ProgramSpec) -> bool:
    if call.args and call.args[0].text in ("add", "move"):
        for word in [w for w in call.args[1:] if not w.text.startswith("-")][:2]:
            if "/" in word.text or word.text.startswith("."):
                call.write(word)
    return False


def _init(call: ProgramCall, row: ProgramSpec) -> bool:
    for word in [w for w in call.args if not w.text.startswith("-")][:1]:
        call.write(word)
    return False


_Rule: TypeAlias = Callable[[ProgramCall, ProgramSpec], bool]
_RULES: Final[dict[str, _Rule]] = {
    "config": _config, "clean": _clean, "rm": _rm, "rebase": _rebase, "bisect": _bisect, "submodule": _submodule,
    "worktree": _worktree, "init": _init,
}  # fmt: skip
