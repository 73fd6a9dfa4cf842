"""What stands behind a mark: the grammars that vendors share.

Each reader takes the scan and the position behind the mark, and gives the calls with the position
behind them. `CutOff` means that the text ended inside a call, `Unreadable` that it is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from pegboard.core.schema.json_schema import types_of
from pegboard.dialects.literals import (
    DuplicateKeyDict,
    LiteralError,
    TruncatedLiteral,
    as_written,
    holds_duplicate_keys,
    joined,
    read_call,
    read_json,
    read_literal,
    skip_space,
)
from pegboard.dialects.text_markers import BETWEEN, TAG_OPEN
from pegboard.dialects.values import element_value, guessed, property_schema, typed
from pegboard.dialects.wire import as_dict
from pegboard.dialects.xml_elements import OPEN, Element, ParseBudget, read_element, unescape

NAME_KEYS = ("name", "tool_name", "function", "tool", "function_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input")

XML_END = "</tool_call>"
_NAME = re.compile(r"[^\W\d][\w.:/-]*")
_FENCE = re.compile(r"```(?:json|python|tool_code|tool_call)?[ \t]*\n?")
_CALL_ID = re.compile(r"\[CALL_ID\]\w*")
_ACTION_INPUT = re.compile(r"[ \t]*\n[ \t]*\**Action[ _]Input:\**")
_SEVERAL = re.compile(r"^\s*\[|[,\n]")
_INDEXED = re.compile(r"functions\.(.+?):\d+")
_ARG_KEY = re.compile(r"<arg_key>([^<]*+)</arg_key>\s*+<arg_value>")
_ARG_END = re.compile(r"</arg_value>(?=\s*(?:<arg_key>|</tool_call>|$))")
_NAME_ELEMENT = re.compile(
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


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as read: its name and arguments."""

    name: str
    arguments: dict[str, Any]

    @property
    def sent(self) -> dict[str, Any] | str:
        """What the call is made with: JSON text where a key stands twice in it, which is refused."""
        return as_written(self.arguments) if holds_duplicate_keys(self.arguments) else self.arguments


@dataclass(slots=True)
class KnownTools:
    """What is known of the tools while one text is read.

    Attributes:
        schemas: by tool name; None where nothing is known.
        guess: types a bare text for which there is no schema.
        work: how much failing look-ahead the text may still cost, and the repairs so far.
    """

    schemas: Mapping[str, Mapping[str, Any]] | None = None
    guess: Callable[[str], Any] = guessed
    work: ParseBudget = field(default_factory=lambda: ParseBudget(100_000))

    def knows(self, name: str) -> bool:
        """Whether a tool of this name is surely there."""
        return self.schemas is not None and name in self.schemas

    def names(self, tool: str) -> set[str]:
        """The parameters of a tool that is known."""
        return set(as_dict((self.schemas or {}).get(tool, {}).get("properties")))

    def value(self, tool: str, parameter: str, text: str) -> Any:
        """A bare text typed by the tool's schema; by its looks where there is none."""
        schema = None if self.schemas is None else self.schemas.get(tool)
        if schema is None:
            return self.guess(text)
        sub = property_schema(schema, parameter)
        return text if sub is None else typed(text, sub, schema)

    def key(self, tool: str, element: Element) -> str:
        """The parameter that an element gives: where only its case is another, the tool's own spelling."""
        schema = None if self.schemas is None else self.schemas.get(tool)
        known = as_dict(None if schema is None else schema.get("properties"))
        if element.key in known:
            return element.key
        same = [name for name in known if name.casefold() == element.key.casefold()]
        return same[0] if len(same) == 1 else element.key

    def element(self, tool: str, key: str, element: Element) -> Any:
        """A parameter's element typed by the tool's schema."""
        schema = None if self.schemas is None else self.schemas.get(tool)
        sub = None if schema is None else property_schema(schema, key)
        if schema is not None and sub is None:
            return element.text
        return element_value(element, sub, schema, self.guess)

    def wrap_single(self, tool: str, key: str, value: Any) -> Any:
        """A parameter given once: a list of one where the tool's schema has a list: repeated elements are one.

        Nothing is no element. Text that may be meant as several stays, and the validator says what it must be.
        """
        schema = (self.schemas or {}).get(tool, {})
        sub = property_schema(schema, key)
        kinds = None if sub is None else types_of(sub, schema)
        if kinds is None or not kinds <= {"array", "null"} or not isinstance(value, str | int | float | dict):
            return value
        if isinstance(value, str) and _SEVERAL.search(value):
            return value
        return [value] if value != "" else []


def calls_of(value: Any, tools: KnownTools, *, marked: bool) -> list[RawCall]:
    """The calls that a JSON value means; none where it is not shaped as calls.

    Args:
        value: an object or a list of objects.
        tools: what is known.
        marked: whether a mark announced a call. If not, the object must have both name and
            arguments, nothing foreign, and a known name where tools are known.

    Raises:
        Unreadable: announced, but no call.
    """
    found = _calls(value, tools, marked)
    if found is None:
        raise LiteralError(0)
    return found


def read_body(text: str, pos: int, tools: KnownTools, closers: tuple[str, ...]) -> tuple[list[RawCall], int]:
    """The calls behind a mark, whatever grammar they are in."""
    pos = _fence(text, skip_space(text, pos))
    if pos >= len(text):
        raise TruncatedLiteral(pos)
    if text[pos] in "{[":
        return _behind(text, _listed(text, pos, tools), closers)
    if (tag := TAG_OPEN.match(text, pos)) is not None:
        return _behind(text, read_tags(text, tag, tools), closers)
    if text.startswith("call:", pos):
        pos += 5
    name = _NAME.match(text, pos)
    if name is None:
        if text[pos] == "<" and XML_END in closers:
            call, end = read_xml_call(text, pos, tools)
            return [call], end
        raise LiteralError(pos)
    return _behind(text, _named(text, name, tools, closers), closers)


def read_tags(text: str, tag: re.Match[str], tools: KnownTools) -> tuple[list[RawCall], int]:
    """`<function=n><parameter=k>v</parameter></function>` and its relatives, from its opening tag on."""
    prefix = tag["prefix"] or ""
    name = tag_name(tag)
    start = tag.start() + 1 + len(prefix)
    kind = "function" if text[start : start + 8].lower() == "function" else "invoke"
    close, open_form, end_form = _forms_of_tags(prefix, kind)
    pos = skip_space(text, tag.end())
    if text.startswith("{", pos):
        value, pos = read_literal(text, pos)
        pos = skip_space(text, pos)
        ended = close.match(text, pos)
        return [RawCall(name, value)], ended.end() if ended else pos
    arguments: list[tuple[str, Any]] = []
    while (ended := close.match(text, pos)) is None:
        opened = open_form.match(text, pos)
        if opened is None:
            if pos >= len(text) or (text[pos] == "<" and ">" not in text[pos : pos + 200]):
                raise TruncatedLiteral(len(text))
            raise LiteralError(pos)
        key = opened["k1"] or opened["k2"]
        value, pos = _tag_value(text, opened, end_form)
        # DeepSeek says beside each value whether it is a string.
        arguments.append((key, value if opened["string"] == "true" else tools.value(name, key, value)))
        pos = skip_space(text, pos)
    return [RawCall(name, joined(arguments))], ended.end()


def tag_name(tag: re.Match[str]) -> str:
    """The tool that an opening tag names."""
    return (tag["n1"] or tag["n2"]).strip().strip("\"'")


@lru_cache(maxsize=16)
def _forms_of_tags(prefix: str, kind: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """How the call ends, and how its parameters begin and end; in either case."""
    p = re.escape(prefix)
    close = rf"</{p}{kind}>"
    opened = (
        rf"<{p}(?:parameter=(?P<k1>[^<>\s]{{1,200}}+)\s*+"
        rf"|param(?:eter)?\s++name\s*+=\s*+[\"'](?P<k2>[^\"'<>]{{0,200}}+)[\"']"
        rf"(?:\s+string=\"(?P<string>true|false)\")?[^<>]{{0,200}}+)>"
    )
    structure = rf"\s*(?:<{p}parameter=|<{p}param(?:eter)?\s+name|{close})"
    # A closing tag counts only where the structure goes on behind it: values may hold one in prose.
    ended = rf"</{p}param(?:eter)?>(?={structure})|(?=<{p}parameter=|{close})"
    closes, opens, ends = (re.compile(form, re.IGNORECASE) for form in (close, opened, ended))
    return closes, opens, ends


def _tag_value(text: str, opened: re.Match[str], end_form: re.Pattern[str]) -> tuple[str, int]:
    start = opened.end()
    if text.startswith("<![CDATA[", start):
        close = text.find("]]>", start)
        ended = None if close < 0 else end_form.match(text, skip_space(text, close + 3))
        if ended is not None:
            return text[start + 9 : close], ended.end()
    ended = end_form.search(text, start)
    if ended is None:
        raise TruncatedLiteral(len(text))
    value = text[start : ended.start()]
    if value.startswith("\n"):
        # Qwen's template puts the value on lines of its own.
        value = value[1:].removesuffix("\n")
    return value, ended.end()


def _listed(text: str, pos: int, tools: KnownTools) -> tuple[list[RawCall], int]:
    """JSON values one after the other, or calls in Python's form in brackets."""
    if text[pos] == "[" and _NAME.match(text, skip_space(text, pos + 1)):
        return read_python(text, pos, tools)
    calls: list[RawCall] = []
    while True:
        value, pos = read_literal(text, pos)
        calls += calls_of(value, tools, marked=True)
        ahead = skip_space(text, pos)
        if text[ahead : ahead + 1] in (";", ","):
            ahead = skip_space(text, ahead + 1)
        if text[ahead : ahead + 1] != "{":
            return calls, pos
        pos = ahead


def read_python(text: str, pos: int, tools: KnownTools) -> tuple[list[RawCall], int]:
    """`[f(a=1), g(b="x")]`, or calls one a line without brackets."""
    bracket = text[pos] == "["
    pos += bracket
    calls: list[RawCall] = []
    while True:
        pos = skip_space(text, pos)
        if bracket and text.startswith("]", pos):
            return calls, pos + 1
        name = _NAME.match(text, pos)
        if name is None or not text.startswith("(", name.end()):
            if bracket and (pos >= len(text) or (name and name.end() == len(text))):
                raise TruncatedLiteral(len(text))
            if bracket or not calls:
                raise LiteralError(pos)
            return calls, pos
        own = name[0]
        if own == "print" and not tools.knows(own) and _NAME.match(text, skip_space(text, name.end() + 1)):
            # Gemini's models print what a tool returns.
            inner, pos = read_python(text, name.end() + 1, tools)
            if not text.startswith(")", pos := skip_space(text, pos)):
                raise TruncatedLiteral(pos) if pos >= len(text) else LiteralError(pos)
            calls += inner
            pos += 1
        else:
            arguments, pos = read_call(text, name.end() + 1)
            calls.append(RawCall(_own_name(own, tools), arguments))
        if text.startswith(",", ahead := skip_space(text, pos)):
            pos = ahead + 1


def _own_name(name: str, tools: KnownTools) -> str:
    """A tool's name without what stands for all tools around it, where it is none with that."""
    if tools.knows(name):
        return name
    return name.removesuffix(".call").removeprefix("default_api.").removeprefix("functions.")


def _named(
    text: str, name: re.Match[str], tools: KnownTools, closers: tuple[str, ...]
) -> tuple[list[RawCall], int]:
    """A name, then its arguments: in brackets, as JSON, or as pairs of tags."""
    own, pos = name[0], name.end()
    if text.startswith("(", pos):
        return read_python(text, name.start(), tools)
    if match := _CALL_ID.match(text, pos):
        pos = match.end()
    if match := _ACTION_INPUT.match(text, pos):
        pos = match.end()
    for word in BETWEEN:
        if text[pos : pos + len(word)].lower() == word.lower():
            pos += len(word)
            if own == "function" and not text.startswith("{", skip_space(text, pos)):
                return read_body(text, pos, tools, closers)
            break
    pos = _fence(text, skip_space(text, pos))
    if text.startswith("{", pos):
        value, pos = read_literal(text, pos)
        indexed = _INDEXED.fullmatch(own)
        return [RawCall(indexed[1] if indexed else own, value)], pos
    if text.startswith("<arg_key>", pos):
        return _pairs(text, pos, own, tools)
    if any(text.startswith(close, pos) for close in closers):
        return [RawCall(own, {})], pos
    if pos >= len(text) or any(close.startswith(text[pos:]) for close in closers):
        raise TruncatedLiteral(len(text))
    raise LiteralError(pos)


def _pairs(text: str, pos: int, name: str, tools: KnownTools) -> tuple[list[RawCall], int]:
    """GLM's `<arg_key>k</arg_key><arg_value>v</arg_value>`."""
    arguments: list[tuple[str, Any]] = []
    while text.startswith("<arg_key>", pos):
        key = _ARG_KEY.match(text, pos)
        ended = _ARG_END.search(text, key.end()) if key else None
        if key is None or ended is None:
            raise TruncatedLiteral(len(text))
        parameter = key[1].strip()
        arguments.append((parameter, tools.value(name, parameter, text[key.end() : ended.start()])))
        pos = skip_space(text, ended.end())
    if not text.startswith("</tool_call>", pos):
        raise TruncatedLiteral(len(text))
    return [RawCall(name, joined(arguments))], pos


def _behind(
    text: str, found: tuple[list[RawCall], int], closers: tuple[str, ...]
) -> tuple[list[RawCall], int]:
    calls, pos = found
    ahead = skip_space(text, pos)
    if text.startswith("```", ahead):
        pos, ahead = ahead + 3, skip_space(text, ahead + 3)
    for close in closers:
        if text.startswith(close, ahead):
            return calls, ahead + len(close)
    return calls, pos


def _fence(text: str, pos: int) -> int:
    match = _FENCE.match(text, pos)
    return skip_space(text, match.end()) if match else pos


def _calls(value: Any, tools: KnownTools, marked: bool) -> list[RawCall] | None:
    if isinstance(value, list):
        out: list[RawCall] = []
        for item in cast("list[Any]", value):
            found = _calls(item, tools, marked) if isinstance(item, dict) else None
            if found is None:
                return None
            out += found
        return out if out or marked else None
    if not isinstance(value, dict):
        return None
    body = cast("dict[str, Any]", value)
    for key in ("tool_calls", "tool_call"):
        if key in body and not isinstance(body[key], str):
            return _calls(body[key], tools, marked)
    if isinstance(body.get("function"), dict):
        body = cast("dict[str, Any]", body["function"])
    call = _one(body, tools, marked)
    return None if call is None else [call]


def _one(body: dict[str, Any], tools: KnownTools, marked: bool) -> RawCall | None:
    if isinstance(body, DuplicateKeyDict):
        return None
    name = next((body[k] for k in NAME_KEYS if isinstance(body.get(k), str)), None)
    key = next((k for k in ARGUMENT_KEYS if k in body), None)
    if name is None:
        return _keyed(body, tools, marked)
    if not marked:
        strange = set(body).difference(NAME_KEYS, ARGUMENT_KEYS, ("id", "type", "tool_call_id"))
        if key is None or strange or (tools.schemas is not None and not tools.knows(name)):
            return None
    arguments = _arguments(body[key] if key else None)
    return None if arguments is None or not name else RawCall(name, arguments)


def _keyed(body: dict[str, Any], tools: KnownTools, marked: bool) -> RawCall | None:
    """`{"name": {…}}`: the tool's name as the only key."""
    if len(body) != 1:
        return None
    name, arguments = next(iter(body.items()))
    if not isinstance(arguments, dict) or not (tools.knows(name) or (marked and tools.schemas is None)):
        return None
    return RawCall(name, cast("dict[str, Any]", arguments))


def _arguments(value: Any) -> dict[str, Any] | None:
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = read_json(value)
        except ValueError:
            return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def read_xml_call(text: str, pos: int, tools: KnownTools) -> tuple[RawCall, int]:
    """The call behind `<tool_call>`, and the position behind its end.

    Raises:
        CutOff: the text ends inside the call.
        Unreadable: this is no call in this form.
    """
    reader = _XMLCall(text, tools)
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
    reader = _XMLCall(text, tools)
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


class _XMLCall:
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
            if text.startswith(XML_END, pos):
                return self._ended(pos + len(XML_END))
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
        """The arguments; a parameter given several times is a list."""
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
        if match := _NAME_ELEMENT.match(self.text, pos):
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
