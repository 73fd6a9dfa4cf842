"""URLs before anything connects: the whole corpus, and what it stands for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.net.addresses import classify
from pegboard.web.guard import judge_url, resolve_here
from tests.ledger import DATA, owes

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "security" / "ssrf.jsonl").read_text(encoding="utf-8").splitlines()
]
MAX_REDIRECTS = 5


def follow(row: dict[str, Any]) -> str:
    """What a client does that judges every hop: `allow` or `block`."""
    answers = {name: list(turns) for name, turns in row.get("dns", {}).items()}

    def resolve(host: str) -> Sequence[str]:
        turns = answers.get(host, [["93.184.215.14"]])
        return turns.pop(0) if len(turns) > 1 else turns[0]

    hops = [row["input"], *row.get("redirects", [])]
    if len(hops) > MAX_REDIRECTS + 1:
        return "block"
    for url in hops:
        verdict = judge_url(url, resolve)
        if not verdict.allowed:
            return "block"
        for wanted in row.get("must_connect", []):
            assert wanted in verdict.addresses
    return "allow"


def test_the_corpus() -> None:
    assert [row for row in ROWS if follow(row) not in (row["expect"], row.get("tolerate"))] == []


@pytest.mark.parametrize(
    "url",
    ["http://exa mple.com/", "http://a\\@b/", "//a.example/", "http://", "http:///x", "http://a.example:0/",
     "http://a.example:99999/", "http://a.example:8o/", "http://[::1", "http://[::1]x/", "http://[fe80::1%25lo]/",
     "http://a..example/", "http://a%2eexample/", "http://u@v@a.example/", "http://u[x]@a.example/", "http://0x7f.1/", "http://0177.0.0.1/",
     "http://127.1/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://0x/", "http://printer/",
     "http://a.lan/", "http://a.home.arpa/", f"http://{'a' * 64}.example/", "http://xn--\ud800.example/"],
)  # fmt: skip
def test_what_programs_read_differently_is_refused(url: str) -> None:
    verdict = judge_url(url, lambda _: ["93.184.215.14"])

    assert not verdict.allowed
    assert verdict.reason


def test_the_verdict_says_what_to_connect_to() -> None:
    verdict = judge_url("HTTPS://ExAmPlE.COM.:8443/a?b#c", lambda host: ["93.184.215.14"])

    assert verdict.allowed
    assert (verdict.scheme, verdict.host, verdict.port) == ("https", "example.com", 8443)
    assert verdict.addresses == ("93.184.215.14",)
    assert verdict.target == "/a?b"


def test_other_spellings_of_a_name_are_the_name() -> None:
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14"]

    judge_url("http://ｅｘａｍｐｌｅ。com/", resolve)
    judge_url("http://bücher.example/?q", resolve)

    assert asked == ["example.com", "xn--bcher-kva.example"]


def test_the_owner_may_open_a_private_host_and_no_other() -> None:
    allow = ["127.0.0.1:8000", "wiki.internal"]

    assert judge_url("http://127.0.0.1:8000/", allow=allow).allowed
    assert not judge_url("http://127.0.0.1:8001/", allow=allow).allowed
    assert judge_url("http://wiki.internal/", lambda _: ["10.0.0.1"], allow=allow).allowed


def test_names_that_do_not_resolve_are_refused() -> None:
    def nowhere(host: str) -> Sequence[str]:
        raise OSError("no such name")

    assert "no address" in judge_url("http://a.example/", nowhere).reason
    assert "no address" in judge_url("http://a.example/", lambda _: []).reason
    assert "not an address" in judge_url("http://a.example/", lambda _: ["x"]).reason
    assert set(resolve_here("localhost")) <= {"127.0.0.1", "::1"}


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_every_spelling_of_an_ipv4_address_is_judged_like_its_dotted_form(value: int) -> None:
    parts = value.to_bytes(4, "big")
    dotted = ".".join(map(str, parts))
    public = classify(dotted) is None

    for text in (dotted, str(value), hex(value), f"0{value:o}", f"{parts[0]}.{value & 0xFFFFFF}",
                 ".".join(f"0x{p:x}" for p in parts)):  # fmt: skip
        assert judge_url(f"http://{text}/").allowed is public, text


LOCAL_NAMES = """
localhost localhost. LOCALHOST x.localhost a.b.localhost localhost6 ip6-localhost ip6-loopback localhost.localdomain
localhost4.localdomain4 localhost6.localdomain6 broadcasthost metadata instance-data rancher-metadata
metadata.google.internal metadata.goog www.metadata.goog METADATA.GOOG. metadata.azure.com metadata.azure.internal
metadata.packet.net metadata.platformequinix.com metadata.tencentyun.com instance-data.ec2.internal
ip-10-0-0-1.eu-central-1.compute.internal host.docker.internal gateway.docker.internal kubernetes.docker.internal
host.containers.internal host.lima.internal docker.for.mac.localhost docker.for.win.host.internal
kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local redis.default.svc
kube-dns.kube-system vault.service.consul consul.service.consul db.nomad api.rancher web.docker
db.internal a.b.internal intranet wiki.intranet mail.corp git.corp. nas.home nas.lan pc.home.arpa x.private y.priv
printer.local _http._tcp.local server.workgroup router modem.router box.gateway fritz.box speedport.ip
routerlogin.net tplinkwifi.net x.test nothing.invalid abc.onion site.i2p name.alt resolver.arpa ipv4only.arpa
1.0.0.127.in-addr.arpa ｌｏｃａｌｈｏｓｔ ｘ.ｉｎｔｅｒｎａｌ metadata。google。internal metadata．goog
"""

PUBLIC_URLS = """
https://example.com https://user@example.com/ https://user:pw@example.com/x https://u%40ser:p%3Aw@example.com/
https://ftp-user:a.b-c_d~e!$&'()*+,;=@example.com/ http://example.com/a%20b?q=c%20d
http://[2002:808:808::]/ http://[2002:5db8:d70e::1]:8080/x http://internal.example.com/ http://local.example/
http://internal.com/ http://private.org/ http://corp.example/ http://home.example.net/ http://lan.party/
http://metadata.example.com/ http://metadata.goog.example.com/ http://notmetadata.goog/ http://localhost.run/
http://kubernetes.io/docs/concepts/services/ http://svc.example/ http://default.example/ http://docker.com/
http://consul.io/ http://nomad.example/ http://test.com/ http://invalid.example/ http://onion.example/
http://mail.example.com/ http://router.example/ http://box.com/ http://example.box/ http://xn--bcher-kva.example/
http://10.example.com/ http://127.0.0.1.example.com/ http://169.254.example/ http://a-b.c-d.example/
http://example.com:8080/ http://example.com:65535/ http://example.com?x=http://10.0.0.1/ http://example.com#@127.0.0.1/
http://example.com/@127.0.0.1/ http://example.com/http://localhost/ http://example.com/%00 http://example.com/~a
http://example.com/?a=[1]&b={2} http://example.com/a|b http://example.com/日本語?q=ü http://example.com/می‌خواهم
http://8.8.8.8/ http://1.1/ http://0x08080808/ http://134744072/ http://[2606:4700:4700::1111]:443/
"""


@owes("web-01")
@pytest.mark.parametrize("name", LOCAL_NAMES.split())
def test_local_and_metadata_names_are_refused_although_the_resolver_answers_publicly(name: str) -> None:
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14"]

    verdict = judge_url(f"http://{name}/", resolve)

    assert not verdict.allowed and not asked
    assert judge_url(f"http://{name}:8443/x?y", resolve).allowed is False


@pytest.mark.parametrize("url", PUBLIC_URLS.split())
def test_what_only_looks_local_is_fetched(url: str) -> None:
    verdict = judge_url(url, lambda _: ["93.184.215.14"])

    assert verdict.allowed, verdict.reason
    assert verdict.target.isascii() and " " not in verdict.target
    assert "@" not in verdict.host and "pw" not in verdict.host


@pytest.mark.parametrize("url", [
    "http://u@127.0.0.1/", "http://example.com@127.0.0.1/", "http://example.com:80@10.0.0.1/", "http://u:p@[::1]/",
    "http://u@localhost/", "http://u@metadata.goog/", "http://a@b@example.com/", "http://a@example.com@127.0.0.1/",
    "http://u\t@example.com/", "http://u @example.com/", "http://u\u200b@example.com/", "http://u[@example.com/",
    "http://u<@example.com/", "http://exam ple.com/", "http://example.com /", "http://ex\u00a0ample.com/",
    "http://example.com/\r\nHost: evil", "http://example.com/\n", "http://example.com/\x00", "http://example.com/\x7f",
    "http://u@", "http://@/", "http://:80/", "http://u@:80/", "http://[2002:7f00:1::]/", "http://[2002:a00:1::]/",
    "http://[2002:a9fe:a9fe::]/", "http://[2002:c0a8:101::1]/",
])  # fmt: skip
def test_a_user_name_a_space_or_an_inner_address_hides_nothing(url: str) -> None:
    assert not judge_url(url, lambda _: ["93.184.215.14"]).allowed


def test_spaces_and_letters_are_sent_in_percent_form_and_credentials_not_at_all() -> None:
    verdict = judge_url("  https://user:pw@example.com/a b/ü%20c?q=é d#f  ", lambda _: ["93.184.215.14"])

    assert verdict.target == "/a%20b/%C3%BC%20c?q=%C3%A9%20d"
    assert "pw" not in repr(verdict)


@owes("web-04")
def test_made_up_addresses_of_a_proxy_pass_where_the_owner_opened_their_network_and_nothing_else_does() -> (
    None
):
    def fake(host: str) -> Sequence[str]:
        return ["198.18.0.7"]

    closed = judge_url("http://example.com/", fake)
    assert not closed.allowed and "allow_cidrs" in closed.reason
    assert judge_url("http://example.com/", fake, allow_cidrs=["198.18.0.0/15"]).allowed
    assert not judge_url("http://10.0.0.1/", fake, allow_cidrs=["198.18.0.0/15"]).allowed
    assert not judge_url("http://x.internal/", fake, allow_cidrs=["198.18.0.0/15"]).allowed
