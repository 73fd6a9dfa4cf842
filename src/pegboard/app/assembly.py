"""assemble: puts the real files, shell and shaping behind an executor's ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.app.keeping import LazyArtifactSaver, artifacts_of
from pegboard.config.environment import environment as this_environment
from pegboard.config.environment import secrets_of
from pegboard.config.load import Config
from pegboard.config.paths import Paths, check_implicit
from pegboard.config.secrets import ConfiguredSecrets
from pegboard.core.call.call import PATH_RESOLVER, new_id
from pegboard.core.content import KEEPER
from pegboard.core.effects import Effect
from pegboard.core.policy.approval import Waiting
from pegboard.core.policy.budgets import Meter
from pegboard.core.policy.grants import MemoryGrants
from pegboard.core.policy.guards import Guards, StoredState
from pegboard.core.policy.rules import Situation
from pegboard.core.policy.taint import TaintTracker
from pegboard.core.result import Shaper, Spills
from pegboard.core.secrets.redact import Redactor
from pegboard.core.text import sanitise
from pegboard.ports.documents import Documents
from pegboard.ports.files import Files
from pegboard.ports.people import People, Question
from pegboard.ports.store import Store
from pegboard.store.grants import StoredGrants
from pegboard.store.provenance import StoredAccounts, StoredFirstUses, StoredProvenance
from pegboard.store.spills import SpillFolder

if TYPE_CHECKING:
    from pegboard.app.wiring import Wiring

MASKED = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".config/gh",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".netrc",
)
"""Below the home folder: what an explicit workspace that holds it still does not show (decisions 7)."""


def assemble(
    wiring: Wiring,
    needs: set[str],
    root: Path,
    *,
    implicit: bool,
    paths: Paths | None = None,
    config: Config | None = None,
    store: Callable[[], Store] | None = None,
    redactor: Redactor | None = None,
) -> None:
    """Build what a kit's tools need over the workspace `root`.

    Raises:
        ConfigError: the current folder is refused as a workspace that nobody named (decisions 7).
    """
    paths = paths or Paths.of()
    config = config or Config()
    if implicit:
        check_implicit(root, paths)
    wiring.workspace = root
    spills = SpillFolder(paths.state / "spills")
    redactor = redactor or Redactor(secrets_of(this_environment()))
    wiring.shaper = Shaper(redactor=redactor, clean=sanitise, spills=spills)
    wiring.safeguards = _safeguards(config, redactor, store, spills, wiring.grants)
    provided = wiring.provided
    provided.setdefault(Spills, spills)
    if "Documents" in needs:
        from pegboard.documents.child import DocumentReader

        provided.setdefault(Documents, DocumentReader())
    if "Artifacts" in needs:
        artifacts_of(provided, store)
    provided[KEEPER] = LazyArtifactSaver(provided, store)
    if "People" in needs:
        provided.setdefault(People, SuspendingPeople())
    if needs & {"Files", "paths"}:
        files = _files(wiring, root, paths, config)
        provided.setdefault(Files, files)
        provided.setdefault(PATH_RESOLVER, files)
    if needs & {"Shell", "Processes"}:
        from pegboard.app.commands import build_shell

        build_shell(wiring, root, paths, config, want_jobs="Processes" in needs)


def _safeguards(
    config: Config,
    redactor: Redactor,
    store: Callable[[], Store] | None,
    spills: SpillFolder,
    grants: MemoryGrants | None,
) -> Guards:
    """Taint always; budgets and secrets where the settings name any."""
    provenance = None if store is None else StoredProvenance(store)
    first_uses = None if store is None else StoredFirstUses(store)
    stored: list[StoredState] = [] if provenance is None or first_uses is None else [provenance, first_uses]
    if store is not None and isinstance(grants, StoredGrants):
        stored.append(grants)
    meter = secrets = None
    if config.budgets:
        meter = Meter(config.budgets, accounts=None if store is None else StoredAccounts(store))
    if config.secrets:
        secrets = ConfiguredSecrets(config.secrets, environment=this_environment(), learn=redactor.learn)
        secrets.learn_present()
    return Guards(
        taints=TaintTracker(config.taint, provenance=provenance, spilled=spills.labels),
        meter=meter,
        novelty=first_uses,
        secrets=secrets,
        stored=tuple(stored),
    )


def _files(wiring: Wiring, root: Path, paths: Paths, config: Config) -> Any:
    from pegboard.files.journal import Journal
    from pegboard.files.workspace import Workspace

    policy = wiring.policy
    situation = Situation(workspace=str(root), home=str(paths.home.resolve()))
    # Only rules can deny a single file that a listing or a search comes by; without any, asking costs time.
    rules = tuple(
        r
        for r in policy.rules
        if r.verdict == "deny" and not r.observe and r.kind in ("*", "read", "write", "delete")
    )

    def denied(access: str, target: str) -> str | None:
        kind = "write" if access == "write" else "read"
        for rule in rules:
            if rule.covers(Effect(kind, target), situation) and rule.applies(situation):
                return rule.reason or str(rule)
        return None

    files = Workspace(
        root,
        journal=Journal(paths.state / "journal"),
        allowed_dirs=config.allowed_dirs,
        read_only_dirs=config.read_only_dirs,
        full_access=policy.mode == "full",
        masked=[paths.home / name for name in MASKED if (paths.home / name).exists()]
        + [p for p in (paths.config, paths.state, paths.data) if p.exists()],
        deny=denied if rules else None,
        home=paths.home,
    )
    wiring.closers.append(files.close)
    return files


class SuspendingPeople:
    """The People port where nobody can answer now: questions wait."""

    async def ask(self, questions: Sequence[Question]) -> Waiting:
        """Keep the question for later."""
        first = questions[0]
        return Waiting(
            "question", new_id("q"), None, {"question": first.text, "options": list(first.options)}
        )


__all__ = ["SuspendingPeople", "assemble", "replace"]
