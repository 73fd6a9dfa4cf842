"""tools, policy, trust, grants, models, sandbox, doctor, version, and the help of all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pegboard import __version__
from pegboard.cli.show import escape_controls, pluralise, table
from tests.cli.conftest import Run, argv, environment
from tests.ledger import owes

COMMANDS = ("call", "run", "tools", "runs", "undo", "trust", "policy", "sandbox", "doctor", "models", "audit",
            "grants", "version")  # fmt: skip


def test_alone_it_shows_its_commands(pegboard: Run) -> None:
    for done in (pegboard(), pegboard("-h"), pegboard("--help")):
        assert all(f"\n  {name} " in done.out + done.err for name in COMMANDS)
        assert "...\n" not in (done.out + done.err).partition("Commands:")[2], "a command's sentence is cut"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(pegboard: Run, name: str) -> None:
    for flag in ("-h", "--help"):
        done = pegboard(name, flag)

        assert done.status == 0
        assert done.out.startswith(f"Usage: pegboard {name} ")


def test_an_unknown_command_or_option_is_wrong_usage(pegboard: Run) -> None:
    assert pegboard("dance").status == 2
    assert pegboard("tools", "--dance").status == 2
    assert "No such command" in pegboard("dance").err


def test_the_version_is_the_package_s(pegboard: Run) -> None:
    assert pegboard("version").out == f"{__version__}\n"
    assert pegboard("--version").out == f"{__version__}\n"


def test_tools_are_listed_for_people_programs_and_providers(pegboard: Run) -> None:
    text = pegboard("tools").out
    rows = json.loads(pegboard("tools", "--json").out)

    assert "read_file" in text
    assert all(set(r) == {"name", "description", "parameters", "effects"} for r in rows)
    assert {r["name"]: r["effects"] for r in rows}["exec"] == ["exec"]
    assert json.loads(pegboard("tools", "--dialect", "openai-chat").out)[0]["type"] == "function"
    assert json.loads(pegboard("tools", "--dialect", "openai_chat", "--json").out)[0]["type"] == "function"
    assert "input_schema" in json.loads(pegboard("tools", "--dialect", "anthropic").out)[0]
    assert "<" in pegboard("tools", "--dialect", "xml").out
    wrong = pegboard("tools", "--dialect", "latin")
    assert (wrong.status, "unknown dialect 'latin'" in wrong.err) == (2, True)


@owes("G-08")
def test_the_policy_explains_each_effect(pegboard: Run) -> None:
    shown = json.loads(pegboard("policy", "explain", "exec", "command=curl https://a.org", "--json").out)
    text = pegboard("policy", "explain", "exec", "command=curl https://a.org")

    assert {"decision", "rule", "reason", "effects"} <= set(shown)
    assert shown["decision"] == "ask"
    assert all({"kind", "target", "decision", "rule"} <= set(e) for e in shown["effects"])
    assert (text.status, "ask" in text.out.splitlines()[0]) == (0, True)


@owes("G-08")
def test_a_path_outside_is_explained_as_a_denial(pegboard: Run) -> None:
    shown = json.loads(pegboard("policy", "explain", "write_file", "path=/etc/x", "content=c", "--json").out)

    assert (shown["decision"], "outside the workspace" in shown["reason"]) == ("deny", True)
    assert shown["effects"][0]["kind"] == "write"


def test_a_rule_of_a_policy_file_is_named_as_the_reason(pegboard: Run, workspace: Path) -> None:
    (workspace / "p.toml").write_text('rules = ["deny read:a.txt"]\n')

    shown = json.loads(
        pegboard("policy", "explain", "read_file", "path=a.txt", "--policy", "p.toml", "--json").out
    )

    assert (shown["decision"], shown["rule"]) == ("deny", "deny read:a.txt")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "needs a tool"),
        (["explain", "nope"], "'nope' not found"),
        (["explain", "read_file"], "is required but missing"),
        (["dance"], "use explain, test, diff or lint"),
        (["diff", "--since", "soon"], "write a number and s, m, h or d"),
    ],
)
def test_the_policy_command_refuses_what_it_cannot_do(pegboard: Run, arguments: list[str], said: str) -> None:
    done = pegboard("policy", *arguments)

    assert done.status == 2
    assert said in done.err


def test_a_project_file_holds_once_it_is_trusted_and_until_it_changes(pegboard: Run, workspace: Path) -> None:
    (workspace / "pegboard.toml").write_text('mode = "full"\nrules = ["allow delete:**"]\n')

    ignored = pegboard("call", "read_file", "path=a.txt")
    trusted = pegboard("trust")
    listed = json.loads(pegboard("trust", "--list", "--json").out)
    deleted = pegboard("call", "delete_file", "path=a.txt")
    (workspace / "pegboard.toml").write_text('mode = "full"\nrules = ["allow delete:**"]\n# more\n')
    voided = pegboard("call", "delete_file", "path=pegboard.toml")

    assert "is ignored until you run: pegboard trust" in ignored.err
    assert 'mode = "full"' in trusted.out
    assert list(listed) == [str(workspace / "pegboard.toml")]
    assert deleted.status == 0
    assert voided.status == 3
    assert pegboard("trust", "--remove").out.endswith("is no longer trusted\n")
    assert pegboard("trust", "--remove").out.endswith("was not trusted\n")
    assert pegboard("trust", "--list").out == "nothing is trusted\n"


def test_trust_shows_a_file_without_its_escapes_and_needs_one(pegboard: Run, workspace: Path) -> None:
    (workspace / "pegboard.toml").write_text('# \x1b[2J\nmode = "ask"\n')
    shown = pegboard("trust")
    (workspace / "pegboard.toml").unlink()

    assert "\x1b" not in shown.out
    assert pegboard("trust").status == 2
    assert pegboard("trust", "nope.toml").status == 2


def test_grants_are_listed_and_revoked(pegboard: Run) -> None:
    assert pegboard("grants").out == "no grants\n"
    assert pegboard("grants", "--json").out == "[]\n"
    gone = pegboard("grants", "revoke", "x")
    assert (gone.status, gone.out) == (2, "")
    assert "no grant with ID 'x'" in gone.err
    assert pegboard("grants", "revoke").status == 2


def test_a_grant_for_a_sender_is_given_listed_and_revoked(pegboard: Run) -> None:
    given = pegboard("grants", "add", "exec:make", "--sender", "telegram:42", "--for", "2h", "--uses", "3")
    (row,) = json.loads(pegboard("grants", "--json").out)
    listed = pegboard("grants").out
    wrong = [
        pegboard("grants", "add", rule, "--sender", sender).status
        for rule, sender in (("deny exec:make", "a:b"), ("nonsense", "a:b"), ("exec:make", "ann"))
    ]

    assert given.status == 0 and given.out == f"{row['id']}: allow exec:make for telegram:42\n"
    assert (row["sender"], row["rule"], row["uses_left"]) == ("telegram:42", "allow exec:make", 3)
    assert "telegram:42" in listed and "allow exec:make" in listed
    assert wrong == [2, 2, 2] and pegboard("grants", "add", "exec:make").status == 2
    assert pegboard("grants", "revoke", row["id"]).status == 0
    assert pegboard("grants").out == "no grants\n"


def test_models_say_what_they_need(pegboard: Run) -> None:
    rows = json.loads(pegboard("models", "--json").out)

    assert {"name", "status"} <= set(rows[0])
    assert "local" in pegboard("models", "list").out
    assert pegboard("models", "get", "nope").status == 1
    assert pegboard("models", "get").status == 2


@pytest.mark.slow
def test_doctor_says_what_this_machine_enforces(pegboard: Run) -> None:
    report = json.loads(pegboard("doctor", "--json").out)

    assert {"sandbox", "models", "extras", "programs", "workspace", "mode"} <= set(report)
    out = pegboard("doctor").out
    assert f"sandbox: {report['sandbox']['backend']}" in out
    if report["sandbox"]["backend"] != "none":
        assert report["sandbox"]["limits"]["processes"] == 256
        assert "memory 1,024 MiB, processes 256" in out


@pytest.mark.slow
@pytest.mark.parametrize("backend", [[], ["--backend", "none"]])
def test_a_command_in_the_sandbox_has_its_own_status_and_streams(command: Run, backend: list[str]) -> None:
    done = command("sandbox", "run", *backend, "--", "sh", "-c", "cat; echo err >&2; exit 7", stdin=b"in\n")

    assert (done.status, done.out) == (7, "in\n")
    assert "err" in done.err


@pytest.mark.slow
def test_the_sandbox_keeps_the_home_folder_out_and_takes_only_known_backends(
    command: Run, home: Path
) -> None:
    (home / "secret.txt").write_text("s3cret")

    done = command("sandbox", "run", "--", "cat", str(home / "secret.txt"))

    assert done.status != 0
    assert "s3cret" not in done.out
    assert command("sandbox", "run", "--backend", "magic", "--", "true").status == 2
    assert command("sandbox", "run").status == 2


def test_hidden_characters_are_shown_and_scripts_kept() -> None:
    assert escape_controls("a\x1b\x9b\u202e\ud800\U000e0041b") == "a\\x1b\\x9b\\u202e\\ud800\\U000e0041b"
    assert escape_controls("日本 é 👩\u200d👧 a\u00a0b\tc\n") == "日本 é 👩\u200d👧 a\u00a0b\tc\n"
    assert (pluralise(1, "file"), pluralise(2, "file")) == ("1 file", "2 files")


def test_columns_stand_below_each_other_with_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table([("日本", "x"), ("abcd", "y")], head=("name", "z"))
    table([])

    assert capsys.readouterr().out == "name  z\n日本  x\nabcd  y\n"


@pytest.mark.slow
def test_help_and_import_load_no_heavy_library() -> None:
    heavy = ("pydantic", "openai", "anthropic", "mcp", "httpx", "griffe", "rich", "tree_sitter", "asyncio")
    for statement in ("import pegboard", "import pegboard.cli.main"):
        script = f"{statement}\nimport sys\nprint([m for m in {heavy!r} if m in sys.modules])"
        done = subprocess.run(
            [argv()[0], "-c", script], env=environment(), capture_output=True, text=True, check=True
        )

        assert done.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "unwanted"),
    [
        (
            "read_file",
            ("griffe", "rich", "openai", "mcp", "tree_sitter", "pegboard.shell.exec", "pegboard.runtime"),
        ),
        ("exec", ("griffe", "rich", "openai", "mcp", "pegboard.textedit.edit", "pegboard.runtime")),
    ],
)
def test_one_call_loads_only_what_its_tool_needs(
    workspace: Path, tool: str, unwanted: tuple[str, ...]
) -> None:
    value = "path=a.txt" if tool == "read_file" else "command=true"
    script = (
        f"import sys\nsys.argv = ['pegboard', 'call', {tool!r}, {value!r}]\nfrom pegboard.cli.main import main\n"
        f"try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end\n"
        f"print([m for m in {unwanted!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [argv()[0], "-c", script], env=environment(), capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"


def test_one_tool_is_shown_with_its_parameters_and_a_wrong_name_with_the_nearest(pegboard: Run) -> None:
    one = pegboard("tools", "edit_file")
    shown = json.loads(pegboard("tools", "edit_file", "--json").out)
    wrong = pegboard("tools", "edit_fil")

    assert "old_string" in one.out
    assert "required" in one.out
    assert [r["name"] for r in shown] == ["edit_file"]
    assert wrong.status == 2
    assert "'edit_file'" in wrong.err


def test_the_list_of_tools_cuts_no_word_in_two(pegboard: Run) -> None:
    rows = [line for line in pegboard("tools").out.splitlines()[1:] if line]

    assert all(row.rstrip()[-1] in ".…)`" for row in rows)


@pytest.mark.slow
def test_a_refused_folder_is_told_by_doctor_and_no_reason_to_deny_the_sandbox(
    pegboard: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = json.loads(pegboard("doctor", "--json").out)
    monkeypatch.chdir("/")
    root = json.loads(pegboard("doctor", "--json").out)

    assert root["sandbox"]["backend"] == here["sandbox"]["backend"]
    assert "system folder" in root["refused"] and not here["refused"]
    assert "/ is a system folder: pass --workspace to work here" in pegboard("doctor").out
    refused = pegboard("sandbox", "run", "--", "true")
    assert refused.status == 2
    assert "choose a folder with --workspace DIR" in refused.err


def test_an_empty_command_is_none(pegboard: Run) -> None:
    done = pegboard("sandbox", "run", "--", "")

    assert done.status == 2
    assert "-- COMMAND" in done.err


@pytest.mark.parametrize("since", ["x", "7", "²d", "7y", "-1d"])
def test_a_time_span_is_a_number_with_a_unit(pegboard: Run, since: str) -> None:
    for words in (["usage"], ["policy", "diff"]):
        done = pegboard(*words, f"--since={since}")
        assert done.status == 2
        assert f"--since {since!r}: write a number and s, m, h or d" in done.err
    assert pegboard("usage", "--since", "90s").status == 0


def test_a_list_without_entries_says_so(pegboard: Run) -> None:
    assert (
        pegboard("audit", "destinations").out
        == "no sandboxed command and no browser page has tried to connect\n"
    )
    assert pegboard("audit", "destinations", "--json").out == ""


def test_mcp_help_cuts_no_sentence(pegboard: Run) -> None:
    assert "...\n" not in pegboard("mcp", "--help").out.partition("Commands:")[2]


def test_no_run_is_meant_by_an_empty_id(pegboard: Run, workspace: Path) -> None:
    assert pegboard("call", "list_dir").status == 0

    done = pegboard("replay", "")

    assert (done.status, done.err) == (2, "pegboard: no run with ID ''; see: pegboard runs\n")


def test_a_purge_names_its_own_option(pegboard: Run) -> None:
    assert "--older 'x': write a number" in pegboard("store", "purge", "--older", "x").err


def test_doctor_names_a_folder_of_the_settings_that_is_missing(pegboard: Run, home: Path) -> None:
    settings = home / ".config" / "pegboard"
    settings.mkdir(parents=True)
    (settings / "pegboard.toml").write_text('read_only_dirs = ["~/reference"]')

    done = pegboard("doctor")

    assert f"read_only_dirs: {home}/reference is not a folder that can be opened" in done.out
    assert pegboard("call", "list_dir", "path=.").status == 0
