"""Audit of one run: the plan's prediction, and what ranks recorded and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.prediction import PredictedData, PredictedMemory, Prediction
from torchdeck.metrics import RunMetrics
from torchdeck.runs.audit.planned_steps import RecordedAttempt, ended_early, read_plan, recorded_attempts
from torchdeck.runs.audit.result import Audit, RankAudit, SamplesCheck
from torchdeck.runs.audit.samples import Limits, SampleAudit, Totals
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView

ALLOCATED, RESIDENT = "memory_peak_bytes", "memory_growth_peak_bytes"
"""The trainer's name of the peak on a GPU, and on the CPU."""

CONTEXT = "context"
"""The prediction's name of interpreter, libraries and driver."""


def audit_run(layout: RunLayout, view: RunView, limits: Limits | None = None) -> Audit | None:
    """Compare a finished recipe run with its prediction.

    Args:
        layout: layout of the run.
        view: current view of the run.
        limits: how much of a large run is compared.

    Returns:
        None if there is nothing to audit: a script's run, one that is still active, one that never trained.
    """
    plan = read_plan(layout.plan)
    if plan is None or plan.kind != "recipe" or not view.is_over:
        return None
    try:
        return _audit(layout, view, plan, limits or Limits())
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        # no record of a node may prevent the run from being shown
        samples = SamplesCheck(unknown=(f"what the ranks recorded cannot be read: {error}",))
        return Audit(_steps(plan.prediction or Prediction(source="")), None, (), samples)


def _audit(layout: RunLayout, view: RunView, plan: LaunchPlan, limits: Limits) -> Audit | None:
    attempts = recorded_attempts(layout)
    metrics = RunMetrics(layout.root)
    metrics.refresh()
    steps = metrics.latest("step_time", 0)
    if not attempts and steps is None:
        return None
    prediction = plan.prediction or Prediction(source="")
    if not attempts:
        samples = SamplesCheck(unknown=("the ranks did not record their samples",))
        done = None if steps is None else steps.step
        ranks = _ranks(plan, _Predictions(layout, plan), metrics, Totals(), complete=None)
        return Audit(_steps(prediction), done, ranks, samples, _notes(prediction, ranks))
    return _audited(layout, view, plan, attempts, metrics, limits)


def _audited(
    layout: RunLayout,
    view: RunView,
    plan: LaunchPlan,
    attempts: list[RecordedAttempt],
    metrics: RunMetrics,
    limits: Limits,
) -> Audit:
    prediction = plan.prediction or Prediction(source="")
    finished = view.state is RunState.SUCCEEDED
    early = ended_early(layout, attempts) if finished else None
    audit = SampleAudit(layout, attempts, finished=finished, ended_early=early, limits=limits)
    samples = audit.check()
    recorded = samples.last_step or attempts[-1].start
    done = max(recorded, _measured_steps(metrics, attempts[-1]))
    unknown = (*samples.unknown, *_not_compared(audit, samples, recorded, done, finished=finished))
    # the prediction covers one session from start to end
    begun = prediction.data if attempts[0].start == 0 else None
    one_size = all(_world(a) == plan.world_size for a in attempts)
    data = begun if finished and one_size and early is None else None
    ranks = _ranks(plan, _Predictions(layout, plan), metrics, audit.totals, complete=data)
    differences = [] if data is None else _other_data(data, attempts[0])
    if data is not None and not unknown:
        differences += _other_counts(data, done, ranks)
    checked = replace(samples, defects=(*samples.defects, *differences), unknown=unknown)
    ended = (
        () if early is None else (f"training was complete at step {early}, before the last that was planned",)
    )
    notes = (*ended, *_notes(prediction, ranks), *_earlier(attempts[0]))
    # steps of another global batch are counted from their first one
    end = begun.steps if begun is not None and one_size else audit.end
    return Audit(end, done, ranks, checked, notes)


class _Predictions:
    """Predictions for the size of each attempt."""

    def __init__(self, layout: RunLayout, plan: LaunchPlan) -> None:
        self._layout = layout
        self._plan = plan
        self._of: dict[int, Prediction] = {}

    def of(self, attempt: int | None) -> Prediction:
        """Return the prediction for `attempt`, or for the whole run if `attempt` is unknown or had all
        ranks.
        """
        nothing = Prediction(source="")
        whole = self._plan.prediction or nothing
        if attempt is None or not (self._plan.smaller or self._plan.spares):
            return whole
        if attempt not in self._of:
            plan = read_plan(self._layout.attempt(attempt).plan)
            self._of[attempt] = whole if plan is None else plan.prediction or nothing
        return self._of[attempt]


def _world(attempt: RecordedAttempt) -> int:
    return attempt.header.world_size


def _measured_steps(metrics: RunMetrics, newest: RecordedAttempt) -> int:
    """Return the last step that rank 0 measured in the newest attempt that recorded samples or a later one;
    or 0.
    """
    latest = metrics.latest("step_time", 0)
    return 0 if latest is None or latest.attempt < newest.number else latest.step


def _ranks(
    plan: LaunchPlan,
    predictions: _Predictions,
    metrics: RunMetrics,
    totals: Totals,
    *,
    complete: PredictedData | None,
) -> tuple[RankAudit, ...]:
    counts = {} if complete is None else _counts(complete)
    tokens = {} if complete is None else _tokens(complete)
    found = []
    for placement in plan.ranks:
        rank = placement.rank
        kind, name = ("resident", RESIDENT) if placement.device == "cpu" else ("allocated", ALLOCATED)
        measured = metrics.latest(name, rank)
        predicted = predictions.of(None if measured is None else measured.attempt)
        memory = _without_context(predicted.memory_of(rank))
        found.append(
            RankAudit(
                rank=rank,
                predicted_memory_bytes=memory and memory[0],
                predicted_low_bytes=memory and memory[1],
                predicted_high_bytes=memory and memory[2],
                memory_bytes=None if measured is None else int(measured.value),
                memory_kind="" if measured is None else kind,
                predicted_samples=counts.get(rank, totals.planned_samples.get(rank)),
                samples=totals.samples.get(rank),
                predicted_tokens=tokens.get(rank),
                tokens=totals.tokens.get(rank),
            )
        )
    return tuple(found)


def _without_context(memory: PredictedMemory | None) -> tuple[int, int, int] | None:
    """Return peak, low and high without interpreter, libraries and driver: neither measurement includes
    these.
    """
    if memory is None:
        return None
    context = memory.terms.get(CONTEXT, 0)
    return memory.peak_bytes - context, memory.low_bytes - context, memory.high_bytes - context


def _counts(data: PredictedData) -> Mapping[int, int]:
    return {rank: part.samples for part in data.ranks for rank in range(part.first, part.last + 1)}


def _tokens(data: PredictedData) -> Mapping[int, float | None]:
    return {rank: part.tokens for part in data.ranks for rank in range(part.first, part.last + 1)}


def _other_data(data: PredictedData, attempt: RecordedAttempt) -> list[str]:
    """Return a sentence for each way in which the ranks' data differs from that of plan.json."""
    found = []
    if data.size != attempt.header.size:
        found.append(f"the plan was made for {data.size} samples, and the data set had {attempt.header.size}")
    if data.fingerprint != attempt.header.batch_plan:
        found.append("the plan was made for another batch plan than the ranks used")
    return found


def _other_counts(data: PredictedData, steps: int, ranks: tuple[RankAudit, ...]) -> list[str]:
    """Return a sentence for each way in which a finished, fully compared run differs from plan.json."""
    found = [] if steps == data.steps else [f"{steps} steps were made, and {data.steps} were predicted"]
    return found + [
        f"rank {rank.rank} used {rank.samples} samples, and {rank.predicted_samples} were predicted"
        for rank in ranks
        if rank.samples != rank.predicted_samples
    ]


def _not_compared(
    audit: SampleAudit, samples: SamplesCheck, recorded: int, done: int, *, finished: bool
) -> list[str]:
    """Return a sentence on steps that were not compared; empty if all were, or if the reason is already
    given.
    """
    if audit.partly and samples.last_step is None:
        return [
            "there are too many samples to compare by default; torchdeck runs show --audit-all compares them"
        ]
    if audit.partly and recorded < done:
        compared = f"{samples.first_step} to {samples.last_step} of {done}"
        return [f"only steps {compared} were compared; torchdeck runs show --audit-all compares all"]
    # a killed rank may not have recorded the step that another one could still measure
    if not samples.unknown and recorded + (not finished) < done:
        return [f"steps {recorded + 1} to {done} were made, and no rank left a record of them"]
    return []


def _earlier(attempt: RecordedAttempt) -> list[str]:
    if attempt.start == 0:
        return []
    where = "by an attempt that left no record" if attempt.number > 1 else "before this run"
    return [f"steps 1 to {attempt.start} were made {where}, and are not compared"]


def _notes(prediction: Prediction, ranks: tuple[RankAudit, ...]) -> tuple[str, ...]:
    resident = any(rank.memory_kind == "resident" for rank in ranks)
    kept = (
        "on CPU ranks the measured memory is what the process grew by since before the model was built, "
        "with all that libraries and allocators keep: far more than the tensors of a small model"
    )
    return (*prediction.notes, kept) if resident else prediction.notes


def _steps(prediction: Prediction) -> int | None:
    return None if prediction.data is None else prediction.data.steps
