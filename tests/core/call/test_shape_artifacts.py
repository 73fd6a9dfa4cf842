"""What a tool declares as an artifact is kept, and its result says where (ledger K-77)."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard.core.call.pipeline import Pipeline
from pegboard.core.content import KEEPER, ArtifactRef, Image, NewArtifact, Text, ToolCall
from pegboard.core.context import Context, current_context
from pegboard.core.effects import PURE
from pegboard.core.errors import TooLarge
from pegboard.core.result import Notes, Shaper, ToolResult
from pegboard.core.secrets.redact import Redactor
from pegboard.core.tool import tool
from pegboard.core.toolkit import Toolkit
from tests.ledger import owes

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


class Shelf:
    """Keeps what it is given and remembers for which session."""

    def __init__(self, error: Exception | None = None) -> None:
        self.kept: list[tuple[str, NewArtifact]] = []
        self.error = error

    async def save(self, made: NewArtifact, *, name: str) -> ArtifactRef:
        if self.error is not None:
            raise self.error
        self.kept.append((current_context().session, made))
        return ArtifactRef(id=made.id or f"{name}-1", version=1, content_type=made.content_type or "markdown")


async def run(returned: Any, shelf: Shelf | None, shaper: Shaper | None = None) -> ToolResult:
    @tool(effects=PURE)
    async def chart() -> Any:
        """Draw."""
        return returned

    provide = {} if shelf is None else {KEEPER: shelf}
    door = Pipeline(Toolkit([chart]), provide=provide, shaper=shaper)
    return await door.call(ToolCall("1", "chart", {}), Context(session="s"))


@owes("K-77")
async def test_what_a_tool_returns_as_an_artifact_is_kept_for_its_session() -> None:
    shelf = Shelf()

    done = await run(NewArtifact(content="a,b\n1,2\n", content_type="csv"), shelf)

    assert shelf.kept == [("s", NewArtifact(content="a,b\n1,2\n", content_type="csv"))]
    assert str(done) == "[kept as artifact 'chart-1' (version 1); read_artifact shows it]"
    assert done.metadata["artifacts"] == [{"id": "chart-1", "version": 1, "content_type": "csv"}]
    assert done.artifacts == ()


@owes("K-77")
async def test_a_result_keeps_its_own_content_beside_what_it_declares() -> None:
    shelf = Shelf()
    picture = Image(data=PNG, mime_type="image/png")
    both = (NewArtifact(content=PNG, id="sales"), NewArtifact(content="notes", id="notes"))

    done = await run(
        ToolResult(content=(picture,), data={"rows": 2}, notes=Notes(extra={"source": "db"}), artifacts=both),
        shelf,
    )

    assert [made.id for _, made in shelf.kept] == ["sales", "notes"]
    assert done.content[0] == picture
    assert [b.text for b in done.content[1:] if isinstance(b, Text)] == [
        "[kept as artifact 'sales' (version 1); read_artifact shows it]",
        "[kept as artifact 'notes' (version 1); read_artifact shows it]",
    ]
    assert done.data == {"rows": 2}
    assert done.metadata["source"] == "db"


@owes("K-77")
@pytest.mark.parametrize(
    ("shelf", "id", "said"),
    [
        (None, "", "[not kept as an artifact: nothing keeps artifacts here]"),
        (None, "sales", "[not kept as artifact 'sales': nothing keeps artifacts here]"),
        (Shelf(TooLarge("the content is 9 bytes")), "sales", "[not kept as artifact 'sales': the content is 9 bytes]"),
        (Shelf(RuntimeError("disk gone")), "", "[not kept as an artifact: "),
    ],
)  # fmt: skip
async def test_what_cannot_be_kept_is_said_and_fails_no_call(shelf: Shelf | None, id: str, said: str) -> None:
    done = await run(ToolResult(artifacts=(NewArtifact(content="x", id=id),)), shelf)

    assert done.ok
    assert str(done).startswith(said)
    assert done.metadata["artifacts"] == []


@owes("K-77")
async def test_a_secret_is_taken_out_of_what_is_kept() -> None:
    shelf = Shelf()

    await run(
        NewArtifact(content="key=hunter2hunter2"), shelf, Shaper(redactor=Redactor({"key": "hunter2hunter2"}))
    )
    await run(NewArtifact(content=PNG), shelf, Shaper(redactor=Redactor({"key": "hunter2hunter2"})))

    assert "hunter2" not in str(shelf.kept[0][1].content)
    assert shelf.kept[1][1].content == PNG
