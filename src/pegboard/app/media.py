"""Who makes pictures and who speaks on this machine: what the settings name, what has a key, what is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pegboard.config.environment import environment
from pegboard.config.media import MediaProvider, MediaUse
from pegboard.config.secrets import read_source
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.media.images import GeminiImages, ImageProvider, Images, MediaService, OpenAIImages
from pegboard.media.speech import Espeak, OpenAISpeech, Speaker, SpeechChoice
from pegboard.net.client import HttpClient

_OPENAI: Final = "https://api.openai.com/v1"
_GEMINI: Final = "https://generativelanguage.googleapis.com/v1beta"
_IMAGES: Final = {
    "openai": MediaProvider(key="env:OPENAI_API_KEY", url=_OPENAI, model="gpt-image-1"),
    "gemini": MediaProvider(key="env:GEMINI_API_KEY", url=_GEMINI, model="gemini-2.5-flash-image"),
}
_SPEECH: Final = {"openai": MediaProvider(key="env:OPENAI_API_KEY", url=_OPENAI, model="gpt-4o-mini-tts")}
_ESPEAK: Final = "espeak"


def image_generator(settings: MediaUse, client: HttpClient) -> Images:
    """The ImageGenerator port as the settings have it.

    Raises:
        ConfigError: they name a provider that is not known and has no url.
    """
    _check(settings, "image", tuple(_IMAGES))

    def choose() -> tuple[ImageProvider, MediaService]:
        service = _usable(settings, "image", _IMAGES, client)
        return (GeminiImages() if service.name == "gemini" else OpenAIImages()), service

    return Images(choose=choose)


def speech(settings: MediaUse, client: HttpClient) -> SpeechChoice:
    """The Speech port as the settings have it: espeak-ng where it is installed, unless they name another.

    Raises:
        ConfigError: see `image_generator`.
    """
    _check(settings, "tts", (_ESPEAK, *_SPEECH))

    def choose() -> Speaker:
        own = settings.providers
        espeak = Espeak(path=environment().get("PATH", ""), voice=own.get(_ESPEAK, MediaProvider()).voice)
        if settings.provider == _ESPEAK or (settings.provider == "auto" and espeak.program()):
            return espeak
        try:
            service = _usable(settings, "tts", _SPEECH, client)
        except Unavailable as error:
            if settings.provider != "auto":
                raise
            raise Unavailable(
                f"espeak-ng is not installed, and {error.message}",
                hint="Ask the user to install the Debian package espeak-ng, which speaks without a network.",
            ) from None
        return OpenAISpeech(service=service, voice=own.get(service.name, MediaProvider()).voice or "alloy")

    return SpeechChoice(choose=choose)


def _check(settings: MediaUse, part: str, known: tuple[str, ...]) -> None:
    for name in (settings.provider, *settings.providers):
        own = settings.providers.get(name)
        if name not in ("auto", *known) and (own is None or not own.url):
            raise ConfigError(
                f"media.{part} names {name!r}, which is not a provider; known: auto, {', '.join(known)}, and any name "
                f"with [media.{part}.{name}] url, a server with OpenAI's paths"
            )


def _usable(
    settings: MediaUse, part: str, known: dict[str, MediaProvider], client: HttpClient
) -> MediaService:
    """The provider that is named, or the first that can be asked.

    Raises:
        Unavailable: none can.
    """
    named = [settings.provider] if settings.provider != "auto" else [*settings.providers, *known]
    missing: list[str] = []
    for name in dict.fromkeys(n for n in named if n != _ESPEAK):
        usual, own = known.get(name, MediaProvider()), settings.providers.get(name, MediaProvider())
        source = own.key or usual.key
        key = _reader(name, source)
        # A server of one's own may want no key.
        if not key() and (source or name in known) and not (own.url and not own.key):
            missing.append(source.removeprefix("env:") if source.startswith("env:") else f"the key of {name}")
            continue
        url = own.url or usual.url
        return MediaService(
            name=name,
            url=url,
            model=own.model or usual.model,
            client=client.opening(url),
            key=key,
            cost=partial(_cost, name, own, own.model or usual.model),
        )
    raise Unavailable(
        f"{' or '.join(missing)} not configured",
        hint=f"Ask the user to set it, or [media.{part}.NAME] key in the settings.",
    )


def _cost(name: str, own: MediaProvider, model: str, counted: Mapping[str, int]) -> float | None:
    """See `MediaService.cost`: by the settings' price, or by the tables where the provider's own server is asked."""
    if own.price is not None:
        return own.price * counted.get("input_characters", 1_000_000) / 1_000_000
    if own.url:
        return None
    from pegboard.app.pricing import price_of_media

    return price_of_media(name, model, counted)


def _reader(name: str, source: str) -> Callable[[], str]:
    def read() -> str:
        if source.startswith(("env:", "file:", "keyring:")):
            try:
                return read_source(f"the key of {name}", source, environment())
            except Unavailable:
                return ""
        return source

    return read
