"""Checks that need a recipe's model: its memory, and the size of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.preflight.disk_space import check_room, checkpoint_bytes, profiled_bytes, share_of
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.plan.check import Check


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
        from torchdeck.launching.preflight.memory import check_memory

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
    from torchdeck.launching.preflight.remote.machine import check_disks

    return list(check_disks(config, node, probed.facts, checkpoint))
