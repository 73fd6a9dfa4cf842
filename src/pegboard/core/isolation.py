"""Isolation: a tool's function that runs in a worker process, within limits of time and memory."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

from pegboard.core.errors import BuildError
from pegboard.core.schema.signature import Signature

WORKERS: Final = "_workers"
"""The name under which the function is given the Workers; no parameter of a tool begins so."""
MEMORY_MB: Final = 512


class Prepared(Protocol):
    """A call whose worker is ready."""

    async def run(self) -> Any:
        """What the function returns, as a ToolResult. Cancelling it kills the worker.

        Raises:
            TooLarge: it needed more memory than it may have, or returned too much.
            ToolError: as the function raised it.
            Exception: of the same name as what the function raised, with its traceback as the cause.
        """
        ...


class Workers(Protocol):
    """Runs functions in worker processes; the executor ends them."""

    async def prepare(self, function: IsolatedFunction, arguments: Mapping[str, Any]) -> Prepared:
        """Find or start a worker for a call.

        Raises:
            InvalidArguments: an argument cannot be passed to a process.
            InternalError: the worker cannot load the function.
            Unavailable: no worker was ready in time.
        """
        ...


class IsolatedFunction:
    """A function as the calls of an isolated tool run it.

    Attributes:
        function: the function itself.
        tool: the tool's name.
        memory_mb: what it may take beyond what its worker has after loading it.
        module, qualname: where a worker finds it.
        file: its source file, empty if there is none.
        sha256: of that file as it was loaded.
    """

    def __init__(self, function: Callable[..., Any], *, tool: str, memory_mb: int) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.tool = tool
        self.memory_mb = memory_mb
        self.module = cast(str, getattr(function, "__module__", None) or "")
        self.qualname = cast(str, getattr(function, "__qualname__", ""))
        self.file, self.sha256 = _source(self.module)

    async def prepared(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the function is called with once a worker is ready for these arguments."""
        given = dict(arguments)
        workers: Workers = given.pop(WORKERS)
        return {WORKERS: await workers.prepare(self, given)}

    async def __call__(self, *, _workers: Prepared) -> Any:
        return await _workers.run()


def isolate(
    function: Callable[..., Any], signature: Signature, *, tool: str, memory_mb: int | None
) -> IsolatedFunction:
    """The function for worker processes; the signature learns that it needs them.

    Raises:
        BuildError: a worker could not import the function, or it takes what stays in this process.
    """
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    where = f"tool {tool!r} is isolated, and its worker process imports the function by name"
    if not inspect.isfunction(function):
        raise BuildError(f"{where}, but {function!r} is not a plain function; write it with def in a module")
    if module == "__main__":
        raise BuildError(
            f"{where}, but it is defined in the program itself; move it into a module and import it"
        )
    if "<" in qualname:
        raise BuildError(
            f"{where}, but {qualname} is made inside another function; define it at the top of a module"
        )
    if signature.inject:
        named = ", ".join(signature.inject)
        raise BuildError(
            f"tool {tool!r} is isolated and takes Inject[…] ({named}), which stays in this process; pass it plain values"
        )
    if memory_mb is not None and not 16 <= memory_mb <= 1 << 20:
        raise BuildError(f"tool {tool!r}: memory_mb={memory_mb!r} is not between 16 and {1 << 20}")
    signature.inject = {WORKERS: Workers}
    return IsolatedFunction(function, tool=tool, memory_mb=memory_mb or MEMORY_MB)


def _source(module: str) -> tuple[str, str]:
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    try:
        with open(file, "rb") as source:
            return file, hashlib.sha256(source.read()).hexdigest()
    except OSError:
        return "", ""
