"""Resolution of names in a run file to nodes: names, ranges of them, groups, tags."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from torchdeck.config.values.node_names import NodeNameError, expand
from torchdeck.config.values.numbers import parse_range
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeInventory

TAG = "tag:"
"""Prefix of a tag: all nodes that have it."""


class NodeNamesError(Refusal, ValueError):
    """A name matches no node; the message says which, and suggests a correction."""

    page = "machines#the-node-inventory"

    is_usage = True


def named_nodes(node_inventory: NodeInventory, texts: Iterable[str]) -> list[str]:
    """Return the nodes of the inventory that `texts` name, in their order, each once.

    Raises:
        NodeNamesError: a text names none.
    """
    return list(dict.fromkeys(name for text in texts for name in members(node_inventory, text)))


def run_nodes(
    node_inventory: NodeInventory,
    nodes: str | Iterable[str],
    described: Collection[str] = frozenset(),
    spare: int = 0,
) -> list[str]:
    """Return the nodes of a run file's distributed.nodes, with groups and tags of the inventory expanded.

    A range takes nodes of the inventory in its order, unless nodes are described in the run file. A name that
    matches no node stays as it is: placement reports that it is unknown, and which names are known.

    Args:
        node_inventory: node inventory with the known nodes and groups.
        nodes: distributed.nodes.
        described: nodes described by [cluster]; such names are not looked up.
        spare: distributed.spare: a range takes so many more.

    Raises:
        RangeError: a text is not a range.
    """
    if isinstance(nodes, str):
        return [] if described else list(node_inventory.nodes)[: parse_range(nodes).most + spare]
    found: list[str] = []
    for text in nodes:
        try:
            found += [text] if text == LOCALHOST or text in described else members(node_inventory, text)
        except NodeNamesError:
            found.append(text)
    return list(dict.fromkeys(found))


def members(node_inventory: NodeInventory, text: str, around: Sequence[str] = ()) -> list[str]:
    """Return the nodes that one text names: a node, a range, a group, `tag:` and a tag.

    Args:
        node_inventory: node inventory with the known nodes and groups.
        text: the text.
        around: the enclosing groups that led here.

    Raises:
        NodeNamesError: nothing has that name, or groups contain each other.
    """
    if text.startswith(TAG):
        found = [name for name, entry in node_inventory.nodes.items() if text.removeprefix(TAG) in entry.tags]
        if not found:
            raise NodeNamesError(f"no node has the tag {text.removeprefix(TAG)}")
        return found
    try:
        names = expand(text)
    except NodeNameError as error:
        raise NodeNamesError(f"{text} is not a node name: {error}") from error
    return [node for name in names for node in _named(node_inventory, name, around)]


def _named(node_inventory: NodeInventory, name: str, around: Sequence[str]) -> list[str]:
    if name in node_inventory.nodes:
        return [name]
    if name in around:
        raise NodeNamesError(f"groups contain each other: {', '.join((*around, name))}")
    if name in node_inventory.groups:
        inside = (*around, name)
        return [
            node
            for text in node_inventory.groups[name].nodes
            for node in members(node_inventory, text, inside)
        ]
    from torchdeck.config.spelling import nearest  # it loads the whole run.toml schema

    near = nearest(name, [*node_inventory.nodes, *node_inventory.groups])
    meant = f"; did you mean {near[0]}?" if near else ""
    raise NodeNamesError(f"there is no node or group {name}{meant}")
