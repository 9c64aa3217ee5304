"""Credentials inside files: private keys anywhere in a file of any size, all others in small files."""

from __future__ import annotations

import hashlib
import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator

from torchdeck.launching.code.secret_rules import GENERIC, ISSUED, assigned_to_secret_names, passwords_in_urls

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
