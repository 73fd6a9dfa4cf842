"""Boundary: what a command raises becomes one clear line and an exit status, never a traceback."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from pegboard.config.environment import environment
from pegboard.core.errors import BuildError, ModelError, PegboardError, ToolError

INTERRUPTED: Final = 128
"""Added to a signal's number, as shells do."""

_WITH_VALUE: Final = ("--workspace", "--mode", "--policy", "--config", "--tools-from")
_FLAGS: Final = ("--json", "--yes", "-y")


class NonEmptyGroup(TyperGroup):
    """Commands whose options are given or left out, never empty."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command.

        Raises:
            BuildError: an option of it is an empty text.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            _refuse_empty(command, ctx, name, rest)
        return name, command, rest


def _refuse_empty(command: Any, parent: Any, name: str | None, words: list[str]) -> None:
    """`--workspace "$UNSET"` must not mean the current folder."""
    context = command.context_class(command, info_name=name, parent=parent, **command.context_settings)
    try:
        given, _, _ = command.make_parser(context).parse_args(list(words))
    except _usage():
        return  # Told when the command itself reads them.
    for option in command.params:
        value = given.get(option.name)
        # No arguments are no mistake: `--args ""` is what a model sends for them.
        if (
            option.param_type_name == "option"
            and option.name != "args"
            and (value == "" or (isinstance(value, list) and "" in value))
        ):
            raise BuildError(
                f"{option.opts[0]} is empty; leave it out, or give it a value (is a variable not set?)"
            )


class RootGroup(NonEmptyGroup):
    """All commands behind one boundary.

    Exit status: 0 ok, 1 failed, 2 usage or settings, 3 denied, 4 suspended, 128 + signal where one ended it.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the options; the help is printed here already."""
        try:
            return super().make_context(*args, **kwargs)
        except _usage() as error:
            _shorten(error)
            raise
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(0) from None
        except OSError as error:
            _end_system(error)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; common ones may stand before the command too, as with git and docker."""
        return super().parse_args(ctx, _behind_command(self, ctx, list(args)))

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        with _ended_by() as signals:
            try:
                with _plain_streams():
                    return super().invoke(ctx)
            except BuildError as error:
                _end(error, 2)
            except PegboardError as error:
                _end(error, 1)
            except BrokenPipeError:
                # Whoever read our output has gone: no failure of ours.
                _drop_output()
                raise typer.Exit(0) from None
            except KeyboardInterrupt:
                number = signals[0] if signals else signal.SIGINT
                _say("interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}")
                raise typer.Exit(INTERRUPTED + number) from None
            except EOFError:
                _say("the input ended before an answer was given")
                raise typer.Exit(1) from None
            except OSError as error:
                _end_system(error)
            except _usage() as error:
                _shorten(error)
                raise
            except (typer.Exit, typer.Abort):
                raise
            except Exception as error:  # noqa: BLE001  The outermost boundary: people get a line, not a traceback.
                _end_unexpected(error)


def _behind_command(group: Any, ctx: Any, args: list[str]) -> list[str]:
    """The words with the common options that lead them put behind the command's name, where they are read."""
    at = 0
    while at < len(args):
        if args[at] in _FLAGS or args[at].startswith(tuple(f"{o}=" for o in _WITH_VALUE)):
            at += 1
        elif args[at] in _WITH_VALUE:
            at += 2
        else:
            break
    leading, rest = args[:at], args[at:]
    if leading and not rest:
        lacks = leading[-1] if at > len(args) else None
        wrong = f"Option '{lacks}' requires an argument." if lacks else "Missing command."
        raise _error_of("UsageError")(wrong, ctx=ctx)
    end = 0
    while end < len(rest) and isinstance(group, TyperGroup):
        group = group.get_command(ctx, rest[end])
        end += 1
    return rest[:end] + leading + rest[end:]


def _usage() -> type[Exception]:
    return _error_of("ClickException")


def _error_of(name: str) -> Any:
    """A class of the command line library under typer's, which has no name of its own for it."""
    return next(c for c in typer.BadParameter.__mro__ if c.__name__ == name)


def _shorten(error: Any) -> None:
    """What typer tells of a wrong option or command holds it whole."""
    from pegboard.cli.show import shorten_error
    from pegboard.core.secrets.redact import Redactor

    error.message = shorten_error(Redactor().redact(error.message)[0])
    if getattr(error, "option_name", None):
        error.option_name = shorten_error(error.option_name)


def _end(error: PegboardError, status: int) -> NoReturn:
    if isinstance(error, ToolError | ModelError):
        _say(error.message)
        if error.hint:
            _line(f"  {error.hint}")
    else:
        _say(str(error))
    raise typer.Exit(status) from None


def _end_unexpected(error: Exception) -> NoReturn:
    if environment().get("PEGBOARD_DEBUG"):
        traceback.print_exc()
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    _say(f"unexpected {type(error).__name__}: {error}{where}")
    _line("  This is a bug in Pegboard; please report it. PEGBOARD_DEBUG=1 shows the traceback.")
    raise typer.Exit(1) from None


def _end_system(error: OSError) -> NoReturn:
    _say(_system(error))
    if isinstance(error.filename, str) and (hint := _way_out(error.filename)):
        _line(f"  {hint}")
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    raise typer.Exit(1) from None


def _way_out(path: str) -> str:
    from pegboard.config.paths import Paths

    try:
        return Paths.of().recovery_hint(path)
    except PegboardError:
        return ""


def _drop_output() -> None:
    """What is buffered goes nowhere, else the interpreter would complain of it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        sys.stderr.flush()
    except OSError:
        # It went to the same reader (`2>&1`).
        os.dup2(nowhere, 2)


def _system(error: OSError) -> str:
    named = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{named}"


def _say(text: str) -> None:
    _line(f"pegboard: {text}")


def _line(text: str) -> None:
    from pegboard.cli.show import print_note, shorten_error
    from pegboard.core.secrets.redact import Redactor

    # An error says what was given; what looks like a key is no part of a message that goes into a log.
    try:
        print_note(shorten_error(Redactor().redact(text)[0]))
    except BrokenPipeError:
        # Nobody reads; the exit status says it all the same.
        _drop_output()


def complete_streams() -> None:
    """Let standard streams that were closed (`>&-`) lead nowhere: no file of ours may take their number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Gets the lowest free number, which is this one.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


@contextmanager
def _plain_streams() -> Generator[None]:
    """A character that the terminal's encoding lacks is shown escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    yield
    # Here, not at the interpreter's end, so that a closed pipe is met inside the boundary.
    sys.stdout.flush()


@contextmanager
def _ended_by() -> Generator[list[int]]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, so that what it started ends too; the numbers got."""
    got: list[int] = []

    def handle(number: int, _: Any) -> None:
        got.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A script's background job is started so; it must end all the same when it is told to.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            # One that is ignored (nohup) stays so.
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, handle)
    except ValueError:
        pass  # Not in the main thread: signals are the host program's.
    try:
        yield got
    finally:
        for number, old in before.items():
            signal.signal(number, old)
