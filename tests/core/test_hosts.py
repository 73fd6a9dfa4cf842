"""Host names in the form that is looked up, against UTS 46 and the tests of WHATWG URL."""

from __future__ import annotations

import pytest

from pegboard import Executor, Toolkit, Url, tool
from pegboard.core.hosts import ascii_host, host_is
from pegboard.interop.http import effects_of
from pegboard.net.destinations import split_rule
from pegboard.web.guard import judge_url

# UTS 46 test data and web-platform-tests url/resources/toascii.json; what browsers show for the address.
MAPPED = {
    "fa\u00df.example": "xn--fa-hia.example",
    "B\u00fccher.example": "xn--bcher-kva.example",
    "\u03b2\u03cc\u03bb\u03bf\u03c2.com": "xn--nxasmm1c.com",
    "\u2603.net": "xn--n3h.net",
    "\uff21\uff22\uff23\uff0ecom": "abc.com",
    "XN--FA-HIA.example": "xn--fa-hia.example",
    "\u65e5\u672c\u3002jp": "xn--wgv71a.jp",
    "a_b.Example": "a_b.example",
    "r3---sn-x.example": "r3---sn-x.example",
}
REFUSED = [
    "a.xn--zzzzzzzzz", "x.xn--a", "xn--.example", "xn--abc-.example", "xn--a-yoc.example", "\u0301a.example",
    "a\u200db.example", "\u05d0a.example", "xn--fass-.example", "xn--ASCII-.example", "\u00ad\ufffd.example",
]  # fmt: skip


@pytest.mark.parametrize("host", list(MAPPED))
def test_a_host_is_mapped_as_browsers_map_it_wherever_it_is_named(host: str) -> None:
    asked: list[str] = []

    def resolve(name: str) -> list[str]:
        asked.append(name)
        return ["93.184.216.34"]

    assert ascii_host(host) == MAPPED[host]
    assert judge_url(f"http://{host}/", resolve).host == MAPPED[host] == asked[0]
    assert [e.target for e in effects_of(f"https://{host}:8443/x")] == [f"{MAPPED[host]}:8443"]
    assert host_is(split_rule(host)[0], MAPPED[host])


@pytest.mark.parametrize("host", REFUSED)
def test_a_label_that_stands_for_no_name_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="international"):
        ascii_host(host)

    assert not judge_url(f"http://{host}/", lambda _: ["93.184.216.34"]).allowed


async def test_the_effect_of_a_call_names_the_host_that_is_connected_to() -> None:
    @tool
    async def look(url: Url) -> str:
        """Look."""
        return url

    preview = await Executor(Toolkit([look])).preview("look", {"url": "http://me@Fa\u00df.example/"})

    assert [e.target for e in preview.effects] == ["xn--fa-hia.example"]
