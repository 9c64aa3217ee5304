"""Errors of connections to nodes: each a full sentence that names the node."""

from __future__ import annotations

from typing import ClassVar

from torchdeck.contract.refusal import Refusal


def reason(error: Exception) -> str:
    """Return the message of an exception of paramiko or of a socket; some are empty when a connection
    ends.
    """
    said = error.strerror if isinstance(error, OSError) else ""
    return said or str(error) or "it was closed"


class SshError(Refusal):
    """Error of a connection to a node; `node` says which."""

    page = "machines#ssh"
    lasts: ClassVar[bool] = False
    """Whether every further try fails, too, until a user changes something."""
    asking_helps: bool = False
    """Whether a prompt to the user may help."""

    def __init__(self, node: str, sentence: str) -> None:
        super().__init__(sentence, node=node)


class UnreachableError(SshError):
    """The node does not answer or does not speak SSH, or the connection was lost."""


class UnansweredError(SshError, TimeoutError):
    """The connection is up, and a command or channel on it exceeded its timeout."""


class NeedsLoginError(SshError):
    """The known credentials are rejected: a key, passphrase or password is missing or wrong.

    If `asking_helps` is false, another key helps, or the SSH config.
    """

    lasts = True

    def __init__(self, node: str, sentence: str, *, asking_helps: bool = True) -> None:
        super().__init__(node, sentence)
        self.asking_helps = asking_helps


class HostKeyUnknownError(SshError):
    """The host key is not verified yet."""

    lasts = True
    asking_helps = True

    def __init__(self, node: str, sentence: str, key_type: str, fingerprint: str) -> None:
        super().__init__(node, sentence)
        self.key_type = key_type
        self.fingerprint = fingerprint


class HostKeyChangedError(SshError):
    """The host key differs from the known one: never connected to, regardless of the asker."""

    lasts = True


class HostKeyRevokedError(HostKeyChangedError):
    """The host key is revoked: it must not be trusted."""


class TargetError(SshError):
    """The node inventory or the SSH config does not lead to a host."""

    is_usage = True
    lasts = True
