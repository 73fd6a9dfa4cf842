"""Choosing the confinement: the strongest that works here, found by really running something in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pegboard.core.errors import Unavailable
from pegboard.process.limits import CgroupPool
from pegboard.shell.sandbox.bubblewrap import Bubblewrap
from pegboard.shell.sandbox.confinement import DEFAULT_LIMITS, Backend, Confinement
from pegboard.shell.sandbox.docker import DEFAULT_IMAGE, Container
from pegboard.shell.sandbox.none import Unconfined

BACKENDS: Final = ("bubblewrap", "docker", "podman", "none")
_PACKAGES: Final = {
    "bubblewrap": "bubblewrap (apt-get install bubblewrap)",
    "podman": "podman (apt-get install podman)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedBackend:
    """The chosen backend and why.

    Attributes:
        backend: what commands run in.
        rejected: backend name to why it does not work here.
    """

    backend: Backend
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])

    def enforced(self) -> Mapping[str, bool | str]:
        """What the backend enforces here, for `pegboard doctor`."""
        return self.backend.enforced()

    @property
    def banner(self) -> str:
        """What to tell people at the start; empty when commands are confined."""
        if self.backend.name != "none":
            return ""
        why = "; ".join(f"{name}: {reason}" for name, reason in self.rejected.items())
        return f"commands run without a sandbox ({why or 'as configured'}): each one needs approval"


async def select_backend(
    confinement: Confinement,
    *,
    backend: str | None = None,
    require: bool = False,
    candidates: Sequence[str] = ("bubblewrap",),
    image: str | None = None,
    runtime: str | None = None,
    client_env: Mapping[str, str] | None = None,
    groups: CgroupPool | None = None,
) -> SelectedBackend:
    """The confinement for one workspace.

    Args:
        confinement: what commands may reach.
        backend: use this one or refuse; None = the first of `candidates` that works, else none.
        require: refuse rather than run without confinement.
        candidates: in order of strength; containers only where they are configured.
        image, runtime: the containers' image and OCI runtime.
        client_env: our environment, for what docker and podman need of it.
        groups: control groups for bubblewrap; None = look for them.

    Raises:
        Unavailable: the asked-for backend, or any where one is required, does not work here.
    """
    if backend is not None and backend not in BACKENDS:
        raise Unavailable(f"unknown sandbox backend {backend!r}", hint=f"Known: {', '.join(BACKENDS)}.")
    if groups is None:
        groups = CgroupPool.detect(confinement.limits)
    rejected: dict[str, str] = {}
    for name in (backend,) if backend is not None else tuple(candidates):
        if name == "none":
            break
        made = make(name, confinement, image=image, runtime=runtime, client_env=client_env, groups=groups)
        problem = await made.probe()
        if not problem:
            return SelectedBackend(backend=made, rejected=rejected)
        rejected[name] = problem
    if require or (backend is not None and backend != "none"):
        if backend is not None and backend in rejected:
            raise Unavailable(
                f"a sandbox is required and {backend} does not work here ({rejected[backend]}); nothing was run",
                hint=f'Get {_PACKAGES.get(backend, backend)} to run, or write backend = "auto" in [sandbox]; '
                "`pegboard doctor` shows which one works.",
            )
        why = (
            "; ".join(f"{name}: {reason}" for name, reason in rejected.items())
            or 'backend "none" is configured'
        )
        raise Unavailable(
            f"a sandbox is required and none works here ({why}); nothing was run",
            hint="Install bubblewrap (apt-get install bubblewrap), or run `pegboard doctor` for details.",
        )
    return SelectedBackend(backend=Unconfined(), rejected=rejected)


def make(
    name: str,
    confinement: Confinement,
    *,
    image: str | None = None,
    runtime: str | None = None,
    client_env: Mapping[str, str] | None = None,
    groups: CgroupPool | None = None,
) -> Backend:
    """A backend by name, not yet tried."""
    if name == "bubblewrap":
        return Bubblewrap(confinement, groups=groups)
    if name == "none":
        return Unconfined()
    # The documents' 256 MiB, unless a person has set another limit.
    memory = confinement.limits.memory_bytes
    return Container(
        confinement,
        program=name,
        image=image or DEFAULT_IMAGE,
        memory="256m" if memory == DEFAULT_LIMITS.memory_bytes else str(memory),
        client_env=client_env,
        runtime=runtime,
    )
