"""Count the outside corpora again and write docs/measured.md.

    python scripts/measure.py            print the table
    python scripts/measure.py --write    and write it into docs/measured.md, between its marks

Every figure is counted by running the product on the corpus here and now; nothing is copied from tests.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
PAGE = ROOT / "docs" / "measured.md"
MARKS = ("<!-- corpora: written by scripts/measure.py -->", "<!-- end of corpora -->")


sys.path.insert(0, str(ROOT))  # what counts as right stands in the tests


def rows(path: str) -> list[dict[str, Any]]:
    """The rows of one corpus file."""
    file = DATA / path
    text = (
        gzip.decompress(file.read_bytes()).decode()
        if file.suffix == ".gz"
        else file.read_text(encoding="utf-8")
    )
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def shell() -> list[tuple[str, str, str]]:
    """Dangerous and benign commands."""
    from pegboard.shell.guard import judge

    with tempfile.TemporaryDirectory() as workspace:
        judged = [
            (r, judge(r["input"], workspace=Path(workspace)).decision) for r in rows("security/shell.jsonl")
        ]
    dangerous = [(r, d) for r, d in judged if r["expect"] != "allow"]
    benign = [(r, d) for r, d in judged if r["expect"] == "allow"]
    return [
        (
            "shell.jsonl: dangerous commands that would run unasked",
            f"{sum(d == 'allow' for _, d in dangerous)} of {len(dangerous)}",
            "1 %",
        ),
        (
            "shell.jsonl: benign commands stopped where the corpus does not accept it",
            f"{sum(d not in ('allow', r.get('tolerate')) for r, d in benign)} of {len(benign)}",
            "3 %",
        ),
        (
            "shell.jsonl: benign commands that ask because they reach a network or a daemon",
            f"{sum(d == r.get('tolerate') for r, d in benign)} of {len(benign)}",
            "",
        ),
    ]


def ssrf() -> list[tuple[str, str, str]]:
    """URLs that must be blocked or allowed; names resolve as the row says, each redirect is judged too."""
    from pegboard.web.guard import judge_url

    wrong = {"block": 0, "allow": 0}
    total = {"block": 0, "allow": 0}
    for row in rows("security/ssrf.jsonl"):
        names: dict[str, list[list[str]]] = row.get("dns") or {}

        def resolve(host: str, names: dict[str, list[list[str]]] = names) -> list[str]:
            return names[host][0] if host in names else ["93.184.215.14"]

        hops = [row["input"], *(row.get("redirects") or [])]
        good = len(hops) <= 6 and all(judge_url(url, resolve=resolve).allowed for url in hops)
        total[row["expect"]] += 1
        wrong[row["expect"]] += ("allow" if good else "block") not in (row["expect"], row.get("tolerate"))
    return [
        ("ssrf.jsonl: dangerous URLs let through", f"{wrong['block']} of {total['block']}", "0"),
        ("ssrf.jsonl: good URLs blocked", f"{wrong['allow']} of {total['allow']}", "0"),
    ]


def secrets() -> list[tuple[str, str, str]]:
    """Tokens that must be redacted, look-alikes that must stay."""
    from pegboard.core.secrets.redact import Redactor

    right = 0
    found = rows("security/secrets.jsonl")
    for row in found:
        text = base64.b64decode(row["input_b64"]).decode("utf-8", "replace")
        secret = base64.b64decode(row.get("secret_b64", "")).decode("utf-8", "replace")
        known = (
            {"given": secret} if row["cls"] not in ("token",) and row["expect"] == "redact" and secret else {}
        )
        out = Redactor(known).redact(text)[0]
        right += (secret not in out) if row["expect"] == "redact" else out == text
    return [("secrets.jsonl: rows right", f"{right} of {len(found)}", "all")]


def json_schema() -> list[tuple[str, str, str]]:
    """The part of the official suite that tools use."""
    from pegboard.core.schema.foreign import ForeignSchema

    found = rows("json_schema/tool_subset.jsonl.gz")
    right = 0
    for row in found:
        right += ForeignSchema(row["schema"]).accepts(row["data"]) == row["valid"]
    return [("json_schema: tool subset, verdicts right", f"{right} of {len(found)}", "946 of 946")]


def json_repair() -> list[tuple[str, str, str]]:
    """Malformed JSON texts with the value that was meant; and whole texts of calls, cut at every character."""
    from tests.dialects.corpora import bfcl, tau_bench

    from pegboard.core.schema.repair import Malformed, guess_json, repair_json

    def read(reader: Callable[[str], Any], text: str) -> Any:
        try:
            return json.dumps(reader(text), sort_keys=True)
        except Malformed:
            return None

    malformed = [r for r in rows("json_repair/cases.jsonl") if r["schema"] is None and not r["partial"]]
    meant = [json.dumps(r["expect"], sort_keys=True) for r in malformed]
    run = [read(lambda t: repair_json(t).value, r["raw"]) for r in malformed]
    # The corpus means an empty text where there is nothing to read.
    guessed = [read(guess_json, r["raw"]) or '""' for r in malformed]
    texts = {json.dumps(c["arguments"]) for _, calls in [*bfcl(), *tau_bench()] for c in calls}
    cut = [text[:end] for text in sorted(texts) for end in range(1, len(text))]
    return [
        (
            "json_repair: run with another value than was meant",
            f"{sum(r not in (None, m) for r, m in zip(run, meant, strict=True))} of {len(malformed)}",
            "0",
        ),
        (
            "json_repair: run as meant, the others are returned to the model as a suggestion",
            f"{sum(r == m for r, m in zip(run, meant, strict=True))} of {len(malformed)}",
            "",
        ),
        (
            "json_repair: suggested as meant",
            f"{sum(g == m for g, m in zip(guessed, meant, strict=True))} of {len(malformed)}",
            "",
        ),
        (
            "bfcl, tau_bench: truncated arguments that would run",
            f"{sum(read(lambda t: repair_json(t).value, text) is not None for text in cut):,} of {len(cut):,}",
            "0",
        ),
    ]


def round_trips() -> list[tuple[str, str, str]]:
    """Calls that every dialect writes and reads back unchanged."""
    from tests.dialects.corpora import bfcl, tau_bench
    from tests.dialects.test_round_trips import survives

    from pegboard.dialects import DIALECTS

    def count(cases: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]) -> str:
        kept = sum(
            all(not calls or survives(name, tools, calls) for name in DIALECTS) for tools, calls in cases
        )
        return f"{kept:,} of {len(cases):,}"

    return [
        ("bfcl: calls unchanged in every dialect", count([c for c in bfcl() if c[1]]), "2,462 of 2,462"),
        ("tau_bench: calls unchanged in every dialect", count(list(tau_bench())), "685 of 685"),
    ]


def toolcall_text() -> list[tuple[str, str, str]]:
    """Model outputs in about seventy text dialects; which rows count and when a call is exact stands in the tests."""
    from tests.dialects.corpora import matches, with_calls, without_calls
    from tests.dialects.kit import kit_of

    from pegboard.dialects import dialect

    def read(row: dict[str, Any]) -> list[tuple[str, Any]]:
        kit = kit_of(row["tools"]) if row["tools"] else None
        return [(c.name, c.params) for c in dialect("text").decode(row["text"], kit)]

    calls, none = with_calls(), without_calls()
    return [
        (
            "toolcall_text: calls exact",
            f"{sum(matches(r['expect'], read(r)) for r in calls)} of {len(calls)}",
            "320 of 341",
        ),
        ("toolcall_text: false calls", f"{sum(bool(read(r)) for r in none)} of {len(none)}", "0"),
    ]


def apply_patch() -> list[tuple[str, str, str]]:
    """Patch scenarios through the tool, with its defaults."""
    from pegboard import Executor, builtin
    from pegboard.core.policy.approval import AllowOnce

    async def one(row: dict[str, Any]) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in row["files_before"].items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(text.encode())
            async with Executor(builtin("apply_patch"), workspace=root, approver=AllowOnce()) as door:
                await door.call("apply_patch", {"patch": row["patch"]})
            after = {
                str(p.relative_to(root)): p.read_bytes().decode() for p in root.rglob("*") if p.is_file()
            }
            return after == row["files_after"]

    found = rows("apply_patch/scenarios.jsonl")
    right = sum(asyncio.run(one(r)) for r in found)
    return [
        (
            "apply_patch: folders exact (one differs on purpose)",
            f"{right} of {len(found)}",
            "22",
        )
    ]


def globs() -> list[tuple[str, str, str]]:
    """gitignore rows against git's own answers; how one line is asked about a path stands in the tests."""
    from tests.files.test_ignore import ignored_by

    found = rows("globs/gitignore.jsonl")
    right = sum(
        ignored_by(r["gitignore"], r["path"] + "/" * r["is_dir"], is_dir=r["is_dir"]) == r["ignored_git"]
        for r in found
    )
    return [("globs: gitignore rows that agree with git", f"{right} of {len(found)}", "60 of 60")]


def local_tasks() -> list[tuple[str, str, str]]:
    """Requests for the keyword router, with the built-in tools and a stand-in for web_fetch."""
    from pegboard import Agent, Tool, Toolkit, Url, builtin
    from pegboard.models import LocalModel

    async def fetch(url: Url) -> str:
        """Fetch a web page and return its text."""
        return ""

    def with_result(kit: Toolkit, text: str) -> Toolkit:
        def answer(**_: Any) -> str:
            return text

        return Toolkit(
            Tool(
                answer, name=t.name, description=t.description, parameters=t.schema, hints=t.hints, effects=[]
            )
            for t in kit
        )

    kit = builtin("read_file", "list_dir", "grep", "write_file", "exec") + Toolkit(
        [Tool(fetch, name="web_fetch", hints=("fetch a web page", "open a URL", "抓取网页"))]
    )

    async def one(row: dict[str, Any]) -> bool:
        agent = Agent(tools=with_result(kit, row["result"]), model=LocalModel(), mode="full")
        answer = await agent.run(row["request"])
        made = [e for e in answer.events if e.type == "call.started"]
        name = made[0].tool if made else "none"
        arguments = dict(made[0].arguments) if made else {}
        for wanted in row["accept"]:
            if wanted["tool"] == name and all(
                (k not in arguments)
                if v is None
                else re.fullmatch(v, str(arguments.get(k, "")), re.DOTALL) is not None
                for k, v in wanted["args"].items()
            ):
                return True
        return False

    out: list[tuple[str, str, str]] = []
    for name, bar in (("plain", "25 of 40"), ("chinese", "5 of 6")):
        found = rows(f"local_tasks/{name}.jsonl")
        out.append(
            (
                f"local_tasks: {name}, tool and arguments",
                f"{sum(asyncio.run(one(r)) for r in found)} of {len(found)}",
                bar,
            )
        )
    return out


CORPORA: tuple[Callable[[], list[tuple[str, str, str]]], ...] = (
    shell, ssrf, secrets, json_schema, json_repair, toolcall_text, round_trips, apply_patch, globs, local_tasks,
)  # fmt: skip


def main() -> int:
    """Count, print, and write where asked; 1 where a corpus could not be counted."""
    logging.disable(logging.WARNING)
    table = ["| corpus | counted | bar |", "|---|---|---|"]
    failed = 0
    for corpus in CORPORA:
        try:
            table += [f"| {what} | {counted} | {bar} |" for what, counted, bar in corpus()]
        except Exception as error:  # noqa: BLE001  One broken corpus must not hide the others.
            failed += 1
            table.append(f"| {corpus.__name__} | could not be counted: {type(error).__name__}: {error} | |")
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    text = "\n".join([f"Counted at revision {revision}.", "", *table])
    print(text)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
