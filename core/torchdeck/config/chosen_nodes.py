"""Machines that a run file selects: those it names, all or some of those it describes, or this one."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.config.distributed import Distributed
from torchdeck.config.schema import RunConfig
from torchdeck.config.values.node_names import expand_all
from torchdeck.config.values.numbers import parse_range
from torchdeck.contract.inventory import LOCALHOST


def node_names(config: RunConfig, *, named: bool = True) -> list[str]:
    """Return the names of a run's nodes, one by one.

    Args:
        config: the run's config.
        named: whether distributed.nodes is set, or resolved; else they are all that [cluster] describes, if
            it does.

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
    """Return the names of the machines that [cluster] describes, one by one."""
    return expand_all(nodes.name for nodes in config.cluster.nodes)


class Wanted(NamedTuple):
    """Number of nodes that get ranks."""

    least: int
    """Minimum; with fewer the run does not begin."""
    most: int
    """Maximum from the beginning, if they are available; others are spares."""


def wanted(distributed: Distributed, candidates: int) -> Wanted:
    """Return how many of `candidates` nodes get ranks.

    Raises:
        RangeError: distributed.nodes is a text that is no range.
    """
    if isinstance(distributed.nodes, str):
        found = parse_range(distributed.nodes)
        return Wanted(found.least, min(found.most, candidates))
    count = candidates - distributed.spare
    return Wanted(count, count)


def most_taken(distributed: Distributed) -> int | None:
    """Return how many of the known nodes a range takes, including its spares; None: nodes are named.

    Raises:
        RangeError: distributed.nodes is a text that is no range.
    """
    nodes = distributed.nodes
    return parse_range(nodes).most + distributed.spare if isinstance(nodes, str) else None


def is_here_alone(config: RunConfig) -> bool:
    """Return whether `config` names this machine and no other, so that SSH is not needed."""
    return config.distributed.nodes == [LOCALHOST]
