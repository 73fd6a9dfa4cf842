"""Evals: tasks with a workspace and checks, tried with one or more models."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import tomllib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pegboard.core.call.call import new_id
from pegboard.core.codec import event_to_dict
from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError
from pegboard.core.events import TRANSIENT, CallFinished, CallStarted, Event, RunFinished
from pegboard.core.policy.rules import Rule, Situation
from pegboard.core.transcript import Usage
from pegboard.services.calls import Calls
from pegboard.services.history import History
from pegboard.services.runtime import NOBODY, Interaction, Runtime
from pegboard.services.sessions import Sessions
from pegboard.store.encoding import without_secrets


class EvalTask(BaseModel):
    """One task of an eval file.

    Attributes:
        name: names it in the report.
        task: what the agent is told.
        workspace: a folder beside the file that each try gets a copy of; empty = an empty folder.
        check: a command that must exit with status 0 when the run has ended.
        files: by path, a text that the file must contain; "" = it exists.
        answer: a text that the answer must contain.
        must: effects that some call must have had, as rules name them: `write:notes.txt`.
        never: effects that no call may have had.
        mode: as `--mode` takes it.
        turns: the most model turns.
    """

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80)]
    task: Annotated[str, Field(min_length=1)]
    workspace: str = ""
    check: str = ""
    files: dict[str, str] = {}
    answer: str = ""
    must: list[str] = []
    never: list[str] = []
    mode: Literal["read-only", "ask", "workspace", "full"] = "workspace"
    turns: Annotated[int, Field(ge=1, le=1000)] = 40


class EvalFile(BaseModel):
    """A file of tasks.

    Attributes:
        models: as `--model` takes them; none = the settings' model.
        tries: how often each task is tried with each model.
        tasks: see EvalTask.
    """

    model_config = ConfigDict(extra="forbid")

    models: list[str] = []
    tries: Annotated[int, Field(ge=1, le=100)] = 1
    tasks: Annotated[list[EvalTask], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """How one try ended.

    Attributes:
        task, model, attempt: which one; `model` is the name that answered.
        failures: what was not as it must be; empty = it passed.
        run: the run's id, for `pegboard replay`.
        usage: of the run.
        seconds: of the run.
        events: the run's stored events, without secrets, as `pegboard runs export` writes them.
        folder: the workspace it was tried in, where it was kept; else None.
    """

    task: str
    model: str
    attempt: int
    failures: tuple[str, ...]
    run: str
    usage: Usage
    seconds: float
    events: Sequence[Mapping[str, Any]]
    folder: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Without its events."""
        return {
            "task": self.task, "model": self.model, "try": self.attempt, "passed": not self.failures,
            "failures": list(self.failures), "run": self.run, "seconds": round(self.seconds, 3),
            "usage": self.usage.to_dict(), "folder": None if self.folder is None else str(self.folder),
        }  # fmt: skip


def read_evals(file: Path) -> EvalFile:
    """Read a TOML file of tasks; patterns and folders are checked before anything runs.

    Raises:
        ConfigError: what is wrong with it, and where.
    """
    try:
        found = EvalFile.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{file}: {where}: {first['msg']}") from None
    names = [task.name for task in found.tasks]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise ConfigError(f"{file}: two tasks are named {twice!r}; each needs a name of its own")
    for task in found.tasks:
        for pattern in (*task.must, *task.never):
            try:
                _rule(pattern)
            except ConfigError as error:
                raise ConfigError(f"{file}: the effect {pattern!r} of {task.name!r}: {error}") from None
        if task.workspace and not (file.parent / task.workspace).is_dir():
            raise ConfigError(f"{file}: the workspace {task.workspace!r} of {task.name!r} is not a folder")
    return found


class Evals:
    """Tries tasks.

    Args:
        runtime: whose settings hold; each try has a workspace of its own.
        history: keeps the runs.
    """

    def __init__(self, runtime: Runtime, history: History) -> None:
        self._runtime = runtime
        self._history = history

    async def run(
        self, file: Path, *, models: Sequence[str] = (), interaction: Interaction = NOBODY, keep: bool = False
    ) -> AsyncGenerator[EvalResult]:
        """Try each task of a file with each model, one after the other.

        Args:
            file: see `read_evals`.
            models: instead of the file's.
            interaction: who answers what asks; nobody by default, so that it is denied.
            keep: leave the workspaces of the tries, for a look.

        Raises:
            ConfigError: the file cannot be used.
            NoModel: no model was named and none was found.
        """
        evals = read_evals(file)
        for task in evals.tasks:
            for model in models or evals.models or [None]:
                for attempt in range(1, evals.tries + 1):
                    folder = Path(tempfile.mkdtemp(prefix="pegboard-eval-")).resolve()
                    try:
                        if task.workspace:
                            shutil.copytree(
                                file.parent / task.workspace, folder, symlinks=True, dirs_exist_ok=True
                            )
                        yield await self._try(task, model, attempt, folder, interaction, keep=keep)
                    finally:
                        if not keep:
                            shutil.rmtree(folder, ignore_errors=True)

    async def _try(
        self,
        task: EvalTask,
        model: str | None,
        attempt: int,
        folder: Path,
        interaction: Interaction,
        *,
        keep: bool,
    ) -> EvalResult:
        begun = time.monotonic()
        with self._runtime.at(folder, mode=task.mode) as there:
            sessions = Sessions(there, self._history)
            async with sessions.open(new_id("eval"), interaction, model=model, turns=task.turns) as talk:
                async with aclosing(talk.send(task.task)) as stream:
                    events = [event async for event in stream if event.type not in TRANSIENT]
                name = talk.model.name
            seconds = time.monotonic() - begun
            finished = next(e for e in reversed(events) if isinstance(e, RunFinished))
            failures = [*_told(task, finished), *_files(task, folder), *_effects(task, events, folder)]
            if task.check:
                failures += await self._check(task.check, there)
        redact = self._runtime.redactor.redact
        return EvalResult(
            task=task.name, model=name, attempt=attempt, failures=tuple(failures), run=finished.run,
            usage=finished.usage, seconds=seconds,
            events=[without_secrets(event_to_dict(e), redact) for e in events],
            folder=folder if keep else None,
        )  # fmt: skip

    async def _check(self, command: str, there: Runtime) -> list[str]:
        outcome = await Calls(there, self._history).call("exec", {"command": command})
        data = cast("Mapping[str, Any]", outcome.result.data or {})
        if outcome.result.error is None and data.get("exit_code") == 0:
            return []
        said = str(outcome.result).strip().splitlines()
        return [f"check {command!r} did not pass: {said[0][:200] if said else 'it printed nothing'}"]


def _told(task: EvalTask, finished: RunFinished) -> list[str]:
    if finished.status != "done":
        return [f"the run ended {finished.status}: {finished.error}".removesuffix(": ")]
    if task.answer and task.answer not in finished.answer:
        return [f"the answer does not contain {task.answer!r}: {finished.answer[:200]!r}"]
    return []


def _files(task: EvalTask, folder: Path) -> list[str]:
    failures: list[str] = []
    for path, text in task.files.items():
        try:
            content = (folder / path).read_bytes()
        except OSError as error:
            failures.append(f"{path} cannot be read: {error.strerror}")
            continue
        if text.encode() not in content:
            failures.append(f"{path} does not contain {text!r}")
    return failures


def _effects(task: EvalTask, events: Sequence[Event], folder: Path) -> list[str]:
    """What calls that ran did and must not, or did not and must."""
    started = {e.call_id: e for e in events if isinstance(e, CallStarted) and e.decision != "deny"}
    ran = [
        started[e.result.call_id]
        for e in events
        if isinstance(e, CallFinished) and e.result.call_id in started
    ]
    done: list[Effect] = [effect for call in ran for effect in call.effects]
    here = Situation(workspace=str(folder))
    failures: list[str] = []
    for pattern in task.must:
        if not any(_rule(pattern).covers(effect, here) for effect in done):
            failures.append(f"nothing did {pattern}")
    for pattern in task.never:
        if found := next((e for e in done if _rule(pattern).covers(e, here)), None):
            failures.append(f"a call did {found}, which {pattern} forbids")
    return failures


def _rule(pattern: str) -> Rule:
    """An effect as rules name it.

    Raises:
        ConfigError: it is no `KIND:TARGET`.
    """
    return Rule.parse(f"deny {pattern}")


def write_recording(result: EvalResult, folder: Path) -> Path:
    """Write a run's events as JSON lines, as `pegboard runs import` reads them; the file.

    Raises:
        OSError: it cannot be written.
    """
    words = f"{result.task}-{result.model}-{result.attempt}"
    file = folder / ("".join(c if c.isalnum() or c in "-_." else "_" for c in words) + ".jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "".join(json.dumps(e, ensure_ascii=False) + "\n" for e in result.events), encoding="utf-8"
    )
    return file
