"""Nodes that a request names, and how to connect to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.inventory.schema import NodeEntry
    from torchdeck.use_cases.ui import Ui


class NodesUsageError(Refusal):
    """A request that makes no sense with this node inventory."""

    page = "machines#the-node-inventory"

    is_usage = True


class ChosenNodes(NamedTuple):
    """Nodes, and how to connect to them."""

    connector: Connector
    entries: Mapping[str, NodeEntry]
    """By name, in the requested order."""


def choose_nodes(asked: Sequence[str], home: Path, ui: Ui) -> ChosenNodes:
    """Return the nodes that `asked` names; all nodes of the inventory if it is empty.

    Args:
        asked: names, groups, ranges and tags.
        home: TORCHDECK_HOME.
        ui: gives the connector.

    Raises:
        ConfigError, NodeNamesError: the inventory is invalid, or there is no such node.
        NodesUsageError: the inventory has no nodes.
    """
    from torchdeck.nodes.inventory.names import named_nodes

    connector = ui.connector(home)
    inventory = connector.node_inventory()
    names = named_nodes(inventory, asked) if asked else list(inventory.nodes)
    if not names:
        raise NodesUsageError("there are no nodes yet", fix="`torchdeck nodes add NAME ADDRESS` adds one")
    return ChosenNodes(connector, {name: inventory.nodes[name] for name in names})
