"""Listing runs, finding one by what is typed, and deleting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.values.histories import controller_journal, created, ended, event, finished, running_run
from support.values.made_runs import IDS, line, make_run
from support.values.run_homes import add_live_run, add_run
from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.runs.folders.deletion import StillAliveError, remove, set_aside
from torchdeck.runs.follower import read_run
from torchdeck.runs.registry import RunNotFoundError, RunRegistry, UnreadableRun
from torchdeck.runs.view import RunView

OVER = [*running_run(), ended(), finished()]


@pytest.fixture
def registry(tmp_path: Path) -> RunRegistry:
    for run_id, name in zip(IDS, ("gpt", "gpt", "other"), strict=True):
        journal = [event("created", 100.0, **{**created().fields, "name": name})]
        make_run(tmp_path, journal, OVER, run_id=run_id)
    return RunRegistry(tmp_path)


@pytest.mark.parametrize(
    ("asked", "found"),
    [(IDS[0], IDS[0]), ("20261122", IDS[1]), ("latest", IDS[2]), ("other", IDS[2])],
)
def test_a_run_is_found_by_id_beginning_name_or_latest(registry: RunRegistry, asked: str, found: str) -> None:
    """Each way of naming a run finds it."""
    assert registry.find(asked).root.name == found


def test_latest_of_one_second_is_the_one_made_last(tmp_path: Path) -> None:
    """Runs made in the same second sort by name; the journal knows which came last."""
    for name, at in (("zebra", 100.1), ("ape", 100.2)):
        make_run(tmp_path, [created(at)], OVER, run_id=f"20261121T034455Z-{name}-0a1b2c")
    assert "ape" in RunRegistry(tmp_path).find("latest").root.name


@pytest.mark.parametrize(
    ("asked", "said"), [("gpt", "fits 2 runs"), ("2026", "fits 3 runs"), ("none", "no run")]
)
def test_what_names_none_or_several_is_a_sentence(registry: RunRegistry, asked: str, said: str) -> None:
    """Nothing is guessed; ids to choose from are named."""
    with pytest.raises(RunNotFoundError, match=said):
        registry.find(asked)


def test_a_name_of_several_runs_means_the_only_one_that_runs(registry: RunRegistry, tmp_path: Path) -> None:
    """If one is to be stopped. Of none or two that run, none is guessed."""
    with pytest.raises(RunNotFoundError, match="fits 2 runs"):
        registry.find("gpt", active=True)
    add_run(tmp_path, 7, running_run(), name="gpt")
    live = add_live_run(tmp_path, 8)
    assert registry.find(read_run(live).name, active=True).root == live.root
    with pytest.raises(RunNotFoundError, match="fits"):
        registry.find(read_run(live).name)
    add_live_run(tmp_path, 9)
    with pytest.raises(RunNotFoundError, match="fits 2 runs"):
        registry.find(read_run(live).name, active=True)


def test_a_home_without_runs_says_so(tmp_path: Path) -> None:
    """Also for `latest`."""
    with pytest.raises(RunNotFoundError, match="no runs"):
        RunRegistry(tmp_path).find("latest")
    assert RunRegistry(tmp_path).all() == []


def test_one_unreadable_run_does_not_hide_the_others(registry: RunRegistry) -> None:
    """A newer run is listed with its sentence, the others with their state."""
    newer = registry.folder / IDS[1]
    (newer / "journal.jsonl").write_text(line(created(), version=99))
    found = registry.all()
    assert [type(item) for item in found] == [RunView, UnreadableRun, RunView]
    with pytest.raises(NewerFormatError):
        registry.find(IDS[1])


def test_torn_journal_loses_only_its_torn_line(registry: RunRegistry) -> None:
    """A last line cut by a crash leaves the state of the lines before."""
    journal = registry.folder / IDS[0] / "nodes" / "localhost" / "journal.jsonl"
    text = journal.read_text()
    journal.write_text(text + '{"v": 1, "t": 3')
    view = registry.all()[0]
    assert isinstance(view, RunView)
    assert view.state == "SUCCEEDED"
    journal.write_text(text[: len(text) // 2] + "\n" + text)
    view = registry.all()[0]
    assert isinstance(view, RunView)
    assert view.state == "SUCCEEDED"
    assert "torn" in view.warnings[0]


def test_deletion_removes_a_run_that_is_over(registry: RunRegistry) -> None:
    """Nothing of it is left, and the others are."""
    remove(set_aside(registry.find(IDS[0])))
    assert registry.ids() == list(IDS[1:])
    assert sorted(path.name for path in registry.folder.iterdir()) == list(IDS[1:])


def test_deletion_refuses_a_run_that_lives(tmp_path: Path) -> None:
    """A run whose controller is alive is not deleted, and it is said how to stop it."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    journal = [*controller_journal(), event("controller_started", identity=me.to_json(), epoch=2)]
    layout = make_run(tmp_path, journal, running_run())
    with pytest.raises(StillAliveError, match="runs stop"):
        set_aside(layout)
    assert layout.plan.exists()
