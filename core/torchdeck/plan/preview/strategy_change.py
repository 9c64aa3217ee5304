"""What to write into run.toml for another strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.plan.memory.spec import ZERO, StrategySpec


def strategy_change(spec: StrategySpec, asked: int | None = None) -> Mapping[str, Any]:
    """Keys of run.toml, dotted, to their values, after which a recipe trains by `spec`.

    Args:
        spec: the strategy that is wanted.
        asked: distributed.hsdp.shard as it is; another than the wanted one is written over.
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
