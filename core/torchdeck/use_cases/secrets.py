"""Values of a run's secrets: from the environment, else from the keyring, else from the user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from torchdeck.nodes.ssh.keyring_store import Keyring, kept_secrets, secret_name


class MissingSecrets(NamedTuple):
    """Secrets without a value."""

    names: tuple[str, ...]
    can_keep: bool
    """Whether this machine has a keyring that could keep them."""


def missing_secrets(names: Iterable[str], home: Path) -> MissingSecrets:
    """Return which of `names` have no value; may take a moment, as the keyring is asked.

    Args:
        names: names of environment variables.
        home: TORCHDECK_HOME.
    """
    unset = [name for name in names if name not in os.environ]
    found = kept_secrets(home, unset)
    missing = tuple(name for name in unset if name not in found)
    return MissingSecrets(missing, bool(missing) and Keyring(home).is_there)


def keep_secrets(values: Mapping[str, str], home: Path) -> None:
    """Put values into the keyring, from which later starts take them.

    Raises:
        KeyringError: there is no keyring, or it refuses.
    """
    Keyring(home).keep_secrets({secret_name(name): value for name, value in values.items()})
