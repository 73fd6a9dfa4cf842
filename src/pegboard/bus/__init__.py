"""bus: channels, one kind a file; the table that finds them."""

from __future__ import annotations

from typing import Final

CHANNELS: Final[dict[str, str]] = {
    "file": "pegboard.bus.file:FileChannel",
    "session": "pegboard.bus.session:SessionChannel",
    "terminal": "pegboard.bus.terminal:TerminalChannel",
    "webhook": "pegboard.bus.webhook:WebhookChannel",
}
"""Kinds of channels; a new kind is one file and one line here."""
