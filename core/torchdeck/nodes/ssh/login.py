"""Login to a host that has shown the right key: keys, then passphrases, then passwords, as in ssh."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.nodes.ssh.errors import NeedsLoginError, UnreachableError, reason
from torchdeck.nodes.ssh.questions import Asked, PassphraseQuestion, PasswordQuestion
from torchdeck.nodes.ssh.target import SshTarget, usual_keys

if TYPE_CHECKING:
    from paramiko import AgentKey, PKey, Transport


PASSWORD_METHODS = ("keyboard-interactive", "password")


def log_in(transport: Transport, target: SshTarget, asked: Asked, deadline: float) -> None:
    """Log in as `target.user`.

    Args:
        transport: a connection that has shown the right host key.
        target: user to log in as.
        asked: known credentials, and the prompts that are allowed.
        deadline: time of the timeout, by the monotonic clock.

    Raises:
        Question: the user must be prompted first.
        NeedsLoginError: all known credentials, and those that may be prompted for, are rejected.
        UnreachableError: the connection was lost meanwhile.
    """
    login = _Login(transport, target, asked, deadline)
    with identities(target) as found:
        login.trouble += found.trouble
        if login.by_keys(found) or login.by_password():
            return
        login.ask()
    login.give_up()


@dataclass
class _Login:
    transport: Transport
    target: SshTarget
    asked: Asked
    deadline: float
    methods: Sequence[str] | None = None
    """Methods that the server accepts, once it has reported them."""
    locked: list[Path] = field(default_factory=list)
    refused: int = 0
    """Number of keys that the server rejected."""
    trouble: list[str] = field(default_factory=list)

    def by_keys(self, found: Identities) -> bool:
        user = self.target.user
        for agent_key in found.agent_keys:
            if self._tried(lambda key=agent_key: self.transport.auth_publickey(user, key)):  # type: ignore[misc]
                return True
            self.refused += 1
        for path in found.files:
            passphrase = self.asked.credentials.passphrase(path)
            try:
                key = load_key(path, passphrase)
            except LockedKeyError:
                self._still_locked(path, passphrase)
                continue
            except ValueError as error:
                self.trouble.append(str(error))
                continue
            if self._tried(lambda key=key: self.transport.auth_publickey(user, key)):  # type: ignore[misc]
                return True
            self.refused += 1
        return False

    def by_password(self) -> bool:
        """Try a known password, but only after all locked keys that may be prompted for."""
        password = self.asked.credentials.password(self.target)
        if password is None or self._askable_keys():
            return False
        taken = [method for method in PASSWORD_METHODS if method in self._methods()]
        for method in taken:
            if self._tried(lambda method=method: self._give(method, password)):  # type: ignore[misc]
                return True
        if taken:
            self.asked.credentials.forget_password(self.target, password)
            self.asked.was_wrong(self.target.login)
        return False

    def ask(self) -> None:
        """Raise the next prompt that may help."""
        methods = self._methods()
        if "publickey" in methods:
            for path in self._askable_keys():
                raise PassphraseQuestion(path)
        if any(method in methods for method in PASSWORD_METHODS) and self.asked.may_ask(self.target.login):
            raise PasswordQuestion(self.target)

    def give_up(self) -> None:
        methods = self._methods()
        what = []
        if self.refused:
            what.append(f"{self.refused} {'keys were' if self.refused > 1 else 'key was'} rejected")
        elif not self.locked:
            what.append("no key to try was found")
        what += [f"{path} needs a passphrase" for path in self.locked]
        takes_password = any(method in methods for method in PASSWORD_METHODS)
        if takes_password:
            wrong = self.asked.wrong.get(self.target.login, 0)
            what.append("the password was wrong" if wrong else "the password was not given")
        asking_helps = takes_password or bool(self.locked and "publickey" in methods)
        or_ask = ", or connect from a terminal or window, which ask" if asking_helps else ""
        raise NeedsLoginError(
            self.target.name,
            f"{self.target.login} rejected all known credentials: {', '.join([*what, *self.trouble])}. "
            f"It accepts: {', '.join(methods) or 'no supported method'}. Name a key that it knows in the "
            f"node inventory{',' if asking_helps else ' or'} load one into an agent (ssh-add){or_ask}",
            asking_helps=asking_helps,
        )

    def _tried(self, attempt: Callable[[], Sequence[str]]) -> bool:
        """Return whether one attempt succeeded."""
        from paramiko.ssh_exception import AuthenticationException, BadAuthenticationType, SSHException

        # paramiko gives up on a server that is silent for longer
        self.transport.auth_timeout = max(0.001, self.deadline - time.monotonic())
        try:
            more = attempt()
        except BadAuthenticationType as error:
            self.methods = error.allowed_types
            return False
        except (AuthenticationException, SSHException, EOFError, OSError) as error:
            if time.monotonic() >= self.deadline:
                raise UnreachableError(
                    self.target.name, f"{self.target.login} did not answer within the limit"
                ) from error
            if not self.transport.is_active():
                raise self._hung_up(error) from error
            return False
        if more:  # accepted, but not sufficient: a second factor
            self.methods = more
            return False
        return True

    def _hung_up(self, error: Exception) -> Exception:
        if self.refused or self.asked.wrong:
            return NeedsLoginError(
                self.target.name,
                f"{self.target.login} closed the connection after {self.refused + 1} keys: servers "
                "limit the number of attempts. Name the "
                "right one as key in the node inventory, or set IdentitiesOnly in the SSH config",
                asking_helps=False,
            )
        return UnreachableError(
            self.target.name, f"{self.target.login} closed the connection during login ({reason(error)})"
        )

    def _give(self, method: str, password: str) -> Sequence[str]:
        if method == "password":
            return self.transport.auth_password(self.target.user, password, fallback=False)
        return self.transport.auth_interactive(
            self.target.user, lambda _title, _text, prompts: _answers(prompts, password)
        )

    def _methods(self) -> Sequence[str]:
        if self.methods is None:
            self.methods = ()
            if self._tried(lambda: self.transport.auth_none(self.target.user)):
                self.methods = ("none",)
        return self.methods

    def _still_locked(self, path: Path, passphrase: str | None) -> None:
        self.locked.append(path)
        if passphrase is not None:
            self.asked.credentials.forget_passphrase(path, passphrase)
            self.asked.was_wrong(str(path))

    def _askable_keys(self) -> list[Path]:
        return [path for path in self.locked if self.asked.may_ask(str(path))]


def _answers(prompts: Sequence[tuple[str, bool]], password: str) -> list[str]:
    """Return the password for the only hidden prompt; empty for all other prompts."""
    hidden = [not echo for _, echo in prompts]
    return [password if secret and hidden.count(True) == 1 else "" for secret in hidden]


# Keys offered to a target: from an agent and from files, in the order in which ssh tries them.

AGENT_LIMIT = 5.0
"""Timeout in seconds for an agent to list its keys; to sign it may prompt its owner, who is slower."""
_OPENSSH_MAGIC = b"openssh-key-v1\0"


class LockedKeyError(Exception):
    """A private key needs a passphrase, or the given one is wrong."""


@dataclass
class Identities:
    """Usable keys, and problems of the others."""

    agent_keys: list[AgentKey] = field(default_factory=list)
    """Keys of the agent; those that the target names first."""
    files: list[Path] = field(default_factory=list)
    """Existing private keys that the agent does not have."""
    trouble: list[str] = field(default_factory=list)
    """Clauses about keys that could not be used."""


@contextlib.contextmanager
def identities(target: SshTarget) -> Iterator[Identities]:
    """Yield the keys to offer to `target`; the agent, which signs, is disconnected at the end.

    As OpenSSH orders it: keys of the agent that the target names, then its others, then files.
    """
    found = Identities()
    with _agent_keys(target, found) as keys:
        named = {path: public_blob(path) for path in target.identity_files}
        blobs = [key.asbytes() for key in keys]
        first = [keys[blobs.index(blob)] for blob in named.values() if blob is not None and blob in blobs]
        rest = [] if target.identities_only else [key for key in keys if key not in first]
        found.agent_keys = [*first, *rest]
        found.files = [path for path, blob in named.items() if path.is_file() and blob not in blobs]
        usual = usual_keys()  # not requested explicitly: most users have one of them
        missing = [path for path, blob in named.items() if blob is None and not path.exists()]
        found.trouble += [f"{path} does not exist" for path in missing if path not in usual]
        yield found


def load_key(path: Path, passphrase: str | None) -> PKey:
    """Load the private key at `path`, with its certificate if there is one next to it.

    Raises:
        LockedKeyError: it has a passphrase, and this is not it.
        ValueError: it is not a usable private key; the message says why.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko import PKey
    from paramiko.ssh_exception import PasswordRequiredException, SSHException

    secret = None if passphrase is None else passphrase.encode("utf-8")
    try:
        key: PKey = PKey.from_path(path, secret)  # type: ignore[arg-type]
    except PasswordRequiredException as error:
        raise LockedKeyError(str(path)) from error
    except TypeError as error:  # by cryptography: a passphrase is missing or superfluous
        if "not encrypted" in str(error):
            return load_key(path, None)
        raise LockedKeyError(str(path)) from error
    except (SSHException, ValueError, UnsupportedAlgorithm) as error:
        if passphrase is not None and is_locked(path):
            raise LockedKeyError(str(path)) from error
        raise ValueError(f"{path} is not a usable private key ({error})") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from error
    return key


def is_locked(path: Path) -> bool:
    """Return whether the private key at `path` has a passphrase."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    if "ENCRYPTED" in text:  # PEM has it in a header
        return True
    blob = _openssh_body(text)
    if not blob.startswith(_OPENSSH_MAGIC):
        return False
    cipher, _ = _string(blob, len(_OPENSSH_MAGIC))
    return cipher != b"none"


def public_blob(path: Path) -> bytes | None:
    """Return the public half of a private key, without its passphrase; None if it is not available."""
    with contextlib.suppress(OSError, ValueError, IndexError, struct.error, binascii.Error):
        beside = path.with_name(f"{path.name}.pub")
        if beside.is_file():
            return base64.b64decode(beside.read_text(encoding="ascii", errors="replace").split()[1])
        blob = _openssh_body(path.read_text(encoding="ascii", errors="replace"))
        if not blob.startswith(_OPENSSH_MAGIC):
            return None
        at = len(_OPENSSH_MAGIC)
        for _ in range(3):  # cipher, KDF, KDF's options
            _, at = _string(blob, at)
        public, _ = _string(blob, at + 4)  # after the number of keys, which is 1
        return public
    return None


def _openssh_body(text: str) -> bytes:
    begin, end = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END"
    if begin not in text:
        return b""
    body = text.partition(begin)[2].partition(end)[0]
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error:
        return b""


def _string(blob: bytes, at: int) -> tuple[bytes, int]:
    """Return an SSH string, preceded by four bytes of length, and its end."""
    (length,) = struct.unpack_from(">I", blob, at)
    return blob[at + 4 : at + 4 + length], at + 4 + length


@contextlib.contextmanager
def _agent_keys(target: SshTarget, found: Identities) -> Iterator[list[AgentKey]]:
    path = os.environ.get("SSH_AUTH_SOCK", "") if target.agent_socket is None else target.agent_socket
    if not path:
        yield []
        return
    from paramiko.ssh_exception import SSHException

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        keys: list[AgentKey] = []
        try:
            connection.settimeout(AGENT_LIMIT)
            connection.connect(path)
            keys = _listed_keys(connection)
            connection.settimeout(None)
        except (OSError, SSHException) as error:
            found.trouble.append(f"the agent at {path} does not answer ({error})")
        yield keys


def _listed_keys(connection: socket.socket) -> list[AgentKey]:
    from paramiko.agent import AgentSSH

    class SocketAgent(AgentSSH):
        """SSH agent with its own socket and a timeout: paramiko's only knows SSH_AUTH_SOCK, and waits
        forever.
        """

        def __init__(self) -> None:
            super().__init__()
            self._connect(connection)  # type: ignore[attr-defined]

    return list(SocketAgent().get_keys())
