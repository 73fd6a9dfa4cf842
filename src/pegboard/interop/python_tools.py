"""Tools of the user's own Python files and modules, named as `my_tools.py`, `package.module` or either with `:NAME`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pegboard.core.errors import BuildError, ConfigError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, as_tool, import_object
from pegboard.tools import TOOLS


def local_tools(target: str) -> Toolkit | None:
    """The tools of a name: a built-in one, or see `python_tools`; None where it is none."""
    if target in TOOLS:
        return Toolkit([import_object(TOOLS[target])])
    return python_tools(target)


def python_tools(place: str, *, sha256: str = "") -> Toolkit | None:
    """The tools of `module`, `module:name` or `file.py[:name]`; None where no such module is installed.

    Args:
        place: what is named. A name may be a tool, a function, a Toolkit or a list; without one all tools that the
            module makes count.
        sha256: of the file's bytes as they were trusted; empty = whatever it is now.

    Raises:
        ConfigError: there is no such file or name, it cannot be imported (with its line), it has changed since it
            was trusted, or holds no tools.
    """
    where, _, attribute = place.partition(":")
    module = _file_module(Path(where), sha256) if where.endswith(".py") else _installed(where)
    if module is None:
        return None
    if attribute:
        found = getattr(module, attribute, None)
        if found is None:
            raise ConfigError(f"{where} has no {attribute!r}")
        many = isinstance(found, (Toolkit, list, tuple))
        return _kit(place, lambda: found if many else [as_tool(found)])
    kit = _kit(place, lambda: _tools_of(module))
    if not len(kit):
        raise ConfigError(f"{where} contains no tools; decorate one with @tool, or name one as {where}:NAME")
    return kit


def sha256_of(place: str) -> str:
    """The SHA-256 of the file behind `python_tools(place)`, empty where there is none."""
    where = place.partition(":")[0]
    file = where if where.endswith(".py") else getattr(sys.modules.get(where), "__file__", None) or ""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    except OSError:
        return ""


def _kit(place: str, things: Callable[[], Any]) -> Toolkit:
    try:
        return Toolkit(things())
    except BuildError as error:
        raise ConfigError(f"{place}: {error}") from error


def _file_module(path: Path, sha256: str) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"no file {path}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if sha256 and hashlib.sha256(source).hexdigest() != sha256:
        raise ConfigError(
            f"{path} has changed since it was trusted; look at it, then run: pegboard trust {path}"
        )
    # Not the bare name: a file called csv.py must not stand where others import csv.
    spec = importlib.util.spec_from_file_location(f"tools_in_{path.stem}", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Annotations of its functions are resolved through the table of modules.
    sys.modules[module.__name__] = module

    def load() -> ModuleType:
        # These very bytes: a cached .pyc beside the file is anybody's.
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
        return module

    try:
        return _run(str(path), load)
    except ConfigError:
        del sys.modules[module.__name__]  # It is half there.
        raise


def _installed(place: str) -> ModuleType | None:
    if not all(part.isidentifier() for part in place.split(".")):
        return None
    try:
        return _run(place, lambda: importlib.import_module(place))
    except ConfigError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and f"{place}.".startswith(f"{missing.name}."):
            return None
        raise


def _run(place: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Import the user's own module; what it prints is no part of a command's result.

    Raises:
        ConfigError: it fails, with the line of it that does.
    """
    name = place.removesuffix(".py").rpartition("/")[2]
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except (Exception, SystemExit) as error:  # Foreign code: what it raises is its fault and not ours.
        own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).stem == name]
        line = error.lineno if isinstance(error, SyntaxError) else own[-1].lineno if own else None
        where = f" (line {line})" if line else ""
        said = error.msg if isinstance(error, SyntaxError) else error
        raise ConfigError(f"{place} cannot be imported{where}: {type(error).__name__}: {said}") from error


def _tools_of(module: ModuleType) -> list[Any]:
    """What a module makes; tools of Pegboard's that it only imports are not its own."""
    unique: dict[int, Any] = {}
    for value in vars(module).values():
        if isinstance(value, type):
            ours = issubclass(value, Tool) and value is not Tool
        else:
            ours = isinstance(value, Tool) or hasattr(value, "to_tool")
        if ours and (module.__name__.startswith("pegboard.") or not _is_builtin(value)):
            unique[id(cast("object", value))] = value
    return list(unique.values())


def _is_builtin(value: Any) -> bool:
    made_in = value if isinstance(value, type) else getattr(value, "function", value)
    return str(getattr(made_in, "__module__", "")).startswith("pegboard.")
