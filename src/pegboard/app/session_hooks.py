"""SessionHooks: what hooks say to one run of an agent: to its prompt, its end and the shortening of its context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pegboard.core.errors import PermissionDenied
from pegboard.core.events import Notice, Recorder
from pegboard.core.policy.taint import HOOKED

if TYPE_CHECKING:
    from pegboard.core.result import Shaper
    from pegboard.interop.hooks import Hooks

PROMPTERS: Final = ("user", "stdin", "channel")
"""Who writes prompts: people, typing or in a chat, and pipes; see `InboundMessage.by`."""

MAX_STOPS: Final = 5
"""How often in a row the hooks of Stop may let a run go on."""


class SessionHooks:
    """The hooks of an executor, around one run.

    Args:
        hooks: which.
        shaper: takes secrets and control sequences out of what they say.
        session, run: of the run.
    """

    def __init__(self, hooks: Hooks, shaper: Shaper, session: str, run: str) -> None:
        self._hooks = hooks
        self._shaper = shaper
        self._session = session
        self._run = run
        self._stops = 0

    async def prompt(self, task: str, recorder: Recorder, *, known: bool, prompted: bool) -> str:
        """The prompt with what the hooks of SessionStart (SubagentStart) and UserPromptSubmit add to it.

        Args:
            task: empty where a run is resumed, which has no new prompt.
            recorder: is told of a refusal.
            known: the session has had a run before.
            prompted: it came from outside, and not from another agent or a schedule.

        Raises:
            PermissionDenied: a hook refuses the prompt.
        """
        source = "resume" if known or not task else "startup"
        begun = await self._hooks.begin(self._session, source=source, run=self._run)
        if not task:
            return task
        if not prompted:
            return self._with(task, begun.context)
        fields = {"prompt": task, "message": task}
        said = await self._hooks.on_session("UserPromptSubmit", self._session, fields, run=self._run)
        if said.decision == "deny":
            why = self._clean(f"{said.by} refused the prompt: {said.reason}")
            recorder.record(Notice(text=why, detail={"hook": said.by}))
            raise PermissionDenied(why, hint="Change the prompt as the reason says.", details={"by": said.by})
        return self._with(task, (*begun.context, *said.context))

    async def before_stop(self, answer: str) -> str:
        """What a hook of Stop has the run go on with; empty where it may end."""
        fields = {"last_assistant_message": answer, "stop_hook_active": self._stops > 0}
        said = await self._hooks.end(self._session, fields, run=self._run)
        if said.decision != "deny":
            return ""
        if self._stops >= MAX_STOPS:
            self._hooks.on_warning(f"{said.by} asked {MAX_STOPS} times to go on; the run ends all the same")
            return ""
        self._stops += 1
        return f"{said.by} asks to go on before this ends:\n\n{self._clean(said.reason)}"

    async def before_compact(self) -> None:
        """PreCompact; the hooks cannot prevent it, because the request would not fit."""
        fields = {"trigger": "auto", "custom_instructions": ""}
        await self._hooks.on_session("PreCompact", self._session, fields, matched="auto", run=self._run)

    def _with(self, text: str, said: tuple[str, ...]) -> str:
        return f"{text}{HOOKED}{self._clean(chr(10).join(said))}\n</hook>" if said else text

    def _clean(self, said: str) -> str:
        """What a hook says, without secrets and control sequences, and not longer than a message may be."""
        return self._shaper.shape(said, call_id="", tool="", max_chars=10_000).text
