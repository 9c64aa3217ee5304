"""Credentials inside files: private keys anywhere in a file of any size, all others in small files."""

from __future__ import annotations

import hashlib
import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator

from torchdeck.config.schema import RunConfig
from torchdeck.launching.code.issued_secrets import ISSUED

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
    if b"Secret" in data:
        for match in secrets_in_manifests(data):
            yield "a Kubernetes secret", match


def _as_bytes(data: bytes) -> bytes:
    """Return UTF-16, which PowerShell writes, as UTF-8; without a byte order mark."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    encoding = _UTF16.get(data[:2])
    return data if encoding is None else data[2:].decode(encoding, "replace").encode("utf-8", "replace")


# Credentials without a format of their own.

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
_DOCUMENT = re.compile(rb"^---|\Z", re.MULTILINE)
_SECRET = re.compile(rb"^kind:[ \t]{1,8}[\"']?Secret[\"']?[ \t\r]{0,8}$", re.MULTILINE)
_DATA = re.compile(rb"^(?:data|stringData):[ \t\r]{0,8}$((?:\n[ \t][^\n]*)*)", re.MULTILINE)
_ENTRY = re.compile(
    rb"^[ \t]{1,16}[\"']?[\w.-]{1,253}[\"']?:[ \t]{0,8}(?:[|>][+-]?[ \t\r]{0,8}\n[ \t]{1,16})?"
    rb"[\"']?([A-Za-z0-9+/_-]{10,}={0,2})[\"']?[ \t\r]{0,8}$",
    re.MULTILINE,
)
"""A value without blanks, quoted or not, or in the lines below; a template's `{{ }}` is none."""
GENERIC = (_VALUE, _BEFORE, _URL, _RUN, _PLACEHOLDER, _NOWHERE, _DOCUMENT, _SECRET, _DATA, _ENTRY)
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


def secrets_in_manifests(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the values of each `kind: Secret` of Kubernetes in YAML, whose keys can be in any order."""
    begin = 0
    for document in _DOCUMENT.finditer(data):
        if _SECRET.search(data, begin, document.start()):
            for block in _DATA.finditer(data, begin, document.start()):
                yield from _ENTRY.finditer(data, *block.span(1))
        begin = document.end()


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
    for target in config.alerts.targets:
        found = _kind(" ".join((target.url, *target.headers.values(), target.body)))
        if found:
            yield (
                f"alerts.{target.kind} contains what looks like {found}, and plan.json contains it on every "
                "node: write ${NAME} in its place, and set that environment variable"
            )


def _kind(text: str) -> str:
    """Return the kind of credential, without the line."""
    return secret_in(text.encode("utf-8", "surrogateescape")).partition(" (")[0]
