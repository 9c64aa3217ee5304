"""Connections of the window to nodes: with prompts to the user, or without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torchdeck.nodes.connector import Connector
from torchdeck.nodes.ssh.credentials import Asker, Credentials, NoAsker
from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringAsker


@dataclass(frozen=True)
class Logins:
    """Pair of connectors that share entered logins and the keyring."""

    asking: Connector
    """Prompts the user for missing logins; not from the GUI thread."""
    quiet: Connector
    """Never prompts: missing logins are reported by its error."""
    ask_again: Callable[[], None]
    """Called on a user action on a node: declined prompts may appear again."""

    @property
    def home(self) -> Path:
        """TORCHDECK_HOME."""
        return self.quiet.home


def make_logins(
    home: Path, asker: Asker | None = None, ask_again: Callable[[], None] = lambda: None
) -> Logins:
    """Create the logins of a Torchdeck home, with prompts by `asker`; without one, there are none."""
    credentials, keyring = Credentials(), Keyring(home)
    return Logins(
        Connector(home, KeyringAsker(keyring, asker or NoAsker()), credentials),
        Connector(home, KeyringAsker(keyring, NoAsker()), credentials),
        ask_again,
    )
