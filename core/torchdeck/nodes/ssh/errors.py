"""Why a node cannot be talked to: each a full sentence that names the node."""

from __future__ import annotations

from torchdeck.contract.refusal import Refusal


def reason(error: Exception) -> str:
    """What an exception of paramiko or of a socket says; some say nothing when a connection ends."""
    said = error.strerror if isinstance(error, OSError) else ""
    return said or str(error) or "it was closed"


class SshError(Refusal):
    """Something about a connection to a node; `node` is which."""

    page = "machines#ssh"

    def __init__(self, node: str, sentence: str) -> None:
        super().__init__(sentence, node=node)


class UnreachableError(SshError):
    """Nobody answers there, or what answers does not speak SSH, or the connection was lost."""


class UnansweredError(SshError, TimeoutError):
    """The connection is there, and a command or channel on it took longer than its limit."""


class NeedsLoginError(SshError):
    """It lets nobody in with what is known: a key, passphrase or password is missing or wrong.

    `asking_helps`: a person may be asked for what it takes; else another key helps, or the SSH config.
    """

    def __init__(self, node: str, sentence: str, *, asking_helps: bool = True) -> None:
        super().__init__(node, sentence)
        self.asking_helps = asking_helps


class HostKeyUnknownError(SshError):
    """Nobody has said yet that its host key is the right one."""

    def __init__(self, node: str, sentence: str, key_type: str, fingerprint: str) -> None:
        super().__init__(node, sentence)
        self.key_type = key_type
        self.fingerprint = fingerprint


class HostKeyChangedError(SshError):
    """Its host key is another one than before: never connected to, whoever is asked."""


class HostKeyRevokedError(HostKeyChangedError):
    """Its host key is revoked: to be trusted by nobody."""


class TargetError(SshError):
    """What the node inventory or the SSH config says does not lead to a host."""

    is_usage = True
