"""A person at a front end, for tests: gives the answers it was made with and notes what it was asked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchdeck.nodes.ssh.target import SshTarget


class Person:
    """Answers questions of `connect`: the next password or passphrase each time, at the end None."""

    def __init__(
        self,
        *,
        passwords: Sequence[str] = (),
        passphrases: Mapping[Path, Sequence[str]] | None = None,
        trusts: bool = False,
    ) -> None:
        self._passwords = list(passwords)
        self._passphrases = {path: list(answers) for path, answers in (passphrases or {}).items()}
        self._trusts = trusts
        self.asked: list[tuple[str, ...]] = []

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """The next password."""
        self.asked.append(("password", target.login, *(["again"] if again else [])))
        return self._passwords.pop(0) if self._passwords else None

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """The next passphrase of this key."""
        self.asked.append(("passphrase", str(path), *(["again"] if again else [])))
        answers = self._passphrases.get(path, [])
        return answers.pop(0) if answers else None

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """As it was made."""
        self.asked.append(("trust", target.host, key_type, fingerprint))
        return self._trusts
