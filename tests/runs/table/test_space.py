"""Room of runs, and checkpoints that a rule would remove; removed by the use case and the command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from support.values.checkpoint_files import save
from support.values.run_homes import PLAN, add_live_run, add_run, run_id
from torchdeck.cli.main import main
from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import Home
from torchdeck.runs.table.reading import read_rows
from torchdeck.runs.table.space import Rule, measured, surplus
from torchdeck.use_cases.table.free_space import free_space
from torchdeck.use_cases.table.notes import change_notes

LOSSES = {10: 3.0, 20: 1.0, 30: 2.0, 40: 4.0}


@pytest.fixture
def home(torchdeck_home: Path) -> Path:
    layouts = [add_run(torchdeck_home, number) for number in (1, 2)]
    layouts.append(add_live_run(torchdeck_home, 3))
    for layout in layouts:
        for step, loss in LOSSES.items():
            save(layout.checkpoints, step, metrics={"validation_loss": loss})
    save(layouts[0].checkpoints, 40, name="final")
    (layouts[0].root / "large").write_bytes(bytes(100_000))
    change_notes(torchdeck_home, (run_id(2),), lambda note: replace(note, pinned=True))
    return torchdeck_home


def removed(home: Path, rule: Rule) -> list[tuple[str, int]]:
    found = surplus(measured(read_rows(home)), rule)
    return [(each.run.row.entry.id, each.checkpoint.info.step) for each in found]


def test_the_newest_and_what_the_rule_names_stay(home: Path) -> None:
    """Nothing of a pinned run or one that is not over goes, and `final` never does."""
    assert measured(read_rows(home))[0].row.entry.id == run_id(1)
    cases = {
        Rule(): [10, 20, 30],
        Rule(keep_best=1): [10, 30],
        Rule(keep_last=2): [10, 20],
        Rule(keep_every=30): [10, 20],
        Rule(keep_last=0): [10, 20, 30],
        Rule(keep_last=9): [],
    }
    assert {rule: [step for _, step in removed(home, rule)] for rule in cases} == cases
    assert {each for each, _ in removed(home, Rule())} == {run_id(1)}


def test_a_run_without_the_metric_keeps_all_if_the_best_are_asked_for(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = add_run(torchdeck_home, 1)
    for step in (10, 20, 30):
        save(layout.checkpoints, step)
    (run,) = measured(read_rows(torchdeck_home))
    assert run.why_kept_by(Rule(keep_best=2)) == "no checkpoint has validation_loss"
    assert removed(torchdeck_home, Rule(keep_best=2)) == []
    assert len(removed(torchdeck_home, Rule())) == 2, "the newest are asked for"
    assert main(["runs", "space", "--keep-best", "2"]) == 0
    assert "no checkpoint has validation_loss" in capsys.readouterr().out
    save(layout.checkpoints, 40, metrics={"validation_loss": 1.0})
    (run,) = measured(read_rows(torchdeck_home))
    assert run.why_kept_by(Rule(keep_best=2)) == "only 1 of 4 checkpoints with validation_loss"
    assert run.why_kept_by(Rule(keep_best=1)) == ""


def test_a_folder_that_runs_share_keeps_all_while_one_of_them_is_pinned_or_not_over(home: Path) -> None:
    for held in (2, 3):
        layout = add_run(home, 3 + held)
        (home / f"link-{held}").symlink_to(Home(home).run(run_id(held)).checkpoints)
        write_json(layout.plan, {**PLAN, "checkpoint": {"directory": str(home / f"link-{held}")}})
    every = read_rows(home)
    rows = [row for row in every if row.entry.id in (run_id(5), run_id(6))]
    why = [each.why_kept for each in measured(rows, among=every)]
    assert sorted(each.rpartition(" checkpoint folder, ")[2] for each in why) == ["is not over", "is pinned"]
    assert {each for each, _ in removed(home, Rule())} == {run_id(1)}
    stale = surplus([each._replace(sharing=()) for each in measured(rows)], Rule())
    freed = free_space(stale)
    assert (freed.checkpoints, len(freed.problems)) == (0, 6)
    assert all("which has the same checkpoint folder" in each for each in freed.problems)


def test_runs_that_share_a_folder_keep_what_each_of_them_keeps(torchdeck_home: Path) -> None:
    owner, other = add_run(torchdeck_home, 1), add_run(torchdeck_home, 2)
    write_json(other.plan, {**PLAN, "checkpoint": {"directory": str(owner.checkpoints)}})
    for step, loss in LOSSES.items():
        save(owner.checkpoints, step, metrics={"validation_loss": loss, "train_loss": step})
    first, second = measured(read_rows(torchdeck_home))
    second = second._replace(retention=replace(second.retention, best_metric="train_loss"))
    gone = surplus([first, second], Rule(keep_best=1))
    assert [each.checkpoint.info.step for each in gone] == [30]
    assert free_space(gone).problems == ()


def test_what_was_previewed_is_removed(home: Path) -> None:
    found = surplus(measured(read_rows(home)), Rule(keep_best=1))
    freed = free_space(found)
    assert (freed.checkpoints, freed.size, freed.problems) == (2, sum(each.size for each in found), ())
    names = {path.name for path in Home(home).run(run_id(1)).checkpoints.glob("[!.]*") if path.is_dir()}
    assert names == {"step_00000020", "step_00000040", "final"}
    again = free_space(found)
    assert again.checkpoints == 0
    assert len(again.problems) == 2, "what is gone already is reported"


def test_a_run_that_was_pinned_or_resumed_since_the_preview_keeps_its_checkpoints(home: Path) -> None:
    found = surplus(measured(read_rows(home)), Rule())
    change_notes(home, (run_id(1),), lambda note: replace(note, pinned=True))
    freed = free_space(found)
    assert freed.checkpoints == 0
    assert all(each.endswith("is not removed: the run is pinned") for each in freed.problems)
    change_notes(home, (run_id(1),), lambda note: replace(note, pinned=False))
    live, layout = Home(home).run(run_id(3)), Home(home).run(run_id(1))
    shutil.copytree(live.nodes, layout.nodes, dirs_exist_ok=True)
    shutil.copy(live.journal, layout.journal)
    freed = free_space(found)
    assert freed.checkpoints == 0
    assert all("until it ends" in each for each in freed.problems)


def test_nothing_is_removed_while_the_notes_cannot_be_read(home: Path) -> None:
    found = surplus(measured(read_rows(home)), Rule())
    Home(home).notes.write_text('{"v": 99}')
    freed = free_space(found)
    assert freed.checkpoints == 0
    assert all("newer Torchdeck" in each for each in freed.problems)


def test_the_command_lists_previews_and_removes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "space", "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert run_id(1) in lines[0]
    assert lines[-1].endswith("3 runs")
    assert main(["runs", "space", "--keep-best", "1", "--json"]) == 0
    preview = json.loads(capsys.readouterr().out)
    assert [Path(each["path"]).name for each in preview["checkpoints"]] == ["step_00000010", "step_00000030"]
    assert main(["runs", "space", run_id(2), "--keep-best", "1"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert main(["runs", "space", "--delete"]) == 2
    assert main(["runs", "space", "--keep-best", "1", "--delete", "--json"]) == 0
    capsys.readouterr()
    assert main(["runs", "space", "--keep-best", "1"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
