"""ServedGateway: the GatewayControl port, and what tells a session that the gateway it asked to restart is back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pegboard.config.reading import KEYS
from pegboard.core.call.call import new_id
from pegboard.core.context import current_context
from pegboard.core.errors import PermissionDenied, Unavailable
from pegboard.ports.messages import InboundMessage
from pegboard.ports.store import Store
from pegboard.services.principals import CHANNEL, principal_of
from pegboard.services.settings import SettingsFiles
from pegboard.store.inbox import Inbox
from pegboard.store.table import Table
from pegboard.version import VERSION

_LONGEST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A restart that a session has asked for and has not been told of.

    Attributes:
        session, reason: who asked, and why.
        workspace: the folder that the session works in.
        at: seconds since the epoch.
    """

    session: str
    reason: str
    workspace: str
    at: float


class ServedGateway:
    """The GatewayControl port; without a gateway, its settings alone.

    Args:
        files: the settings files.
        store: where a restart is remembered.
        workspace: the folder that sessions work in.
        allowed: whether the settings allow a restart now.
        restart: drains the gateway and starts it again; None = no gateway runs here.
        applied: says since when changed settings hold; None = from the next command on.
        status: more of its state; None = there is none.
    """

    def __init__(
        self,
        files: SettingsFiles,
        *,
        store: Callable[[], Store],
        workspace: str,
        allowed: Callable[[], bool] = lambda: False,
        restart: Callable[[], None] | None = None,
        applied: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
        status: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._files = files
        self._store = store
        self._workspace = workspace
        self._allowed = allowed
        self._restart = restart
        self._applied = applied
        self._status = status

    def check(self, action: str) -> None:
        """See GatewayControl."""
        context = current_context()
        # What a chat, a webhook, another session or a subagent wrote has a channel of its own; a subagent's task has not.
        foreign = context.origin.get("channel", "") not in ("", CHANNEL)
        if foreign or context.depth or principal_of(context.session):
            raise PermissionDenied(
                f"{action} is for sessions of the gateway's owner", hint="Ask the owner to do it."
            )
        if action == "restart" and self._restart is None:
            raise Unavailable("no gateway runs here", hint="Start one with: pegboard serve")
        if action == "restart" and not self._allowed():
            raise Unavailable(
                "restarting the gateway is off",
                hint="The owner allows it with restart = true under [gateway].",
            )

    async def status(self) -> Mapping[str, Any]:
        """See GatewayControl."""
        return {
            "running": self._restart is not None,
            "version": VERSION,
            "restart": self._allowed(),
            **self._status(),
        }

    async def restart(self, reason: str) -> None:
        """See GatewayControl."""
        self.check("restart")
        assert self._restart is not None
        asked = Restart(
            session=current_context().session,
            reason=reason[:_LONGEST],
            workspace=self._workspace,
            at=time.time(),
        )
        await _table(self._store()).put(new_id("restart"), asked)
        self._restart()

    async def config_get(self, key: str = "") -> Mapping[str, Any]:
        """See GatewayControl."""
        self.check("config_get")
        found = await self._files.get(key or None)
        values = {name: value for name, (value, _) in found.items()}
        return {"hash": await self._files.hash(), "file": str(self._files.user_file), "values": values}

    def config_schema(self) -> Mapping[str, Any]:
        """See GatewayControl."""
        return {"type": "object", "additionalProperties": False, "properties": {key: {} for key in KEYS}}

    async def config_patch(self, base: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """See GatewayControl."""
        self.check("config_patch")
        await self._files.patch(base, values)
        applied = {"applies": "now"} if self._applied is None else await self._applied()
        return {"hash": await self._files.hash(), **applied}


async def tell_restarted(store: Store) -> list[str]:
    """Tell the sessions that asked for a restart that it is done; their keys."""
    table, told = _table(store), list[str]()
    for id, one in (await table.scan()).items():
        why = f" Why: {one.reason}" if one.reason else ""
        message = InboundMessage(
            session=one.session, id=id, by="gateway", channel=CHANNEL, workspace=one.workspace,
            content=f"[The gateway was restarted, as you asked, and runs again.{why}]",
        )  # fmt: skip
        await Inbox(store).add(message)
        await table.delete(id)
        told.append(one.session)
    return told


def _table(store: Store) -> Table[Restart]:
    return Table(store, "restarts", asdict, lambda value: Restart(**value))
