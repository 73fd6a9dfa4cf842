"""Secrets taken out of text: known values in all their spellings, and tokens known by their prefix.

A mark is `[redacted:ID]` with an ID that is the same wherever the same value stood, so that a reader can
tell two secrets apart and the runtime can tell whether a marked place stayed as it was (decisions 16).
Source: security.md, secrets; the vendors' published token formats.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

_MIN_KNOWN: Final = 6
_MIN_PART: Final = 12
TAIL_CHARS: Final = 16_384
"""How much a stream holds back at most: the longest secret that is found across pieces."""

# (?<![…]) and (?![…]) instead of \b: tokens may end in - or _.
_PREFIXED: Final = (
    r"sk-(?:proj-|ant-(?:api\d\d-|admin\d\d-)?|or-v1-|svcacct-|admin-|live-|test-)?(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{20,300}",
    r"gh[pousr]_[A-Za-z0-9]{30,255}",
    r"github_pat_[A-Za-z0-9_]{30,255}",
    r"gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt)-[A-Za-z0-9_-]{18,255}",
    r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{34,40}",
    r"GOCSPX-[A-Za-z0-9_-]{20,60}",
    r"ya29\.[A-Za-z0-9_-]{20,1000}",
    r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,255}",
    r"xapp-\d-[A-Z0-9]+-\d+-[A-Za-z0-9]{10,255}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{30,40}",
    r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}",
    r"whsec_[A-Za-z0-9+/=]{20,255}",
    r"npm_[A-Za-z0-9]{30,60}",
    r"pypi-[A-Za-z0-9_-]{40,300}",
    r"hf_[A-Za-z0-9]{30,60}",
    r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,60}",
    r"BSA[A-Za-z0-9_-]{24,40}",
    r"gsk_[A-Za-z0-9]{30,80}",
    r"xai-[A-Za-z0-9]{40,120}",
    r"pplx-[A-Za-z0-9]{32,80}",
    r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,60}",
    r"r8_[A-Za-z0-9]{30,60}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{40,80}",
    r"dop_v1_[a-f0-9]{60,70}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,50}",
    r"key-[a-f0-9]{32}",
    r"SK[a-f0-9]{32}",
    r"lin_(?:api|oauth)_[A-Za-z0-9]{30,60}",
    r"ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{40,50}",
    r"figd_[A-Za-z0-9_-]{30,60}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}",
    r"sbp_[a-f0-9]{40}",
    r"hv[sbr]\.[A-Za-z0-9_-]{24,300}",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    r"glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}",
    r"NRAK-[A-Z0-9]{27}",
    r"fly?o?_?v1_[A-Za-z0-9_+/=-]{30,600}|FlyV1 [A-Za-z0-9_+/=,-]{30,2000}",
    r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,6000}\.[A-Za-z0-9_-]{16,2000}",
    r"syt_[A-Za-z0-9_-]{10,60}_[A-Za-z0-9]{10,40}_[A-Za-z0-9]{4,10}",
    r"ops_eyJ[A-Za-z0-9_-]{30,3000}",
)
_NAME: Final = (
    r"(?:api[_-]?key|secret(?:[_-]?(?:key|access[_-]?key))?|access[_-]?key|private[_-]?key|token|passwd|password|passphrase|pwd"
    r"|credentials?|sessionid|auth[_-]?key|signing[_-]?key|encryption[_-]?key)"
)
_VALUE_END: Final = r"[^\s\"'$<>{}()\[\],;]"
# Three passes, each begun by literal letters so that the search can skip; a lookbehind in front would stop that.
_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<kind>(?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?)-----(?P<pem>(?:[^-]|-(?!----)){1,16000})-----END (?P=kind)-----"
)
_TOKEN: Final = re.compile(r"(?P<token>" + "|".join(_PREFIXED) + r")(?![A-Za-z0-9])")
_URL: Final = re.compile(r"://[^\s:/@'\"]{0,100}:(?P<urlpass>[^\s/@'\"$\[{<][^\s/@'\"]{0,200})(?=@)")
_HEADER: Final = re.compile(
    r"(?i:(?:authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token|apikey)\s{1,4}|bearer\s{1,4}(?=[A-Za-z0-9._~+/-]*\d)"
    r"|x-(?:api-key|auth-token|subscription-token)[\"']?\s{0,4}:\s{0,4}[\"']?)(?P<headval>[A-Za-z0-9._~+/=:-]{12,4000})"
    r"|cookie:\s{0,4}[^=\s;]{1,80}=(?P<cookieval>[^\s;,\"']{12,4000}))"
)
_QUERY: Final = re.compile(
    r"[?&](?i:api[_-]?key|key|token|access_token|auth|sig|signature|secret|password|client_secret|code)=(?P<queryval>[A-Za-z0-9._~%+/=-]{8,2000})"
)
_ASSIGNED: Final = re.compile(
    r"(?i:"
    + _NAME
    + r"[\"']?[ \t]{0,4}(?:(?:=|:(?!//)|=>|:=)[ \t]{0,4}(?P<quote>[\"'])(?P<quoted>[^\"'\r\n]{6,1000})(?P=quote)"
    r"|(?:=|:(?![/=])[ \t])[ \t]{0,3}"
    r"(?P<plain>(?=[^\s\"']{0,200}[A-Za-z])(?=[^\s\"']{0,200}[\d!#%^&*+/=~.@-])" + _VALUE_END + r"{8,1000})))"
)
_UNWRAP: Final = re.compile(r"\r?\n[ \t>|]{0,8}")
# Cheap looks that let clean text through: a character that must stand there, then beginnings of tokens.
_HINTS: Final = (
    ("_", tuple(["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "k_live_", "k_test_", "whsec_", "npm_", "hf_", "gsk_", "r8_", "dop_v1_", "shpat_", "shpca_", "shppa_", "shpss_", "lin_", "ntn_", "secret_", "figd_", "dckr_", "sbp_", "glsa_", "v1_", "syt_", "ops_eyJ"])),
    ("-", tuple(["sk-", "gl", "-----BEGIN", "xox", "xapp-", "pypi-", "xai-", "pplx-", "tvly-", "AGE-SECRET", "GOCSPX-", "key-", "sq0", "PMAK-", "NRAK-"])),
    (".", tuple(["SG.", "ya29.", "eyJ", "hvs.", "hvb.", "hvr.", "M", "N", "O"])),
    (":", (":AA",)),
    ("A", ("AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA", "AIza", "BSA")),
    ("S", ("SK",)),
    ("F", ("FlyV1",)),
)  # fmt: skip
_ASSIGN_WORDS: Final = ("key", "token", "secret", "passw", "passphrase", "pwd", "credential", "sessionid")
_HEADER_WORDS: Final = (
    "bearer",
    "authorization",
    "x-api-key",
    "x-auth-token",
    "x-subscription-token",
    "cookie:",
)


def _wanted(text: str) -> Iterator[re.Pattern[str]]:
    """The patterns that can have a match in the text at all."""
    if "PRIVATE KEY" in text:
        yield _BLOCK
    if any(gate in text and any(hint in text for hint in hints) for gate, hints in _HINTS):
        yield _TOKEN
    if "://" in text:
        yield _URL
    if "=" in text and ("?" in text or "&" in text):
        yield _QUERY
    if "=" in text or ":" in text or "earer" in text:
        lowered = text.lower()
        if any(word in lowered for word in _HEADER_WORDS):
            yield _HEADER
        if any(word in lowered for word in _ASSIGN_WORDS):
            yield _ASSIGNED


_REFERENCE: Final = re.compile(
    r"^(?:\$|\{\{|<|%[A-Z_]+%|env:|file:|keyring:|cmd:|secret:|\*+$|x+$|\.\.\.|your[_-]|\[redacted:)",
    re.IGNORECASE,
)
_CODE: Final = re.compile(
    r"^(?:os\.|process\.|self\.|config\.|settings\.|None|null|true|false|str\b|string\b|[\w.]+\()",
    re.IGNORECASE,
)


def mark(value: str) -> str:
    """The mark that stands for a value: `[redacted:` and eight hex digits of its SHA-256."""
    return f"[redacted:{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"


class Redactor:
    """Takes secrets out of text.

    Args:
        values: known secrets by name; values under 6 characters are not looked for, since they would
            hit ordinary words. All share one mark with their encoded spellings.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._learn(values or {})

    def learn(self, values: Mapping[str, str]) -> None:
        """Know further secrets from now on, for example one that was just looked up in a keyring."""
        if any(value not in self._values.values() for value in values.values()):
            self._learn(values)

    def _learn(self, values: Mapping[str, str]) -> None:
        self._values = {**self._values, **{f"{name}\0{value}": value for name, value in values.items()}}
        self._marks: dict[str, str] = {}
        self._ends: list[tuple[str, str]] = []
        wrapped: list[str] = []
        for value in self._values.values():
            if len(value) < _MIN_KNOWN:
                continue
            for spelling in _spellings(value):
                self._marks.setdefault(spelling, mark(value))
            if len(value) >= _MIN_PART:
                # Broken over lines by a terminal or a mail program, at any one place or more.
                wrapped.append(r"(?:\r?\n[ \t>|]{0,8})?".join(re.escape(char) for char in value))
                self._ends.append((value[:6], value[-6:]))
        ordered = sorted(self._marks, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._wrapped = re.compile("|".join(wrapped)) if wrapped else None
        self.longest = max((len(spelling) for spelling in ordered), default=0) * 2

    def redact(self, text: str) -> tuple[str, bool]:
        """The text with marks for secrets, and whether any was found. The same text where none was."""
        out = text
        if self._known is not None and any(spelling in out for spelling in self._marks):
            out = self._known.sub(lambda m: self._marks[m[0]], out)
        if self._wrapped is not None and "\n" in out and any(a in out or b in out for a, b in self._ends):
            out = self._wrapped.sub(lambda m: mark(_UNWRAP.sub("", m[0])), out)
        for pattern in tuple(_wanted(out)):
            out = pattern.sub(_replaced, out)
        return out, out != text

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets stand, for a stream that must not part one."""
        for pattern in (self._known, self._wrapped, *_wanted(text)):
            if pattern is not None:
                for match in pattern.finditer(text):
                    yield match.span()

    def stream(self) -> StreamRedactor:
        """A filter for text that comes in pieces."""
        return StreamRedactor(self)


class StreamRedactor:
    """Redacts text that arrives in pieces; what may be the beginning of a secret is held back.

    `feed` gives what can be shown already, `close` the rest. Joined, they hold the same marks as the whole
    text redacted at once, for secrets up to TAIL_CHARS.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self.found = False

    def feed(self, piece: str) -> str:
        """Take a piece; returns the text that is safe to show."""
        self._held += piece
        cut = self._cut()
        if cut <= 0:
            return ""
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._out(ready)

    def close(self) -> str:
        """The rest; the filter may be used again afterwards."""
        ready, self._held = self._held, ""
        return self._out(ready)

    def _out(self, text: str) -> str:
        shown, found = self._redactor.redact(text)
        self.found = self.found or found
        return shown

    def _cut(self) -> int:
        """Where the held text may be parted: at a line end in front of the tail, outside any key block."""
        held = self._held
        limit = len(held) - max(self._redactor.longest, 1)
        begin = held.rfind("-----BEGIN ")
        if begin >= 0 and "-----END " not in held[begin + 11 :] and len(held) - begin < TAIL_CHARS:
            limit = min(limit, begin)
        cut = held.rfind("\n", 0, max(limit, 0)) + 1
        if cut:
            # Some secrets go over a line end, so none may lie across the cut.
            start = max(0, cut - self._redactor.longest - 1024)
            for first, last in self._redactor.spans(held[start : cut + self._redactor.longest + 1024]):
                if start + first < cut < start + last:
                    cut = held.rfind("\n", 0, start + first) + 1
        if cut == 0 and len(held) > TAIL_CHARS + max(self._redactor.longest, 1):
            # A line without end: part it in front of the last blank that is far enough back.
            space = held.rfind(" ", 0, len(held) - TAIL_CHARS)
            cut = space if space > 0 else len(held) - TAIL_CHARS
        return cut


def _replaced(match: re.Match[str]) -> str:
    group = match.lastgroup if match.lastgroup != "quote" else "quoted"
    group = "pem" if group == "kind" else group or ""
    value = match[group]
    if group == "token":
        # `task-…` holds `sk-…`; a token begins where a word begins.
        if match.start() and match.string[match.start() - 1].isalnum():
            return match[0]
    elif group != "pem" and (_REFERENCE.match(value) or (group == "plain" and _CODE.match(value))):
        return match[0]
    start = match.start(group) - match.start()
    return match[0][:start] + mark(value) + match[0][start + len(value) :]


def _spellings(value: str) -> Iterator[str]:
    """The value and the forms in which it is copied about: base64 at each offset, hex, percent, reversed, JSON."""
    yield value
    raw = value.encode("utf-8", "surrogatepass")
    for encoded in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
        yield encoded
        if len(encoded.rstrip("=")) >= _MIN_PART:
            yield encoded.rstrip("=")
    # Inside a longer base64 text the value stands at one of three offsets; its inner letters are the same.
    for offset in (0, 1, 2):
        inner = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")[(offset + 1) * (offset > 0) : -2]
        if len(inner) >= _MIN_PART:
            yield inner
    for spelling in (raw.hex(), "".join(f"%{byte:02x}" for byte in raw)):
        yield spelling
        yield spelling.upper()
    yield quote(value, safe="")
    if len(value) >= _MIN_PART:
        yield value[::-1]
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    if escaped != value:
        yield escaped
