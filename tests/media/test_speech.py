"""tts: espeak-ng and ffmpeg for real, its WAV read by `wave`; the provider is a loopback server."""

from __future__ import annotations

import io
import json
import os
import struct
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pegboard import Executor, builtin
from pegboard.app.media import speech
from pegboard.compat.moltbot import create_tts_tool
from pegboard.config.load import load_config
from pegboard.config.media import MediaProvider, MediaUse
from pegboard.config.paths import Paths
from pegboard.core.content import Audio
from pegboard.core.errors import ConfigError, InvalidArguments, ToolError, Unavailable
from pegboard.media.speech import Espeak, SpeechChoice, language_of
from pegboard.net.client import HttpClient
from pegboard.ports.media import SpeechRequest
from tests.ledger import owes
from tests.web.site import Site, site

ESPEAK = Espeak(path=os.environ.get("PATH", os.defpath))


def sound(data: bytes) -> wave.Wave_read:
    return wave.open(io.BytesIO(data))


def piped(frames: bytes) -> bytes:
    """A WAV as a server streams it: with sizes that are not known yet."""
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    return b"RIFF\xff\xff\xff\xff" + head + b"data\xff\xff\xff\xff" + frames


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


def hosted(here: Site) -> SpeechChoice:
    own = MediaProvider(key="k1", url=here.url("/v1"), voice="nova")
    return speech(MediaUse(provider="openai", providers={"openai": own}), HttpClient())


@owes("M-53")
async def test_a_text_is_spoken_into_a_file_of_the_workspace_and_returned(tmp_path: Path) -> None:
    kit = builtin("tts")
    async with Executor(kit, workspace=tmp_path, mode="workspace", provide=[_choice(ESPEAK)]) as executor:
        effects = (await executor.preview("tts", {"text": "Hello", "path": "say/a.wav"})).effects
        result = await executor.call("tts", {"text": "Hello there, world.", "path": "say/a.wav"})

    data = (tmp_path / "say/a.wav").read_bytes()
    with sound(data) as heard:
        seconds = heard.getnframes() / heard.getframerate()
        assert heard.getnframes() * heard.getsampwidth() == len(heard.readframes(heard.getnframes()))
    assert 0.5 < seconds < 5
    assert result.data["duration_s"] == pytest.approx(seconds)
    assert [b.data for b in result.content if isinstance(b, Audio)] == [data]
    assert [str(e) for e in effects] == ["write say/a.wav"]


def _choice(speaker: Espeak) -> SpeechChoice:
    return SpeechChoice(choose=lambda: speaker)


async def test_twice_the_speed_takes_about_half_the_time() -> None:
    text = "one two three four five six seven eight nine ten"
    usual = (await ESPEAK.speak(SpeechRequest(text=text))).duration_s
    fast = (await ESPEAK.speak(SpeechRequest(text=text, speed=2.0))).duration_s

    assert usual is not None
    assert fast is not None
    assert 0.3 < fast / usual < 0.75


async def test_an_mp3_is_made_where_ffmpeg_is_found_and_refused_where_it_is_not(tmp_path: Path) -> None:
    program = ESPEAK.program()
    assert program is not None
    (tmp_path / "espeak-ng").symlink_to(program)
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\n/bin/cat >/dev/null; printf 'ID3stand-in'\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    made = await Espeak(path=str(tmp_path)).speak(SpeechRequest(text="Hi", format="mp3"))
    (tmp_path / "ffmpeg").unlink()

    assert (made.audio.data, made.audio.mime_type) == (b"ID3stand-in", "audio/mpeg")
    with pytest.raises(Unavailable, match="ffmpeg is not installed"):
        await Espeak(path=str(tmp_path)).speak(SpeechRequest(text="Hi", format="mp3"))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Hello", "en"), ("Schöne Grüße", "en"), ("你好，世界 OK", "cmn"), ("これは漢字です", "ja"), ("안녕하세요", "ko"),
        ("Привет, мир", "ru"), ("123 …", "en"), ("", "en"),
    ],
)  # fmt: skip
def test_the_script_says_the_language(text: str, language: str) -> None:
    assert language_of(text) == language


async def test_a_text_that_looks_like_an_option_is_spoken() -> None:
    made = await ESPEAK.speak(SpeechRequest(text="--voices"))

    assert made.duration_s is not None
    assert made.duration_s > 0.3


async def test_a_voice_that_does_not_exist_says_so() -> None:
    with pytest.raises(InvalidArguments, match="voice 'klingon-x'"):
        await ESPEAK.speak(SpeechRequest(text="Hi", voice="klingon-x"))


async def test_without_espeak_and_key_the_answer_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(Unavailable, match="espeak-ng is not installed, and OPENAI_API_KEY not configured"):
        speech(MediaUse(), HttpClient()).hosts()


async def test_a_provider_is_asked_in_its_own_words_and_its_wav_gets_true_sizes(here: Site) -> None:
    here.answer("/v1/audio/speech", piped(b"\0\1" * 8000), "audio/wav")

    made = await hosted(here).speak(SpeechRequest(text="Hello", speed=1.5))

    assert json.loads(here.asked[0].body) == {
        "model": "gpt-4o-mini-tts", "input": "Hello", "voice": "nova", "response_format": "wav", "speed": 1.5,
    }  # fmt: skip
    assert here.asked[0].headers["authorization"] == "Bearer k1"
    assert made.duration_s == 1.0
    with sound(made.audio.data) as heard:
        assert heard.getnframes() == 8000
    assert hosted(here).hosts() == [here.place]


async def test_a_provider_makes_the_mp3_itself(here: Site) -> None:
    here.answer("/v1/audio/speech", b"ID3\4sound", "audio/mpeg")

    made = await hosted(here).speak(SpeechRequest(text="Hello", format="mp3"))

    assert (made.audio.mime_type, made.audio.data) == ("audio/mpeg", b"ID3\4sound")


@pytest.mark.parametrize(
    ("status", "body", "kind", "problem"),
    [
        ("401 No", '{"error": {"message": "bad key"}}', Unavailable, "refused the key"),
        ("400 No", '{"error": {"message": "no such voice"}}', InvalidArguments, "no such voice"),
        ("200 OK", "<html>Log in</html>", Unavailable, "answered with text/html, not wav"),
    ],
)
async def test_what_is_no_sound_is_an_error(
    here: Site, status: str, body: str, kind: type[ToolError], problem: str
) -> None:
    here.answer("/v1/audio/speech", body, "text/html", status)

    with pytest.raises(kind) as caught:
        await hosted(here).speak(SpeechRequest(text="Hello"))

    assert problem in caught.value.message


async def test_a_text_over_the_providers_limit_is_not_sent(here: Site) -> None:
    with pytest.raises(InvalidArguments, match="4097 characters; openai takes 4096"):
        await hosted(here).speak(SpeechRequest(text="x" * 4097))

    assert here.asked == []


@pytest.mark.parametrize(
    "arguments",
    [{"path": "a.ogg"}, {"path": "a.wav", "format": "mp3"}, {"voice": "-w/etc/x"}, {"text": "  "}],
)
async def test_a_call_that_cannot_be_meant_writes_nothing(tmp_path: Path, arguments: dict[str, str]) -> None:
    async with Executor(
        builtin("tts"), workspace=tmp_path, mode="workspace", provide=[_choice(ESPEAK)]
    ) as ex:
        result = await ex.call("tts", {"text": "Hi", **arguments})

    assert not result.ok
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[media]\nvideo = 1", "unknown key media.video"),
        ("[media.tts]\nprovider = 3", "media.tts.provider must be a text"),
        ("[media.tts]\nspeed = 3", "unknown key media.tts.speed"),
        ("[media.image]\ntimeout_s = 0", "media.image.timeout_s must be a number above 0"),
        ("[media.image.mine]\nurl = 'x'", "media.image.mine.url must be an http or https address"),
        (
            "[media.image.mine]\nurl = 'http://x'\nprice = '1'",
            "media.image.mine.price must be a number of US dollars",
        ),
        ("[media.tts.espeak]\nrate = 'x'", "unknown key media.tts.espeak.rate"),
    ],
)
def test_a_wrong_setting_names_its_file_and_key(own_home: Path, text: str, problem: str) -> None:
    paths = Paths.of()
    paths.config.mkdir(parents=True)
    (paths.config / "pegboard.toml").write_text(text)

    with pytest.raises(ConfigError, match=problem):
        load_config(paths, None)


@owes("M-53")
def test_moltbots_tts_takes_a_text() -> None:
    tool = create_tts_tool()

    assert tool is not None
    assert list(tool.schema["properties"]) == ["text"]
