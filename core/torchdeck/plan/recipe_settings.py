"""What the ranks of a recipe run are told: the JSON in TORCHDECK_RECIPE."""

from __future__ import annotations

import json
from typing import Any

from torchdeck.config.schema import Checkpoint, RunConfig
from torchdeck.contract.plan.launch_plan import Batch
from torchdeck.contract.plan.slots import escape

RECIPE_VERSION = 1
_TELEMETRY = {"every", "stats_every", "profile_steps"}


def recipe_settings(
    config: RunConfig, batch: Batch, backend: str, checkpoints: str, *, shard: int = 1
) -> str:
    """Settings of a recipe run as JSON in one line.

    Args:
        config: a recipe run's.
        batch: its arithmetic; the ranks get the scaled learning rate from it.
        backend: `gloo` or `nccl`, decided.
        checkpoints: their folder, slots in it, the user's text escaped.
        shard: ranks of a group of hsdp, decided.
    """
    distributed = config.distributed
    value = {
        "version": RECIPE_VERSION,
        "recipe": config.run.recipe,
        "model": config.model,
        "data": config.data,
        "training": {**config.training.model_dump(mode="json"), "scaled_lr": batch.scaled_lr},
        "distributed": {
            "strategy": distributed.strategy,
            "backend": backend,
            "timeout": distributed.timeout,
            "ddp": distributed.ddp.model_dump(mode="json"),
            "fsdp": distributed.fsdp.model_dump(mode="json"),
            "hsdp": {"shard": shard},
            "deepspeed": distributed.deepspeed.model_dump(mode="json"),
        },
        "telemetry": config.telemetry.model_dump(mode="json", include=_TELEMETRY),
        "checkpoint": _checkpoint(config.checkpoint),
    }
    whole = _escaped(value)
    whole["checkpoint"]["directory"] = checkpoints
    return json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def _checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """The table without where and what to resume; `every` is a number or none, `auto` a key of its own."""
    value = checkpoint.model_dump(mode="json", exclude={"directory", "resume"})
    auto = checkpoint.every == "auto"
    return {**value, "every": None if auto else checkpoint.every, "auto": auto}


def _escaped(value: Any) -> Any:
    """`value` with every text in it escaped, so that filling slots leaves it as it was."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {escape(str(key)): _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value
