"""Imports hosts of an SSH config into the node inventory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchdeck.nodes.inventory.file import change_inventory, inventory_path, parse_inventory
from torchdeck.nodes.inventory.file_edits import with_node
from torchdeck.nodes.ssh.config_file import ConfigHost, hosts_of
from torchdeck.use_cases.nodes.chosen import NodesUsageError

__all__ = ["ConfigHost", "find_hosts", "import_hosts"]


def find_hosts(file: Path, home: Path) -> list[ConfigHost]:
    """Return the hosts of an SSH config. Raises NodesUsageError if there is no such file."""
    if not file.is_file():
        raise NodesUsageError(
            f"there is no file {file}", fix="`torchdeck nodes add NAME ADDRESS` adds a node without it"
        )
    return hosts_of(file, home)


def import_hosts(hosts: Sequence[ConfigHost], home: Path) -> list[str]:
    """Add the hosts that can be nodes; return their names. Nodes of the inventory stay unchanged.

    Raises:
        ConfigError: the inventory is invalid, or would be.
        TimeoutError, OSError: it cannot be changed.
    """
    added: list[str] = []

    def add(text: str) -> str:
        present = parse_inventory(text, str(inventory_path(home))).nodes
        for host in hosts:
            if host.entry is not None and host.name not in present:
                text = with_node(text, host.name, host.entry)
                added.append(host.name)
        return text

    change_inventory(inventory_path(home), add)
    return added
