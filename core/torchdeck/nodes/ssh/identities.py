"""The keys that a target is shown: from an agent and from files, in the order in which ssh tries them."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.nodes.ssh.target import SshTarget, usual_keys

if TYPE_CHECKING:
    from paramiko import AgentKey, PKey

AGENT_LIMIT = 5.0
"""Seconds that an agent may take to list its keys; to sign it may ask its owner, who is slower."""
_OPENSSH_MAGIC = b"openssh-key-v1\0"


class LockedKeyError(Exception):
    """A private key needs a passphrase, or another one than was given."""


@dataclass
class Identities:
    """What can be tried, and what cannot."""

    agent_keys: list[AgentKey] = field(default_factory=list)
    """Those that the target names first."""
    files: list[Path] = field(default_factory=list)
    """Private keys that are there and that the agent does not have."""
    trouble: list[str] = field(default_factory=list)
    """Half sentences about what could not be used."""


@contextlib.contextmanager
def identities(target: SshTarget) -> Iterator[Identities]:
    """What to show `target`; the agent, which signs, is let go at the end.

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
        usual = usual_keys()  # those were not asked for: most people have one of them
        missing = [path for path, blob in named.items() if blob is None and not path.exists()]
        found.trouble += [f"{path} is not there" for path in missing if path not in usual]
        yield found


def load_key(path: Path, passphrase: str | None) -> PKey:
    """The private key at `path`, with its certificate where one lies beside it.

    Raises:
        LockedKeyError: it has a passphrase, and this is not it.
        ValueError: it is no private key that can be used; the message says why.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko import PKey
    from paramiko.ssh_exception import PasswordRequiredException, SSHException

    secret = None if passphrase is None else passphrase.encode("utf-8")
    try:
        key: PKey = PKey.from_path(path, secret)  # type: ignore[arg-type]
    except PasswordRequiredException as error:
        raise LockedKeyError(str(path)) from error
    except TypeError as error:  # cryptography's: a passphrase is needed, or one was given and is not
        if "not encrypted" in str(error):
            return load_key(path, None)
        raise LockedKeyError(str(path)) from error
    except (SSHException, ValueError, UnsupportedAlgorithm) as error:
        if passphrase is not None and is_locked(path):
            raise LockedKeyError(str(path)) from error
        raise ValueError(f"{path} is no private key that can be used ({error})") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from error
    return key


def is_locked(path: Path) -> bool:
    """Whether the private key at `path` has a passphrase."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    if "ENCRYPTED" in text:  # PEM says it in a header
        return True
    blob = _openssh_body(text)
    if not blob.startswith(_OPENSSH_MAGIC):
        return False
    cipher, _ = _string(blob, len(_OPENSSH_MAGIC))
    return cipher != b"none"


def public_blob(path: Path) -> bytes | None:
    """The public half of a private key, without its passphrase; None where it is not to be had."""
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
        public, _ = _string(blob, at + 4)  # behind the number of keys, which is 1
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
    """A string as SSH has it, four bytes of length before it, and where it ends."""
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
        """paramiko's own knows SSH_AUTH_SOCK alone, and waits for ever."""

        def __init__(self) -> None:
            super().__init__()
            self._connect(connection)  # type: ignore[attr-defined]

    return list(SocketAgent().get_keys())
