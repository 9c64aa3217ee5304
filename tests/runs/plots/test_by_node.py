"""Plots of one node of a run on several."""

import json
from pathlib import Path

import numpy as np
import pytest

from support.values.metrics import rank_folder, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.exchange import Request
from torchdeck.runs.plots.plot_reader import PlotReader

STEPS = np.arange(20)
TIMES = 1e9 + STEPS
ALL = tuple((key, 200) for key in ("loss", "step_time", "cpu", "gpu_util"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two ranks on each of two nodes, a GPU on one of them; rank 0 logs the loss."""
    nodes = [{"name": name, "nproc": 2} for name in ("a", "b")]
    RunLayout(tmp_path).plan.write_text(json.dumps({"nodes": nodes}))
    for rank in range(4):
        columns = {"step_time": np.full(20, rank + 1.0)} | ({"loss": STEPS * 0.5} if rank == 0 else {})
        write_columns(rank_folder(tmp_path, rank) / "log-1.metrics", columns, steps=STEPS, times=TIMES)
    for at, name in enumerate("ab"):
        columns = {"cpu_percent": np.full(20, 10.0 * (at + 1))} | ({"gpu0_util": STEPS * 1.0} if at else {})
        path = RunLayout(tmp_path).node(name).system / "system-1.metrics"
        write_columns(path, columns, steps=STEPS, times=TIMES)
    return tmp_path


def seen(folder: Path, node: str = "") -> dict[str, list[tuple[str, int, float]]]:
    """Each plot's curves: what the legend calls them, their colour, their newest value."""
    answer = PlotReader([RunLayout(folder)]).answer(Request(ALL, node=node))
    assert answer.nodes == ("a", "b")
    return {
        key: [(curve.label, curve.colour, curve.latest or 0.0) for curve in plot.curves]
        for key, plot in answer.plots.items()
    }


def test_a_node_shows_its_ranks_and_its_host_in_their_own_colours(folder: Path) -> None:
    """The loss, which one rank logs, is the run's; what the node has nothing of is not there."""
    of_all, of_a, of_b = seen(folder), seen(folder, "a"), seen(folder, "b")
    assert [label for label, _, _ in of_all["step_time"]] == [f"rank {r} on {'aabb'[r]}" for r in range(4)]
    assert of_a["step_time"] + of_b["step_time"] == of_all["step_time"]
    assert [curve[1:] for curve in of_a["cpu"] + of_b["cpu"]] == [curve[1:] for curve in of_all["cpu"]]
    assert of_a["loss"] == of_b["loss"] == of_all["loss"]
    assert "gpu_util" not in of_a
    assert of_b["gpu_util"] == of_all["gpu_util"]
