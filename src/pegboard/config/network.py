"""The table `[network]` of a settings file: private places that the owner opens to the network guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ConfigError

_KEYS: Final = ("allow_hosts", "allow_cidrs")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """What is open though it is not public. It grants nothing: rules and questions still decide who may connect.

    Attributes:
        allow_hosts: exact names or addresses, each with an optional `:port`.
        allow_cidrs: networks, such as `198.18.0.0/15` where a local proxy answers every name.
    """

    allow_hosts: tuple[str, ...] = ()
    allow_cidrs: tuple[str, ...] = ()


def read_network(value: Any, path: Path, *, before: NetworkSettings) -> NetworkSettings:
    """The settings with a file's table added.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: network must be a table, not {value!r:.60}")
    table = cast("Mapping[str, Any]", value)
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key network.{key}; known: {', '.join(_KEYS)}")
    hosts = _texts(table.get("allow_hosts", []), "network.allow_hosts", path)
    for host in hosts:
        if not host or "*" in host or "/" in host or any(c.isspace() for c in host):
            raise ConfigError(
                f"{path}: network.allow_hosts has {host!r}; write exact names or addresses, host or host:port"
            )
    cidrs = _texts(table.get("allow_cidrs", []), "network.allow_cidrs", path)
    for cidr in cidrs:
        try:
            ip_network(cidr)
        except ValueError as error:
            raise ConfigError(
                f"{path}: network.allow_cidrs has {cidr!r}, which is not a network: {error}"
            ) from None
    return replace(
        before, allow_hosts=(*before.allow_hosts, *hosts), allow_cidrs=(*before.allow_cidrs, *cidrs)
    )


def _texts(value: Any, key: str, path: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
        raise ConfigError(f"{path}: {key} must be a list of texts, not {value!r:.60}")
    return cast("list[str]", value)
