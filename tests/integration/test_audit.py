"""Prediction beside measurement of real two-rank runs: stopped, by a batch plan, gone wrong.

Of one that was killed: test_resume.py.
"""

from pathlib import Path

import numpy as np
import pytest

from support.cli.command import Command, interrupt, wait_for_step, wait_until_gone
from support.training.training import Training, assert_same_state, final_state, losses, uninterrupted
from support.values.audits import assert_exactly_once, audit_of
from torchdeck.data.batch_plan import BatchPlan, build_batch_plan, save_batch_plan
from torchdeck.data.order import Ids
from torchdeck.data.sample_log import SampleLog, SampleLogWriter

PACE = 0.15
SAMPLES, GLOBAL_BATCH = 256, 8
SWAPPED = """

from torchdeck.distributed import batches

_asked = batches._AskedSamples.__getitems__


def _wrong(self, wanted):
    return _asked(self, wanted._replace(ids=[6 if sample == 5 else sample for sample in wanted.ids]))


batches._AskedSamples.__getitems__ = _wrong
"""
"""A loader with a mistake: whoever asks for sample 5 gets sample 6."""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BatchPlan]:
    """A batch plan of two epochs over the paced recipe's samples, with microbatches of uneven size."""
    lengths = np.random.default_rng(0).integers(1, 40, SAMPLES)
    plan = build_batch_plan(lengths, token_budget=120, epochs=2, buckets=4)
    folder = tmp_path_factory.mktemp("plan") / "plan"
    save_batch_plan(plan, folder)
    return folder, plan


@pytest.mark.soak  # on ranks by themselves: tests/distributed/training/test_batch_plan_training.py
def test_a_batch_plan_goes_on_after_a_stop_bit_for_bit(tmp_path: Path, plan: tuple[Path, BatchPlan]) -> None:
    """Stopped by Ctrl-C and resumed: each sample once, losses and final weights of a run left alone."""
    folder, built = plan
    command = Command(tmp_path / "home")
    steps = -(-built.microbatches(0) // 2) + 6
    training = Training(tmp_path / "work", steps=steps, batch_plan=folder)
    with command.start("--no-gui", "--trust", training.write(PACE)) as front:
        run = command.the_run()
        wait_for_step(run, 8)
        interrupt(front)
        output, _ = front.communicate(timeout=60)
        assert front.returncode == 130, output
    stopped_at = max(losses(run))
    assert 8 <= stopped_at < steps
    wait_until_gone(run)
    so_far = audit_of(command, run)
    assert so_far["samples"]["equal"] is True
    assert so_far["steps"] == stopped_at
    resumed = command.run("runs", "resume", run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    unbroken = uninterrupted(Command(tmp_path / "home2"), training)
    assert losses(run) == losses(unbroken)
    assert_same_state(final_state(run, tmp_path), final_state(unbroken, tmp_path))
    rest = sum(built.microbatch(1, index).batch_size for index in range(12))
    audit = audit_of(command, run)
    assert_exactly_once(audit, steps=steps, samples=SAMPLES + rest, epochs=1)
    assert audit["predicted_steps"] == steps  # known without the model, as the plan is of the data
    assert [rank["samples"] for rank in audit["ranks"]] == [
        rank["samples"] for rank in audit_of(Command(tmp_path / "home2"), unbroken)["ranks"]
    ]


def test_other_samples_than_planned_are_said_loudly(tmp_path: Path, plan: tuple[Path, BatchPlan]) -> None:
    """Where the loader gives a wrong sample, the end of a run by a batch plan and `runs show` name it."""
    command = Command(tmp_path / "home")
    training = Training(tmp_path / "work", steps=-(-plan[1].microbatches(0) // 2), batch_plan=plan[0])
    file = training.write(0.0)
    recipe = file.parent / "paced_recipe.py"
    recipe.write_text(recipe.read_text() + SWAPPED)
    done = command.run("--no-gui", "--trust", file)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = command.runs()
    shown = command.run("runs", "show", run.root.name).stdout
    for text in (done.stdout, shown):
        assert "DEFECT: the used samples differ from the planned ones" in text
        assert "where sample 5 was planned" in text
        assert "DEFECT: sample 6 was used 2 times in epoch 0" in text
    check = audit_of(command, run)["samples"]
    assert check["equal"] is False
    assert any("used sample 6 in step" in defect for defect in check["defects"])


@pytest.mark.soak
def test_a_record_that_was_tampered_with_is_said_loudly(tmp_path: Path) -> None:
    """One id changed in a record that is sound in itself; the file's bytes changed without it are damage."""
    command = Command(tmp_path / "home")
    run = uninterrupted(command, Training(tmp_path / "work", steps=6))
    assert_exactly_once(audit_of(command, run), steps=6, samples=6 * GLOBAL_BATCH, epochs=0)
    path = run.attempt(1).rank(1).samples
    log = SampleLog(path)
    records = list(log.records())
    writer = SampleLogWriter(path, log.header)
    for record in records:
        ids: Ids = record.ids.astype(np.int64)
        if record.step == 4:
            ids[2] = (ids[2] + 1) % SAMPLES
        writer.write(record.step, record.epoch, record.tokens, [ids])
    writer.close()
    shown = command.run("runs", "show", run.root.name).stdout
    assert "DEFECT: rank 1 used sample" in shown
    assert "in step 4 where sample" in shown
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    check = audit_of(command, run)["samples"]
    assert any("is damaged at byte" in sentence for sentence in check["unknown"])
    assert check["equal"] is False
