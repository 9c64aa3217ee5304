"""When the newest training in a folder began, by its files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchdeck.agent.watched.output_copy import OutputCopy, newest_log
from torchdeck.agent.watched.watching_agent import Span, began, folder_start

NOW = 1.7e9


def written(path: Path, at: float, text: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


@pytest.mark.parametrize(
    ("spans", "first"),
    [
        ([Span(5, 9)], 5),
        ([Span(1, 3), Span(5, 9)], 5),
        ([Span(1, 6), Span(5, 9)], 1),
        ([Span(0, 2), Span(1, 6), Span(5, 9)], 0),
        ([Span(7, 7), Span(2, 8), Span(9, 9)], 9),
    ],
)
def test_files_that_overlap_are_one_training(spans: list[Span], first: float) -> None:
    assert began(spans) == first


def test_an_earlier_training_in_the_same_folder_is_left_out(tmp_path: Path) -> None:
    """Hugging Face starts again in the same folder: steps fall where the new training begins."""
    for step, at in ((100, 10), (200, 20), (50, 1000), (150, 1010)):
        written(tmp_path / f"out/checkpoint-{step}/trainer_state.json", NOW + at)
    assert folder_start(tmp_path) == NOW + 1000


def test_lightning_began_with_its_settings(tmp_path: Path) -> None:
    """Its table has no times; an earlier version is another training."""
    written(tmp_path / "lightning_logs/version_0/hparams.yaml", NOW)
    written(tmp_path / "lightning_logs/version_0/metrics.csv", NOW + 50, "step,loss\n1,2\n")
    written(tmp_path / "lightning_logs/version_1/hparams.yaml", NOW + 100)
    written(tmp_path / "lightning_logs/version_1/metrics.csv", NOW + 150, "step,loss\n1,2\n")
    assert folder_start(tmp_path) == NOW + 100


def test_a_folder_without_files_of_trainers_has_no_beginning(tmp_path: Path) -> None:
    written(tmp_path / "notes.txt", NOW)
    assert folder_start(tmp_path) is None


def test_the_newest_log_is_copied_as_it_grows(tmp_path: Path) -> None:
    """What an agent copied before is not copied again by the next; lines have the time of the log."""
    written(tmp_path / "old.log", NOW - 10, "before\n")
    written(tmp_path / "train.log", NOW + 5, "one\n")
    assert newest_log(tmp_path, (".log",), NOW + 10) is None
    source = newest_log(tmp_path, (".log",), NOW)
    assert source == tmp_path / "train.log"
    target = tmp_path / "copy"
    assert OutputCopy(source, target).look() == NOW + 5
    assert target.stat().st_mtime == NOW + 5
    with source.open("a") as log:
        log.write("two\n")
    later = OutputCopy(source, target)
    assert later.look() > NOW + 5
    assert later.look() == 0
    assert target.read_text() == "one\ntwo\n"
