"""The demo: an agent edits a project, goes too far, is killed, resumes, and everything is undone.

It works in a temporary folder with its own home folder; nothing of yours is changed. The agent's turns are scripted, so it
needs no key and always does the same. At the end a small real model (98 MB, downloaded once) answers a question.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

FILES = {
    "README.md": "# Tide\n\nShows the water level of a harbour. Start it with `python3 src/tide.py`.\n",
    "notes.txt": "The release is on Friday. Anna signs it off.\n",
    "src/tide.py": (
        '"""Water levels."""\n\n\ndef level(hours: float) -> float:\n'
        '    """Metres above chart datum."""\n    return 2.0 + hours / 10\n'
    ),
    "test_tide.py": (
        "import sys\nimport unittest\n\nsys.path.insert(0, 'src')\nimport tide\n\n\n"
        "class TideTest(unittest.TestCase):\n    def test_start(self):\n"
        "        self.assertEqual(tide.level(0), 2.5)\n\n\nif __name__ == '__main__':\n    unittest.main()\n"
    ),
}
TASK = "Fix the failing test, then rename level to height in the code"
RENAME = "sed -i s/level/height/g *.md *.py src/*.py"
TEST = "python3 -B -m unittest"
SLOW = f"sleep 60 && {TEST}"


def call(name: str, **arguments: str) -> dict[str, object]:
    """One call of the scripted model."""
    return {"name": name, "arguments": arguments}


TURNS: list[dict[str, object]] = [
    {"text": "I read the code and its test.", "calls": [call("read_file", path="src/tide.py"), call("read_file", path="test_tide.py")]},
    {"text": "The start value is wrong.", "calls": [call("edit_file", path="src/tide.py", old_string="2.0", new_string="2.5")]},
    {"text": "Now the test passes:", "calls": [call("exec", command=TEST)]},
    {"text": "I rename it everywhere.", "calls": [call("exec", command=RENAME)]},
    {"text": "I wait for the sensor, then test again.", "calls": [call("exec", command=SLOW)]},
    {"text": "The last test run was interrupted, so I run only the test.", "calls": [call("exec", command=TEST)]},
    {"text": "Done. But the rename also changed the text of README.md, which you did not ask for."},
]  # fmt: skip

NEXT = """\
Try next, after  . .venv/bin/activate  in a folder of yours:
  pegboard doctor                                       what this machine can do
  pegboard serve                                        the same in your browser: chat, approvals, undo
  pegboard chat --model openai:NAME                     chat with your own model (set OPENAI_API_KEY)
  pegboard call exec command="make test" --preview      what a command would do, without running it
  pegboard mcp config --for claude-desktop              use these tools from another program
README.md shows how to use Pegboard as a library; docs/index.md lists the guides.
"""


class Demo:
    """Runs commands in the project and prints each with its output."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "tide"
        self.script = folder / "turns.jsonl"
        home = folder / "home"
        home.mkdir()
        self.env = {
            k: v
            for k, v in os.environ.items()
            if not k.endswith(("_KEY", "_TOKEN")) and not k.startswith("XDG_")
        }
        self.env["HOME"] = str(home)
        if models := os.environ.get("PEGBOARD_DEMO_DATA"):  # keeps the model between two demos
            self.env["XDG_DATA_HOME"] = models
        self.failed: list[str] = []

    def prepare(self) -> None:
        """Create the project, with one commit, and the agent's script."""
        for name, text in FILES.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.script.write_text("".join(json.dumps(turn) + "\n" for turn in TURNS), encoding="utf-8")
        identity = ["-c", "user.name=Demo", "-c", "user.email=demo@example.org"]
        for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
            subprocess.run(["git", *words], cwd=self.project, env=self.env, check=True, capture_output=True)

    def say(self, text: str) -> None:
        """Print what the next command shows."""
        print(f"\n== {textwrap.fill(text, 100)}", flush=True)

    def run(self, *words: str, has: str = "", kill_at: str = "") -> str:
        """Run one command and print its output.

        Args:
            words: the program and its arguments.
            has: text that the output must contain.
            kill_at: kill the process (SIGKILL) as soon as a line of its output contains this text.
        """
        print(f"$ {shlex.join(words)}", flush=True)
        program = [sys.executable, "-m", "pegboard.cli.main"] if words[0] == "pegboard" else [words[0]]
        with subprocess.Popen(
            [*program, *words[1:]], cwd=self.project, env=self.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            output = ""
            for line in process.stdout:
                output += line
                print(line, end="", flush=True)
                if kill_at and kill_at in line:
                    process.kill()
        killed = process.returncode == -9
        if killed:
            print("[killed]", flush=True)
        if has not in output or killed != bool(kill_at) or process.returncode > 0:
            self.failed.append(f"{shlex.join(words)}: exit status {process.returncode}, expected {has!r}")
        return output

    def tell(self) -> None:
        """The whole story."""
        self.say(
            f"An agent gets a task: {TASK!r}. Its model is scripted: these turns are fixed. In its fifth turn we kill the process."
        )
        self.run("pegboard", "run", "--model", "scripted:../turns.jsonl", TASK, kill_at="exec sleep 60")

        self.say(
            "The run is recorded up to the moment it died. It resumes; the interrupted command is not run twice."
        )
        started = self.run("pegboard", "runs", has="interrupted")
        run = match[0] if (match := re.search(r"run_\w+", started)) else "last"
        self.run("pegboard", "runs", "resume", run, has="done")

        self.say("The agent renamed more than it should: the README has changed, too.")
        self.run("git", "diff", "--stat", has="README.md")

        self.say("One command undoes the edit and the shell command, everything that this run changed.")
        self.run("pegboard", "undo", run, has="undone: 3 file changes")
        self.run("git", "status", "--short", "--branch")

        self.say(
            "Replay: the same run again, without a model and without touching a file. Then the proof of the history."
        )
        self.run("pegboard", "replay", run, has="replays exactly")
        self.run("pegboard", "audit", "verify", has="verified")

        self.say("A real language model, small enough for this machine, answers one question.")
        self.run("pegboard", "models", "get", "smollm2", has="ready")
        self.run("pegboard", "run", "--model", "gguf:smollm2", "What does notes.txt say?", has="Friday")


def main() -> int:
    """Run the demo; 1 if a command did not do what it should."""
    with tempfile.TemporaryDirectory(prefix="pegboard-demo-") as folder:
        demo = Demo(Path(folder))
        demo.prepare()
        demo.tell()
    for failure in demo.failed:
        print(f"FAILED  {failure}")
    print(f"\n{NEXT}" if not demo.failed else f"{len(demo.failed)} commands failed")
    return 1 if demo.failed else 0


if __name__ == "__main__":
    sys.exit(main())
