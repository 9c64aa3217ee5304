"""Prediction beside measurement, on runs made by hand: what is equal is called so, what is not is loud."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.values.audited_run import PER_EPOCH, SIZE, AuditedRun, Change, steps_of
from torchdeck.contract.metrics.progress import ProgressFile
from torchdeck.contract.plan.launch_plan import SmallerSize
from torchdeck.contract.plan.prediction import PredictedData, PredictedMemory, Prediction, RankCounts
from torchdeck.data.batch_plan import build_batch_plan, save_batch_plan
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.runs.audit.audit import audit_run
from torchdeck.runs.audit.result import Audit, table_lines, verdict_lines
from torchdeck.runs.audit.samples import Limits

LEAST_MEMORY = PredictedMemory(
    ranks=((0, 1),),
    peak_bytes=0,
    low_bytes=0,
    high_bytes=0,
    phase="backward",
    terms={},
    state={},
    capacity_bytes=None,
    free_bytes=None,
    verdict="fits",
)


def audit_of(run: AuditedRun, **limits: int) -> Audit:
    audit = audit_run(run.layout, run.view(), Limits(**limits) if limits else None)
    assert audit is not None
    return audit


def at(number: int, change: Change) -> Change:
    """`change` in step `number` alone."""
    return lambda step, parts: change(step, parts) if step == number else parts


def data(**changes: Any) -> PredictedData:
    counts = (RankCounts(0, 1, 20, 20.0),)
    given: dict[str, Any] = {"source": "seeded order", "fingerprint": "", "size": SIZE}
    return PredictedData(**{**given, "steps_per_epoch": PER_EPOCH, "steps": 8, "ranks": counts, **changes})


def test_a_run_as_planned(tmp_path: Path) -> None:
    """Two epochs by two ranks: equal, each sample once in each, counts, tokens and steps as predicted."""
    run = AuditedRun(tmp_path, Prediction("traced", data=data()))
    run.attempt(1, 1, 8)
    audit = audit_of(run)
    assert audit.samples.defects == audit.samples.unknown == ()
    assert audit.samples.equal
    assert (audit.samples.first_step, audit.samples.last_step, audit.samples.epochs) == (1, 8, 2)
    assert (audit.predicted_steps, audit.steps, audit.samples.samples) == (8, 8, 2 * SIZE)
    assert [(rank.predicted_samples, rank.samples) for rank in audit.ranks] == [(20, 20), (20, 20)]
    assert [(rank.predicted_tokens, rank.tokens) for rank in audit.ranks] == [(20.0, 20.0)] * 2
    wanted = "samples: 40 as planned in steps 1 to 8; 2 whole epochs, each sample once in each"
    assert verdict_lines(audit) == [wanted]


def test_a_training_that_ended_early_is_whole(tmp_path: Path) -> None:
    """Where rank 0 says training was complete after step 5 no more is missed; but the steps before are."""
    run = AuditedRun(tmp_path, Prediction("traced", data=data()))
    run.attempt(1, 1, 5)
    progress = ProgressFile(run.layout.attempt(1).rank(0).progress)
    progress.report("done", 5, total=8)
    audit = audit_of(run)
    assert (audit.predicted_steps, audit.steps) == (8, 5)
    assert audit.samples.equal
    assert "training was complete at step 5, before the last that was planned" in audit.notes
    assert verdict_lines(audit) == ["samples: 26 as planned in steps 1 to 5; 1 whole epoch, each sample once"]
    progress.report("done", 7, total=8)
    (unknown,) = audit_of(run).samples.unknown
    assert unknown == "2 ranks left no record of steps 6 to 7 in attempt 1, which are needed"


def test_only_the_history_of_the_weights_counts(tmp_path: Path) -> None:
    """Steps after the checkpoint that was restored are discarded, torn records too; the epochs are whole."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 6)
    run.attempt(2, 3, 7, changes={1: at(6, lambda *_: [[0]])})
    run.attempt(3, 6, 8)
    torn = run.layout.attempt(2).rank(0).samples
    torn.write_bytes(torn.read_bytes()[:-5])
    audit = audit_of(run)
    assert audit.samples.equal
    assert (audit.samples.epochs, audit.samples.samples, audit.samples.discarded_steps) == (2, 40, 4 + 1)
    assert "; 5 steps were done again" in verdict_lines(audit)[0]


def test_another_sample_is_a_defect(tmp_path: Path) -> None:
    """One id that was not planned is named with rank and step, and what it does to the epoch."""
    first = next(steps_of().steps(steps_of().start)).parts(1)[0].tolist()
    other = (first[1] + 1) % SIZE
    while other in first:
        other = (other + 1) % SIZE
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 4, changes={1: at(1, lambda _, parts: [[parts[0][0], other, parts[0][2]]])})
    audit = audit_of(run)
    assert not audit.samples.equal
    assert audit.samples.defects == (
        f"rank 1 used sample {other} in step 1 where sample {first[1]} was planned",
        f"sample {other} was used 2 times in epoch 0",
    )
    lines = verdict_lines(audit)
    assert "DEFECT: the used samples differ from the planned ones" in lines
    assert sum(line.startswith("DEFECT") for line in lines) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _, parts: [parts[0][:-1]], "rank 0 used 2 samples in step 2 where 3 were planned"),
        (lambda _, parts: [parts[0][:1], parts[0][1:]], "microbatches of [1, 2] in step 2, not of [3]"),
        (lambda _, parts: [parts[0][::-1]], "was planned"),
        (lambda *_: None, "rank 0 recorded step 3 of epoch 0 where step 2 of epoch 0 was planned"),
    ],
)
def test_each_kind_of_difference(change: Change, sentence: str, tmp_path: Path) -> None:
    """Fewer samples, other microbatches, another order, a step left out."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 5, changes={0: at(2, change)})
    audit = audit_of(run)
    assert any(sentence in defect for defect in audit.samples.defects), audit.samples.defects


def test_a_run_gone_wholly_wrong_is_said_in_few_lines(tmp_path: Path) -> None:
    """A defect in every step of every rank: the first ones in full, and how many more."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 8, changes=dict.fromkeys((0, 1), lambda _, parts: [parts[0][::-1]]))
    defects = audit_of(run).samples.defects
    assert len(defects) == 9
    assert defects[-1].startswith("and ")


def test_a_restart_from_elsewhere_is_a_defect(tmp_path: Path) -> None:
    """An attempt that continues from a step, and from another place in the data than that step's end."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 5)
    run.attempt(2, 4, 8, order=steps_of(world=1), world=1)
    (defect, *_) = audit_of(run).samples.defects
    said = "attempt 2 continued from epoch 0, consumed 9, step 3, and what counts before it ends at epoch 0, "
    assert defect == said + "consumed 18, step 3"


def test_what_is_not_recorded_is_not_called_equal(tmp_path: Path) -> None:
    """A rank without a file, a damaged one, one that ends early: said, and no epoch is called whole."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 8)
    log = run.layout.attempt(1).rank(1).samples
    content = log.read_bytes()
    log.write_bytes(content[:-5])
    audit = audit_of(run)
    assert audit.samples.unknown == ("rank 1 left no record of steps 8 to 8 in attempt 1, which are needed",)
    assert audit.samples.last_step == 7
    log.write_bytes(content[:-1] + b"?")
    assert "is damaged at byte" in audit_of(run).samples.unknown[0]
    log.unlink()
    audit = audit_of(run)
    assert "rank 1 of attempt 1 left no record of its samples" in audit.samples.unknown[0]
    assert audit.samples.epochs == 0
    assert not audit.samples.equal
    assert audit.samples.defects == ()


def test_a_killed_runs_last_step_may_be_half_recorded(tmp_path: Path) -> None:
    """A run that failed is compared as far as all ranks came."""
    run = AuditedRun(tmp_path, state="FAILED")
    run.attempt(1, 1, 5, changes={1: at(5, lambda *_: None)})
    audit = audit_of(run)
    assert audit.samples.equal
    assert audit.samples.last_step == 4


def test_records_that_end_before_training_are_no_defect(tmp_path: Path) -> None:
    """A disk that was full, on all ranks: what is missing is said, and is not taken for steps not made."""
    run = AuditedRun(tmp_path, Prediction("traced", data=data()))
    run.attempt(1, 1, 5)
    audit = audit_of(run)
    assert audit.samples.unknown == ("2 ranks left no record of steps 6 to 8 in attempt 1, which are needed",)
    assert audit.samples.defects == ()
    assert [(rank.predicted_samples, rank.samples) for rank in audit.ranks] == [(20, 13), (20, 13)]
    run.measure(0, {"step_time": 1.0})
    assert audit_of(run).steps == 8


def test_a_rank_that_stopped_recording_is_said_of_a_failed_run_too(tmp_path: Path) -> None:
    """One rank's records end some steps before the others', or all end before what was measured."""
    run = AuditedRun(tmp_path / "1", state="FAILED")
    run.attempt(1, 1, 7, changes={1: lambda step, parts: parts if step < 4 else None})
    audit = audit_of(run)
    assert audit.samples.unknown == ("rank 1 left no record of steps 4 on in attempt 1, which are needed",)
    run = AuditedRun(tmp_path / "2", state="CANCELLED")
    run.attempt(1, 1, 3)
    assert audit_of(run).samples.equal
    run.measure(0, {"step_time": 1.0})
    audit = audit_of(run)
    assert audit.samples.unknown == ("steps 4 to 8 were made, and no rank left a record of them",)
    assert audit.steps == 8


def test_steps_after_the_end_are_a_defect(tmp_path: Path) -> None:
    """Eight steps were asked for, and nine were made."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 9)
    assert audit_of(run).samples.defects == ("ranks recorded steps after the last one that was planned, 8",)


def test_lives_of_other_sizes_are_not_held_to_one_prediction(tmp_path: Path) -> None:
    """A run that continued with fewer ranks is as its attempts' plans say, whatever one rank was to use."""
    run = AuditedRun(tmp_path, Prediction("traced", data=data(steps=11)), steps=11)
    run.attempt(1, 1, PER_EPOCH)
    run.attempt(2, PER_EPOCH + 1, 11, world=1, before=steps_of())
    audit = audit_of(run)
    assert audit.samples.equal
    assert (audit.samples.epochs, audit.steps) == (2, 11)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": 21}, "the plan was made for 21 samples, and the data set had 20"),
        ({"steps": 9}, "8 steps were made, and 9 were predicted"),
        ({"fingerprint": "abc"}, "another batch plan"),
        ({"ranks": (RankCounts(0, 1, 21, None),)}, "rank 0 used 20 samples, and 21 were predicted"),
    ],
)
def test_what_plan_json_says_is_compared_too(changes: Any, sentence: str, tmp_path: Path) -> None:
    """A finished run is held to the prediction that was shown, not only to the order that is computed now."""
    run = AuditedRun(tmp_path, Prediction("traced", data=data(**changes)))
    run.attempt(1, 1, 8)
    assert any(sentence in defect for defect in audit_of(run).samples.defects)


def test_a_run_that_went_on_from_elsewhere(tmp_path: Path) -> None:
    """Its first steps were another run's: the rest is compared, an epoch it did not begin is not judged."""
    # as if its first steps had been shorter ones: the prediction is of a run from the start
    run = AuditedRun(tmp_path, Prediction("traced", data=data(steps=7)))
    run.attempt(1, 3, 8)
    audit = audit_of(run)
    assert audit.samples.equal
    assert (audit.samples.first_step, audit.samples.epochs) == (3, 1)
    assert (audit.predicted_steps, audit.steps) == (8, 8)
    assert any("steps 1 to 2 were made before this run, and are not compared" in note for note in audit.notes)
    later = AuditedRun(tmp_path / "later")
    later.attempt(2, 3, 8)
    assert "steps 1 to 2 were made by an attempt that left no record" in audit_of(later).notes[-1]


def test_a_large_run_is_compared_in_part(tmp_path: Path) -> None:
    """Where the limits end, it is said how far it was compared; a data set beyond them is not looked at."""
    run = AuditedRun(tmp_path)
    run.attempt(1, 1, 8)
    run.measure(0, {"step_time": 1.0})
    audit = audit_of(run, records=1)
    assert "too many samples to compare" in audit.samples.unknown[0]
    audit = audit_of(run, records=9)
    (sentence,) = audit.samples.unknown
    assert sentence.startswith("only steps 1 to 4 of 8 were compared; torchdeck runs show --audit-all")
    assert (audit.steps, audit.samples.last_step, audit.samples.epochs) == (8, 4, 1)
    assert audit_run(run.layout, run.view(), Limits.none()) == audit_of(run)
    audit = audit_of(run, samples=SIZE - 1)
    assert not audit.samples.equal
    assert audit.samples.defects == ()


def test_memory_beside_its_range(tmp_path: Path) -> None:
    """Peaks without context: what the resident set grew by on the CPU, what torch allocated on a GPU."""
    memory = PredictedMemory(
        ranks=((0, 1),),
        peak_bytes=103 << 20,
        low_bytes=102 << 20,
        high_bytes=104 << 20,
        phase="backward",
        terms={"context": 100 << 20, "parameters": 3 << 20},
        state={},
        capacity_bytes=None,
        free_bytes=None,
        verdict="fits",
    )
    values = {"step_time": 1.0, "memory_peak_bytes": 9 << 20, "memory_growth_peak_bytes": 5 << 20}
    for device, kind, measured in (
        ("cpu", "growth of the process", "5.0 MiB"),
        ("cuda:0", "allocated by torch", "9.0 MiB"),
    ):
        run = AuditedRun(tmp_path / device, Prediction("traced", (memory,)), device=device)
        run.attempt(1, 1, 8)
        run.measure(1, values)
        audit = audit_of(run)
        assert audit.ranks[0].memory_bytes is None
        _, head, _, row, *_ = table_lines(audit)
        assert f"memory: tensors | {kind}   " in head
        assert f"3.0 MiB (2.0 MiB to 4.0 MiB) | {measured}   " in row
        assert any("the process grew by" in note for note in audit.notes) == (device == "cpu")


def test_memory_is_set_beside_the_prediction_of_the_size_it_was_measured_at(tmp_path: Path) -> None:
    """A rank that continued in a smaller gang holds more; one that was given up is held to what it had."""

    def predicted(mebibytes: int) -> Prediction:
        return Prediction("traced", (dataclasses.replace(LEAST_MEMORY, peak_bytes=mebibytes << 20),))

    run = AuditedRun(tmp_path, predicted(3))
    run.attempt(1, 1, 8)
    smaller = SmallerSize(1, 1, None, 1, {}, prediction=predicted(6))
    plan = dataclasses.replace(run.plan(), smaller=(smaller,))
    run.layout.plan.write_text(json.dumps(plan.document()))
    run.attempt(2, 5, 8, world=1, before=steps_of())
    of_attempt = dataclasses.replace(run.plan(), prediction=smaller.prediction)
    run.layout.attempt(2).plan.write_text(json.dumps(of_attempt.document()))
    values = {"memory_growth_peak_bytes": 5 << 20}
    run.measure(0, values)
    run.measure(1, values)
    run.measure(0, values, attempt=2)
    assert [rank.predicted_memory_bytes for rank in audit_of(run).ranks] == [6 << 20, 3 << 20]


def test_tokens_are_shown_where_there_are_any(tmp_path: Path) -> None:
    """A loss that is the mean over samples says nothing of tokens."""
    run = AuditedRun(tmp_path / "1")
    run.attempt(1, 1, 8)
    assert "tokens" not in table_lines(audit_of(run))[1]
    predicted = AuditedRun(tmp_path / "2", Prediction("traced", data=data()))
    predicted.attempt(1, 1, 8)
    _, head, row, *_ = table_lines(audit_of(predicted))
    assert head.endswith("tokens")
    assert row.endswith("20 | 20   20 | 20")


def test_nothing_to_audit(tmp_path: Path) -> None:
    """A script's run, one that continues, and one that never trained."""
    script = AuditedRun(tmp_path / "1", kind="script")
    script.attempt(1, 1, 8)
    running = AuditedRun(tmp_path / "2", state="RUNNING")
    running.attempt(1, 1, 8)
    for run in (script, running, AuditedRun(tmp_path / "3")):
        assert audit_run(run.layout, run.view()) is None


def test_a_run_without_records_says_so(tmp_path: Path) -> None:
    """A run of an older Torchdeck has metrics alone."""
    run = AuditedRun(tmp_path)
    run.measure(0, {"step_time": 1.0})
    audit = audit_of(run)
    assert audit.steps == 8
    assert table_lines(audit) == ["predicted | measured", "steps  - | 8"]
    assert verdict_lines(audit) == ["samples: the ranks did not record their samples"]


def test_a_run_by_a_batch_plan(tmp_path: Path) -> None:
    """Compared with the plan's own steps; where the plan has changed, nothing is claimed."""
    folder = tmp_path / "plan"
    lengths = np.arange(1, SIZE + 1)
    plan = build_batch_plan(lengths, token_budget=40, epochs=2)
    save_batch_plan(plan, folder)
    order = PlannedSteps(plan, world_size=2, accumulation=1)
    run = AuditedRun(tmp_path / "home", batch_plan=str(folder), steps=None)
    run.attempt(1, 1, 1000, order=order)
    audit = audit_of(run)
    assert audit.samples.equal
    assert audit.samples.epochs == 2
    assert audit.samples.last_step == order.total_steps(None, 2.0, order.start)
    save_batch_plan(build_batch_plan(lengths, token_budget=40, epochs=2, seed=1), folder, overwrite=True)
    (sentence,) = audit_of(run).samples.unknown
    assert "has changed" in sentence
