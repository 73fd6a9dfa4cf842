"""Rules of package managers, build tools and containers: what stays here, what reaches a registry, what publishes."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import URL, ProgramCall, Rule, host_of, names
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.words import Word

# program: (registry host, subcommands that stay here, subcommands that fetch from the registry)
_MANAGERS: Final[dict[str, tuple[str, str, str]]] = {
    "pip": ("pypi.org", "list show freeze check debug inspect hash help cache uninstall --version", "install download wheel index search"),
    "npm": ("registry.npmjs.org", "run run-script rum urn test t tst start stop restart build ls list ll la explain why help bin root prefix version fund init "
            "create-none dedupe prune rebuild pack query completion get help-search", "install i in ins add ci clean-install update up upgrade audit outdated view info v "
            "show search ping create install-test it install-ci-test exec-remote doctor"),
    "pnpm": ("registry.npmjs.org", "run test t start build ls list why bin root store rebuild prune pack -r recursive lint dev format typecheck check",
             "install i add update up upgrade audit outdated fetch import create"),
    "yarn": ("registry.npmjs.org", "run test start build list why bin pack workspace workspaces version lint dev format typecheck check",
             "install add upgrade up outdated audit create import info upgrade-interactive"),
    "bun": ("registry.npmjs.org", "run test build pm --version", "install i add update upgrade outdated create"),
    "uv": ("pypi.org", "venv tree build version cache export format init remove help self-none", "sync add lock pip tool python"),
    "poetry": ("pypi.org", "build check show env version about list init new config-none remove export", "install add update lock sync self source search"),
    "pipenv": ("pypi.org", "graph check --venv --where verify clean", "install sync update lock upgrade"),
    "pdm": ("pypi.org", "build list show info venv use init test lint remove", "install add update lock sync self"),
    "hatch": ("pypi.org", "build env run test fmt version status project new clean shell", "python self"),
    "rye": ("pypi.org", "build run test fmt lint show version", "sync add lock install fetch"),
    "conda": ("conda.anaconda.org", "list info env activate deactivate config-none", "install create update search"),
    "mamba": ("conda.anaconda.org", "list info env activate", "install create update search"),
    "cargo": ("crates.io", "build b check c test t run r fmt clippy doc d bench clean tree metadata version new init nextest help locate-project verify-project "
              "pkgid report fix expand miri deny machete insta llvm-cov remove package", "install add update fetch search generate-lockfile vendor audit outdated udeps binstall"),
    "go": ("proxy.golang.org", "build vet test run fmt env list version tool generate clean doc help fix telemetry work", "get install mod"),
    "gem": ("rubygems.org", "list env environment contents which help specification query build", "install update fetch search outdated"),
    "bundle": ("rubygems.org", "exec check list show info config-none clean console help platform", "install update add outdated lock package"),
    "composer": ("packagist.org", "dump-autoload show validate run-script run test check licenses help status", "install require update create-project outdated audit"),
    "mix": ("hex.pm", "compile test format run credo dialyzer phx.server help clean deps new ecto.migrate", "deps.get deps.update hex.info archive.install local.hex"),
    "dotnet": ("api.nuget.org", "build run test clean format new sln list publish watch --version --info --list-sdks", "restore add tool workload nuget"),
    "deno": ("jsr.io", "fmt lint test check task bench doc info types compile", "cache install add upgrade publish-none"),
    "stack": ("hackage.haskell.org", "build test run exec clean", "install update setup"),
    "cabal": ("hackage.haskell.org", "build test run clean check repl", "install update fetch get"),
    "swift-package": ("github.com", "", ""),
    "pod": ("cdn.cocoapods.org", "list", "install update repo"),
    "luarocks": ("luarocks.org", "list show make", "install search download"),
    "opam": ("opam.ocaml.org", "list show switch env exec", "install update upgrade"),
    "twine": ("upload.pypi.org", "check", ""),
    "flit": ("pypi.org", "build init", "install"),
    "corepack": ("registry.npmjs.org", "enable disable", "prepare use up"),
}  # fmt: skip
_FILE_HOSTS: Final = {
    "pypi.org": ("files.pythonhosted.org",),
    "crates.io": ("index.crates.io", "static.crates.io"),
    "proxy.golang.org": ("sum.golang.org",),
    "rubygems.org": ("index.rubygems.org",),
    "packagist.org": ("repo.packagist.org",),
}
"""By registry: where its packages or their index lie."""

_ALIASES: Final = {
    "pip2": "pip",
    "pip3": "pip",
    "bundler": "bundle",
    "micromamba": "mamba",
    "yarnpkg": "yarn",
    "npm-cli": "npm",
}
_FOREIGN: Final = re.compile(
    r"^(?:-i|--index-url|--extra-index-url|--index|--default-index|--trusted-host|--proxy|--registry|--git|--source|--repository-url|-f|--find-links"
    r"|--cert|--script-shell|--node-options|--config-settings|--global-option|--build-option)(?:=|$)"
)
_SCRIPT_MANAGERS: Final = frozenset({"yarn", "pnpm", "bun"})


def manager(call: ProgramCall) -> bool:
    """A package manager: local work passes, fetching is a connect effect, publishing and settings ask."""
    name = _ALIASES.get(
        re.sub(r"[\d.]+$", "", call.name) if call.name.startswith("pip") else call.name, call.name
    )
    name = "pip" if name.startswith("pip") and name not in _MANAGERS else name
    host, local, fetching = _MANAGERS[name]
    at = _subcommand(call, name)
    if at is None:
        if name in ("yarn", "pnpm", "bun") and not call.has("--version", "-v", "--help"):
            call.found.connect(host, f"{name} without a subcommand installs packages")
        return False
    command, rest = call.args[at].text, call.args[at + 1 :]
    if HOLE in command:
        call.ask_unless_known(None, f"{name} runs a subcommand that is not known before it runs")
        return False
    runner = _RUNNERS.get((name, command))
    if runner is not None:
        runner(call, rest)
        return False
    starter = command in ("init", "innit") and name in ("npm", "pnpm", "yarn", "bun")
    if command in fetching.split() or (starter and any(w.text[:1] != "-" for w in rest)):
        # `npm init x` fetches and runs `create-x`.
        _fetch(call, name, command, host, rest)
    elif command in ("config", "c", "set", "pkg") and _reads_config(rest):
        return True
    elif command not in local.split() and not (
        name in _SCRIPT_MANAGERS and re.fullmatch(r"[\w:.-]+", command) and command not in _LEAVES
    ):
        call.ask(f"{name} {command} may publish, change settings or run what it fetches")
    for word in call.args:
        if re.match(
            r"--(?:script-shell|node-options|toolexec|exec|config|ignore-scripts=false)\b", word.text
        ) or re.match(r"-(?:exec|toolexec|overlay|vettool)(?:=|$)", word.text):
            call.ask_unless_known(word, f"{name} {word.text} decides what runs")
    if any(w.text == "--break-system-packages" for w in call.args):
        call.ask(f"{name} {command} --break-system-packages changes the system's own packages")
    if name == "go":
        _go(call, command, rest)
    for word in rest:
        if not URL.match(word.text):
            call.maybe_path(word)
    return command in (
        "list",
        "ls",
        "show",
        "freeze",
        "tree",
        "why",
        "explain",
        "version",
        "--version",
        "metadata",
        "graph",
    )


_LEAVES: Final = names(
    "publish login logout token owner unpublish deprecate dist-tag access adduser team org profile hook star config set npm global link unlink dlx exec x env "
    "plugin policies node server setup self-update cache deploy repl upgrade"
)


def _subcommand(call: ProgramCall, name: str) -> int | None:
    takes = {
        "-C",
        "--prefix",
        "--cwd",
        "--dir",
        "--directory",
        "--project",
        "-w",
        "--workspace",
        "--filter",
        "-F",
        "--manifest-path",
        "-p",
        "--package",
        "--python",
    }
    at = 0
    while at < len(call.args):
        word = call.args[at]
        text = word.text
        if text in takes and not (name == "cargo" and text == "-p"):
            if text in ("-C", "--prefix", "--cwd", "--dir", "--directory", "--project") and at + 1 < len(
                call.args
            ):
                call.write(call.args[at + 1])
            at += 2
        elif (text.startswith("+") and name == "cargo") or (
            text.startswith("-") and text not in ("-r",) and text != "--version"
        ):
            at += 1
        else:
            return at
    return None


def _reads_config(rest: list[Word]) -> bool:
    return not rest or rest[0].text in ("get", "list", "ls", "debug")


def _fetch(call: ProgramCall, name: str, command: str, host: str, rest: list[Word]) -> None:
    texts = [w.text for w in rest]
    if (
        name == "uv"
        and command in ("pip", "tool", "python")
        and texts[:1]
        and texts[0] in ("list", "show", "freeze", "tree", "check", "dir", "find", "uninstall")
    ) or (
        name == "go"
        and command == "mod"
        and texts[:1]
        and texts[0] in ("init", "edit", "graph", "verify", "why")
    ):
        return
    for text in texts:
        if _FOREIGN.match(text):
            call.ask_unless_known(
                Word(text, text),
                f"{name} {command} {text.partition('=')[0]} takes packages or programs from elsewhere",
            )
        if re.match(
            r"(?:git\+|hg\+|svn\+|bzr\+|git@|git:|github:|gitlab:|bitbucket:|https?:|ftp:|file:|ssh:)", text
        ) or re.search(r"@\s*(?:git\+|https?:)", text):
            call.ask(f"{name} {command} installs from {text.replace(HOLE, '…')}")
            if URL.match(text.split("+", 1)[-1]):
                call.found.connect(host_of(text.split("+", 1)[-1]))
        if text in ("-g", "--global", "--location=global", "--user", "--break-system-packages", "--root"):
            call.ask(f"{name} {command} {text} installs outside the workspace")
        if HOLE in text:
            call.ask(f"{name} {command} takes a name that is not known before it runs")
    for at, text in enumerate(texts[:-1]):
        if text in ("-t", "--target", "--prefix", "--root", "-d", "--dest"):
            call.write(rest[at + 1])
        elif text in ("-r", "--requirement", "-c", "--constraint"):
            call.read(rest[at + 1])
    if not ("--no-index" in texts or "--offline" in texts):
        for one in (host, *_FILE_HOSTS.get(host, ())):
            call.found.connect(one, f"{name} {command} fetches from {one}")


def _go(call: ProgramCall, command: str, rest: list[Word]) -> None:
    if command == "env" and any(w.text in ("-w", "-u") for w in rest):
        call.ask("go env -w changes settings outside the workspace")
    if command == "run" and any(re.match(r"[\w.-]+\.\w+/\S+@", w.text) for w in rest):
        call.ask("go run fetches and runs a program")
        call.found.connect("proxy.golang.org")
    for at, word in enumerate(rest[:-1]):
        if word.text == "-o":
            call.write(rest[at + 1])


def _run_inner(call: ProgramCall, rest: list[Word]) -> None:
    at = 0
    while at < len(rest) and rest[at].text.startswith("-"):
        text = rest[at].text
        if text == "--":
            at += 1
            break
        if text in (
            "--with",
            "--with-requirements",
            "--index-url",
            "--extra-index-url",
            "--index",
            "--from",
            "--with-editable",
        ):
            call.found.connect("pypi.org", f"{call.name} run {text} fetches packages")
        takes = (
            "--with",
            "--with-requirements",
            "--python",
            "-p",
            "--project",
            "--directory",
            "--extra",
            "--group",
            "--env-file",
            "-n",
            "--name",
            "--from",
            "--package",
            "--index",
            "--index-url",
            "-m",
            "--module",
        )
        if text in ("-m", "--module"):
            call.judge.inner(call, [Word("python", "python"), Word("-m", "-m"), *rest[at + 1 :]])
            return
        if text == "-":
            break
        at += 2 if text in takes else 1
    inner = rest[at:]
    if (inner and re.search(r"\.py$", inner[0].text)) or (inner and inner[0].text == "-"):
        inner = [Word("python", "python"), *inner]
    if inner:
        call.judge.inner(call, inner, stdin=call.stdin)


def _run_fetched(call: ProgramCall, rest: list[Word]) -> None:
    """`npx`, `uvx` and their like: a bare name may already be installed here; anything else is fetched."""
    flags = [w.text for w in rest if w.text.startswith("-")]
    plain = [w for w in rest if not w.text.startswith("-")]
    for at, word in enumerate(rest):
        if word.text in ("-c", "--call", "--shell-auto-fallback") and at + 1 < len(rest):
            call.judge.script(call, rest[at + 1].text)
    own = list(
        dict.fromkeys(flags[: len(flags) if not plain else [w.text for w in rest].index(plain[0].text)])
    )
    if any(
        f in ("-y", "--yes", "-p", "--package", "--from", "--spec", "--with", "--registry", "-c", "--call")
        or f.startswith("--package=")
        for f in own
    ):
        call.ask(f"{call.name} fetches a program and runs it")
        call.found.connect("package registry", f"{call.name} fetches a program and runs it")
    elif plain and not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", plain[0].text):
        call.ask(f"{call.name} fetches {plain[0].text.replace(HOLE, '…')} and runs it")
        call.found.connect("package registry", f"{call.name} fetches a program and runs it")
    if plain:
        call.judge.inner(call, rest[rest.index(plain[0]) :])


def _fetched_always(call: ProgramCall, rest: list[Word]) -> None:
    call.ask(f"{call.name} fetches a program and runs it")
    call.found.connect("package registry", f"{call.name} fetches a program and runs it")


_RUNNERS: Final = {
    **{(n, "run"): _run_inner for n in ("uv", "poetry", "pipenv", "pdm", "rye", "hatch", "conda", "mamba")},
    ("bundle", "exec"): _run_inner, ("npm", "exec"): _run_fetched, ("npm", "x"): _run_fetched, ("pnpm", "exec"): _run_inner, ("yarn", "exec"): _run_inner,
    ("bun", "x"): _run_fetched, ("pnpm", "dlx"): _fetched_always, ("yarn", "dlx"): _fetched_always, ("npm", "init-x"): _fetched_always,
    ("opam", "exec"): _run_inner, ("stack", "exec"): _run_inner,
}  # fmt: skip


def npx(call: ProgramCall) -> bool:
    _run_fetched(call, call.args)
    return False


def fetched(call: ProgramCall) -> bool:
    _fetched_always(call, call.args)
    return False


def deno(call: ProgramCall) -> bool:
    from pegboard.shell.guard.interpreters import interpreter

    if call.args and call.args[0].text in ("eval", "run", "repl", "serve"):
        if call.args[0].text == "run":
            plain = [w for w in call.args[1:] if not w.text.startswith("-")]
            return interpreter(call.named("deno", plain or [Word(HOLE, "")]))
        return interpreter(call)
    return manager(call)


def bun(call: ProgramCall) -> bool:
    from pegboard.shell.guard.interpreters import interpreter

    first = call.args[0].text if call.args else ""
    if first.startswith(("-e", "-p", "--eval", "--print")) or re.search(r"\.[cm]?[jt]sx?$", first):
        return interpreter(call)
    if first == "x":
        return npx(call.named("bunx", call.args[1:]))
    return manager(call)


_QUERIES: Final = names(
    "ps images version info logs top stats history port diff events inspect search-none --version -v"
)


def docker(call: ProgramCall) -> bool:
    """Containers: queries pass, everything else asks, since the daemon acts outside the sandbox."""
    plain = [w.text for w in call.args if not w.text.startswith("-")]
    risky = any(
        w.text in ("-H", "--host", "--context", "-c", "--config")
        or w.text.startswith(("--host=", "--context=", "--config="))
        for w in call.args[:2]
    )
    if plain[:1] and plain[0] in _QUERIES and not risky:
        return False
    if (
        plain[:1]
        and plain[0] in ("compose", "container", "image", "volume", "network", "system")
        and plain[1:2]
        and plain[1] in (*_QUERIES, "ls", "df", "config")
    ):
        return False
    if not plain and not call.args:
        return True
    for at, word in enumerate(call.args):
        text = word.text
        value = (
            call.args[at + 1].text
            if text in ("-v", "--volume", "--mount") and at + 1 < len(call.args)
            else text.partition("=")[2]
        )
        source = re.sub(r"^.*?(?:source|src)=", "", value).split(":")[0].split(",")[0]
        if text.split("=")[0] in ("-v", "--volume", "--mount") and source.startswith(("/", "~")):
            call.found.write(source, call.cwd)
    call.ask(f"{call.name} {plain[0] if plain else ''} acts outside the sandbox".replace("  ", " "))
    return False


def publishes(call: ProgramCall) -> bool:
    """Build tools that mostly work here: deploying or publishing targets ask."""
    for word in call.args:
        if re.fullmatch(
            r"(?::?[\w:-]*:)?(?:deploy|publish\w*|release\w*|upload\w*|push)|site:deploy|dependency:get|--refresh-dependencies",
            word.text,
        ):
            call.ask(f"{call.name} {word.text} publishes")
        if word.text in ("-I", "--init-script", "-s", "--settings", "--exec") or word.text.startswith(
            ("-Dexec.executable", "--init-script=", "-Dmaven.ext.class.path")
        ):
            call.ask_unless_known(word, f"{call.name} {word.text} decides what runs")
        call.maybe_path(word)
    return False


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_MANAGERS, manager), **dict.fromkeys(_ALIASES, manager), "npx": npx, "bunx": npx, "pnpx": npx, "uvx": fetched, "pipx": fetched,
    "deno": deno, "bun": bun, "docker": docker, "podman": docker, "docker-compose": lambda c: docker(c.named("docker-compose", [Word("compose", ""), *c.args])),
    "podman-compose": docker, "nerdctl": docker, "crictl": docker, "ctr": docker, "buildah": docker, "skopeo": docker, "mvn": publishes, "mvnw": publishes, "gradle": publishes, "gradlew": publishes, "sbt": publishes,
    "ant": publishes, "lein": publishes, "vsce": publishes, "lerna": publishes, "changeset": publishes, "semantic-release": fetched, "goreleaser": publishes,
    "gh-pages": fetched, "surge": fetched, "degit": fetched, "create-react-app": fetched,
}  # fmt: skip
