"""Take the pictures of the console in docs/console: each page over a furnished workspace, in both themes.

python scripts/console_shots.py [--to FOLDER]
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.console.conftest import TOKEN, WAIT_MS  # noqa: E402
from tests.console.furnished import LONG, furnished_gateway  # noqa: E402
from tests.console.test_pages import PAGES  # noqa: E402

WIDE: Final = {
    "chat": "/chat/demo%3Acharge", "approvals": "/approvals", "remembered": "/approvals?view=remembered",
    "runs": "/runs", "run": f"/runs/{LONG}/timeline", "run-changes": f"/runs/{LONG}/changes",
    "compare": f"/runs/{LONG}/compare", "search": "/search?q=provider", "files": "/files/changes",
    "artifacts": "/files/artifacts", "browse": "/files/browse?path=src/billing.py", "schedules": "/schedules",
    "policy": "/policy", "policy-tests": "/policy/tests", "servers": "/servers", "overview": "/overview",
    "settings": "/settings", "access": "/settings/access", "setup": "/setup/model",
}  # fmt: skip
NARROW: Final = {"narrow": "/chat/demo%3Acharge", "narrow-approvals": "/approvals", "narrow-more": "/more"}
_STILL: Final = """new Promise(done => {
  let timer = setTimeout(done, 500);
  const change = () => { clearTimeout(timer); timer = setTimeout(done, 500) };
  new MutationObserver(change).observe(document.body, {subtree: true, childList: true, characterData: true});
})"""
"""Waits until nothing on the page has changed for half a second."""
_COLOURS: Final = 128
"""A picture of few colours takes a third of the space."""


def main() -> None:
    """Serve, look at each page, and keep its picture."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from pegboard.browser.chromium import find_chromium

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "console")
    to: Path = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as base,
        furnished_gateway(Path(base)) as url,
        sync_playwright() as playwright,
    ):
        program = find_chromium("", dict(os.environ))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            for pages, width, height in ((WIDE, 1440, 900), (NARROW, 390, 844)):
                size = {"width": width, "height": height}
                context = browser.new_context(viewport=size, color_scheme=theme, base_url=url)  # pyright: ignore[reportArgumentType]
                context.add_init_script(f"sessionStorage.setItem('pegboard.token', '{TOKEN}')")
                page = context.new_page()
                page.set_default_timeout(WAIT_MS)
                for name, path in pages.items():
                    page.goto(path)
                    page.locator("#main", has_text=PAGES[path]).wait_for()
                    page.evaluate(_STILL)
                    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                    picture.quantize(_COLOURS).save(to / f"{name}-{theme}.png", optimize=True)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
