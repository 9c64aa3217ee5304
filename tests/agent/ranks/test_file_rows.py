"""Rows out of files: each step of a metric once, from one file, with steps that rise over epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.metrics import opened, rank_folder
from torchdeck.agent.ranks.file_rows import FileRows
from torchdeck.trainers.files.metric_file_kinds import kind_of
from torchdeck.trainers.files.metric_file_search import Found
from torchdeck.trainers.reading import Reading


def found(name: str) -> Found:
    """A file of that name."""
    path = Path("/out") / name
    kind = kind_of(path)
    assert kind is not None
    return Found(path, kind, 0, 0.0)


def series(run: Path, name: str) -> list[tuple[int, float]]:
    rows = opened(run).series(name, 0)
    return list(zip(rows.steps.tolist(), rows.values.tolist(), strict=True))


@pytest.fixture
def rows(tmp_path: Path) -> FileRows:
    return FileRows(rank_folder(tmp_path))


def test_steps_that_begin_again_in_each_epoch_rise(rows: FileRows, tmp_path: Path) -> None:
    """Counted from 0 or from 1; a step back within an epoch stays one."""
    for first in (0, 1):
        steps = [
            rows.write(
                Reading({f"loss{first}": 1.0}, first + step, epoch=epoch), found(f"{first}.jsonl")
            ).step
            for epoch in range(3)
            for step in range(4)
        ]
        assert steps == list(range(first, first + 12))
        assert [step for step, _ in series(tmp_path, f"loss{first}")] == steps
    assert rows.write(Reading({"loss1": 1.0}, 2, epoch=2), found("1.jsonl")).step == 10


def test_many_records_of_one_step_are_one_row(rows: FileRows, tmp_path: Path) -> None:
    """Such as samples that are logged one by one."""
    for sample in range(5):
        rows.write(Reading({"reward": float(sample)}, 3), found("rollouts.jsonl"))
    assert series(tmp_path, "reward") == [(3, 0.0)]


def test_rows_without_steps_are_numbered(rows: FileRows, tmp_path: Path) -> None:
    """By their epochs while these rise."""
    for epoch in (1, 2, 2.5, 2.75, 7):
        rows.write(Reading({"acc": 1.0}, epoch=epoch), found("results.csv"))
    assert [step for step, _ in series(tmp_path, "acc")] == [1, 2, 3, 4, 7]


def test_a_metric_is_read_from_one_file(rows: FileRows, tmp_path: Path) -> None:
    """But states of several checkpoints repeat each other."""
    rows.write(Reading({"loss": 1.0}, 1), found("metrics.csv"))
    rows.write(Reading({"loss": 2.0}, 2), found("events.out.tfevents.1"))
    assert series(tmp_path, "loss") == [(1, 1.0)]
    for step in (10, 20):
        for row in range(5, step + 1, 5):
            rows.write(
                Reading({"eval_loss": float(row)}, row), found(f"checkpoint-{step}/trainer_state.json")
            )
    assert series(tmp_path, "eval_loss") == [(5, 5.0), (10, 10.0), (15, 15.0), (20, 20.0)]


def test_the_next_agent_continues(rows: FileRows, tmp_path: Path) -> None:
    """It reads the file again and writes what is new."""
    for step in range(3):
        rows.write(Reading({"loss": float(step)}, step), found("metrics.csv"))
    again = FileRows(rank_folder(tmp_path))
    for step in range(5):
        again.write(Reading({"loss": float(step)}, step), found("metrics.csv"))
    assert series(tmp_path, "loss") == [(step, float(step)) for step in range(5)]
