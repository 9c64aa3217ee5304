"""Plots by topic, whatever a script calls its metrics."""

from __future__ import annotations

from torchdeck_app.runs.plots.catalogue import catalogue


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
