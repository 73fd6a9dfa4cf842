"""Rules of programs that reach other machines: the host is a `connect` effect, sent files are `read` effects."""

from __future__ import annotations

import re
from typing import Final

from pegboard.shell.guard.calls import URL, ProgramCall, ProgramSpec, Rule, host_of, is_loopback, names, parse
from pegboard.shell.guard.operands import HOLE, is_secret
from pegboard.shell.guard.tables import NETWORK
from pegboard.shell.guard.words import Word

_CURL: Final = ProgramSpec(
    takes="XHdFoTuUbceAKEmrtwxyYzCDPQhT",
    long_takes=names(
        "--request --header --data --data-raw --data-binary --data-urlencode --data-ascii --json --form --form-string --output --upload-file "
        "--user --cookie --cookie-jar --referer --user-agent --config --cert --key --max-time --range --write-out --proxy --connect-timeout "
        "--retry --retry-delay --resolve --connect-to --unix-socket --abstract-unix-socket --cacert --capath --dump-header --trace --trace-ascii "
        "--netrc-file --output-dir --url --interface --dns-servers --doh-url --limit-rate --max-redirs --proxy-user --preproxy --socks5 "
        "--socks5-hostname --socks4 --variable --expand-url --stderr --libcurl --etag-save --etag-compare --hsts --alt-svc --engine --quote"
    ),
)
_CURL_WRITES: Final = names(
    "-o --output -c --cookie-jar -D --dump-header --trace --trace-ascii --output-dir --stderr --libcurl --etag-save --hsts --alt-svc"
)
_CURL_ASKS: Final = names(
    "-K --config -x --proxy --preproxy --socks5 --socks5-hostname --socks4 --resolve --connect-to --unix-socket --abstract-unix-socket "
    "--doh-url --dns-servers -Q --quote --engine --interface -n --netrc --netrc-file"
)
_SENDS: Final = names(
    "-d --data --data-raw --data-binary --data-urlencode --data-ascii --json -F --form --form-string -T --upload-file -X --request -u --user"
)


def curl(call: ProgramCall) -> bool:
    options, operands = call.options(_CURL)
    hosts = [w for w in operands]
    for option in options:
        flag, value = option.flag, option.value
        if flag in _CURL_ASKS:
            call.ask(f"curl {flag} changes where traffic goes or what is sent")
        if value is None:
            continue
        if flag in _CURL_WRITES:
            call.write(value)
        elif flag == "--url":
            hosts.append(value)
        elif flag in ("-T", "--upload-file", "-E", "--cert", "--key", "-K", "--config", "-b", "--cookie"):
            if flag not in ("-b", "--cookie") or "=" not in value.text:
                call.read(value)
        elif flag in _SENDS or flag in ("-H", "--header"):
            _sent(call, value)
    _reach(call, hosts)
    if any(o.flag in _SENDS for o in options) and not _stays_here(hosts):
        call.ask("curl sends data")
    return False


def _stays_here(hosts: list[Word]) -> bool:
    """Whether all addresses are this machine, which inside the sandbox is the sandbox."""
    return bool(hosts) and all(word.known and is_loopback(host_of(word.text)) for word in hosts)


def _sent(call: ProgramCall, value: Word) -> None:
    """`@file`, `name=@file`, `name=<file` in what is sent."""
    for match in re.finditer(r"(?:^|=)[@<]([^;]+)", value.text):
        call.read(Word(match[1], value.source))
    if not value.known and value.source.startswith(("$(", "`", '"$(', '"`')):
        call.ask(f"{call.name} sends what another program prints")


def _reach(call: ProgramCall, words: list[Word]) -> None:
    for word in words:
        if word.text.startswith("file:"):
            call.read(
                Word(
                    word.text.removeprefix("file:").removeprefix("//localhost").removeprefix("//") or "/",
                    word.source,
                )
            )
            continue
        scheme = re.match(r"([a-z][a-z0-9+.-]*)://", word.text, re.IGNORECASE)
        if scheme and scheme[1].lower() not in ("http", "https", "ftp", "ftps", "ws", "wss"):
            call.ask(f"{call.name} uses {scheme[1]}, which can carry any bytes to a service")
        host = host_of(word.text)
        # A path that is not known yet leads to the same machine.
        loopback = is_loopback(host)
        call.found.connect(
            host, "" if not loopback else f"connects to {host}, this machine", "allow" if loopback else "ask"
        )
        if not word.known and not loopback:
            call.ask(f"{call.name} puts a value into the address that is not known before it runs")
        if re.search(r"(?:^|@)(?:169\.254\.|metadata\.)", host):
            call.deny(f"{host} hands out a cloud machine's credentials")
    if not words:
        call.found.connect("")


_WGET: Final = ProgramSpec(
    takes="OPoaieUTtQlARDIXBY",
    long_takes=names(
        "--output-document --directory-prefix --output-file --append-output --input-file --execute --user-agent --header --post-data --post-file "
        "--body-data --body-file --method --timeout --tries --user --password --load-cookies --save-cookies --use-askpass --config --warc-file"
    ),
)


def wget(call: ProgramCall) -> bool:
    options, operands = call.options(_WGET)
    for option in options:
        flag, value = option.flag, option.value
        if flag in ("-e", "--execute", "--use-askpass", "--config", "-i", "--input-file"):
            call.ask_unless_known(value, f"wget {flag} changes what runs or where it connects")
        if value is None:
            continue
        if flag in (
            "-O",
            "--output-document",
            "-P",
            "--directory-prefix",
            "-o",
            "--output-file",
            "-a",
            "--append-output",
            "--save-cookies",
            "--warc-file",
        ):
            call.write(value)
        elif flag in ("--post-file", "--body-file", "-i", "--input-file", "--load-cookies"):
            call.read(value)
    if any(
        o.flag in ("--post-file", "--post-data", "--body-file", "--body-data", "--method") for o in options
    ):
        call.ask("wget sends data")
    _reach(call, operands)
    return False


_SSH: Final = ProgramSpec(takes="bcDEeFIiJLlmOopQRSWwBP")


def ssh(call: ProgramCall) -> bool:
    args = call.args
    options, operands = parse(args, _SSH)
    for option in options:
        if option.flag == "-o" and option.value and re.search(
            r"(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|RemoteCommand|PKCS11Provider|SecurityKeyProvider|ProxyUseFdpass)",
            option.value.text, re.IGNORECASE,
        ):  # fmt: skip
            call.ask_unless_known(
                option.value, f"{call.name} -o {option.value.text.split('=')[0]} runs a program"
            )
        if option.flag in ("-F", "-I", "-S", "-J", "-W", "-R", "-L", "-D") and call.name in ("ssh", "slogin"):
            call.ask_unless_known(option.value, f"{call.name} {option.flag} changes where it connects")
        if option.flag in ("-S", "-D") and call.name in ("scp", "sftp"):
            call.ask_unless_known(option.value, f"{call.name} {option.flag} runs a program")
        if option.flag == "-i" and option.value:
            call.read(option.value)
    host = operands[0].text.rpartition("@")[2] if operands else ""
    call.found.connect(host.removeprefix("ssh://").split("/")[0] if "\x00" not in host else "")
    return False


def scp(call: ProgramCall) -> bool:
    options, operands = parse(call.args, ProgramSpec(takes="cFiJloPSDX"))
    ssh(
        call.named(
            call.name,
            [w for o in options for w in (Word(o.flag, o.flag), o.value) if w is not None] + [Word("", "")],
        )
    )
    for at, word in enumerate(operands):
        if re.match(r"[^/]*:", word.text):
            call.found.connect(word.text.split(":")[0].rpartition("@")[2])
        elif at == len(operands) - 1:
            call.write(word)
        else:
            call.read(word)
    return False


def openssl(call: ProgramCall) -> bool:
    first = call.args[0].text if call.args else ""
    for at, word in enumerate(call.args[:-1]):
        follow = call.args[at + 1]
        match word.text:
            case "-in" | "-inkey" | "-key" | "-CAfile" | "-cert" | "-pass" | "-rand" | "-config":
                if word.text == "-config":
                    call.ask_unless_known(follow, "openssl -config loads what that file names")
                call.read(
                    Word(follow.text.removeprefix("file:"), follow.source),
                    plain=word.text in ("-in", "-inkey", "-key"),
                )
            case "-out" | "-keyout" | "-writerand":
                call.write(follow)
            case "-engine" | "-provider" | "-provider-path":
                call.ask_unless_known(follow, f"openssl {word.text} loads code")
            case "-connect" | "-proxy" | "-url" | "-host":
                call.found.connect(host_of(follow.text))
            case _:
                pass
    if first in ("s_client", "s_server", "s_time", "ocsp", "ts", "engine", "cmp"):
        call.ask(f"openssl {first} opens a connection")
    elif first in ("dgst", "md5", "sha1", "sha256", "sha512", "enc", "base64"):
        for word in call.args[1:]:
            if not word.text.startswith("-"):
                call.read(word, plain="/" in word.text or is_secret(word.text))
    return False


def http_client(call: ProgramCall) -> bool:
    """Any other network program: its first host-like operand is reached."""
    texts = [w for w in call.args if not w.text.startswith("-") and w.text]
    hosts = [
        w
        for w in texts
        if URL.match(w.text)
        or re.fullmatch(r"(?:[\w.+-]+@)?(?:[\w-]+\.)+[\w-]+(?::\S*)?|localhost(?::\d+)?\S*", w.text)
    ]
    for word in call.args:
        text = word.text
        at = text.find("@")
        if at >= 0 and PATHISH.search(text[at + 1 :]):
            call.found.read(text[at + 1 :], call.cwd, plain=False)
        match = re.match(r"(?:FILE|OPEN|CREATE|GOPEN):([^,]+)", text, re.IGNORECASE)
        if match:
            call.found.read(match[1], call.cwd)
        if re.match(r"(?:EXEC|SYSTEM):", text, re.IGNORECASE) or text in (
            "-e",
            "--exec",
            "-c",
            "--sh-exec",
            "--lua-exec",
        ):
            call.ask_unless_known(None, f"{call.name} {text.split(':')[0]} runs a program")
        if not text.startswith("-") and word not in hosts:
            call.maybe_path(word)
    for word in hosts[:4] or [Word(HOLE, "")]:
        host = re.sub(r"^(?:TCP\d?|UDP\d?|OPENSSL|SSL):", "", word.text, flags=re.IGNORECASE)
        name = host_of(host)
        loopback = word.known and is_loopback(name)
        call.found.connect(
            name, f"connects to {name}, this machine" if loopback else "", "allow" if loopback else "ask"
        )
    return False


PATHISH: Final = re.compile(r"^(?:[/~.]|[\w-]+\.\w+$)")

RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(NETWORK, http_client),
    "curl": curl, "wget": wget, "wget2": wget, "ssh": ssh, "slogin": ssh, "autossh": ssh, "mosh": ssh, "sshfs": ssh, "scp": scp, "sftp": ssh,
    "openssl": openssl, "libressl": openssl,
}  # fmt: skip
