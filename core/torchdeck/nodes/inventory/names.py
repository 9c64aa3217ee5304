"""From names as a run file has them to nodes: names, ranges of them, groups, tags."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from torchdeck.config.values.node_names import NodeNameError, expand
from torchdeck.config.values.ranges import parse_range
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeInventory

TAG = "tag:"
"""Before a tag: all nodes that have it."""


class NodeNamesError(Refusal, ValueError):
    """A name leads to no node; the message says which, and what was perhaps meant."""

    page = "machines#the-node-inventory"

    is_usage = True


def named_nodes(node_inventory: NodeInventory, texts: Iterable[str]) -> list[str]:
    """The nodes of the book that `texts` name, in their order, each once.

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
    """The nodes that a run file's distributed.nodes means, groups and tags of the book taken apart.

    A range takes nodes of the book in its order, where nothing is described in the run file. A name that
    leads to no node stays as it is: placement says that nothing is known about it, and what is.

    Args:
        book: which nodes and groups there are.
        nodes: distributed.nodes.
        described: what [cluster] describes; such names are not looked up.
        spare: distributed.spare: a range takes so many more.

    Raises:
        RangeError: it is a text that is no range.
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
    """The nodes that one text names: a node, a range, a group, `tag:` and a tag.

    Args:
        book: which nodes and groups there are.
        text: the text.
        around: the groups that led here.

    Raises:
        NodeNamesError: there is none of that name, or groups contain each other.
    """
    if text.startswith(TAG):
        found = [name for name, entry in node_inventory.nodes.items() if text.removeprefix(TAG) in entry.tags]
        if not found:
            raise NodeNamesError(f"no node has the tag {text.removeprefix(TAG)}")
        return found
    try:
        names = expand(text)
    except NodeNameError as error:
        raise NodeNamesError(f"{text} names no node: {error}") from error
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
    from torchdeck.config.spelling import nearest  # which knows all of run.toml

    near = nearest(name, [*node_inventory.nodes, *node_inventory.groups])
    meant = f"; did you mean {near[0]}?" if near else ""
    raise NodeNamesError(f"there is no node or group {name}{meant}")
