"""`pegboard grants`: remembered approvals."""

from __future__ import annotations

from pegboard.cli.options import Options
from pegboard.cli.show import print_json, safe, say, table
from pegboard.config.paths import Paths
from pegboard.core.errors import BuildError
from pegboard.store.grants import GrantFile


def grants(action: str, grant: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    book = GrantFile(Paths.of().state / "grants.json")
    match action:
        case "list":
            rows = book.list()
            if options.json:
                print_json([g.to_dict() for g in rows])
            elif not rows:
                say("no grants")
            else:
                table(
                    [
                        (
                            g.id,
                            g.tool,
                            safe(", ".join(f"{k} {t}" for k, t in g.effects)),
                            g.workspace,
                            "" if g.uses_left is None else f"{g.uses_left} left",
                        )
                        for g in rows
                    ],
                    head=("id", "tool", "effects", "workspace", "uses"),
                )
            return 0
        case "revoke" if grant:
            gone = book.revoke(grant)
            say(f"{grant} is revoked" if gone else f"there is no grant {grant}")
            return 0 if gone else 1
        case _:
            raise BuildError("use: pegboard grants list, or pegboard grants revoke ID")
