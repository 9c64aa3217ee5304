"""What is read from a folder of golden files; `python -m support.values.golden_reading FOLDER` writes it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import whole_rows
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.data import CheckpointPosition, load_batch_plan
from torchdeck.data.sample_log import SampleLog
from torchdeck.metrics import RunMetrics
from torchdeck.nodes.inventory.file import read_inventory
from torchdeck.runs.follower import read_run
from torchdeck_app.window.saved_session import read_session

EXPECTED = "expected.json"


def layout_in(folder: Path) -> RunLayout:
    """The one run of a golden folder, or of a copy of it."""
    return RunLayout(next((folder / "runs").iterdir()))


def what_is_read(folder: Path) -> dict[str, Any]:
    """Everything that this version reads there, as JSON has it; no path and no time of now is in it."""
    run = layout_in(folder)
    node_inventory = read_inventory(folder / "nodes.toml")
    batches = load_batch_plan(folder / "batch_plan", verify=True)
    read = {
        "view": read_run(run).to_json(),
        "events": [event.name for path in _journals(run) for event in read_journal(path)],
        "plan": LaunchPlan.from_json(read_json(run.plan)).document(),
        "heartbeats": {path.parent.name: read_json(path) for path in run.nodes.glob("*/heartbeat.json")},
        "metrics": dict(_metrics(run)),
        "ranks": {rank: _rank(run, rank) for rank in (0, 1)},
        "checkpoints": [
            [found.path.name, found.step, found.complete, verify(found.path)]
            for found in list_checkpoints(run.checkpoints)
        ],
        "batch plan": [
            batches.fingerprint,
            [list(map(int, b.sample_ids)) for _, _, b in batches.iter_from(0, 0)],
        ],
        "position": CheckpointPosition.load(folder / "position.json").to_json(),
        "nodes": {name: entry.model_dump() for name, entry in node_inventory.nodes.items()},
        "groups": {name: group.model_dump() for name, group in node_inventory.groups.items()},
        "window": vars(read_session(json.loads((folder / "window.json").read_text()))),
    }
    found: dict[str, Any] = json.loads(json.dumps(read))
    return found


def _journals(run: RunLayout) -> list[Path]:
    return [run.journal, *sorted(run.nodes.glob("*/journal.jsonl"))]


def _metrics(run: RunLayout) -> Iterator[tuple[str, Any]]:
    metrics = RunMetrics(run.root)
    metrics.refresh()
    for name in metrics.names():
        for rank in metrics.ranks(name):
            series = metrics.series(name, rank)
            values = [None if math.isnan(value) else float(value) for value in series.values]
            yield f"{name} of rank {rank}", [list(map(int, series.steps)), values]


def _rank(run: RunLayout, rank: int) -> dict[str, Any]:
    files = run.attempt(1).rank(rank)
    progress = read_progress(files.progress)
    samples = [
        [record.step, record.tokens, record.counts.tolist(), record.ids.tolist()]
        for record in SampleLog(files.samples).records()
    ]
    times = whole_rows(files.log_times.read_bytes()) if files.log_times.exists() else []
    return {"progress": None if progress is None else vars(progress), "samples": samples, "times": times}


if __name__ == "__main__":
    golden = Path(sys.argv[1])
    text = json.dumps(what_is_read(golden), indent=1, sort_keys=True)
    (golden / EXPECTED).write_text(text + "\n")
