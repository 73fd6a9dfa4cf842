"""Forms of secrets of many vendors and tools, and what only looks like one (the values are made anew from a seed)."""

from __future__ import annotations

import random
import string

import pytest

from pegboard.core.secrets.redact import Redactor
from tests.ledger import owes

_HEX = "0123456789abcdef"
_SEED = 5


def _forms() -> dict[str, tuple[str, str]]:
    """Name -> (text, the secret in it). Nothing here is a literal token, so that scanners stay quiet."""
    rng = random.Random(_SEED)
    out: dict[str, tuple[str, str]] = {}
    hexd = _HEX

    def a(n: int, alphabet: str = string.ascii_letters + string.digits) -> str:
        while True:
            made = "".join(rng.choice(alphabet) for _ in range(n))
            if any(c.isdigit() for c in made) and any(c.isalpha() for c in made):
                return made

    def t(name: str, secret: str, text: str = "key is {} ok") -> None:
        out[name] = (text.format(secret), secret)

    t("anthropic", "sk-ant-api03-" + a(93) + "AA")
    t("openai svc", "sk-svcacct-" + a(60))
    t("openrouter", "sk-or-v1-" + a(64, hexd))
    t("gho", "gho_" + a(36))
    t("ghs", "ghs_" + a(36))
    t("ghr", "ghr_" + a(76))
    t("glpat", "glpat-" + a(20))
    t("glpat new", "glpat-" + a(27) + ".01." + a(9))
    t("gldt", "gldt-" + a(20))
    t("glcbt", "glcbt-64_" + a(20))
    t("GR1348941", "GR1348941" + a(20))
    t("ASIA", "ASIA" + a(16, string.ascii_uppercase + "234567"))
    t("xoxp", "xoxp-123456789012-123456789012-123456789012-" + a(32, hexd))
    t("xoxe", "xoxe.xoxp-1-" + a(146))
    t("xapp", "xapp-1-A0123456789-1234567890123-" + a(64, hexd))
    t("slack hook", a(24), "https://hooks.slack.com/services/T00000000/B00000000/{}")
    t("discord hook", a(68), "https://discord.com/api/webhooks/123456789012345678/{}")
    t(
        "teams hook",
        a(32, hexd),
        "https://contoso.webhook.office.com/webhookb2/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee@11111111-2222-3333-4444-555555555555/IncomingWebhook/{}/99999999-8888-7777-6666-555555555555",
    )
    t("stripe sk", "sk_live_" + a(24))
    t("stripe rk", "rk_live_" + a(24))
    t("stripe test", "sk_test_" + a(99))
    t("whsec", "whsec_" + a(32))
    t("npm", "npm_" + a(36))
    t("hf", "hf_" + a(34))
    t("hf org", "api_org_" + a(34))
    t("sendgrid", "SG." + a(22) + "." + a(43))
    t("mailgun", "key-" + a(32, hexd))
    t("mailchimp", a(32, hexd) + "-us14")
    t("brevo", "xkeysib-" + a(64, hexd) + "-" + a(16))
    t("twilio sk", "SK" + a(32, hexd))
    t("twilio ac auth", a(32, hexd), "TWILIO_AUTH_TOKEN={}")
    t("shopify", "shpat_" + a(32, hexd))
    t("square", "sq0atp-" + a(22))
    t("square eaaa", "EAAA" + a(60))
    t("do", "dop_v1_" + a(64, hexd))
    t("heroku", "HRKU-" + a(60))
    t("linear", "lin_api_" + a(40))
    t("notion", "ntn_" + a(46))
    t("notion old", "secret_" + a(43))
    t("figma", "figd_" + a(40))
    t("docker", "dckr_pat_" + a(27))
    t("supabase", "sbp_" + a(40, hexd))
    t("supabase secret", "sb_secret_" + a(22) + "_" + a(8))
    t("vault", "hvs." + a(95))
    t("vault old", "s." + a(24), "VAULT_TOKEN={}")
    t("postman", "PMAK-" + a(24, hexd) + "-" + a(34, hexd))
    t("grafana", "glsa_" + a(32) + "_" + a(8, hexd))
    t("newrelic", "NRAK-" + a(27, string.ascii_uppercase + string.digits))
    t("newrelic2", "NRII-" + a(32))
    t("datadog", a(32, hexd), "DD_API_KEY={}")
    t("datadog pub", "pub" + a(32, hexd), "DD_CLIENT_TOKEN: {}")
    t("sentry", "sntrys_" + a(80))
    t("sentry dsn", a(32, hexd), "https://{}@o123.ingest.sentry.io/456")
    t("tailscale", "tskey-auth-" + a(12) + "-" + a(32))
    t("pulumi", "pul-" + a(40, hexd))
    t("atlassian", "ATATT3xFfGF0" + a(180))
    t("atlassian2", "ATCTT3xFfGF0" + a(180))
    t("bitbucket", "ATBB" + a(32))
    t("nvapi", "nvapi-" + a(64))
    t("replicate", "r8_" + a(37))
    t("perplexity", "pplx-" + a(48))
    t("tavily", "tvly-dev-" + a(32))
    t("groq", "gsk_" + a(52))
    t("cerebras", "csk-" + a(48))
    t("fireworks", "fw_" + a(24))
    t("together", "tgp_v1_" + a(43))
    t("cohere", a(40), "COHERE_API_KEY={}")
    t("mistral", a(32), "MISTRAL_API_KEY: {}")
    t("deepseek", "sk-" + a(32, hexd))
    t("elevenlabs", "sk_" + a(48, hexd))
    t("langsmith", "lsv2_pt_" + a(32, hexd) + "_" + a(10, hexd))
    t("voyage", "pa-" + a(43))
    t(
        "exa",
        a(8, hexd) + "-" + a(4, hexd) + "-" + a(4, hexd) + "-" + a(4, hexd) + "-" + a(12, hexd),
        "EXA_API_KEY={}",
    )
    t("serpapi", a(64, hexd), "SERPAPI_API_KEY='{}'")
    t("jina", "jina_" + a(60))
    t("posthog", "phc_" + a(43))
    t("posthog p", "phx_" + a(43))
    t("airtable", "pat" + a(14) + "." + a(64, hexd))
    t("asana", "2/1234567890123456/1234567890123456:" + a(32, hexd))
    t("clickup", "pk_12345678_" + a(32, string.ascii_uppercase + string.digits))
    t(
        "hubspot",
        "pat-na1-" + a(8, hexd) + "-" + a(4, hexd) + "-" + a(4, hexd) + "-" + a(4, hexd) + "-" + a(12, hexd),
    )
    t("okta", "00" + a(40), "Authorization: SSWS {}")
    t("auth header token", a(40, hexd), "Authorization: token {}")
    t("basic", "dXNlcjpodW50ZXIycGFzcw==", "Authorization: Basic {}")
    t("digest hdr", a(40), "X-Auth-Token: {}")
    t("private-token", a(20), "PRIVATE-TOKEN: {}")
    t("x-vault", a(24), "X-Vault-Token: {}")
    t("set-cookie", a(40), "Set-Cookie: sid={}; HttpOnly")
    t("curl -H", a(40), "curl -H 'apikey: {}' https://x")
    t("ocp", a(32, hexd), "Ocp-Apim-Subscription-Key: {}")
    t("x-goog", a(39), "x-goog-api-key: {}")
    t("cf token", a(40), "CLOUDFLARE_API_TOKEN={}")
    t("azure sas", a(43) + "%3D", "https://x.blob.core.windows.net/c?sv=2020-08-04&ss=b&sig={}&se=2026")
    t("azure key", a(86) + "==", "AccountKey={};EndpointSuffix=core.windows.net")
    t("azure client secret", a(3) + "8Q~" + a(34))
    t("gcp oauth", "GOCSPX-" + a(28))
    t("ya29", "ya29." + a(120))
    t("gcp refresh", "1//0" + a(60))
    t("aws secret", a(40), "aws_secret_access_key = {}")
    t("aws session", a(200), "AWS_SESSION_TOKEN={}")
    t("aws presign", a(64, hexd), "https://b.s3.amazonaws.com/k?X-Amz-Signature={}")
    t(
        "amzn mws",
        "amzn.mws." + a(8, hexd) + "-" + a(4, hexd) + "-" + a(4, hexd) + "-" + a(4, hexd) + "-" + a(12, hexd),
    )
    t("bedrock", "ABSK" + a(100))
    t("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + a(43))
    t("jwe", "eyJhbGciOiJSU0EtT0FFUCJ9." + a(60) + "." + a(16) + "." + a(40) + "." + a(22))
    t("pem rsa", "-----BEGIN RSA PRIVATE KEY-----\n" + a(64) + "\n-----END RSA PRIVATE KEY-----", "{}")
    t(
        "pgp",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + a(64) + "\n-----END PGP PRIVATE KEY BLOCK-----",
        "{}",
    )
    t(
        "pem escaped",
        "MIIEv" + a(60),
        '"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"',
    )
    t("netrc", a(20), "machine h login u password {}")
    t("npmrc", a(36), "//registry.npmjs.org/:_authToken={}")
    t("docker auth", "dXNlcjpodW50ZXIycGFzcw==", '"auth": "{}"')
    t("pypirc", a(20), "password = {}")
    t("mysql -p", a(16), "mysql -u root -p{} db")
    t("yaml pw", a(16), "db:\n  password: {}\n")
    t("toml", a(16), 'password = "{}"')
    t("ini", a(16), "[x]\npwd={}")
    t("pwd of a database", "/" + a(16), "DB_PWD={}")
    t("pwd with a slash in front", "/" + a(16), "pwd={}")
    t("export", a(16), "export SECRET_KEY_BASE={}")
    t("php", a(16), "define('DB_PASSWORD', '{}');")
    t("java", a(16), "spring.datasource.password={}")
    t("jdbc", a(16), "jdbc:mysql://h/db?user=u&password={}")
    t("redis", a(16), "redis://:{}@h:6379/0")
    t("amqp", a(16), "amqp://u:{}@h/vh")
    t("mongo", a(16), "mongodb+srv://u:{}@c.mongodb.net/")
    t("mssql", a(16), "Server=h;User Id=sa;Password={};")
    t("openssl", a(16), "openssl enc -pass pass:{} -in x")
    t("wget", a(16), "wget --password={} http://x")
    t("7z", a(16), "7z x -p{} a.7z")
    t("kube", a(40), "  token: {}\n")
    t("rails", a(32, hexd), "RAILS_MASTER_KEY={}")
    t("django", "django-insecure-" + a(50), "SECRET_KEY = '{}'")
    t("laravel", "base64:" + a(43) + "=", "APP_KEY={}")
    t("xml", a(16), "<password>{}</password>")
    t("cli --api-key=", a(32), "tool --api-key={}")
    t("oauth url frag", a(40), "https://x/cb#access_token={}&t=1")
    t("basic url", a(16), "https://token:{}@github.com/a/b")
    t("ghp url", "ghp_" + a(36), "https://{}@github.com/a/b")
    t("github oauth2", "ghu_" + a(36))
    t("telegram", "8123456789:AA" + a(33))
    t("fb", "EAACEdEose0cBA" + a(120))
    t("dropbox", "sl." + a(130))
    t("flyio", "fo1_" + a(43))
    t("fly2", "FlyV1 fm2_" + a(100))
    t("render", "rnd_" + a(32))
    t("vercel", a(24), "VERCEL_TOKEN={}")
    t("netlify", "nfp_" + a(40))
    t("planetscale", "pscale_tkn_" + a(43))
    t("planetscale pw", "pscale_pw_" + a(43))
    t("neon", "napi_" + a(64))
    t("turso", "eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ." + a(86))
    t("doppler", "dp.pt." + a(43))
    t("infracost", "ico-" + a(32))
    t("readme", "rdme_" + a(70))
    t("artifactory", "AKCp" + a(69))
    t("artifactory2", "cmVmdGtu" + a(56))
    t("age", "AGE-SECRET-KEY-1" + a(58, string.ascii_uppercase + string.digits))
    t("1pw", "ops_eyJ" + a(250))
    t("duffel", "duffel_live_" + a(43))
    t("easypost", "EZAK" + a(54))
    t("frameio", "fio-u-" + a(64))
    t("prefect", "pnu_" + a(36))
    t("scalingo", "tk-us-" + a(48))
    t("typeform", "tfp_" + a(59))
    t("contentful", "CFPAT-" + a(43))
    t("mapbox", "sk.eyJ" + a(80) + "." + a(22))
    t("algolia", a(32, hexd), "ALGOLIA_ADMIN_KEY={}")
    t("snyk", a(8, hexd) + "-aaaa-4bbb-8ccc-" + a(12, hexd), "SNYK_TOKEN={}")
    t("sonar", "squ_" + a(40, hexd))
    t("sonar2", "sqp_" + a(40, hexd))
    t("databricks", "dapi" + a(32, hexd))
    t("cloudinary", a(27), "cloudinary://123456789012345:{}@cloud")
    t("wandb", a(40, hexd), "WANDB_API_KEY={}")
    t("buildkite", "bkua_" + a(40, hexd))
    t("circleci", "CCIPAT_" + a(22) + "_" + a(40, hexd))
    t("codecov", a(36), "CODECOV_TOKEN: {}")
    t("launchdarkly", "sdk-" + a(8, hexd) + "-aaaa-4bbb-8ccc-" + a(12, hexd))
    t("rubygems", "rubygems_" + a(48, hexd))
    t("crates", "cio" + a(32))
    t("nuget", "oy2" + a(43, string.ascii_lowercase + string.digits))
    t("hashicorp tf", a(14) + ".atlasv1." + a(67))
    t("zapier hook", a(7), "https://hooks.zapier.com/hooks/catch/123456/{}/")
    return out


FORMS = _forms()
LOOK_ALIKES = """\
3f786850e387550fdab836ed7e6dc881de23001b
commit 3f786850e387550fdab836ed7e6dc881de23001b (HEAD -> main, tag: v1.2.3)
index 3f78685..e387550 100644
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
sha512-aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK9mN1pQ2rS4t==
"integrity": "sha512-aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA=="
--hash=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
checksum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
h1:aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK=
golang.org/x/net v0.17.0/go.mod h1:NxSsAGuq816PNPmqtQdLE42eU2Fs7NoRIZrHJAlaCOE=
550e8400-e29b-41d4-a716-446655440000
urn:uuid:550e8400-e29b-41d4-a716-446655440000
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==
![x](data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=)
com.example.application.internal.configuration.VeryLongClassNameFactoryBean2
AbstractSingletonProxyFactoryBeanWithVeryLongName1234567890
sk-learn is a library
sk-toggleable__control-label-arrow:before
<div class="sk-estimator-doc-link fitted">
class="sk-item sk-dashed-wrapped"
key-value-store-12345
key-binding-for-the-editor-1
task-12345678901234567890
hf_transfer is a package
hf_hub_download(repo_id="x/y")
npm_config_registry=https://registry.npmjs.org/
npm_lifecycle_event
gsk_license
SKU1234567890123456789012345678901
SKIPPED 12 tests
BSAG is a company
ghp_
github_pat_ is the prefix
api_key=$OPENAI_API_KEY
api_key=${API_KEY}
api_key = os.environ["API_KEY"]
api_key=os.getenv("OPENAI_API_KEY")
apiKey: process.env.API_KEY,
password: ${{ secrets.DB_PASSWORD }}
password = getpass.getpass("Password: ")
password = config.get("db", "password")
password=None
password: str = Field(default="")
password: string;
token: str | None = None
token = self.tokenizer.next_token()
token = tokens[0]
tokens: 4096
max_tokens=4096
total_tokens: 128000
num_key_value_heads: 8
key: value
key = "name"
sort_key="created_at"
primary_key=True
foreign_key = "users.id"
public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8K7d0 me@host"
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA me@host
ssh_host_key: SHA256:aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
the password field is required
Password must be at least 8 characters
Enter your password:
forgot-password
password_hash, password_reset_token
Bearer token required
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer ${{ github.token }}
Authorization: Basic <base64>
authorization header is missing
secret santa at 5 pm
secret: see vault
secrets.yaml
secretName: my-tls-cert
kubernetes.io/service-account-token
name: default-token-x7k2p
def get_secret(name: str) -> str:
https://example.com/a?page=2&sort=key
https://example.com/a?token=
https://example.com/?code=200
https://example.com/search?key=name&auth=no
https://user@example.com/
https://example.com/@user/repo
git@github.com:org/repo.git
ssh://git@github.com/org/repo.git
mailto:a@b.example
postgres://localhost/db
postgres://user@localhost:5432/db
1234567890:0987654321
12345678:AB
2024-01-01T12:00:00.000Z
eyJ is how base64 JSON begins
eyJhbGciOiJub25lIn0
x-request-id: 550e8400-e29b-41d4-a716-446655440000
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
Cookie: theme=dark
Set-Cookie: lang=en; Path=/
auth: none
auth = "basic"
author = "Somebody <a@b.example>"
authentication failed for user postgres
passed: 12, failed: 3
bypass=true
compass: north
--token TOKEN
--password PASSWORD
--token <TOKEN>
curl -u user: https://x
curl -u "$USER:$PASS" https://x
machine learning login page password reset
<password></password>
<token>identifier</token>
credential helper: osxkeychain
credential.helper=store
AKIA is the prefix of access keys
arn:aws:iam::123456789012:role/MyRole
AROA
projects/my-project/locations/us/keyRings/ring/cryptoKeys/key
0x742d35Cc6634C0532925a3b844Bc454e4438f44e
1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa
QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPBdG
fc-cache -fv
fc-list : family
r8_g8b8_unorm
dapigateway
pul-request
fly_v1
xai-sdk
pypi-simple
secret_key_base
SECRET_KEY_FALLBACKS
PASSWORD_HASHERS = [
AUTH_PASSWORD_VALIDATORS
primary_secondary_tertiary_key
keypress: function(e) {
"keywords": ["a", "b"]
keyboard: us
monkey: banana-banana-1
turkey=istanbul-2024
token_type: bearer
"token_type": "Bearer"
"access_token": "<redacted>"
password: ********
password=xxxxxxxx
password: [hidden]
token: 'your-token-here'
api_key: YOUR_API_KEY
api_key="your_api_key"
API_KEY=changeme
sub-word splitting: un-pass-word-ed
MIIB is how DER begins
node_modules/.pnpm/@babel+core@7.23.0/node_modules
/nix/store/aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA-hello-2.12
ami-0abcdef1234567890
i-0123456789abcdef0
pk.key.id
pass: 3 fail: 0
test_password_is_hashed PASSED
assert user.check_password("x")
if password == other:
"passwordRules": "minlength: 8"
private key not found: /etc/ssl/private/key.pem
ssl_certificate_key /etc/nginx/ssl/server.key;
keyFile: /etc/ssl/private/server.key
token_file: /var/run/secrets/token
tokenizer: bert-base-uncased
auth: ./auth.ts
PWD=/home/user1/project
OLDPWD=/srv/app-2/build
declare -x PWD="/home/user1/project"
"PWD": "/home/user1/project",
auth=oauth2
"""


@owes("exec-24")
@pytest.mark.parametrize("name", FORMS)
def test_a_secret_of_this_form_is_taken_out(name: str) -> None:
    text, secret = FORMS[name]
    core = secret if "\n" not in secret else secret.split("\n")[-2]

    shown, found = Redactor().redact(text)

    assert found and core not in shown, shown


@owes("exec-24")
@pytest.mark.parametrize("name", FORMS)
def test_and_in_a_stream_of_pieces_of_any_size(name: str) -> None:
    text, _secret = FORMS[name]
    long = f"{'x ' * 50}\n{text}\n{'y ' * 50}"
    whole = Redactor().redact(long)[0]
    for size in (1, 7, 64):
        stream = Redactor().stream()
        pieces = [stream.feed(long[at : at + size]) for at in range(0, len(long), size)]

        assert "".join([*pieces, stream.close()]) == whole, size


def test_what_only_looks_like_a_secret_is_kept() -> None:
    """Hashes, ids, base64 images, lock files, code, place holders and documentation."""
    texts = LOOK_ALIKES.splitlines()
    changed = [(text, shown) for text in texts if (shown := Redactor().redact(text)[0]) != text]

    assert len(texts) > 150
    assert not changed
