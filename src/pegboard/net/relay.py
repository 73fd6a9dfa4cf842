"""Two connections joined to one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, TypeAlias

from pegboard.net.substitution import ByteSubstituter

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

IDLE_S: Final = 600.0
CHUNK: Final = 65_536


async def relay(
    near: Streams, far: Streams, *, out: ByteSubstituter | None = None, back: ByteSubstituter | None = None
) -> None:
    """Copy both ways until both sides have ended, through `out` and `back` where they are given; closes `far`."""

    async def copy(origin: Streams, target: asyncio.StreamWriter, through: ByteSubstituter | None) -> None:
        source, other_way = origin
        try:
            while True:
                async with asyncio.timeout(IDLE_S):
                    data = await source.read(CHUNK)
                if not data:
                    break
                target.write(data if through is None else through.feed(data))
                await target.drain()
            if through is not None:
                target.write(through.close())
        except (OSError, TimeoutError):
            target.close()
            return
        with contextlib.suppress(OSError, RuntimeError):
            if target.can_write_eof():
                target.write_eof()
            elif not other_way.can_write_eof():
                # TLS on both sides: it ends both ways at once.
                target.close()

    try:
        await asyncio.gather(copy(near, far[1], out), copy(far, near[1], back))
    finally:
        far[1].close()
