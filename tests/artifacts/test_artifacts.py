"""Artifacts: every write a new version, nothing lost, nothing shared between sessions."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.executor import Executor
from pegboard.artifacts.replace import replace_once
from pegboard.artifacts.saver import PortArtifactSaver
from pegboard.artifacts.versions import StoredArtifacts
from pegboard.core.call.pipeline import Pipeline
from pegboard.core.content import Image, NewArtifact, ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import PURE
from pegboard.core.errors import Conflict, InvalidArguments, NotFound, NotUnique, TooLarge, Unsupported
from pegboard.core.events import CallUpdate, MemoryRecorder
from pegboard.core.result import ToolResult
from pegboard.core.tool import tool
from pegboard.core.toolkit import Toolkit
from pegboard.documents.child import DocumentReader
from pegboard.mcp.resources import ArtifactResources
from pegboard.ports.artifacts import Artifacts
from pegboard.ports.documents import Documents
from pegboard.ports.files import Files
from pegboard.ports.store import Put, Store
from pegboard.store import open_store
from pegboard.tools.create_artifact import create_artifact
from pegboard.tools.export_artifact import export_artifact
from pegboard.tools.grep_artifact import grep_artifact
from pegboard.tools.import_artifact import import_artifact
from pegboard.tools.list_artifacts import list_artifacts
from pegboard.tools.read_artifact import read_artifact
from pegboard.tools.rewrite_artifact import rewrite_artifact
from pegboard.tools.update_artifact import update_artifact
from tests.fakes.files import MemoryFiles
from tests.ledger import owes

KIT = Toolkit(
    [
        create_artifact, read_artifact, update_artifact, rewrite_artifact, list_artifacts, grep_artifact,
        export_artifact, import_artifact,
    ]
)  # fmt: skip

TEXT = "# Plan\n\nThe quick brown fox jumps over the lazy dog.\nThe end.\n"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    opened = await open_store("memory" if request.param == "memory" else tmp_path / "store.db")
    yield opened
    await opened.close()


@pytest.fixture
def artifacts(store: Store) -> StoredArtifacts:
    return StoredArtifacts(store, session=lambda: "s")


async def call(artifacts: StoredArtifacts, name: str, session: str = "s", **arguments: Any) -> ToolResult:
    door = Pipeline(KIT, provide={Artifacts: artifacts, Files: MemoryFiles()})
    return await door.call(ToolCall("1", name, arguments), Context(session=session))


@owes("U-05", "A-49", "A-52")
async def test_every_write_is_a_new_version_and_old_ones_stay(artifacts: StoredArtifacts) -> None:
    await artifacts.create("plan", title="Plan", content=TEXT)
    await artifacts.update("plan", old="The end.", new="To be continued.")
    await artifacts.rewrite("plan", content="new", title="Other")

    newest = await artifacts.read("plan")

    assert (newest.version, newest.update_type, newest.title, newest.content) == (
        3,
        "rewrite",
        "Other",
        "new",
    )
    assert (await artifacts.read("plan", 1)).content == TEXT
    assert (await artifacts.read("plan", 2)).update_type == "update"
    assert "-The end.\n+To be continued.\n" in await artifacts.diff("plan", 1, 2)


@owes("U-01")
async def test_an_id_is_taken_once(artifacts: StoredArtifacts) -> None:
    await artifacts.create("plan", title="Plan", content=TEXT)

    with pytest.raises(Conflict, match="already exists"):
        await artifacts.create("plan", title="Plan", content="x")
    with pytest.raises(InvalidArguments, match="not a valid artifact ID"):
        await artifacts.create("../x", title="", content="")
    assert (await artifacts.read("plan")).content_type == "markdown"


@owes("U-07", "A-50")
async def test_what_is_not_there_is_named(artifacts: StoredArtifacts) -> None:
    await artifacts.create("plan", title="Plan", content=TEXT)

    with pytest.raises(NotFound, match="Version 9 not found"):
        await artifacts.read("plan", 9)
    with pytest.raises(NotFound, match="Artifact 'other' not found"):
        await artifacts.read("other")


@owes("U-06")
async def test_a_write_on_an_outdated_version_is_refused_with_what_changed(
    artifacts: StoredArtifacts,
) -> None:
    await artifacts.create("plan", title="Plan", content=TEXT)
    await artifacts.update("plan", old="The end.", new="More.", expected_version=1)

    with pytest.raises(Conflict, match="at version 2, not 1") as caught:
        await artifacts.rewrite("plan", content="x", expected_version=1)

    assert "+More." in caught.value.message
    assert (await artifacts.read("plan")).version == 2


async def test_writes_at_the_same_time_take_turns(artifacts: StoredArtifacts) -> None:
    await artifacts.create("log", title="Log", content="start")

    await asyncio.gather(*(artifacts.rewrite("log", content=f"{n}") for n in range(20)))

    assert (await artifacts.read("log")).version == 21


async def test_sessions_do_not_see_each_other(store: Store) -> None:
    one, two = (StoredArtifacts(store, session=lambda name=name: name) for name in ("a", "a/b"))
    await one.create("x", title="One", content="1")

    assert await two.list() == []
    await two.create("x", title="Two", content="2")
    assert [a.title for a in await one.list()] == ["One"]


async def test_limits_hold(store: Store) -> None:
    small = StoredArtifacts(store, session=lambda: "s", max_bytes=10)

    with pytest.raises(TooLarge, match="11 bytes"):
        await small.create("x", title="", content="12345678901")
    with pytest.raises(InvalidArguments, match="an unpaired surrogate"):
        await small.create("x", title="", content="\ud83d")


async def test_a_purged_version_is_said_to_be_gone(store: Store) -> None:
    artifacts = StoredArtifacts(store, session=lambda: "s")
    await artifacts.create("x", title="", content="1")
    await store.put(Put("artifact_versions", "s/x/00000001", None))

    with pytest.raises(NotFound, match="Version 1 not found"):
        await artifacts.read("x")


@owes("K-76")
async def test_grep_names_artifact_and_line(artifacts: StoredArtifacts) -> None:
    await artifacts.create("a", title="", content="one\nTwo\nthree two")
    await artifacts.create("b", title="", content="two")

    assert [(h.id, h.line) for h in await artifacts.grep("two")] == [("a", 3), ("b", 1)]
    assert [(h.id, h.line) for h in await artifacts.grep("two", id="a", ignore_case=True)] == [
        ("a", 2),
        ("a", 3),
    ]
    assert len(await artifacts.grep("two", limit=1)) == 1
    with pytest.raises(InvalidArguments):
        await artifacts.grep("")


@owes("K-75")
async def test_whoever_watches_the_call_hears_of_each_new_version(artifacts: StoredArtifacts) -> None:
    recorder = MemoryRecorder()
    door = Pipeline(KIT, provide={Artifacts: artifacts, Files: MemoryFiles()}, recorder=recorder)
    for number, (name, arguments) in enumerate(
        [
            ("create_artifact", {"id": "p", "title": "Plan", "content": "one"}),
            ("update_artifact", {"id": "p", "old_string": "one", "new_string": "three"}),
            ("create_artifact", {"id": "p", "title": "Plan", "content": "taken"}),
            ("read_artifact", {"id": "p"}),
        ]
    ):
        await door.call(ToolCall(str(number), name, arguments), Context(session="s"))

    heard = [(event.call_id, event.update) for event in recorder.events if isinstance(event, CallUpdate)]
    facts = {"id": "p", "title": "Plan", "content_type": "markdown"}
    assert heard == [
        ("0", {"artifact": {**facts, "version": 1, "update_type": "create", "characters": 3}}),
        ("1", {"artifact": {**facts, "version": 2, "update_type": "update", "characters": 5}}),
    ]


# ---- replacing ---------------------------------------------------------------------------------


@owes("U-02", "A-51")
def test_an_exact_text_must_be_unique() -> None:
    assert replace_once(TEXT, "The end.", "X", "p").text == TEXT.replace("The end.", "X")
    with pytest.raises(NotUnique, match="occurs 2 times"):
        replace_once(TEXT, "The ", "X", "p")
    for old, new in (("", "x"), ("a", "a")):
        with pytest.raises(InvalidArguments):
            replace_once(TEXT, old, new, "p")


@owes("U-03")
def test_a_text_with_a_slip_matches_and_one_too_far_is_refused() -> None:
    done = replace_once(TEXT, "The quik brown fox jumped over the lazy dog.", "Done.", "p")

    assert done.text == "# Plan\n\nDone.\nThe end.\n"
    assert done.update_type == "update_fuzzy"
    # 'quik' lacks one letter and 'jumped' has two other ones: 3 edits in 44 characters.
    assert done.similarity == pytest.approx(1 - 3 / 44)
    with pytest.raises(NotFound, match="nothing is similar enough"):
        replace_once(TEXT, "A slow red hen sits under the busy cat.", "x", "p")
    with pytest.raises(NotUnique, match="2 places"):
        replace_once("alpha beta one. " + "-" * 30 + " alpha beta two.", "alpha beta six.", "x", "p")


# ---- tools -------------------------------------------------------------------------------------


@owes("A-49", "A-50", "A-51", "A-52", "U-04")
async def test_the_tools_do_it_all_without_asking(store: Store) -> None:
    artifacts = StoredArtifacts(store)

    made = await call(artifacts, "create_artifact", artifact_id="p", title="Plan", content=TEXT)
    fuzzy = await call(
        artifacts, "update_artifact", id="p", old_str="The quikc brown fox jumps", new_str="A fox sits"
    )
    exact = await call(artifacts, "update_artifact", id="p", oldText="The end.", newText="End.")
    whole = await call(artifacts, "rewrite_artifact", id="p", content="all\nnew")
    shown = await call(artifacts, "read_artifact", id="p", version=1, limit=1)
    past = await call(artifacts, "read_artifact", id="p", offset=9)
    diff = await call(artifacts, "read_artifact", id="p", compare_with=3)
    same = await call(artifacts, "read_artifact", id="p", compare_with=4)
    listed = await call(artifacts, "list_artifacts")
    found = await call(artifacts, "grep_artifact", pattern="new")
    nothing = await call(artifacts, "grep_artifact", pattern="zzz")
    elsewhere = await call(artifacts, "list_artifacts", session="other")

    assert str(made) == "Created artifact 'p' (version 1)"
    assert "matched approximately (92% similar)" in str(fuzzy)
    assert "Expected: The quikc brown fox jumps\nMatched: The quick brown fox jumps" in str(fuzzy)
    assert exact.data["version"] == 3
    assert str(whole) == "Rewrote artifact 'p' (version 4)"
    assert str(shown) == "# Plan\n[lines 1-1 of 4; offset=2 goes on]"
    assert str(past) == "(the artifact has 2 lines)"
    assert "+new" in str(diff)
    assert str(same) == "(no difference)"
    assert str(listed) == "p (version 4, markdown): Plan"
    assert str(found) == "p:2: new"
    assert str(nothing) == "No line contains 'zzz'."
    assert str(elsewhere) == "No artifacts."


async def test_a_long_text_is_quoted_by_its_first_200_characters(artifacts: StoredArtifacts) -> None:
    await artifacts.create("p", title="", content="x" * 150 + "y" * 150)

    result = await call(
        artifacts, "update_artifact", id="p", old_str="x" * 149 + "y" * 150 + "z", new_str="-"
    )

    assert "…\nMatched: " in str(result)


async def test_an_artifact_becomes_a_file_by_a_plan_that_can_be_shown(store: Store) -> None:
    artifacts, files = StoredArtifacts(store), MemoryFiles()
    await call(artifacts, "create_artifact", id="p", title="Plan", content=TEXT)
    door = Pipeline(KIT, provide={Artifacts: artifacts, Files: files})
    asked = ToolCall("1", "export_artifact", {"id": "p", "path": "plan.md"})

    shown = await door.preview(asked, Context(session="s"))
    done = await door.call(asked, Context(session="s"))
    again = await door.call(asked, Context(session="s"))

    assert [str(effect) for effect in shown.effects] == ["write plan.md"]
    assert files.data == {"plan.md": TEXT.encode()}
    assert str(done) == f"Exported artifact 'p' (version 1) to plan.md: {len(TEXT)} bytes"
    assert again.ok


# ---- pictures, paging, search (K-76) -----------------------------------------------------------


def png(width: int, height: int) -> bytes:
    import PIL.Image

    out = io.BytesIO()
    PIL.Image.new("RGB", (width, height), "red").save(out, "PNG")
    return out.getvalue()


@owes("K-76")
async def test_a_picture_is_an_artifact_with_versions_like_any_other(artifacts: StoredArtifacts) -> None:
    first, second = png(4, 3), png(5, 3)
    await artifacts.create("logo", title="Logo", content=first, content_type="image/png")
    await artifacts.rewrite("logo", content=second)

    assert (await artifacts.read("logo", 1)).data == first
    assert (await artifacts.read("logo")).data == (await artifacts.read("logo")).raw == second
    assert (
        await artifacts.diff("logo", 1, 2)
        == f"Binary file logo differs: {len(first)} bytes -> {len(second)} bytes\n"
    )
    assert await artifacts.grep("PNG") == []
    with pytest.raises(Unsupported, match="image/png"):
        await artifacts.update("logo", old="PNG", new="x")


@owes("K-76")
async def test_a_picture_is_shown_small_enough_exported_whole_and_offered_as_a_resource(
    artifacts: StoredArtifacts,
) -> None:
    large, files = png(3000, 10), MemoryFiles()
    await artifacts.create("logo", title="Logo", content=large, content_type="image/png")
    await artifacts.create("bin", title="B", content=b"\0\1", content_type="application/zip")
    await artifacts.create("odd", title="O", content=b"no picture", content_type="image/png")
    ports = {Artifacts: artifacts, Files: files, Documents: DocumentReader()}

    async def ask(name: str, **arguments: Any) -> ToolResult:
        return await Pipeline(KIT, provide=ports).call(ToolCall("1", name, arguments), Context(session="s"))

    shown = await ask("read_artifact", id="logo")
    plain = await call(artifacts, "read_artifact", id="logo")
    other = await ask("read_artifact", id="bin")
    odd = await ask("read_artifact", id="odd")
    exported = await ask("export_artifact", id="logo", path="logo.png")
    offered = await ArtifactResources(artifacts, lambda text: text).read("artifact:///logo")

    picture = shown.content[1]
    assert isinstance(picture, Image)
    assert str(shown).startswith("[PNG picture, 3000 x 10 pixels")
    assert "shown at 1568 x 5" in str(shown)
    assert plain.content[1] == Image(data=large, mime_type="image/png", label="Logo")
    assert str(other) == "[application/zip, 2 bytes; export_artifact writes it to a file]"
    assert "the picture is damaged" in str(odd)
    assert exported.ok and files.data["logo.png"] == large
    assert offered == [
        {"uri": "artifact:///logo", "mimeType": "image/png", "blob": base64.b64encode(large).decode()}
    ]


@pytest.mark.parametrize(
    ("path", "id"),
    [
        ("notes.md", "notes.md"),
        ("d/a b(1).txt", "a-b-1-.txt"),
        (".env.sample", "env.sample"),
        ("日本.txt", "txt"),
        ("日本", "file"),
    ],
)
async def test_the_id_of_an_imported_file_is_its_name_where_none_is_given(
    artifacts: StoredArtifacts, path: str, id: str
) -> None:
    door = Pipeline(KIT, provide={Artifacts: artifacts, Files: MemoryFiles({path: "hi\n"})})

    result = await door.call(ToolCall("1", "import_artifact", {"path": path}), Context(session="s"))

    assert result.data["id"] == id and (await artifacts.read(id)).title == path.rpartition("/")[2]


@owes("K-76")
async def test_a_file_becomes_an_artifact_as_text_or_as_its_bytes(artifacts: StoredArtifacts) -> None:
    files = MemoryFiles(
        {"notes.md": "# hi\n", "old.txt": "caf\xe9\n".encode("latin-1"), "d/p.png": png(2, 2)}
    )
    door = Pipeline(KIT, provide={Artifacts: artifacts, Files: files})

    async def take(path: str, id: str) -> ToolResult:
        arguments = {"path": path, "id": id}
        return await door.call(ToolCall("1", "import_artifact", arguments), Context(session="s"))

    note, old, picture, again = (
        await take("notes.md", "n"), await take("old.txt", "o"), await take("d/p.png", "p"), await take("notes.md", "n")
    )  # fmt: skip

    assert str(note) == "Imported notes.md as artifact 'n' (version 1, markdown, 5 bytes)"
    assert (await artifacts.read("o")).content == "caf\xe9\n" and old.data["content_type"] == "text/plain"
    stored = await artifacts.read("p")
    assert (stored.data, stored.content_type, stored.title) == (png(2, 2), "image/png", "p.png")
    assert picture.data["bytes"] == len(png(2, 2))
    assert again.error is not None and again.error.code == "conflict"


@owes("K-76")
async def test_the_pages_of_a_long_artifact_are_the_whole_of_it(artifacts: StoredArtifacts) -> None:
    text = "".join(f"line {n} " + "x" * 80 + "\n" for n in range(1, 301))
    await artifacts.create("long", title="Long", content=text)

    parts, offset = [], 1
    for _ in range(20):
        page = await call(artifacts, "read_artifact", id="long", offset=offset)
        parts.append(
            "".join(line + "\n" for line in str(page).splitlines() if not line.startswith("[lines "))
        )
        assert len(str(page)) <= 10_000
        offset = page.data["last"] + 1
        if "goes on]" not in str(page):
            break

    assert "".join(parts) == text
    assert str(await call(artifacts, "read_artifact", id="long", offset=-1)) == text.splitlines(True)[-1]
    assert (await call(artifacts, "read_artifact", id="long", offset=0)).error is not None


@owes("K-76")
async def test_grep_goes_on_by_pages_and_takes_regular_expressions(artifacts: StoredArtifacts) -> None:
    await artifacts.create("a", title="", content="x1\ny\nx2\nx3\n")
    await artifacts.create("b", title="", content="X4\n")
    await artifacts.create("p", title="", content=b"x5\0", content_type="image/png")

    first = await call(artifacts, "grep_artifact", pattern="x", limit=2)
    rest = await call(artifacts, "grep_artifact", pattern="x", limit=2, offset=2)
    beyond = await call(artifacts, "grep_artifact", pattern="x", offset=9)
    regex = await call(artifacts, "grep_artifact", pattern=r"x[23]$", regex=True)
    one = await call(artifacts, "grep_artifact", pattern=r"x.", regex=True, id="a", limit=1)
    alone = await Pipeline(Toolkit([grep_artifact]), provide={Artifacts: artifacts}).call(
        ToolCall("1", "grep_artifact", {"pattern": "x", "regex": True}), Context(session="s")
    )

    assert str(first) == "a:1: x1\na:3: x2\n[lines 1-2; more exist: offset=2 goes on]"
    assert str(rest) == "a:4: x3"
    assert str(beyond) == "Nothing beyond 9."
    assert [(hit["id"], hit["line"]) for hit in regex.data] == [("a", 3), ("a", 4)]
    assert str(one) == "a:1: x1\n[lines 1-1; more exist: offset=1 goes on]"
    assert alone.error is not None and alone.error.code == "unavailable"


# ---- output that a tool declares (K-77) --------------------------------------------------------


@owes("K-77")
async def test_declared_output_is_a_new_artifact_or_the_next_version_of_one(store: Store) -> None:
    artifacts = StoredArtifacts(store, session=lambda: "s")
    keeper = PortArtifactSaver(artifacts)
    await artifacts.create("chart-1", title="", content="taken")

    unnamed = await asyncio.gather(
        *(keeper.save(NewArtifact(content=png(n, 1)), name="chart") for n in (1, 2))
    )
    kinds = [
        (await keeper.save(NewArtifact(content=content), name="f")).content_type
        for content in ("# text", b"\xff\xd8\xff\xe0", b"RIFF0000WEBPVP8 ", b"%PDF-1.7", b"\0")
    ]
    first = await keeper.save(NewArtifact(content="one", id="r", title="Report"), name="chart")
    second = await keeper.save(NewArtifact(content="two", id="r"), name="chart")

    assert sorted(kept.id for kept in unnamed) == ["chart-2", "chart-3"]
    assert kinds == ["markdown", "image/jpeg", "image/webp", "application/pdf", "application/octet-stream"]
    assert (first.version, second.version) == (1, 2)
    newest = await artifacts.read("r")
    assert (newest.title, newest.content, newest.update_type) == ("Report", "two", "rewrite")


@owes("K-77")
async def test_a_toolkit_without_artifact_tools_keeps_declared_output_too(tmp_path: Path) -> None:
    @tool(effects=PURE)
    async def draw() -> NewArtifact:
        """Draw."""
        return NewArtifact(content=png(2, 2))

    async with Executor([draw]) as door:
        first, second = await door.call("draw", {}), await door.call("draw", {})

    assert [r.metadata["artifacts"][0]["id"] for r in (first, second)] == ["draw-1", "draw-2"]


@owes("K-77")
async def test_one_artifact_that_a_tool_declared_is_read_by_the_artifact_tools() -> None:
    @tool(effects=PURE)
    async def draw() -> ToolResult:
        """Draw."""
        return ToolResult(artifacts=(NewArtifact(content="# Sales", id="sales"),))

    async with Executor(Toolkit([draw, read_artifact, list_artifacts])) as door:
        await door.call("draw", {})
        shown = await door.call("read_artifact", {"id": "sales"})

    assert str(shown) == "# Sales"
