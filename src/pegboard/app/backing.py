"""Where an agent's named sessions are kept: the command line's store, or one that the program names."""

from __future__ import annotations

from pathlib import Path

from pegboard.config.environment import secrets_of
from pegboard.config.paths import Paths, this_environment
from pegboard.core.secrets.redact import Redactor
from pegboard.runtime.session import Backing
from pegboard.store import open_store
from pegboard.store.chain import Chain


async def open_backing(where: str | Path | None, paths: Paths | None = None) -> Backing:
    """Open a store for sessions.

    Args:
        where: `sqlite:PATH` or a path; None = the command line's history, so that `pegboard runs` lists what is
            written, and replay, approvals and undo see it.
        paths: of this machine's settings and state.

    Raises:
        StoreError: it cannot be opened; nothing is kept in memory instead.
    """
    paths = paths or Paths.of()
    redact = Redactor(secrets_of(this_environment())).redact
    if where is None:
        store = await open_store(paths.state / "history.sqlite")
        return Backing(store=store, chain=Chain(key=paths.key(), heads=paths.config / "heads"), redact=redact)
    # The last records of another store are not noted beside this machine's: two stores may have a session of one name.
    return Backing(store=await open_store(where), chain=Chain(key=paths.key()), redact=redact)
