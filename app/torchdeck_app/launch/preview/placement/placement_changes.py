"""Changes requested by clicks on the grid: new values of distributed.nodes, devices and nproc."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torchdeck.config.schema import RunConfig
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.values.node_names import expand_all
from torchdeck.contract.refusal import Refusal
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel

Change = dict[str | KeyPath, Any]
"""Keys of run.toml, dotted or as paths, with new values."""

_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})", re.ASCII | re.DOTALL)


class RefusedError(Refusal):
    """The change is not possible by a click; the message has the reason and an alternative."""


def toggled_node(model: RankGridModel, config: RunConfig, at: int) -> Change:
    """Return the change that adds or removes the node at position `at`.

    Raises:
        RefusedError: the run file lets the launch choose, or no node would be left.
    """
    _check_list(model, config)
    target = model.nodes[at]
    names = [node.name for node in model.nodes if node.is_on != (node is target)]
    if not names:
        raise RefusedError(f"{target.name} is the only node of the run: switch another one on first")
    return {"distributed.nodes": shortened(names)}


def moved_node(model: RankGridModel, config: RunConfig, at: int, before: int) -> Change:
    """Return the change that moves the node at `at` before the one at `before`; to the end if `before` is
    their number.

    Returns:
        An empty change if the order stays.

    Raises:
        RefusedError: the order is not determined by the run file.
    """
    _check_list(model, config)
    if config.distributed.rendezvous.backend == "c10d":
        raise RefusedError('with rendezvous.backend = "c10d" nodes are numbered by their addresses')
    old = list(model.nodes)
    new = [*old[:before], old[at], *old[before:]]
    del new[at + 1 if before <= at else at]
    names = [node.name for node in new if node.is_on]
    if names == [node.name for node in old if node.is_on]:
        if not old[at].is_on and before not in (at, at + 1):
            raise RefusedError(f"{old[at].name} is not in the run and has no place in it: switch it on first")
        return {}
    return {"distributed.nodes": shortened(names)}


def toggled_device(model: RankGridModel, config: RunConfig, at: int, place: int) -> Change:
    """Return the change that adds or removes the device at `place` of the node at `at`.

    Machines described by one [[cluster.nodes]], and those named by distributed.devices, change together.

    Raises:
        RefusedError: it is the CPU, the last device of a node, or a device of a node that the run does not
            use.
    """
    node = model.nodes[at]
    slot = node.slots[place]
    if slot.index is None:
        raise RefusedError("ranks on the CPU take no device: distributed.nproc says how many there are")
    if not node.is_on:
        raise RefusedError(f"{node.name} is not in the run: switch it on first, then its devices")
    indices = {other.index for other in node.slots if other.rank is not None and other.index is not None}
    indices ^= {slot.index}
    if not indices:
        raise RefusedError(
            f"{slot.device} is the only device in use on {node.name}: switch another one on first"
        )
    chosen = sorted(indices)
    change: Change = {_devices_key(config, node): chosen}
    if config.distributed.devices == "cpu":
        change = {"distributed.devices": chosen}
    nproc = config.distributed.nproc
    if isinstance(nproc, int) and nproc != len(chosen):
        change["distributed.nproc"] = len(chosen)
    return change


def shared_with(model: RankGridModel, config: RunConfig, at: int) -> int:
    """Return how many other nodes are affected by a change to the devices of the node at `at`."""
    node = model.nodes[at]
    if _devices_key(config, node) == "distributed.devices":
        return len(model.nodes) - 1
    return sum(other.entry == node.entry for other in model.nodes) - 1


def shortened(names: Sequence[str]) -> list[str]:
    """Return `names` with ranges of numbered ones: `gpu[00-15]`; `expand_all` is the inverse."""
    texts: list[str] = []
    stretch: list[str] = []
    for name in names:
        if stretch and _follows(stretch[-1], name):
            stretch.append(name)
        else:
            texts += _as_range(stretch)
            stretch = [name]
    texts += _as_range(stretch)
    return texts if expand_all(texts) == list(names) else list(names)


def _devices_key(config: RunConfig, node: ModelNode) -> str | KeyPath:
    if node.entry is None or config.distributed.devices != "auto":
        return "distributed.devices"
    return ("cluster", "nodes", node.entry, "devices")


def _check_list(model: RankGridModel, config: RunConfig) -> None:
    nodes = config.distributed.nodes
    if isinstance(nodes, str):
        names = ", ".join(
            f'"{name}"' for name in shortened([node.name for node in model.nodes if node.is_on])
        )
        raise RefusedError(
            f'distributed.nodes = "{nodes}" lets the launch choose; to choose here, write the names: '
            f"nodes = [{names}]"
        )


def _follows(one: str, other: str) -> bool:
    """Return whether `other` is `one` with the next number, of the same width."""
    first, second = _NUMBERED.fullmatch(one), _NUMBERED.fullmatch(other)
    if first is None or second is None or first.group(1) != second.group(1):
        return False
    low, high = first.group(2), second.group(2)
    return int(high) == int(low) + 1 and (len(low) == len(high) or not low.startswith("0"))


def _as_range(stretch: Sequence[str]) -> list[str]:
    if len(stretch) < 3:
        return list(stretch)
    first, last = _NUMBERED.fullmatch(stretch[0]), _NUMBERED.fullmatch(stretch[-1])
    if first is None or last is None:
        return list(stretch)
    return [f"{first.group(1)}[{first.group(2)}-{last.group(2)}]"]
