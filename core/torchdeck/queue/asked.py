"""Devices that a run file and the options of `queue add` ask for; and the run file with devices filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from torchdeck.config.chosen_nodes import described_names, most_taken
from torchdeck.config.problems import shown
from torchdeck.config.schema import RunConfig
from torchdeck.config.values.numbers import count_range
from torchdeck.queue.entry import DeviceOptions
from torchdeck.queue.scheduling.ask import Ask, Places
from torchdeck.queue.state import QueueError

ANY = "any"
"""Any machine: this one, or one of the node inventory."""
ALL = 0
"""`Ask.count` of an entry that uses all nodes that it names."""
_CHOICE = re.compile(r"(any|tag:[^:,\s]+)(?::([1-9][0-9]{0,3}))?")
_RANGE = re.compile(r"[0-9]+:[0-9]+")


class NodeChoice(NamedTuple):
    """Nodes of which some are used."""

    nodes: tuple[str, ...]
    """As the user wrote them."""
    used: int
    """Number of nodes that are used; `ALL`: all of them."""


def node_choice(text: str) -> NodeChoice:
    """Parse `--nodes`."""
    match = _CHOICE.fullmatch(text)
    if match is not None:
        return NodeChoice((match[1],), int(match[2] or 1))
    return NodeChoice(tuple(text.replace(",", " ").split()), ALL)


def ask_of(config: RunConfig, options: DeviceOptions) -> Ask:
    """Return what a run asks for.

    Raises:
        QueueError: it describes machines that do not exist, or the options contradict it.
    """
    if described_names(config):
        raise QueueError(
            "[[cluster.nodes]] describes machines for planning, on which nothing can start",
            fix="remove [cluster], or name nodes of the node inventory",
            key="cluster.nodes",
        )
    nodes = node_choice(options.nodes) if options.nodes else _nodes_of(config)
    ask = Ask(nodes.nodes, nodes.used, model=options.model, memory=options.memory)
    if options.gpus is not None:
        return replace(ask, gpus=options.gpus)
    asked = config.distributed.devices
    if isinstance(asked, list):
        ask = replace(ask, gpus=len(asked), named=tuple(asked))
    elif asked == "auto":
        ask = replace(ask, gpus=_ranks(config), or_cpu=not (options.model or options.memory))
    if ask.gpus == 0 and (options.model or options.memory):
        raise QueueError('the run uses no GPU: devices = "cpu"', fix="also name --devices, or no kind of GPU")
    return ask


def bindings(ask: Ask, places: Places) -> Iterator[str]:
    """Yield the overrides that make a run file use these places.

    Args:
        ask: of the entry, with its nodes as the user wrote them.
        places: where it was placed.
    """
    if not _RANGE.fullmatch(" ".join(ask.nodes)):
        yield f"distributed.nodes={shown([place.node for place in places], 10_000)}"
    if not places[0].gpus:
        if ask.gpus == 0:
            yield 'distributed.devices="cpu"'
    elif ask.gpus is not None and not ask.named:
        yield f"distributed.devices={shown(list(places[0].gpus), 10_000)}"


def needs_machines(ask: Ask) -> bool:
    """Return whether the devices of an entry are chosen among those of its machines."""
    chosen_nodes = ask.count != ALL
    chosen_gpus = bool(ask.gpus) and not ask.named
    return chosen_nodes or chosen_gpus or bool(ask.model or ask.memory)


def _nodes_of(config: RunConfig) -> NodeChoice:
    nodes = config.distributed.nodes
    if isinstance(nodes, str):
        least, most = count_range(nodes)
        return NodeChoice((f"{least}:{most_taken(config.distributed) or most}",), ALL)
    return NodeChoice(tuple(nodes), ALL)


def _ranks(config: RunConfig) -> int | None:
    """Return the GPUs per node of `devices = "auto"`; None: all of them."""
    distributed = config.distributed
    if distributed.nproc is not None:
        return count_range(distributed.nproc).most
    return 1 if distributed.strategy == "single" else None
