"""Rules of programs that reach other machines: the host is a `connect` effect, sent files are `read` effects."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import URL, ProgramCall, Rule, host_of, is_loopback
from pegboard.shell.guard.operands import HOLE, is_secret
from pegboard.shell.guard.rows import by_row
from pegboard.shell.guard.words import Word


def web(call: ProgramCall) -> bool:
    """`curl`, `wget`: what they read and write, what they send, and where to."""
    by_row(call)
    options, hosts = call.options()
    facts = {key: call.spec.facts.get(key, "").split() for key in ("sends", "carries", "files")}
    for option in options:
        if option.value is None:
            continue
        if option.flag == "--url":
            hosts.append(option.value)
        elif option.flag in facts["carries"]:
            _sent(call, option.value)
        elif option.flag in facts["files"] and "=" not in option.value.text:
            call.read(option.value)
    _reach(call, hosts)
    stays_here = bool(hosts) and all(word.known and is_loopback(host_of(word.text)) for word in hosts)
    if any(option.flag in facts["sends"] for option in options) and not stays_here:
        call.ask(f"{call.name} sends data")
    return False


def _sent(call: ProgramCall, value: Word) -> None:
    """`@file`, `name=@file`, `name=<file` in what is sent."""
    for match in re.finditer(r"(?:^|=)[@<]([^;]+)", value.text):
        call.read(Word(match[1], value.source))
    if not value.known and value.source.startswith(("$(", "`", '"$(', '"`')):
        call.ask(f"{call.name} sends what another program prints")


def _reach(call: ProgramCall, words: list[Word]) -> None:
    for word in words:
        if word.text.startswith("file:"):
            path = word.text.removeprefix("file:").removeprefix("//localhost").removeprefix("//")
            call.read(Word(path or "/", word.source))
            continue
        scheme = re.match(r"([a-z][a-z0-9+.-]*)://", word.text, re.IGNORECASE)
        if scheme and scheme[1].lower() not in ("http", "https", "ftp", "ftps", "ws", "wss"):
            call.ask(f"{call.name} uses {scheme[1]}, which can carry any bytes to a service")
        # A path that is not known yet leads to the same machine.
        host = host_of(word.text)
        _connect(call, host, is_loopback(host))
        if not word.known and not is_loopback(host):
            call.ask(f"{call.name} puts a value into the address that is not known before it runs")
        if re.search(r"(?:^|@)(?:169\.254\.|metadata\.)", host):
            call.deny(f"{host} hands out a cloud machine's credentials")
    if not words:
        call.found.connect("")


def _connect(call: ProgramCall, host: str, loopback: bool) -> None:
    if loopback:
        call.found.connect(host, f"connects to {host}, this machine", "allow")
    else:
        call.found.connect(host)


def ssh(call: ProgramCall) -> bool:
    by_row(call)
    operands = call.options()[1]
    host = operands[0].text.rpartition("@")[2] if operands else ""
    call.found.connect(host.removeprefix("ssh://").split("/")[0] if HOLE not in host else "")
    return False


def scp(call: ProgramCall) -> bool:
    by_row(call)
    operands = call.options()[1]
    remote = [word for word in operands if re.match(r"[^/]*:", word.text)]
    for word in remote or [Word("", "")]:
        call.found.connect(word.text.split(":")[0].rpartition("@")[2])
    for word in operands:
        if word not in remote:
            (call.write if word is operands[-1] else call.read)(word)
    return False


_DIGESTS: Final = ("dgst", "md5", "sha1", "sha256", "sha512", "enc", "base64")


def openssl(call: ProgramCall) -> bool:
    by_row(call)
    options, operands = call.options()
    for option in options:
        if option.value is not None and option.flag in ("-connect", "-proxy", "-url", "-host"):
            call.found.connect(host_of(option.value.text))
    if operands and operands[0].text in _DIGESTS:
        for word in operands[1:]:
            call.read(word, plain="/" in word.text or is_secret(word.text))
    return False


_HOST: Final = re.compile(r"(?:[\w.+-]+@)?(?:[\w-]+\.)+[\w-]+(?::\S*)?|localhost(?::\d+)?\S*")
_STARTS: Final = ("-e", "--exec", "-c", "--sh-exec", "--lua-exec")


def http_client(call: ProgramCall) -> bool:
    """Any other network program: its first host-like operand is reached."""
    plain = [word for word in call.args if word.text and not word.text.startswith("-")]
    hosts = [word for word in plain if URL.match(word.text) or _HOST.fullmatch(word.text)]
    for word in call.args:
        text = word.text
        _, at, path = text.partition("@")
        if at and re.match(r"[/~.]|[\w-]+\.\w+$", path):
            call.found.read(path, call.cwd, plain=False)
        if match := re.match(r"(?:FILE|OPEN|CREATE|GOPEN):([^,]+)", text, re.IGNORECASE):
            call.found.read(match[1], call.cwd)
        if re.match(r"(?:EXEC|SYSTEM):", text, re.IGNORECASE) or text in _STARTS:
            call.ask_unless_known(None, f"{call.name} {text.split(':')[0]} runs a program")
    for word in plain:
        if word not in hosts:
            call.maybe_path(word)
    for word in hosts[:4] or [Word(HOLE, "")]:
        name = host_of(re.sub(r"^(?:TCP\d?|UDP\d?|OPENSSL|SSL):", "", word.text, flags=re.IGNORECASE))
        _connect(call, name, word.known and is_loopback(name))
    return False


RULES: Final[dict[str, Rule]] = {
    "http_client": http_client,
    "web": web,
    "ssh": ssh,
    "scp": scp,
    "openssl": openssl,
}
