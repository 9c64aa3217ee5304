"""Connects to nodes to verify their host keys, and keeps their logins in the system's keyring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.nodes.background import on_each
from torchdeck.nodes.ssh.errors import SshError
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.nodes.ssh.credentials import Asker, Credentials
    from torchdeck.nodes.ssh.target import SshTarget

LIMIT = 20.0
"""Timeout in seconds for connecting, without the time that the user takes to answer."""


@dataclass(frozen=True)
class TrustHostsRequest:
    """Parameters of `trust_hosts`."""

    home: Path
    """TORCHDECK_HOME."""
    nodes: Sequence[str]
    """Names, groups, ranges and tags."""
    fingerprints: Sequence[str] = ()
    """Keys with these fingerprints are trusted without a question."""
    keep_logins: bool = False
    """Store entered passwords and passphrases in the keyring."""


class Visited(NamedTuple):
    """Result of connecting to one node."""

    node: str
    login: str
    error: SshError | None
    """Why it failed; None: connected, and the host key is known."""


class TrustedHosts(NamedTuple):
    """Result of `trust_hosts`."""

    visited: Sequence[Visited]
    kept: Sequence[str]
    """Logins that were added to the keyring."""


def trust_hosts(request: TrustHostsRequest, ui: Ui) -> TrustedHosts:
    """Connect to all nodes at once without a question; then, one by one, to those that need an answer.

    Raises:
        ConfigError, NodeNamesError, TargetError: there is no such node.
        KeyringError: the logins cannot be stored.
    """
    from torchdeck.nodes.ssh.credentials import NoAsker
    from torchdeck.nodes.ssh.keyring_store import Keyring

    targets = _targets(request.home, request.nodes)
    connector = ui.connector(request.home)
    credentials = connector.credentials
    silent, asking = (_Given(asker, request.fingerprints) for asker in (NoAsker(), connector.asker))
    errors = on_each(targets, lambda target: _visit(target, credentials, silent), "trust")
    visited = []
    for target, first in zip(targets, errors, strict=True):
        ui.check()
        error = _visit(target, credentials, asking) if first is not None and first.asking_helps else first
        visited.append(Visited(target.name, target.login, error))
    kept = Keyring(request.home).keep(credentials) if request.keep_logins else ()
    return TrustedHosts(visited, list(kept))


def forget_logins(home: Path, nodes: Sequence[str]) -> list[str]:
    """Remove the logins of nodes from the keyring; return what was removed. Raises like `trust_hosts`."""
    from torchdeck.nodes.ssh.keyring_store import Keyring, names_of

    targets = _targets(home, nodes)
    return list(Keyring(home).forget(name for target in targets for name in names_of(target)))


def forget_secrets(home: Path, variables: Sequence[str]) -> list[str]:
    """Remove secrets of runs from the keyring; return what was removed.

    Args:
        home: TORCHDECK_HOME.
        variables: names of environment variables, as in run.secrets.

    Raises:
        KeyringError: there is no keyring, or it refuses.
    """
    from torchdeck.nodes.ssh.keyring_store import Keyring, secret_name

    return Keyring(home).forget(map(secret_name, variables))


def _targets(home: Path, asked: Sequence[str]) -> list[SshTarget]:
    from torchdeck.nodes.inventory.file import inventory_path, read_inventory
    from torchdeck.nodes.inventory.names import named_nodes
    from torchdeck.nodes.ssh.target import target_of

    inventory = read_inventory(inventory_path(home))
    return [target_of(name, inventory, home) for name in named_nodes(inventory, asked)]


def _visit(target: SshTarget, credentials: Credentials, asker: Asker) -> SshError | None:
    """Connect and disconnect; return why that failed."""
    from torchdeck.nodes.ssh.connection import connect

    try:
        connect(target, credentials, asker, LIMIT).close()
    except SshError as error:
        return error
    return None


class _Given:
    """Trusts keys with the given fingerprints; all other questions go to an asker."""

    def __init__(self, asker: Asker, fingerprints: Sequence[str]) -> None:
        self._asker = asker
        self._fingerprints = fingerprints

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        return self._asker.password(target, again=again)

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        return self._asker.passphrase(path, again=again)

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        return fingerprint in self._fingerprints or self._asker.trust(target, key_type, fingerprint)
