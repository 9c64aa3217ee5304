"""Opt-in storage of passwords and passphrases in the system's keyring, by the package `keyring`.

The names of stored secrets are listed in Torchdeck's home: for others the keyring is never opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.ssh.credentials import Asker, Credentials
from torchdeck.nodes.ssh.target import SshTarget

T = TypeVar("T")
SERVICE = "torchdeck"


class KeyringError(Refusal):
    """The keyring cannot be used; the message says why and how to fix it."""

    page = "machines#ssh"


class Keyring:
    """Secrets of a Torchdeck home that its user has put into the keyring.

    Args:
        home: Torchdeck's.
    """

    def __init__(self, home: Path) -> None:
        self._file = Home(home).keyring

    @property
    def names(self) -> list[str]:
        """Names of its secrets: `password of root@host:22`, `passphrase of /path`."""
        value = read_json(self._file)
        return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []

    @property
    def is_there(self) -> bool:
        """Whether this machine has a usable keyring; may take a moment to find out."""
        try:
            import keyring
        except ImportError:
            return False
        from keyring.backends import fail, null

        return not isinstance(keyring.get_keyring(), fail.Keyring | null.Keyring)

    def keep(self, credentials: Credentials) -> list[str]:
        """Put all known credentials into the keyring. Return the names of the new ones.

        Raises:
            KeyringError: there is no keyring, or it refuses.
        """
        held = credentials.to_json()
        secrets = {password_name(login): secret for login, secret in held["passwords"].items()}
        secrets |= {passphrase_name(path): secret for path, secret in held["passphrases"].items()}
        return self.keep_secrets(secrets)

    def keep_secrets(self, secrets: Mapping[str, str]) -> list[str]:
        """Put secrets by name into the keyring. Return the names of the new ones.

        Raises:
            KeyringError: there is no keyring, or it refuses.
        """
        before = self.names
        for name, secret in secrets.items():
            _use(lambda keyring, name=name, secret=secret: keyring.set_password(SERVICE, name, secret))  # type: ignore[misc]
            self._write({*self.names, name})  # one by one, so the list never lacks a stored secret
        return [name for name in secrets if name not in before]

    def forget(self, names: Iterable[str]) -> list[str]:
        """Remove secrets from the keyring. Return the names of those that existed.

        Raises:
            KeyringError: there is no keyring, or it refuses.
        """
        gone = [name for name in names if name in self.names]
        for name in gone:
            _use(lambda keyring, name=name: _delete(keyring, name))  # type: ignore[misc]
            self._write(set(self.names) - {name})
        return gone

    def secret(self, name: str) -> str | None:
        """Return the secret of this name, if it was stored and the keyring returns it."""
        if name not in self.names:
            return None
        try:
            return _use(lambda keyring: keyring.get_password(SERVICE, name))
        except KeyringError:
            return None  # the user is prompted instead

    def _write(self, names: set[str]) -> None:
        try:
            write_json(self._file, sorted(names))
        except OSError as error:
            raise KeyringError(f"{self._file} cannot be written: {error.strerror}") from error


class KeyringAsker:
    """Answers prompts from the keyring, and forwards those with missing or wrong secrets."""

    def __init__(self, keyring: Keyring, asker: Asker) -> None:
        self._keyring = keyring
        self._asker = asker

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """See `Asker`."""
        kept = None if again else self._keyring.secret(password_name(target.login))
        return self._asker.password(target, again=again) if kept is None else kept

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """See `Asker`."""
        kept = None if again else self._keyring.secret(passphrase_name(str(path)))
        return self._asker.passphrase(path, again=again) if kept is None else kept

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """See `Asker`."""
        return self._asker.trust(target, key_type, fingerprint)


def names_of(target: SshTarget) -> list[str]:
    """Return the names of the secrets of a target, and of the hosts before it."""
    hops = (*target.jumps, target)
    paths = [path for hop in hops for path in hop.identity_files]
    return [password_name(hop.login) for hop in hops] + [passphrase_name(str(path)) for path in paths]


def kept_secrets(home: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the values of those secrets of runs that the keyring has, by the variable's name."""
    keyring = Keyring(home)
    found = {name: keyring.secret(secret_name(name)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def secret_name(variable: str) -> str:
    """Return the name of a run's secret in the keyring."""
    return f"secret {variable}"


def password_name(login: str) -> str:
    """Return the name of a password in the keyring."""
    return f"password of {login}"


def passphrase_name(path: str) -> str:
    """Return the name of a passphrase in the keyring."""
    return f"passphrase of {path}"


class _Package:
    """The functions of `keyring` that are used."""

    def __init__(self) -> None:
        import keyring

        self.set_password: Callable[[str, str, str], None] = keyring.set_password
        self.get_password: Callable[[str, str], str | None] = keyring.get_password
        self.delete_password: Callable[[str, str], None] = keyring.delete_password


def _use(action: Callable[[_Package], T]) -> T:
    try:
        package = _Package()
    except ImportError as error:
        raise KeyringError("the package keyring is missing: pip install 'torchdeck[keyring]'") from error
    from keyring.errors import KeyringError as Refused

    try:
        return action(package)
    except Refused as error:
        raise KeyringError(f"the keyring cannot be used: {error}") from error


def _delete(package: _Package, name: str) -> None:
    from keyring.errors import PasswordDeleteError

    try:
        package.delete_password(SERVICE, name)
    except PasswordDeleteError:
        return  # already removed
