"""What can be looked at once a recipe's model is known: its memory, and the size of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.preflight.disk_space import checkpoint_bytes, profiled_bytes, share_of
from torchdeck.launching.preflight.folders import check_room
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.plan.check import Check


def check_model(
    config: RunConfig,
    plan: LaunchPlan,
    found: ClusterFacts,
    home: Path,
    disks: Mapping[str, str] | None = None,
) -> Iterator[Check]:
    """Memory of every node, and disks that are too small for the checkpoints of a model that was traced.

    Args:
        config: what is asked for.
        plan: with what was predicted of the model.
        found: with what is known of the model.
        home: TORCHDECK_HOME.
        disks: which nodes keep checkpoints on one, as `preflight` found out; None: nobody knows.
    """
    if plan.prediction is not None or found.known.broken or found.known.failure:
        # of a script nothing is known, and this takes a while to load
        from torchdeck.launching.preflight.memory import check_memory

        yield from check_memory(config, plan, found)
    profile = found.known.profile
    if config.run.recipe is None or profile is None or profile.source != "traced" or checkpoint_bytes(config):
        return  # checkpoints that are not ours, or whose size was known before
    for node in plan.all_nodes:
        checkpoint = profiled_bytes(
            config, profile, share_of(node.name, disks or {}, plan, config.checkpoint.replicas)
        )
        without = _disks(config, found, home, node.name, 0)
        for before, now in zip(without, _disks(config, found, home, node.name, checkpoint), strict=True):
            if now.status != before.status:
                yield now  # the others were said before the model was known


def _disks(config: RunConfig, found: ClusterFacts, home: Path, node: str, checkpoint: int) -> list[Check]:
    probed = found.remote.probed.get(node)
    if probed is None:
        return list(check_room(config, home, node, checkpoint))
    if probed.facts is None:
        return []
    from torchdeck.launching.preflight.remote.disks import check_disks

    return list(check_disks(config, node, probed.facts, checkpoint))
