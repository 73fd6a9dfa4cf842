"""The guard's rows about programs: each is sound, each condition has a command that passes and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard.shell.guard import judge
from pegboard.shell.guard.judgement import RULES
from pegboard.shell.guard.specs import SECTIONS, facts, spec_of, subcommand

ROWS: list[tuple[str, str, Any]] = [
    (section, name, row) for section in (*SECTIONS, "git") for key, row in facts()[section].items() for name in key.split()
]  # fmt: skip

# The first name of each row that has conditions: a command that passes, and one that asks or is denied.
EXAMPLES = {
    "less": ("less +5 a", "less '+!id' a"),
    "[": ("[ -f a ]", "[ 'a[$(id)]' ]"),
    "hash": ("hash -r", "hash -p ./x git"),
    "shopt": ("shopt -s nullglob", "shopt -s expand_aliases"),
    "dc": ("dc -e '1 2 + p'", "dc -e '!id'"),
    "date": ("date -d tomorrow +%F", "date -s 2020-01-01"),
    "kill": ("kill -9 4242", "kill -9 -1"),
    "pkill": ("pkill -f my-server", "pkill -u root"),
    "systemctl": ("systemctl status x", "systemctl restart x"),
    "service": ("service x status", "service x stop"),
    "crontab": ("crontab -l", "crontab -r"),
    "ip": ("ip addr show", "ip link set eth0 down"),
    "arp": ("arp -a", "arp -d 10.0.0.1"),
    "dmesg": ("dmesg -T", "dmesg -C"),
    "sysctl": ("sysctl kernel.hostname", "sysctl -w kernel.x=1"),
    "hostname": ("hostname", "hostname evil"),
    "timedatectl": ("timedatectl status", "timedatectl set-ntp no"),
    "hostnamectl": ("hostnamectl status", "hostnamectl set-hostname x"),
    "ifconfig": ("ifconfig eth0", "ifconfig eth0 down"),
    "route": ("route -n", "route del default"),
    "journalctl": ("journalctl -n 20", "journalctl --vacuum-time=1s"),
    "rm": ("rm a", "rm -r --no-preserve-root /x"),
    "vim": ("vim +12 a.py", "vim -c ':!id' a.py"),
    "zip": ("zip -r a.zip src", "zip -T -TT 'sh x' a.zip src"),
    "pre-commit": ("pre-commit run", "pre-commit install"),
    "husky": ("husky version", "husky install"),
    "lefthook": ("lefthook run x", "lefthook install"),
    "overcommit": ("overcommit --run", "overcommit --install"),
    "git-lfs": ("git-lfs ls-files", "git-lfs install"),
    "simple-git-hooks": (None, "simple-git-hooks"),
    "uvx": (None, "uvx black ."),
    "mvn": ("mvn -q test", "mvn deploy"),
    "flutter": ("flutter test", "flutter pub get"),
    "calife": (None, "sudoedit version"),
    "flyway": ("flyway info", "flyway clean"),
    "dpkg": ("dpkg -l", "dpkg -i a.deb"),
    "apt": ("apt list", "apt install x"),
    "rpm": ("rpm -qa", "rpm -i a.rpm"),
    "pacman": ("pacman -Q", "pacman -S x"),
    "apk": ("apk info", "apk add x"),
    "brew": ("brew list", "brew install x"),
    "snap": ("snap list", "snap install x"),
    "flatpak": ("flatpak list", "flatpak install x"),
    "dnf": ("dnf list", "dnf install x"),
    "yum": ("yum list", "yum install x"),
    "terraform": ("terraform validate", "terraform apply"),
    "helm": ("helm lint .", "helm upgrade x ."),
    "direnv": ("direnv status", "direnv allow"),
    "mise": ("mise ls", "mise trust"),
    "rtx": ("rtx ls", "rtx install x"),
    "asdf": ("asdf list", "asdf install x"),
    "dvc": ("dvc status", "dvc push"),
    "ollama": ("ollama list", "ollama pull x"),
    "wandb": ("wandb status", "wandb login"),
    "history": ("history 5", "history -c"),
    "ssh-keygen": ("ssh-keygen -lf a.pub", "ssh-keygen -t ed25519"),
    "gpg": ("gpg --verify a.sig a", "gpg --export-secret-keys"),
    "docker": ("docker ps -a", "docker --context x ps"),
    "docker-compose": ("docker-compose ps", "docker-compose up"),
    "pegboard": ("pegboard doctor", "pegboard grant x"),
    "tmux": ("tmux ls", "tmux new-session id"),
    "screen": ("screen -ls", "screen -dm id"),
    "vagrant": ("vagrant version", "vagrant up"),
    "notify-send": ("notify-send --version", "notify-send x"),
    "ssh": (None, "ssh -o ProxyCommand=./x localhost"),
    "scp": (None, "scp -o ProxyCommand=./x a localhost:"),
    "openssl": ("openssl dgst -sha256 a", "openssl s_client -connect localhost:1"),
    "osascript": (None, "osascript a.scpt"),
    "dart": ("dart a.dart", "dart pub get"),
    "swift": ("swift a.swift", "swift package update"),
    "go": ("go env", "go env -w GOPROXY=x"),
    "git branch": ("git branch -a", "git branch -D x"),
    "git checkout": ("git checkout -b x", "git checkout ."),
    "git checkout-index": ("git checkout-index -a --prefix=out/", "git checkout-index -af"),
    "git repack": ("git repack -ad", "git repack -ad --unpack-unreachable=now"),
    "git submodule": ("git submodule deinit x", "git submodule deinit -f x"),
    "git reset": ("git reset HEAD a", "git reset --hard"),
    "git read-tree": ("git read-tree HEAD", "git read-tree --reset -u HEAD"),
    "git stash": ("git stash list", "git stash drop"),
    "git tag": ("git tag v1", "git tag -d v1"),
    "git reflog": ("git reflog", "git reflog expire --all"),
    "git gc": ("git gc", "git gc --prune=now"),
    "git prune": (None, "git update-ref -d refs/heads/x"),
    "git symbolic-ref": ("git symbolic-ref HEAD", None),
    "git archive": ("git archive HEAD", "git archive --remote=x HEAD"),
    "git maintenance": ("git maintenance run", "git maintenance start"),
    "git lfs": ("git lfs ls-files", "git lfs pull"),
    "git remote": ("git remote -v", "git remote update"),
    "git worktree": ("git worktree list", "git worktree remove --force x"),
    "git push": (None, "git push --force"),
}


def test_no_program_stands_in_two_rows() -> None:
    names = [(section == "git", name) for section, name, _ in ROWS]

    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_every_row_can_be_read_and_names_a_rule_that_is_there() -> None:
    specs = [spec_of(name) for section, name, _ in ROWS if section != "git"]
    commands = [subcommand("git", name) for section, name, _ in ROWS if section == "git"]

    assert {spec.rule for spec in specs if spec} <= {"row", *RULES}
    assert None not in specs
    assert None not in commands


def test_each_row_with_conditions_has_an_example_that_passes_and_one_that_does_not() -> None:
    conditional = [
        ("git " if section == "git" else "") + key.split()[0] for section in (*SECTIONS, "git")
        for key, row in facts()[section].items() if isinstance(row, dict) and row.keys() & {"when", "answers"}
    ]  # fmt: skip

    assert sorted(EXAMPLES) == sorted(conditional)


@pytest.mark.parametrize(("passes", "asks"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_conditions_part_what_passes_from_what_does_not(
    passes: str | None, asks: str | None, tmp_path: Path
) -> None:
    answers = [judge(c, tmp_path, home="/home/u").decision == "allow" for c in (passes, asks) if c]

    assert answers == [answer for command, answer in ((passes, True), (asks, False)) if command]


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        # What the managers' own documents name: the registry, its index, where the files lie.
        ("pip install x", ["pypi.org", "files.pythonhosted.org"]), ("pip3.11 download x", ["pypi.org", "files.pythonhosted.org"]),
        ("uv add x", ["pypi.org", "files.pythonhosted.org"]), ("poetry install", ["pypi.org", "files.pythonhosted.org"]),
        ("npm ci", ["registry.npmjs.org"]), ("yarn", ["registry.npmjs.org"]), ("pnpm add x", ["registry.npmjs.org"]),
        ("cargo fetch", ["crates.io", "index.crates.io", "static.crates.io"]), ("go get x", ["proxy.golang.org", "sum.golang.org"]),
        ("gem install x", ["rubygems.org", "index.rubygems.org"]), ("bundle install", ["rubygems.org", "index.rubygems.org"]),
        ("composer require x/y", ["packagist.org", "repo.packagist.org"]), ("mix deps.get", ["hex.pm"]),
        ("dotnet restore", ["api.nuget.org"]), ("conda install x", ["conda.anaconda.org"]), ("deno add x", ["jsr.io"]),
        ("stack update", ["hackage.haskell.org"]), ("luarocks install x", ["luarocks.org"]), ("opam update", ["opam.ocaml.org"]),
        ("pod install", ["cdn.cocoapods.org"]), ("pip install --no-index x", []), ("go mod init x", []), ("uv pip list", []),
    ],
)  # fmt: skip
def test_a_package_manager_connects_to_its_own_hosts(command: str, hosts: list[str], tmp_path: Path) -> None:
    assert [e.target for e in judge(command, tmp_path).effects if e.kind == "connect"] == hosts


@pytest.mark.parametrize(
    ("command", "effects"),
    [
        ("tar -xf a.tar -C out", ["read a.tar", "write out"]), ("tar -cf a.tar -C src x", ["write a.tar", "read src", "read src/x"]),
        ("unzip a.zip -d out", ["read a.zip", "write out"]), ("flock a.lock rm b", ["write a.lock", "delete b"]),
        ("head -50", []), ("vim +12 a.py", ["write a.py"]), ("less +5 a", ["read a"]), ("watch -n 5 cat a", ["read a"]), ("hyperfine -p 'rm -f a' 'cat b'", ["delete a", "read b"]),
        ("scp a h.example:b", ["connect h.example", "read a"]), ("wget -O out http://localhost/x", ["write out", "connect localhost"]),
        ("curl -d @a http://localhost:1/", ["read a", "connect localhost:1"]), ("parallel gzip ::: a", ["write a", "delete a"]),
        ("script -qc 'rm a' log", ["delete a", "write log"]), ("rsync -a src/ out", ["read src", "write out"]),
    ],
)  # fmt: skip
def test_rows_give_the_effects_of_each_option_and_operand(
    command: str, effects: list[str], tmp_path: Path
) -> None:
    assert [str(e) for e in judge(command, tmp_path).effects if e.kind != "exec"] == effects


def test_a_rule_about_find_covers_no_program_that_it_does_not_know(tmp_path: Path) -> None:
    effects = judge("find . -name x -exec sh -c 'mytool \"$1\"' _ {} \\;", tmp_path).effects

    assert any(effect.decisive for effect in effects if effect.argv and effect.argv[0] == "find")


def test_a_program_whose_name_has_two_values_is_judged_as_both(tmp_path: Path) -> None:
    programs = [e.argv[0] for e in judge("for p in echo rm; do $p x; done", tmp_path).effects if e.argv]

    assert programs == ["echo", "rm"]


@pytest.mark.parametrize(
    ("command", "decisive"),
    [
        ("vim -c ':!id' a", (":!id",)), ("less '+!id' a", ("+!id",)), ("gdb ./x", ("gdb",)), ("hash -p ./x git", ("\0",)),
        ("ssh -o ProxyCommand=./x h", ("ProxyCommand=./x",)), ("git mergetool", ("mergetool",)), ("kill -9 -1", ()),
    ],
)  # fmt: skip
def test_the_word_that_decides_what_runs_is_named(
    command: str, decisive: tuple[str, ...], tmp_path: Path
) -> None:
    assert judge(command, tmp_path).effects[-1].decisive == decisive


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("git branch -a", True), ("git branch x", False), ("git stash list", True), ("git archive -o a.tar HEAD", False),
        ("kill -l 1", True), ("kill 4242", False), ("gpg --verify a.sig a", True), ("git reflog", True), ("docker", True),
    ],
)  # fmt: skip
def test_a_condition_says_whether_a_command_only_reads(command: str, reads: bool, tmp_path: Path) -> None:
    assert judge(command, tmp_path).read_only is reads
