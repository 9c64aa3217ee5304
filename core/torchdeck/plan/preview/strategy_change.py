"""Changes to run.toml that select another strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.plan.memory.spec import ZERO, StrategySpec


def strategy_change(spec: StrategySpec, asked: int | None = None) -> Mapping[str, Any]:
    """Return dotted keys of run.toml and the values with which a recipe trains by `spec`.

    Args:
        spec: requested strategy.
        asked: current distributed.hsdp.shard; it is overwritten if it differs from the requested one.
    """
    kind = spec.kind
    if kind == "hsdp" and asked is not None and asked != spec.shard:
        return {"distributed.strategy": kind, "distributed.hsdp.shard": spec.shard}
    if kind in ZERO:
        return {
            "distributed.strategy": "deepspeed",
            "distributed.deepspeed.zero_stage": ZERO.index(kind) + 1,
        }
    return {"distributed.strategy": kind}
