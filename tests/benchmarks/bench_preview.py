"""How long it takes to plan for thousands of ranks and to lay the plan out, once the model is traced."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.rows import Row
from support.values.machines import PYTHON
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.facts.node_facts import inventory_from
from torchdeck.launching.facts.profiling import profile_model, wanted_traces
from torchdeck.plan.known import Known
from torchdeck.plan.planner import make_plan
from torchdeck.plan.preview.preview import make_preview
from torchdeck.plan.preview.preview_json import document

REPEATS = 5
GOALS = {128: 0.5, 1024: 2.0}
"""Nodes of 8 GPUs each → seconds that the whole preview may take."""


def run() -> list[Row]:
    """Plan alone, and plan and preview as JSON, for 1,024 and 8,192 ranks of byte-gpt under hsdp."""
    with tempfile.TemporaryDirectory() as folder:
        asked = cluster(1, folder)
        known = Known(profile=profile_model(asked, Path(folder), wanted=wanted_traces(asked)))
        return [
            row for nodes, goal in GOALS.items() for row in _rows(cluster(nodes, folder), known, nodes, goal)
        ]


def cluster(nodes: int, folder: str) -> RunConfig:
    """byte-gpt on `nodes` described machines of 8 H100 each."""
    return config_from_dict(
        {
            "run": {"recipe": "byte-gpt"},
            "training": {"steps": 1000, "microbatch": 8},
            "distributed": {"strategy": "hsdp"},
            "cluster": {
                "nodes": [{"name": f"gpu[0000-{nodes - 1:04d}]", "gpus": 8, "gpu": "H100"}],
                "inter_node": "400Gbit/s",
            },
        },
        folder,
    )


def _rows(asked: RunConfig, known: Known, nodes: int, goal: float) -> list[Row]:
    def planned() -> LaunchPlan:
        inventory = inventory_from(asked.cluster)
        interpreters = {node.name: PYTHON for node in inventory}
        return make_plan(asked, inventory, CodeTree(), interpreters=interpreters, known=known)

    def previewed() -> str:
        return json.dumps(document(make_preview(asked, planned(), inventory_from(asked.cluster), known)))

    ranks = f"{8 * nodes:,} ranks"
    return [
        Row(f"plan of {ranks}, its memory predicted", _seconds(planned), "s"),
        Row(
            f"plan.json of {ranks}, with its fingerprint",
            _seconds(lambda: json.dumps(planned().document())),
            "s",
        ),
        Row(
            f"preview of {ranks} as JSON",
            _seconds(previewed),
            "s",
            wanted=goal,
            lower_is_better=True,
            goal_is_absolute=True,
        ),
    ]


def _seconds(action: Callable[[], object]) -> float:
    """The median of some runs, the first left out."""
    action()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
