"""bus: channels, one kind a file; the table that finds them."""

from __future__ import annotations

from typing import Final

CHANNELS: Final[dict[str, str]] = {
    "console": "pegboard.bus.console:ConsoleChannel",
    "feishu": "pegboard.bus.feishu:FeishuChannel",
    "file": "pegboard.bus.file:FileChannel",
    "matrix": "pegboard.bus.matrix:MatrixChannel",
    "session": "pegboard.bus.session:SessionChannel",
    "slack": "pegboard.bus.slack:SlackChannel",
    "telegram": "pegboard.bus.telegram:TelegramChannel",
    "terminal": "pegboard.bus.terminal:TerminalChannel",
    "webhook": "pegboard.bus.webhook:WebhookChannel",
    "websocket": "pegboard.bus.websocket:WebSocketChannel",
}
"""Kinds of channels; a new kind is one file and one line here.

A class is made with its name and, as keyword arguments, with what its constructor names of these:

- each key of its `settings`, a table from a key of `[channels.NAME]` to `text`, `url`, `secret`, `path` or `bool`; a
  secret comes as a function that gives it, a path as a Path, and a key without a default must be set;
- `client`: an HttpClient that reaches no private address unless the settings open it;
- `add`: puts a message into the inbox of a session of this store.

A class may bring tools of its platform with it: `tools`, a list of Tools, which agents have where a channel of the kind
is configured.
"""
