"""Files over HTTP: read as the tools read them, and paths in every parameter that lead nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.gateway.conftest import Serve

TRICKS = (
    "..", ".", "%2e%2e", "..%2f..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "..%5c..%5cwin.ini", "a%00b", "%00", "%0d%0aX:%20y",
    "%252e%252e%252f", "%c0%ae%c0%ae", "%ff%fe", "%ed%a0%80", quote("ﬁle/．．/．．"), quote("\u202egnp.exe"), quote("🙂" * 300),
    "a" * 3000, "%20", "~", "~root", "-rf", "%3f", "%23", "con", "file:%2f%2f%2fetc%2fpasswd", "${HOME}", "%7b%7d", "*", "last",
)  # fmt: skip


async def test_folders_are_listed_and_text_is_read_page_by_page(serve: Serve, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "long.txt").write_text("".join(f"{n}\n" for n in range(1, 2001)))
    (folder / "b.bin").write_bytes(b"\0\1\2")
    async with serve() as client:
        top = (await client.get("/api/files")).json()
        sub = (await client.get("/api/files", params={"path": "sub"})).json()
        page = (
            await client.get("/api/files", params={"path": "sub/long.txt", "offset": 5, "limit": 2})
        ).json()
        binary = (await client.get("/api/files", params={"path": "b.bin"})).json()
        runs = (await client.get("/api/runs")).json()["runs"]

    assert top["kind"] == sub["kind"] == "dir"
    assert [(e["path"], e["kind"]) for e in top["entries"]] == [
        ("sub", "dir"),
        ("a.txt", "file"),
        ("b.bin", "file"),
    ]
    assert [e["size"] for e in sub["entries"]] == [8893]
    assert (page["kind"], page["text"], page["first"], page["total"], page["more"]) == (
        "file",
        "5\n6\n",
        5,
        2000,
        True,
    )
    assert (binary["kind"], binary["text"], binary["binary"]) == ("file", "", True)
    assert runs == []


async def test_the_border_the_policy_and_the_redaction_of_secrets_hold(
    serve: Serve, folder: Path, own_home: Path
) -> None:
    secret = "sk-proj-4f9A8s7d6F5g4H3j2K1l0Z9x8C7v6B5n4M3q"
    file = own_home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text('rules = ["deny read:private"]\n')
    (folder / "private").mkdir()
    (folder / "private" / "x.txt").write_text("mine\n")
    (folder / "key.txt").write_text(f"{secret}\n")
    (folder / "out").symlink_to("/etc")
    async with serve() as client:
        told = {
            path: await client.get("/api/files", params={"path": path})
            for path in ("../w2", "/etc/passwd", "out/passwd", "out", "private", "private/x.txt", "nope", "key.txt", "a\0b")
        }  # fmt: skip

    codes = {path: answer.status_code for path, answer in told.items()}
    assert codes == {
        "../w2": 403, "/etc/passwd": 403, "out/passwd": 403, "out": 403, "private": 403, "private/x.txt": 403,
        "nope": 404, "key.txt": 200, "a\0b": 400,
    }  # fmt: skip
    assert secret not in told["key.txt"].text and "root:" not in "".join(a.text for a in told.values())


@pytest.mark.slow
async def test_tricks_in_path_parameters_reach_nothing(serve: Serve, folder: Path) -> None:
    """Each path parameter of each endpoint: an error of the request, whatever stands there, and never a file."""
    (folder.parent / "secret.txt").write_text("outside")
    now = 0.0
    bad: list[tuple[str, str, int, str]] = []

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    async with serve(clock=clock) as client:
        document = (await client.get("/openapi.json")).json()
        for path, methods in document["paths"].items():
            names = [p["name"] for m in methods.values() for p in m["parameters"] if p["in"] == "path"]
            for method in methods if names else ():
                for trick in TRICKS:
                    url = path.replace(f"{{{names[0]}}}", trick)
                    answer = await client.request(
                        method, url, json={} if method not in ("get", "delete") else None
                    )
                    text = answer.text
                    fine = 400 <= answer.status_code < 500 or (trick == "last" and answer.status_code == 404)
                    # Dots are taken out by clients: the list above may be meant then.
                    fine = fine or (
                        answer.status_code < 400 and json.loads(text).get("error") is None and "." in trick
                    )
                    if not fine or "root:" in text or "outside" in text or "Traceback" in text:
                        bad.append((method, url[:120], answer.status_code, text[:200]))

    assert bad == []
