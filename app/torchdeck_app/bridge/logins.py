"""How the window reaches nodes: with a person to ask, or with nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torchdeck.nodes.connector import Connector
from torchdeck.nodes.ssh.credentials import Asker, Credentials, NoAsker
from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringAsker


@dataclass(frozen=True)
class Logins:
    """Both ways know what was asked for so far, and what lies in the keyring."""

    asking: Connector
    """Asks the person for what is missing; not from the GUI thread."""
    quiet: Connector
    """Asks nobody: what is missing is said by its error."""
    ask_again: Callable[[], None]
    """Called when the person wants something of a node: what was declined before is asked once more."""

    @property
    def home(self) -> Path:
        """TORCHDECK_HOME."""
        return self.quiet.home


def make_logins(
    home: Path, asker: Asker | None = None, ask_again: Callable[[], None] = lambda: None
) -> Logins:
    """Logins of a Torchdeck home, by which `asker` is asked; without one, nobody is."""
    credentials, keyring = Credentials(), Keyring(home)
    return Logins(
        Connector(home, KeyringAsker(keyring, asker or NoAsker()), credentials),
        Connector(home, KeyringAsker(keyring, NoAsker()), credentials),
        ask_again,
    )
