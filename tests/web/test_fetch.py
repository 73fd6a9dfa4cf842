"""WebReader and web_fetch: what each kind of answer becomes, against a real server on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, ToolResult, builtin
from pegboard.app.app import App
from pegboard.core.content import Block, Image
from pegboard.core.errors import NotFound, PermissionDenied, ToolError, Unavailable, Unsupported
from pegboard.core.events import CallFinished
from pegboard.documents.child import DocumentReader
from pegboard.net.client import HttpClient
from pegboard.ports.session_model import ModelAnswer
from pegboard.web.fetch import WebReader
from tests.ledger import owes
from tests.web.site import Asked, Site, Write, site

ARTICLE = "<article><h1>On otters</h1>" + "".join(
    f"<p>Paragraph {n}: otters live by rivers, eat fish, and sleep on their backs.</p>" for n in range(8)
) + "</article>"  # fmt: skip


class Time:
    """A clock that a test turns on; sleeping turns it on too."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


def reader(here: Site, time: Time | None = None, **options: Any) -> WebReader:
    time = time or Time()
    client = HttpClient(allow=(here.place,), **options.pop("client", {}))
    return WebReader(client, DocumentReader(), clock=time, sleep=time.sleep, **options)


@owes("N-79")
async def test_html_becomes_markdown_and_text_mode_plain_words(here: Site) -> None:
    url = here.answer(
        "/a", f"<html><head><title>T</title></head><body>{ARTICLE}<p><a href='/b'>more</a></p></body></html>"
    )
    page = await reader(here).fetch(url)
    assert (page.title, page.status, page.extractor) == ("T", 200, "trafilatura")
    assert "# On otters" in page.text
    plain = await reader(here).fetch(url, form="text")
    assert "On otters" in plain.text
    assert "#" not in plain.text


@owes("N-78")
async def test_json_is_indented_by_two_and_json_lines_stay(here: Site) -> None:
    page = await reader(here).fetch(here.answer("/a", '{"a":[1,"ä"]}', "application/json; charset=utf-8"))
    assert page.text == '{\n  "a": [\n    1,\n    "ä"\n  ]\n}'
    lines = '{"a":1}\n{"a":2}\n'
    assert (await reader(here).fetch(here.answer("/b", lines, "application/json"))).text == lines


@owes("N-80")
@pytest.mark.parametrize(
    "kind", ["text/plain", "text/csv", "application/xml", "application/yaml", "text/x-python", ""]
)
async def test_other_text_stays_as_it_is(here: Site, kind: str) -> None:
    text = "a,b\n<c> & 'd'\n"
    assert (await reader(here).fetch(here.answer("/a", text, kind))).text == text


async def test_a_feed_is_a_list(here: Site) -> None:
    rss = (
        '<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><item><title>One &amp; two</title><link>/1</link>'
        "<pubDate>Mon, 02 Nov 2026</pubDate><description>&lt;p&gt;Short.&lt;/p&gt;</description></item></channel></rss>"
    )
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>Notes</title><entry><title>First</title>'
        '<link href="https://x.example/f"/><updated>2026-11-02</updated></entry></feed>'
    )
    page = await reader(here).fetch(here.answer("/a", rss, "application/rss+xml"))
    assert (page.title, page.extractor) == ("News", "feed")
    assert page.text == f"- [One & two]({here.url('/1')}) (Mon, 02 Nov 2026)\n  Short."
    page = await reader(here).fetch(here.answer("/b", atom, "text/xml"))
    assert page.text == "- [First](https://x.example/f) (2026-11-02)"


async def test_entries_are_found_by_what_each_format_says_of_them(here: Site) -> None:
    # RSS 2.0: a guid is a permanent link unless it says otherwise. RFC 4287: the content stands for a summary.
    rss = (
        "<rss version='2.0'><channel><item><title>a</title><guid>http://x.example/a</guid></item>"
        "<item><title>b</title><guid isPermaLink='false'>7</guid><description>&amp;lt;p&gt;</description></item></channel></rss>"
    )
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>c</title><content type="xhtml">'
        '<div xmlns="http://www.w3.org/1999/xhtml"><p>Whole.</p></div></content></entry></feed>'
    )
    first = await reader(here).fetch(here.answer("/a", rss, "text/xml"))
    second = await reader(here).fetch(here.answer("/b", atom, "application/atom+xml"))

    assert first.text == "- [a](http://x.example/a)\n- b\n  <p>"
    assert second.text == "- c\n  Whole."


@pytest.mark.parametrize("kind", ["application/feed+json", "application/json"])
async def test_a_json_feed_is_a_list(here: Site, kind: str) -> None:
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Notes",
        "items": [
            {
                "id": "1",
                "url": "/1",
                "title": "First",
                "content_html": "<p>Hi</p>",
                "date_published": "2026-11-02",
            },
            {"id": "2", "content_text": "Without a title"},
        ],
    }
    page = await reader(here).fetch(here.answer("/a", json.dumps(feed), kind))

    assert (page.title, page.extractor) == ("Notes", "feed")
    assert page.text == f"- [First]({here.url('/1')}) (2026-11-02)\n  Hi\n- (no title)\n  Without a title"


async def test_a_feed_reads_no_file_through_an_entity(here: Site, tmp_path: Path) -> None:
    secret = tmp_path / "s.txt"
    secret.write_text("TOPSECRET")
    rss = (
        f'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY e SYSTEM "file://{secret}">]><rss><channel><title>x</title>'
        "<item><title>&e;</title></item></channel></rss>"
    )
    assert "TOPSECRET" not in (await reader(here).fetch(here.answer("/a", rss, "application/rss+xml"))).text


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("新闻".encode("gbk"), "text/plain; charset=gb2312", "新闻"),
        (
            '<html><head><meta charset="gbk"></head><body><p>今天天气很好</p></body></html>'.encode("gbk"),
            "text/html",
            "今天天气很好",
        ),
        ("\ufeffgrün".encode(), "text/plain; charset=iso-8859-1", "grün"),
        (b"\x93hi\x94", "text/plain; charset=iso-8859-1", "“hi”"),
        ("grün".encode(), "text/plain; charset=nonsense", "grün"),
        # Labels of the WHATWG Encoding Standard that Python does not know.
        ("שלום".encode("iso8859-8"), "text/plain; charset=ISO-8859-8-I", "שלום"),
        ("日本".encode("cp932"), "text/plain; charset=x-sjis", "日本"),
        ("ก".encode("cp874"), "text/plain; charset=windows-874", "ก"),
        ("й".encode("mac-cyrillic"), "text/plain; charset=x-mac-cyrillic", "й"),
        # Without a label: few accents are Western, and one cut character makes no UTF-8 another encoding.
        ("café déjà".encode("cp1252"), "text/plain", "café déjà"),
        ("grün, blaß, müde, schön, Süßöl".encode()[:-2], "text/plain", "grün, blaß, müde, schön, Süß\ufffd"),
        (
            "<?xml version='1.0' encoding='iso-8859-1'?><a>grün</a>".encode("latin-1"),
            "application/xml",
            "grün",
        ),
        (
            "これは日本語の文章です。今日は天気がいいですね。".encode("shift_jis"),
            "text/plain",
            "これは日本語の文章です",
        ),
    ],
)
async def test_the_encoding_is_found_as_browsers_find_it(
    here: Site, body: bytes, content_type: str, expected: str
) -> None:
    assert expected in (await reader(here).fetch(here.answer("/a", body, content_type))).text


async def test_a_page_whose_encoding_is_guessed_says_so(here: Site) -> None:
    body = "<p>Książka leży na półce. Dziękuję bardzo, źle się czułem.</p>".encode("cp1250")

    guessed = await reader(here).fetch(here.answer("/a", body, "text/html"))
    named = await reader(here).fetch(here.answer("/b", body, "text/html; charset=windows-1250"))

    assert "encoding guessed: cp125" in guessed.note
    assert named.note == ""


@owes("A-48")
@pytest.mark.parametrize("label", ["application/pdf", "application/octet-stream", "text/html", "text/plain"])
async def test_a_pdf_is_read_whatever_it_is_called(here: Site, label: str) -> None:
    from tests.documents.test_readers import pdf

    page = await reader(here).fetch(here.answer("/a", pdf(["Otters eat fish"]), label))
    assert page.extractor == "pdf"
    assert "Otters eat fish" in page.text
    assert "%PDF" not in page.text


async def test_a_picture_comes_as_a_picture_and_an_archive_as_a_refusal(here: Site) -> None:
    from io import BytesIO

    from PIL import Image as Picture

    data = BytesIO()
    Picture.new("RGB", (8, 8), "red").save(data, "PNG")
    page = await reader(here).fetch(here.answer("/a.png", data.getvalue(), "application/octet-stream"))
    assert page.image is not None
    assert page.image.mime_type == "image/png"
    with pytest.raises(Unsupported, match=r"application/zip \(4 bytes\)"):
        await reader(here).fetch(here.answer("/a.zip", b"PK\3\4", "application/zip"))


async def test_a_page_that_needs_javascript_says_so(here: Site) -> None:
    shell = "<html><head><title>App</title>%s</head><body><div id=root></div><script src=a.js></script></body></html>"
    with pytest.raises(Unsupported, match=r"App\) shows its text only with JavaScript") as refused:
        await reader(here).fetch(here.answer("/a", shell % ""))
    assert "browser" in refused.value.hint
    data = (
        '<script type="application/ld+json">{"@type": "Article", "articleBody": "Otters eat fish"}</script>'
    )
    page = await reader(here).fetch(here.answer("/b", shell % data))
    assert "Otters eat fish" in page.text
    assert "JavaScript" in page.note


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        ("404 Not Found", NotFound, False),
        ("403 Forbidden", Unavailable, False),
        ("500 Internal Server Error", Unavailable, True),
    ],
)
async def test_an_error_page_is_an_error_with_its_status_and_a_short_text(
    here: Site, status: str, error: type[ToolError], retryable: bool
) -> None:
    url = here.answer("/a", f"<h1>Sorry</h1><p>Blocked.</p>{'<p>more</p>' * 500}", status=status)
    with pytest.raises(error, match=f"answered {status}: Sorry Blocked") as refused:
        await reader(here).fetch(url)
    assert len(str(refused.value)) < 700
    assert refused.value.retryable is retryable


# -- manners ------------------------------------------------------------------------------------


@owes("M-60", "K-53")
async def test_a_page_is_not_asked_for_again_within_the_caches_minutes(here: Site) -> None:
    time = Time()
    web = reader(here, time, cache_s=900)
    url = here.answer("/a", "one", "text/plain")
    await web.fetch(url)
    await web.fetch(url + "#part")
    time.at += 899
    assert (await web.fetch(url)).text == "one"
    assert len(here.asked) == 1
    time.at += 2
    await web.fetch(url)
    assert len(here.asked) == 2


async def test_a_short_wait_that_the_server_asks_for_is_kept_and_a_long_one_is_told(here: Site) -> None:
    answers = iter([b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"])  # fmt: skip

    async def limited(asked: Asked, write: Write) -> None:
        await write(next(answers))

    here.pages["/a"] = limited
    time = Time()
    assert (await reader(here, time).fetch(here.url("/a"))).text == "ok"
    assert time.slept == [2.0]

    time = Time()
    web = reader(here, time)
    url = here.answer("/b", "", status="429 Too Many Requests", retry_after="3600")
    for _ in range(2):
        with pytest.raises(Unavailable, match="asks to wait 3600 s"):
            await web.fetch(url)
    assert time.slept == []
    assert len([a for a in here.asked if a.path == "/b"]) == 1


async def test_a_host_that_is_always_busy_is_asked_three_times(here: Site) -> None:
    time = Time()
    with pytest.raises(Unavailable, match="503"):
        await reader(here, time).fetch(here.answer("/a", "", status="503 Service Unavailable"))
    assert len(here.asked) == 3


@owes("K-54")
async def test_a_hosted_reader_is_asked_only_where_one_is_named_and_never_with_credentials(
    here: Site,
) -> None:
    empty = here.answer("/a", "<html><body><div id=root></div><script></script></body></html>")
    here.answer("/read/" + empty.partition("?")[0], "# Read elsewhere", "text/markdown")
    with pytest.raises(Unsupported):
        await reader(here).fetch(empty)
    page = await reader(here, reader=here.url("/read/")).fetch(empty)
    assert (page.extractor, page.text) == ("hosted-reader", "# Read elsewhere")
    assert not {"authorization", "cookie"} & set(here.asked[-1].headers)


# -- the tool -------------------------------------------------------------------------------------


class Model:
    """A model that answers with what it was shown."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def answer(self, prompt: str, content: Any = ()) -> ModelAnswer:
        self.asked.append((prompt, "".join(str(b.text) for b in content)))
        return ModelAnswer(text="the answer", cost_usd=0.5)


def executor(here: Site, *provide: Any) -> Executor:
    return Executor(builtin("web_fetch"), provide=[reader(here), *provide], mode="full")


def code(result: ToolResult) -> str:
    return "" if result.error is None else result.error.code


@owes("M-28", "N-81", "X-30", "K-36")
async def test_the_result_has_both_shapes_and_is_marked_untrusted(here: Site) -> None:
    url = here.answer("/b", "Otters eat fish.", "text/plain")
    start = here.answer("/a", "", status="302 Found", location="/b")
    result = await executor(here).call("web_fetch", {"url": start})
    assert result.ok, result
    assert str(result) == f"URL: {url}\nTitle: \n\nContent:\nOtters eat fish."
    assert result.data == {
        "url": start, "finalUrl": url, "status": 200, "extractor": "raw", "truncated": False, "length": 16,
        "text": "Otters eat fish.",
    }  # fmt: skip
    assert "untrusted" in result.notes.labels


@owes("N-73", "N-74", "N-75", "N-83", "C-33", "X-30")
async def test_a_long_page_is_cut_and_can_be_read_on(here: Site) -> None:
    text = "".join(f"line {n}\n" for n in range(2000))
    url = here.answer("/a", text, "text/plain")
    one = executor(here)
    first = await one.call("web_fetch", {"url": url, "maxChars": 100, "extractMode": "text"})
    assert "read on with offset=100" in str(first)
    assert str(first).endswith("\n... (truncated)")
    assert first.data["truncated"] is True
    second = await one.call(
        "web_fetch", {"url": url, "max_chars": 100, "offset": 100, "extract_mode": "text"}
    )
    assert first.data["text"] + second.data["text"] == text[:200]
    assert len(here.asked) == 1
    assert code(await one.call("web_fetch", {"url": url, "maxChars": 99})) == "invalid_arguments"
    schema = builtin("web_fetch").schemas("openai-chat")[0]["function"]["parameters"]["properties"]
    assert schema["extract_mode"]["enum"] == ["markdown", "text"]
    assert (schema["extract_mode"]["default"], schema["max_chars"]["default"]) == ("markdown", 50_000)


async def test_the_notice_of_a_cut_survives_a_title_and_a_page_of_megabytes(here: Site) -> None:
    url = here.answer("/a", f"<title>{'t' * 2000}</title><p>{'word ' * 400_000}</p>")
    result = await executor(here).call("web_fetch", {"url": url, "max_chars": 2000})
    assert "read on with offset=2000" in str(result)
    assert len(str(result)) < 3000


async def test_several_pages_each_have_their_result_where_one_fails(here: Site) -> None:
    urls = [
        here.answer("/a", "first", "text/plain"),
        here.url("/none"),
        here.answer("/c", "third", "text/plain"),
    ]
    result = await executor(here).call("web_fetch", {"urls": urls})
    assert result.ok
    rows = result.data["results"]
    assert [row.get("text") for row in rows] == ["first", None, "third"]
    assert rows[1]["error"]["code"] == "not_found"
    assert "answered 404" in str(result)
    assert len({e.target for e in (await executor(here).preview("web_fetch", {"urls": urls})).effects}) == 1


async def test_a_picture_reaches_the_model_as_one(here: Site) -> None:
    from io import BytesIO

    from PIL import Image as Picture

    data = BytesIO()
    Picture.new("RGB", (8, 8), "red").save(data, "PNG")
    result = await executor(here).call(
        "web_fetch", {"url": here.answer("/a.png", data.getvalue(), "image/png")}
    )
    blocks: list[Block] = list(result.content)
    assert isinstance(blocks[-1], Image)


@owes("M-27")
async def test_a_prompt_is_answered_by_the_model_and_without_one_the_page_comes_with_a_note(
    here: Site,
) -> None:
    url = here.answer("/a", "Otters eat fish.", "text/plain")
    model = Model()
    result = await executor(here, model).call("web_fetch", {"url": url, "prompt": "What do they eat?"})
    assert "Content:\nthe answer" in str(result)
    assert model.asked == [("What do they eat?\n\nAnswer from the page alone.", "Otters eat fish.")]
    assert result.notes.extra["cost_usd"] == 0.5
    plain = await executor(here).call("web_fetch", {"url": url, "prompt": "What do they eat?"})
    assert "Note: The prompt was not answered" in str(plain)
    assert "Otters eat fish." in str(plain)


async def test_an_agents_own_model_answers_the_prompt(here: Site, own_home: Path) -> None:
    from pegboard import Agent
    from pegboard.models import ScriptedModel

    url = here.answer("/a", "Otters eat fish.", "text/plain")
    call = {"name": "web_fetch", "arguments": {"url": url, "prompt": "What do they eat?"}}
    agent = Agent(
        tools=[builtin("web_fetch")], model=ScriptedModel([{"calls": [call]}, {"text": "Fish."}, {"text": "done"}]),
        provide=[reader(here)], mode="full",
    )  # fmt: skip
    answer = await agent.run("go")
    assert answer.status == "done"
    shown = [e.result for e in answer.events if isinstance(e, CallFinished)]
    assert "Content:\nFish." in str(shown[0])


@owes("M-30", "M-60")
async def test_a_denied_host_is_refused_also_as_the_target_of_a_redirect(here: Site, own_home: Path) -> None:
    settings = own_home / ".config" / "pegboard" / "pegboard.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[network]\nallow_hosts = ["{here.place}"]\n[web]\ncache_minutes = 0\n')
    url = here.answer("/a", "", status="302 Found", location="http://bad.example/")
    rules = ["deny connect:bad.example", "allow connect:*"]
    direct = Executor(builtin("web_fetch"), policy=rules)
    assert code(await direct.call("web_fetch", {"url": "http://bad.example/"})) == "permission_denied"
    with App.open(workspace=own_home, mode="full", policy=_rules(own_home, rules)) as app:
        async with app.executor(toolkit=builtin("web_fetch")) as opened:
            result = await opened.call("web_fetch", {"url": url})
    assert isinstance(result.error, PermissionDenied)
    assert "bad.example" in result.error.message
    assert [a.path for a in here.asked] == ["/a"]


def _rules(folder: Path, rules: list[str]) -> Path:
    path = folder / "rules.txt"
    path.write_text("\n".join(rules))
    return path
