"""Passwords and passphrases, in memory only, and prompts for missing ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from torchdeck.nodes.ssh.target import SshTarget


class Asker(Protocol):
    """A front end that can prompt the user. One prompt at a time, from whichever thread connects."""

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """Prompt for the password of `target.login`; None to do without. `again`: the last one was wrong."""

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """Prompt for the passphrase of a private key; None to do without it."""

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """Ask whether the host's key is the right one."""


class NoAsker:
    """Asker without a user to prompt: everything is declined, and the error says how to fix it."""

    def password(self, target: SshTarget, *, again: bool) -> str | None:  # noqa: ARG002
        """Decline: return None."""
        return None

    def passphrase(self, path: Path, *, again: bool) -> str | None:  # noqa: ARG002
        """Decline: return None."""
        return None

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:  # noqa: ARG002
        """Decline: return False."""
        return False


class Credentials:
    """Credentials entered so far. Shared by all connections of a process; any thread may use it.

    Secrets are never exposed: not as text, and not pickled. `to_json` is for a pipe to a child.
    """

    def __init__(
        self, passwords: Mapping[str, str] | None = None, passphrases: Mapping[str, str] | None = None
    ) -> None:
        self._passwords = dict(passwords or {})
        self._passphrases = dict(passphrases or {})
        self._changing = threading.Lock()
        self.asking = threading.RLock()
        """Held while a person is asked, so that what one connection learns serves those that wait."""

    def __repr__(self) -> str:
        return f"Credentials({len(self._passwords)} passwords, {len(self._passphrases)} passphrases)"

    def __reduce__(self) -> Any:
        raise TypeError("credentials cannot be pickled, because a pickle may end up in a file")

    def password(self, target: SshTarget) -> str | None:
        """Return the password of `target.login`, if it is known."""
        return self._passwords.get(target.login)

    def set_password(self, target: SshTarget, password: str) -> None:
        """Store it."""
        self._passwords[target.login] = password

    def forget_password(self, target: SshTarget, wrong: str) -> None:
        """Drop a rejected password; a newer one stays."""
        with self._changing:
            if self._passwords.get(target.login) == wrong:
                del self._passwords[target.login]

    def passphrase(self, path: Path) -> str | None:
        """Return the passphrase of the private key at `path`, if it is known."""
        return self._passphrases.get(str(path))

    def set_passphrase(self, path: Path, passphrase: str) -> None:
        """Store it."""
        self._passphrases[str(path)] = passphrase

    def forget_passphrase(self, path: Path, wrong: str) -> None:
        """Drop a passphrase that does not open the key; a newer one stays."""
        with self._changing:
            if self._passphrases.get(str(path)) == wrong:
                del self._passphrases[str(path)]

    def to_json(self) -> dict[str, dict[str, str]]:
        """Return all secrets in plain text, only for a pipe inherited by a child."""
        return {"passwords": dict(self._passwords), "passphrases": dict(self._passphrases)}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Parse the result of `to_json`.

        Raises:
            ValueError: it is something else; its content is not in the message.
        """
        tables = [value.get(name) for name in ("passwords", "passphrases")] if isinstance(value, dict) else []
        if len(tables) != 2 or not all(_is_texts(table) for table in tables):
            raise ValueError("these are not credentials; expected tables of passwords and passphrases")
        return cls(*tables)


def _is_texts(table: Any) -> bool:
    return isinstance(table, dict) and all(isinstance(text, str) for pair in table.items() for text in pair)
