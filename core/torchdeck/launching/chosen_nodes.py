"""The nodes that a run file chooses, and connecting to them before they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchdeck.config.chosen_nodes import described_names
from torchdeck.config.problems import ConfigError
from torchdeck.config.schema import RunConfig
from torchdeck.nodes.inventory.names import run_nodes
from torchdeck.nodes.inventory.schema import NodeInventory

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector


def chosen(config: RunConfig, node_inventory: NodeInventory, described: frozenset[str]) -> list[str]:
    """Return the nodes that `config` names; see `nodes.book.names.run_nodes`."""
    return run_nodes(node_inventory, config.distributed.nodes, described, config.distributed.spare)


@contextmanager
def pre_connected(config: RunConfig, reach: Connector | None) -> Iterator[Connector | None]:
    """`reach`, connecting to the nodes of `config` in threads while the caller plans and checks.

    The connections stay open until the block ends. A connection that fails is reported to the first caller
    that needs it.

    Args:
        config: of the run.
        reach: how nodes are reached; None: there are none.
    """
    if reach is None:
        yield None
        return
    from torchdeck.nodes.ssh import loaded  # noqa: F401 - at once, and not in a thread beside other imports

    with reach.keeping_probe_sessions(nodes_in_inventory(config, reach)) as kept:
        yield kept


def nodes_in_inventory(config: RunConfig, reach: Connector) -> list[str]:
    """Return the nodes that can be connected to. A damaged inventory is reported by the code that probes the
    nodes.
    """
    try:
        node_inventory = reach.node_inventory()
    except ConfigError:
        return []
    names = chosen(config, node_inventory, frozenset(described_names(config)))
    return [name for name in names if name in node_inventory.nodes]
