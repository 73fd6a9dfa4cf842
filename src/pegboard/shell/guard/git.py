"""Rules of git: which options and keys run programs, what reads only, what leaves the machine or loses work.

Source: git 2.43 manual pages.
"""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import Final

from pegboard.shell.guard.calls import UNKNOWN, URL, ProgramCall, Rule, is_loopback, names, stands_for
from pegboard.shell.guard.gitcommands import SUBCOMMANDS
from pegboard.shell.guard.operands import HOLE, PathZone
from pegboard.shell.guard.remotes import Remotes, host_of_remote, without_credentials
from pegboard.shell.guard.words import Word

READ_ONLY: Final = names(
    "status log diff show blame annotate ls-files ls-tree rev-parse rev-list describe shortlog grep cat-file merge-base name-rev "
    "whatchanged show-ref for-each-ref diff-tree diff-index diff-files check-ignore check-attr count-objects cherry var version help "
    "range-diff verify-commit verify-tag verify-pack fsck show-branch merge-tree interpret-trailers get-tar-commit-id column check-ref-format "
    "stripspace patch-id"
)
_LOCAL: Final = names(
    "add commit branch checkout switch merge rebase cherry-pick revert stash tag mv rm restore reset init config apply am worktree "
    "notes format-patch archive bundle bisect clean gc prune repack pack-refs reflog remote submodule sparse-checkout update-index "
    "write-tree commit-tree read-tree hash-object mktree mktag rerere maintenance symbolic-ref update-ref filter-branch replace "
    "checkout-index merge-file merge-base merge-index difftool mergetool subtree lfs flow fast-export fast-import unpack-objects index-pack"
)
_NETWORK: Final = names(
    "push fetch pull clone ls-remote send-email svn p4 fetch-pack send-pack request-pull cvsimport imap-send http-push http-fetch remote-https"
)
_ASKS: Final = names(
    "filter-branch difftool mergetool daemon instaweb gui citool credential credential-store credential-cache shell upload-pack receive-pack "
    "cvsserver hook fast-import fsmonitor--daemon archimport web--browse bugreport diagnose"
)
_RUNS: Final = names(
    "--ext-diff --textconv --upload-pack --receive-pack --exec --open-files-in-pager --strategy-option-exec --tool --extcmd --config-env "
    "--template --index-filter --tree-filter --msg-filter --exec-path --editor --git-completion-helper"
)
_WRITES: Final = names("--output --output-directory --separate-git-dir --bundle-uri")
HARMLESS_KEYS: Final = re.compile(
    r"(?:user\.(?:name|email)|color\..*|column\..*|core\.(?:quotepath|autocrlf|eol|safecrlf|ignorecase|precomposeunicode|filemode|abbrev|longpaths"
    r"|commentchar|logallrefupdates|preloadindex|untrackedcache|compression)|advice\..*|init\.defaultbranch|commit\.gpgsign|tag\.gpgsign|gc\.auto"
    r"|diff\.(?:renames|renamelimit|algorithm|noprefix|mnemonicprefix|colormoved|context|interhunkcontext)|merge\.(?:ff|conflictstyle|renames|stat"
    r"|renamelimit)|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)|fetch\.prune|rebase\.(?:autostash|autosquash|stat)|log\.(?:date"
    r"|decorate|showsignature|follow)|rerere\.enabled|branch\..*\.(?:merge|remote|rebase|description)|branch\.(?:sort|autosetuprebase|autosetupmerge)"
    r"|status\..*|pack\..*|grep\.(?:linenumber|patterntype|extendedregexp)|help\.autocorrect|format\.(?:pretty|signoff)|remote\.[^.]+\.fetch"
    r"|core\.pager=(?:cat|less)?|protocol\.version|feature\..*|index\..*|stash\..*|tag\.sort|versionsort\..*|submodule\.recurse|safe\.directory)$",
    re.IGNORECASE,
)


def git(call: ProgramCall) -> bool:
    """One git call; returns whether it only reads."""
    call, rest = _globals(call)
    if not rest:
        return True
    command, args = rest[0].text, rest[1:]
    call = call.named("git", args)
    if HOLE in command:
        call.ask_unless_known(None, "git runs a subcommand that is not known before it runs")
        return False
    if command in _NETWORK:
        _network(call, command)
    elif command in _ASKS:
        call.ask_unless_known(rest[0], f"git {command} runs programs or hands out credentials")
    elif command not in READ_ONLY and command not in _LOCAL:
        call.ask_unless_known(rest[0], f"git {command} may be an alias or a program of that name")
    _options(call, command)
    special = _SPECIAL.get(command)
    reads = special(call) if special else command in READ_ONLY
    _operands(call, command)
    return reads and not any(stands_for(w.text.partition("=")[0], _WRITES) for w in args)


def _globals(call: ProgramCall) -> tuple[ProgramCall, list[Word]]:
    args = call.args
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        name, equals, value = text.partition("=")
        follow = Word(value, text) if equals else (args[at + 1] if at + 1 < len(args) else Word("", ""))
        if text == "-C":
            folder = follow.text
            if folder.startswith("~") and follow.known:
                target = call.found.places.resolve(folder, call.cwd).target
                folder = target if target.startswith("/") else posixpath.join(call.found.places.root, target)
            known = follow.known and (call.cwd is not None or folder.startswith("/"))
            call = call.in_folder(
                posixpath.normpath(posixpath.join(call.cwd or "/", folder)) if known else None
            )
            kind = (
                call.found.places.resolve(folder, call.cwd if not known else "/").kind if not known else None
            )
            place = call.found.places.resolve(call.cwd, "/") if call.cwd else None
            if (place and place.kind not in _FINE) or kind is PathZone.HOME:
                call.ask(f"git works in {place.target if place else folder}, outside the workspace")
            at += 2
        elif text == "-c" or text.startswith("-c"):
            pair = follow.text if text == "-c" else text[2:]
            _key(call, *pair.partition("=")[::2])
            at += 2 if text == "-c" else 1
        elif name in ("--git-dir", "--work-tree", "--namespace", "--super-prefix"):
            call.read(follow)
            if call.found.places.resolve(follow.text, call.cwd).kind not in (
                PathZone.INSIDE,
                PathZone.WORKSPACE,
                PathZone.PROTECTED,
            ):
                call.ask(f"git works with {follow.text}, outside the workspace")
            at += 1 if equals else 2
        elif name in ("--exec-path", "--config-env") and (equals or name == "--config-env"):
            call.ask_unless_known(Word(text, text) if equals else follow, f"git {name} decides what runs")
            at += 1 if equals else 2
        elif text == "-p" or text == "--paginate":
            at += 1
        else:
            at += 1
    return call, args[at:]


_FINE: Final = (PathZone.INSIDE, PathZone.WORKSPACE, PathZone.TEMPORARY)


def _key(call: ProgramCall, key: str, value: str) -> None:
    """A configuration key that is set."""
    if HOLE in key:
        call.ask_unless_known(None, "git sets a key that is not known before it runs")
    elif (
        HARMLESS_KEYS.match(key)
        or HARMLESS_KEYS.match(f"{key}={value}")
        or (
            re.match(
                r"(?:core\.(?:pager|editor)|sequence\.editor|pager\..*|diff\.external|core\.fsmonitor)$",
                key,
                re.IGNORECASE,
            )
            and value
            in (
                "cat",
                "true",
                "false",
                "",
                ":",
                "less",
            )
        )
    ):
        return
    else:
        pair = f"{key}={value}"
        call.ask_unless_known(
            Word(pair if any(w.text.endswith(pair) for w in call.args) else key, key),
            f"git sets {key}, which can change what runs or where it connects",
        )


def _options(call: ProgramCall, command: str) -> None:
    for word in call.args:
        text = word.text
        if text == "--":
            break
        name, equals, value = text.partition("=")
        if not name.startswith("-"):
            continue
        if (
            name.startswith("--")
            and stands_for(name, _RUNS)
            and not (name in ("--template",) and command == "commit")
        ):
            if command == "rebase" and name == "--exec":
                continue
            if (
                not (name == "--textconv" and command in READ_ONLY)
                or command in ("cat-file", "grep")
                or name == "--textconv"
            ):
                call.ask_unless_known(word, f"git {command} {name} runs a program")
        elif (name == "-O" and command == "grep") or (command == "grep" and text.startswith("-O")):
            call.ask_unless_known(word, "git grep -O runs a program")
        elif stands_for(name, _WRITES) and name.startswith("--"):
            at = call.args.index(word)
            target = Word(value, text) if equals else (call.args[at + 1] if at + 1 < len(call.args) else word)
            call.write(target)
        elif command == "apply" and stands_for(name, names("--directory --unsafe-paths")):
            call.ask(f"git apply {name} can write outside the workspace")
        elif (equals and name in ("--template", "--file")) or (
            equals and value.startswith(("/", "~", "..")) and command not in ("log", "grep", "commit")
        ):
            call.maybe_path(Word(value, text))
    if command in ("format-patch", "archive"):
        for at, word in enumerate(call.args[:-1]):
            if word.text == "-o":
                call.write(call.args[at + 1])


_REPLACES: Final = names("checkout restore checkout-index rm mv apply read-tree switch")
_MESSAGES: Final = names("commit tag notes merge stash")


def _replaced(call: ProgramCall, command: str) -> None:
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


def _message_files(call: ProgramCall) -> None:
    """`-F FILE`, `-FFILE`: its content ends in a commit."""
    for word, after in pairwise((*call.args, Word("", ""))):
        if word.text in ("-F", "--file", "-t", "--template"):
            call.read(after, plain=False)
        elif re.match(r"-F.", word.text):
            call.read(Word(word.text[2:], word.source), plain=False)


def _operands(call: ProgramCall, command: str) -> None:
    if command in _REPLACES:
        _replaced(call, command)
    if command in _MESSAGES:
        _message_files(call)
    if command in (
        "commit",
        "tag",
        "grep",
        "log",
        "stash",
        "merge",
        "config",
        "remote",
        "branch",
        "notes",
        "help",
        "describe",
    ):
        if command == "grep" and call.has("--no-index"):
            for word in [w for w in call.args if not w.text.startswith("-")][1:]:
                call.read(word)
        return
    for word in call.args:
        text = word.text
        path = text.startswith(("/", "~", "../")) or "/../" in text or (command == "add" and text != ".")
        is_range = re.match(r"\^?[\w./@{}~^-]+\.\.\.?[\w./@{}~^-]*$", text) and not text.startswith("../")
        if path and text[:1] != "-" and not is_range:
            call.read(word, plain=False)
    for at, word in enumerate(call.args[:-1]):
        if word.text in ("-F", "--file", "--pathspec-from-file"):
            call.read(call.args[at + 1], plain=False)


_TAKES: Final = names(
    "-o --push-option --receive-pack --exec --upload-pack --depth --deepen -j --jobs --refmap"
)


def _reach_remotes(call: ProgramCall, command: str) -> None:
    """The hosts of the remotes that are named or meant, by the URLs that they have now."""
    words = [after for before, after in pairwise((Word("", ""), *call.args)) if before.text not in _TAKES]
    operands = [w for w in words if not w.text.startswith("-")]
    named = next((w.text.partition("=")[2] for w in call.args if w.text.startswith("--repo=")), "")
    name = named or (operands[0].text if operands else "")
    push = command in ("push", "send-pack")
    found: list[tuple[str, str]] = []
    if call.cwd is not None and HOLE not in name:
        remotes = Remotes(call.cwd)
        wanted = remotes.names() if call.has("--all", "--multiple") and not push else [name]
        found = [(remote, url) for remote in wanted for url in remotes.urls(remote, push=push)]
    for remote, url in found:
        _reach(call, command, url, f" (remote {remote})" if remote else "")
    if not found:
        call.found.connect("git remote", f"git {command} reaches the repository's remote", bound=UNKNOWN)


def _reach(call: ProgramCall, command: str, url: str, which: str) -> None:
    """A remote's URL: its host and, as what a yes is bound to, the URL itself."""
    shown = without_credentials(url)
    host = host_of_remote(url)
    if HOLE in url:
        call.found.connect("", f"git {command} reaches a URL that is not known before it runs")
    elif host:
        loopback = is_loopback(host)
        reason = f"git {command} connects to {shown}{which}"
        call.found.connect(host, reason, "allow" if loopback else "ask", bound=shown)
    else:
        path = Word(url.removeprefix("file://"), url)
        (call.write if command == "push" else call.read)(path)


def _network(call: ProgramCall, command: str) -> None:
    urls = [w.text for w in call.args if URL.match(w.text) or re.match(r"[\w.-]+@[\w.-]+:", w.text)]
    if any(u.startswith("ext::") for u in (w.text for w in call.args)) or any(
        u.startswith("fd::") for u in urls
    ):
        call.ask_unless_known(None, "git uses a transport that runs a program")
    if urls:
        for url in urls:
            _reach(call, command, url, "")
    elif (
        command == "clone"
        and call.args
        and call.found.places.resolve(call.args[-1].text, call.cwd).kind is PathZone.INSIDE
    ):
        call.found.connect("git remote", f"git {command} reaches the repository that it names", bound=UNKNOWN)
    else:
        _reach_remotes(call, command)
    if command == "push" and call.has(
        "--force", "-f", "--delete", "-d", "--mirror", "--force-with-lease", "--prune"
    ):
        call.ask("git push overwrites or deletes on the remote")
    if call.has("-c", "--config", "-u") and command == "clone":
        call.ask_unless_known(None, "git clone -c sets configuration")
    if command == "clone":
        plain = [w for w in call.args if not w.text.startswith("-")]
        if len(plain) > 1:
            call.write(plain[-1])


def _config(call: ProgramCall) -> bool:
    texts = [w.text for w in call.args]
    if any(
        t
        in (
            "--get",
            "--get-all",
            "--get-regexp",
            "--list",
            "-l",
            "get",
            "list",
            "--get-urlmatch",
            "--get-color",
        )
        for t in texts
    ):
        return True
    if any(t in ("--edit", "-e", "edit") for t in texts):
        call.ask("git config --edit runs an editor")
    if any(t in ("--global", "--system") for t in texts):
        plain = [t for t in texts if not t.startswith("-")]
        if len(plain) < 2:
            return not call.has("--unset", "--unset-all", "--remove-section")
        call.ask("git config writes configuration outside the workspace")
    for at, text in enumerate(texts[:-1]):
        if text in ("-f", "--file"):
            call.write(call.args[at + 1])
    plain = [t for t in texts if not t.startswith("-") and t not in ("set", "unset")]
    if len(plain) == 1 and not call.has("--unset", "--unset-all", "unset", "--remove-section", "--add"):
        return True
    if plain:
        _key(call, plain[0], plain[1] if len(plain) > 1 else "")
    return False


_SPECIAL: Final[dict[str, Rule]] = {**SUBCOMMANDS, "config": _config}
