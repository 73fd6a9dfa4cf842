"""tts: speak a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pegboard.core.content import Block, Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult, notes_of_cost
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Files, Write
from pegboard.ports.media import AudioFormat, Speech, SpeechRequest

_SENT_MOST: Final = 5 << 20
"""Bytes of a sound that go into the result beside the file."""


async def plan_tts(call: ValidCall, context: Context) -> Plan:
    """The host that the text is sent to, if any, and the file that is written."""
    path, _ = _file_of(call.arguments)
    write = Effect("write", (await context.port(Files).resolve(path, write=True)).reachable())
    return Plan((*(Effect("connect", host) for host in context.port(Speech).hosts()), write))


@tool(
    plan=plan_tts,
    touches=("connect", "write"),
    timeout_s=180.0,
    hints=("text to speech", "read aloud", "say something", "make an audio file", "语音合成"),
    example={"text": "The build is done."},
)
async def tts(
    text: Annotated[str, Field(min_length=1, max_length=20_000), Alias("input", "content", "message")],
    voice: Annotated[str, Field(pattern=r"^([A-Za-z][\w+./-]{0,60})?$")] = "",
    language: Annotated[str, Field(pattern=r"^([A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*)?$"), Alias("lang")] = "",
    speed: Annotated[float, Field(ge=0.5, le=2.5), Alias("rate")] = 1.0,
    format: Annotated[Literal["", "wav", "mp3"], Alias("response_format")] = "",
    path: Annotated[str, Alias("output", "file", "filename")] = "",
    *,
    speech: Inject[Speech],
    files: Inject[Files],
) -> ToolResult:
    """Speak a text: the sound is saved as a file and returned.

    Args:
        text: What to say, plain words without markup.
        voice: A voice of the provider; the usual one of the language by default.
        language: Such as en, de or zh; found by the script of the text by default.
        speed: 1 is usual, 2 is twice as fast.
        format: wav or mp3; as path ends, else wav.
        path: Where to save it, .wav or .mp3; a name of its own by default.

    Raises:
        Unavailable: nothing here can speak.
        InvalidArguments: there is no such voice.
    """
    given = {
        "text": text,
        "voice": voice,
        "language": language,
        "speed": speed,
        "format": format,
        "path": path,
    }
    path, form = _file_of(given)
    if not text.strip():
        raise InvalidArguments("text holds nothing to say")
    spoken = await speech.speak(
        SpeechRequest(text=text, voice=voice, language=language.replace("_", "-"), speed=speed, format=form)
    )
    audio = spoken.audio
    changes = await files.commit(await files.propose([Write(path=path, data=audio.data)]))
    length = "" if spoken.duration_s is None else f", {spoken.duration_s:.1f} s"
    lines = [f"Saved the speech as {path} ({len(audio.data):,} bytes{length}, {spoken.provider})."]
    lines += [changes.note] if changes.note else []
    blocks: list[Block] = [Text("\n".join(lines))]
    blocks += [audio] if len(audio.data) <= _SENT_MOST else []
    data = {
        "path": path, "bytes": len(audio.data), "mime_type": audio.mime_type, "duration_s": spoken.duration_s,
        "provider": spoken.provider, "voice": spoken.voice,
    }  # fmt: skip
    return ToolResult(content=tuple(blocks), data=data, notes=notes_of_cost(spoken.cost_usd))


def _file_of(given: Mapping[str, Any]) -> tuple[str, AudioFormat]:
    """The path and the format, which agree.

    Raises:
        InvalidArguments: they do not, or the path does not end as a sound's.
    """
    path, form = given["path"], given["format"]
    suffix = path.rpartition(".")[2].lower() if "." in path else ""
    if not path:
        request = json.dumps([given[k] for k in ("text", "voice", "language", "speed")])
        name = hashlib.sha256(request.encode("utf-8", "replace")).hexdigest()[:8]
        return f"speech-{name}.{form or 'wav'}", form or "wav"
    if suffix not in ("wav", "mp3") or (form and form != suffix):
        ends = f".{form}" if form else ".wav or .mp3"
        raise InvalidArguments(f"path {path!r} does not end in {ends}", hint=f"End it with {ends}.")
    return path, suffix
