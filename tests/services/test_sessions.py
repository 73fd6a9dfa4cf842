"""The list of sessions, their history, and what is done with whole sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.errors import ConfigError
from pegboard.core.events import ContextCompacted, RunStarted
from pegboard.core.policy.approval import AllowOnce, SuspendAll
from pegboard.ports.messages import InboundMessage
from pegboard.ports.store import Put, Rows
from pegboard.runtime.fold import fold
from pegboard.services.runtime import Interaction
from pegboard.store.inbox import Inbox
from tests.ledger import owes
from tests.sync_store import sync_store as _unused  # noqa: F401
