"""The person at the terminal, as a port: answers `ask_user`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from pegboard.cli.approve import approver_for
from pegboard.cli.model_setup import accept_server
from pegboard.cli.options import Options
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, note_of, paint, print_line
from pegboard.core.call.call import new_id
from pegboard.core.policy.approval import Waiting
from pegboard.ports.people import Question, waiting_for
from pegboard.services.runtime import Interaction


class TerminalPeople:
    """Asks on the terminal."""

    async def ask(self, questions: Sequence[Question]) -> Sequence[str] | Waiting:
        """The answers in order; Waiting where the person does not answer in time."""
        answers: list[str] = []
        for question in questions:
            print_line(paint(f"\n? {escape_controls(question.text)}", "bold"))
            for number, option in enumerate(question.options, 1):
                print_line(f"  {number}. {escape_controls(option)}")
            try:
                line = await asyncio.wait_for(read_line("> "), question.timeout_s)
            except TimeoutError:
                line = None
            if line is None:
                return waiting_for(questions, new_id("q"))
            answers.append(chosen(line.strip(), question))
        return answers


def chosen(line: str, question: Question) -> str:
    """The option that a number names, several for `1,3` where that is allowed, else the line itself."""
    numbers = [p.strip() for p in line.split(",")]
    if not question.options or not all(n.isdigit() and 1 <= int(n) <= len(question.options) for n in numbers):
        return line
    if len(numbers) > 1 and not question.multi_select:
        return line
    return ", ".join(question.options[int(n) - 1] for n in numbers)


def people_for(options: Options) -> list[Any]:
    """Who answers questions: the person at the terminal, or nobody."""
    return [TerminalPeople()] if sys.stdin.isatty() and not options.json else []


def interaction_for(options: Options, *, on_ask: str = "deny") -> Interaction:
    """Who takes part in a command: the person at the terminal, `--yes`, or nobody.

    Raises:
        BuildError: `--on-ask` is neither deny nor suspend.
    """
    return Interaction(
        approver=approver_for(options, on_ask=on_ask),
        people=people_for(options),
        notify=note_of,
        accept_server=accept_server if options.attended else None,
    )
