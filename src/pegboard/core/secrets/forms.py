"""What secrets look like where nobody knows their values: vendors' tokens, key blocks, and what stands behind a name.

Each finder first looks for the letters that must stand there (`str.find` runs at the speed of memory) and
tries its pattern at those places only: nearly all text holds none, and all text passes here.
Source: security.md, secrets; the vendors' published token formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

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
    r"do[oprt]_v1_[A-Za-z0-9]{32,80}",
    r"shp(?:at|ca|pa|ss)_[A-Za-z0-9]{32,64}",
    r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,50}",
    r"key-(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{32}",
    r"SK[a-f0-9]{32}",
    r"lin_(?:api|oauth)_[A-Za-z0-9]{30,60}",
    r"ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{40,50}",
    r"figd_[A-Za-z0-9_-]{30,60}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}",
    r"sbp_[A-Za-z0-9]{36,60}",
    r"hv[sbr]\.[A-Za-z0-9_-]{24,300}",
    r"PMAK-[A-Za-z0-9]{20,80}(?:-[A-Za-z0-9]{30,40})?",
    r"gl(?:sa|c)_[A-Za-z0-9_+/=-]{32,300}",
    r"NRAK-[A-Z0-9]{27}",
    r"fly?o?_?v1_[A-Za-z0-9_+/=-]{30,600}|FlyV1 [A-Za-z0-9_+/=,-]{30,2000}",
    r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,6000}\.[A-Za-z0-9_-]{16,2000}",
    r"syt_[A-Za-z0-9_-]{10,60}_[A-Za-z0-9]{10,40}_[A-Za-z0-9]{4,10}",
    r"ops_eyJ[A-Za-z0-9_-]{30,3000}",
    r"sntry[su]_[A-Za-z0-9_+/=-]{32,300}",
    r"tskey-(?:api|auth|client|scim|webhook)-[A-Za-z0-9-]{20,120}",
    r"rubygems_[A-Za-z0-9]{40,60}",
    r"pul-[A-Za-z0-9]{36,60}",
    r"ATATT3x[A-Za-z0-9_=-]{40,300}",
    r"nvapi-[A-Za-z0-9_-]{32,120}",
    r"csk-(?=[A-Za-z]*\d)[A-Za-z0-9]{32,80}",
    r"fc-(?=[A-Za-z]*\d)[A-Za-z0-9]{32}",
    r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{32,80}",
    r"ph[cx]_[A-Za-z0-9]{32,60}",
    r"jina_[A-Za-z0-9_-]{40,100}",
    r"dapi(?=[A-Za-z]*\d)[A-Za-z0-9]{32}(?:-\d)?",
    r"EZ[AT]K[A-Za-z0-9]{50,60}",
    r"(?:[A-Za-z0-9]{14}\.)?atlasv1\.[A-Za-z0-9_-]{40,100}",
    r"oy2[a-z0-9]{43}",
    r"GR1348941[A-Za-z0-9_-]{20,30}",
    r"api_org_[A-Za-z0-9]{30,60}",
    r"x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
    r"EAAA(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{58,64}|EAACEdEose0cBA[A-Za-z0-9]{20,300}",
    r"HRKU-[A-Za-z0-9_-]{36,80}",
    r"sb_secret_[A-Za-z0-9_-]{20,60}",
    r"NRII-[A-Za-z0-9_-]{32}",
    r"ATCTT3x[A-Za-z0-9_=-]{40,300}|ATBB(?=[A-Za-z]*\d)[A-Za-z0-9]{32,40}",
    r"fw_(?=[A-Za-z]*\d)[A-Za-z0-9]{22,30}",
    r"tgp_v1_[A-Za-z0-9_-]{40,60}",
    r"sk_(?=[a-f]*\d)[a-f0-9]{48}",
    r"pa-(?=[A-Za-z_-]*\d)(?=[a-z\d_-]*[A-Z])[A-Za-z0-9_-]{43}",
    r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|pat-(?:na|eu|ap)\d-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    r"pk_\d{5,10}_[A-Z0-9]{32}",
    r"1//0[A-Za-z0-9_-]{40,120}",
    r"amzn\.mws\.[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    r"ABSK[A-Za-z0-9+/]{60,300}={0,2}",
    r"eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{0,1000}\.[A-Za-z0-9_-]{10,100}\.[A-Za-z0-9_-]{2,8000}\.[A-Za-z0-9_-]{20,40}",
    r"sk\.eyJ[A-Za-z0-9_-]{20,400}\.[A-Za-z0-9_-]{20,40}",
    r"sl\.(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{100,1500}",
    r"fo1_[A-Za-z0-9_-]{40,60}",
    r"(?:rnd|nfp|napi|pnu|tfp|rdme|bkua)_(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{30,90}",
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,70}",
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,40}\.)?[A-Za-z0-9]{40,50}",
    r"ico-(?=[A-Za-z]*\d)[A-Za-z0-9]{32}",
    r"AKCp[A-Za-z0-9]{60,80}|cmVmdGtu[A-Za-z0-9]{50,60}",
    r"duffel_(?:live|test)_[A-Za-z0-9_=-]{40,50}",
    r"fio-u-[A-Za-z0-9_=-]{60,70}",
    r"tk-us-[A-Za-z0-9_-]{44,52}",
    r"CFPAT-[A-Za-z0-9_-]{40,50}",
    r"sq[upa]_[a-f0-9]{40}",
    r"CCIPAT_[A-Za-z0-9]{20,24}_[a-f0-9]{40}",
    r"sdk-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    r"cio(?=[A-Za-z]*\d)(?=[a-z\d]*[A-Z])[A-Za-z0-9]{32}",
    r"2/\d{10,20}/\d{10,20}:[a-f0-9]{32}",
)
# What a token begins with, so that its pattern is tried at few places only; a token begins where a word begins.
# By first letter: where a word begins, each of the ways that stand here is tried.
_BEGIN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:A(?:(?:KIA|SIA|BIA|CCA|ROA|IDA)|Iza|GE-S|T(?:CTT|BB)|BSK|KCp|TATT)|a(?:pi_org_|mzn\.mws\.)|BSA|bkua_"
    r"|C(?:FPAT-|CIPAT_)|c(?:mVmdGtu|io|sk-)|d(?:o[oprt]_v|ckr_|p\.|uffel_|api)|E(?:AA[AC]|Z[AT]K)|eyJ"
    r"|FlyV1 |f(?:igd_|ly?o?_?v1_|w_|o1_|io-u-|c-)|G(?:OCSPX-|R1348941)"
    r"|g(?:h[pousr]_|ithub_pat_|l[a-z]{2,5}-|sk_|lc_|lsa_)|HRKU-|h(?:f_|v[sbr]\.)|ico-|jina_|key-"
    r"|l(?:in_|sv2_)|N(?:RAK-|RII-)|n(?:pm_|tn_|fp_|api_|vapi-)|o(?:ps_|y2)|PMAK-"
    r"|p(?:ypi-|plx-|a-|at|k_\d|nu_|scale_|ul-|h[cx]_)|r(?:8_|nd_|dme_|ubygems_)|S(?:G\.|K)"
    r"|s(?:k-|hp|q0|ecret_|bp_|yt_|b_secret_|k_|k\.eyJ|l\.|q[upa]_|dk-|ntry)|t(?:vly-|gp_|fp_|k-us-|skey-)"
    r"|whsec_|x(?:ox|app-|ai-|(?:key|smtp)sib-)|ya29\.|1//0|2/\d{10}|\d{8,10}:AA"
    r"|[MNO][A-Za-z0-9_-]{22,27}\.|[rs]k_|(?:[A-Za-z0-9]{14}\.)?atlasv1\.)"
)
# Every token has a part of at least so many of these characters; the mask marks them with x.
_RUN: Final = b"x" * 15
_IN_RUN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/="
_MASK: Final = bytes(120 if byte in _IN_RUN else 32 for byte in range(256))
_SHORT_PARTS: Final = (
    32  # characters of a token that may stand in front of its first long part, behind dots or a colon
)

_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<kind>(?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?)-----(?P<pem>(?:[^-]|-(?!----)){1,16000})(?:-----END (?P=kind)-----)?"
    r"|Private-Lines: \d{1,4}\s{1,2}(?P<putty>(?:[A-Za-z0-9+/=]{1,80}\r?\n?){1,200})"
)
_TOKEN: Final = re.compile(r"(?P<token>" + "|".join(_PREFIXED) + r")(?![A-Za-z0-9])")
# Tokens that are known by what stands inside them, not by how they begin.
_DOTTED: Final = re.compile(
    r"(?<![A-Za-z0-9_.~-])(?P<token>[A-Za-z0-9_.]{3}\dQ~[A-Za-z0-9_.~-]{31,36})(?![A-Za-z0-9])"
)
_SUFFIXED: Final = re.compile(r"(?<![A-Za-z0-9])(?P<token>[a-f0-9]{32}-us\d{1,2})(?![A-Za-z0-9])")
_URL: Final = re.compile(
    # One slash: a path in which the address stood as a name has lost the other.
    r":/{1,2}(?:[^\s:/@'\"]{0,100}:(?P<urlpass>[^\s/@'\"$\[{<][^\s/@'\"]{0,200})"
    # A user name alone may be a token: long, with a digit and both cases.
    r"|(?=[a-z0-9_-]{0,80}[A-Z]|[a-f0-9]{32}@)(?=[A-Za-z_-]{0,80}\d)(?P<urluser>[A-Za-z0-9_-]{20,200}))(?=@)"
)
_HOOK: Final = re.compile(
    r"//(?:hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9/]{2,60}/|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/\d{15,22}/"
    r"|[a-z0-9-]{1,60}\.webhook\.office\.com/webhookb2/[a-f0-9@-]{70,80}/IncomingWebhook/|hooks\.zapier\.com/hooks/catch/\d{3,12}/)"
    r"(?P<hook>[A-Za-z0-9_-]{6,100})"
)
_HEADER: Final = re.compile(
    r"(?i:(?:authorization(?:\\{0,7}[\"'])?\s{0,4}[:=]\s{0,4}(?:\\{0,7}[\"'])?(?:bearer|basic|token|apikey|api-?key|ssws|splunk|bot|genie\s?key)\s{1,4}|bearer\s{1,4}(?=[A-Za-z0-9._~+/-]*\d)"
    r"|x-(?:api-key|auth-token|subscription-token)(?:\\{0,7}[\"'])?\s{0,4}:\s{0,4}(?:\\{0,7}[\"'])?)(?P<headval>[A-Za-z0-9._~+/=:-]{12,4000})"
    r"|cookie:\s{0,4}(?:[^=\s;]{1,80}=[^=\s;]{0,200};\s{0,4}){0,20}?[^=\s;]{1,80}=(?P<cookieval>[^\s;,\"']{12,4000}))"
)
_HEADER_WORDS: Final = ("bearer", "authorization", "x-", "cookie:")
_QUERY: Final = re.compile(
    r"[?&#](?i:api[_-]?key|key|(?:access_|auth_|id_|refresh_)?token|auth|sig|(?:x-(?:amz|goog)-)?signature|secret|password|client_secret|code)=(?P<queryval>[A-Za-z0-9._~%+/=-]{8,2000})"
)
_VALUE_END: Final = r"[^\s\"'$<>{}()\[\],;]"
#: From the last word of a name on: `key` must have one of `_KEYS` in front.
_ASSIGNED: Final = re.compile(
    r"(?i:(?:key|secret|token|passwd|password|passphrase|pwd|(?<![A-Za-z])pass|credentials?|sessionid|(?<![A-Za-z])auth)"
    # A text that is quoted in another has its quotes escaped, once more at each level.
    r"(?:_base|_hash_salt)?(?:\\{0,7}[\"'])?[ \t]{0,4}(?:(?:=|:(?!//)|=>|:=)[ \t]{0,4}(?P<quote>\\{0,7}[\"'])(?P<quoted>[^\"'\r\n]{6,1000}?)(?P=quote)"
    r"|(?:=|:(?![/=])[ \t])[ \t]{0,3}"
    r"(?P<plain>(?=[^\s\"']{0,200}[A-Za-z])(?=[^\s\"']{0,200}[\d!#%^&*+/=~.@-])" + _VALUE_END + r"{8,1000})))"
)
_ASSIGN_WORDS: Final = ("key", "token", "secret", "pass", "pwd", "credential", "sessionid", "auth")
#: The shell's working folder and the one before it (POSIX: absolute paths), as `env` and `declare` show them.
_FOLDER: Final = re.compile(r"(?:\b|(?<=\bOLD))PWD[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?/")
#: A secret as an argument: `--password VALUE`, `machine h login u password VALUE`, `<password>VALUE</password>`.
_ARGUMENT: Final = re.compile(
    r"(?i:--(?:[a-z]+-)?(?:password|passwd|token|secret|api-?key)[ \t]+|\blogin[ \t]\S{1,100}[ \t]+password[ \t]+|\bsshpass[ \t]+-p[ \t]*)"
    r"(?P<argval>(?=[^\s\"']{0,200}[A-Za-z])(?=[^\s\"']{0,200}[\d!#%^&*+/=~.@])[^\s\"'$<>{}()\[\],;-][^\s\"'$<>{}()\[\],;]{7,1000})"
    r"|\bmysql(?:dump|admin|import)?\b[^\n]{0,200}?[ \t]-p(?P<mysqlpass>[^\s\"'$-][^\s\"'$]{5,200})"
    r"|\b7z[ar]?\b[^\n]{0,200}?[ \t]-p(?P<zippass>[^\s\"'$-][^\s\"'$]{5,200})"
    r"|-pass(?:in|out)?[ \t]{1,4}pass:(?P<sslpass>[^\s\"'$]{6,200})"
    r"|\bdefine\([ \t]{0,4}[\"'][A-Z_]{0,60}(?:PASSWORD|SECRET|KEY|TOKEN|SALT)[\"'][ \t]{0,4},[ \t]{0,4}[\"'](?P<defined>[^\"'\r\n]{6,1000})[\"']"
    r"|<(?P<tag>(?i:password|passwd|secret|token|api-?key))>(?P<tagval>[^<>\s$*]{6,1000})</(?P=tag)>"
    r"|\bcurl\b[^\n]{0,500}?[ \t](?:-u|--user)[ \t]?[\"']?[^\s:\"'$]{1,100}:(?P<userpass>[^\s\"'$]{6,200})"
)
_ARGUMENT_WORDS: Final = ("--", "login ", "sshpass", "<", "curl ", "mysql", "7z", "-pass", "define(")
_KEYS: Final = tuple(
    f"{word}{joint}"
    for word in (
        "api",
        "secret",
        "access",
        "private",
        "auth",
        "signing",
        "encryption",
        "account",
        "subscription",
        "master",
        "admin",
        "app",
        "service",
        "deploy",
        "shared",
        "webhook",
        "write",
        "license",
    )
    for joint in ("", "_", "-")
)

_REFERENCE: Final = re.compile(
    r"^(?:\$|\{\{|<|%[A-Z_]+%|env:|file:|keyring:|cmd:|secret:|\.{1,2}/|~/|\*+$|x+$|\.\.\.|your[_-]|\[redacted:)",
    re.IGNORECASE,
)
_CODE: Final = re.compile(
    r"^(?:os\.|process\.|self\.|config\.|settings\.|None|null|true|false|str\b|string\b|[\w.]+\()",
    re.IGNORECASE,
)


# A finder answers with an empty tuple where its letters are missing: a generator that yields nothing costs
# more than looking for the letters in a line of text, and there are nine of them for every text.


def blocks(text: str) -> Iterable[re.Match[str]]:
    """Private keys in PEM blocks."""
    return _BLOCK.finditer(text) if "PRIVATE KEY" in text or "Private-Lines: " in text else ()


def tokens(text: str) -> Iterable[re.Match[str]]:
    """Tokens known by how they begin."""
    mask = text.encode("ascii", "replace").translate(_MASK)
    return _tokens(text, mask) if _RUN in mask else ()


def _tokens(text: str, mask: bytes) -> Iterator[re.Match[str]]:
    at, done = mask.find(_RUN), 0
    while at >= 0:
        end = mask.find(b" ", at)
        end = len(mask) if end < 0 else end
        back = _SHORT_PARTS if at and text[at - 1] in ".:" else 6
        for begin in _BEGIN.finditer(text, max(done, at - back), end):
            if begin.start() >= done and (match := _TOKEN.match(text, begin.start())):
                yield match
                done = match.end()
        at = mask.find(_RUN, max(end, done))


def dotted(text: str) -> Iterable[re.Match[str]]:
    """Tokens known by the letters `Q~` inside them."""
    return _DOTTED.finditer(text) if "Q~" in text else ()


def suffixed(text: str) -> Iterable[re.Match[str]]:
    """Tokens known by the letters `-us` behind them."""
    return _SUFFIXED.finditer(text) if "-us" in text else ()


def urls(text: str) -> Iterable[re.Match[str]]:
    """Passwords in URLs."""
    return _URL.finditer(text) if ":/" in text and "@" in text else ()


def hooks(text: str) -> Iterable[re.Match[str]]:
    """The secret last part of chat services' webhook addresses."""
    if "//" in text and (
        "hooks.slack.com" in text
        or "/api/webhooks/" in text
        or "webhook.office.com" in text
        or "hooks.zapier" in text
    ):
        return _HOOK.finditer(text)
    return ()


def queries(text: str) -> Iterable[re.Match[str]]:
    """Values of telling query parameters."""
    return _QUERY.finditer(text) if "=" in text and ("?" in text or "&" in text or "#" in text) else ()


def headers(text: str) -> Iterable[re.Match[str]]:
    """Values of authorization headers and cookies."""
    places = _places(_lowered(text), _HEADER_WORDS)
    return _matches(_HEADER, text, places) if places else ()


def assigned(text: str) -> Iterable[re.Match[str]]:
    """Values behind a name such as `api_key` or `password`."""
    if "=" not in text and ":" not in text:
        return ()
    lowered = _lowered(text)
    places = _places(lowered, _ASSIGN_WORDS)
    return _assigned(text, lowered, places) if places else ()


def _assigned(text: str, lowered: str, places: Iterable[int]) -> Iterator[re.Match[str]]:
    done = 0
    for at in places:
        if at < done or not (match := _ASSIGNED.match(text, at)):
            continue
        if lowered.startswith("key", at) and not lowered.endswith(_KEYS, done, at):
            continue
        if _FOLDER.match(text, at):
            continue
        yield match
        done = match.end()


def arguments(text: str) -> Iterable[re.Match[str]]:
    """Secrets handed over as arguments of a command, in a netrc line or in an XML element."""
    places = _places(_lowered(text), _ARGUMENT_WORDS)
    return _matches(_ARGUMENT, text, places) if places else ()


def _matches(pattern: re.Pattern[str], text: str, places: Iterable[int]) -> Iterator[re.Match[str]]:
    """The matches that begin at these places, none inside another."""
    done = 0
    for at in places:
        if at >= done and (match := pattern.match(text, at)):
            yield match
            done = match.end()


def _places(lowered: str, words: Sequence[str]) -> list[int]:
    places: list[int] = []
    for word in words:
        # An operator, not a method: most words are in no text, and all text passes here.
        if word not in lowered:
            continue
        at = lowered.find(word)
        while at >= 0:
            places.append(at)
            at = lowered.find(word, at + 1)
    places.sort()
    return places


def _lowered(text: str) -> str:
    """Lower case of the same length: one letter of all (U+0130) becomes two."""
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()


def is_reference(value: str) -> bool:
    """Whether a value only says where a secret is, or is a place holder."""
    return _REFERENCE.match(value) is not None


def is_code(value: str) -> bool:
    """Whether an unquoted value is an expression."""
    return _CODE.match(value) is not None
