"""`torchdeck runs trash`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.values.histories import controller_journal
from support.values.made_runs import IDS, make_run
from support.values.run_entries import DONE
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.use_cases.delete import move_to_trash


@pytest.fixture
def deleted(torchdeck_home: Path) -> list[RunLayout]:
    layouts = [make_run(torchdeck_home, controller_journal(), DONE, run_id=id_) for id_ in IDS[:2]]
    for layout in layouts:
        move_to_trash(layout)
    return layouts


def test_runs_are_listed_restored_and_removed(
    deleted: list[RunLayout], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = deleted
    assert main(["runs", "trash", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert {row["id"] for row in listed} == set(IDS[:2])
    assert all(row["bytes"] > 0 for row in listed)
    assert main(["runs", "trash", "--restore", first.root.name]) == 0
    assert first.root.is_dir()
    assert main(["runs", "trash", "--empty"]) == 0  # no terminal to ask on
    assert "removed 1 run" in capsys.readouterr().out
    assert not second.root.exists()
    assert main(["runs", "trash"]) == 0
    assert "the trash is empty" in capsys.readouterr().out


def test_what_is_not_in_it_or_not_one_run_is_refused(
    deleted: list[RunLayout], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "trash", "--restore", "20"]) == 2
    assert "2 runs in the trash begin with 20" in capsys.readouterr().err
    assert main(["runs", "trash", "--restore", "x"]) == 2
    assert "no run in the trash is x" in capsys.readouterr().err
    assert not any(layout.root.exists() for layout in deleted)
