"""Credentials inside files: private keys anywhere in a file of any size, all others in small files."""

from __future__ import annotations

import hashlib
import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from torchdeck.config.schema import RunConfig

SMALL = 1 << 20
"""Maximum size in bytes of a file that is searched for every kind of credential."""
LAP = 1 << 12
"""Overlap in bytes of consecutive parts of a large file, so that no key is split between two."""
PRIVATE_KEY = "a private key"

_HEADERS = (b"PRIVATE KEY", b"PuTTY-User-Key-File-", b"openssh-key-v1")
_BEGIN = rb"-----BEGIN (?:[A-Z0-9 ]{1,40} )?PRIVATE KEY(?: BLOCK)?-----"
_KEY = re.compile(
    rb"^(?:" + _BEGIN + rb"|PuTTY-User-Key-File-|openssh-key-v1\0)"
    # inside a line, or quoted: only with a body, as source code also names the header
    rb"|" + _BEGIN + rb"(?:\\[nrt]|[\s\"'+,\\>|#*()bfr]){0,200}"
    rb"(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{0,200}(?:\\[nr]|\s){1,20}){0,5}[A-Za-z0-9+/=]{40}",
    re.MULTILINE,
)
_ENCODED = tuple(
    b64encode(f"-----BEGIN {kind}PRIVATE KEY-----".encode())[:32]
    for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")
)
"""Prefixes of private keys in a base64 value, as in a kubeconfig."""
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_EXAMPLE = b"EXAMPLE"
"""Suffix of keys in AWS's documentation."""
_HEAD = 1 << 13
"""Bytes used to tell text from images and similar files, thousands of which would take minutes to search."""
_RANDOM = 3.3
"""Bits per character from which a string without a known format counts as random."""


def rules_version() -> str:
    """Return a version that changes with the rules: results under other rules are invalid."""
    rules = (ISSUED, _KEY.pattern, *(pattern.pattern for pattern in GENERIC))
    return hashlib.sha256(repr(rules).encode()).hexdigest()[:16]


class SecretSearch:
    """Search in a file that is read in parts."""

    def __init__(self) -> None:
        self._found = ""
        self._whole: bytes | None = b""
        """Bytes read so far, as long as the file can be a small one."""
        self._before = b""

    def feed(self, part: bytes) -> None:
        """Process the next bytes of the file."""
        if self._whole is not None:
            part = self._whole + part
            self._whole = part if len(part) <= SMALL else None
        if self._whole is None and not self._found:
            part = self._before + part
            self._found = PRIVATE_KEY if holds_key(part) else ""
            self._before = part[-LAP:]

    def end(self) -> str:
        """Return the credential the file holds, as `secret_in` does; in a large file only private keys are
        found.
        """
        return self._found if self._whole is None else secret_in(self._whole)


def secret_in(data: bytes) -> str:
    """Return the first credential in the whole content of a small file, as "a Vault token (line 3)"; empty if
    none.

    If it is not text, only private keys are searched for.
    """
    data = _as_bytes(data)
    if holds_key(data):
        return PRIVATE_KEY
    if b"\0" in data[:_HEAD]:
        return ""
    for what, match in _all(data):
        line = data.count(b"\n", 0, match.start()) + 1
        return f"{what} (line {line})"
    return ""


def holds_key(data: bytes) -> bool:
    """Return whether there is a private key anywhere in `data`."""
    if any(literal in data for literal in _HEADERS):
        return _KEY.search(data) is not None
    return any(encoded in data for encoded in _ENCODED)


def entropy(data: bytes) -> float:
    """Return the bits per byte, from the frequency of each byte in `data`."""
    return -sum(count / len(data) * math.log2(count / len(data)) for count in Counter(data).values())


def _all(data: bytes) -> Iterator[tuple[str, re.Match[bytes]]]:
    for rule in ISSUED:
        if any(literal in data for literal in rule.literals):
            for match in rule.pattern.finditer(data):
                found = match[match.lastindex or 0]
                if not found.endswith(_EXAMPLE) and entropy(found) >= rule.least_entropy:
                    yield rule.what, match
    for match in assigned_to_secret_names(data):
        if entropy(match[match.lastindex or 0]) >= _RANDOM:
            yield "a password or token", match
    if b"://" in data:
        for match in passwords_in_urls(data):
            yield "a password in an address", match


def _as_bytes(data: bytes) -> bytes:
    """Return UTF-16, which PowerShell writes, as UTF-8; without a byte order mark."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    encoding = _UTF16.get(data[:2])
    return data if encoding is None else data[2:].decode(encoding, "replace").encode("utf-8", "replace")


# Formats of credentials as published by their issuers and known to secret scanners.
#
# Every pattern is anchored by a literal and has bounded repetitions, so that no content is slow to search.


class Rule(NamedTuple):
    """A kind of credential."""

    what: str
    """Name with its article, as in "holds a Vault token"."""
    literals: tuple[bytes, ...]
    """At least one of them occurs in every content that the pattern matches."""
    pattern: re.Pattern[bytes]
    """Its first group, or the whole match, is the credential."""
    least_entropy: float = 3.0
    """Bits per character below which a match is a placeholder."""


def _token(what: str, literals: str, pattern: str, least_entropy: float = 3.0) -> Rule:
    """Return the rule for a token that begins with a literal of its issuer."""
    return Rule(
        what,
        tuple(literal.encode() for literal in literals.split()),
        re.compile(rf"(?<![A-Za-z0-9_])(?:{pattern})".encode()),
        least_entropy,
    )


def _assigned(what: str, literals: str, name: str, value: str) -> Rule:
    """Return the rule for a value identified by its name: `NAME = "VALUE"`, `NAME: VALUE`, `"NAME":
    "VALUE"`.
    """
    pattern = rf"(?i:{name})[\"']?\s{{0,4}}(?:=>|:=|[:=,(])\s{{0,4}}[\"']?((?:{value}))(?![A-Za-z0-9/+_=-])"
    return Rule(what, tuple(literal.encode() for literal in literals.split()), re.compile(pattern.encode()))


_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

ISSUED = (
    _token("a Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{34}(?![A-Za-z0-9_])"),
    _token(
        "an AWS access key", "AKIA ASIA ABIA ACCA A3T", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"
    ),
    _assigned("an AWS secret key", "aws AWS Aws", r"aws\w{0,20}(?:secret|key)\w{0,20}", r"[A-Za-z0-9/+]{40}"),
    _token("a Google API key", "AIza", r"AIza[\w-]{35}(?![\w-])"),
    _token("a Google client secret", "GOCSPX-", r"GOCSPX-[\w-]{28}(?![\w-])"),
    _token("a Google access token", "ya29.", r"ya29\.[\w-]{30,}"),
    _assigned("a Google refresh token", "1//0", "refresh_token", r"1//0[\w-]{40,200}"),
    _token("a Kaggle token", "KGAT_", r"KGAT_[0-9a-f]{32}\b"),
    _assigned("a Kaggle key", "kaggle_key KAGGLE_KEY", "kaggle_key", r"[0-9a-f]{32}"),
    Rule(
        "a Kaggle key",
        (b'"username"',),
        re.compile(
            rb'"username"\s{0,9}:\s{0,9}"[^"\n]{1,100}"\s{0,9},\s{0,9}"key"\s{0,9}:\s{0,9}"([0-9a-f]{32})"'
        ),
    ),
    _token("a Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,}"),
    _assigned("a Vault token", "vault VAULT Vault", r"vault\w{0,20}token", r"s\.[A-Za-z0-9]{24}"),
    Rule("a Terraform token", (b".atlasv1.",), re.compile(rb"\b[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}")),
    _token("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("a GitHub token", "github_pat_", r"github_pat_\w{82}\b"),
    _token(
        "a GitLab token",
        "glpat- glcbt- gldt- glft- glimt- gloas- glptt- glrt- glsoat- glagent-",
        r"gl(?:pat|cbt|dt|ft|imt|oas|ptt|rt|soat|agent)-[\w-]{20,}",
    ),
    _token(
        "a Slack token",
        "xox xapp-",
        r"xox[abeoprs]-(?:\d+-)?\w{8,}-[\w-]{10,}|xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{20,}",
    ),
    _token(
        "a Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w+/]{40,}"
    ),
    _token(
        "an OpenAI key", "T3BlbkFJ", r"sk-(?:[a-z]{1,12}-)?[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}"
    ),
    _token("an Anthropic key", "sk-ant-", r"sk-ant-[a-z]{3,8}\d\d-[\w-]{80,}"),
    Rule(
        "a Weights & Biases key",
        (b"wandb", b"WANDB", b"Wandb"),
        re.compile(rb"(?i)wandb[^\n]{0,30}?(?:key|token|password)[^\n\w]{1,6}([0-9a-f]{40})\b"),
    ),
    _token("a Replicate token", "r8_", r"r8_[A-Za-z0-9]{37}\b"),
    _token("a Groq key", "gsk_", r"gsk_[A-Za-z0-9]{52}\b"),
    _token("a Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{48}(?![A-Za-z0-9])"),
    _token("a Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}(?![A-Za-z0-9])"),
    _token("a Heroku key", "HRKU-", r"HRKU-AA[\w-]{58}(?![\w-])"),
    _assigned("a Heroku key", "heroku HEROKU Heroku", r"heroku[\w.-]{0,20}", _UUID),
    _token("a Databricks token", "dapi", r"dapi[0-9a-f]{32}\b"),
    _token("an npm token", "npm_", r"npm_[A-Za-z0-9]{36}\b"),
    _token("a PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{60,}"),
    _token("a Stripe key", "k_live_ k_test_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    _token("a SendGrid key", "SG.", r"SG\.[\w-]{20,24}\.[\w-]{39,50}"),
    _token("a Twilio key", "SK", r"SK[0-9a-f]{32}\b"),
    _token("a DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}\b"),
    _token("a Doppler token", "dp.", r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{40,}"),
    _token("a Pulumi token", "pul-", r"pul-[0-9a-f]{40}\b"),
    _token("a Grafana token", "glsa_ glc_", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b|glc_[A-Za-z0-9+/]{40,}"),
    _token("a Telegram token", ":AA", r"\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _token("a Tailscale key", "tskey-", r"tskey-[a-z]{2,10}-\w{8,}-\w{16,}"),
    _token("a 1Password token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/]{200,}"),
    _token("an age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}\b"),
    _token("a JSON web token", "eyJ", r"eyJ[\w-]{15,4000}\.eyJ[\w-]{15,4000}\.[\w-]{20,}"),
    Rule("an Azure storage key", (b"AccountKey=",), re.compile(rb"AccountKey=([A-Za-z0-9+/]{86}==)")),
    _token("an Azure client secret", "Q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}"),
    Rule(
        "a registry password",
        (b'"auths"',),
        re.compile(rb'"auth"\s{0,9}:\s{0,9}"([A-Za-z0-9+/]{12,2000}={0,2})"'),
        2.5,
    ),
    Rule(
        "a password",
        (b"machine",),
        re.compile(rb"(?m)^machine[ \t]+\S{1,200}\s+login[ \t]+\S{1,200}\s+password[ \t]+(\S{6,200})"),
        2.0,
    ),
)

_VALUE = re.compile(
    rb"(?:key|token|secret|passwo?r?d|passphrase)[\"']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}"
    rb"(?:[\"']([a-z0-9+/=_.~!@#$%^&*-]{12,200})[\"']|([a-z0-9+/=]{20,200})[ \t]{0,4}\r?$)",
    re.MULTILINE,
)
"""In lower-case content: a quoted value, or one that ends its line."""
_OF_ITSELF = (b"passw", b"passphrase", b"secret")
"""Words that identify a secret without another word before them."""
_BEFORE = re.compile(
    rb"(?:api|access|auth|client|private|secret|account|signing|encryption|refresh|hf|bot|user|bearer)[_.-]?\Z"
)
_RUN = re.compile(rb"[A-Za-z0-9+/]{12,}")
_URL = re.compile(rb"://[\w.%+-]{1,100}:([^\s:@/\"'<>{}$*\[\]]{6,100})@([\w.-]{3,200})")
_PLACEHOLDER = re.compile(
    rb"(?i)example|sample|dummy|fake|your|change|placeholder|insert|redacted|xxxx|password|passwd|secret"
    rb"|12345|abcde|s3cret|t0ken|user"
)
_NOWHERE = re.compile(
    rb"(?i)localhost|127\.|(?:.*\.)?example(?:\.\w+)?$|(?:.*\.)?(?:test|invalid)$|host(?:name)?$"
)
GENERIC = (_VALUE, _BEFORE, _URL, _RUN, _PLACEHOLDER, _NOWHERE)
"""Patterns for credentials without a format of their own."""


def assigned_to_secret_names(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield random-looking values assigned to a name such as `api_key`; not hashes and identifiers.

    Spans refer to `data`; the matched text is in lower case.
    """
    lowered = data.lower()
    for match in _VALUE.finditer(lowered):
        begin = match.start()
        if not match[0].startswith(_OF_ITSELF) and not _BEFORE.search(lowered, max(0, begin - 16), begin):
            continue
        value = match[match.lastindex or 0]
        if any(_is_mixed(run) for run in _RUN.findall(value)) and _PLACEHOLDER.search(value) is None:
            yield match


def passwords_in_urls(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield matches of `scheme://user:password@host`, except those of examples and of this machine."""
    for match in _URL.finditer(data):
        if _PLACEHOLDER.search(match[1]) is None and _NOWHERE.match(match[2]) is None:
            yield match


def _is_mixed(run: bytes) -> bool:
    digits = sum(48 <= byte <= 57 for byte in run)
    return 3 <= digits <= len(run) - 3


# Credentials in a run file's own settings, which become part of a plan and are written to every node's
# disk.


def secrets_in_settings(config: RunConfig) -> Iterator[str]:
    """Yield a warning for each variable of [run.env] and each argument that resembles one; never its
    value.
    """
    for name, value in config.run.env.items():
        found = _kind(f"{name}={value}")
        if found:
            yield (
                f"run.env.{name} looks like {found}, and plan.json contains it on every node: remove it, "
                f'and name the variable in run.secrets = ["{name}"], whose values are never written to a file'
            )
    for number, value in enumerate(config.run.args, 1):
        found = _kind(str(value))
        if found:
            yield (
                f"argument {number} of the script looks like {found}, and `ps` shows it to all users: "
                "pass it as an environment variable listed in run.secrets"
            )


def _kind(text: str) -> str:
    """Return the kind of credential, without the line."""
    return secret_in(text.encode("utf-8", "surrogateescape")).partition(" (")[0]
