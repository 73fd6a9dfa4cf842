"""The main job on a small real repository: every step with its effects, decision and outcome.

Everything happens in a temporary folder with a home of its own; nothing of yours is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = {
    "README.md": "# Tide\n\nTells the water level of a harbour. The server listens on port 8080.\n",
    "notes.txt": "The release is on Friday. Anna signs it off.\n",
    "src/tide.py": (
        '"""Water levels."""\n\n\ndef level(hours: float) -> float:\n'
        '    """Metres above chart datum."""\n    # TODO: read the real gauge\n    return 2.0\n'
    ),
    "test_tide.py": (
        "import sys\nimport unittest\n\nsys.path.insert(0, 'src')\nfrom tide import level\n\n\n"
        "class LevelTest(unittest.TestCase):\n    def test_level(self):\n        self.assertEqual(level(0), 2.5)\n\n\n"
        "if __name__ == '__main__':\n    unittest.main()\n"
    ),
}


class Demo:
    """Runs `pegboard` in a workspace and shows each command and its output."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "tide"
        home = folder / "home"
        home.mkdir()
        keep = {
            k: v
            for k, v in os.environ.items()
            if not k.endswith(("_KEY", "_TOKEN")) and not k.startswith("XDG_")
        }
        self.env = {**keep, "HOME": str(home)}
        cache = os.environ.get("PEGBOARD_DEMO_DATA", "")
        if cache:
            self.env["XDG_DATA_HOME"] = cache
        self.failed: list[str] = []

    def prepare(self) -> None:
        """Make the repository."""
        for name, text in FILES.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for command in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=Demo", "-c", "user.email=demo@example.org", "commit", "-qm", "first"],
        ):
            subprocess.run(
                ["git", *command], cwd=self.workspace, env=self.env, check=False, capture_output=True
            )

    def step(self, title: str, *arguments: str, expect: int = 0, has: str = "") -> str:
        """Run one command; remember where it did not do what it should."""
        print(f"\n== {title}\n$ pegboard {' '.join(_quoted(a) for a in arguments)}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "pegboard.cli.main", *arguments], cwd=self.workspace, env=self.env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        print(done.stdout.rstrip() + f"\n[exit {done.returncode}]", flush=True)
        if done.returncode != expect or has not in done.stdout:
            self.failed.append(
                f"{title}: exit {done.returncode}, expected {expect} and {has!r} in the output"
            )
        return done.stdout


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text or not text else text


def main() -> int:
    """Run the demo; 1 where a step did not do what it should."""
    with tempfile.TemporaryDirectory(prefix="pegboard-demo-") as folder:
        demo = Demo(Path(folder))
        demo.prepare()
        question = "What does notes.txt say?"
        demo.step("what this machine can enforce", "doctor")
        demo.step("one read, by a keyword router", "run", "--yes", "--model", "local", question, has="Friday")
        demo.step(
            "one search", "run", "--yes", "--model", "local", "Search for TODO in src", has="src/tide.py"
        )
        edit = [
            "call",
            "edit_file",
            "path=src/tide.py",
            "old_string=return 2.0",
            "new_string=return 2.5",
            "--yes",
        ]
        demo.step("an edit, previewed: touches nothing", *edit, "--preview", has="+    return 2.5")
        demo.step("the edit, with its diff", *edit, has="Successfully edited")
        tests = "python3 test_tide.py"
        demo.step(
            "one command in the sandbox", "run", "--yes", "--model", "local", f"Run `{tests}`", has="OK"
        )
        demo.step(
            "a refusal: --yes lifts no deny",
            "call",
            "exec",
            "command=rm -rf ~",
            "--yes",
            expect=3,
            has="deny",
        )
        demo.step("undo", "undo", "--last", has="undone: 1 file change")
        demo.step("what happened", "runs")
        demo.step("the history is whole", "audit", "verify", has="verified")
        demo.step("a small real language model", "models", "get", "smollm2", has="ready")
        demo.step(
            "the same question, answered by it",
            "run",
            "--yes",
            "--model",
            "gguf:smollm2",
            question,
            has="Friday",
        )
        print()
        for failure in demo.failed:
            print(f"FAILED  {failure}")
        print("the demo did all it should" if not demo.failed else f"{len(demo.failed)} steps failed")
        return 1 if demo.failed else 0


if __name__ == "__main__":
    sys.exit(main())
