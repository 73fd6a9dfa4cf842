"""A git remote is the host of the URL that it has now (ledger G-18)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pegboard import Executor, builtin
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.shell.guard import judge
from pegboard.shell.guard.remotes import host_of_remote, without_credentials


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "origin", "https://github.com/me/calc.git")
    git(tmp_path, "remote", "add", "work", "ssh://git@git.work.example:2222/calc")
    return tmp_path


def reached(command: str, folder: Path) -> list[tuple[str, str]]:
    return [(e.target, e.bound) for e in judge(command, folder).effects if e.kind == "connect"]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://github.com/me/calc.git", "github.com"),
        ("https://me:secret@host.example:8443/x", "host.example:8443"),
        ("http://host.example/x", "host.example"),
        ("git@github.com:me/calc.git", "github.com:22"),
        ("ssh://git@host.example/x", "host.example:22"),
        ("ssh://git@host.example:2222/x", "host.example:2222"),
        ("git://host.example/x", "host.example:9418"),
        ("/srv/calc.git", ""),
        ("../calc.git", ""),
        ("file:///srv/calc.git", ""),
    ],
)
def test_the_host_of_a_remotes_url(url: str, host: str) -> None:
    assert host_of_remote(url) == host
    assert "secret" not in without_credentials(url)


CALC = ("github.com", "https://github.com/me/calc.git")
WORK = ("git.work.example:2222", "ssh://git.work.example:2222/calc")


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("git push origin main", [CALC]),
        ("git push", [CALC]),
        ("git push -o ci.skip --force-with-lease origin main", [CALC]),
        ("git -C . fetch", [CALC]),
        ("git pull --rebase", [CALC]),
        ("git push work main", [WORK]),
        ("git push --repo=work", [WORK]),
        ("git fetch --all", [CALC, WORK]),
        ("git push https://u:p@other.example/x.git main", [("other.example", "https://other.example/x.git")]),
        ("git clone git@other.example:me/x.git", [("other.example:22", "git@other.example:me/x.git")]),
    ],
)
def test_a_command_names_the_hosts_of_the_remotes_that_it_reaches(
    repository: Path, command: str, places: list[tuple[str, str]]
) -> None:
    assert reached(command, repository) == places
    assert judge(command, repository).decision == "ask"


def test_urls_are_those_that_git_would_use(repository: Path) -> None:
    git(repository, "remote", "set-url", "--push", "origin", "https://push.example/x.git")
    git(repository, "config", "branch.main.pushRemote", "work")
    git(repository, "config", "url.https://mirror.example/.insteadOf", "https://github.com/")

    assert reached("git push origin", repository) == [("push.example", "https://push.example/x.git")]
    assert reached("git push", repository) == [WORK]
    assert reached("git fetch origin", repository) == [
        ("mirror.example", "https://mirror.example/me/calc.git")
    ]


@pytest.mark.parametrize(
    "command", ["git push nowhere", 'git push "$remote" main', "cd /elsewhere && git push"]
)
def test_a_remote_that_is_not_known_is_bound_to_the_whole_command(repository: Path, command: str) -> None:
    ((target, bound),) = reached(command, repository)

    assert target == "git remote" and bound.startswith("this command sha256:")


def test_a_remote_on_this_machine_is_a_path(repository: Path) -> None:
    git(repository, "remote", "set-url", "origin", "/srv/calc.git")
    effects = judge("git push origin main", repository).effects

    assert [(e.kind, e.target) for e in effects if e.kind != "exec"] == [("write", "/srv/calc.git")]


async def test_an_always_ends_when_the_remote_leads_elsewhere(repository: Path) -> None:
    asked: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> str:
        asked.append(request)
        return "always"

    async def decision(command: str) -> str:
        return (await executor.preview("exec", {"command": command})).decision

    async with Executor(builtin("exec"), workspace=repository, approver=approver) as executor:
        await executor.call("exec", {"command": "git push origin main"})
        same = await decision("git push origin main")
        other_remote = await decision("git push work main")
        for url in ("https://other.example/me/calc.git", "https://github.com/you/calc.git"):
            git(repository, "remote", "set-url", "origin", url)
            assert await decision("git push origin main") == "ask"

    shown = next(e for e in asked[0].effects if e.kind == "connect")
    assert "https://github.com/me/calc.git" in shown.reason
    assert (len(asked), same, other_remote) == (1, "allow", "ask")
