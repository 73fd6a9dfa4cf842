"""LlamaProcess: our handle on the child process that serves a GGUF model."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final

from pegboard.core.errors import ModelError

CONTEXT_TOKENS: Final = 8192
START_TIMEOUT_S: Final = 300.0
_GRACE_S: Final = 2.0


class LlamaProcess:
    """A llama.cpp server in a child process, on a random loopback port, behind a random token.

    The child ends when `aclose` is called, when our end of its standard input is closed, and
    when this process dies.
    """

    def __init__(self, process: subprocess.Popen[bytes], url: str, token: str) -> None:
        self._process = process
        self.url = url
        self.token = token

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @classmethod
    async def start(
        cls, path: Path, *, context: int = CONTEXT_TOKENS, timeout_s: float = START_TIMEOUT_S
    ) -> LlamaProcess:
        """Load a model and serve it.

        Args:
            path: the GGUF file.
            context: tokens of context.
            timeout_s: seconds to load.

        Raises:
            ModelError: no such file, no GGUF file, llama.cpp is not installed, it cannot load the
                model or takes too long; nothing is left running.
        """
        _check(path)
        token = secrets.token_urlsafe(32)
        # The log goes to an unnamed file, so that a chatty server can neither block on a full
        # pipe nor hide why it did not start.
        with tempfile.TemporaryFile() as log:
            process = _spawn(log)
            try:
                # The token goes by pipe: arguments and environments can be read by others.
                order = {
                    "model": str(path.absolute()),
                    "token": token,
                    "context": context,
                    "alias": path.stem,
                    "parent": os.getpid(),
                }
                answer = await _ask(process, order, timeout_s)
                if "url" in answer:
                    return cls(process, str(answer["url"]), token)
            except BaseException:
                await _end(process)
                raise
            await _end(process)
            log.seek(max(0, log.seek(0, 2) - 2000))
            said = log.read().decode("utf-8", "replace").strip().splitlines()
        if answer.get("missing"):
            raise ModelError(
                f"llama.cpp is not installed: {answer['error']}", hint="pip install 'pegboard[gguf]'"
            )
        reason = answer.get("error") or (said[-1] if said else f"it ended with status {process.returncode}")
        raise ModelError(f"llama.cpp cannot load {path}: {reason}")

    async def aclose(self) -> None:
        """End the child."""
        await _end(self._process)


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    # Not asyncio's subprocess: the server may outlive the loop that started it. Spawned by this
    # thread itself, since the kernel ends the child with the thread that made it.
    return subprocess.Popen(
        [sys.executable, "-m", "pegboard.models.llama_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=_child_environment(),
        start_new_session=True,
    )


def _check(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(
            f"cannot read the model {path}: {error.strerror}",
            hint="Name a GGUF file: gguf:/path/to/model.gguf.",
        ) from error
    if magic != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file: it begins with {magic!r}")


def _child_environment() -> dict[str, str]:
    """What Python needs to find us again, and nothing else: no key reaches the child."""
    return {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PATH": os.defpath}


async def _ask(process: subprocess.Popen[bytes], order: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    try:
        async with asyncio.timeout(timeout_s):
            line = await asyncio.to_thread(_exchange, process, json.dumps(order).encode() + b"\n")
    except TimeoutError:
        raise ModelError(f"llama.cpp did not load {order['model']} within {timeout_s:g} s") from None
    try:
        return json.loads(line)
    except ValueError:
        return {}


def _exchange(process: subprocess.Popen[bytes], order: bytes) -> bytes:
    """Write one line and read one; ends early, with nothing, when the child dies."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(order)
        process.stdin.flush()
        return process.stdout.readline()
    except (OSError, ValueError):
        return b""


async def _end(process: subprocess.Popen[bytes], grace_s: float = _GRACE_S) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
    except OSError:
        pass
    try:
        await asyncio.to_thread(process.wait, grace_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
