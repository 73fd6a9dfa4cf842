"""Keys of a terminal."""

from __future__ import annotations

import os

import pytest

from pegboard.core.errors import InvalidArguments
from pegboard.shell.pty import key_bytes, open_terminal
from tests.ledger import owes


@owes("K-44")
@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("Enter", b"\r"),
        ("C-c", b"\x03"),
        ("ctrl+d", b"\x04"),
        ("^Z", b"\x1a"),
        ("C-[", b"\x1b"),
        ("C-?", b"\x7f"),
        ("C-Space", b"\x00"),
        ("M-x", b"\x1bx"),
        ("Alt-Enter", b"\x1b\r"),
        ("Up", b"\x1b[A"),
        ("Page_Down", b"\x1b[6~"),
        ("F5", b"\x1b[15~"),
        ("x", b"x"),
        ("é", "é".encode()),
    ],
)
def test_keys_are_what_xterm_sends(key: str, sent: bytes) -> None:
    assert key_bytes(key) == sent


@pytest.mark.parametrize("key", ["", "Hyper", "C-Up", "F13"])
def test_an_unknown_key_is_named(key: str) -> None:
    with pytest.raises(InvalidArguments, match="unknown key"):
        key_bytes(key)


def test_a_terminal_has_a_size() -> None:
    master, path, slave = open_terminal(100, 30)
    try:
        assert os.get_terminal_size(slave) == (100, 30)
        assert os.path.exists(path)
        assert not os.get_inheritable(master)
    finally:
        os.close(master)
        os.close(slave)
