"""What a person sees of a page: everything else is removed before a model reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_NEVER_SEEN: Final = frozenset({
    "script", "style", "template", "noscript", "noframes", "svg", "math-script", "object", "embed", "iframe", "canvas", "audio", "video",
})  # fmt: skip
"""Elements whose content is not text of the page."""

_SVG_UNDRAWN: Final = ("defs", "symbol", "clippath", "mask", "pattern", "marker")
"""What only other elements of a drawing use."""
_NO_SIZE: Final = r"0(?:\.0*)?(?:[a-z%]*)"
_FAR: Final = r"-\d{3,}(?:\.\d+)?(?:px|em|rem|pt|vw|vh|%|ch)?"
_HIDING: Final = {
    "display": r"none",
    "visibility": r"hidden|collapse",
    "content-visibility": r"hidden",
    "opacity": r"0?\.?0*[0-4]?%?|0\.0\d*",
    "font-size": rf"{_NO_SIZE}|[01](?:\.\d+)?px",
    "zoom": r"0(?:\.0*)?%?",
    "color": r"transparent|(?:rgba|hsla)\(.*,\s*0(?:\.0*)?\s*\)",
    "-webkit-text-fill-color": r"transparent",
    "transform": r".*scale(?:3d|x|y)?\(\s*0(?:\.0*)?\s*[,)].*",
    "text-indent": _FAR,
    "clip-path": r"inset\(\s*(?:50|100)%.*|circle\(\s*0.*|polygon\(\s*0\s+0\s*\)",
    "clip": r"rect\(\s*(?:0|1px)[\s,].*",
}
"""Values by which one declaration alone takes a text out of sight, whole."""
_HIDING_RULES: Final = {name: re.compile(rf"(?:{rule})\Z", re.IGNORECASE) for name, rule in _HIDING.items()}
_TINY: Final = re.compile(r"(?:0(?:\.0*)?[a-z%]*|1px)\Z")
_OFF: Final = re.compile(rf"{_FAR}\Z")

_AT_RULE: Final = re.compile(r"@[^{};]*(?:;|\{(?:[^{}]|\{[^{}]*\})*\})")
_ALWAYS: Final = re.compile(
    r"@(?:layer\b[^{};]*|supports\b(?!\s*not)[^{};]*|media\s+(?:only\s+)?(?:all|screen)\s*)\{((?:[^{}]|\{[^{}]*\})*)\}",
    re.IGNORECASE,
)
"""At-rules whose rules hold for whoever reads the page at a screen."""
_RULE: Final = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_SELECTOR: Final = re.compile(
    r"(?P<tag>[a-z][a-z0-9]*|\*)?(?P<rest>(?:[.#][A-Za-z_][\w-]*)*)\Z", re.IGNORECASE
)
_SHEET_MOST: Final = 500_000


def remove_unseen(tree: Any) -> None:
    """Remove from a page's tree, in place, what a person would not see.

    Hidden by an attribute, by its own style, or by a rule of the page's own style sheets that names a tag, class or id.
    A text for screen readers stays, and so does what a click would unfold. A body that is hidden is one that a script
    shows, so it stays too, and of a component what its own tree shows.
    """
    sheets = _Sheets(tree)
    for component in list(tree.iter("template")):
        if component.get("shadowrootmode"):  # Declarative shadow DOM (WHATWG HTML §4.12.3).
            component.tag = "div"
    # Collected first: a list of all elements would take more memory than the tree.
    unseen = [e for e in tree.iter(tag="*") if e is not tree and e.tag != "body" and _unseen(e, sheets)]
    for element in unseen:
        if element.getparent() is not None:
            element.drop_tree()


def drawn_words(tree: Any) -> str:
    """The texts of a page's SVG drawings, one paragraph each; not their titles, which explain the parts to some."""
    if next(tree.iter("svg"), None) is None:
        return ""
    sheets = _Sheets(tree)

    def seen(one: Any) -> bool:
        return not any(e.tag in _SVG_UNDRAWN or _hidden(e, sheets) for e in (one, *one.iterancestors()))

    drawings = (
        " ".join(" ".join(one.text_content().split()) for one in drawing.iter("text") if seen(one))
        for drawing in tree.iter("svg")
    )
    return "\n\n".join(filter(None, drawings))


def _unseen(element: Any, sheets: _Sheets) -> bool:
    return element.tag.lower() in _NEVER_SEEN or _hidden(element, sheets)


def _hidden(element: Any, sheets: _Sheets) -> bool:
    tag = element.tag.lower()
    if element.get("hidden") is not None:
        return element.get("hidden") != "until-found"
    if tag == "input":
        return True  # What stands in a field is no text of the page; a hidden one is not seen at all.
    if tag == "dialog" and element.get("open") is None:
        return True
    style = element.get("style")
    if style:
        own = dict(_declarations(style))
        if hides(own):
            return True
        if "display" in own or "visibility" in own:
            return False  # An own style is stronger than a sheet.
    return sheets.hide(element)


def hides(style: dict[str, str]) -> bool:
    """Whether some declarations, property to value in lower case, take a text out of sight."""
    for name, value in style.items():
        rule = _HIDING_RULES.get(name)
        if rule is not None and rule.match(value):
            return True
    clipped = style.get("overflow", style.get("overflow-y", "")) in ("hidden", "clip")
    if clipped and any(
        _TINY.match(style.get(name, "")) for name in ("width", "height", "max-width", "max-height")
    ):
        return True
    moved = style.get("position") in ("absolute", "fixed", "relative")
    if moved and any(
        _OFF.match(style.get(name, "")) for name in ("left", "top", "right", "bottom", "margin-left")
    ):
        return True
    behind = style.get("background-color", style.get("background", ""))
    return bool(behind) and style.get("color", "") == behind


class _Sheets:
    """The rules of a page's own style sheets that hide or show a tag, a class or an id."""

    def __init__(self, tree: Any) -> None:
        self._rules: list[tuple[str, frozenset[str], str, bool]] = []
        text = "\n".join(str(style.text_content()) for style in tree.iter("style"))[:_SHEET_MOST]
        # Rules for print or for narrow windows say nothing about what is seen here.
        plain = _AT_RULE.sub("", _ALWAYS.sub(r"\1", _COMMENT.sub("", text)))
        for selectors, body in _RULE.findall(plain):
            style = dict(_declarations(body))
            hidden = _hides_in_sheet(style)
            if hidden or "display" in style or "visibility" in style:
                self._rules += [(*selector, hidden) for selector in _simple(selectors.split(","))]

    def hide(self, element: Any) -> bool:
        """Whether the rules that apply hide it; the most particular, then the last, decides."""
        if not self._rules:
            return False
        classes = frozenset((element.get("class") or "").split())
        best, hidden = (-1, -1), False
        for number, (tag, wanted, id, hiding) in enumerate(self._rules):
            if tag not in ("", element.tag) or not wanted <= classes or (id and id != element.get("id")):
                continue
            weight = (100 * bool(id) + 10 * len(wanted) + bool(tag), number)
            if weight > best:
                best, hidden = weight, hiding
        return hidden


def _hides_in_sheet(style: dict[str, str]) -> bool:
    """As `hides`, without the ways by which sheets keep a text for screen readers."""
    return hides(
        {name: style[name] for name in ("display", "visibility", "opacity", "font-size") if name in style}
    )


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    for part in _COMMENT.sub("", style).split(";"):
        name, colon, value = part.partition(":")
        if colon:
            yield name.strip().lower(), " ".join(value.replace("!important", "").split()).lower()


def _simple(selectors: Iterable[str]) -> Iterator[tuple[str, frozenset[str], str]]:
    """Tag, classes and id of each selector that has nothing else."""
    for selector in selectors:
        found = _SELECTOR.match(selector.strip())
        if found is None or not selector.strip():
            continue
        parts = re.findall(r"[.#][A-Za-z_][\w-]*", found["rest"])
        ids = [part[1:] for part in parts if part.startswith("#")]
        if len(ids) > 1:
            continue
        tag = (found["tag"] or "").lower()
        yield "" if tag == "*" else tag, frozenset(p[1:] for p in parts if p.startswith(".")), "".join(ids)
