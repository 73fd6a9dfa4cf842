"""The table `[network]` of a settings file: private places that the owner opens to the network guard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from pegboard.config.reading import table_of, texts
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
    table = table_of(value, path, "network", _KEYS)
    hosts = texts(table.get("allow_hosts", []), path, "network.allow_hosts")
    for host in hosts:
        if not host or "*" in host or "/" in host or any(c.isspace() for c in host):
            raise ConfigError(
                f"{path}: network.allow_hosts has {host!r}; write exact names or addresses, host or host:port"
            )
    cidrs = texts(table.get("allow_cidrs", []), path, "network.allow_cidrs")
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
