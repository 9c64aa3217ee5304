"""Which machines a run file chooses: those it names, all it describes, or this one."""

from __future__ import annotations

from torchdeck.config.node_names import expand_all
from torchdeck.config.schema import RunConfig

LOCALHOST = "localhost"
"""This machine, which is looked at and never described."""


def node_names(config: RunConfig, *, named: bool) -> list[str]:
    """The nodes of a run, one by one.

    Args:
        config: whose.
        named: distributed.nodes is written; else they are all that [cluster] describes, if it does.
    """
    if named or not config.cluster.nodes:
        return expand_all(config.distributed.nodes)
    return described_names(config)


def described_names(config: RunConfig) -> list[str]:
    """The machines that [cluster] describes, one by one."""
    return expand_all(nodes.name for nodes in config.cluster.nodes)
