"""Secrets over https in the real sandbox, with the programs that people use: curl, git, pip, npm, Python, Node."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shlex
import shutil
import ssl
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pegboard.core.errors import Unavailable
from pegboard.core.secrets.handles import Placeholders
from pegboard.ports.shell import ExecOutcome
from tests.ledger import owes
from tests.net.tls import TestAuthority
from tests.shell.kit import run, shell_in

VALUE = "glpat-value-0123456789abcdef"
BASIC = "Basic " + base64.b64encode(f"me:{VALUE}".encode()).decode()


class _Site(ThreadingHTTPServer):
    """An https server on loopback; paths of `pages` have these answers, others get their own request back."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.credential = ""
        """What `Authorization` must be; empty = anything."""
        self.repositories: Path | None = None
        """Repositories that git's own program serves."""
        self.seen: list[tuple[str, str, dict[str, str]]] = []


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Site

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.command, self.path, headers))
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(headers.get("content-length", 0)))
        if self.server.credential and headers.get("authorization") != self.server.credential:
            self._send(401, {"WWW-Authenticate": 'Basic realm="test"'}, b"who are you?")
        elif self.server.repositories is not None:
            self._git(self.server.repositories, headers, body)
        elif self.path in self.server.pages:
            self._send(*self.server.pages[self.path])
        else:
            echo = f"{self.requestline}\n{self.headers}\n".encode() + body
            self._send(200, {"Content-Type": "text/plain"}, echo)

    do_GET = do_POST = do_PUT = _answer

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _git(self, folder: Path, headers: dict[str, str], body: bytes) -> None:
        """See git-http-backend(1)."""
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, check=True,
            env={
                **os.environ, "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "me",
                "CONTENT_TYPE": headers.get("content-type", ""), "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
                "GIT_PROTOCOL": headers.get("git-protocol", ""),
            },
        )  # fmt: skip
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(fields.pop("Status", "200 OK").split()[0])
        self._send(status, fields, rest)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("tls"))


@contextmanager
def serving(context: ssl.SSLContext) -> Generator[_Site]:
    made = _Site(context)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()


@pytest.fixture
def site(authority: TestAuthority) -> Generator[_Site]:
    """The host that the secret is bound to."""
    with serving(authority.server("api.example")) as made:
        yield made


@pytest.fixture
def elsewhere(authority: TestAuthority) -> Generator[_Site]:
    """Another host that commands may reach."""
    with serving(authority.server("other.example")) as made:
        yield made


async def to_loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class _Commands:
    """Runs commands in the sandbox; `{site}` and `{held}` in them are the site's URL and the place holder."""

    def __init__(self, folder: Path, authority: TestAuthority, site: _Site, elsewhere: _Site) -> None:
        self._folder, self._authority = folder, authority
        self._hosts = (f"api.example:{site.server_port}", f"other.example:{elsewhere.server_port}")
        self._held = Placeholders()
        self.held = self._held.for_secret("tok", VALUE, ("api.example:*",))
        self.places = {"{held}": self.held, "{site}": f"https://{self._hosts[0]}",
                       "{elsewhere}": f"https://{self._hosts[1]}"}  # fmt: skip

    async def run(
        self, command: str, *, trusting: bool = True, ca_file: Path | None = None, **options: object
    ) -> ExecOutcome:
        shell = await shell_in(
            self._folder, placeholders=self._held, resolve=to_loopback, egress_cidrs=("127.0.0.0/8",),
            ca_file=str(ca_file or self._authority.file) if trusting else None,
        )  # fmt: skip
        for name, text in self.places.items():
            command = command.replace(name, text)
        outcome = await run(shell, command, hosts=self._hosts, timeout_s=60.0, **options)
        assert VALUE not in outcome.stdout + outcome.stderr
        return outcome


@pytest.fixture
def commands(tmp_path: Path, authority: TestAuthority, site: _Site, elsewhere: _Site) -> _Commands:
    return _Commands(tmp_path, authority, site, elsewhere)


@owes("G-18", "G-11")
async def test_curl_sends_the_value_to_the_bound_host_and_the_place_holder_to_another(
    commands: _Commands, site: _Site, elsewhere: _Site
) -> None:
    outcome = await commands.run(
        "curl -sS -u me:{held} -H 'X-Key: {held}' -d token={held} '{site}/a?key={held}' {site}/b; "
        "curl -sS -u me:{held} {elsewhere}/c"
    )

    assert outcome.exit_code == 0, outcome.stderr
    assert [(path, headers["authorization"]) for _, path, headers in site.seen] == [
        (f"/a?key={VALUE}", BASIC),
        ("/b", BASIC),
    ]
    assert site.seen[0][2]["x-key"] == VALUE
    # What came back: the request line, the header, the body of both.
    assert outcome.stdout.count(commands.held) == 5
    assert (
        base64.b64decode(elsewhere.seen[0][2]["authorization"].split()[1]) == f"me:{commands.held}".encode()
    )
    assert outcome.notes == ()


@owes("G-18")
async def test_a_redirect_takes_no_value_to_another_host(
    commands: _Commands, site: _Site, elsewhere: _Site
) -> None:
    to = f"{commands.places['{elsewhere}']}/there?key={VALUE}"
    site.pages["/go"] = (302, {"Location": to}, b"")

    outcome = await commands.run("curl -sS -L --location-trusted -H 'X-Key: {held}' {site}/go")

    assert outcome.exit_code == 0, outcome.stderr
    assert site.seen[0][2]["x-key"] == VALUE
    assert elsewhere.seen[0][1] == f"/there?key={commands.held}"
    assert elsewhere.seen[0][2]["x-key"] == commands.held


@owes("G-18")
async def test_pythons_own_client_and_nodes_use_it(commands: _Commands, site: _Site) -> None:
    python = (
        "import os, urllib.request as u; "
        "r = u.Request('{site}/py', headers={'Authorization': 'Bearer ' + os.environ['K']}); "
        "print(u.urlopen(r).status)"
    )
    outcome = await commands.run(f"python3 -c {shlex.quote(python)}", env={"K": commands.held})

    assert (outcome.stdout, outcome.exit_code) == ("200\n", 0), outcome.stderr
    if shutil.which("node"):
        script = (
            "const u = new URL('{site}/js'), http = require('http'), tls = require('tls');"
            "http.request({host: '127.0.0.1', port: 3128, method: 'CONNECT', path: u.host}).on('connect', (_, socket) =>"
            " require('https').get({host: u.hostname, path: u.pathname, headers: {Host: u.host, 'X-Key': '{held}'},"
            " createConnection: () => tls.connect({socket, servername: u.hostname})},"
            " r => { console.log(r.statusCode); process.exit() })).end()"
        )
        node = await commands.run(f"node -e {shlex.quote(script)}")
        assert (node.stdout, node.exit_code) == ("200\n", 0), node.stderr
    assert site.seen[0][2]["authorization"] == f"Bearer {VALUE}"
    assert [headers.get("x-key") for _, path, headers in site.seen if path == "/js"] in ([], [VALUE])


@pytest.mark.slow
@owes("G-18")
async def test_git_clones_and_pushes_with_a_password(
    commands: _Commands, site: _Site, tmp_path: Path
) -> None:
    repositories = tmp_path / "served"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repositories / "a.git"], check=True)
    subprocess.run(["git", "-C", repositories / "a.git", "config", "http.receivepack", "true"], check=True)
    site.repositories, site.credential = repositories, BASIC
    url = commands.places["{site}"].replace("https://", "https://me:{held}@") + "/a.git"

    outcome = await commands.run(
        f"git clone -q {url} a 2>&1 && cd a && git checkout -q -b main && head -c 3000000 /dev/urandom > big"
        " && git add big && git -c user.name=n -c user.email=e@x commit -q -m first && git push -q origin main"
        f" && git clone -q {url} ../b && sha256sum big ../b/big"
        ' && git -c http.extraHeader="Authorization: Basic $(printf me:{held} | base64 -w0)" ls-remote {site}/a.git main'
    )

    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    one, two = [line.split()[0] for line in outcome.stdout.splitlines() if "big" in line]
    assert one == two
    assert outcome.stdout.endswith("\trefs/heads/main\n")
    log = subprocess.run(["git", "-C", repositories / "a.git", "log", "--format=%s", "main"],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert log.stdout == "first\n"


@pytest.mark.slow
@owes("G-18")
async def test_pip_downloads_from_an_index_with_a_password(commands: _Commands, site: _Site) -> None:
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("tiny.py", "here = True\n")
        made.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        made.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr("tiny-1.0.dist-info/RECORD", "")
    link = b'<a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>'
    site.pages["/simple/tiny/"] = (200, {"Content-Type": "text/html"}, link)
    site.pages["/tiny-1.0-py3-none-any.whl"] = (200, {}, wheel.getvalue())
    site.credential = BASIC
    index = commands.places["{site}"].replace("https://", "https://me:{held}@") + "/simple/"

    outcome = await commands.run(
        f"python3 -m pip download -q --no-cache-dir --disable-pip-version-check --index-url {index} tiny && ls *.whl"
    )

    assert outcome.stdout.endswith("tiny-1.0-py3-none-any.whl\n"), outcome.stdout + outcome.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm cannot be had here")
@owes("G-18")
async def test_npm_reads_a_registry_with_a_token(commands: _Commands, site: _Site) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        about = b'{"name": "tiny", "version": "1.0.0"}'
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(about)
        made.addfile(entry, io.BytesIO(about))
    digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    where = commands.places["{site}"]
    site.pages["/tiny"] = (200, {"Content-Type": "application/json"}, (
        '{"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "tiny", "version": "1.0.0",'
        f' "dist": {{"tarball": "{where}/tiny.tgz", "integrity": "sha512-{digest}"}}}}}}}}').encode())  # fmt: skip
    site.pages["/tiny.tgz"] = (200, {"Content-Type": "application/octet-stream"}, packed.getvalue())
    site.credential = f"Bearer {VALUE}"
    registry = where.removeprefix("https:")

    outcome = await commands.run(
        f"printf '%s\\n' 'registry={{site}}/' '{registry}/:_authToken=${{K}}' > .npmrc && echo '{{}}' > package.json && "
        "npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 tiny && cat node_modules/tiny/package.json",
        env={"K": commands.held},
    )

    assert '"name": "tiny"' in outcome.stdout, outcome.stdout + outcome.stderr


@owes("G-18")
async def test_the_certificates_of_other_hosts_are_checked_as_ever(
    commands: _Commands, elsewhere: _Site
) -> None:
    """The file of roots holds the system's; without the setting nobody trusts the authority of this test."""
    known = await commands.run(
        "curl -sS {elsewhere}/x >/dev/null && echo {held} | wc -l; grep -c BEGIN $SSL_CERT_FILE"
    )
    unknown = await commands.run("curl -sS {elsewhere}/x; echo {held}", trusting=False)

    system = len(ssl.create_default_context().get_ca_certs())
    assert known.stdout.split() == ["1", str(system + 2)]
    assert "unable to get local issuer certificate" in unknown.stderr and len(elsewhere.seen) == 1


@owes("G-18")
async def test_a_wrong_certificate_of_the_bound_host_is_an_answer_that_says_so(
    commands: _Commands, site: _Site
) -> None:
    outcome = await commands.run("curl -sS -H 'X-Key: {held}' {site}/", trusting=False)

    assert "unable to get local issuer certificate" in outcome.stdout
    assert "ca_file" in outcome.notes[0] and site.seen == []


@owes("G-18")
async def test_a_program_that_pins_its_authority_fails_and_the_notes_say_why(
    commands: _Commands, site: _Site, tmp_path: Path, authority: TestAuthority
) -> None:
    (tmp_path / "ws").mkdir()
    shutil.copy(authority.file, tmp_path / "ws" / "pinned.pem")

    outcome = await commands.run("curl -sS --cacert pinned.pem -H 'X-Key: {held}' {site}/")

    assert outcome.exit_code == 60 and site.seen == []
    assert "ended the TLS handshake" in outcome.notes[0] and "UNKNOWN_CA" in outcome.notes[0]


@owes("G-18")
async def test_the_authoritys_key_is_nowhere_in_the_sandbox(commands: _Commands) -> None:
    """No file, variable, argument, descriptor or memory of a process that a command can see holds one."""
    look = (
        "curl -sS -H 'X-Key: {held}' {site}/ >/dev/null; K='PRIVATE[ ]KEY'; "
        'grep -rlsI "$K" /etc /tmp /run "$HOME" . ; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -ac "$K";'
        "ls /proc | grep -c '^[0-9]'; ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c leaf; "
        "stat -c '%a %U' /etc/pegboard/ca-bundle.pem; echo x >> /etc/pegboard/ca-bundle.pem"
    )

    outcome = await commands.run(look)

    found = outcome.stdout.splitlines()
    assert [line for line in found if "/" in line and not line.startswith("/etc/ssl")] == []
    assert found[-4] == "0" and found[-2:] == ["0", "444 user"]
    # Our own process, which has it, is not among those few.
    assert int(found[-3]) < 12
    assert "Permission denied" in outcome.stderr or "Read-only" in outcome.stderr


async def test_a_broken_file_of_authorities_is_named_before_the_command_starts(
    tmp_path: Path, authority: TestAuthority, site: _Site, elsewhere: _Site
) -> None:
    commands = _Commands(tmp_path, authority, site, elsewhere)
    authority_file = tmp_path / "broken.pem"
    authority_file.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")

    with pytest.raises(Unavailable, match="malformed"):
        await commands.run("touch started; echo {held}", ca_file=authority_file)

    assert not (tmp_path / "ws" / "started").exists()


async def test_a_command_without_secrets_keeps_the_variables_of_the_system(
    commands: _Commands, elsewhere: _Site
) -> None:
    outcome = await commands.run("echo ${GIT_SSL_CAINFO-unset}; ls /etc/pegboard", trusting=False)

    assert outcome.stdout == "unset\n" and "No such file" in outcome.stderr


async def test_a_variable_that_the_call_sets_itself_stays(commands: _Commands) -> None:
    outcome = await commands.run(
        "echo {held} | wc -l; echo $CURL_CA_BUNDLE", env={"CURL_CA_BUNDLE": "/mine.pem"}
    )

    assert outcome.stdout == "1\n/mine.pem\n"
