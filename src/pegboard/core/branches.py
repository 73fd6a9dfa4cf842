"""Branches: which form of a union a value was most likely meant to have, so that a model reads of one and not of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class BranchError(NamedTuple):
    """One thing that does not fit in one branch.

    Attributes:
        steps: keys and indexes that lead to it; those of a missing field end in its name.
        choice: the value is none of some listed ones, as a discriminator of another branch is.
    """

    steps: tuple[int | str, ...]
    choice: bool = False


def closest_branch(base: tuple[int | str, ...], branches: Sequence[Sequence[BranchError]]) -> int | None:
    """The branch that the value at `base` fits best.

    By its discriminator where it has one (no listed value of a field directly below is missed), else the
    one with the fewest faults. None where every branch wants another kind of value altogether: then each
    says in a word what it wants, and all are worth reading.
    """
    depth = len(base)
    if len(branches) > 1 and all(len(f.steps) <= depth for faults in branches for f in faults):
        return None

    def distance(index: int) -> tuple[bool, int, int]:
        faults = branches[index]
        another_kind = any(len(f.steps) <= depth for f in faults)
        missed = sum(f.choice and len(f.steps) == depth + 1 for f in faults)
        return another_kind, missed, len(faults)

    return min(range(len(branches)), key=distance)


def closest_branch_note(count: int) -> str:
    """What stands before the faults of the nearest of `count` branches."""
    return f"fits none of its {count} forms; only the nearest is explained"
