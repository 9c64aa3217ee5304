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
  `what`,
  `ring`, `passes`, `sent`).
- `notes`: sentences.

For one rank (`--rank N --json`): the fields of `torchdeck.plan.preview.rank.RankPreview`. For a comparison of
strategies (`--compare A,B --json`): a list, each as `torchdeck.plan.preview.strategies.StrategyRow.document`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from torchdeck.contract.plan.prediction import PredictedData
from torchdeck.plan.memory.fullness import MemoryPreview
from torchdeck.plan.preview.data import DataPreview
from torchdeck.plan.preview.headline import headline
from torchdeck.plan.preview.rank_grid import RankGrid
from torchdeck.plan.preview.sizes import size_values

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
