"""Plots by topic, whatever a script calls its metrics."""

from __future__ import annotations

import json
from pathlib import Path

from support.values.metrics import write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.catalogue import catalogue
from torchdeck.runs.plots.exchange import Request
from torchdeck.runs.plots.plot_reader import PlotReader
from torchdeck.trainers.metric_roles import Roles


def test_a_scripts_names_are_plotted_by_their_roles() -> None:
    """Training and validation loss in one plot; names without a role have plots of their own."""
    names = ("train/loss", "eval/loss", "train/learning_rate", "throughput(tps)", "accuracy")
    plots = {metric.title: metric.names for metric in catalogue(names, ())}
    assert plots == {
        "Loss": ("train/loss", "eval/loss"),
        "Throughput": ("throughput(tps)",),
        "Learning rate": ("train/learning_rate",),
        "Accuracy": ("accuracy",),
    }


def test_the_best_known_of_several_names_is_chosen() -> None:
    """The others are not lost."""
    plots = {metric.title: metric.names for metric in catalogue(("train/loss", "loss"), ())}
    assert plots == {"Loss": ("loss",), "train/loss": ("train/loss",)}


def test_names_of_the_run_file_go_before_the_known_ones() -> None:
    """What else is called loss has a plot of its own."""
    roles = Roles({"loss": "actor/pg_loss", "validation_loss": "critic/score"})
    names = ("actor/pg_loss", "critic/score", "loss")
    plots = {metric.key: metric.names for metric in catalogue(names, (), roles=roles)}
    assert plots == {"loss": ("actor/pg_loss", "critic/score"), "own:loss": ("loss",)}


def test_the_plots_of_a_run_follow_its_run_file(tmp_path: Path) -> None:
    write_rows(tmp_path, [(step, {"objective": 1.0 / step, "score": 2.0}) for step in range(1, 5)])
    plan = {"metric_names": {"loss": "objective", "validation_loss": "score"}}
    RunLayout(tmp_path).plan.write_text(json.dumps(plan))
    answer = PlotReader([RunLayout(tmp_path)]).answer(Request((("loss", 300),)))
    assert [metric.names for metric in answer.metrics] == [("objective", "score")]
    assert len(answer.plots["loss"].curves) == 2


def test_runs_of_different_programs_are_compared_in_one_plot(tmp_path: Path) -> None:
    """Each calls its loss otherwise; the curves have the runs' names."""
    for run, name in (("a", "train/loss"), ("b", "train_loss")):
        (tmp_path / run).mkdir()
        write_rows(tmp_path / run, [(step, {name: 1.0 / step}) for step in range(1, 5)])
    made = PlotReader([RunLayout(tmp_path / "a"), RunLayout(tmp_path / "b")], ["a", "b"])
    answer = made.answer(Request((("loss", 300),)))
    assert [metric.key for metric in answer.metrics] == ["loss"]
    assert len(answer.plots["loss"].curves) == 2
    assert all(len(curve.x) == 4 for curve in answer.plots["loss"].curves)
