"""Which machines a run file chooses: those it names, all it describes or some of them, or this one."""

from __future__ import annotations

from torchdeck.config.node_names import expand_all
from torchdeck.config.ranges import parse_range
from torchdeck.config.schema import RunConfig
from torchdeck.nodes.inventory import LOCALHOST


def node_names(config: RunConfig, *, named: bool = True) -> list[str]:
    """The nodes of a run, one by one.

    Args:
        config: whose.
        named: distributed.nodes is written, or resolved; else they are all that [cluster] describes, if it
            does.

    Raises:
        RangeError: distributed.nodes is a text that is no range.
    """
    nodes = config.distributed.nodes
    if isinstance(nodes, str):
        return (described_names(config) or [LOCALHOST])[: parse_range(nodes).most]
    if named or not config.cluster.nodes:
        return expand_all(nodes)
    return described_names(config)


def described_names(config: RunConfig) -> list[str]:
    """The machines that [cluster] describes, one by one."""
    return expand_all(nodes.name for nodes in config.cluster.nodes)
