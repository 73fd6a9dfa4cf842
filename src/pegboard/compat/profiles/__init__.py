"""The profiles: nanobot, nanobot-net, moltbot, artifactflow and claude-code as data."""

from __future__ import annotations

from typing import Final

from pegboard.compat import wording as say
from pegboard.compat.profiles.artifactflow import ARTIFACTFLOW
from pegboard.compat.profiles.claude_code import CLAUDE_CODE
from pegboard.compat.profiles.moltbot import MOLTBOT
from pegboard.compat.profiles.nanobot import NANOBOT
from pegboard.compat.profiles.nanobot_net import NANOBOT_NET
from pegboard.core.profiles import Profile

PROFILES: Final[dict[str, Profile]] = {
    p.name: p
    for p in (
        Profile(name="nanobot", rows=NANOBOT),
        Profile(name="nanobot-net", rows=NANOBOT_NET, words=say.net_failure),
        Profile(name="moltbot", rows=MOLTBOT),
        Profile(name="artifactflow", rows=ARTIFACTFLOW),
        Profile(name="claude-code", rows=CLAUDE_CODE, words=say.cc_failure),
    )
}
"""Name → profile."""
