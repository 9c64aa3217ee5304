"""Progress of scripts, whatever they call their metrics, and which layer reports what."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from support.values.histories import ALIVE, DEAD, controller_journal, ended, finished, fold, running_run
from support.values.made_runs import make_run
from support.values.metrics import opened, write_rows
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import Origin, ScriptState, write_script_state
from torchdeck.contract.run_states import RankPhase
from torchdeck.runs.follower import idle_note
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress, origins_sentence
from torchdeck.runs.view import RunView

STATE = Origin("file", "trainer_state.json")


def view_of(*, over: bool = False) -> RunView:
    """A script's run of two ranks."""
    events = [*running_run(), *([ended(1), finished()] if over else [])]
    found = fold("r", controller_journal(), {"localhost": events}, {}, DEAD if over else ALIVE, 110.0)
    return dataclasses.replace(found, kind="script", world_size=2)


def write_state(run: Path, state: ScriptState, rank: int = 0) -> None:
    path = RunLayout(run).attempt(1).rank(rank).script
    path.parent.mkdir(parents=True, exist_ok=True)
    write_script_state(path, state)


def read(run: Path, *, over: bool = False) -> TrainingProgress:
    progress = ProgressReader(RunLayout(run)).read(view_of(over=over))
    assert progress is not None
    return progress


def test_metrics_are_known_by_their_roles(tmp_path: Path) -> None:
    """TRL's, torchtitan's; the curve in the list of runs, too."""
    write_rows(tmp_path, [(4, {"loss_metrics/global_avg_loss": 2.5, "throughput(tps)": 900.0})])
    write_rows(tmp_path, [(3, {"eval_loss": 2.25, "train_samples_per_second": 7.0})])
    progress = read(tmp_path)
    assert (progress.loss, progress.validation_loss) == (2.5, 2.25)
    assert (progress.tokens_per_s, progress.samples_per_s) == (900.0, 7.0)


def test_the_run_file_names_the_metrics(tmp_path: Path) -> None:
    """Also one that looks like another."""
    RunLayout(tmp_path).plan.write_text(json.dumps({"metric_names": {"loss": "critic/score"}}))
    write_rows(tmp_path, [(4, {"loss": 1.0, "critic/score": 0.5})])
    assert read(tmp_path).loss == 0.5


@pytest.mark.parametrize("over", [False, True])
def test_step_total_and_epoch_are_the_script_states(tmp_path: Path, over: bool) -> None:
    """Not the number of a row; the time left by its rate, while it runs."""
    write_rows(tmp_path, [(4000, {"train_loss": 1.0})])
    write_state(tmp_path, ScriptState(20, 60, 0.75, RankPhase.TRAINING, rate=2.0))
    progress = read(tmp_path, over=over)
    assert (progress.step, progress.total, progress.epoch) == (20, 60, 0.75)
    assert progress.eta == (None if over else 20.0)
    assert "step 20/60  epoch 0.75" in progress.text()


def test_the_last_rank_may_be_the_one_that_reports(tmp_path: Path) -> None:
    """As Megatron's does."""
    write_state(tmp_path, ScriptState(total=60))
    write_state(tmp_path, ScriptState(12, 60), rank=1)
    assert read(tmp_path).step == 12


def test_origins_are_a_sentence() -> None:
    """Facts of one origin together."""
    state = ScriptState(
        1, 2, origins={"step": STATE, "loss": STATE, "total": Origin("arguments", "--max_steps")}
    )
    assert origins_sentence(state) == "step and loss from trainer_state.json, total from --max_steps"
    everything = ScriptState(1, 2, origins=dict.fromkeys(("step", "loss", "total", "epoch"), STATE))
    assert origins_sentence(everything) == "step, total and loss from trainer_state.json"
    assert origins_sentence(ScriptState()) == ""


def test_a_file_that_lags_is_passed_by_what_is_printed(tmp_path: Path) -> None:
    """A state file at saves: until the next, what is printed counts; then its exact values."""
    write_rows(tmp_path, [(step, {"loss": step + 0.125}) for step in range(1, 11)], source="file")
    write_rows(tmp_path, [(step, {"loss": step + 0.1}) for step in range(1, 13)], source="stdout")
    assert opened(tmp_path).series("loss", 0).values[-1] == 10.125
    write_rows(tmp_path, [(step, {"loss": step + 0.1}) for step in range(13, 19)], source="stdout")
    assert opened(tmp_path).series("loss", 0).values.tolist()[-1] == 18.1
    write_rows(tmp_path, [(step, {"loss": step + 0.125}) for step in range(11, 19)], source="file")
    assert opened(tmp_path).series("loss", 0).values.tolist() == [step + 0.125 for step in range(1, 19)]


def test_a_run_that_did_nothing_is_noted(tmp_path: Path) -> None:
    """No step, no metric, hardly any output; any of these, and nothing is noted."""
    layout = RunLayout(tmp_path)
    over = view_of(over=True)
    for rank in (0, 1):
        layout.attempt(1).rank(rank).root.mkdir(parents=True)
        layout.attempt(1).rank(rank).stdout.write_text("ok\n")
    note = idle_note(layout, over)
    assert "no step, no metric and 6 B of output" in note
    assert idle_note(layout, view_of()) == ""
    assert idle_note(layout, dataclasses.replace(over, kind="recipe")) == ""
    write_state(tmp_path, ScriptState(1))
    assert idle_note(layout, over) == ""
    layout.attempt(1).rank(0).script.unlink()
    layout.attempt(1).rank(1).stderr.write_text("x" * 300)
    assert idle_note(layout, over) == ""


def test_the_list_of_runs_has_total_and_time_left(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a script that is over: its last step and total."""
    events = [*running_run(), ended(1), finished()]
    first, *others = controller_journal()
    scripts = dataclasses.replace(first, fields={**first.fields, "kind": "script"})
    layout = make_run(torchdeck_home, [scripts, *others], events)
    write_state(layout.root, ScriptState(20, 60, rate=2.0))
    assert main(["runs", "list"]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[-3:] == ["STEP", "LOSS", "LEFT"]
    assert row.split()[-3:] == ["20/60", "-", "-"]
    assert main(["runs", "list", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["step"], found["total"]) == (20, 60)


def test_a_loss_that_is_of_another_step_says_so(tmp_path: Path) -> None:
    """While rows are still read or copied; not where a program logs every tenth step only."""
    state = ScriptState(125, 300, origins={"step": STATE, "loss": STATE})
    write_state(tmp_path, state)
    write_rows(tmp_path, [(step, {"loss": 2.0}) for step in range(10, 130, 10)])
    assert read(tmp_path).loss_step is None
    write_state(tmp_path, dataclasses.replace(state, step=250))
    progress = read(tmp_path)
    assert progress.loss_step == 120
    assert progress.text().startswith("step 250/300  loss 2.0000 of step 120")
    write_state(tmp_path, dataclasses.replace(state, step=250, origins={"step": STATE}))
    assert read(tmp_path).loss_step is None, "rows may be numbered by something else"


def test_after_a_resume_what_was_lost_is_not_shown(tmp_path: Path) -> None:
    """The step is that of the checkpoint, whatever the attempt before reached, until the ranks report one."""
    write_state(tmp_path, ScriptState(90, 300, rate=2.0))
    write_rows(tmp_path, [(step, {"loss": 2.0}) for step in range(10, 100, 10)])
    ended_early = dataclasses.replace(view_of().attempts[0], outcome="stopped")
    second = dataclasses.replace(ended_early, number=2, resume="/out/ckpt.pt", resume_step=50, outcome=None)
    view = dataclasses.replace(view_of(), attempt=2, attempts=(ended_early, second))
    progress = ProgressReader(RunLayout(tmp_path)).read(view)
    assert progress is not None
    assert (progress.step, progress.loss, progress.steps_per_s) == (50, None, None)
    path = RunLayout(tmp_path).attempt(2).rank(0).script
    path.parent.mkdir(parents=True)
    write_script_state(path, ScriptState(None, 300))
    progress = ProgressReader(RunLayout(tmp_path)).read(view)
    assert progress is not None
    assert (progress.step, progress.total, progress.loss) == (50, 300, None)
    write_script_state(path, ScriptState(60, 300))
    write_rows(tmp_path, [(60, {"loss": 1.5})], attempt=2)
    progress = ProgressReader(RunLayout(tmp_path)).read(view)
    assert progress is not None
    assert (progress.step, progress.total, progress.loss) == (60, 300, 1.5)


def test_a_row_that_is_newer_than_the_agents_report_gives_the_step(tmp_path: Path) -> None:
    """A fast program: the agent writes its report once a second."""
    write_state(tmp_path, ScriptState(628, 20_000, origins={"step": STATE, "loss": STATE}))
    write_rows(tmp_path, [(step, {"loss": 0.5}) for step in range(1, 808)])
    progress = read(tmp_path)
    assert (progress.step, progress.loss_step) == (807, None)
