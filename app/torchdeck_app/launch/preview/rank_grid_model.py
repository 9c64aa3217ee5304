"""Model of the placement grid: every known machine, its devices, and the ranks on them; also in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchdeck.config.machines.cluster import ClusterNodes
from torchdeck.config.values.node_names import expand_all
from torchdeck.contract.inventory import Device, Inventory, NodeInfo
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.preview import percent
from torchdeck.plan.preview.rank_grid import RankGridNode
from torchdeck.quantities import size


@dataclass(frozen=True)
class Need:
    """Memory per rank compared with its device."""

    peak_bytes: int
    capacity_bytes: int | None
    verdict: str

    @property
    def share(self) -> float | None:
        """Return peak ÷ capacity; None if the capacity is unknown."""
        return self.peak_bytes / self.capacity_bytes if self.capacity_bytes else None


@dataclass(frozen=True)
class Slot:
    """Place for a rank: a GPU, or a share of the CPU."""

    device: str
    """`cuda:2`, or `cpu`."""
    index: int | None
    """Index of the GPU; None for the CPU."""
    rank: int | None
    """None if no rank runs there."""
    group: int
    """Shard group of the rank; 0 without one."""
    need: Need | None
    capacity_bytes: int | None


@dataclass(frozen=True)
class ModelNode:
    """Machine with its slots."""

    name: str
    kind: str
    slots: tuple[Slot, ...]
    is_on: bool
    """Whether the run uses it."""
    entry: int | None
    """Index of its [[cluster.nodes]] description; None for this machine."""

    @property
    def ranks(self) -> int:
        return sum(slot.rank is not None for slot in self.slots)


@dataclass(frozen=True)
class RankGridModel:
    """Model of all machines: those of the run in its order, the others next to their described neighbours."""

    nodes: tuple[ModelNode, ...]
    world_size: int
    shard: int
    """Number of ranks that divide one model's state: 1 if each holds all of it."""
    is_known: bool = True
    """Whether the model is known; a script's never is."""

    @property
    def groups(self) -> int:
        """Return the number of shard groups."""
        return self.world_size // self.shard

    @property
    def is_grouped(self) -> bool:
        """Return whether there are several shard groups to distinguish."""
        return self.groups > 1 and self.shard > 1

    @cached_property
    def verdicts(self) -> frozenset[str]:
        """Return all verdicts on the memory of ranks."""
        return frozenset(
            slot.need.verdict for node in self.nodes for slot in node.slots if slot.need is not None
        )

    @cached_property
    def has_unused(self) -> bool:
        """Return whether some device has no rank."""
        return any(slot.rank is None for node in self.nodes for slot in node.slots)

    def group_of(self, rank: int) -> range:
        """Return the ranks that together hold one model, including `rank`."""
        first = rank // self.shard * self.shard
        return range(first, first + self.shard)

    def replicas_of(self, rank: int) -> range:
        """Return the ranks that hold the same shard of the model as `rank`, including it."""
        return range(rank % self.shard, self.world_size, self.shard)


def board_model(preview: Preview, inventory: Inventory) -> RankGridModel:
    """Return the grid model of `preview` and the other machines of `inventory`.

    Args:
        preview: preview of a run on some of the machines.
        inventory: the machines that it could use.
    """
    used = {node.name: node for node in preview.board.nodes}
    needs = _needs(preview)
    described = _described(preview)
    infos = {info.name: info for info in inventory}
    infos.update({share.node.name: share.node for share in preview.shares})
    nodes = []
    for name in merged_order([node.name for node in preview.board.nodes], [info.name for info in inventory]):
        entry = described.get(name)
        machines = None if entry is None else preview.config.cluster.nodes[entry]
        devices = _all_devices(infos[name], machines)
        node = used.get(name)
        slots = _slots(node, devices, preview.board.shard, needs)
        kind = (
            node.kind
            if node is not None
            else " and ".join(dict.fromkeys(device.name for device in devices)) or "CPU"
        )
        nodes.append(ModelNode(name, kind, slots, node is not None, entry))
    is_known = preview.spec is not None and preview.known.profile is not None
    return RankGridModel(tuple(nodes), preview.plan.world_size, preview.board.shard, is_known)


def merged_order(first: Sequence[str], all_names: Sequence[str]) -> list[str]:
    """Return `first` in its order, with each other name of `all_names` after its predecessor there.

    A disabled entry so keeps its place as long as the order is the usual one.
    """
    chosen = set(first)
    behind: dict[str | None, list[str]] = {}
    last: str | None = None
    for name in all_names:
        if name in chosen:
            last = name
        else:
            behind.setdefault(last, []).append(name)
    merged = list(behind.get(None, ()))
    for name in first:
        merged += [name, *behind.get(name, ())]
    return merged


def _needs(preview: Preview) -> Mapping[int, Need]:
    groups: Sequence[PredictedMemory] = () if preview.memory is None else preview.memory.groups
    needs = {}
    for group in groups:
        need = Need(group.peak_bytes, group.capacity_bytes, group.verdict)
        for first, last in group.ranks:
            needs.update(dict.fromkeys(range(first, last + 1), need))
    return needs


def _described(preview: Preview) -> Mapping[str, int]:
    entries = preview.config.cluster.nodes
    return {name: at for at, machines in enumerate(entries) for name in expand_all([machines.name])}


def _all_devices(info: NodeInfo, machines: ClusterNodes | None) -> tuple[Device, ...]:
    """Return the GPUs of a machine, including those that its description leaves out."""
    if machines is None or machines.devices is None:
        return info.devices
    usual = info.devices[0] if info.devices else None
    known = {device.index: device for device in info.devices}
    name, memory = (machines.gpu or "GPU", 0) if usual is None else (usual.name, usual.memory_bytes)
    return tuple(known.get(index) or Device(index, "", name, memory) for index in range(machines.gpus))


def _slots(
    node: RankGridNode | None, devices: Sequence[Device], shard: int, needs: Mapping[int, Need]
) -> tuple[Slot, ...]:
    if node is not None and "cpu" in node.devices:
        return tuple(_cpu_slots(node, shard, needs)) + tuple(
            _slot(device, None, shard, needs) for device in devices
        )
    ranks = {} if node is None else {name: node.first_rank + at for at, name in enumerate(node.devices)}
    slots = tuple(_slot(device, ranks.get(f"cuda:{device.index}"), shard, needs) for device in devices)
    return slots or (Slot("cpu", None, None, 0, None, None),)


def _cpu_slots(node: RankGridNode, shard: int, needs: Mapping[int, Need]) -> Iterator[Slot]:
    for rank in range(node.first_rank, node.last_rank + 1):
        need = needs.get(rank)
        yield Slot("cpu", None, rank, rank // shard, need, None if need is None else need.capacity_bytes)


def _slot(device: Device, rank: int | None, shard: int, needs: Mapping[int, Need]) -> Slot:
    need = None if rank is None else needs.get(rank)
    group = 0 if rank is None else rank // shard
    return Slot(f"cuda:{device.index}", device.index, rank, group, need, device.memory_bytes or None)


# Grid content in words: for tooltips and screen readers.


def spot_text(model: RankGridModel, index: int, slot: int | None) -> str:
    """Return a node, or a slot of it, in a line or two."""
    node = model.nodes[index]
    return node_text(node) if slot is None else slot_text(model, node, node.slots[slot])


def node_text(node: ModelNode) -> str:
    """Return `gpu00: 8 × H100, ranks 0 to 7`."""
    devices = sum(slot.index is not None for slot in node.slots)
    kind = f"{devices} × {node.kind}" if devices else node.kind
    ranks = [slot.rank for slot in node.slots if slot.rank is not None]
    if not ranks:
        return f"{node.name}: {kind}, not used"
    numbers = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {min(ranks)} to {max(ranks)}"
    return f"{node.name}: {kind}, {numbers}"


def slot_text(model: RankGridModel, node: ModelNode, slot: Slot) -> str:
    """Return `rank 3: cuda:3 of gpu00`, with its shard group, and its memory on the next line."""
    if slot.rank is None:
        return f"{slot.device} of {node.name}: not used"
    where = f"rank {slot.rank}: {slot.device} of {node.name}"
    if model.is_grouped:
        where += f", group {slot.group:,} of 0 to {model.groups - 1:,}"
    return where if slot.need is None else f"{where}\n{need_text(slot.need)}"


def need_text(need: Need) -> str:
    """Return `29.8 GiB of 40.0 GiB, 74 %: fits`."""
    if need.share is None or need.capacity_bytes is None:
        return f"{size(need.peak_bytes)} at its peak"
    return f"{size(need.peak_bytes)} of {size(need.capacity_bytes)}, {percent(need.share)}: {need.verdict}"


def of_capacity(need: Need) -> str:
    """Return `29.8/40.0 GiB`, in one unit if both have it; only the peak if the capacity is unknown."""
    peak = size(need.peak_bytes)
    if need.capacity_bytes is None:
        return peak
    whole = size(need.capacity_bytes)
    number, unit = peak.split()
    return f"{number}/{whole}" if whole.endswith(f" {unit}") else f"{peak}/{whole}"
