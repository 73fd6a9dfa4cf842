"""`pegboard call browser` with a settings file: the real browser under the real policy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from tests.browser.site import Site
from tests.ledger import owes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def call(folder: Path, *words: str) -> tuple[int, dict[str, object]]:
    """Exit status and the JSON of a command in a process of its own."""
    (folder / "work").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pegboard.cli.main", "call", "browser", *words, "--json"],
        cwd=folder / "work", env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


@owes("M-34", "C-41")
def test_a_page_is_opened_under_the_settings_and_what_rules_deny_is_not_loaded_by_it(
    site: Site, tmp_path: Path
) -> None:
    site.extra["/shop.html"] = (
        f"<title>Shop</title><p>Tea</p><img src='{site.url('/form.html', 'localhost')}'>"
    )
    settings = tmp_path / ".config" / "pegboard"
    settings.mkdir(parents=True)
    (settings / "pegboard.toml").write_text(
        f'rules = ["allow connect:127.0.0.1:{site.port}", "deny connect:localhost:*"]\n'
        f'[network]\nallow_hosts = ["127.0.0.1:{site.port}", "localhost:{site.port}"]\n'
    )

    status, opened = call(tmp_path, "action=navigate", f"url={site.url('/shop.html')}")
    private, refused = call(tmp_path, "action=navigate", "url=http://10.1.2.3/", "--yes")
    denied, named = call(tmp_path, "action=navigate", f"url={site.url('/', 'localhost')}", "--yes")

    assert status == 0, opened
    assert "Tea" in str(opened["text"])
    assert opened["notes"]["labels"] == ["untrusted"]  # type: ignore[index]
    assert [s for s in site.seen if s.startswith("GET localhost")] == []
    assert (private, refused["error"]["code"]) == (3, "permission_denied")  # type: ignore[index]
    assert denied == 3
    assert "localhost" in str(named["error"])


@owes("K-55")
def test_where_a_page_connected_to_is_recorded_with_the_call(site: Site, tmp_path: Path) -> None:
    site.extra["/shop.html"] = f"<title>Shop</title><img src='{site.url('/form.html', 'localhost')}'>"
    settings = tmp_path / ".config" / "pegboard"
    settings.mkdir(parents=True)
    (settings / "pegboard.toml").write_text(
        f'rules = ["allow connect:127.0.0.1:{site.port}"]\n[network]\nallow_hosts = ["127.0.0.1:{site.port}"]\n'
    )

    status, _ = call(tmp_path, "action=navigate", f"url={site.url('/shop.html')}")
    listed = subprocess.run(
        [sys.executable, "-m", "pegboard.cli.main", "audit", "destinations", "--json"],
        cwd=tmp_path / "work", env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip

    tried = [json.loads(line) for line in listed.stdout.splitlines()]
    assert status == 0
    assert [(t["tool"], t["host"], t["port"], t["allowed"]) for t in tried] == [
        ("browser", "127.0.0.1", site.port, True),
        ("browser", "localhost", site.port, False),
    ]
    assert all(t["call"] for t in tried)


@owes("M-35")
@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('cdp = "http://127.0.0.1:9222"', "unknown key browser.cdp; known: executable, headless, cdp_url"),
        ('headless = "no"', "browser.headless must be true or false"),
        ('cdp_url = "127.0.0.1:9222"', "must be an http or ws address"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, table: str, why: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"[browser]\n{table}\n")

    with pytest.raises(ConfigError, match=why):
        load_config(Paths.of({"HOME": str(tmp_path)}), None, file=file, environment={})


def test_the_settings_name_the_browser(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[browser]\nexecutable = "/opt/chrome"\nheadless = false\ncdp_url = "ws://127.0.0.1:9222/x"\n'
    )

    browser = load_config(Paths.of({"HOME": str(tmp_path)}), None, file=file, environment={}).browser

    assert (browser.executable, browser.headless, browser.cdp_url) == (
        "/opt/chrome",
        False,
        "ws://127.0.0.1:9222/x",
    )


def test_nothing_of_the_browser_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, pegboard; from pegboard import builtin, Executor; Executor(builtin('browser'), workspace='.');"
        "print([m for m in sys.modules if m.split('.')[0] == 'playwright'])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == "[]"
