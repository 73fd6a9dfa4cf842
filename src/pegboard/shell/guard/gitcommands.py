"""Rules of single git commands: what loses work, runs something or reaches a remote."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import ProgramCall, ProgramSpec, Rule, names, stands_for
from pegboard.shell.guard.words import Word


def _reset(call: ProgramCall) -> bool:
    if call.has("--hard", "--merge", "--keep") or any(
        stands_for(w.text, names("--hard")) for w in call.args if len(w.text) > 4
    ):
        call.ask("git reset --hard loses work that is not committed")
    return False


def _read_tree(call: ProgramCall) -> bool:
    if call.has("--reset") and call.has("-u"):
        call.ask("git read-tree --reset -u loses work that is not committed")
    return _reset(call)


def _maintenance(call: ProgramCall) -> bool:
    if call.has("start", "register", "unregister", "stop"):
        call.ask("git maintenance changes what this machine runs later")
    return False


def _lfs(call: ProgramCall) -> bool:
    first = call.args[0].text if call.args else ""
    if first in ("pull", "fetch", "push", "clone", "locks", "lock", "unlock"):
        call.found.connect("git remote", f"git lfs {first} reaches the repository's remote")
    elif first in ("install", "update", "uninstall"):
        call.write(Word(".git/hooks", "git lfs"))
    return first in ("ls-files", "status", "env", "version")


def _clean(call: ProgramCall) -> bool:
    options, operands = call.options(_CLEAN)
    if any(o.flag == "-n" or stands_for(o.flag, names("--dry-run")) for o in options):
        return True
    for word in [pathspec(w) for w in operands] or [Word(".", ".")]:
        call.delete(word, recursive=True)
    return False


_CLEAN: Final = ProgramSpec(takes="e", long_takes=names("--exclude"))


def pathspec(word: Word) -> Word:
    """A pathspec as the path that it covers: a pattern acts in quotes too, and one that excludes covers the rest."""
    magic, _, path = word.text.rpartition(")") if word.text.startswith(":(") else ("", "", word.text)
    if re.match(r":[!^/]+|:$", path):
        magic, path = path[:2], path.lstrip(":!^/")
    if "exclude" in magic or magic[1:2] in ("!", "^") or not path:
        return Word(".", word.source)
    return Word(path, word.source, word.glob or ("*" in path and "literal" not in magic))


def _checkout(call: ProgramCall) -> bool:
    force = call.has("-f", "--force", "--discard-changes")
    index_only = call.has("--staged", "-S") and not call.has("--worktree", "-W")
    everything = call.has(".", ":/", "*", "./", ":") and not index_only
    if force or everything:
        call.ask("this throws away changes that are not committed")
    return False


def _branch(call: ProgramCall) -> bool:
    if call.has("-D", "--force", "-M", "-f") or (call.has("--delete", "-d") and call.has("-f", "--force")):
        call.ask("git branch overwrites or deletes work that is not merged")
    if call.has("--edit-description"):
        call.ask("git branch --edit-description runs an editor")
    return not [
        w
        for w in call.args
        if not re.match(
            r"-(?:[avrl]+|-(?:list|all|remotes|show-current|contains|merged|no-merged|sort|format|verbose)\b)",
            w.text,
        )
    ]


def _stash(call: ProgramCall) -> bool:
    if call.has("drop", "clear"):
        call.ask("git stash drop loses stashed work")
    return bool(call.args) and call.args[0].text in ("list", "show")


def _rebase(call: ProgramCall) -> bool:
    for at, word in enumerate(call.args):
        text = word.text
        if text in ("-x", "--exec") and at + 1 < len(call.args):
            call.judge.script(call, call.args[at + 1].text)
        elif text.startswith("--exec="):
            call.judge.script(call, text[7:])
        elif re.match(r"-x\S", text):
            call.judge.script(call, text[2:])
    return False


def _bisect(call: ProgramCall) -> bool:
    if call.args and call.args[0].text == "run":
        call.judge.inner(call, call.args[1:])
    return bool(call.args) and call.args[0].text in ("log", "view", "visualize")


def _submodule(call: ProgramCall) -> bool:
    texts = [w.text for w in call.args]
    if "foreach" in texts:
        at = texts.index("foreach")
        call.judge.script(call, " ".join(t for t in texts[at + 1 :] if not t.startswith("--")))
    elif any(t in ("update", "add", "sync") for t in texts):
        call.found.connect("git remote", "git submodule reaches the submodules' remotes")
    return texts[:1] == ["status"] or not texts


def _remote(call: ProgramCall) -> bool:
    texts = [w.text for w in call.args]
    if texts[:1] and texts[0] in ("update", "show", "prune", "set-head"):
        call.found.connect("git remote", f"git remote {texts[0]} reaches the remote")
    if any("ext::" in t for t in texts):
        call.ask_unless_known(None, "git uses a transport that runs a program")
    return not [t for t in texts if t not in ("-v", "--verbose", "get-url", "show")] or texts[:1] == [
        "get-url"
    ]


def _worktree(call: ProgramCall) -> bool:
    if call.args and call.args[0].text in ("add", "move"):
        for word in [w for w in call.args[1:] if not w.text.startswith("-")][:2]:
            if "/" in word.text or word.text.startswith("."):
                call.write(word)
    if call.has("--force", "-f"):
        call.ask("git worktree --force throws work away")
    return bool(call.args) and call.args[0].text == "list"


def _rm(call: ProgramCall) -> bool:
    if not call.has("--cached"):
        for word in [pathspec(w) for w in call.args if not w.text.startswith("-")]:
            call.delete(word, recursive=call.has("-r", "-rf", "-fr"))
    return False


def _reflog(call: ProgramCall) -> bool:
    if call.has("expire", "delete"):
        call.ask("git reflog expire makes lost work unrecoverable")
        return False
    return True


def _gc(call: ProgramCall) -> bool:
    if any(w.text.startswith("--prune") for w in call.args) or call.has("--expire"):
        call.ask("git throws away unreachable work")
    return False


def _update_ref(call: ProgramCall) -> bool:
    call.ask("git moves or deletes a reference directly")
    return False


def _tag(call: ProgramCall) -> bool:
    if call.has("-d", "--delete", "-f", "--force"):
        call.ask("git deletes or moves a tag")
    return not call.args or call.has("-l", "--list")


def _archive(call: ProgramCall) -> bool:
    if any(w.text.startswith("--remote") for w in call.args):
        call.found.connect("git remote", "git archive --remote reaches another repository")
    return not call.has("-o") and not any(w.text.startswith("--output") for w in call.args)


def _init(call: ProgramCall) -> bool:
    for word in [w for w in call.args if not w.text.startswith("-")][:1]:
        call.write(word)
    return False


SUBCOMMANDS: Final[dict[str, Rule]] = {
    "reset": _reset, "clean": _clean, "checkout": _checkout, "switch": _checkout, "restore": _checkout, "branch": _branch,
    "stash": _stash, "rebase": _rebase, "bisect": _bisect, "submodule": _submodule, "remote": _remote, "worktree": _worktree, "rm": _rm,
    "reflog": _reflog, "gc": _gc, "prune": _update_ref, "update-ref": _update_ref, "replace": _update_ref, "tag": _tag, "archive": _archive,
    "init": _init, "read-tree": _read_tree, "maintenance": _maintenance, "lfs": _lfs, "symbolic-ref": lambda c: len(c.args) < 2,
}  # fmt: skip
