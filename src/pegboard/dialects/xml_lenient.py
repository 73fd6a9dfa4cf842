"""004's call in XML: the exact form, and what models make of it (ledger A-31..A-41, U-10, U-11, 2.2).

Every deviation that has one meaning is read and noted as a repair; text that ends inside a call is
an error, never completed; a document type is refused.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from pegboard.dialects.literals import LiteralError, TruncatedLiteral, read_literal, skip_space
from pegboard.dialects.text_calls import KnownTools, RawCall
from pegboard.dialects.xml_elements import OPEN, Element, read_element, unescape

CALL: Final = "<tool_call>"
CALL_END: Final = "</tool_call>"
_NAME = re.compile(
    r"<(?:name|tool_name)>\s*(?:<!\[CDATA\[)?\s*([^\s<>\]]+)\s*(?:\]\]>)?\s*(</(?:name|tool_name)>)?"
)
_NAME_EQUALS = re.compile(r"<name\s*=\s*[\"']?([^\s<>\"'/]+)[\"']?\s*(?:/?>)?\s*(?:</name>)?")
_PARAMS = re.compile(
    r"<(/?)(params|parameters|arguments|args|tool_(?:params|parameters|arguments|args|input))(?:\s[^<>]{0,200}?)?(/?)>"
)
_CONTAINERS: Final = frozenset({"params", "parameters", "arguments"})
_ATTRIBUTE = re.compile(r"([\w:-]++)\s*+=\s*+(?:\"([^\"<]*+)\"|'([^'<]*+)')")
_UNFINISHED = re.compile(r"(?:<(?:name|tool_name)>\s*)?(?:<[^<>]*)?\Z")
_STRAY = re.compile(r"</(?!tool_call>)[\w.:-]+>")


def read_xml_call(text: str, pos: int, tools: KnownTools) -> tuple[RawCall, int]:
    """The call behind `<tool_call>`, and the position behind its end.

    Raises:
        CutOff: the text ends inside the call.
        Unreadable: this is no call in this form.
    """
    reader = _Reader(text, tools)
    pos = reader.body(skip_space(text, pos))
    return RawCall(reader.name, reader.values()), pos


def read_tool_tag(text: str, opened: re.Match[str], tools: KnownTools) -> tuple[RawCall, int]:
    """`<read><path>…</path></read>`, `<read path="…"/>`: a known tool's name as the element itself.

    Raises:
        CutOff: the text ends inside the call.
        Unreadable: the element holds anything but elements.
    """
    if given := _ATTRIBUTE.findall(opened[2]):
        return _in_attributes(text, opened, given, tools)
    element, pos = read_element(text, opened, tools.work)
    inside = element.children
    if len(inside) == 1 and inside[0].tag in ("params", "parameters") and inside[0].children:
        inside = inside[0].children
    if not inside:
        raise LiteralError(pos)
    tools.work.repairs.append(f"the call of {element.tag} stood in a tag of its own name")
    reader = _Reader(text, tools)
    reader.name, reader.elements = element.tag, inside
    return RawCall(element.tag, reader.values()), pos


def _in_attributes(
    text: str, opened: re.Match[str], given: list[tuple[str, str, str]], tools: KnownTools
) -> tuple[RawCall, int]:
    """The arguments as attributes of an empty element."""
    name, pos = opened[1], opened.end()
    if not opened[3]:
        close = f"</{name}>"
        pos = skip_space(text, pos)
        if not text.startswith(close, pos):
            raise LiteralError(pos)
        pos += len(close)
    if not tools.names(name) >= {key for key, _, _ in given}:
        raise LiteralError(pos)
    tools.work.repairs.append(f"the arguments of {name} stood in its tag")
    return RawCall(name, {key: tools.value(name, key, unescape(a or b)) for key, a, b in given}), pos


class _Reader:
    def __init__(self, text: str, tools: KnownTools) -> None:
        self.text = text
        self.tools = tools
        self.work = tools.work
        self.name = ""
        self.elements: list[Element] = []
        self.given: dict[str, Any] = {}
        self.containers = 0
        self.inside = False

    def body(self, pos: int) -> int:
        """Read up to the end of the call."""
        text = self.text
        while True:
            pos = skip_space(text, pos)
            if pos >= len(text) or (len(text) < pos + 300 and _UNFINISHED.match(text, pos)):
                raise TruncatedLiteral(len(text))
            if text.startswith(CALL_END, pos):
                return self._ended(pos + len(CALL_END))
            if text.startswith("<!--", pos):
                pos = self._comment(pos)
                continue
            if text.startswith("<!", pos):
                raise LiteralError(pos)
            if self.inside and text.startswith("{", pos):
                pos = self._object(pos)
                continue
            step = self._name(pos) or self._container(pos) or self._element(pos) or self._stray(pos)
            if step is None:
                if self.name and self.containers and not self.inside:
                    self._repair("</tool_call> was missing")
                    return pos
                raise LiteralError(pos)
            pos = step

    def values(self) -> dict[str, Any]:
        """The arguments; a parameter given several times is a list (ledger case xml-18)."""
        found: dict[str, list[Any]] = {}
        for element in self.elements:
            key = self.tools.key(self.name, element)
            if key != element.key:
                self._repair(f"<{element.key}> was read as <{key}>")
            earlier = [self.given[key]] if key in self.given else []
            found.setdefault(key, earlier).append(self.tools.element(self.name, key, element))
        one_or_many = {
            key: values if len(values) > 1 else self.tools.wrap_single(self.name, key, values[0])
            for key, values in found.items()
        }
        return {**self.given, **one_or_many}

    def _comment(self, pos: int) -> int:
        """Behind `<!-- … -->`, which says nothing (XML 1.0 §2.5)."""
        end = self.text.find("-->", pos + 4)
        if end < 0:
            raise TruncatedLiteral(len(self.text))
        return end + 3

    def _object(self, pos: int) -> int:
        """The parameters as one JSON object in `<params>`."""
        value, end = read_literal(self.text, pos)
        self._repair("the parameters stood in <params> as JSON")
        self.given.update(cast("dict[str, Any]", value))
        return end

    def _ended(self, pos: int) -> int:
        if not self.name:
            raise LiteralError(pos)
        if self.inside:
            self._repair("</params> was missing")
        return pos

    def _name(self, pos: int) -> int | None:
        if self.name:
            return None
        if match := _NAME.match(self.text, pos):
            if match.end() >= len(self.text):
                raise TruncatedLiteral(match.end())
            if not match[2]:
                self._repair("the closing tag of <name> was missing")
        elif match := _NAME_EQUALS.match(self.text, pos):
            self._repair("the name stood in its tag: <name=…>")
        else:
            return None
        self.name = unescape(match[1])
        return match.end()

    def _container(self, pos: int) -> int | None:
        match = _PARAMS.match(self.text, pos)
        # Inside <params> the same word is a parameter of that name.
        if match is None or (self.inside and not match[1]):
            return None
        if match[2] not in _CONTAINERS and (not self.tools.knows(self.name) or self._takes(match[2])):
            return None
        if match[2] != "params" and not match[1]:
            self._repair(f"<params> was written <{match[2]}>")
        self.inside = not (match[1] or match[3])
        self.containers += not match[1]
        if self.inside and self.containers == 2:
            self._repair("there were several <params>")
        return match.end()

    def _takes(self, word: str) -> bool:
        """Whether a parameter of the tool has this name."""
        return word in self.tools.names(self.name)

    def _element(self, pos: int) -> int | None:
        opened = OPEN.match(self.text, pos)
        if opened is None:
            return None
        if not self.name and not self.inside:
            return self._tool_tag(opened)
        element, end = read_element(self.text, opened, self.work)
        if not self.inside and not self.containers:
            self._repair(f"<{element.tag}> stood outside <params>")
        elif not self.inside:
            self._repair(f"<{element.tag}> stood behind </params>")
        self.elements.append(element)
        return end

    def _tool_tag(self, opened: re.Match[str]) -> int | None:
        """The tool's name used as a tag around its parameters."""
        tag = opened[1]
        if tag in ("tool_call", "function", "invoke", "arg_key", "name", "tool_name") or opened[3]:
            return None
        if self.tools.schemas is not None and not self.tools.knows(tag):
            return None
        self.name = tag
        self._repair(f"the tool's name {tag} was used as a tag")
        return opened.end()

    def _stray(self, pos: int) -> int | None:
        """A closing tag that nothing opened."""
        match = _STRAY.match(self.text, pos)
        if match is None or not self.name:
            return None
        if match[0] != f"</{self.name}>":
            self._repair(f"{match[0]} closed nothing")
        return match.end()

    def _repair(self, what: str) -> None:
        self.work.repairs.append(what)
