"""Readable preview of a run, shown by terminal, picture and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.batch import explain_batch
from torchdeck.plan.known import Known
from torchdeck.plan.memory.fullness import MemoryPreview, fullness, make_memory
from torchdeck.plan.placement import NodeShare, shares_of
from torchdeck.plan.preview.program_preview import ProgramPreview, make_program
from torchdeck.plan.preview.rank_grid import RankGrid, make_rank_grid
from torchdeck.quantities import size

if TYPE_CHECKING:
    # these import numpy, and a script has none of them
    from torchdeck.plan.communication import Traffic
    from torchdeck.plan.memory.spec import StrategySpec
    from torchdeck.plan.preview.data_share import DataPreview


@dataclass(frozen=True)
class Preview:
    """Preview of a plan. Ranks with equal requirements are grouped; `make_rank` previews a single rank."""

    plan: LaunchPlan
    board: RankGrid
    arithmetic: tuple[str, ...]
    """One sentence per line; empty for scripts."""
    data: DataPreview | None
    memory: MemoryPreview | None
    program: ProgramPreview | None
    """Settings by a script's own arguments; None for a recipe, and if they say nothing."""
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
        program=make_program(known.program, plan, own_ranks=config.run.launcher == "python"),
        traffic=_traffic(config, spec, shares, known),
        notes=(
            *_spares(plan),
            *_environments(plan),
            *_inside(plan),
            *(() if plan.prediction is None else plan.prediction.notes),
        ),
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
    from torchdeck.plan.preview.data_share import make_data

    return make_data(plan.prediction.data, config.training, known.batch_plan)


def _traffic(
    config: RunConfig, spec: StrategySpec | None, shares: Sequence[NodeShare], known: Known
) -> Traffic | None:
    if spec is None or known.profile is None:
        return None
    from torchdeck.plan.communication import communication, links_from, make_traffic

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


def _environments(plan: LaunchPlan) -> tuple[str, ...]:
    """Return which environments uv makes for the ranks, one sentence per environment."""
    nodes: dict[tuple[str, str], list[NodePlan]] = {}
    for node in plan.all_nodes:
        if node.environment is not None:
            nodes.setdefault((node.environment.key, node.environment.source), []).append(node)
    return tuple(
        f"environment from {source}: {_state(each)} ({key})" for (key, source), each in nodes.items()
    )


def _state(nodes: Sequence[NodePlan]) -> str:
    """Return on which nodes an environment is there, and on which uv makes it."""
    made = [node.name for node in nodes if node.environment is not None and node.environment.is_made]
    missing = [node.name for node in nodes if node.name not in made]
    parts = [f"already exists on {_short(made)}"] if made else []
    return ", ".join([*parts, *([f"uv creates it on {_short(missing)} at the start"] if missing else [])])


def _short(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED else f"{names[0]} and {len(names) - 1:,} other nodes"


def _inside(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what is added to a script's ranks, as a sentence; none if nothing is."""
    if "inside" not in plan.slots:
        return ()
    sentence = (
        "Python code is added to each rank: callbacks in Hugging Face Trainer, Lightning, Accelerate, "
        "DeepSpeed and torchtitan report steps, and can save and end the program when the run is stopped; "
        "of other scripts the optimizer steps are counted; a thread writes a heartbeat, and faulthandler "
        "writes stacks at a crash or the signal SIGRTMIN+9; telemetry.inside = false leaves all of it out"
    )
    return (sentence,)


# Headline of a preview.

_NAMED = 4
"""Maximum nodes listed by name."""
_TIMES = 10
_LEAST = 0.005


def headline(preview: Preview) -> str:
    """Return ranks, strategy and verdict: `2 ranks on localhost, ddp over gloo: fits: 3.1 GiB of 80.0 GiB, 4
    %`.
    """
    where = placement_line(preview)
    if preview.known.broken:
        return f"{where}: {preview.known.broken}"
    return where if preview.memory is None else f"{where}: {verdict_line(preview.memory)}"


def placement_line(preview: Preview) -> str:
    """Return `2 ranks on localhost, ddp over gloo`."""
    plan, nodes = preview.plan, preview.board.nodes
    ranks = f"{plan.world_size:,} rank{'' if plan.world_size == 1 else 's'}"
    where = nodes[0].name if len(nodes) == 1 else f"{len(nodes):,} nodes"
    strategy = f", {plan.strategy}"
    if plan.batch is None:  # a script decides this itself: only an estimate assumes it
        strategy = "" if preview.memory is None else f"{strategy} assumed"
        if preview.known.models and preview.spec is not None:
            strategy = f", {preview.spec.kind} by its own arguments"
    how = f"{strategy} over {plan.backend}"
    return f"{ranks} on {where}{how}"


def verdict_line(memory: MemoryPreview) -> str:
    """Return `fits: 3.1 GiB of 80.0 GiB, 4 %` for the decisive ranks."""
    group = memory.decisive
    filled = fullness(group)
    said = f"{memory.verdict} (estimated)" if memory.source == "closed form" else memory.verdict
    if filled is None:
        return f"memory {said}: {size(group.peak_bytes)} per rank"
    return f"{said}: {size(group.peak_bytes)} of {size(group.capacity_bytes or 0)}, {percent(filled)}"


def percent(share: float) -> str:
    """Return `74 %`; `under 1 %` instead of a value that rounds to 0, `21 times` for a value far too
    large.
    """
    if share >= _TIMES:
        return f"{share:.0f} times"
    return "under 1 %" if 0 < share < _LEAST else f"{share * 100:.0f} %"
