"""Rules of package managers and containers: what stays here, what reaches a registry, what publishes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from pegboard.shell.guard.calls import URL, ProgramCall, Rule, host_of
from pegboard.shell.guard.interpreters import interpreter
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.rows import by_row, follow
from pegboard.shell.guard.specs import names
from pegboard.shell.guard.words import Word

_FOREIGN: Final = re.compile(
    r"^(?:-i|--index-url|--extra-index-url|--index|--default-index|--trusted-host|--proxy|--registry|--git|--source|--repository-url|-f|--find-links"
    r"|--cert|--script-shell|--node-options|--config-settings|--global-option|--build-option)(?:=|$)"
)
_REMOTE: Final = re.compile(
    r"(?:git\+|hg\+|svn\+|bzr\+|git@|git:|github:|gitlab:|bitbucket:|https?:|ftp:|file:|ssh:)|.*?@\s*(?:git\+|https?:)"
)
_DECIDES: Final = re.compile(
    r"--(?:script-shell|node-options|toolexec|exec|config|ignore-scripts=false)\b|-(?:exec|toolexec|overlay|vettool)(?:=|$)"
)
_GLOBAL: Final = names("-g --global --location=global --user --break-system-packages --root")
_FOLDERS: Final = names("-C --prefix --cwd --dir --directory --project")
_TAKES: Final = _FOLDERS | names("-w --workspace --filter -F --manifest-path -p --package --python")
_LEAVES: Final = names(
    "publish login logout token owner unpublish deprecate dist-tag access adduser team org profile hook star config set npm "
    "global link unlink dlx exec x env plugin policies node server setup self-update cache deploy repl upgrade"
)
"""Subcommands that are not scripts of a `package.json`."""
_READS: Final = names("list ls show freeze tree why explain version --version metadata graph")


def manager(call: ProgramCall) -> bool:
    """A package manager: local work passes, fetching is a connect effect, publishing and settings ask."""
    name, spec, facts = call.name, call.spec, call.spec.facts
    at = _subcommand(call)
    if at is None:
        if "scripts" in facts and not call.has("--version", "-v", "--help"):
            call.found.connect(facts["hosts"].split()[0], f"{name} without a subcommand installs packages")
        return False
    command, rest = call.args[at].text, call.args[at + 1 :]
    listed = {
        kind: facts.get(kind, "").split()
        for kind in ("local", "fetch", "starts", "inner", "fetched", "always")
    }
    if HOLE in command:
        call.ask_unless_known(None, f"{name} runs a subcommand that is not known before it runs")
        return False
    if command in listed["inner"]:
        _run_inner(call, rest)
        return False
    if command in listed["fetched"] or command in listed["always"]:
        _run_fetched(call, rest, always=command in listed["always"])
        return False
    # `npm init x` fetches and runs `create-x`.
    starts = command in listed["starts"] and any(w.text[:1] != "-" for w in rest)
    if command in listed["fetch"] or starts:
        still = facts.get("still")
        if not (still and re.fullmatch(still, f"{command} {rest[0].text if rest else ''}")):
            _fetch(call, command, rest)
    elif command in ("config", "c", "set", "pkg") and (
        not rest or rest[0].text in ("get", "list", "ls", "debug")
    ):
        return True
    elif command not in listed["local"] and not (
        "scripts" in facts and re.fullmatch(r"[\w:.-]+", command) and command not in _LEAVES
    ):
        call.ask(f"{name} {command} may publish, change settings or run what it fetches")
    for word in call.args:
        if _DECIDES.match(word.text):
            call.ask_unless_known(word, f"{name} {word.text} decides what runs")
    if call.has("--break-system-packages"):
        call.ask(f"{name} {command} --break-system-packages changes the system's own packages")
    follow(call, spec.when)
    for word, after in pairwise((*rest, Word("", ""))):
        flag, equals, value = word.text.partition("=")
        if flag in spec.writes:
            call.write(Word(value, word.source) if equals else after)
        if not URL.match(word.text):
            call.maybe_path(word)
    return command in _READS


def _subcommand(call: ProgramCall) -> int | None:
    """Where the subcommand stands; folders that options in front of it name are written."""
    at = 0
    while at < len(call.args):
        word = call.args[at]
        text = word.text
        name, equals, value = text.partition("=")
        if equals and name in _FOLDERS:
            call.write(Word(value, word.source))
        if text in _TAKES and not (call.name == "cargo" and text == "-p"):
            if text in _FOLDERS and at + 1 < len(call.args):
                call.write(call.args[at + 1])
            at += 2
        elif (text[:1] == "+" and call.name == "cargo") or (
            text[:1] == "-" and text not in ("-r", "--version")
        ):
            at += 1
        else:
            return at
    return None


def _fetch(call: ProgramCall, command: str, rest: Sequence[Word]) -> None:
    said = f"{call.name} {command}"
    for word, after in pairwise((*rest, Word("", ""))):
        text = word.text
        if _FOREIGN.match(text):
            call.ask_unless_known(
                Word(text, text), f"{said} {text.partition('=')[0]} takes packages or programs from elsewhere"
            )
        if _REMOTE.match(text):
            call.ask(f"{said} installs from {text.replace(HOLE, '…')}")
            if URL.match(text.split("+", 1)[-1]):
                call.found.connect(host_of(text.split("+", 1)[-1]))
        if text in _GLOBAL:
            call.ask(f"{said} {text} installs outside the workspace")
        if HOLE in text:
            call.ask(f"{said} takes a name that is not known before it runs")
        if text in ("-t", "--target", "--prefix", "--root", "-d", "--dest"):
            call.write(after)
        elif text in ("-r", "--requirement", "-c", "--constraint"):
            call.read(after)
    if not any(word.text in ("--no-index", "--offline") for word in rest):
        for host in call.spec.facts["hosts"].split():
            call.found.connect(host, f"{said} fetches from {host}")


_FETCHING_RUN: Final = names(
    "--with --with-requirements --index-url --extra-index-url --index --from --with-editable"
)
_RUN_TAKES: Final = names(
    "--with --with-requirements --python -p --project --directory --extra --group --env-file -n --name --from --package --index --index-url"
)


def _run_inner(call: ProgramCall, rest: Sequence[Word]) -> None:
    """`uv run PROGRAM …`, `poetry run`, `bundle exec`."""
    at = 0
    while at < len(rest) and rest[at].text.startswith("-") and rest[at].text != "-":
        text = rest[at].text
        if text == "--":
            at += 1
            break
        if text in _FETCHING_RUN:
            call.found.connect("pypi.org", f"{call.name} run {text} fetches packages")
        if text in ("-m", "--module"):
            call.judge.inner(call, [Word("python", "python"), Word("-m", "-m"), *rest[at + 1 :]])
            return
        at += 2 if text in _RUN_TAKES else 1
    inner = list(rest[at:])
    if inner and (inner[0].text == "-" or inner[0].text.endswith(".py")):
        inner = [Word("python", "python"), *inner]
    if inner:
        call.judge.inner(call, inner, stdin=call.stdin)


_FETCHING: Final = names("-y --yes -p --package --from --spec --with --registry -c --call")


def _run_fetched(call: ProgramCall, rest: Sequence[Word], *, always: bool = False) -> None:
    """`npx`, `npm exec` and their like: a bare name may already be installed here; anything else is fetched."""
    first = next((at for at, word in enumerate(rest) if not word.text.startswith("-")), None)
    own = [word.text for word in rest[:first]]
    named = rest[first].text if first is not None else ""
    for word, after in pairwise(rest):
        if word.text in ("-c", "--call", "--shell-auto-fallback") and not always:
            call.judge.script(call, after.text)
    reason = f"{call.name} fetches a program and runs it"
    if always or any(flag in _FETCHING or flag.startswith("--package=") for flag in own):
        call.ask(reason)
        call.found.connect("package registry", reason)
    elif named and not re.fullmatch(r"(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*", named):
        call.ask(f"{call.name} fetches {named.replace(HOLE, '…')} and runs it")
        call.found.connect("package registry", reason)
    if first is not None and not always:
        call.judge.inner(call, list(rest[first:]))


def npx(call: ProgramCall) -> bool:
    _run_fetched(call, call.args)
    return False


def deno(call: ProgramCall) -> bool:
    """`deno eval CODE` and `deno run FILE` interpret, the rest manages."""
    first = call.args[0].text if call.args else ""
    if first == "run":
        plain = [w for w in call.args[1:] if not w.text.startswith("-")]
        return interpreter(call.named("deno", plain or [Word(HOLE, "")]))
    return interpreter(call) if first in ("eval", "repl", "serve") else manager(call)


def bun(call: ProgramCall) -> bool:
    """`bun FILE` and `bun -e CODE` interpret, `bun x` fetches, the rest manages."""
    first = call.args[0].text if call.args else ""
    if first.startswith(("-e", "-p", "--eval", "--print")) or re.search(r"\.[cm]?[jt]sx?$", first):
        return interpreter(call)
    return npx(call.named("bunx", call.args[1:])) if first == "x" else manager(call)


def docker(call: ProgramCall) -> bool:
    """Containers: queries pass, everything else asks, since the daemon acts outside the sandbox."""
    for word, after in pairwise((*call.args, Word("", ""))):
        flag, _, value = word.text.partition("=")
        if flag in ("-v", "--volume", "--mount"):
            mount = re.sub(r"^.*?(?:source|src)=", "", value or after.text)
            if (source := re.split("[:,]", mount)[0]).startswith(("/", "~")):
                call.found.write(source, call.cwd)
    return by_row(call) or not call.args


RULES: Final[dict[str, Rule]] = {"manager": manager, "npx": npx, "deno": deno, "bun": bun, "docker": docker}
