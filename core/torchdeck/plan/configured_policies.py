"""What a run file says of restarts, stops, limits, checkpoints and printed numbers, as agents read it."""

from __future__ import annotations

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.policy import CheckpointPolicy, Policy, StdoutPolicy
from torchdeck.contract.plan.slots import escape, slot


def checkpoint_policy(config: RunConfig) -> CheckpointPolicy:
    """Where checkpoints lie, and which are made and kept."""
    directory, every = config.checkpoint.directory, config.checkpoint.every
    return CheckpointPolicy(
        directory=f"{slot('run_dir')}/checkpoints" if directory is None else escape(directory),
        resume=config.checkpoint.resume,
        every_steps=every if isinstance(every, int) else None,
        keep_last=config.checkpoint.keep_last,
    )


def stdout_policy(config: RunConfig) -> StdoutPolicy:
    """Which printed numbers are read."""
    # a recipe's numbers are written by the trainer itself
    enabled = config.telemetry.stdout and config.run.recipe is None
    return StdoutPolicy(enabled, tuple(config.telemetry.patterns))


def supervision_policy(config: RunConfig) -> Policy:
    """What the gang does about failures, hangs, stops and limits."""
    launch, limits = config.launch, config.limits
    return Policy(
        max_restarts=launch.max_restarts,
        restart_delay=launch.restart_delay,
        on_hang=launch.on_hang,
        hang_after=launch.hang_after,
        cooperative_stop=config.run.recipe is not None,
        stop_grace=launch.stop_grace,
        kill_grace=launch.kill_grace,
        queue=launch.queue,
        min_free_bytes=limits.min_free_disk,
        max_seconds=None if limits.max_hours is None else limits.max_hours * 3600,
        system_interval=config.telemetry.system_interval,
        node_grace=launch.node_grace,
        unattended=launch.unattended,
    )
