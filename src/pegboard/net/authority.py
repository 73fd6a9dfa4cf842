"""A certificate authority for one command, with which the egress proxy opens the command's TLS to hosts of its secrets.

Its keys exist in this process's memory only. The command gets the certificate, in a file beside the roots that it
would trust anyway (`trusted_roots`). The certificate is limited to the hosts that the secrets are bound to (name
constraints, RFC 5280 §4.2.1.10): even with its key nobody could stand in for another host.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard.core.errors import Unavailable
from pegboard.net.destinations import split_rule

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_MOST_LEAVES: Final = 64
# A command in the background may run for weeks.
_VALID: Final = timedelta(days=90)
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
"""Debian, Fedora, Alpine and Arch, SUSE."""
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


class CertificateAuthority:
    """Issues a certificate for each host that a secret is bound to.

    Args:
        hosts: host patterns, each with an optional port; no certificate of this authority is valid elsewhere.
        now: the time.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name(
            [x509.NameAttribute(x509.NameOID.COMMON_NAME, "Pegboard egress proxy of one command")]
        )
        self._now = now
        self.on_other_name: Callable[[str, str | None], None] = lambda host, name: None
        """Called with the host and the name in the client's SNI where they differ; the handshake fails."""
        self._authority = self._issue(
            self._name,
            self._key,
            [
                (x509.BasicConstraints(ca=True, path_length=0), True),
                (_usage(sign_certificates=True), True),
                *_constraints(hosts),
            ],
        )
        self.context = lru_cache(maxsize=_MOST_LEAVES)(self._context)
        """The TLS context for a host: `context(host)`. The last ones used are kept."""

    @property
    def certificate(self) -> str:
        """The authority's own certificate, as PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._authority.public_bytes(Encoding.PEM).decode("ascii")

    def leaf(self, host: str) -> x509.Certificate:
        """A new certificate for one host name or address."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        address = _address(host)
        name = x509.DNSName(host) if address is None else x509.IPAddress(address)
        return self._issue(
            # At most 64 characters, and no host name: where an address is the alternative name, OpenSSL would check
            # this one too. What counts is the alternative name.
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Pegboard for {host}"[:64])]),
            self._leaf_key,
            [
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (_usage(sign_certificates=False), True),
                (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
                (x509.SubjectAlternativeName([name]), False),
            ],
        )

    def _context(self, host: str) -> ssl.SSLContext:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        def check_name(_: object, name: str | None, __: ssl.SSLContext) -> int | None:
            # Without a name, or with an address, there is no SNI (RFC 6066 §3).
            if (name or "").rstrip(".").lower() == host or (name is None and _address(host) is not None):
                return None
            self.on_other_name(host, name)
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.set_alpn_protocols(["http/1.1"])
        made.sni_callback = check_name
        # The module reads keys from files only; this one has no name and is gone when it is closed.
        with open(os.memfd_create("leaf", os.MFD_CLOEXEC), "wb") as file:
            file.write(
                self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                + self.leaf(host).public_bytes(Encoding.PEM)
            )
            file.flush()
            made.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return made

    def _issue(
        self,
        subject: x509.Name,
        key: EllipticCurvePrivateKey,
        extensions: Iterable[tuple[x509.ExtensionType, bool]],
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        ours = self._key.public_key()
        now = self._now()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            # Clocks differ by some hours where a time zone is set wrong.
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + _VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ours), critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())


def trusted_roots(*files: str | os.PathLike[str]) -> str:
    """The system's root certificates and those in `files`, as PEM.

    Raises:
        Unavailable: one of the files cannot be read or holds no certificate, or there is none at all.
    """
    # A Python that was built elsewhere looks for the roots where this system has none.
    usual = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    system = [name for name in usual if name and os.path.isfile(name)][:1]
    found: dict[str, None] = {}
    for file in (*system, *files):
        try:
            # Bundles have comments in any encoding.
            certificates = _CERTIFICATE.findall(Path(file).read_text(encoding="ascii", errors="replace"))
        except OSError as problem:
            raise Unavailable(
                f"the certificates in {os.fspath(file)!r} cannot be read: {problem.strerror}", hint=_FIX
            ) from None
        if not certificates:
            raise Unavailable(f"{os.fspath(file)!r} holds no certificate in PEM form", hint=_FIX)
        found.update(dict.fromkeys(certificates))
    if not found:
        raise Unavailable(
            "this machine has no root certificates",
            hint="Ask the user to install the package ca-certificates.",
        )
    return "\n".join([*found, ""])


_FIX: Final = "Ask the user to correct ca_file in [sandbox], or the variable that names the file."


def client_context(roots: str) -> ssl.SSLContext:
    """What checks the certificate of a host, its name included, and speaks HTTP/1.1.

    Raises:
        Unavailable: a certificate in `roots` is malformed.
    """
    try:
        made = ssl.create_default_context(cadata=roots)
    except ssl.SSLError as problem:
        raise Unavailable(f"a trusted root certificate is malformed: {problem}", hint=_FIX) from None
    made.set_alpn_protocols(["http/1.1"])
    return made


def _constraints(hosts: Iterable[str]) -> list[tuple[x509.ExtensionType, bool]]:
    from cryptography import x509

    rules = {split_rule(host)[0] for host in hosts}
    if any(rule.strip("*") == "" for rule in rules):
        return []
    addresses = {rule for rule in rules if _address(rule) is not None}
    # A kind without an entry would be free: names that cannot exist (RFC 2606) and no address stand for "none".
    names = sorted({rule.removeprefix("*.") for rule in rules - addresses}) or ["invalid"]
    networks = [ip_network(address) for address in sorted(addresses)] or [ip_network("0.0.0.0/32")]
    permitted = [*map(x509.DNSName, names), *map(x509.IPAddress, networks)]
    return [(x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None), True)]


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not sign_certificates, key_cert_sign=sign_certificates, crl_sign=sign_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
