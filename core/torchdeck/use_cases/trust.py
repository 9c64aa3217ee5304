"""Trust code, which may then run with all permissions of the user: list it, add to it, remove from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.trust.trust_list import NodeScript, TrustList
from torchdeck.trust.trusted_entry import Condition, State, Trusted

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.use_cases.ui import Ui

_LIMIT = 20.0
"""Timeout in seconds for connecting to a node, and for reading its script."""


class TrustedCode(NamedTuple):
    """A folder or file, or an activation script of a node."""

    path: str
    """`NODE:PATH` for a script."""
    state: State
    """Whether trust applies now. A script's is checked by its node."""
    entry: Trusted | None = None
    """State in which it was trusted; None for a script."""


def trusted_code(home: Path) -> list[TrustedCode]:
    """Return everything that is trusted. Raises TrustError if the list cannot be used."""
    trusted = TrustList(home)
    here = [TrustedCode(entry.path, entry.state(), entry) for entry in trusted.entries()]
    scripts = [str(script) for script, digest in trusted.node_scripts().items() if digest]
    return here + [TrustedCode(script, State(Condition.TRUSTED)) for script in scripts]


def trust(path: Path, home: Path, ui: Ui) -> str:
    """Trust a folder with everything below it, a file as it is, or an activation script, `NODE:PATH`.

    Returns:
        what is trusted now, by its full path.

    Raises:
        TrustError: it cannot be trusted in its state, or the list cannot be written.
        NodeNamesError, SshError: there is no such node, or no connection to it.
    """
    script = NodeScript.from_text(str(path))
    if script is None or path.exists():
        return TrustList(home).add(path.expanduser()).path
    from torchdeck.nodes.activation import trust_script
    from torchdeck.nodes.inventory.names import named_nodes

    connector = ui.connector(home)
    named_nodes(connector.node_inventory(), [script.node])
    with connector.connect(script.node, _LIMIT) as connection:
        trust_script(connection, home, script, _LIMIT)
    return str(script)


def distrust(path: Path, home: Path) -> bool:
    """Ask again before the code at `path` runs; return whether it was trusted. Raises TrustError."""
    return TrustList(home).remove(path.expanduser())


def trust_run(loaded: LoadedConfig, home: Path | None = None) -> None:
    """Trust the recipe of a run file, its possible imports, its Python, and hosts that get secrets.

    Raises:
        HomeError: TORCHDECK_HOME cannot be used.
        TrustError: others can write it, or the trust list cannot be written.
    """
    from torchdeck.launching.gate import Gate
    from torchdeck.runs.home import torchdeck_home

    Gate(torchdeck_home(home)).trust(loaded.config, loaded.files)
