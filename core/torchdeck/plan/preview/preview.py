"""Readable preview of a run, shown by terminal, picture and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.batch import explain_batch
from torchdeck.plan.known import Known
from torchdeck.plan.memory.fullness import MemoryPreview, make_memory
from torchdeck.plan.placement import NodeShare, shares_of
from torchdeck.plan.preview.rank_grid import RankGrid, make_rank_grid

if TYPE_CHECKING:
    # these import numpy, and a script has none of them
    from torchdeck.plan.memory.spec import StrategySpec
    from torchdeck.plan.preview.data import DataPreview
    from torchdeck.plan.preview.traffic import Traffic


@dataclass(frozen=True)
class Preview:
    """Preview of a plan. Ranks with equal requirements are grouped; `make_rank` previews a single rank."""

    plan: LaunchPlan
    board: RankGrid
    arithmetic: tuple[str, ...]
    """One sentence per line; empty for scripts."""
    data: DataPreview | None
    memory: MemoryPreview | None
    traffic: Traffic | None
    """None if nothing is known about the model."""
    notes: tuple[str, ...]
    """Why something is missing, and what is not validated: one sentence each."""
    config: RunConfig = field(repr=False)
    known: Known = field(repr=False)
    shares: tuple[NodeShare, ...] = field(repr=False)
    """Ranks on every node."""
    spec: StrategySpec | None = field(repr=False)
    """None if nothing is known about the training."""


def make_preview(
    config: RunConfig, plan: LaunchPlan, inventory: Inventory, known: Known | None = None
) -> Preview:
    """Preview `plan`. Pure, and fast for thousands of ranks.

    Args:
        config: config the plan was made from.
        plan: plan with its prediction.
        inventory: machines it was made for.
        known: facts about model and data; default: none.
    """
    known = Known() if known is None else known
    shares = shares_of(plan, inventory)
    spec = _spec(config, plan, shares, known)
    data = _data(config, plan, known)
    return Preview(
        plan=plan,
        board=make_rank_grid(plan, shares, spec),
        arithmetic=_arithmetic(plan, data),
        data=data,
        memory=_memory(plan, spec, known),
        traffic=_traffic(config, spec, shares, known),
        notes=(*_spares(plan), *_inside(plan), *(() if plan.prediction is None else plan.prediction.notes)),
        config=config,
        known=known,
        shares=tuple(shares),
        spec=spec,
    )


def _arithmetic(plan: LaunchPlan, data: DataPreview | None) -> tuple[str, ...]:
    if plan.batch is None:
        return ()
    samples = None if data is None else int(data.samples.sum())
    size = None if data is None else data.size
    return tuple(explain_batch(plan.batch, steps=plan.steps, samples=samples, in_epoch=size))


def _spec(
    config: RunConfig, plan: LaunchPlan, shares: Sequence[NodeShare], known: Known
) -> StrategySpec | None:
    if plan.batch is None and known.profile is None:
        return None
    from torchdeck.plan.fitting import spec_of

    return spec_of(config, shares, plan.backend, known)


def _memory(plan: LaunchPlan, spec: StrategySpec | None, known: Known) -> MemoryPreview | None:
    memory = None if plan.prediction is None else make_memory(plan.prediction)
    if memory is None or spec is None:
        return memory
    from torchdeck.plan.fitting import suggested

    return replace(memory, suggestions=suggested(spec, memory, known))


def _data(config: RunConfig, plan: LaunchPlan, known: Known) -> DataPreview | None:
    if plan.prediction is None or plan.prediction.data is None:
        return None
    from torchdeck.plan.preview.data import make_data

    return make_data(plan.prediction.data, config.training, known.batch_plan)


def _traffic(
    config: RunConfig, spec: StrategySpec | None, shares: Sequence[NodeShare], known: Known
) -> Traffic | None:
    if spec is None or known.profile is None:
        return None
    from torchdeck.plan.communication import communication, links_from
    from torchdeck.plan.preview.traffic import make_traffic

    return make_traffic(communication(known.profile, spec, shares, links_from(config.cluster, shares)))


def _spares(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what spare nodes are for, as a sentence; none without spares."""
    names = [node.name for node in plan.spares]
    if not names:
        return ()
    if len(names) == 1:
        return (f"{names[0]} is a spare node: it runs nothing until it takes the place of a lost one",)
    shown = f"{', '.join(names[:-1])} and {names[-1]}"
    return (f"{shown} are spare nodes: each runs nothing until it takes the place of a lost one",)


def _inside(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what is added to a script's trainer, as a sentence; none if nothing is."""
    if "inside" not in plan.slots:
        return ()
    sentence = (
        "callbacks are added inside: if the script uses Hugging Face Trainer, Lightning, torchtitan, "
        "DeepSpeed or accelerate, they report steps, metrics and phases, and save when the run is stopped; "
        "telemetry.inside = false leaves them out"
    )
    return (sentence,)
