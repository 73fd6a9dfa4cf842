"""Who reaches the gateway: nobody without the token, no foreign page, no flood, and never with a traceback."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.gateway.conftest import TOKEN, Serve

PUBLIC = {"/", "/openapi.json", "/api/health"}
PAIRING = {"/api/pairing", "/api/pairing/token"}
"""Here a new device asks for a token; they give no data."""
WEBHOOK, PAGE = "/api/webhooks/{name}", "/page"
"""These have a proof of their own: a signature, a ticket."""


async def test_all_data_needs_the_token(serve: Serve) -> None:
    async with serve() as client:
        document = (await client.get("/openapi.json")).json()
        async with httpx2.AsyncClient(base_url=client.base_url, trust_env=False) as stranger:
            guess = await stranger.get("/api/runs", headers={"Authorization": "Bearer wrong"})
            answers = {
                (method, path): await stranger.request(method, path.replace("{", "").replace("}", ""))
                for path, methods in document["paths"].items()
                for method in methods
            }
            by_query = await stranger.get("/api/runs", params={"token": TOKEN})

    assert {path for (_, path), a in answers.items() if a.status_code == 200} == PUBLIC
    refused = [
        a.status_code for (_, path), a in answers.items() if path not in {*PUBLIC, *PAIRING, WEBHOOK, PAGE}
    ]
    # Of many wrong tokens in a minute, the later ones are not looked at.
    assert refused[0] == 401 and {*refused, guess.status_code} <= {401, 429}
    assert {answers["post", path].status_code for path in PAIRING} == {415}
    assert answers["post", WEBHOOK].status_code == 404 and answers["get", PAGE].status_code >= 400
    assert by_query.status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/health", "/api/runs"])
async def test_foreign_hosts_and_origins_are_refused(
    serve: Serve, headers: dict[str, str], status: int, path: str
) -> None:
    async with serve() as client:
        answer = await client.get(path, headers=headers)
        own = await client.get(path, headers={"Origin": str(client.base_url).rstrip("/")})

    assert answer.status_code == status and set(answer.json()["error"]) == {"code", "message", "hint"}
    assert own.status_code == 200


async def test_what_a_foreign_form_can_send_is_refused(serve: Serve) -> None:
    async with serve() as client:
        form = await client.post("/api/runs", data={"task": "x"})
        text = await client.post("/api/runs", content='{"task": "x"}', headers={"content-type": "text/plain"})
        runs = (await client.get("/api/runs")).json()["runs"]

    assert (form.status_code, text.status_code, runs) == (415, 415, [])


async def test_a_flood_is_slowed_down(serve: Serve) -> None:
    now = 100.0

    def clock() -> float:
        return now

    async with serve(clock=clock) as client:
        statuses = [(await client.post("/api/undo")).status_code for _ in range(201)]
        refused = await client.post("/api/undo")
        read = await client.get("/api/runs")
        now += 1
        later = await client.post("/api/undo")

    assert 429 not in statuses[:200] and statuses[200] == 429
    assert refused.headers["retry-after"] == "1"
    assert read.status_code == 200 and later.status_code != 429


async def test_a_body_over_the_limit_is_refused(serve: Serve) -> None:
    async with serve() as client:
        answer = await client.post("/api/runs", json={"task": "x" * (5 * 1024 * 1024)})

    assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"


BODIES: list[Any] = [
    None, [], 1, "text", {}, {"task": None}, {"task": ""}, {"task": "\ud800"}, {"unknown": 1}, {"arguments": []},
    {"decision": "maybe"}, {"base": "x", "set": {"model": None}}, {"messages": [{"role": "user", "content": [{}]}]},
    {"messages": [{"role": "tool", "content": "x"}]}, {"schedule": "never ever", "message": "x"},
    {"target": "../../etc/passwd"}, {"enabled": "yes"}, {"arguments": {"path": "\ud800"}},
]  # fmt: skip


async def test_nothing_that_a_client_sends_makes_the_gateway_fail(serve: Serve) -> None:
    """Each method of each path of the OpenAPI document with odd bodies, path parts and queries."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    failed: list[Any] = []
    async with serve(clock=clock) as client:
        document = (await client.get("/openapi.json")).json()
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                names = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
                for part in ("x", "..%2F..%2Fetc", "%00", "%FF", "a" * 500):
                    for body in BODIES if "requestBody" in operation else [None]:
                        url = path
                        for name in names:
                            url = url.replace(f"{{{name}}}", part)
                        raw = json.dumps(body).encode()
                        answer = await client.request(
                            method, url, content=raw, headers={"content-type": "application/json"}
                        )
                        plain = answer.status_code < 400 or set(answer.json()) >= {"error"}
                        if answer.status_code >= 500 or not plain or "Traceback" in answer.text:
                            failed.append((method, url, body, answer.status_code, answer.text[:200]))
                    if not names:
                        break
                for query in operation["parameters"]:
                    if query["in"] == "query":
                        for value in ("-1", "x", "9" * 30, "%00"):
                            answer = await client.request(method, f"{path}?{query['name']}={value}")
                            if answer.status_code >= 500:
                                failed.append((method, path, query["name"], value, answer.text[:200]))

    assert failed == []


async def test_a_method_that_a_path_does_not_take_is_told_which_it_takes(serve: Serve) -> None:
    async with serve() as client:
        refused = await client.delete("/api/runs")

    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    assert refused.json()["error"]["message"] == "/api/runs does not take DELETE; it takes GET, HEAD, POST"
