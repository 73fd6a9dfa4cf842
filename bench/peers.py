"""Pegboard beside its peers: runs the comparison and writes docs/benchmarks.md.

    make bench-peers PEERS=FOLDER
    python bench/peers.py FOLDER [--rounds N] [--only BENCH …] [--results FILE]

FOLDER holds the comparison: `run.py`, and `setup_envs.sh`, which makes a virtual environment for each peer. It is no part
of this repository, because it needs 1.5 GB and knows other products. With --results the page is written from a file that
an earlier run made.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
OURS: Final = "pegboard"
SHOWN: Final[dict[str, dict[str, str]]] = {
    "import": {"cpu": "CPU of the import, ms", "peak_rss": "peak memory, MiB"},
    "schema": {
        "build_and_first_render_us_per_tool": "1,000 functions to the provider's list, µs a tool",
        "render_1000_again": "the list of 1,000 tools again, ms",
        "rss_growth_1000": "memory of 1,000 tools, MiB",
    },
    "dispatch": {"cpu_us_per_call": "a call with five typed arguments, µs of CPU"},
    "parallel": {
        "async_10ms_x1000_cpu": "1,000 calls at once that wait 10 ms, ms of CPU",
        "async_10ms_x1000": "the same, ms on the clock",
    },
    "loop": {
        "us_turn_10": "a turn of the agent loop at its tenth, µs of CPU",
        "us_turn_last20": "the same at its five hundredth",
    },
    "mcp": {"client_cpu": "an echo call, µs of the client's CPU", "server_cpu": "the same, of the server's"},
    "html": {
        "article_100kb": "a page of 100 kB to Markdown, ms",
        "reference_1mb": "1 MB",
        "huge_5mb": "5 MB",
    },
    "files": {
        "read_90mb_cpu": "50 lines near the end of 90 MB, ms of CPU",
        "edit_100mb_cpu": "one edit in 100 MB, ms of CPU",
        "hint_20k_200_cpu": "an edit whose 200 lines are not quite there in 20,000: the answer names the place, ms of CPU",
        "glob_50k_cpu": "`**/*.py` among 50,000 files, ms of CPU",
        "grep_50k_cpu": "one word in 50,000 files, ms of CPU",
    },
    "cron": {"parse_and_next": "the next time of a cron expression, µs"},
    "exec": {
        "true_cpu": "the command `true`, ms of CPU",
        "capture_1gb_peak_rss": "1 GB of output, MiB of memory",
    },
}
"""What the page shows of each bench; less is better in all of them."""
PACKAGES: Final = {
    "openai_agents": "openai-agents", "pydantic_ai": "pydantic-ai-slim", "langchain": "langchain", "fastmcp": "fastmcp",
    "mcp": "mcp", "nanobot": "nanobot-ai", "strands": "strands-agents", "smolagents": "smolagents", "agno": "agno",
    "google_adk": "google-adk", "gptme": "gptme", "agent_framework": "agent-framework-core",
    "harness": "pydantic-ai-harness", "deepagents": "deepagents",
}  # fmt: skip


def main() -> int:
    """Measure and write; 2 if the comparison is not there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    if given.results is None and (given.folder is None or not (given.folder / "run.py").is_file()):
        print(
            "name the folder of the comparison, which has a run.py: make bench-peers PEERS=FOLDER",
            file=sys.stderr,
        )
        return 2
    results: Path = given.results or HERE.parent / "peers.jsonl"
    if given.results is None:
        results.unlink(missing_ok=True)
        env = {**os.environ, "BENCH_ADAPTERS": str(HERE), "BENCH_PYTHON_PEGBOARD": sys.executable}
        words = [
            sys.executable,
            "run.py",
            *(given.only or SHOWN),
            "--rounds",
            str(given.rounds),
            "--out",
            str(results),
        ]
        subprocess.run(words, cwd=given.folder, env=env, check=True)
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    PAGE.write_text(page(rows, versions()), encoding="utf-8")
    print(PAGE)
    return 0


def versions() -> dict[str, str]:
    """The version of each peer that has a virtual environment."""
    folder = Path(os.environ.get("BENCH_VENVS", str(Path.home() / ".cache/tool-bench/venv")))
    found: dict[str, str] = {}
    for name, package in PACKAGES.items():
        python = folder / name / "bin" / "python"
        ask = f"from importlib.metadata import version; print(version({package!r}))"
        if python.exists():
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found[package] = done.stdout.strip()
    return found


def page(rows: list[dict[str, Any]], versions: dict[str, str]) -> str:
    """The page of docs/benchmarks.md."""
    cells: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["metric"] in SHOWN.get(row["bench"], {}) and row.get("ok") is not False:
            subject = row["subject"].replace("_peer", "")
            cells[row["bench"], row["metric"]][subject].append(row["value"])
    loads = [row["load"] for row in rows if "load" in row]
    rounds = 1 + max((row.get("round", 0) for row in rows), default=0)
    out = [
        "# Beside other tool runtimes",
        "",
        "How fast the parts of Pegboard are beside those of other products, on one machine and in one run. Less is better",
        "in every table. Each figure is the median of the rounds; single-process work is measured in CPU time, which other",
        "programs on the machine do not stretch much.",
        "",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {rounds} rounds in which the products take turns,"
        + (f" load {min(loads):.0f} to {max(loads):.0f}." if loads else "."),
        "A product that lacks a function, or whose answer was wrong, is left out of that table.",
        "",
    ]
    better: list[str] = []
    for bench, metrics in SHOWN.items():
        for metric, title in metrics.items():
            found = {subject: statistics.median(values) for subject, values in cells[bench, metric].items()}
            if not any(_is_ours(subject) for subject in found):
                continue
            out += [f"## {bench}: {title}", "", "| | median | least to most |", "|---|---:|---:|"]
            for subject in sorted(found, key=found.__getitem__):
                values = cells[bench, metric][subject]
                name = f"**{subject}**" if _is_ours(subject) else subject
                out.append(f"| {name} | {found[subject]:.4g} | {min(values):.4g} to {max(values):.4g} |")
            out.append("")
            peers = {
                s: v
                for s, v in found.items()
                if not _is_ours(s) and not s.startswith(("floor", "raw", "external", "python -c pass"))
            }
            ours = min(value for subject, value in found.items() if _is_ours(subject))
            if peers and (best := min(peers, key=peers.__getitem__)) and peers[best] < ours:
                better.append(f"- {bench}, {title}: {best} {peers[best]:.4g}, Pegboard {ours:.4g}")
    out += ["## Where a peer is better", "", *(better or ["Nowhere in these tables."]), ""]
    out += ["## Versions", "", "| package | version |", "|---|---|"]
    out += [f"| {package} | {version} |" for package, version in sorted(versions.items())]
    out += [
        "",
        "`make bench-peers PEERS=FOLDER` measures again and writes this page; FOLDER holds the comparison.",
        "",
    ]
    return "\n".join(out)


def _is_ours(subject: str) -> bool:
    return subject.startswith(OURS) or f"{OURS} ->" in subject or f"-> {OURS}" in subject


if __name__ == "__main__":
    sys.exit(main())
