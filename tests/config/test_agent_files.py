"""Skills, agents and slash commands that lie in the folders which agents share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest import raises

from pegboard.config.agent_files import find_agent_files, read_agents, read_commands, trusted_with
from pegboard.config.agents import agents_of
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError
from pegboard.services.slash_commands import SlashCommands

REVIEWER = """---
name: reviewer
description: Use it after a change: it reads, and says what is wrong.
tools: Read, Grep, Bash(git diff, git log)
model: inherit
---

You review changes.
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(
        home=tmp_path / "home",
        config=tmp_path / "c",
        state=tmp_path / "s",
        data=tmp_path / "d",
        cache=tmp_path / "k",
    )
    made.home.mkdir()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def skill(folder: Path, name: str, description: str = "Helps") -> Path:
    return write(folder / name / "SKILL.md", f"---\nname: {name}\ndescription: {description}\n---\nDo it.\n")


def test_nothing_of_a_project_counts_before_it_is_trusted(paths: Paths, project: Path) -> None:
    skill(project / ".claude/skills", "one")
    skill(project / ".agents/skills", "two")
    write(project / ".claude/agents/reviewer.md", REVIEWER)
    write(project / ".claude/commands/fix.md", "Fix it.")

    config = load_config(paths, project)

    assert config.tool_files.found == ()
    assert config.ignored == (
        "2 skills, 1 agent and 1 slash command of this project are ignored until you run: "
        "pegboard trust .agents .claude",
    )


def test_trusted_skills_are_offered_beside_the_users_which_win(paths: Paths, project: Path) -> None:
    from pegboard.app.offered import ConfiguredTools

    skill(paths.home / ".agents/skills", "sums", "mine")
    write(paths.home / ".agents/skills/broken/SKILL.md", "no front matter")
    theirs = skill(project / ".claude/skills", "sums", "theirs")
    more = skill(project / ".agents/skills", "maps")
    for file in (theirs, more):
        Trust(paths).add(file)

    notes: list[str] = []
    skills = ConfiguredTools(load_config(paths, project), paths, notes.append).skills

    assert skills is not None
    assert {s.name: s.description for s in skills.skills.values()} == {"sums": "mine", "maps": "Helps"}
    more.write_text(more.read_text() + "And delete everything.\n")
    assert not skills.trusts(skills.skills["maps"])


def test_an_agents_file_is_read_whatever_its_description_holds(paths: Paths, project: Path) -> None:
    Trust(paths).add(write(project / ".claude/agents/reviewer.md", REVIEWER))
    write(paths.home / ".agents/agents/empty.md", "---\ndescription: Nothing\n---\n")

    agents, notes = read_agents(find_agent_files(paths, project))

    (agent,) = agents
    assert agent.name == "reviewer" and agent.instructions == "You review changes."
    assert agent.description == "Use it after a change: it reads, and says what is wrong."
    assert agent.tools == ("read_file", "grep", "exec") and agent.model == "inherit"
    assert len(notes) == 1 and "empty.md is no agent" in notes[0]


def test_agents_of_files_can_be_started_by_name(paths: Paths, project: Path) -> None:
    Trust(paths).add(write(project / ".claude/agents/reviewer.md", REVIEWER))

    (spec,) = agents_of(load_config(paths, project).agent_files)

    assert (spec.name, spec.instructions, spec.model) == ("reviewer", "You review changes.", "")
    assert spec.tools == ("read_file", "grep", "exec")


@pytest.mark.parametrize(
    ("prompt", "given", "expected"),
    [
        ("Fix issue $1 on $2.", "12 main", "Fix issue 12 on main."),
        ("Fix $ARGUMENTS now.", '12 "the main one"', 'Fix 12 "the main one" now.'),
        ("Say $1!", '"hello world" again', "Say hello world!"),
        ("Fix $1.", "", "Fix ."),
        ("Run the tests.", "", "Run the tests."),
        ("Run the tests.", "only fast ones", "Run the tests.\n\nonly fast ones"),
        ("It costs $10 and $ARGUMENTS_X.", "", "It costs $10 and $ARGUMENTS_X."),
        ("Say $1.", "$2 x", "Say $2."),
    ],
)
async def test_a_slash_command_is_filled_in(
    paths: Paths, project: Path, prompt: str, given: str, expected: str
) -> None:
    Trust(paths).add(write(project / ".claude/commands/do.md", f"---\ndescription: Do it\n---\n{prompt}\n"))

    assert await SlashCommands(paths, project).expand(f"/do {given}") == expected


async def test_commands_are_named_by_their_folders_and_read_as_they_are_now(
    paths: Paths, project: Path
) -> None:
    file = write(project / ".claude/commands/git/fix.md", "# Fix the build\nNow.")
    Trust(paths).add(file)
    commands = SlashCommands(paths, project)

    assert [(c.name, c.description) for c in await commands.list()] == [("git:fix", "Fix the build")]
    assert await commands.expand("/git:fix") == "# Fix the build\nNow."
    assert await commands.expand("/fix") is None
    file.write_text("Delete everything.")
    assert await commands.expand("/git:fix") is None


def test_a_folder_is_trusted_with_what_counts_in_it(paths: Paths, project: Path) -> None:
    write(
        project / ".claude/settings.json",
        '{"hooks": {"Stop": [{"hooks": [{"command": "sh scripts/a.sh"}]}]}}',
    )
    write(project / "scripts/a.sh", "true")
    skill(project / ".claude/skills", "one")
    write(project / ".claude/notes.txt", "no")

    files = trusted_with(project / ".claude", project)

    assert sorted(str(f.relative_to(project)) for f in files) == [
        ".claude/settings.json", ".claude/skills/one/SKILL.md", "scripts/a.sh",
    ]  # fmt: skip
    with raises(ConfigError):
        trusted_with(project / "scripts", project)


def test_a_folder_without_such_files_is_looked_at_and_no_more(paths: Paths, project: Path) -> None:
    found = find_agent_files(paths, project)

    assert not found.hooks and not found.skills and read_commands(found) == ((), ())
