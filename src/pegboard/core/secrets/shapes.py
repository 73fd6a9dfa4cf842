"""The shapes of secrets whose values nobody knows, as rows; `forms` reads them.

Sources: the vendors' published token formats; RFC 3986 §3.2.1 (user information), RFC 7235 (authorization),
RFC 6265 (cookies), RFC 7468 (key blocks).
"""

from __future__ import annotations

from typing import Final

_OF_KEYS: Final = [
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
]
"""A key is secret where one of these words stands in front of it."""

MACROS: Final = {
    "<w>": "[A-Za-z0-9]",
    "<u>": "[A-Za-z0-9_-]",
    "<b>": "[A-Za-z0-9_+/=-]",
    "<C>": "[A-Z0-9]",
    "<uuid>": "<h>{8}(?:-<h>{4}){3}-<h>{12}",
    "<h>": "[a-f0-9]",
    "<s>": " ",
    "<digit>": r"(?=[A-Za-z_-]*\d)",
    "<upper>": r"(?=[a-z\d_-]*[A-Z])",
    "<letter>": r"(?=\d*[A-Za-z])",
    "<q>": r"\\{0,7}[\"']",
    "<char>": r"[^\s\"'$<>{}()\[\],;]",
    "<mixed>": r"(?=[^\s\"']{0,200}[A-Za-z])(?=[^\s\"']{0,200}[\d!#%^&*+/=~.@-])",
    "<of>": "(?:" + "|".join(f"(?<={word})|(?<={word}[_-])" for word in _OF_KEYS) + ")",
}
"""Classes of characters, what must stand somewhere in the letters that follow, and a quotation mark, which is
escaped once more at each level where the text is quoted in another."""

TOKENS: Final = r"""
openai        sk-(?:proj-|ant-(?:api\d\d-|admin\d\d-)?|or-v1-|svcacct-|admin-|live-|test-)?  <digit><u>{20,300}
github        gh[pousr]_                                  <w>{30,255}
github        github_pat_                                 [A-Za-z0-9_]{30,255}
gitlab        gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt)-  <u>{18,255}
aws           (?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)           <C>{16}
google        AIza                                        <u>{34,40}
google        GOCSPX-                                     <u>{20,60}
google        ya29\.                                      <u>{20,1000}
slack         xox[abeoprs](?:\.xox[bp])?-                 [A-Za-z0-9-]{10,255}
slack-app     xapp-\d-                                    <C>+-\d+-<w>{10,255}
telegram      \d{8,10}:AA                                 <u>{30,40}
discord       [MNO]<u>{22,27}\.                           <u>{6}\.<u>{27,45}
stripe        [rs]k_(?:live|test)_                        <w>{16,255}
svix          whsec_                                      [A-Za-z0-9+/=]{20,255}
npm           npm_                                        <w>{30,60}
pypi          pypi-                                       <u>{40,300}
huggingface   hf_                                         <w>{30,60}
sendgrid      SG\.                                        <u>{16,32}\.<u>{30,60}
brave         BSA                                         <u>{24,40}
groq          gsk_                                        <w>{30,80}
xai           xai-                                        <w>{40,120}
perplexity    pplx-                                       <w>{32,80}
tavily        tvly-(?:dev-|prod-)?                        <w>{20,60}
replicate     r8_                                         <w>{30,60}
age           AGE-SECRET-KEY-1                            <C>{40,80}
digitalocean  do[oprt]_v1_                                <w>{32,80}
shopify       shp(?:at|ca|pa|ss)_                         <w>{32,64}
square        sq0(?:atp|csp|idp)-                         <u>{20,50}
mailgun       key-                                        <digit><letter><w>{32}
twilio        SK                                          <h>{32}
linear        lin_(?:api|oauth)_                          <w>{30,60}
notion        ntn_                                        <w>{40,60}
notion        secret_                                     <w>{40,50}
figma         figd_                                       <u>{30,60}
docker        dckr_(?:pat|oat)_                           <u>{20,60}
supabase      sbp_                                        <w>{36,60}
vault         hv[sbr]\.                                   <u>{24,300}
postman       PMAK-                                       <w>{20,80}(?:-<w>{30,40})?
grafana       gl(?:sa|c)_                                 <b>{32,300}
newrelic      NRAK-                                       <C>{27}
fly           fly?o?_?v1_                                 <b>{30,600}
fly           FlyV1<s>                                    [A-Za-z0-9_+/=,-]{30,2000}
jwt           eyJ                                         <u>{8,2000}\.eyJ<u>{8,6000}\.<u>{16,2000}
matrix        syt_                                        <u>{10,60}_<w>{10,40}_<w>{4,10}
onepassword   ops_eyJ                                     <u>{30,3000}
sentry        sntry[su]_                                  <b>{32,300}
tailscale     tskey-(?:api|auth|client|scim|webhook)-     [A-Za-z0-9-]{20,120}
rubygems      rubygems_                                   <w>{40,60}
pulumi        pul-                                        <w>{36,60}
atlassian     ATATT3x                                     [A-Za-z0-9_=-]{40,300}
nvidia        nvapi-                                      <u>{32,120}
cerebras      csk-                                        <digit><w>{32,80}
firecrawl     fc-                                         <digit><w>{32}
langsmith     lsv2_(?:pt|sk)_                             [A-Za-z0-9_]{32,80}
posthog       ph[cx]_                                     <w>{32,60}
jina          jina_                                       <u>{40,100}
databricks    dapi                                        <digit><w>{32}(?:-\d)?
easypost      EZ[AT]K                                     <w>{50,60}
terraform     (?:<w>{14}\.)?atlasv1\.                     <u>{40,100}
nuget         oy2                                         [a-z0-9]{43}
gitlab        GR1348941                                   <u>{20,30}
huggingface   api_org_                                    <w>{30,60}
brevo         x(?:key|smtp)sib-                           <h>{64}-<w>{16}
square        EAAA                                        <digit><u>{58,64}
facebook      EAACEdEose0cBA                              <w>{20,300}
heroku        HRKU-                                       <u>{36,80}
supabase      sb_secret_                                  <u>{20,60}
newrelic      NRII-                                       <u>{32}
atlassian     ATCTT3x                                     [A-Za-z0-9_=-]{40,300}
atlassian     ATBB                                        <digit><w>{32,40}
fireworks     fw_                                         <digit><w>{22,30}
together      tgp_v1_                                     <u>{40,60}
elevenlabs    sk_                                         <digit><h>{48}
voyage        pa-                                         <digit><upper><u>{43}
airtable      pat                                         <w>{14}\.<h>{64}
hubspot       pat-(?:na|eu|ap)\d-                         <uuid>
clickup       pk_\d{5,10}_                                <C>{32}
google        1//0                                        <u>{40,120}
amazon-mws    amzn\.mws\.                                 <uuid>
bedrock       ABSK                                        [A-Za-z0-9+/]{60,300}={0,2}
jwe           eyJ                                         <u>{8,2000}\.<u>{0,1000}\.<u>{10,100}\.<u>{2,8000}\.<u>{20,40}
mapbox        sk\.eyJ                                     <u>{20,400}\.<u>{20,40}
dropbox       sl\.                                        <digit><u>{100,1500}
fly-org       fo1_                                        <u>{40,60}
render        (?:rnd|nfp|napi|pnu|tfp|rdme|bkua)_         <digit><u>{30,90}
planetscale   pscale_(?:tkn|pw|oauth)_                    [A-Za-z0-9_.=-]{30,70}
doppler       dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,40}\.)?  <w>{40,50}
infracost     ico-                                        <digit><w>{32}
artifactory   AKCp                                        <w>{60,80}
artifactory   cmVmdGtu                                    <w>{50,60}
duffel        duffel_(?:live|test)_                       [A-Za-z0-9_=-]{40,50}
frameio       fio-u-                                      [A-Za-z0-9_=-]{60,70}
scalingo      tk-us-                                      <u>{44,52}
contentful    CFPAT-                                      <u>{40,50}
sonar         sq[upa]_                                    <h>{40}
circleci      CCIPAT_                                     <w>{20,24}_<h>{40}
launchdarkly  sdk-                                        <uuid>
crates        cio                                         <digit><upper><w>{32}
asana         2/\d{10}                                    \d{0,10}/\d{10,20}:<h>{32}
"""
"""Tokens that are known by how they begin: vendor, beginning, what follows. The first that fits counts."""

CONTEXTS: Final[tuple[tuple[str, tuple[str, ...], int, str], ...]] = (
    # Name; words of which one must stand there, in lower case; how far in front of it the pattern begins; pattern.
    # The pattern's group says what is taken: `token` always, `value` unless it is a reference, `plain` unless it is
    # a reference or code.
    ("key block", ("-----begin ",), 0,
     r"-----BEGIN (?P<kind>(?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?)-----(?P<token>(?:[^-]|-(?!----)){1,16000})(?:-----END (?P=kind)-----)?"),
    ("putty key", ("private-lines:",), 0, r"Private-Lines: \d{1,4}\s{1,2}(?P<token>(?:[A-Za-z0-9+/=]{1,80}\r?\n?){1,200})"),
    ("azure secret", ("q~",), 4, r"(?<![A-Za-z0-9_.~-])(?P<token>[A-Za-z0-9_.]{3}\dQ~[A-Za-z0-9_.~-]{31,36})(?!<w>)"),
    ("mailchimp", ("-us",), 32, r"(?<!<w>)(?P<token><h>{32}-us\d{1,2})(?!<w>)"),
    # One slash: a path in which the address stood as a name has lost the other. A user name alone may be a token:
    # long, with a digit and both cases.
    ("url", (":/",), 0,
     r":/{1,2}(?:[^\s:/@'\"]{0,100}:(?P<value>[^\s/@'\"$\[{<][^\s/@'\"]{0,200})"
     r"|(?=[a-z0-9_-]{0,80}[A-Z]|<h>{32}@)(?=[A-Za-z_-]{0,80}\d)(?P<token><u>{20,200}))(?=@)"),
    ("webhook", ("//",), 0,
     r"//(?:hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9/]{2,60}/|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/\d{15,22}/"
     r"|[a-z0-9-]{1,60}\.webhook\.office\.com/webhookb2/[a-f0-9@-]{70,80}/IncomingWebhook/|hooks\.zapier\.com/hooks/catch/\d{3,12}/)"
     r"(?P<value><u>{6,100})"),
    ("query", ("?", "&", "#"), 0,
     r"[?&#](?i:api[_-]?key|key|(?:access_|auth_|id_|refresh_)?token|auth|sig|(?:x-(?:amz|goog)-)?signature|secret|password|client_secret|code)"
     r"=(?P<value>[A-Za-z0-9._~%+/=-]{8,2000})"),
    ("header", ("authorization", "bearer", "x-"), 0,
     r"(?i:authorization(?:<q>)?\s{0,4}[:=]\s{0,4}(?:<q>)?(?:bearer|basic|token|apikey|api-?key|ssws|splunk|bot|genie\s?key)\s{1,4}"
     r"|bearer\s{1,4}(?=[A-Za-z0-9._~+/-]*\d)|x-(?:api-key|auth-token|subscription-token)(?:<q>)?\s{0,4}:\s{0,4}(?:<q>)?)"
     r"(?P<value>[A-Za-z0-9._~+/=:-]{12,4000})"),
    ("cookie", ("cookie:",), 0,
     r"(?i:cookie:)\s{0,4}(?:[^=\s;]{1,80}=[^=\s;]{0,200};\s{0,4}){0,20}?[^=\s;]{1,80}=(?P<value>[^\s;,\"']{12,4000})"),
    # From the last word of a name on; `key` alone is no such name. The shell's working folders are none either
    # (POSIX: absolute paths, as `env` and `declare` show them).
    ("name", ("key", "token", "secret", "pass", "pwd", "credential", "sessionid", "auth"), 0,
     r"(?!(?:\b|(?<=\bOLD))PWD[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?/)"
     r"(?i:(?:<of>key"
     r"|secret|token|passwd|password|passphrase|pwd|(?<![A-Za-z])pass|credentials?|sessionid|(?<![A-Za-z])auth)"
     r"(?:_base|_hash_salt)?(?:<q>)?[ \t]{0,4}"
     r"(?:(?:=|:(?!//)|=>|:=)[ \t]{0,4}(?P<quote><q>)(?P<value>[^\"'\r\n]{6,1000}?)(?P=quote)"
     r"|(?:=|:(?![/=])[ \t])[ \t]{0,3}<mixed>(?P<plain><char>{8,1000}+)(?!\()))"),
    ("option", ("--",), 0, r"(?i:--(?:[a-z]+-)?(?:password|passwd|token|secret|api-?key)[ \t]+)<mixed>(?P<value>(?!-)<char>{8,1001})"),
    ("netrc", ("login ",), 0, r"(?i:\blogin[ \t]\S{1,100}[ \t]+password[ \t]+)<mixed>(?P<value>(?!-)<char>{8,1001})"),
    ("sshpass", ("sshpass ",), 0, r"(?i:\bsshpass[ \t]+-p[ \t]*)<mixed>(?P<value>(?!-)<char>{8,1001})"),
    ("mysql", ("mysql",), 0, r"\bmysql(?:dump|admin|import)?\b[^\n]{0,200}?[ \t]-p(?P<value>[^\s\"'$-][^\s\"'$]{5,200})"),
    ("7z", ("7z",), 0, r"\b7z[ar]?\b[^\n]{0,200}?[ \t]-p(?P<value>[^\s\"'$-][^\s\"'$]{5,200})"),
    ("openssl", ("-pass",), 0, r"-pass(?:in|out)?[ \t]{1,4}pass:(?P<value>[^\s\"'$]{6,200})"),
    ("define", ("define(",), 0,
     r"\bdefine\([ \t]{0,4}[\"'][A-Z_]{0,60}(?:PASSWORD|SECRET|KEY|TOKEN|SALT)[\"'][ \t]{0,4},[ \t]{0,4}[\"'](?P<value>[^\"'\r\n]{6,1000})[\"']"),
    # `<token>` around a word is a grammar.
    ("element", ("<",), 0,
     r"<(?P<tag>(?i:password|passwd|secret|token(?!>[A-Za-z]+<)|api-?key))>(?P<value>[^<>\s$*]{6,1000})</(?P=tag)>"),
    ("curl", ("curl ",), 0, r"\bcurl\b[^\n]{0,500}?[ \t](?:-u|--user)[ \t]?[\"']?[^\s:\"'$]{1,100}:(?P<value>[^\s\"'$]{6,200})"),
)  # fmt: skip

REFERENCE: Final = r"(?i:\$|\{\{|<|%[A-Z_]+%|env:|file:|keyring:|cmd:|secret:|\.{1,2}/|~/|\*+$|x+$|\.\.\.|your[_-]|\[redacted:)"
"""How a value begins that only says where a secret is, or is a place holder."""
CODE: Final = r"(?i:os\.|process\.|self\.|config\.|settings\.|None|null|true|false|str\b|string\b|[\w.]+\()"
"""How an unquoted value begins that is an expression."""
