"""Checks that need a recipe's model: its memory, and the size of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.launching.preflight.disk_space import check_room, checkpoint_bytes, profiled_bytes, share_of
from torchdeck.launching.prepare import ClusterFacts, missing
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.plan.memory.fullness import MemoryPreview, is_one, make_memory, ranks_text
from torchdeck.plan.placement import shares_of
from torchdeck.plan.preview.memory_bars import largest_part
from torchdeck.quantities import size


def check_model(
    config: RunConfig,
    plan: LaunchPlan,
    found: ClusterFacts,
    home: Path,
    disks: Mapping[str, str] | None = None,
) -> Iterator[Check]:
    """Check the memory of every node, and disks that are too small for the checkpoints of a traced model.

    Args:
        config: the requested configuration.
        plan: with the predictions for the model.
        found: facts, including the model.
        home: TORCHDECK_HOME.
        disks: nodes that keep checkpoints on one disk, as found by `preflight`; None: unknown.
    """
    if plan.prediction is not None or found.known.broken or found.known.failure:
        # nothing is known of a script, and this import is slow

        yield from check_memory(config, plan, found)
    profile = found.known.profile
    if config.run.recipe is None or profile is None or profile.source != "traced" or checkpoint_bytes(config):
        return  # not Torchdeck's checkpoints, or size already known
    for node in plan.all_nodes:
        checkpoint = profiled_bytes(
            config, profile, share_of(node.name, disks or {}, plan, config.checkpoint.replicas)
        )
        without = _disks(config, found, home, node.name, 0)
        for before, now in zip(without, _disks(config, found, home, node.name, checkpoint), strict=True):
            if now.status != before.status:
                yield now  # others were reported before the model was known


def _disks(config: RunConfig, found: ClusterFacts, home: Path, node: str, checkpoint: int) -> list[Check]:
    probed = found.remote.probed.get(node)
    if probed is None:
        return list(check_room(config, home, node, checkpoint))
    if probed.facts is None:
        return []
    from torchdeck.launching.preflight.remote.machine_check import check_disks

    return list(check_disks(config, node, probed.facts, checkpoint))


# Checks that the run fits the memory of its devices, as far as predicted.

_ANYWAY = 'set limits.memory = "warn" to start anyway'
_LEFT_OUT = 'limits.memory = "off" turns the prediction off'
_ANYHOW = 'limits.memory = "off" starts without predicting memory'
_GENERAL = "lower training.microbatch, or use a strategy that shards the weights"
_NOTHING = "no change that was tried makes it fit, alone or combined"
_FINE = ("fits", "unknown")
"""Verdicts that pass."""
_OF_THE_BATCH = ("activations",)
"""Parts that shrink with a smaller microbatch or shorter samples."""


def check_memory(config: RunConfig, plan: LaunchPlan, found: ClusterFacts) -> Iterator[Check]:
    """Check the prediction in `plan` against each node's memory; yield nothing if there is no prediction."""
    if config.limits.memory == "off":
        return
    memory = None if plan.prediction is None else make_memory(plan.prediction)
    if memory is not None:
        change = _change(config, plan, found, memory)
        for node in plan.nodes:
            part = _part(memory, plan, node.name)
            if part is not None:
                yield _judged(config, found, part, node.name, change)
        if memory.verdict != "does not fit":
            yield from _smaller(config, plan, found)
    elif found.known.broken and not missing(config):
        yield failed("recipe", LOCALHOST, found.known.broken, f"mend it; {_ANYHOW}")
    elif found.known.failure:
        yield warning("memory", LOCALHOST, found.known.failure, _LEFT_OUT)


def _part(memory: MemoryPreview, plan: LaunchPlan, node: str) -> MemoryPreview | None:
    """Return the prediction for the ranks on `node`; None if unknown."""
    here = [placed.rank for placed in plan.ranks if placed.node == node]
    groups = []
    for group in memory.groups:
        cut = [(max(first, here[0]), min(last, here[-1])) for first, last in group.ranks]
        ranks = tuple((first, last) for first, last in cut if first <= last)
        if ranks:
            groups.append(replace(group, ranks=ranks))
    return replace(memory, groups=tuple(groups)) if groups else None


def _smaller(config: RunConfig, plan: LaunchPlan, found: ClusterFacts) -> Iterator[Check]:
    """Check the sizes a run may shrink to; yield the first that does not fit: shards grow when ranks are
    lost.
    """
    for smaller in plan.smaller:
        memory = None if smaller.prediction is None else make_memory(smaller.prediction)
        if memory is None or memory.verdict != "does not fit":
            continue
        what = f"with {smaller.world_size} of {plan.world_size} left, {_needs(memory)}"
        # every node has the same number of ranks
        node = plan.nodes[memory.decisive.ranks[0][0] // smaller.nproc].name
        right = "a range with a larger minimum, or a strategy that needs less memory at that size"
        if config.limits.memory == "refuse" and not found.known.models:
            yield failed("memory", node, what, f"{right}; {_ANYWAY}")
        else:
            yield warning("memory", node, what, right)
        return


def _needs(memory: MemoryPreview) -> str:
    """Return `ranks 0–1 need 5 GiB at the peak, and there are 4 GiB for each`."""
    group = memory.decisive
    what = f"{ranks_text(group)} need{'s' if is_one(group) else ''} {size(group.peak_bytes)} at the peak"
    return f"{what}, and {_there(group)}"


def _change(config: RunConfig, plan: LaunchPlan, found: ClusterFacts, memory: MemoryPreview) -> str:
    """Return the cheapest change of the config that makes the run fit; empty if there is none, or no need."""
    if memory.verdict in _FINE:
        return ""
    from torchdeck.plan.fitting import spec_of, suggested  # imports numpy

    spec = spec_of(config, shares_of(plan, found.inventory), plan.backend, found.known)
    change = next(iter(suggested(spec, memory, found.known)), None)
    return "" if change is None else change.sentence


def _judged(config: RunConfig, found: ClusterFacts, memory: MemoryPreview, node: str, change: str) -> Check:
    """Judge one node by its rank with the highest use.

    Args:
        config: the requested configuration.
        found: facts about the model.
        memory: prediction for the node's ranks.
        node: its name.
        change: a change that would help all nodes.
    """
    group = memory.decisive
    if memory.verdict in _FINE:
        return ok("memory", node, _needs(memory))
    name, most = largest_part(group)
    needs = f"{ranks_text(group)} need{'s' if is_one(group) else ''} {size(group.peak_bytes)} at the peak"
    what = f"{needs}, most of it for {name} ({size(most)}), and {_there(group)}"
    help_ = change or _unhelped(name, found)
    # a script's samples may be shorter than its arguments allow
    certain = not found.known.models
    if memory.verdict == "does not fit" and config.limits.memory == "refuse" and certain:
        return failed("memory", node, what, f"{help_}; {_ANYWAY}")
    return warning("memory", node, what, help_)


def _unhelped(name: str, found: ClusterFacts) -> str:
    """Return remaining advice about the largest term, `name`, if no change of the config suffices."""
    if found.known.profile is None:
        return _GENERAL  # nothing could be tried
    if name in _OF_THE_BATCH:
        return f"{_NOTHING}; {name} need shorter samples, a smaller model, or devices with more memory"
    return (
        f"{_NOTHING}; {name} need more ranks to be sharded over, a smaller model, or devices with more memory"
    )


def _there(group: PredictedMemory) -> str:
    """Return the available memory: the smaller of the device's total and its free memory."""
    each = "" if is_one(group) else " for each"
    if group.free_bytes is not None and group.free_bytes < (group.capacity_bytes or group.free_bytes + 1):
        return f"{size(group.free_bytes)} are free{each}"
    if group.capacity_bytes is not None:
        return f"there are {size(group.capacity_bytes)}{each}"
    return "its memory is unknown"
