"""web_fetch: read web pages."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pegboard.core.content import Block, Text
from pegboard.core.errors import InvalidArguments, ToolError, Unavailable
from pegboard.core.result import ToolResult, notes_of_cost
from pegboard.core.schema.annotations import Alias, EffectMarker, Inject
from pegboard.core.tool import tool
from pegboard.ports.session_model import SessionModel
from pegboard.ports.web import Page, Web

_AT_ONCE: Final = 5
_PLACE: Final = EffectMarker("connect", "An http or https URL.", ("uri", "link", "address"))
_PLACES: Final = EffectMarker("connect", "Several URLs in place of url.", ("links", "uris"))


@tool(
    idempotent=True,
    timeout_s=120.0,
    max_chars=60_000,
    hints=("read a web page", "fetch a url", "open a link", "download a page", "读取网页"),
    example={"url": "https://example.com/"},
)
async def web_fetch(
    url: Annotated[str | None, _PLACE] = None,
    urls: Annotated[list[str] | None, _PLACES] = None,
    extract_mode: Annotated[Literal["markdown", "text"], Alias("mode", "format")] = "markdown",
    max_chars: Annotated[int, Field(ge=100, le=500_000), Alias("max_length", "limit")] = 50_000,
    offset: Annotated[int, Field(ge=0), Alias("start", "start_index")] = 0,
    prompt: Annotated[str | None, Alias("question", "instructions")] = None,
    *,
    web: Inject[Web],
    model: Inject[SessionModel | None] = None,
) -> ToolResult:
    """Read a web page, JSON, feed, PDF, Office file or picture by its URL; HTML becomes Markdown of its main content.

    Only public http and https addresses; up to 5 redirects are followed. A page that needs JavaScript says so: open it
    with the browser tool.

    Args:
        url: The page.
        urls: Several pages at once; each has its own result, also where another fails.
        extract_mode: markdown keeps headings, links, lists and tables; text leaves plain words.
        max_chars: Characters to show; the answer says how to read on.
        offset: Character to begin at, to read on.
        prompt: What you want to know: a model reads the page and answers it in place of the page.
    """
    wanted = [*([url] if url else []), *(urls or [])]
    if not wanted:
        raise InvalidArguments("neither url nor urls names a page", hint="Send url.")
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(address: str) -> Page | ToolError:
        async with gate:
            try:
                return await web.fetch(address, form=extract_mode)
            except ToolError as error:
                if len(wanted) == 1:
                    raise
                return error

    blocks: list[Block] = []
    rows: list[dict[str, Any]] = []
    costs: list[float] = []
    for address, page in zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True):
        if isinstance(page, ToolError):
            blocks.append(Text(f"URL: {address}\nError: {page}"))
            rows.append({"url": address, "error": page.to_dict()})
            continue
        shown, row, cost = await _shown(page, prompt, model, offset, max_chars // len(wanted) or 1)
        costs += [] if cost is None else [cost]
        blocks += [Text(shown)] if page.image is None else [Text(shown), page.image]
        rows.append(row)
    content = [
        Text("\n\n---\n\n".join(b.text for b in blocks if isinstance(b, Text))),
        *(b for b in blocks if not isinstance(b, Text)),
    ]
    data: Any = rows[0] if len(wanted) == 1 else {"results": rows}
    return ToolResult(content=tuple(content), data=data, notes=notes_of_cost(sum(costs) if costs else None))


async def _shown(
    page: Page, prompt: str | None, model: SessionModel | None, offset: int, most: int
) -> tuple[str, dict[str, Any], float | None]:
    """A page as the model reads it, its data, and what an answer to the prompt cost."""
    cost = None
    notes = [page.note] if page.note else []
    text, extractor = page.text, page.extractor
    if prompt:
        try:
            if model is None:
                raise Unavailable("no model answers prompts here")
            answer = await model.answer(f"{prompt}\n\nAnswer from the page alone.", (Text(text),))
            text, cost = answer.text, answer.cost_usd
            extractor = f"{extractor}+model"
        except Unavailable as error:
            notes.append(
                f"The prompt was not answered ({error.message.rstrip('.')}); this is the page itself."
            )
    part = text[offset : offset + most]
    end = offset + len(part)
    cut = end < len(text)
    if cut or offset:
        go_on = f"; read on with offset={end}" if cut else ""
        notes.append(f"Characters {offset} to {end} of {len(text)}{go_on}.")
    head = [f"URL: {page.final_url}", f"Title: {page.title}", *(f"Note: {note}" for note in notes)]
    body = part + ("\n... (truncated)" if cut else "")
    row = {
        "url": page.url, "finalUrl": page.final_url, "status": page.status, "extractor": extractor, "truncated": cut,
        "length": len(text), "text": part,
    }  # fmt: skip
    return "\n".join(head) + f"\n\nContent:\n{body}", row, cost
