"""What a command costs beside a bare `bash -c true`: unconfined, confined, in a git repository, with hosts.

Bubblewrap alone, with a minimal system and nothing protected, is measured too: no profile can cost less than that.

Floor and ours take turns in one process; the least of each counts, since a busy neighbour only ever adds.
Bars of issue 5: +1.5 ms unconfined, +20 ms confined, +60 ms with the egress bridge. `python bench/shell_bars.py`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from pegboard.ports.shell import ExecRequest
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import Confinement
from pegboard.shell.sandbox.selection import select_backend

Act = Callable[[], Awaitable[object]]
_BARE_SANDBOX = (
    "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
    "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--dev", "/dev", "--proc", "/proc",
    "--tmpfs", "/tmp",
)  # fmt: skip


async def main() -> None:
    """Print each bar beside what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="pegboard-bench-") as text:
        folder = Path(text).resolve()
        plain, repository = folder / "plain", folder / "repository"
        plain.mkdir()
        await asyncio.to_thread(_repository, repository)
        bare = ("bwrap", *_BARE_SANDBOX, "--bind", str(plain), str(plain), "--chdir", str(plain), "--")
        acts: dict[str, tuple[Act, float]] = {
            "bash -c true": (partial(_program), 0.0),
            "bare bwrap": (partial(_program, *bare), 0.0),
        }
        for name, backend, workspace, most, hosts in (
            ("unconfined", "none", plain, 1.5, ()),
            ("confined", "bubblewrap", plain, 20.0, ()),
            ("confined, in a git repository", "bubblewrap", repository, 20.0, ()),
            ("confined, with a granted host", "bubblewrap", plain, 60.0, ("a.example",)),
        ):
            shell = await _shell(folder / f"state-{len(acts)}", workspace, backend)
            acts[name] = (_command(shell, hosts), most)
        least = dict.fromkeys(acts, 10.0)
        for _ in range(rounds):
            for name, (act, _) in acts.items():
                begun = time.perf_counter()
                await act()
                least[name] = min(least[name], time.perf_counter() - begun)
    floor = least.pop("bash -c true")
    sandbox = least.pop("bare bwrap")
    print(
        f"floor: bash -c true {floor * 1e3:.2f} ms, in bare bwrap {sandbox * 1e3:.2f} ms, least of {rounds}\n"
    )
    print("| over the floor | ms | most | met | times bare bwrap |\n|---|---|---|---|---|")
    for name, took in least.items():
        more, most = (took - floor) * 1e3, acts[name][1]
        print(
            f"| {name} | {more:+.1f} | {most:g} | {'yes' if more <= most else 'NO'} | {took / sandbox:.2f} |"
        )


def _repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "a").write_text("a")
    subprocess.run(["git", "-C", str(folder), "add", "a"], check=True)


async def _program(*before: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *before, "bash", "-c", "true", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )  # fmt: skip
    await process.communicate()


def _command(shell: CommandShell, hosts: tuple[str, ...]) -> Act:
    async def act() -> None:
        done = await shell.run(ExecRequest(command="true", hosts=hosts))
        assert done.exit_code == 0, done

    return act


async def _shell(state: Path, workspace: Path, backend: str) -> CommandShell:
    path = os.environ.get("PATH", "/usr/bin:/bin")
    confinement = Confinement(workspace=workspace, state=state, search_path=path)
    choice = await select_backend(confinement, backend=backend)
    return CommandShell(workspace, backend=choice.backend, environment=dict(os.environ))


if __name__ == "__main__":
    asyncio.run(main())
