"""browser: use web pages in a real browser."""

from __future__ import annotations

import mimetypes
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from pegboard.core.content import Block, Image, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.policy.approval import Waiting
from pegboard.core.result import SOURCE, Notes, ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.net.urls import host_of, judge_url
from pegboard.ports.browser import (
    AnswerDialog,
    Back,
    Browser,
    BrowserAction,
    BrowserReply,
    Click,
    Close,
    Direction,
    Download,
    Drag,
    Element,
    Evaluate,
    Fill,
    HandOver,
    Hover,
    MakePdf,
    MouseButton,
    Navigate,
    Place,
    Press,
    ReadConsole,
    ReadContent,
    Screenshot,
    Scroll,
    Select,
    SelectTab,
    TakeBack,
    TakeSnapshot,
    Target,
    TypeText,
    Upload,
    UploadFile,
    Wait,
)
from pegboard.ports.files import Files, Write
from pegboard.ports.people import People, Question

Action: TypeAlias = Literal[
    "navigate", "snapshot", "content", "click", "type", "fill", "select", "press", "hover", "drag", "scroll", "wait",
    "tabs", "back", "upload", "download", "dialog", "console", "pdf", "screenshot", "evaluate", "hand_over", "close",
]  # fmt: skip

_WRITES: Final = frozenset({"download", "pdf", "screenshot"})
_SEES: Final = frozenset({"snapshot", "content", "tabs", "console", "pdf", "screenshot", "close"})
"""Actions that only show what the browser has already."""
_LOOKS: Final = _SEES | {"hover", "scroll", "wait", "back", "hand_over"}
"""Actions that take nothing to the server but what the page itself does."""
_TYPES: Final = frozenset({"type", "fill", "select"})
"""Actions that put something into the page and do not send it yet."""
_ALLOWED: Final = Effect("control", "browser", at_least="allow")


class FormField(BaseModel):
    """One form field and its new value."""

    model_config = ConfigDict(extra="forbid")

    ref: str = ""
    selector: str = ""
    value: Annotated[str, Field(description="New value; true or false for a checkbox.")] = ""


async def plan_browser(call: ValidCall, context: Context) -> Plan:
    """The hosts that the page may reach, and the files that are read or written.

    Looking at an open page connects to nothing. Following a link of it is allowed, and typing into one that was opened on purpose.
    What may send something (a button, Enter, an upload) and opening an address that the model made up are questions.
    """
    given = call.arguments
    action: str = given["action"]
    browser = context.port(Browser)
    place = await browser.place(target=given["target"], profile=given["profile"])
    effects = [*_connects(given, place), _ALLOWED]
    if action == "evaluate":
        effects.append(
            Effect(
                "control",
                "browser:evaluate",
                at_least="ask",
                reason="it runs JavaScript in the page, with its logins",
            )
        )
    if given["profile"]:
        effects.append(
            Effect("control", f"browser:profile:{given['profile']}", reason="it has the logins kept there")
        )
    files = context.port(Files) if given["path"] or given["paths"] else None
    if files is not None and given["path"]:
        if action not in _WRITES:
            raise InvalidArguments(f"action {action} writes no file", hint="Leave path out.")
        effects.append(Effect("write", (await files.resolve(given["path"], write=True)).reachable()))
    if files is not None and action == "upload":
        effects += [Effect("read", (await files.resolve(path)).reachable()) for path in given["paths"]]
    acts = action != "navigate" and action not in _LOOKS
    return Plan(tuple(effects), private=_here(given, place) if acts else None)


def _here(given: Mapping[str, Any], place: Place) -> str:
    """The host of the page that a call is about: of the named tab, the ref's, or the current one."""
    wanted = given["tab"] or given["ref"].partition("e")[0].partition("f")[0]
    return host_of(next((tab.url for tab in place.tabs if tab.id == wanted), place.url))


def _connects(given: Mapping[str, Any], place: Place) -> list[Effect]:
    action: str = given["action"]
    if action == "navigate":
        url = _url(given["url"])
        return [Effect("connect", host_of(url), at_least="allow" if url in place.links.values() else None)]
    here = _here(given, place)
    if not here or action in _SEES:
        return []
    hosts = [here]
    quiet = (
        action in _LOOKS
        or (action == "dialog" and not given["accept"])
        or (action in _TYPES and not given["submit"] and here in place.opened)
    )
    link = place.links.get(given["ref"]) if action == "click" and not given["selector"] else None
    if link is not None and host_of(link):
        hosts.append(host_of(link))
        quiet = True
    return [Effect("connect", host, at_least="allow" if quiet else None) for host in dict.fromkeys(hosts)]


@tool(
    plan=plan_browser,
    touches=("connect", "control", "read", "write"),
    timeout_s=0,
    hints=(
        "open a web page",
        "click a button",
        "fill in a form",
        "log in to a site",
        "take a screenshot",
        "浏览器",
    ),
    example={"action": "navigate", "url": "https://example.com"},
)
async def browser(
    action: Action,
    url: str = "",
    ref: Annotated[str, Alias("element", "reference", "element_ref")] = "",
    selector: str = "",
    text: Annotated[str, Alias("value", "key", "expression", "script")] = "",
    values: list[str] | None = None,
    fields: list[FormField] | None = None,
    to_ref: str = "",
    to_selector: str = "",
    submit: bool = False,
    double: Annotated[bool, Alias("double_click")] = False,
    button: MouseButton = "left",
    direction: Direction = "down",
    pixels: Annotated[int, Field(ge=0, le=100_000)] = 0,
    gone: bool = False,
    accept: bool = True,
    path: str = "",
    paths: list[str] | None = None,
    full_page: bool = False,
    tab: Annotated[str, Alias("target_id", "tab_id")] = "",
    new_tab: bool = False,
    timeout: Annotated[float, Field(gt=0, le=120), Alias("timeout_s")] = 10,
    target: Target | None = None,
    profile: str = "",
    *,
    pages: Inject[Browser],
    files: Inject[Files],
    people: Inject[People],
    planned: Inject[Plan | None] = None,
) -> ToolResult | Waiting:
    """Use web pages in a real browser: open them, read them, click and fill in forms.

    For a page that only has to be read, web_fetch is quicker. Start with navigate; it returns a
    snapshot, in which each element has a ref. Act by ref; actions that change the page return what
    changed. A ref of an element that is gone is refused: take a new snapshot.

    Args:
        action: navigate (url); snapshot of the page or an element; content: its visible text; click;
            type: press the keys of text; fill: replace the value of a field, or of several fields;
            select options; press one key; hover; drag onto to_ref; scroll; wait for text, an element
            or a url; tabs: list, or switch to tab; back; upload paths; download to path; dialog:
            answer an alert, confirm or prompt; console; pdf and screenshot, to path; evaluate
            JavaScript; hand_over: let the user log in or solve a captcha; close a tab or everything.
        url: Address for navigate; for wait, a glob.
        ref: The element, as the last snapshot names it, such as t1e12.
        selector: The element by CSS selector, where there is no ref.
        text: What to type or fill in; for press the key, such as Enter or Control+a; for wait the
            text; for dialog the answer; for evaluate the JavaScript; for download the id of one that
            has begun; for hand_over what the user should do.
        values: Options for select, by label or value.
        fields: Several fields for fill, each with ref or selector and value.
        to_ref: Where drag ends.
        to_selector: Where drag ends, by selector.
        submit: Press Enter after type or fill.
        double: Double-click.
        button: Mouse button.
        direction: Where to scroll.
        pixels: How far to scroll; 0 is one screen.
        gone: wait until it is gone.
        accept: Whether to accept the dialog.
        path: File to write, relative to the workspace: for download, pdf and screenshot.
        paths: Files of the workspace to upload.
        full_page: Screenshot of the whole page.
        tab: The tab; the current one unless given.
        new_tab: navigate in a new tab.
        timeout: Seconds to wait for the page.
        target: host is the browser of this machine, sandbox the remote one of the settings.
        profile: Name under which logins are kept for later sessions.

    Raises:
        NotFound: no such tab or download, or the element of that ref is gone.
        PermissionDenied: the address is not public, or a rule denies its host.
        Conflict: a dialog has to be answered first.
        Unavailable: Chromium is missing or has crashed, or the server cannot be reached.
    """
    elements = Element(ref=ref, selector=selector), Element(ref=to_ref, selector=to_selector)
    step: BrowserAction
    match action:
        case "navigate":
            step = Navigate(url=_url(url), new_tab=new_tab)
        case "snapshot":
            step = TakeSnapshot(_optional(elements[0]))
        case "content":
            step = ReadContent(_optional(elements[0]))
        case "click":
            step = Click(element=elements[0], button=button, double=double)
        case "type":
            step = TypeText(text=text, element=_optional(elements[0]), submit=submit)
        case "fill":
            several = [(Element(ref=f.ref, selector=f.selector), f.value) for f in fields or ()]
            step = Fill(fields=several or [(elements[0], text)], submit=submit)
        case "select":
            step = Select(element=elements[0], values=values or [text])
        case "press":
            step = Press(key=_needed(text, action, "text"), element=_optional(elements[0]))
        case "hover":
            step = Hover(elements[0])
        case "drag":
            step = Drag(source=elements[0], target=elements[1])
        case "scroll":
            step = Scroll(element=_optional(elements[0]), direction=direction, pixels=pixels)
        case "wait":
            step = Wait(text=text, element=_optional(elements[0]), url=url, gone=gone)
        case "tabs":
            step = SelectTab(tab)
        case "back":
            step = Back()
        case "upload":
            _needed(paths, action, "paths")
            step = Upload(element=elements[0], files=[await _upload(files, p) for p in paths or ()])
        case "download":
            _needed(path, action, "path")
            step = Download(id=text, element=_optional(elements[0]))
        case "dialog":
            step = AnswerDialog(accept=accept, text=text)
        case "console":
            step = ReadConsole()
        case "pdf":
            _needed(path, action, "path")
            step = MakePdf()
        case "screenshot":
            step = Screenshot(element=_optional(elements[0]), full_page=full_page)
        case "evaluate":
            step = Evaluate(expression=_needed(text, action, "text"), element=_optional(elements[0]))
        case "hand_over":
            step = HandOver()
        case "close":
            step = Close(tab)
    where: dict[str, Any] = {"timeout_s": timeout, "target": target, "profile": profile}
    reply = await pages.perform(
        step,
        tab="" if action in ("tabs", "close") else tab,
        host=None if planned is None else planned.private,
        **where,
    )
    lines = [f"Open tab {t.id}: {t.url}" for t in reply.tabs if not t.current] if action == "navigate" else []
    if action == "hand_over":
        answers = await people.ask([Question(text=_request(text, reply.url))])
        if isinstance(answers, Waiting):
            return answers
        reply = await pages.perform(TakeBack(), **where)
        lines.append(f"The user answered: {answers[0]}")
    if reply.data and path:
        changes = await files.commit(await files.propose([Write(path=path, data=reply.data)]))
        lines.append(f"Saved {len(reply.data):,} bytes to {path}.")
        lines += [changes.note] if changes.note else []
    return _shown(action, reply, lines, path=path, planned=planned)


def _shown(
    action: Action, reply: BrowserReply, lines: Sequence[str], *, path: str, planned: Plan | None
) -> ToolResult:
    """Where the browser is, what happened, then what was asked for."""
    where = (
        f"{reply.title or '(no title)'} - {reply.url} (tab {reply.tab})" if reply.tab else "No tab is open."
    )
    text = "\n".join(filter(None, [where, *reply.events, *lines, reply.text]))
    data: dict[str, Any] = {
        "action": action,
        "url": reply.url,
        "title": reply.title,
        "tab": reply.tab,
        "tabs": [{"id": t.id, "url": t.url, "title": t.title, "current": t.current} for t in reply.tabs],
        "events": list(reply.events),
    }
    content: list[Block] = [Text(text)]
    if action == "evaluate":
        data["value"] = reply.value
    elif reply.text:
        data["text"] = reply.text
    if reply.data:
        data |= {"path": path, "bytes": len(reply.data), "name": reply.name, "mime_type": reply.mime_type}
    if action == "screenshot":
        data["width"], data["height"] = struct.unpack(">II", reply.data[16:24])
        content.append(Image(data=reply.data, mime_type=reply.mime_type, label=reply.name))
    return ToolResult(content=tuple(content), data=data, notes=_notes(reply, planned))


def _notes(reply: BrowserReply, planned: Plan | None) -> Notes:
    """What a page says is untrusted, also where nothing was connected to for it, or a redirect led elsewhere."""
    known: set[str] = set() if planned is None else {e.target for e in planned.effects if e.kind == "connect"}
    hosts = dict.fromkeys(filter(None, (host_of(url) for url in (reply.url, *(t.url for t in reply.tabs)))))
    unplanned = [host for host in hosts if host not in known]
    if not unplanned:
        return Notes()
    return Notes(labels=("untrusted",), extra={SOURCE: f"connect {unplanned[0]}"})


def _url(given: str) -> str:
    """An http or https address; `example.com` means https.

    Raises:
        InvalidArguments: it is none.
    """
    url = given.strip()
    head = url.partition("/")[0]
    if "://" not in url and "." in head and head.partition(":")[2].isdigit() == (":" in head):
        url = f"https://{url}"
    parsed = judge_url(url, lambda host: ())
    if not parsed.host:
        raise InvalidArguments(
            f"{given[:200]!r} cannot be opened: {parsed.reason}", hint="Give an http or https URL."
        )
    return url


def _optional(element: Element) -> Element | None:
    return element if element.ref or element.selector else None


def _needed(value: Any, action: str, name: str) -> Any:
    if not value:
        raise InvalidArguments(f"action {action} needs {name}")
    return value


def _request(text: str, url: str) -> str:
    what = text or "Please log in, or do what the page asks of you."
    return f"{what}\nThe browser shows {url}. Answer when you are done."


async def _upload(files: Files, path: str) -> UploadFile:
    return UploadFile(
        name=path.rpartition("/")[2],
        data=await files.read_bytes(path, limit=50 << 20),
        mime_type=mimetypes.guess_type(path)[0] or "application/octet-stream",
    )
