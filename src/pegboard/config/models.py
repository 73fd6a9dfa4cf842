"""open_model: the model that a name, the settings or the environment means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.config.reading import table_of, typed
from pegboard.config.secrets import read_source
from pegboard.core.errors import ConfigError, PegboardError
from pegboard.core.toolkit import import_object
from pegboard.store.json_table import JsonTable
from pegboard.store.rates import RateLimit

if TYPE_CHECKING:
    from pegboard.models.servers import LocalServer

_RATES = ("requests_per_minute", "tokens_per_minute")
Ports = Mapping[str, int]
"""Local servers to look for: what listens there -> port."""


class AcceptedServers:
    """The local model servers that a person accepted once, by what listens, port and owner."""

    def __init__(self, paths: Paths) -> None:
        self.table = JsonTable[str](paths.state / "model-servers.json", "accepted model servers", paths.chain)

    def add(self, server: LocalServer) -> None:
        """Use it from now on where no model is named."""
        self.table.add(server.identity, server.base_url)

    def remove(self, name: str) -> list[str]:
        """Use those at that port, or of that kind, no more, whether they run or not; the identities of which."""
        gone = [
            one
            for one in self.table.read()
            if name == one.rpartition(" port=")[2].split(" ")[0]
            or name.lower() == one.rpartition(" port=")[0].lower()
        ]
        for one in gone:
            self.table.remove(one)
        return gone

    def identities(self) -> frozenset[str]:
        """`LocalServer.identity` of each."""
        return frozenset(self.table.read())


def open_model(
    name: str | None,
    *,
    paths: Paths | None = None,
    environment: Mapping[str, str] | None = None,
    ports: Ports | None = None,
    keys: Mapping[str, str] | None = None,
) -> Any:
    """Open a model.

    Args:
        name: as `--model` takes it; None = the first that is found.
        paths: where weights lie, and which local servers were accepted.
        environment: where keys are looked for; None = the process environment.
        ports: where local servers are looked for when nothing else is there; None = the usual ports.
        keys: where the key of another origin lies: `https://host:port` -> `env:NAME`, `file:PATH` or
            `keyring:SERVICE/USER`.

    Raises:
        NoModel: none was named and none is there; it holds the local servers that could be accepted.
        ModelError: an unknown name, a missing key or extra; the message says what to do.
    """
    folders = paths or Paths.of()
    env = this_environment() if environment is None else environment
    return import_object("pegboard.models.resolve:open_configured")(
        name,
        environment=env,
        data_dir=folders.data,
        keys=_keys(name, keys or {}, env),
        find=lambda: find_local_servers(ports),
        accepted=AcceptedServers(folders).identities,
    )


def find_local_servers(ports: Ports | None = None) -> Sequence[LocalServer]:
    """Model servers that answer on this machine, found by asking some ports, the usual ones where None."""
    find = import_object("pegboard.models.servers:servers_now")
    return cast("Sequence[LocalServer]", find() if ports is None else find(tuple(ports.items())))


def available_models(
    paths: Paths, environment: Mapping[str, str] | None = None, *, ports: Ports | None = None
) -> list[dict[str, str]]:
    """`{name, status}` of every model family and of every local server: ready, or what it needs."""
    return import_object("pegboard.models.resolve:available")(
        environment=this_environment() if environment is None else environment,
        data_dir=paths.data,
        found=find_local_servers(ports),
        accepted=AcceptedServers(paths).identities(),
    )


def key_states(keys: Mapping[str, str], environment: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Which keys of models are set and where they come from, never what they are: `{provider, source, set}`.

    Args:
        keys: the `model_keys` of the settings, whose values say where a key lies.
        environment: where keys of providers are looked for; None = the process environment.
    """
    env = this_environment() if environment is None else environment
    rows: list[dict[str, Any]] = []
    variables = import_object("pegboard.models.resolve:KEYS")
    for provider in import_object("pegboard.models.resolve:DEFAULTS"):
        names: tuple[str, ...] = variables[provider]
        found = next((name for name in names if env.get(name)), "")
        rows.append({"provider": provider, "source": f"env:{found or names[0]}", "set": found != ""})
    for origin, source in keys.items():
        try:
            there = bool(read_source(f"the model key of {origin}", source, env))
        except (PegboardError, OSError):
            there = False
        rows.append({"provider": origin, "source": source, "set": there})
    return rows


async def fetch_weights(name: str, paths: Paths) -> Path:
    """Fetch a small model's weights; their path.

    Raises:
        ModelError: an unknown name, no network, or a wrong checksum.
    """
    return await import_object("pegboard.models.weights:fetch")(name, paths.data)


def _keys(name: str | None, sources: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The key of the one server that `name` names, where the settings have one for it; no other is looked up."""
    if not sources or name is None:
        return {}
    origin_of = import_object("pegboard.models.resolve:origin_of")
    wanted = import_object("pegboard.models.resolve:parse")(name).base_url
    return {
        origin: read_source(f"the model key of {origin}", source, environment)
        for origin, source in sources.items()
        if wanted is not None and origin_of(origin) == origin_of(wanted)
    }


def read_ports(table: Mapping[str, Any], path: Path) -> dict[str, int]:
    """`[model_servers]`: a name and a port each; empty looks for none.

    Raises:
        ConfigError: something else than a port; the message names file and key.
    """
    for name, port in table.items():
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise ConfigError(f"{path}: model_servers.{name} must be a port from 1 to 65535, not {port!r}")
    return dict(table)


def read_keys(table: Mapping[str, Any], path: Path) -> dict[str, str]:
    """`[model_keys]`: a server's address and where its key lies.

    Raises:
        ConfigError: no address, or no such place; the message names file and key.
    """
    for origin, source in table.items():
        if not str(origin).startswith(("http://", "https://")):
            raise ConfigError(f'{path}: model_keys.{origin!r} is not an address; write "https://HOST:PORT"')
        kind, _, rest = str(source).partition(":")
        if not isinstance(source, str) or kind not in ("env", "file", "keyring") or not rest:
            raise ConfigError(
                f"{path}: model_keys.{origin!r} must say where to find the key: env:NAME, file:PATH or "
                f"keyring:SERVICE/USER, not the key itself"
            )
    return dict(table)


def read_rate_limits(table: Mapping[str, Any], path: Path) -> dict[str, RateLimit]:
    """`[rate_limits."MODEL"]`: how much of the models that a pattern names may be asked for in a minute.

    Raises:
        ConfigError: an unknown key, or a number below 1; the message names file and key.
    """
    limits: dict[str, RateLimit] = {}
    for pattern, value in table.items():
        key = f"rate_limits.{pattern}"
        given = table_of(value, path, key, _RATES)
        for name, most in given.items():
            if typed(int, most, path, f"{key}.{name}") < 1:
                raise ConfigError(f"{path}: {key}.{name} = {most} is not at least 1")
        limits[pattern] = RateLimit(
            requests=given.get("requests_per_minute"), tokens=given.get("tokens_per_minute")
        )
    return limits
