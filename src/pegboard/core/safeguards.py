"""Safeguards: what a pipeline keeps an eye on beside the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pegboard.core.values import record

if TYPE_CHECKING:
    from pegboard.core.budgets import Meter
    from pegboard.core.novelty import FirstUses
    from pegboard.core.placeholders import Placeholders
    from pegboard.core.secrets import SecretHandles
    from pegboard.core.taint import TaintTracker


@record(kw_only=True)
class Guards:
    """The parts; each may be missing.

    Attributes:
        taints: what sessions hold, and what may follow.
        secrets: what `secret://NAME` stands for.
        placeholders: what confined commands see instead of a secret's value; None where no egress proxy
            could put the value in.
        meter: budgets.
        novelty: what was done before in the workspace; None = questions do not say.
        environment: the sandbox's backend and the names of the variables that commands see; part of
            what an approval is bound to (decisions 5).
    """

    taints: TaintTracker | None = None
    secrets: SecretHandles | None = None
    placeholders: Placeholders | None = None
    meter: Meter | None = None
    novelty: FirstUses | None = None
    environment: tuple[str, ...] = ()


NO_SAFEGUARDS: Final = Guards()
