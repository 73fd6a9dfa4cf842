"""Pictures for a model: downscaled, upright, without metadata."""

from __future__ import annotations

import base64
import io
from importlib import import_module
from typing import Any, Final

from pegboard.core.content import MAX_PIXELS
from pegboard.documents.errors import DocumentRefused

MAX_SIDE: Final = 1568
"""Longest side in pixels; models downscale beyond it themselves."""


def read_image(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note, image, mime_type}` with the picture in base64, PNG or JPEG."""
    image_module: Any = import_module("PIL.Image")
    operations: Any = import_module("PIL.ImageOps")

    # Our own limit stands below, with the size in its message.
    image_module.MAX_IMAGE_PIXELS = None
    try:
        picture: Any = image_module.open(io.BytesIO(data))
        width, height = picture.size
        if width * height > MAX_PIXELS:
            raise DocumentRefused(
                "too_large", f"the picture has {width} x {height} pixels, over {MAX_PIXELS}"
            )
        form = str(picture.format)
        picture.draft("RGB", (MAX_SIDE, MAX_SIDE))
        picture = operations.exif_transpose(picture)
        picture.thumbnail((MAX_SIDE, MAX_SIDE))
        alpha = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
        flat = picture.convert("RGBA" if alpha else "RGB")
    except (OSError, ValueError, SyntaxError) as error:
        # Pillow's own words name an object in memory.
        raise DocumentRefused(
            "unsupported", f"the picture is damaged or in an unknown format ({type(error).__name__})"
        ) from None
    out = io.BytesIO()
    lossy = form in ("JPEG", "MPO", "WEBP", "AVIF") and not alpha
    flat.save(out, "JPEG" if lossy else "PNG", **({"quality": 85} if lossy else {"optimize": False}))
    shown = "" if flat.size == (width, height) else f", shown at {flat.size[0]} x {flat.size[1]}"
    return {
        "text": f"{form} picture, {width} x {height} pixels, {len(data)} bytes{shown}",
        "pages": None,
        "note": "",
        "image": base64.b64encode(out.getvalue()).decode("ascii"),
        "mime_type": "image/jpeg" if lossy else "image/png",
    }
