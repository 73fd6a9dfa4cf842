"""The authority of one command: its certificates hold for the hosts of its secrets, and for nothing else."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from pegboard.core.errors import Unavailable
from pegboard.net.authority import CertificateAuthority, client_context, trusted_roots
from tests.ledger import owes
from tests.net.tls import TestAuthority, openssl


def verified(authority: CertificateAuthority, host: str, folder: Path) -> str:
    """What OpenSSL says of a certificate for a host: empty if it is valid."""
    (folder / "ca.pem").write_text(authority.certificate)
    (folder / "leaf.pem").write_bytes(authority.leaf(host).public_bytes(Encoding.PEM))
    kind = "-verify_ip" if host[0].isdigit() or ":" in host else "-verify_hostname"
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-no-CApath", "-CAfile", folder / "ca.pem",
         kind, host, folder / "leaf.pem"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr


@owes("G-18")
@pytest.mark.parametrize(
    ("rules", "valid", "invalid"),
    [
        (["api.example"], ["api.example"], ["evil.example", "notapi.example", "10.0.0.1"]),
        (
            ["*.pkg.example:8443"],
            ["a.pkg.example", "b.a.pkg.example"],
            ["pkg.example.evil", "notpkg.example"],
        ),
        (["127.0.0.1:*", "::1"], ["127.0.0.1", "::1"], ["127.0.0.2", "api.example"]),
        (["*"], ["api.example"], []),
    ],
)
def test_no_certificate_is_valid_for_a_host_that_no_secret_is_bound_to(
    tmp_path: Path, rules: list[str], valid: list[str], invalid: list[str]
) -> None:
    authority = CertificateAuthority(rules)

    assert [verified(authority, host, tmp_path) for host in valid] == [""] * len(valid)
    assert all("permitted subtree violation" in verified(authority, host, tmp_path) for host in invalid)


@owes("G-18")
def test_each_command_has_an_authority_of_its_own(tmp_path: Path) -> None:
    one, two = CertificateAuthority(["api.example"]), CertificateAuthority(["api.example"])
    (tmp_path / "one.pem").write_text(one.certificate)

    (tmp_path / "leaf.pem").write_bytes(two.leaf("api.example").public_bytes(Encoding.PEM))

    with pytest.raises(subprocess.CalledProcessError):
        openssl("verify", "-no-CApath", "-CAfile", tmp_path / "one.pem", tmp_path / "leaf.pem")
    assert "PRIVATE KEY" not in one.certificate


def test_a_certificate_lasts_longer_than_commands_in_the_background_do(tmp_path: Path) -> None:
    authority = CertificateAuthority(["api.example"], now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    (tmp_path / "ca.pem").write_text(authority.certificate)

    assert openssl("x509", "-in", tmp_path / "ca.pem", "-noout", "-dates") == (
        "notBefore=Dec 31 00:00:00 2025 GMT\nnotAfter=Apr  1 00:00:00 2026 GMT\n"
    )


def test_of_many_hosts_the_certificates_of_the_last_64_are_kept() -> None:
    authority = CertificateAuthority(["*.example"])
    contexts = [authority.context(f"h{n}.example") for n in range(70)]

    assert authority.context("h69.example") is contexts[69]
    assert authority.context("h0.example") is not contexts[0]
    assert authority.context.cache_info().currsize == 64


def test_the_roots_are_those_of_the_system_and_of_further_files(tmp_path: Path) -> None:
    own = TestAuthority(tmp_path)
    (tmp_path / "bundle.pem").write_text(f"# Überschrift\n{own.file.read_text()}\n{own.file.read_text()}")

    system, both = trusted_roots(), trusted_roots(tmp_path / "bundle.pem")

    assert system.count("BEGIN CERTIFICATE") == len(ssl.create_default_context().get_ca_certs()) > 50
    assert both.count("BEGIN CERTIFICATE") == system.count("BEGIN CERTIFICATE") + 1
    names = [dict(pair for (pair,) in root["subject"]) for root in client_context(both).get_ca_certs()]
    assert {"commonName": "Test authority"} in names


def test_a_file_of_roots_that_is_missing_empty_or_broken_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"

    with pytest.raises(Unavailable, match=r"missing.pem' cannot be read: No such file"):
        trusted_roots(tmp_path / "missing.pem")
    with pytest.raises(Unavailable, match=r"empty.pem' holds no certificate"):
        trusted_roots(tmp_path / "empty.pem")
    with pytest.raises(Unavailable, match="a trusted root certificate is malformed"):
        client_context(broken)
