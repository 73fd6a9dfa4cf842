"""The marks by which text models announce calls, reasoning and turns: the table of dialect `text`.

A new vendor format is a line here, as long as what stands behind its mark is one of the grammars of
`text_calls`: JSON, a name with JSON, tags, keyword arguments.
"""

from __future__ import annotations

import re
from typing import Final

CALLS: Final[dict[str, tuple[str, ...]]] = {
    # mark: what may close it
    "<tool_call>": ("</tool_call>",),
    "<|tool_call|>": ("<|/tool_call|>", "<|end_tool_call|>"),
    "<|tool_call>": ("<tool_call|>",),
    "<|tool_calls|>": ("<|/tool_calls|>",),
    "<tool_calls>": ("</tool_calls>",),
    "<TOOLCALL>": ("</TOOLCALL>",),
    "<longcat_tool_call>": ("</longcat_tool_call>",),
    "<seed:tool_call>": ("</seed:tool_call>",),
    "<minimax:tool_call>": ("</minimax:tool_call>",),
    "<function_call>": ("</function_call>",),
    "<function_calls>": ("</function_calls>",),
    "<start_function_call>": ("<end_function_call>",),
    "<|tools_prefix|>": ("<|tools_suffix|>",),
    "<|function_call|>": ("<|function_call_end|>",),
    "<|message_sep|>\n\nfunction call<|role_sep|>\n": ("<|message_sep|>",),
    "<|START_ACTION|>": ("<|END_ACTION|>",),
    "<|action_start|><|plugin|>": ("<|action_end|>",),
    "<|python_tag|>": ("<|eom_id|>", "<|eot_id|>"),
    "<|python_start|>": ("<|python_end|>",),
    "<|tool_call_start|>": ("<|tool_call_end|>",),
    "<|tool_call_begin|>": ("<|tool_call_end|>",),
    "<｜tool▁call▁begin｜>": ("<｜tool▁call▁end｜>",),
    "<｜tool_call_begin｜>": ("<｜tool_call_end｜>",),
    "<|tool▁call▁begin|>": ("<|tool▁call▁end|>",),
    "<tool_code>": ("</tool_code>",),
    "[TOOL_CALLS]": ("[/TOOL_CALLS]",),
    "[TOOL_CALL]": ("[/TOOL_CALL]", "[END_TOOL_CALL]"),
    "[TOOL_REQUEST]": ("[END_TOOL_REQUEST]",),
}

BETWEEN: Final = (
    "[ARGS]",
    "<|tool_call_argument_begin|>",
    "<｜tool▁sep｜>",
    "<｜tool_sep｜>",
    "<|tool▁sep|>",
)
"""What stands between a name and its arguments."""

THINKING: Final[dict[str, str]] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
THINKING_ENDS: Final = ("[BEGIN FINAL RESPONSE]",)
"""Ends of reasoning that have no beginning."""

NOISE: Final = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool_calls_begin｜>",
    "<｜tool_calls_end｜>",
    "<|tool▁calls▁begin|>",
    "<|tool▁calls▁end|>",
    "<｜tool_sep｜>",
    "<｜DSML｜function_calls>",
    "</｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>",
    "</｜DSML｜tool_calls>",
    "<｜end▁of▁sentence｜>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|CHATBOT_TOKEN|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|role_end|>",
    "<|channel>",
    "<end_of_turn>",
    "<turn|>",
)
"""Tokens of chat templates: never part of an answer."""

RESULTS: Final[dict[str, str]] = {
    "<tool_result>": "</tool_result>",
    "<tool_response>": "</tool_response>",
    "<tool_results>": "</tool_results>",
    "<tool_output>": "</tool_output>",
    "<function_result>": "</function_result>",
    "<function_results>": "</function_results>",
    "<function_response>": "</function_response>",
    "[TOOL_RESULTS]": "[/TOOL_RESULTS]",
}
"""Results of tools: whatever stands in them is no call, even if a model writes them."""

LOOSE: Final = re.compile(
    r"<\s{0,3}+(?:[A-Za-z][\w.-]{0,40}+:)?(?P<word>(?i:tool[_-]?call|function[_-]?call|tool[_-]?use))"
    r"(?P<attributes>\s[^<>]{0,400}?)?(?P<self>/?)>"
)
"""A mark that is nearly `<tool_call>`."""


def _in_other_cases() -> None:
    """The same marks in small, in capital letters and with capitals: models have read them in all three."""
    for change in (str.lower, str.upper, str.title):
        for mark, closes in list(CALLS.items()):
            if mark.isascii() and not LOOSE.match(change(mark)):
                CALLS.setdefault(change(mark), (*closes, *map(change, closes)))
        for table in (THINKING, RESULTS):
            for mark, close in list(table.items()):
                if mark.isascii():
                    table.setdefault(change(mark), change(close))


_in_other_cases()

CLOSERS: Final = tuple(dict.fromkeys(close for closes in CALLS.values() for close in closes))

TAG_OPEN: Final = re.compile(
    r"<(?P<prefix>[｜|]DSML[｜|]|[A-Za-z][\w.-]{0,40}+:)?"
    r"(?:(?i:function)=(?P<n1>[^<>\s]{1,200}+)[^<>]{0,200}+"
    r"|(?i:function|invoke)\s{1,9}+(?i:name)\s{0,9}+=\s{0,9}+[\"']?(?P<n2>[^\"'<>]{1,200}+)[\"']?[^<>]{0,200}+)>"
)
"""The opening tag of a call in the forms `<function=n>`, `<function name="n">`, `<invoke name="n">`."""

_WORDS = (
    r"functools\s*(?=\[)",
    r"Action:\s*(?=```)",
    r"(?:^|(?<=\n))>>>(?=[\w.-]+\n)",
    r"(?:^|(?<=\n))[ \t]*\**Action:\**[ \t]*(?=[\w.-]+[ \t]*\n[ \t]*\**Action[ _]Input:)",
)


def _alternatives() -> str:
    plain = [*CALLS, *RESULTS, *THINKING, *THINKING.values(), *THINKING_ENDS, *NOISE]
    return "|".join(re.escape(word) for word in sorted(set(plain), key=len, reverse=True))


MARK: Final = re.compile(
    f"(?P<mark>{_alternatives()})|(?P<tag>{re.sub(r'[?]P<[a-z0-9]+>', '?:', TAG_OPEN.pattern)})|(?P<word>{'|'.join(_WORDS)})"
    f"|(?P<loose>{re.sub(r'[?]P<[a-z0-9]+>', '?:', LOOSE.pattern)})"
)
"""Any mark: a fixed one, the opening tag of a call, a word."""

FIXED: Final = (*CALLS, *RESULTS, *THINKING, *THINKING.values(), *THINKING_ENDS, *NOISE)
"""All marks that are fixed strings."""

DECLARED: Final = re.compile(r"<!ENTITY\b|<!DOCTYPE[^<>\[]{0,390}(?:\[|>\s*\Z)")
"""Entities, or a document type that holds some or stands right before the end of what is searched."""

_ORPHAN = re.compile(
    r"</(parameter|param|invoke|function|function_calls?|tool_calls?|params|name|arg_value)>\Z"
)
_MOST_ORPHANS: Final = 50


def before_orphans(text: str) -> int:
    """Where the closing tags begin that end an answer and belong to no call; else its length."""
    begin = end = len(text)
    for _ in range(_MOST_ORPHANS):
        window = text[max(0, end - 64) : end].rstrip()
        tag = _ORPHAN.search(window)
        if tag is None:
            break
        start = max(0, end - 64) + tag.start()
        opened = sum(text.count(f"<{tag[1]}{after}", 0, start) for after in "> =")
        if opened > text.count(tag[0], 0, start):
            # It closes an element of the answer itself.
            break
        begin = end = start
    return begin
