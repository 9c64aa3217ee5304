"""Known host keys: known_hosts files, read as described in sshd(8), evaluated, and extended."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Verdict(Enum):
    """Verdict of the files on a key that a host has shown."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    """The files do not list this host."""
    CHANGED = "changed"
    """The files have other keys for this host."""
    REVOKED = "revoked"


@dataclass(frozen=True)
class KnownKey:
    """One line of a known_hosts file."""

    names: str
    """Patterns separated by commas, or one hashed name."""
    key_type: str
    blob: bytes
    """The public key as SSH sends it."""
    revoked: bool
    file: Path
    line: int
    """Counted from 1."""

    def is_about(self, name: str) -> bool:
        """Return whether the line applies to the host of this lower-case name."""
        if self.names.startswith("|"):
            return _is_hash_of(self.names, name)
        found = False
        for pattern in self.names.lower().split(","):
            if fnmatch.fnmatchcase(name, _escaped(pattern.removeprefix("!"))):
                if pattern.startswith("!"):
                    return False
                found = True
        return found


@dataclass(frozen=True)
class Judgement:
    """A verdict, and the line that it is based on."""

    verdict: Verdict
    because: KnownKey | None = None


def fingerprint(blob: bytes) -> str:
    """Return `SHA256:…`, as printed by ssh-keygen."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii")
    return f"SHA256:{digest.rstrip('=')}"


def read_known(files: Iterable[Path]) -> list[KnownKey]:
    """Read the lines of all existing files; lines without a known key are skipped, as in ssh.

    Raises:
        OSError: a file exists and cannot be read.
    """
    known = []
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        lines = (_parsed(line, file, number) for number, line in enumerate(text.splitlines(), start=1))
        known += [line for line in lines if line is not None]
    return known


def judge(known: Sequence[KnownKey], names: Sequence[str], blob: bytes) -> Judgement:
    """Judge the key `blob` shown by a host of these names against `known`.

    The first name is the host's own; the others may only confirm the key, never contradict it, as in ssh a
    host without its port does. A host that is only known by keys of other types counts as changed.
    """
    about = [line for line in known if any(line.is_about(name) for name in names)]
    same = [line for line in about if line.blob == blob]
    revoked = [line for line in known if line.revoked and line.blob == blob]
    if revoked:
        return Judgement(Verdict.REVOKED, revoked[0])
    if same:
        return Judgement(Verdict.KNOWN, same[0])
    others = [line for line in about if not line.revoked and line.is_about(names[0])]
    return Judgement(Verdict.CHANGED, others[0]) if others else Judgement(Verdict.UNKNOWN)


def known_types(known: Sequence[KnownKey], names: Sequence[str]) -> list[str]:
    """Return the types of the keys that a host is known by, which are requested first."""
    about = (line for line in known if not line.revoked and any(line.is_about(name) for name in names))
    return list(dict.fromkeys(line.key_type for line in about))


def trust(file: Path, name: str, key_type: str, blob: bytes) -> None:
    """Record that a host's key is trusted: one line, appended.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{name} {key_type} {base64.b64encode(blob).decode('ascii')}\n".encode()
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parsed(line: str, file: Path, number: int) -> KnownKey | None:
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked"):
        return None  # CA keys too: hosts with certificates are asked for keys
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    return KnownKey(words[0], words[1], blob, marker == "@revoked", file, number)


def _is_hash_of(hashed: str, name: str) -> bool:
    """`|1|salt|hash`: HMAC-SHA1 of the name."""
    parts = hashed.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def _escaped(pattern: str) -> str:
    """Escape brackets, which are special to fnmatch: here they enclose a host that has a port."""
    return pattern.replace("[", "[[]")
