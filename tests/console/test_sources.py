"""What the console is made of: whole sentences in both languages, and a lock file that names no registry."""

from __future__ import annotations

import json
import re
from pathlib import Path

CONSOLE = Path(__file__).parents[2] / "console"
SOURCES = [path for path in (CONSOLE / "src").rglob("*.ts*") if path.name != "zh.ts"]
STRING = r'"((?:[^"\\]|\\.)*)"'


def sentences() -> set[str]:
    found = set[str]()
    for path in SOURCES:
        found.update(re.findall(rf"\bt\(\s*{STRING}", path.read_text()))
    return {json.loads(f'"{one}"') for one in found}


def chinese() -> dict[str, str]:
    rows = re.findall(rf"^  {STRING}:\s+{STRING},$", (CONSOLE / "src" / "zh.ts").read_text(), re.M)
    return {json.loads(f'"{a}"'): json.loads(f'"{b}"') for a, b in rows}


def places(sentence: str) -> set[str]:
    """The names of the values that a sentence has a place for."""
    return set(re.findall(r"{([a-z]+)(?=[},])", sentence))


def test_every_sentence_has_its_chinese_and_none_is_left_over() -> None:
    wanted, has = sentences(), set(chinese())

    assert len(wanted) > 300
    assert sorted(wanted - has) == [] and sorted(has - wanted) == []


def test_a_translation_has_the_values_of_its_sentence() -> None:
    assert [en for en, zh in chinese().items() if places(en) != places(zh)] == []


def test_sentences_are_given_whole_to_the_translator() -> None:
    """`t(name)` and `t(`…`)` cannot be found and translated."""
    wrong = [
        f"{path.name}: {found}"
        for path in SOURCES
        for found in re.findall(r"\bt\((?!\s*\")[^)]*\)", path.read_text())
        if path.name != "i18n.ts"
    ]
    assert wrong == []


def test_the_lock_file_has_no_address_and_nothing_runs_at_installation() -> None:
    lock = json.loads((CONSOLE / "package-lock.json").read_text())

    assert "resolved" not in json.dumps(lock["packages"])
    assert [
        p for p, one in lock["packages"].items() if one.get("hasInstallScript") and not one.get("optional")
    ] == []


def test_the_tokens_of_the_design_are_all_that_components_use() -> None:
    """No raw colour stands in the components' styles."""
    for name in ("console.css", "pages.css"):
        text = re.sub(r"light-dark\([^;]*\);", "", (CONSOLE / "src" / "styles" / name).read_text())
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*{)", text) == [], name
