"""`torchdeck runs list` on runs made by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.runs.conftest import FAILED, output_of
from support.values.histories import (
    controller_journal,
    ended,
    event,
    finished,
    running_run,
)
from support.values.made_runs import IDS, line, make_run
from support.values.run_homes import add_live_run
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.quantities import duration


def test_list_shows_every_run(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people; for programs an array of objects with id, name, state, created, started, ended."""
    text = output_of(capsys, "runs", "list")
    assert IDS[0] in text
    assert "FAILED" in text
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    expected = {
        "id": IDS[0],
        "name": "gpt",
        "state": "FAILED",
        "created": 100.0,
        "started": 101.0,
        "ended": 105.0,
    }
    assert expected.items() <= row.items()


def test_list_says_how_far_a_run_came(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is over has the step of its last checkpoint."""
    saved = event("checkpoint", step=40, path="/c/final", seconds=0.1, size=1)
    make_run(torchdeck_home, controller_journal(), [*running_run(), saved, ended(), finished()])
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert row["step"] == 40
    assert output_of(capsys, "runs", "list").splitlines()[1].split()[-3:] == ["40", "-", "-"]


def test_list_says_for_how_long_a_run_has_been_running(
    torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_live_run(torchdeck_home, 1)
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    monkeypatch.setattr("torchdeck.cli.runs.listing.time.time", lambda: row["started"] + 90.0)
    heading, shown = output_of(capsys, "runs", "list").splitlines()[:2]
    assert "RUNNING" in shown
    assert shown[heading.index("TOOK") :].startswith(duration(90.0))


def test_a_watched_training_that_is_over_is_not_called_successful(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only its parent process knows whether it failed; for programs the state is as before."""
    kinds = [
        event("created", each.time, **{**each.fields, "kind": WATCHED}) if each.name == "created" else each
        for each in controller_journal()
    ]
    make_run(torchdeck_home, kinds, [*running_run(), ended(), finished(why="its process ended")])
    for command in (("list",), ("show", "latest")):
        shown = output_of(capsys, "runs", *command)
        assert "ENDED" in shown
        assert "SUCCEEDED" not in shown
    assert json.loads(output_of(capsys, "runs", "list", "--json"))[0]["state"] == "SUCCEEDED"


def test_list_of_no_runs(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty array for programs, a hint for people."""
    assert json.loads(output_of(capsys, "runs", "list", "--json")) == []
    assert "torchdeck init" in output_of(capsys, "runs", "list")


def test_list_says_which_run_cannot_be_read(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """A newer run is a row with its sentence."""
    failed.journal.write_text(line(event("created"), version=99))
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert row["state"] == "UNREADABLE"
    assert "update Torchdeck" in row["why"]


def test_a_run_whose_journal_is_no_file_is_listed_and_can_be_deleted(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are listed as they are; what shows the run says in a sentence why it cannot."""
    make_run(torchdeck_home, controller_journal(), FAILED)
    bad = make_run(torchdeck_home, [], run_id=IDS[1])
    bad.journal.unlink()
    os.mkfifo(bad.journal)
    rows = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert [(row["id"], row["state"]) for row in rows] == [(IDS[1], "UNREADABLE"), (IDS[0], "FAILED")]
    for command, code in (("show", 2), ("attach", 2), ("resume", 3)):
        assert main(["runs", command, IDS[1]]) == code
        said = capsys.readouterr().err
        assert "is a named pipe" in said
        assert said.count("\n") == 1
    assert main(["runs", "stop", IDS[1]]) == 3
    assert "no process of run" in capsys.readouterr().err
    assert IDS[1] in output_of(capsys, "runs", "delete", IDS[1])
    assert not bad.root.exists()


def test_list_of_the_newest_and_of_a_state(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest run comes first; runs beyond the limit are not even read."""
    over = [*running_run(), ended(), finished()]
    make_run(torchdeck_home, controller_journal(), FAILED, run_id=IDS[0])
    make_run(torchdeck_home, controller_journal(), over, run_id=IDS[1])

    def listed(*words: str) -> list[str]:
        return [row["id"] for row in json.loads(output_of(capsys, "runs", "list", "--json", *words))]

    newest, oldest = sorted(IDS[:2], reverse=True)
    assert listed() == [newest, oldest]
    assert listed("--limit", "1") == [newest]
    assert listed("--state", "failed") == [IDS[0]]
    assert listed("--state", "SUCCEEDED", "--limit", "5") == [IDS[1]]
    assert listed("--state", "RUNNING") == []
    assert listed("--where", "state = failed and not name = other") == [IDS[0]]
    assert listed("--where", "ranks > 1000") == []
    assert main(["runs", "list", "--where", "state ="]) == 2
    assert "not understood at its end: expected a value" in capsys.readouterr().err
    assert output_of(capsys, "runs", "list", "--state", "running") == "no run is RUNNING\n"
    assert output_of(capsys, "runs", "list").splitlines()[1].startswith(newest)


HANG = {"attempt": 1, "rank": 1, "phase": "training", "step": 3, "still": 60.0, "limit": 30.0}


def test_list_marks_a_run_that_hangs(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As long as it does."""
    layout = add_live_run(torchdeck_home, 1)
    for found, is_hung in ((event("hang", **HANG), True), (event("hang_over", rank=1), False)):
        with layout.node("localhost").journal.open("a") as file:
            file.write(line(found))
        (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
        assert (row["state"], row["hung"]) == ("RUNNING", is_hung)
        assert ("RUNNING, hung" in output_of(capsys, "runs", "list")) == is_hung


def test_a_script_that_reports_nothing_has_no_step(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not step 0."""
    kinds = [
        event("created", each.time, **{**each.fields, "kind": "script"}) if each.name == "created" else each
        for each in controller_journal()
    ]
    layout = make_run(torchdeck_home, kinds, [*running_run(), ended(), finished()])
    rank = {"phase": "running", "step": 0, "total": None, "t": 104.0, "still": 1.0, "pid": 5}
    beat = {"v": 1, "attempt": 1, "t": 104.0, "ranks": {"0": rank}}
    layout.node("localhost").heartbeat.write_text(json.dumps(beat))
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert row["step"] is None
