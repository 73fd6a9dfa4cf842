"""Run the benchmarks; every figure is a ratio within one run, or CPU time, so that a busy machine does not change it.

python bench/run.py                     all of them
python bench/run.py core_bars mcp_bars  some of them
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = (
    "core_bars",  # import, one call, a thousand calls, a thousand tools; beside openai-agents
    "loop_checks",  # a model's turn, in memory and on disk
    "mcp_bars",  # our MCP server and client beside the SDK's
    "trust",  # policy, audit
    "tool_search",
    "code_mode",  # reads by a program beside the same reads
    "diagnostics",  # a write with and without checks
    "shell_bars",
    "files_checks",
    "web_bars",  # pages: extraction, a large one, the guard, twenty at once
    "gateway_bars",  # requests beside bare starlette, 500 listeners, the first event, idle
    "browser_bars",  # a snapshot beside Playwright's own
)


def main() -> int:
    """Run them one after the other; 1 if one of them could not measure."""
    broken: list[str] = []
    for script in sys.argv[1:] or SCRIPTS:
        print(f"\n## {script}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{script}.py")], check=False).returncode:
            broken.append(script)
    for script in broken:
        print(f"{script} failed; its figures are missing", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
