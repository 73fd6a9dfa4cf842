"""Speech: texts spoken by espeak-ng on this machine, or by a provider."""

from __future__ import annotations

import asyncio
import shutil
import struct
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pegboard.core.content import Audio
from pegboard.core.errors import InvalidArguments, TimedOut, Unavailable
from pegboard.media.images import MediaService
from pegboard.ports.media import SpeechRequest, SpokenText

_WORDS_A_MINUTE: Final = 175
_TIMEOUT_S: Final = 60.0
_OPENAI_MOST: Final = 4096
_LANGUAGES: Final = {
    "CJK": "cmn", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CYRILLIC": "ru", "GREEK": "el", "ARABIC": "ar",
    "HEBREW": "he", "DEVANAGARI": "hi", "BENGALI": "bn", "TAMIL": "ta", "THAI": "th", "GEORGIAN": "ka", "ARMENIAN": "hy",
}  # fmt: skip
"""A language that is written in each script, where nobody says which one it is."""


class Speaker(Protocol):
    """One way to speak."""

    @property
    def host(self) -> str:
        """Where texts are sent, `host` or `host:port`; empty = nowhere."""
        ...

    async def speak(self, request: SpeechRequest) -> SpokenText:
        """See Speech.speak."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechChoice:
    """The Speech port.

    Attributes:
        choose: the speaker to use now; raises Unavailable if there is none.
    """

    choose: Callable[[], Speaker]

    def hosts(self) -> Sequence[str]:
        """See Speech."""
        return [host] if (host := self.choose().host) else []

    async def speak(self, request: SpeechRequest) -> SpokenText:
        """See Speech."""
        return await self.choose().speak(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Espeak:
    """espeak-ng, offline. The text goes to it by a pipe, never as an argument.

    Attributes:
        path: PATH, where espeak-ng and ffmpeg are looked for.
        voice: in place of the usual one of the language.
    """

    path: str
    voice: str = ""
    host: str = ""

    def program(self) -> str | None:
        """Where espeak-ng is, None if it is not installed."""
        return shutil.which("espeak-ng", path=self.path)

    async def speak(self, request: SpeechRequest) -> SpokenText:
        """See Speech."""
        program, encoder = self.program(), shutil.which("ffmpeg", path=self.path)
        if program is None:
            raise Unavailable(
                "espeak-ng is not installed", hint="Ask the user to install the Debian package espeak-ng."
            )
        if request.format == "mp3" and encoder is None:
            raise Unavailable("espeak-ng makes WAV, and ffmpeg is not installed", hint="Send format wav.")
        voice = request.voice or request.language or self.voice or language_of(request.text)
        speed = str(round(_WORDS_A_MINUTE * request.speed))
        argv = [program, "-b", "1", "-v", voice, "-s", speed, "--stdin", "--stdout"]
        env = {"PATH": self.path, "LC_ALL": "C.UTF-8"}
        status, data, errors = await _run(argv, request.text.encode("utf-8", "replace"), env)
        if status or not data.startswith(b"RIFF"):
            said = " ".join(errors.decode("utf-8", "replace").split())[:200]
            raise InvalidArguments(
                f"espeak-ng does not speak with the voice {voice!r}: {said or 'it made no sound'}",
                hint="Send a language such as en, de or zh, and no voice.",
            )
        wav = with_true_sizes(data)
        audio, seconds = Audio(data=wav, mime_type="audio/wav"), duration_of(wav)
        if request.format == "mp3" and encoder is not None:
            argv = [encoder, "-v", "error", "-f", "wav", "-i", "pipe:0", "-f", "mp3", "pipe:1"]
            status, data, errors = await _run(argv, wav, env)
            if status or not data:
                raise Unavailable(f"ffmpeg made no MP3: {errors.decode('utf-8', 'replace')[:200]}")
            audio = Audio(data=data, mime_type="audio/mpeg")
        return SpokenText(provider="espeak", voice=voice, audio=audio, duration_s=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISpeech:
    """`/audio/speech`, as OpenAI and many others have it.

    Attributes:
        service: where it is.
        voice: the usual one.
    """

    service: MediaService
    voice: str = "alloy"

    @property
    def host(self) -> str:
        """See Speaker."""
        return self.service.host

    async def speak(self, request: SpeechRequest) -> SpokenText:
        """See Speech."""
        name = self.service.name
        if len(request.text) > _OPENAI_MOST:
            raise InvalidArguments(
                f"the text has {len(request.text)} characters; {name} takes {_OPENAI_MOST}",
                hint="Send it in parts.",
            )
        voice = request.voice or self.voice
        body = {
            "model": self.service.model, "input": request.text, "voice": voice, "response_format": request.format,
            "speed": request.speed,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {self.service.key()}"}
        reply = await self.service.post("audio/speech", headers, json=body)
        data, seconds = reply.body, None
        if request.format == "wav" and data.startswith(b"RIFF"):
            data = with_true_sizes(data)
            seconds = duration_of(data)
        elif request.format == "wav" or not data.startswith((b"ID3", b"\xff")):
            raise Unavailable(f"{name} answered with {reply.content_type or 'no type'}, not {request.format}")
        kind = "audio/wav" if request.format == "wav" else "audio/mpeg"
        audio = Audio(data=data, mime_type=kind)
        cost = self.service.cost({"input_characters": len(request.text)})
        return SpokenText(provider=name, voice=voice, audio=audio, duration_s=seconds, cost_usd=cost)


def language_of(text: str) -> str:
    """A language by the script of most letters; English for Latin ones."""
    scripts = Counter(unicodedata.name(c, "").partition(" ")[0] for c in text[:2000] if c.isalpha())
    if scripts["HIRAGANA"] or scripts["KATAKANA"]:
        return "ja"  # Japanese has more CJK characters than its own.
    most = scripts.most_common(1)
    return _LANGUAGES.get(most[0][0].partition("-")[0], "en") if most else "en"


def with_true_sizes(wav: bytes) -> bytes:
    """A WAV whose sizes are those of its data; one that was written to a pipe has made-up ones (RIFF, `data`)."""
    at = 12
    while at + 8 <= len(wav):
        name, size = wav[at : at + 4], int.from_bytes(wav[at + 4 : at + 8], "little")
        if name == b"data":
            body = wav[at + 8 :] if size > len(wav) - at - 8 else wav[at + 8 : at + 8 + size]
            head = wav[8:at] + b"data" + struct.pack("<I", len(body))
            return b"RIFF" + struct.pack("<I", len(head) + len(body)) + head + body
        at += 8 + size + size % 2
    return wav


def duration_of(wav: bytes) -> float | None:
    """Seconds of a WAV in PCM, None if it is in another form."""
    import io
    import wave

    try:
        with wave.open(io.BytesIO(wav)) as sound:
            return sound.getnframes() / sound.getframerate()
    except (wave.Error, EOFError, ZeroDivisionError):
        return None


async def _run(argv: Sequence[str], data: bytes, env: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """A trusted program fed by a pipe: its status, its output and its complaints.

    Raises:
        TimedOut: it did not end in time; it was killed.
    """
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            out, errors = await child.communicate(data)
    except TimeoutError:
        raise TimedOut(
            f"{argv[0]} did not end within {_TIMEOUT_S:g} s", hint="Send a shorter text."
        ) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode or 0, out, errors
