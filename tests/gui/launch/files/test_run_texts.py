"""What runs were started with, for who compares with it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.values.made_runs import IDS, make_run
from torchdeck.contract.journal import Event
from torchdeck_app.launch.files.diff_dialog import by_key, run_text, run_titles

TEXT = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 10\n'


def test_what_was_said_on_top_of_a_run_file_is_compared_too(tmp_path: Path) -> None:
    """A run that was started with `--set training.steps=20` is no run of 10 steps."""
    started = Event("created", 1.0, 1.0, {"overrides": ["training.steps=20"]})
    make_run(tmp_path, [started]).config.write_bytes(TEXT.replace("\n", "\r\n").encode())
    found = run_text(tmp_path, IDS[0])
    assert found.run_id == IDS[0]
    (row,) = by_key(found.text, TEXT)
    assert row == ("training.steps", "20", "10")
    assert "\r" not in found.text


def test_runs_are_called_by_name_and_time_the_newest_first(tmp_path: Path) -> None:
    made = time.mktime((2026, 11, 22, 10, 0, 5, 0, 0, -1))
    for run_id in IDS:
        make_run(tmp_path, [Event("created", made, 1.0, {"name": "my run"})], run_id=run_id)
    first, second = run_titles(tmp_path, 2)
    assert (first.run_id, second.run_id) == (IDS[2], IDS[1])
    assert str(first) == "my run, 2026-11-22 10:00:05"


@pytest.mark.parametrize("journal", ["", "no json", "[]", '{"event": "stopped", "t": 1.0}', "{}"])
def test_a_run_that_cannot_be_read_is_called_by_its_id(tmp_path: Path, journal: str) -> None:
    make_run(tmp_path, ()).journal.write_text(journal)
    (found,) = run_titles(tmp_path)
    assert found.name == IDS[0]
    assert found.created == datetime(2026, 11, 21, 3, 44, 55, tzinfo=UTC).timestamp()


def test_a_run_that_is_asked_for_is_there_though_it_is_old(tmp_path: Path) -> None:
    for run_id in IDS:
        make_run(tmp_path, (), run_id=run_id)
    assert [title.run_id for title in run_titles(tmp_path, 1, IDS[0])] == [IDS[0], IDS[2]]
    assert [title.run_id for title in run_titles(tmp_path, 1, IDS[2])] == [IDS[2]]
    (gone, _) = run_titles(tmp_path, 1, "gone")
    assert str(gone) == "gone"
