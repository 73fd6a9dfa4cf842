"""The table of addresses that are not public."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.net.addresses import classify, inner_v4


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "93.184.215.14", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0",
     "169.253.255.255", "192.0.1.1", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111",
     "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::"],
)  # fmt: skip
def test_public_addresses_pass(address: str) -> None:
    assert classify(address) is None


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "0.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1", "169.254.169.254",
     "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "198.19.255.255", "224.0.0.1", "255.255.255.255",
     "168.63.129.16", "192.0.2.1", "203.0.113.1", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:0:10.0.0.1",
     "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
     "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "2001:db8::1",
     "3fff::1", "2001:2::1", "4000::1", "2606:4700::5efe:10.0.0.1", "5f00::1"],
)  # fmt: skip
def test_everything_else_has_a_reason(address: str) -> None:
    assert classify(address)


def test_text_that_is_no_address_is_an_error() -> None:
    with pytest.raises(ValueError):
        classify("example.com")


@given(st.ip_addresses(v=4))
def test_a_carried_address_is_judged_like_itself(inner: object) -> None:
    value = int(ip_address(str(inner)))
    for high in (0xFFFF << 32, 0x64FF9B << 96):
        assert bool(classify(ip_address(high | value).compressed)) == bool(classify(str(inner)))


def test_inner_addresses_are_taken_out() -> None:
    assert str(inner_v4(ip_address("2002:c0a8:0101::"))) == "192.168.1.1"  # RFC 3056
    assert str(inner_v4(ip_address("2001:0:4136:e378:8000:63bf:3fff:fdd2"))) == "192.0.2.45"  # RFC 4380 §4
    assert inner_v4(ip_address("2606:4700::1")) is None
