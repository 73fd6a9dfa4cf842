"""Run the side-by-side benchmarks and say which bars are met; every figure is a ratio within one run.

python bench/run.py                    our side beside the floors
python bench/run.py --peers            beside the peers too (needs their environments)
python bench/run.py dispatch loop      some of them
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
YARDSTICK = HERE.parents[1] / "shared" / "bench"
OURS = ("import", "schema", "dispatch", "parallel", "loop", "files", "exec")

# (bench, our metric, our subject, floor's metric, floor's subject, most)
BARS = (
    ("import", "cpu", "pegboard", "cpu", "pydantic BaseModel", 0.5),
    ("import", "cpu", "pegboard: one tool defined and called", "cpu", "pydantic BaseModel", 1.3),
    (
        "schema",
        "build_and_first_render_us_per_tool",
        "pegboard",
        "build_and_first_render_us_per_tool",
        "floor",
        1.1,
    ),
    (
        "parallel",
        "async_10ms_x1000",
        "pegboard: Executor + gather",
        "async_10ms_x1000",
        "floor: gather + json",
        1.3,
    ),
    (
        "parallel",
        "sync_50ms_x1000",
        "pegboard: Executor + gather",
        "sync_50ms_x1000",
        "floor: to_thread, 1024 workers",
        1.3,
    ),
)
# (bench, metric, subject, most, unit)
LIMITS = (
    ("schema", "build_us_per_tool", "pegboard", 60, "us"),
    ("schema", "render_1000_again", "pegboard", 1, "ms"),
    (
        "dispatch",
        "cpu_us_per_call",
        "pegboard: Executor.call",
        12,
        "us (aim; the bar is less than the peers)",
    ),
    ("loop", "us_turn_10", "pegboard", 150, "us"),
    ("loop", "growth_10_to_last", "pegboard", 1.15, "x"),
)


def main() -> int:
    """Run and print; 0 always, since a figure is no test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benches", nargs="*", default=[])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not YARDSTICK.is_dir():
        print(f"the yardstick is not at {YARDSTICK}; nothing was measured")
        return 0
    out = Path(tempfile.mkdtemp(prefix="pegboard-bench-")) / "rows.jsonl"
    env = {
        **os.environ,
        "BENCH_ADAPTERS": str(HERE),
        "BENCH_PYTHON_PEGBOARD": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",
        # The yardstick runs elsewhere: a source tree without an installation is found all the same.
        "PYTHONPATH": str(HERE.parent / "src"),
    }
    if not args.peers:
        # The floors need what we have: pydantic. Those that need more are left out by the yardstick, which has
        # an environment of its own for them where the peers have theirs.
        env.setdefault("BENCH_PYTHON_FLOOR", sys.executable)
    names = [] if args.peers else ["--adapters", "floor,pegboard"]
    command = [
        sys.executable,
        "run.py",
        *(args.benches or OURS),
        *names,
        "--rounds",
        str(args.rounds),
        "--out",
        str(out),
    ]
    subprocess.run(command, cwd=YARDSTICK, env=env, check=False)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    print("\n" + bars(rows), flush=True)
    if not args.benches:
        others(env)
    return 0


def others(env: dict[str, str]) -> None:
    """What the yardstick does not measure, or too coarsely: the spine, search over many tools, what permission costs, the loop, commands, MCP."""
    for script in ("core_bars.py", "tool_search.py", "trust.py", "loop_checks.py", "shell_bars.py"):
        print(f"\n## {script}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / script)], env=env, check=False)
        if done.returncode:
            print(f"{script} ended with {done.returncode}; its figures are missing", flush=True)
    print("\n## MCP: echo through our client and our server, over standard input and output", flush=True)
    program = str(HERE / "pegboard_adapter.py")
    done = subprocess.run([sys.executable, program], env=env, check=False)
    if done.returncode:
        print(f"the MCP echo ended with {done.returncode}; its figures are missing", flush=True)


def bars(rows: list[dict[str, object]]) -> str:
    """Each bar beside what was measured in this run."""

    def median(bench: str, metric: str, subject: str) -> float | None:
        found = [
            float(str(r["value"]))
            for r in rows
            if r["bench"] == bench and r["metric"] == metric and r["subject"] == subject
        ]
        return statistics.median(found) if found else None

    out = ["| bar | measured | most | met |", "|---|---|---|---|"]
    for bench, metric, subject, floor_metric, floor, most in BARS:
        ours, theirs = median(bench, metric, subject), median(bench, floor_metric, floor)
        if ours is not None and theirs:
            ratio = ours / theirs
            out.append(
                f"| {subject}: {metric} against {floor} | {ratio:.2f} x | {most} x | {'yes' if ratio <= most else 'NO'} |"
            )
    for bench, metric, subject, limit, unit in LIMITS:
        ours = median(bench, metric, subject)
        if ours is not None:
            out.append(
                f"| {subject}: {metric} | {ours:.3g} {unit} | {limit} | {'yes' if ours <= limit else 'NO'} |"
            )
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
