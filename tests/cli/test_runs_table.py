"""`torchdeck runs list` with columns, order, groups and saved views."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.values.histories import controller_journal
from support.values.made_runs import IDS, make_run
from support.values.metrics import write_rows
from support.values.run_entries import DONE
from torchdeck.cli.main import main
from torchdeck.runs.folders.notes import StepNote
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck.runs.table.views import TableView
from torchdeck.use_cases.table.notes import change_notes
from torchdeck.use_cases.table.views import save_view


@pytest.fixture
def home(torchdeck_home: Path) -> Path:
    for number, each in enumerate(IDS):
        text = f"[training]\nlr = {0.1 * (number + 1):g}\nseed = {number % 2}\n"
        layout = make_run(torchdeck_home, controller_journal(), DONE, run_id=each, run_file=text)
        write_rows(layout.root, [(step, {"loss": 9.0 - step - number}) for step in range(3)])
    return torchdeck_home


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["runs", "list", *words]) == 0
    return capsys.readouterr().out


def test_columns_order_groups_and_views(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "--columns", "lr,loss:min,loss@1,gone", "--sort", "loss:min").splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "LR", "LOSS:MIN", "LOSS@1", "GONE"]
    assert [line.split()[0] for line in lines[1:]] == list(IDS[::-1])
    assert lines[1].split()[-4:] == ["0.3", "5.0000", "6.0000", "-"]

    (group, other) = json.loads(said(capsys, "--group", "seed", "--columns", "loss", "--json"))
    assert (group["group"], group["runs"]) == ("seed 0", [IDS[2], IDS[0]])
    assert group["values"]["loss"] == {"mean": 6.0, "deviation": pytest.approx(2**0.5), "runs": 2}
    assert other["values"]["loss"]["deviation"] is None
    assert "6.0000 ± 1.4142" in said(capsys, "--group", "seed")

    save_view(home, "mine", TableView(RunFilter("lr > 0.15"), ("lr",), "lr", descending=False))
    rows = json.loads(said(capsys, "--view", "mine", "--where", "lr < 0.25", "--json"))
    assert [(row["id"], row["values"]) for row in rows] == [(IDS[1], {"lr": "0.2"})]
    assert IDS[0] not in said(capsys, "--where", "loss@2 < 6.5")


def test_what_cannot_be_shown_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list", "--view", "gone"]) == 2
    assert "no view is saved" in capsys.readouterr().err
    assert main(["runs", "list", "--columns", ","]) == 2
    assert "no column is given" in capsys.readouterr().err


def test_runs_are_renamed_tagged_pinned_and_archived(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "edit", IDS[0], "--name", "the best", "--tag", "a", "--tag", "b", "--pin"]) == 0
    assert main(["runs", "edit", IDS[2], IDS[0], "--untag", "a", "--archive", "--json"]) == 0
    assert main(["runs", "edit", "the best", "--unarchive"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == f"{IDS[0]}: name the best, tags b, pinned"
    lines = said(capsys).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [IDS[0], IDS[1]], "pinned first, archived hidden"
    assert "the best" in lines[1]
    assert IDS[2] in said(capsys, "--archived")
    assert IDS[2] in said(capsys, "--where", "archived = yes")
    assert said(capsys, "--where", "name = nothing").startswith("no run fulfils")


def test_an_edited_run_with_notes_on_moments_is_printed_as_json(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_notes(home, IDS[:1], lambda note: note.with_step(StepNote(10.0, 2, "early")))
    assert main(["runs", "edit", IDS[0], "--tag", "a", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert row["steps"] == [{"time": 10.0, "step": 2, "text": "early"}]


def test_a_pinned_run_is_not_deleted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "edit", IDS[0], "--pin"]) == 0
    assert main(["runs", "delete", IDS[0], "--yes"]) == 3
    assert "is pinned" in capsys.readouterr().err
    assert main(["runs", "edit", IDS[0], "--unpin"]) == 0
    assert main(["runs", "delete", IDS[0], "--yes"]) == 0


@pytest.mark.parametrize("words", [[IDS[0]], [IDS[0], IDS[1], "--name", "x"], ["gone", "--pin"]])
def test_an_edit_that_says_nothing_is_refused(home: Path, words: list[str]) -> None:
    assert main(["runs", "edit", *words]) == 2
