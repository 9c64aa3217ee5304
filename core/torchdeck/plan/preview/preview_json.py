"""A preview as JSON, for programs.

The document has `version` (1), raised if a key is removed or changes its meaning; keys may be added.
Sizes are bytes, ranks count from 0, `[first, last]` is an inclusive range, null is "not known".

- `headline`: one sentence.
- `placement`: `world_size`; `shard` (ranks that share one model's state) and `replicas` (such groups);
  `nodes`, each `name`, `address`, `node_rank`, `ranks` [first, last], `devices`, `kind`;
  `spares` (names), `absent` (each `name`, `why`: it did not answer, and is left out).
- `arithmetic`: sentences.
- `smaller`: sizes with which a run with a range continues, most ranks first: `nodes`, `nproc`, `world_size`,
  `accumulation`, `global_batch`, `lr`, `verdict` and `peak_bytes` of its memory, `warnings`.
- `data`, or null: `source`, `size`, `steps_per_epoch`, `steps`, `epochs`, `unit` (what loads count),
  `imbalance` (largest load ÷ mean), `padding` (share of the computation), `ranks` (each `ranks`
  [first, last], `samples`, `tokens`), `policies` (each `name`, `imbalance`, `slowest`, `chosen`,
  `steps` evaluated).
- `memory`, or null: `source`, `verdict`, `groups` (each as in the plan's `prediction.memory`), `suggestions`
  (each `change`, key to new value; `sentence`, `peak_bytes`, `verdict`).
- `communication`, or null: per step: `sent` by each rank, `between` (nodes, by all ranks), `crossing`
  (ranks that send to other nodes), `seconds` (minimum time links are busy), `collectives` (each `name`,
  `what`, `ring`, `passes`, `sent`).
- `program`, or null for a recipe: what a script's own arguments and config files say, which Torchdeck does
  not decide: `settings` (each `name`, `value`, `source`; null: they do not say) and `contradictions` (each
  `what`, `fix`).
- `notes`: sentences.

For one rank (`--rank N --json`): the fields of `torchdeck.plan.preview.rank_preview.RankPreview`. For a
comparison of strategies (`--compare A,B --json`): a list, each as
`torchdeck.plan.preview.strategies.StrategyRow.document`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchdeck.contract.plan.launch_plan import LaunchPlan, SmallerSize
from torchdeck.contract.plan.prediction import PredictedData
from torchdeck.plan.memory.fullness import MemoryPreview, make_memory
from torchdeck.plan.preview.data_share import DataPreview
from torchdeck.plan.preview.preview import headline, verdict_line
from torchdeck.plan.preview.rank_grid import RankGrid

if TYPE_CHECKING:
    from torchdeck.plan.preview.preview import Preview


PREVIEW_VERSION = 1


def document(preview: Preview) -> dict[str, Any]:
    """Return the document of `preview`: dicts, lists, strings and numbers."""
    predicted = None if preview.plan.prediction is None else preview.plan.prediction.data
    return {
        "version": PREVIEW_VERSION,
        "headline": headline(preview),
        "placement": {
            **_placement(preview.board),
            "spares": [node.name for node in preview.plan.spares],
            "absent": [dataclasses.asdict(node) for node in preview.plan.absent],
        },
        "arithmetic": list(preview.arithmetic),
        "smaller": list(size_values(preview.plan)),
        "data": None if preview.data is None or predicted is None else _data(preview.data, predicted),
        "memory": None if preview.memory is None else _memory(preview.memory),
        "communication": None if preview.traffic is None else dataclasses.asdict(preview.traffic),
        "program": None if preview.program is None else preview.program.document(),
        "notes": list(preview.notes),
    }


def _placement(board: RankGrid) -> dict[str, Any]:
    return {
        "world_size": board.world_size,
        "shard": board.shard,
        "replicas": board.replicas,
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "node_rank": node.node_rank,
                "ranks": [node.first_rank, node.last_rank],
                "devices": list(node.devices),
                "kind": node.kind,
            }
            for node in board.nodes
        ],
    }


def _data(data: DataPreview, predicted: PredictedData) -> dict[str, Any]:
    return {
        "source": data.source,
        "size": data.size,
        "steps_per_epoch": data.steps_per_epoch,
        "steps": data.steps,
        "epochs": data.epochs,
        "unit": data.unit,
        "imbalance": data.imbalance,
        "padding": data.padding,
        "ranks": [
            {"ranks": [counts.first, counts.last], "samples": counts.samples, "tokens": counts.tokens}
            for counts in predicted.ranks
        ],
        "policies": [dataclasses.asdict(policy) for policy in data.policies],
    }


def _memory(memory: MemoryPreview) -> dict[str, Any]:
    return {
        "source": memory.source,
        "verdict": memory.verdict,
        "groups": [
            {
                **dataclasses.asdict(group),
                "ranks": [list(ranks) for ranks in group.ranks],
                "terms": dict(group.terms),
                "state": dict(group.state),
            }
            for group in memory.groups
        ],
        "suggestions": [dataclasses.asdict(suggestion) for suggestion in memory.suggestions],
    }


# Sizes with which a run with a range continues after losing ranks, as lines and as plain values.

SHOWN = 8
"""Largest number of sizes shown; beyond it the largest and the smallest."""


def size_lines(plan: LaunchPlan) -> list[str]:
    """Return a line per size, most ranks first; none without a range."""
    if not plan.smaller:
        return []
    sizes = list(plan.smaller)
    lines = [_line(plan, size) for size in sizes]
    if len(lines) > SHOWN:
        lines[SHOWN - 1 : -1] = [f"⋮ and {len(lines) - SHOWN:,} more"]
    return ["if a rank is lost for good, the run continues from its newest checkpoint with", *lines]


def size_values(plan: LaunchPlan) -> Iterator[dict[str, Any]]:
    """Yield the sizes as plain values, most ranks first."""
    for size in plan.smaller:
        memory = _sizes_memory(size)
        yield {
            "nodes": size.nodes,
            "nproc": size.nproc,
            "world_size": size.world_size,
            "accumulation": size.batch and size.batch.accumulation,
            "global_batch": size.batch and size.batch.global_batch,
            "lr": size.batch and size.batch.scaled_lr,
            "verdict": memory and memory.verdict,
            "peak_bytes": memory and memory.decisive.peak_bytes,
            "warnings": list(size.warnings),
        }


def _line(plan: LaunchPlan, size: SmallerSize) -> str:
    """Return `2 ranks: global batch 4 × 3 × 2 = 24 samples; fits: 3.1 GiB of 80.0 GiB, 4 %`."""
    parts = [f"{size.world_size:,} rank{'' if size.world_size == 1 else 's'}"]
    if len(plan.nodes) > 1:
        parts[0] += f" ({size.nodes:,} × {size.nproc:,})"
    batch = size.batch
    if batch is not None:
        mean = isinstance(batch.microbatch, float)
        arithmetic = f"{batch.microbatch:.6g} × {batch.accumulation} × {batch.world_size:,}"
        parts[0] += f": global batch {arithmetic} {'≈' if mean else '='} {batch.global_batch:,} samples"
        if plan.batch is not None and batch.scaled_lr != plan.batch.scaled_lr:
            parts.append(f"lr {batch.scaled_lr:g}")
    memory = _sizes_memory(size)
    if memory is not None:
        parts.append(verdict_line(memory))
    return "; ".join(parts)


def _sizes_memory(size: SmallerSize) -> MemoryPreview | None:
    return None if size.prediction is None else make_memory(size.prediction)
