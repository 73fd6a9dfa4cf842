"""Browser: what a tool may ask of a web browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

Direction: TypeAlias = Literal["down", "up", "left", "right", "top", "bottom"]
MouseButton: TypeAlias = Literal["left", "right", "middle"]
Target: TypeAlias = Literal["host", "sandbox"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element of a page: by its `ref` in the last snapshot, else by a CSS or Playwright selector."""

    ref: str = ""
    selector: str = ""

    def __str__(self) -> str:
        return f"element {self.ref}" if self.ref else f"selector {self.selector!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFile:
    """A file for a form, whole."""

    name: str
    data: bytes
    mime_type: str = "application/octet-stream"


# -- what can be done ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Navigate:
    """Open an http or https URL, in the current tab or a new one."""

    url: str
    new_tab: bool = False


@dataclass(frozen=True, slots=True)
class Back:
    """Go back one page."""


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Describe the page, or one element, with a `ref` for each element."""

    element: Element | None = None


@dataclass(frozen=True, slots=True)
class ReadContent:
    """The visible text of the page, or of one element."""

    element: Element | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """Click an element."""

    element: Element
    button: MouseButton = "left"
    double: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeText:
    """Press the keys of a text, into an element or whatever has the focus; what is there stays."""

    text: str
    element: Element | None = None
    submit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Replace the values of form fields; a checkbox or radio button takes `true` or `false`."""

    fields: Sequence[tuple[Element, str]]
    submit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Choose options of a list, by label or value."""

    element: Element
    values: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """Press one key or combination, such as `Enter` or `Control+a`."""

    key: str
    element: Element | None = None


@dataclass(frozen=True, slots=True)
class Hover:
    """Move the mouse over an element."""

    element: Element


@dataclass(frozen=True, slots=True, kw_only=True)
class Drag:
    """Drag one element onto another."""

    source: Element
    target: Element


@dataclass(frozen=True, slots=True, kw_only=True)
class Scroll:
    """Scroll the page, or an element into view; `pixels` 0 is one screen."""

    element: Element | None = None
    direction: Direction = "down"
    pixels: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait until a text, an element or a URL is there, or is gone; with none of them, for the whole time."""

    text: str = ""
    element: Element | None = None
    url: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class SelectTab:
    """List the tabs; with an id, make that one current first."""

    tab: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Give files to a file field, or to the file chooser that an element opens."""

    element: Element
    files: Sequence[UploadFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The bytes of a download: one that has begun, by its id, or the one that a click on an element begins."""

    id: str = ""
    element: Element | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDialog:
    """Answer the open alert, confirm or prompt."""

    accept: bool = True
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadConsole:
    """Console messages, script errors and failed requests of the tab."""


@dataclass(frozen=True, slots=True)
class MakePdf:
    """The page as PDF."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screenshot:
    """The visible part, the whole page or one element as PNG."""

    element: Element | None = None
    full_page: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """Run JavaScript in the page: an expression, or a function that may take the element."""

    expression: str
    element: Element | None = None


@dataclass(frozen=True, slots=True)
class HandOver:
    """Let the person use the browser, in a window that they can see; nothing is noted meanwhile."""


@dataclass(frozen=True, slots=True)
class TakeBack:
    """End a hand-over: the agent's tab has the person's login from now on."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close one tab, or everything of the session where `tab` is empty."""

    tab: str = ""


BrowserAction: TypeAlias = (
    Navigate | Back | TakeSnapshot | ReadContent | Click | TypeText | Fill | Select | Press | Hover | Drag | Scroll
    | Wait | SelectTab | Upload | Download | AnswerDialog | ReadConsole | MakePdf | Screenshot | Evaluate | HandOver
    | TakeBack | Close
)  # fmt: skip


# -- what comes back ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One open tab."""

    id: str
    url: str
    title: str = ""
    current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the session's browser is.

    Attributes:
        url: of the current tab, empty where none is open.
        tabs: all open tabs; their titles are left out.
        opened: hosts (with a port that is not the usual one) that were navigated to on purpose.
        links: the absolute addresses of links, by `ref`, as of the last snapshot.
    """

    url: str = ""
    tabs: Sequence[Tab] = ()
    opened: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict[str, str])


NOWHERE = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserReply:
    """What an action brought.

    Attributes:
        url, title, tab: of the current tab afterwards; empty where none is open.
        text: the snapshot, content, console or tab list that was asked for; after an action that changes the page
            its snapshot, or the lines that changed since the last one.
        events: what else happened: a dialog, a new tab, a download.
        tabs: all open tabs.
        value: what evaluated JavaScript returned.
        data: bytes of a download, PDF or picture, with their name and type.
    """

    url: str
    title: str
    tab: str
    text: str = ""
    events: Sequence[str] = ()
    tabs: Sequence[Tab] = ()
    value: Any = None
    data: bytes = b""
    name: str = ""
    mime_type: str = ""


class Browser(Protocol):
    """The browser of the session that the current call runs in; cookies and tabs are the session's own."""

    async def place(self, *, target: Target | None = None, profile: str = "") -> Place:
        """Where the browser is now; starts nothing."""
        ...

    async def perform(
        self,
        action: BrowserAction,
        *,
        tab: str = "",
        timeout_s: float = 10.0,
        target: Target | None = None,
        profile: str = "",
        host: str | None = None,
    ) -> BrowserReply:
        """Do one thing. What the page requests goes only to addresses that were checked.

        Args:
            action: what to do.
            tab: id of the tab to do it in; empty = the current one.
            timeout_s: seconds to wait for the page.
            target: this machine's browser (`host`) or the remote one (`sandbox`); None = the one that the session
                uses already, else the configured one.
            profile: name of a profile whose logins are kept beyond the session; empty = none.
            host: where the tab must still be, as rules name hosts; None = anywhere.

        Raises:
            Unavailable: no browser is installed, it has crashed, or the server cannot be reached.
            PermissionDenied: the address is not public, or a rule denies its host.
            NotFound: no such tab, download or element; a ref of an older snapshot.
            NotUnique: the selector fits several elements.
            Conflict: an open dialog has to be answered first, no dialog is open, or the tab is not at `host`.
            TimedOut: the page did not do it in time; the message says what it waited for.
        """
        ...
