"""Files that are never copied nor sent, whatever rules say: keys, passwords, and git's own folder."""

from __future__ import annotations

import re
from fnmatch import translate

HEAD = 4096
"""Bytes of a file that are looked at for a private key."""
_NAMES = (
    *(
        ".env*",
        "*.env",
        "id_rsa*",
        "id_dsa*",
        "id_ecdsa*",
        "id_ed25519*",
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.ppk",
    ),
    *("*.jks", "*.keystore", "*.kdbx", ".netrc", "_netrc", ".pgpass", ".git-credentials", ".pypirc"),
    *(".npmrc", ".htpasswd", "credentials.json", "service-account*.json", "secrets.toml"),
)
_FOLDERS = frozenset({".git", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker"})
_NAME = re.compile("|".join(translate(name) for name in _NAMES), re.IGNORECASE)
_KEY = re.compile(
    rb"^(?:-----BEGIN (?:[A-Z0-9 ]+ )?PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-|openssh-key-v1\0)",
    re.MULTILINE,
)


def is_secret_name(name: str) -> bool:
    """Whether a file or folder of this name (without its folder) never goes; public keys do."""
    if name.endswith(".pub"):
        return False
    return name in _FOLDERS or _NAME.match(name) is not None


def holds_key(head: bytes) -> bool:
    """Whether the first `HEAD` bytes of a file say that it holds a private key."""
    return _KEY.search(head) is not None
