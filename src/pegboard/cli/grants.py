"""`pegboard grants`: remembered approvals."""

from __future__ import annotations

import asyncio

from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.core.errors import BuildError, ConfigError
from pegboard.store.grants import StoredGrants


def grants(action: str, grant: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        return asyncio.run(_grants(StoredGrants(lambda: app.store.store), action, grant, options))


async def _grants(book: StoredGrants, action: str, grant: str | None, options: Options) -> int:
    await book.refresh()
    match action:
        case "list":
            rows = book.list()
            if options.json:
                print_json([g.to_dict() for g in rows])
            elif not rows:
                print_line("no grants")
            else:
                table(
                    [
                        (
                            g.id,
                            g.tool,
                            escape_controls(", ".join(f"{k} {t}" for k, t in g.effects)),
                            g.workspace,
                            "" if g.uses_left is None else f"{g.uses_left} left",
                        )
                        for g in rows
                    ],
                    head=("id", "tool", "effects", "workspace", "uses"),
                )
            return 0
        case "revoke" if grant:
            gone = await book.revoke(grant)
            if not gone:
                raise ConfigError(f"no grant with ID {grant!r}; see: pegboard grants")
            print_line(f"{grant} is revoked")
            return 0
        case _:
            raise BuildError(f"grants {action!r}: use list, or revoke ID")
