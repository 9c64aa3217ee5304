"""Credentials inside files. They are put together here, so that no scanner finds one in this file."""

from __future__ import annotations

import base64
import random
import string
import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

from support.fuzz.fuzzing import read_all
from torchdeck.launching.code.secret_contents import LAP, SMALL, SecretSearch, holds_key, secret_in

ALNUM = string.ascii_letters + string.digits
BASE32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
DIGITS = string.digits


def some(count: int, alphabet: str = ALNUM, seed: int = 7) -> str:
    """Text that looks random, the same each time."""
    choose = random.Random(seed)  # noqa: S311 - the same each time
    return "".join(choose.choice(alphabet) for _ in range(count))


def key(kind: str = "RSA ") -> str:
    return f"-----BEGIN {kind}PRIVATE" + " KEY-----"


UUID = "-".join(some(count, HEX) for count in (8, 4, 4, 4, 12))

SECRETS = {
    "hugging face": ("a Hugging Face token", "HF_TOKEN=" + "hf" + "_" + some(34)),
    "aws access": ("an AWS access key", "aws_access_key_id = " + "AK" + "IA" + some(16, BASE32)),
    "aws secret": ("an AWS secret key", "aws_secret_access_key = " + some(40)),
    "aws in yaml": ("an AWS secret key", "AWS_SECRET_ACCESS_KEY: '" + some(40) + "'"),
    "gcp key": ("a Google API key", "key: " + "AI" + "za" + some(35)),
    "gcp client": ("a Google client secret", '"client_secret": "' + "GOC" + "SPX-" + some(28) + '"'),
    "gcp login": ("a Google refresh token", '{"refresh_token": "' + "1/" + "/0" + some(60) + '"}'),
    "gcp service": (
        "a private key",
        '{"private_key": "' + key("") + "\\n" + some(64) + "\\n" + some(64) + '"}',
    ),
    "kaggle": ("a Kaggle key", '{"username":"ann","key":"' + some(32, HEX) + '"}'),
    "kaggle env": ("a Kaggle key", "export KAGGLE_KEY=" + some(32, HEX)),
    "kaggle token": ("a Kaggle token", "KGAT" + "_" + some(32, HEX)),
    "vault": ("a Vault token", "token: " + "hv" + "s." + some(90)),
    "old vault": ("a Vault token", "VAULT_TOKEN=" + "s." + some(24)),
    "terraform": ("a Terraform token", some(14) + ".atlas" + "v1." + some(65)),
    "github": ("a GitHub token", "https://x:" + "gh" + "p_" + some(36) + "@github.com/a/b"),
    "github fine": ("a GitHub token", "github" + "_pat_" + some(82)),
    "gitlab": ("a GitLab token", "gl" + "pat-" + some(20)),
    "slack": ("a Slack token", "xo" + "xb-" + some(12, string.digits) + "-" + some(24)),
    "slack hook": ("a Slack webhook", "https://hooks." + "slack.com/services/" + some(44)),
    "openai": ("an OpenAI key", "OPENAI_API_KEY=" + "sk" + "-proj-" + some(40) + "T3Blb" + "kFJ" + some(40)),
    "anthropic": ("an Anthropic key", "sk" + "-ant-api03-" + some(93) + "AA"),
    "wandb": ("a Weights & Biases key", 'wandb.login(key="' + some(40, HEX) + '")'),
    "wandb env": ("a Weights & Biases key", "WANDB_API_KEY=" + some(40, HEX)),
    "perplexity": ("a Perplexity key", "PERPLEXITY_API_KEY=" + "ppl" + "x-" + some(48)),
    "linear": ("a Linear key", "linear = '" + "lin" + "_api_" + some(40) + "'"),
    "heroku": ("a Heroku key", "HEROKU_API_KEY=" + UUID),
    "heroku quoted": ("a Heroku key", '{"heroku_auth": "' + UUID.upper() + '"}'),
    "heroku token": ("a Heroku key", "token " + "HRK" + "U-AA" + some(58)),
    "npm": ("an npm token", "//registry.npmjs.org/:_authToken=" + "np" + "m_" + some(36)),
    "pypi": ("a PyPI token", "pypi" + "-AgEIcHlwaS5vcmc" + some(60)),
    "databricks": ("a Databricks token", "da" + "pi" + some(32, HEX)),
    "stripe": ("a Stripe key", "sk" + "_live_" + some(24)),
    "sendgrid": ("a SendGrid key", "S" + "G." + some(22) + "." + some(43)),
    "jwt": ("a JSON web token", "Bearer ey" + "J" + some(30) + ".ey" + "J" + some(60) + "." + some(40)),
    "azure": ("an Azure storage key", "Account" + "Key=" + some(86) + "=="),
    "docker": ("a registry password", '{"auths": {"r.io": {"auth": "' + some(24) + '=="}}}'),
    "netrc": ("a password", "machine api.wandb.ai\n  login user\n  password " + some(20)),
    "age": ("an age key", "AGE-SECRET" + "-KEY-1" + some(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
    "slack app": (
        "a Slack token",
        "xa" + "pp-1-" + some(11, BASE32) + "-" + some(13, DIGITS) + "-" + some(64, HEX),
    ),
    "nvidia": ("an NVIDIA key", "NVIDIA=" + "nva" + "pi-" + some(64)),
    "openrouter": ("an OpenRouter key", "sk" + "-or-v1-" + some(64, HEX)),
    "fireworks": ("a Fireworks key", "login('" + "f" + "w_" + some(24) + "')"),
    "xai": ("an xAI key", "xa" + "i-" + some(80)),
    "bedrock": ("a Bedrock key", "AB" + "SK" + some(128) + "="),
    "docker hub": ("a Docker Hub token", "docker login -u ann -p " + "dckr" + "_pat_" + some(27)),
    "planetscale": ("a PlanetScale token", "pscale" + "_tkn_" + some(43)),
    "shopify": ("a Shopify token", "shp" + "at_" + some(32, HEX)),
    "airtable": ("an Airtable token", "Api('" + "pa" + "t" + some(14) + "." + some(64, HEX) + "')"),
    "notion": ("a Notion token", "nt" + "n_" + some(11, DIGITS) + some(35)),
    "artifactory": ("an Artifactory key", "curl -u ann:" + "AK" + "Cp" + some(69) + " https://r.io"),
    "artifactory reference": ("an Artifactory token", "cm" + "Vmd" + some(59)),
    "atlassian": ("an Atlassian token", "ATA" + "TT3" + some(185) + "="),
    "alibaba": ("an Alibaba access key", "id: " + "LT" + "AI" + some(20)),
    "alibaba secret": ("an Alibaba secret key", "ALIBABA_CLOUD_SECRET=" + some(30)),
    "adobe": ("an Adobe client secret", "p8" + "e-" + some(32)),
    "clojars": ("a Clojars token", "CLO" + "JARS_" + some(60, HEX)),
    "dynatrace": ("a Dynatrace token", "dt0" + "c01." + some(24, BASE32) + "." + some(64, BASE32)),
    "fly": ("a Fly.io token", "FlyV1 " + "fm" + "2_" + some(120)),
    "fly oauth": ("a Fly.io token", "fo" + "1_" + some(43)),
    "new relic": ("a New Relic key", "NR" + "AK-" + some(27, BASE32)),
    "new relic insert": ("a New Relic key", "NR" + "II-" + some(32)),
    "new relic browser": ("a New Relic browser key", "NR" + "JS-" + some(19, HEX)),
    "openshift": ("an OpenShift token", "oc login --token " + "sha" + "256~" + some(43)),
    "postman": ("a Postman key", "PM" + "AK-" + some(24, HEX) + "-" + some(34, HEX)),
    "prefect": ("a Prefect token", "pn" + "u_" + some(36)),
    "readme": ("a ReadMe key", "rd" + "me_" + some(70, HEX)),
    "rubygems": ("a RubyGems key", "ruby" + "gems_" + some(48, HEX)),
    "brevo": ("a Brevo key", "xkey" + "sib-" + some(64, HEX) + "-" + some(16)),
    "sentry": ("a Sentry token", "sntr" + "yu_" + some(64, HEX)),
    "sentry of a group": ("a Sentry token", "sntr" + "ys_ey" + "J" + some(120) + "=_" + some(43)),
    "sourcegraph": ("a Sourcegraph token", "sg" + "p_" + some(16, HEX) + "_" + some(40, HEX)),
    "old sourcegraph": ("a Sourcegraph token", "sg" + "p_" + some(40, HEX)),
    "square": ("a Square token", "Client('" + "EA" + "AA" + some(60) + "')"),
    "old square": ("a Square token", "sq0" + "atp-" + some(22)),
    "duffel": ("a Duffel token", "duf" + "fel_live_" + some(43)),
    "easypost": ("an EasyPost key", "EZ" + "AK" + some(54)),
    "frame.io": ("a Frame.io token", "fi" + "o-u-" + some(64)),
    "harness": ("a Harness key", "pa" + "t." + some(22) + "." + some(24, HEX) + "." + some(20)),
    "infracost": ("an Infracost key", "ic" + "o-" + some(32)),
    "octopus": ("an Octopus Deploy key", "AP" + "I-" + some(26, BASE32)),
    "scalingo": ("a Scalingo token", "tk" + "-us-" + some(48)),
    "shippo": ("a Shippo token", "ship" + "po_live_" + some(40, HEX)),
    "cloudflare": ("a Cloudflare key", "v1" + ".0-" + some(24, HEX) + "-" + some(146, HEX)),
    "maxmind": ("a MaxMind key", some(6) + "_" + some(29) + "_m" + "mk"),
    "discord hook": (
        "a Discord webhook",
        "https://disc" + "ord.com/api/webhooks/" + some(19, DIGITS) + "/" + some(68),
    ),
    "teams hook": (
        "a Teams webhook",
        f"https://lab.webhook.off{''}ice.com/webhookb2/{UUID}@{UUID}/IncomingWebhook/{some(32, HEX)}/{UUID}",
    ),
    "assigned": ("a password or token", 'api_key = "' + some(24) + '"'),
    "assigned in yaml": ("a password or token", "  client_secret: " + some(32)),
    "assigned in json": ("a password or token", '{"password": "' + some(16) + '"}'),
    "address": ("a password in an address", "postgresql://ann:" + some(14) + "@db.lab.org/x"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_credentials_are_found_anywhere_in_a_file(name: str) -> None:
    what, text = SECRETS[name]
    before = "x = 1\n" * 40_000
    found = secret_in(f"{before}{text}\n{before}".encode())
    assert found.split(" (")[0] == what
    assert found == "a private key" or "(line 4000" in found


@pytest.mark.parametrize("name", SECRETS)
def test_credentials_are_found_in_what_powershell_wrote(name: str) -> None:
    what, text = SECRETS[name]
    assert secret_in(f"\ufeff{text}\r\n".encode("utf-16-le")).split(" (")[0] == what


MANIFESTS = {
    "kind first": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  a: Yg==\n  b: '{}'\n",
    "as kubectl shows it": "apiVersion: v1\ndata:\n  a: {}\nkind: Secret\nmetadata:\n  name: x\n",
    "quoted": 'kind: "Secret"\r\ndata:\r\n  "tls.crt": "{}"\r\n',
    "block": "kind: Secret\ntype: Opaque\ndata:\n  tls.crt: |\n    {}\n",
    "plain": "kind: Secret\nstringData:\n  # for the database\n  word: {}\n",
    "after another": "kind: ConfigMap\ndata:\n  a: b\n---\nkind: Secret\ndata:\n  a: {}\n",
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_secrets_of_kubernetes_are_found(name: str) -> None:
    text = MANIFESTS[name].format(base64.b64encode(some(30).encode()).decode())
    assert secret_in(text.encode()).split(" (")[0] == "a Kubernetes secret"


KEYS = {
    "openssh": key("OPENSSH ") + "\nabc",
    "plain": key(""),
    "after attributes": "Bag Attributes\n" + key(),
    "pgp": "-----BEGIN PGP PRIVATE" + " KEY BLOCK-----\n",
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519",
    "indented": "tls:\n  key: |\n    " + key("EC ") + "\n    " + some(64),
    "quoted": "KEY='" + key() + "\\n" + some(64),
    "in a python text": f'K = ("{key("")}\\n"\n     "{some(64)}\\n")',
    "encrypted": f"x: '{key()}\\nProc-Type: 4,ENCRYPTED\\nDEK-Info: AES-128-CBC,00\\n\\n{some(64)}'",
    "in a kubeconfig": "client-key-data: " + base64.b64encode((key() + "\n" + some(400)).encode()).decode(),
}


@pytest.mark.parametrize("name", KEYS)
def test_private_keys_are_found_anywhere_in_a_file(name: str) -> None:
    text = KEYS[name]
    assert secret_in(text.encode()) == "a private key"
    assert secret_in(b"some text\n" * 90_000 + text.encode() + b"\nmore text") == "a private key"


PLAIN = {
    "certificate": "-----BEGIN CERTIFICATE-----\n" + some(64),
    "public key": "-----BEGIN PUBLIC KEY-----\n" + some(64),
    "named header": f'x = "{key("")}"',
    "compared header": f'if text.startswith("{key()}") and len(text) > 40:\n    raise ValueError(text)',
    "tokenizer": "token = tokenizer.encode(text)\ntoken_id = 50256\nsecret = None\npassword = getpass()",
    "environment": 'token = os.environ["HF_TOKEN"]\nwandb_key = os.getenv("WANDB_API_KEY")\napi_key=api_key,',
    "command": "login(token=args.access_token_from_the_environment_variable_2)",
    "long name": "hf_" + "attention_implementation_of_the_model_configuration",
    "special tokens": '{"bos_token": "<|endoftext|>", "secret_key": "model.layers.12.weight"}',
    "vocabulary": '{"hello": 15496, "Ġtoken": 11241, "Ġsecret": 3200, "password": 28712}',
    "placeholders": "hf" + "_" + "x" * 34 + "\napi_key = 'your-api-key-goes-here-123'\nAPI_KEY=<insert key>",
    "aws example": "AK" + "IAIOSFODNN7EXAMPLE",
    "commit": 'wandb_commit = "' + some(40, HEX) + '"\nrev: ' + some(40, HEX),
    "hash": f"sha256:{some(64, HEX)}\n--hash=sha256:{some(64, HEX)}\nkey: {some(32, HEX)}",
    "uuid": 'run_id = "123e4567-e89b-12d3-a456-426614174000"\naccess_key = uuid4()',
    "address": "https://example.com/a:b@c\nredis://user:password@localhost:6379\nssh://git@github.com/a/b.git",
    "types": "def login(password: str, api_key: str | None = None, access_token: SecretStr = Field()): ...",
    "cache": 'cache_key = "4f9d2c71a8e04b6f9d2c71a8"\nprimary_key = "9f8e7d6c5b4a39281706f5e4"\nkeyring = 1',
    "attribute": "s.thisIsAnAttributeOfTwent1\nvault = s.another",
    "base64 image": '"image/png": "' + some(20_000, ALNUM + "+/") + '"',
    "alibaba": some(9) + "LT" + "AI" + some(20) + "\nLT" + "AI" + some(40) + "\nLT" + "AI of Milan",
    "square": some(9) + "EA" + "AA" + some(60) + "\nEA" + "AA" + some(72, ALNUM + "+/") + "\nEA" + "A" * 40,
    "square in an array": '{"bdata": "' + "EA" + "AAABAAAAAQAAAAEAAAABAAAA" + '"}',
    "openshift": "sha" + "256~" + some(20) + "\nsha" + "256~" + some(64, HEX) + "\nsha256:" + some(43),
    "airtable": "path.to.module\npat" + some(14) + ".py",
    "fireworks": "f" + "w_allgather_in_the_forward_pass\nfw_" + "forwardpassofthenetwork",
    "config map": "kind: ConfigMap\ndata:\n  word: " + some(20) + "\n---\nkind: Secret\n",
    "template": "kind: Secret\ndata:\n  word: {{ .Values.word | b64enc }}\n  empty: ''\n",
    "external secret": "kind: ExternalSecret\nspec:\n  data:\n    - secretKey: "
    + some(20, string.ascii_lowercase),
    "nothing": "",
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_no_credential_goes(name: str) -> None:
    assert secret_in(PLAIN[name].encode()) == ""


def test_our_own_sources_go() -> None:
    """A few hundred files, among them those that are about passwords and keys."""
    import torchdeck

    found = {
        str(path): secret_in(path.read_bytes()) for path in Path(torchdeck.__file__).parent.rglob("*.py")
    }
    assert len(found) > 500
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize("at", [0, SMALL - 40, SMALL - 1, 3 * SMALL - 40, 3 * SMALL + 5])
def test_a_private_key_anywhere_in_a_large_file_is_found(at: int) -> None:
    data = b"\n" * at + f"{key()}\n{some(64)}".encode() + b"\n" * (4 * SMALL)
    search = SecretSearch()
    for begin in range(0, len(data), SMALL):
        search.feed(data[begin : begin + SMALL])
    assert search.end() == "a private key"
    assert LAP < SMALL


def test_a_large_file_without_a_key_goes() -> None:
    search = SecretSearch()
    for _ in range(5):
        search.feed(bytes(SMALL))
    assert search.end() == ""


WORST = {
    "one long line": "a" * SMALL,
    "names": "api_key" * (SMALL // 7),
    "assignments": "password = " * (SMALL // 11),
    "quotes": "secret_key='" * (SMALL // 12),
    "headers": key() * (SMALL // 31),
    "header and spaces": (key() + " " * 150) * (SMALL // 181),
    "addresses": "http://a:" * (SMALL // 9),
    "long address": "a" * SMALL + "://a:b@c",
    "tokens": ("ey" + "J" + "a" * 15 + ".") * (SMALL // 19),
    "one token": "ey" + "J" + "a" * SMALL,
    "aws": "aws" * (SMALL // 3),
    "wandb": "wandb" * (SMALL // 5),
    "wandb key": "wandb key " * (SMALL // 10),
    "machines": "machine a\n" * (SMALL // 10),
    "login": ("machine a login " + "\n" * 100) * (SMALL // 116),
    "user": '"username" : "a' * (SMALL // 15),
    "openai": "T3Blb" + "kFJ" + ("sk-" + "a" * 97) * (SMALL // 100),
    "manifests": "kind: Secret\n" * (SMALL // 13),
    "manifests with data": "kind: Secret\ndata:\n a: b\n" * (SMALL // 25),
    "data": ("kind: Secret\n" + "data:\n a: AAAAAAAAAA\n" * 40) * (SMALL // 900),
    "long lines of a manifest": ("kind: Secret\ndata:\n" + "x" * 1000 + "\n") * (SMALL // 1020),
    "names of data": ("kind: Secret\ndata:\n" + (" a: |" + " " * 40 + "\n") * 30) * (SMALL // 1410),
    "square": ("EA" + "AA") * (SMALL // 4),
    "airtable": "pat" * (SMALL // 3),
    "fireworks": "fw_" * (SMALL // 3),
    "zeros": "\0" * SMALL,
    "digits": "1" * SMALL,
}


@pytest.mark.parametrize("name", WORST)
def test_no_content_is_slow_to_search(name: str) -> None:
    begun = time.process_time()
    secret_in(WORST[name][:SMALL].encode())
    assert time.process_time() - begun < 5


PIECES = (
    *(text for _, text in SECRETS.values()),
    *KEYS.values(),
    *("\n", " ", '"', "'", "=", ":", "\0", "aws", "wandb", "key", "token", "password", "://", "@", "a" * 50),
)


def search(content: bytes, _: Path) -> None:
    """Both ways of looking at a content give an answer, and the same."""
    search = SecretSearch()
    for begin in range(0, len(content), 1000):
        search.feed(content[begin : begin + 1000])
    assert search.end() == secret_in(content)
    assert isinstance(holds_key(content), bool)


def test_whatever_a_file_holds_the_search_has_an_answer() -> None:
    """Within bounds of time and memory."""
    documents = st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=40).map("".join)
    encodings = st.sampled_from(("utf-8", "utf-16", "utf-16-be"))
    texts = st.builds(lambda text, encoding: text.encode(encoding, "replace"), documents, encodings)
    repeated = st.builds(
        lambda text, count: (text * count)[:SMALL], st.binary(max_size=64), st.integers(1, 9_000)
    )
    read_all(search, texts | repeated | st.binary(max_size=2_000))
