"""Which machines a run file chooses: those it names, all it describes or some of them, or this one."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.config.distributed import Distributed
from torchdeck.config.schema import RunConfig
from torchdeck.config.values.node_names import expand_all
from torchdeck.config.values.ranges import parse_range
from torchdeck.contract.inventory import LOCALHOST


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
        return (described_names(config) or [LOCALHOST])[: most_taken(config.distributed)]
    if named or not config.cluster.nodes:
        return expand_all(nodes)
    return described_names(config)


def described_names(config: RunConfig) -> list[str]:
    """The machines that [cluster] describes, one by one."""
    return expand_all(nodes.name for nodes in config.cluster.nodes)


class Wanted(NamedTuple):
    """How many nodes get ranks."""

    least: int
    """With fewer the run does not begin."""
    most: int
    """So many from the beginning, if they are there; others are spares."""


def wanted(distributed: Distributed, candidates: int) -> Wanted:
    """How many of so many `candidates` get ranks.

    Raises:
        RangeError: distributed.nodes is a text that is no range.
    """
    if isinstance(distributed.nodes, str):
        found = parse_range(distributed.nodes)
        return Wanted(found.least, min(found.most, candidates))
    count = candidates - distributed.spare
    return Wanted(count, count)


def most_taken(distributed: Distributed) -> int | None:
    """Nodes that a range takes of those that are known, its spares among them; None: nodes are named.

    Raises:
        RangeError: distributed.nodes is a text that is no range.
    """
    nodes = distributed.nodes
    return parse_range(nodes).most + distributed.spare if isinstance(nodes, str) else None


def is_here_alone(config: RunConfig) -> bool:
    """Whether `config` names this machine and no other, so that nothing of SSH is needed."""
    return config.distributed.nodes == [LOCALHOST]
