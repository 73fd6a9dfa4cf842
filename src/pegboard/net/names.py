"""Which host names never lead to the public internet, whatever a resolver says.

Kinds: special-use names (RFC 6761, 6762 with its appendix G, 7686, 8375, 8880, 9462, 9476; ICANN's `.internal`),
names that systems, containers and clusters give to themselves, and the metadata services of cloud providers.
A resolver that answers publicly for one of them (a search domain, a hijacked name, split DNS) changes nothing.
"""

from __future__ import annotations

from typing import Final

_SPECIAL: Final = {
    "local": "multicast DNS", "localhost": "this machine", "invalid": "reserved", "test": "reserved",
    "onion": "Tor", "alt": "not in the DNS", "arpa": "infrastructure", "i2p": "not in the DNS",
    # ICANN, and RFC 6762 appendix G: used in private networks all over.
    "internal": "private use", "intranet": "private use", "private": "private use", "corp": "private use",
    "home": "private use", "lan": "private use", "localdomain": "private use", "localdomain4": "this machine",
    "localdomain6": "this machine", "intra": "private use", "priv": "private use", "workgroup": "private use",
    "domain": "private use", "router": "private use", "gateway": "private use", "mail": "private use",
    # What container platforms and clusters resolve for themselves.
    "svc": "a cluster", "pod": "a cluster", "cluster": "a cluster", "default": "a cluster",
    "kube-system": "a cluster", "consul": "a cluster", "nomad": "a cluster", "mesos": "a cluster",
    "marathon": "a cluster", "rancher": "a cluster", "docker": "containers", "containers": "containers",
}  # fmt: skip
_METADATA: Final = (
    "metadata.goog", "metadata.google.com", "metadata.azure.com", "metadata.azure.net", "metadata.packet.net",
    "metadata.platformequinix.com", "metadata.tencentyun.com", "metadata.cloud.ibm.com", "metadata.oraclecloud.com",
    "metadata.digitalocean.com", "metadata.hetzner.cloud", "metadata.vultr.com", "metadata.scaleway.com",
    "metadata.aliyun.com", "metadata.aliyuncs.com", "instance-data.amazonaws.com", "metadata.nifcloud.com",
    "metadata.linode.com", "metadata.exoscale.com", "metadata.yandexcloud.net",
)  # fmt: skip
_ROUTERS: Final = (
    "fritz.box", "speedport.ip", "easy.box", "routerlogin.net", "routerlogin.com", "tplinkwifi.net", "tplinklogin.net",
    "miwifi.com", "router.asus.com", "orbilogin.com", "mywifiext.net", "mygateway.gateway", "myfritz.box",
)  # fmt: skip


def local_name(host: str) -> str:
    """Why a name (ASCII, lower case, without a last dot) is not a public one; empty for one that may be."""
    if "." not in host:
        return f"{host} is a name of the local network"
    last = host.rpartition(".")[2]
    if (why := _SPECIAL.get(last)) is not None:
        return f"names under .{last} are local ({why})"
    for name in _METADATA:
        if host == name or host.endswith("." + name):
            return f"{host} is a metadata service of a cloud provider"
    for name in _ROUTERS:
        if host == name or host.endswith("." + name):
            return f"{host} is the page of a router in the local network"
    return ""
