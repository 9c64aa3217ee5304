"""Machines that the queue may use: what they have now, and which runs of others hold some of it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from torchdeck.agent.leases import lease_holder
from torchdeck.contract.inventory import LOCALHOST, Device
from torchdeck.contract.layout import Home
from torchdeck.nodes.inventory.names import run_nodes
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.nodes.this_machine import probe_gpus
from torchdeck.plan.placement import visible
from torchdeck.queue.asked import ALL, ANY
from torchdeck.queue.scheduling.ask import Ask, Gpu, Machine, Place
from torchdeck.queue.scheduling.scheduler import Running
from torchdeck.queue.state import QueueLimits

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.probe.monitoring import NodeNow
    from torchdeck.use_cases.nodes.monitor import Monitor

UNUSED = 0.95
"""Smallest fraction of a GPU's memory that is free if no program uses it."""
PROBE_EVERY = 10.0
"""Seconds between two probes of this machine's GPUs."""
SAMPLE_EVERY = 5.0
"""Seconds between two samples of a node."""
OTHER_PROGRAM = "another program"


class Look(NamedTuple):
    """Machines at one moment."""

    machines: tuple[Machine, ...]
    others: tuple[Running, ...]
    """Holders of devices that are not runs of the queue."""


def resolved(ask: Ask, inventory: NodeInventory) -> Ask:
    """Return an ask with the names of nodes in place of groups, ranges, tags and `any`."""
    if ask.nodes == (ANY,):
        here = [LOCALHOST] if ask.count == 1 else []  # no other node reaches this machine by this name
        return replace(ask, nodes=(*here, *inventory.nodes))
    text: str | Sequence[str] = ask.nodes[0] if _is_range(ask.nodes) else ask.nodes
    names = tuple(run_nodes(inventory, text))
    return replace(ask, nodes=names, count=len(names) if ask.count == ALL else ask.count)


def _is_range(nodes: Sequence[str]) -> bool:
    return len(nodes) == 1 and nodes[0].replace(":", "").isdecimal()


class MachineWatch:
    """Watches this machine, and nodes over SSH from the first time that an entry may use them.

    Args:
        connector: connects to the nodes; it need not be able to prompt.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._here = _ThisMachine(Home(connector.home))
        self._monitors: dict[str, Monitor] = {}
        self._entries: dict[str, Any] = {}

    def look(
        self, names: Collection[str], inventory: NodeInventory, limits: QueueLimits, own: Collection[str]
    ) -> Look:
        """Return the machines among `names`.

        Args:
            names: names of nodes; unknown ones are left out.
            inventory: the node inventory.
            limits: gives their CPU slots.
            own: ids of runs of the queue, whose devices the caller knows.
        """
        found: list[Look] = []
        if LOCALHOST in names:
            found.append(self._here.look(own))
        self._watch(names, inventory)
        for name, monitor in self._monitors.items():
            if name in names:
                found.append(look_at_node(monitor.now()[name], self._entries[name].devices, own))
        machines = (
            replace(each, slots=limits.slots_of(each.name)) for look in found for each in look.machines
        )
        return Look(tuple(machines), tuple(other for look in found for other in look.others))

    def wait_until_known(self, names: Collection[str], inventory: NodeInventory, seconds: float) -> None:
        """Wait until the nodes among `names` have answered or are lost, at most so long."""
        from torchdeck.contract.waiting import wait_for

        self._watch(names, inventory)
        wanted = [self._monitors[name] for name in names if name in self._monitors]
        wait_for(lambda: all(_is_known(*monitor.now().values()) for monitor in wanted), seconds, 0.1)

    def close(self) -> None:
        """Disconnect all nodes."""
        for monitor in self._monitors.values():
            monitor.close(0.0)
        self._monitors.clear()

    def _watch(self, names: Collection[str], inventory: NodeInventory) -> None:
        """Monitor the nodes among `names`; one whose entry has changed is connected again."""
        wanted = [name for name in names if name != LOCALHOST]
        if not wanted and not self._monitors:
            return
        from torchdeck.use_cases.nodes.chosen import ChosenNodes
        from torchdeck.use_cases.nodes.monitor import monitor

        nodes = inventory.nodes
        for name in [*self._monitors]:
            if nodes.get(name) != self._entries[name]:
                self._monitors.pop(name).close(0.0)
        for name in wanted:
            if name in nodes and name not in self._monitors:
                self._entries[name] = nodes[name]
                chosen = ChosenNodes(self._connector, {name: nodes[name]})
                self._monitors[name] = monitor(chosen, lambda _now: None, SAMPLE_EVERY)


def _is_known(now: NodeNow) -> bool:
    return now.is_lost or (now.facts is not None and (now.sample is not None or not now.facts.gpu.devices))


class _ThisMachine:
    """This machine's GPUs, probed now and then, and their leases, which are looked up each time."""

    def __init__(self, home: Home) -> None:
        self._leases = home.leases
        self._devices: tuple[Device, ...] = ()
        self._probed = 0.0
        self._leased: frozenset[str] | None = None

    def look(self, own: Collection[str]) -> Look:
        # a GPU whose run has just ended is probed again, as its memory was in use at the last probe
        held = {
            device.key: holder for device in self._devices if (holder := self._holder(device)) is not None
        }
        if frozenset(held) != self._leased or time.monotonic() - self._probed > PROBE_EVERY:
            self._devices = visible(probe_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
            self._probed, self._leased = time.monotonic(), frozenset(held)
        gpus = tuple(Gpu(each.index, each.uuid, each.name, each.memory_bytes) for each in self._devices)
        return Look((Machine(LOCALHOST, gpus),), tuple(self._others(held, own)))

    def _others(self, held: Mapping[str, Mapping[str, Any]], own: Collection[str]) -> Iterator[Running]:
        for device in self._devices:
            holder = held.get(device.key)
            if holder is not None:
                yield from _held(LOCALHOST, device.index, str(holder["run_id"]), own)
            elif device.free_bytes is not None and device.free_bytes < UNUSED * device.memory_bytes:
                yield _other(LOCALHOST, device.index, OTHER_PROGRAM)

    def _holder(self, device: Device) -> Mapping[str, Any] | None:
        try:
            return lease_holder(self._leases, device.key)
        except OSError as error:
            return {"run_id": f"unknown ({error})"}


def look_at_node(now: NodeNow, allowed: Sequence[int] | None, own: Collection[str]) -> Look:
    """Return one node by its last known state.

    Args:
        now: its state; without a sample its leases are unknown, and nothing starts on it.
        allowed: indices of GPUs that the inventory lets runs use; None: all.
        own: ids of runs of the queue.
    """
    known = () if now.facts is None else now.facts.gpu.devices
    devices = [gpu for gpu in known if allowed is None or gpu.index in allowed]
    away = now.why or "not connected yet"
    if now.is_up and (now.sample is not None or not devices):
        away = ""
    gpus = tuple(Gpu(gpu.index, gpu.uuid, gpu.name, gpu.memory) for gpu in devices)
    owners = {} if now.sample is None else now.sample.owners
    strangers = {each.uuid for each in now.gpu_processes or () if not each.run_id}
    others: list[Running] = []
    for gpu in devices:
        owner = owners.get(gpu.uuid) or owners.get(str(gpu.index))
        if owner is not None:
            others += _held(now.node, gpu.index, owner.run_id, own)
        elif gpu.uuid in strangers:
            others.append(_other(now.node, gpu.index, OTHER_PROGRAM))
    return Look((Machine(now.node, gpus, away=away),), tuple(others))


def _held(node: str, index: int, run_id: str, own: Collection[str]) -> Iterator[Running]:
    if run_id not in own:
        yield _other(node, index, f"run {run_id}")


def _other(node: str, index: int, owner: str) -> Running:
    return Running(owner, (Place(node, (index,)),), counts=False)
