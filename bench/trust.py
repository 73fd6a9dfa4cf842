"""What permission costs, each as a ratio to a floor measured in the same run. `python bench/trust.py`"""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pegboard import PURE, Effect, Executor, tool
from pegboard.core.effects import EFFECT_KINDS
from pegboard.core.events import CallStarted
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rule_index import RuleIndex
from pegboard.core.policy.rules import Rule, Situation
from pegboard.core.secrets.redact import Redactor
from pegboard.store import open_store
from pegboard.store.chain import Chain
from pegboard.store.log import Log

HERE = Situation(values={"tool": "exec", "agent": "main", "session": "s", "channel": "", "sender": "", "model": ""},
                 workspace="/home/me/project", home="/home/me")  # fmt: skip


def thousand_rules() -> list[Rule]:
    """As people write them: commands, folders, endings, hosts, recipients, senders."""
    lines: list[str] = []
    for n in range(167):
        lines += [
            f"allow exec:tool{n} run *", f"deny read:src/part{n}/private", f"deny write:*.gen{n}",
            f"allow connect:*.service{n}.example.com", f"ask send:mail:person{n}", f"deny exec:psql ** sender=user{n}",
        ]  # fmt: skip
    return [Rule.parse(line) for line in lines[:1000]]


def effects(n: int) -> tuple[Effect, ...]:
    """Four effects that no earlier call had."""
    return (
        Effect("exec", f"tool{n % 167} run {n}", (f"tool{n % 167}", "run", str(n))),
        Effect("read", f"src/part{n % 167}/module{n}/a.py"),
        Effect("write", f"out/file{n}.gen{n % 300}"),
        Effect("connect", f"h{n}.service{n % 167}.example.com"),
    )


def median_us(work: Callable[[int], object], *, times: int = 2000, rounds: int = 7) -> float:
    """Microseconds of one call: the median of rounds' means."""
    means: list[float] = []
    gc.disable()
    for r in range(rounds):
        start = time.perf_counter()
        for n in range(times):
            work(r * times + n)
        means.append((time.perf_counter() - start) / times * 1e6)
    gc.enable()
    return statistics.median(means)


def verdict(value: float, most: float) -> str:
    """The bar (issue 4) beside the figure."""
    return f"[at most {most:g} us: {'met' if value <= most else 'NOT met'}]"


def policies() -> None:
    """A decision over one effect under 1,000 rules, new and repeated, against trying each rule and no rule."""
    rules = thousand_rules()
    many, none = Policy.of(rules), Policy.of([], mode="full")
    index = RuleIndex(rules)
    for number, kind in enumerate(("exec", "read", "write", "connect")):
        cold = median_us(lambda n, i=number: many((effects(n)[i],), HERE))
        made = median_us(lambda n, i=number: (effects(n)[i],))
        same = (effects(3)[number],)
        warm = median_us(lambda n, e=same: many(e, HERE))
        floor = median_us(lambda n, i=number: none((effects(n)[i],), HERE))
        scan = median_us(
            lambda n, i=number: [r for r in rules if r.covers(effects(n)[i], HERE)], times=20, rounds=3
        )
        find = median_us(lambda n, i=number: index.find(effects(n)[i], HERE))
        print(
            f"policy {kind:8} new {cold - made:6.1f} us, repeated {warm:5.1f} us; no rules {floor - made:5.1f} us, "
            f"each rule tried {scan:7.0f} us, index alone {find - made:5.1f} us {verdict(cold - made, 50)}"
        )
    assert set(EFFECT_KINDS) >= {"exec", "read", "write", "connect"}


async def audit() -> None:
    """One record, from `record` to committed and chained, against the same rows put into SQLite bare."""
    effect = (Effect("read", "src/a.py"),)
    events = [
        CallStarted(call_id=f"c{n}", tool="read_file", arguments={"path": "src/a.py"}, effects=effect, rule="mode workspace")
        for n in range(4000)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(Path(folder) / "a.sqlite")
        chain = Chain(key=b"k" * 32, heads=Path(folder) / "heads")
        log = await Log.open(
            store, "s", chain=chain, redact=Redactor({"key": "s3cret-value-0123456789"}).redact
        )
        start, begun = time.perf_counter(), time.process_time()
        for event in events:
            log.record(event)
        handed = time.perf_counter() - start
        await log.flush()
        # CPU of all threads: the wall clock also counts the neighbours and the disk.
        spent = (time.process_time() - begun) / len(events) * 1e6
        whole = (time.perf_counter() - start) / len(events) * 1e6
        await log.close()
        await store.close()
        print(f"audit record  handed over {handed / len(events) * 1e6:.1f} us")
        print(f"audit record  CPU to committed {spent:.1f} us {verdict(spent, 40)}")
        body = json.dumps(
            {"type": "call.started", "tool": "read_file", "arguments": {"path": "src/a.py"}}
        ).encode()
        db = sqlite3.connect(Path(folder) / "bare.sqlite", isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("CREATE TABLE bare (seq INTEGER PRIMARY KEY, run, type, at, mac, body)")
        start = time.perf_counter()
        for chunk in range(0, len(events), 512):
            db.execute("BEGIN IMMEDIATE")
            rows = [(chunk + i, "r", "t", 0, "m", body) for i in range(512)]
            db.executemany("INSERT INTO bare VALUES (?,?,?,?,?,?)", rows)
            db.execute("COMMIT")
        bare = (time.perf_counter() - start) / len(events) * 1e6
        db.close()
        print(f"audit record  committed {whole:.1f} us, bare rows {bare:.1f} us, ratio {whole / bare:.1f}")


def calls() -> None:
    """A pure tool through the door, against the bare coroutine."""

    @tool(effects=PURE)
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool(effects=[Effect("read", "a.txt")])
    async def look(a: int) -> int:
        """Look."""
        return a

    door = Executor([add, look])

    async def run() -> None:
        async def each(name: str, arguments: str, times: int = 3000) -> float:
            means: list[float] = []
            for _ in range(7):
                start = time.perf_counter()
                for _ in range(times):
                    await door.call(name, arguments)
                means.append((time.perf_counter() - start) / times * 1e6)
            return statistics.median(means)

        await each("add", '{"a": 1, "b": 2}', 500)
        pure = await each("add", '{"a": 1, "b": 2}')
        read = await each("look", '{"a": 1}')
        start = time.perf_counter()
        for _ in range(20000):
            await add.function(1, 2)
        bare = (time.perf_counter() - start) / 20000 * 1e6
        print(
            f"call          pure {pure:.1f} us, with a read effect {read:.1f} us, bare coroutine {bare:.2f} us"
        )

    asyncio.run(run())


if __name__ == "__main__":
    policies()
    asyncio.run(audit())
    calls()
