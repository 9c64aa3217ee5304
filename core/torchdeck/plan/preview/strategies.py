"""Comparison of the same run under different strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torchdeck.plan.check import PlanError
from torchdeck.plan.communication import Traffic, communication, links_from, make_traffic
from torchdeck.plan.fitting import capacities, free_bytes, spec_of
from torchdeck.plan.groups import shard_groups
from torchdeck.plan.memory.predict import Compared, compare
from torchdeck.plan.memory.spec import KINDS, ZERO, Kind, StrategySpec
from torchdeck.plan.placement import NodeShare

if TYPE_CHECKING:
    from torchdeck.plan.preview.preview import Preview


@dataclass(frozen=True)
class StrategyRow:
    """Requirements and traffic of one strategy."""

    compared: Compared
    traffic: Traffic | None
    """None if the strategy cannot train this model."""
    chosen: bool
    """Whether it is the config's strategy."""

    @property
    def name(self) -> str:
        """`fsdp`, or `hsdp 8 × 128` with its shard and replicas."""
        spec = self.compared.spec
        return f"{spec.kind} {spec.shard} × {spec.replicas:,}" if spec.kind == "hsdp" else spec.kind

    def document(self) -> dict[str, Any]:
        """Return plain values: `strategy`, `shard`, `replicas`, `chosen`, `problem`, `memory`,
        `communication`.
        """
        compared = self.compared
        return {
            "strategy": compared.spec.kind,
            "shard": compared.spec.shard,
            "replicas": compared.spec.replicas,
            "chosen": self.chosen,
            "problem": compared.problem,
            "notes": list(compared.notes),
            "memory": [asdict(group) for group in compared.memory],
            "communication": None if self.traffic is None else asdict(self.traffic),
        }


def strategy_kinds(words: Sequence[str]) -> tuple[Kind, ...]:
    """Return the strategies named by `words`, each once.

    Raises:
        ValueError: one of them is not a strategy.
    """
    known: dict[str, Kind] = {kind: kind for kind in KINDS}
    for word in words:
        if word not in known:
            raise ValueError(f"there is no strategy {word!r}; expected one of {', '.join(KINDS)}")
    return tuple(dict.fromkeys(known[word] for word in words))


def compare_strategies(preview: Preview, kinds: Sequence[Kind]) -> tuple[StrategyRow, ...]:
    """Return the run of `preview` under each of `kinds`.

    Raises:
        ValueError: nothing is known about the model.
    """
    profile = preview.known.profile
    if profile is None:
        raise ValueError(
            preview.known.broken
            or preview.known.failure
            or "the model size is unknown: there is nothing to compare"
        )
    shares, config = preview.shares, preview.config
    own = spec_of(config, shares, preview.plan.backend, preview.known)
    specs = [_changed(own, kind, shares, config.distributed.hsdp.shard) for kind in kinds]
    free = None if config.launch.queue else free_bytes(shares)
    links = links_from(config.cluster, shares)
    return tuple(
        StrategyRow(
            compared,
            None if compared.problem else make_traffic(communication(profile, compared.spec, shares, links)),
            chosen=compared.spec.kind == own.kind,
        )
        for compared in compare(profile, specs, capacities(shares), free)
    )


def _changed(own: StrategySpec, kind: Kind, shares: Sequence[NodeShare], asked: int | None) -> StrategySpec:
    if kind == own.kind:
        return own
    if kind != "hsdp":
        return own.with_kind(kind)
    try:
        shard = shard_groups(shares, asked).shard
    except PlanError:
        shard = shard_groups(shares, None).shard
    return own.with_kind(kind, shard=shard)


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
