"""The page `/node` in a real Chromium as the phone: paired, asked, shown approvals, and a canvas in a sandbox."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pegboard.app.app import App
from pegboard.browser.chromium import find_chromium
from pegboard.net.listening import stop_listening
from tests.gateway.conftest import Serve, calls, events
from tests.gateway.test_nodes import allow, approve, call
from tests.ledger import owes

pytestmark = pytest.mark.slow

WAIT_MS = 30_000


@asynccontextmanager
async def phone() -> AsyncGenerator[Any]:
    """A page in a fresh profile of Chromium that grants location, camera and notices; the camera is a test picture."""
    from playwright.async_api import async_playwright

    program = find_chromium("", os.environ)
    assert program, "Chromium cannot be had here"
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=program,
            args=["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--no-sandbox"],
        )
        context = await browser.new_context(
            geolocation={"latitude": 48.137, "longitude": 11.575, "accuracy": 20},
            permissions=["geolocation", "camera", "notifications"], viewport={"width": 390, "height": 844},
        )  # fmt: skip
        page = await context.new_page()
        page.set_default_timeout(WAIT_MS)
        try:
            yield page
        finally:
            await browser.close()


async def pair(page: Any, client: httpx2.AsyncClient, folder: Path, *capabilities: str) -> None:
    await page.goto(f"{str(client.base_url).rstrip('/')}/node")
    for box in await page.locator("#capabilities input").all():
        await box.set_checked(await box.get_attribute("value") in capabilities)
    await page.get_by_role("button", name="Connect").click()
    await page.locator("#pairing").wait_for()
    await approve(await page.locator("#code").inner_text(), folder)
    await page.get_by_text("Connected as phone").wait_for()


async def colour_of_snapshot(folder: Path) -> tuple[int, ...]:
    """The top right pixel of the canvas's picture, as a tool call of another process gets it."""
    from PIL import Image as Picture

    from pegboard.core.content import Image

    with App.open(workspace=folder) as app:
        outcome = await app.calls.call("canvas", {"action": "snapshot"})
    (image,) = [b for b in outcome.result.content if isinstance(b, Image)]
    with Picture.open(io.BytesIO(image.data)) as picture:
        return picture.convert("RGB").getpixel((picture.width - 5, 5))


@owes("M-40", "X-51")
async def test_a_phones_browser_is_paired_and_used(serve: Serve, folder: Path, own_home: Path) -> None:
    allow(own_home)
    async with serve() as client, phone() as page:
        errors: list[str] = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        await pair(page, client, folder, "notify", "location", "camera", "approve")
        location = await call(client, action="location")
        photo = await call(client, action="camera_snap")
        notified = await call(client, action="notify", title="Build", text="It is <b>green</b>")
        notice = await page.locator("#notices").inner_text()
        asking = asyncio.ensure_future(call(client, action="approve", text="Deploy now?"))
        await page.get_by_role("button", name="Yes").click()
        said = await asking
        refused = await call(client, action="run", command="id")
        # The key outlives the page and cannot be read by it.
        await page.reload()
        await page.get_by_text("Connected as phone").wait_for()
        extractable = await page.evaluate(
            """() => new Promise((done) => {
              const opening = indexedDB.open("pegboard-node", 1);
              opening.onsuccess = () => {
                const asked = opening.result.transaction("kept").objectStore("kept").get("device");
                asked.onsuccess = () => crypto.subtle.exportKey("pkcs8", asked.result.privateKey)
                  .then(() => done(true), () => done(false));
              };
            })"""
        )
        again = await call(client, action="location")

    assert (location["data"]["latitude"], location["data"]["longitude"]) == (48.137, 11.575)
    assert photo["data"]["mime_type"] == "image/jpeg" and photo["data"]["bytes"] > 1000
    assert notified["ok"] and "It is <b>green</b>" in notice
    assert said["data"]["approved"] is True
    assert refused["error"]["code"] == "unsupported"
    assert extractable is False and again["ok"]
    assert errors == []


@owes("X-51")
async def test_a_phone_shows_what_needs_approval_and_its_answer_is_recorded(
    serve: Serve, folder: Path
) -> None:
    (folder / ".envrc").write_text("export A=1\n")
    edit = calls("write_file", path=".envrc", content="export A=2\n")
    async with serve(edit, {"text": "Done."}) as client, phone() as page:
        await pair(page, client, folder, "approve")
        run = (await client.post("/api/runs", json={"task": "set A to 2"})).json()["run"]
        await page.get_by_role("button", name="Allow once").wait_for()
        shown = await page.locator("#approvals").inner_text()
        before = (folder / ".envrc").read_text()
        await page.get_by_role("button", name="Allow once").click()
        seen = await events(client, run)
        await page.locator("#approvals").wait_for(state="hidden")

    assert "write_file wants to:" in shown and "write .envrc" in shown and "+export A=2" in shown
    assert before == "export A=1\n" and (folder / ".envrc").read_text() == "export A=2\n"
    assert "node:phone" in json.dumps([e for _, e in seen if e["type"] == "call.started"])


@owes("X-48")
async def test_a_page_is_presented_in_a_sandbox_asked_and_photographed(
    serve: Serve, folder: Path, own_home: Path
) -> None:
    allow(own_home)
    html = (
        "<!doctype html><body style='margin:0;background:#00f'><h1 id=t style='color:#fff'>Otter</h1>"
        "<script>window.n = 41; document.getElementById('t').textContent += '!'</script>"
    )
    async with serve() as client, phone() as page:
        await pair(page, client, folder, "canvas")
        nothing = await call(client, "canvas", action="eval", script="1")
        presented = await call(client, "canvas", action="present", html=html, title="Demo")
        text = await page.frame_locator("iframe").locator("#t").inner_text()
        value = await call(client, "canvas", action="eval", javaScript="n += 1; Promise.resolve({n})")
        wrong = await call(client, "canvas", action="eval", script="nope()")
        snapshot = await client.post("/api/tools/canvas/call", json={"arguments": {"action": "snapshot"}})
        colour = await colour_of_snapshot(folder)
        drawn = await call(
            client,
            "canvas",
            action="present",
            commands=[{"type": "rect", "width": 50, "height": 50, "fill": "red"}],
        )
        rects = await page.frame_locator("iframe").locator("rect").count()
        hidden = await call(client, "canvas", action="hide")
        frames = await page.locator("iframe").count()

    assert nothing["error"]["message"] == "phone: nothing is shown"
    assert presented["text"] == "Shown on phone." and text == "Otter!"
    assert value["data"]["value"] == {"n": 42}
    assert "nope is not defined" in wrong["error"]["message"]
    assert snapshot.json()["data"]["mime_type"] == "image/png"
    assert drawn["ok"] and rects == 2  # The background and the shape.
    assert hidden["ok"] and frames == 0
    assert colour == (0, 0, 255)


@owes("X-48")
async def test_what_is_presented_has_no_origin_no_network_and_no_way_to_the_page(
    serve: Serve, folder: Path, own_home: Path
) -> None:
    allow(own_home)
    reached: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Chromium may open a connection before it refuses to go there; nothing is sent over it.
        reached.append((await reader.read()).decode())
        writer.close()

    outside = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = outside.sockets[0].getsockname()[1]
    probes = {
        "origin": "self.origin",
        "storage": "try { localStorage.length; 'open' } catch (e) { e.name }",
        "cookie": "try { document.cookie = 'a=1'; 'open' } catch (e) { e.name }",
        "page": "try { parent.document.title } catch (e) { e.name }",
        "fetch": f"fetch('http://127.0.0.1:{port}/fetch').then(() => 'sent', (e) => e.name)",
        "own": "fetch('/api/health').then(() => 'sent', (e) => e.name)",
        "socket": f"new Promise((d) => {{ const s = new WebSocket('ws://127.0.0.1:{port}/ws');"
        " s.onopen = () => d('sent'); s.onerror = () => d('refused') })",
        "beacon": f"navigator.sendBeacon('http://127.0.0.1:{port}/beacon'); 'asked'",
        "image": f"new Promise((d) => {{ const i = new Image(); i.onload = () => d('sent'); i.onerror = () => d('refused');"
        f" i.src = 'http://127.0.0.1:{port}/image' }})",
        "popup": f"String(window.open('http://127.0.0.1:{port}/popup'))",
        "top": f"try {{ top.location = 'http://127.0.0.1:{port}/top'; 'asked' }} catch (e) {{ e.name }}",
        "form": f"document.body.innerHTML = '<form action=\"http://127.0.0.1:{port}/form\"></form>';"
        " document.forms[0].submit(); 'asked'",
        "child": f"document.body.innerHTML = '<iframe></iframe>'; try {{ frames[0].location ="
        f" 'http://127.0.0.1:{port}/child'; 'asked' }} catch (e) {{ e.name }}",
        "link": f"document.body.innerHTML = '<a href=\"http://127.0.0.1:{port}/link\">x</a>';"
        " document.links[0].click(); 'asked'",
        "prefetch": f"document.head.innerHTML = '<link rel=prefetch href=\"http://127.0.0.1:{port}/p\">"
        f"<link rel=preconnect href=\"http://127.0.0.1:{port}/q\">'; 'asked'",
        "refresh": f"document.head.innerHTML = '<meta http-equiv=refresh content=\"0;url=http://127.0.0.1:{port}/r\">';"
        " 'asked'",
        "leave": f"location = 'http://127.0.0.1:{port}/leave'; 'asked'",
    }  # fmt: skip
    try:
        async with serve() as client, phone() as page:
            await pair(page, client, folder, "canvas")
            address = page.url
            found: dict[str, Any] = {}
            for name, script in probes.items():
                await call(client, "canvas", action="present", html="<p>hostile</p>")
                found[name] = (await call(client, "canvas", action="eval", script=script))["data"]["value"]
            # A frame that has left for an error page makes way for the next one.
            last = await call(client, "canvas", action="present", html="<p>next</p>")
            still = page.url
    finally:
        await stop_listening(outside)

    assert found == {
        "origin": "null", "storage": "SecurityError", "cookie": "SecurityError", "page": "SecurityError",
        "fetch": "TypeError", "own": "TypeError", "socket": "refused", "beacon": "asked", "image": "refused",
        "popup": "null", "top": "SecurityError", "form": "asked",
        "child": "asked", "link": "asked", "prefetch": "asked", "refresh": "asked", "leave": "asked",
    }  # fmt: skip
    assert last["ok"] and still == address
    assert [text for text in reached if text] == []


async def test_the_page_and_the_canvas_carry_strict_policies(serve: Serve) -> None:
    async with serve() as client:
        async with httpx2.AsyncClient(base_url=client.base_url, trust_env=False) as stranger:
            answers = {
                path: await stranger.get(path)
                for path in ("/node", "/node/node.js", "/node/node.css", "/node/canvas")
            }
            missing = await stranger.get("/node/../pages/node.html")

    policies = {path: a.headers["content-security-policy"] for path, a in answers.items()}
    assert {a.status_code for a in answers.values()} == {200} and missing.status_code in (401, 404)
    assert "frame-ancestors 'none'" in policies["/node"] and "unsafe" not in policies["/node"]
    assert policies["/node/canvas"].startswith("sandbox allow-scripts; default-src 'none'")
    assert "<script>" not in answers["/node"].text and " style=" not in answers["/node"].text
