"""Deleted runs that can be restored until the trash is emptied."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.histories import controller_journal
from support.values.made_runs import IDS, make_run
from support.values.run_entries import DONE
from torchdeck.agent.probe.run_folders import room_of
from torchdeck.contract.layout import TRASH_PREFIX, Home, RunLayout
from torchdeck.runs.folders.deletion import set_aside
from torchdeck.runs.folders.trash import in_trash
from torchdeck.use_cases.delete import restore


def over(home: Path, number: int) -> RunLayout:
    return make_run(home, controller_journal(), DONE, run_id=IDS[number])


def test_deleted_runs_are_listed_until_they_are_restored(tmp_path: Path) -> None:
    assert in_trash(tmp_path) == ()
    layouts = [over(tmp_path, number) for number in (0, 1)]
    for layout in layouts:
        set_aside(layout)
    (tmp_path / "runs" / f"{TRASH_PREFIX}no-run").mkdir()
    found = in_trash(tmp_path)
    assert sorted(each.run_id for each in found) == sorted(IDS[:2])
    assert all(each.name and each.name in each.run_id for each in found)
    restore(found[0].folder)
    assert [each.run_id for each in in_trash(tmp_path)] == [found[1].run_id]


def test_their_room_is_that_of_all_files(tmp_path: Path) -> None:
    layout = over(tmp_path, 0)
    before = room_of(layout.root)
    (layout.checkpoints / "step_1").mkdir(parents=True)
    (layout.checkpoints / "step_1" / "weights").write_bytes(bytes(5000))
    assert room_of(set_aside(layout)) == before + 5000


def test_a_count_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    def check() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        room_of(tmp_path, check)


def test_deleted_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """By what they set, as in the list of runs; else by when they were made."""
    ids = [f"20261121T03445{number}Z-gpt-0a1b2{number}" for number in range(4)]
    for run_id, lr in zip(ids, ("0.1", "0.2", "0.2", "0.3"), strict=True):
        make_run(tmp_path, controller_journal(), DONE, run_id=run_id, run_file=f"[training]\nlr = {lr}\n")
    for run_id in ids[:3]:
        set_aside(Home(tmp_path).run(run_id))
    labels = {each.run_id: each.label for each in in_trash(tmp_path)}
    assert labels[ids[0]] == "gpt · lr 0.1"
    assert labels[ids[1]] == "gpt · lr 0.2, 2026-11-21 03:44:51 UTC"
    assert len(set(labels.values())) == 3
