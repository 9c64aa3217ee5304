"""Planned steps of an attempt, recomputed as its ranks and the preview compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.refusal import Refusal
from torchdeck.contract.run_states import RankPhase
from torchdeck.data.batch_plan import BatchPlanError, load_batch_plan
from torchdeck.data.order import SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.sample_log import SampleLog, SampleLogError, SampleLogHeader
from torchdeck.data.step_order import DataPosition, SeededSteps, StepOrder
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.rank_settings import RecipeSettings, TrainingSettings


class CannotRecomputeError(Exception):
    """The planned steps cannot be recomputed; the message says why."""


@dataclass(frozen=True)
class PlannedAttempt:
    """Planned steps of an attempt."""

    order: StepOrder
    start: DataPosition
    end: int
    """Optimizer steps, from the very start, after which training is complete."""


def planned_attempt(layout: RunLayout, attempt: int, header: SampleLogHeader) -> PlannedAttempt:
    """Return the planned steps of an attempt, from its plan.json and the size of the data it found.

    Raises:
        CannotRecomputeError: the plan or the batch plan cannot be read, or the batch plan has changed.
    """
    training = _training(layout, attempt)
    order = _order(training, header)
    try:
        start = order.restored(header.start)
        end = order.total_steps(training.steps, training.epochs, start)
    except Refusal as error:
        raise CannotRecomputeError(str(error)) from error
    return PlannedAttempt(order, start, end)


def _order(training: TrainingSettings, header: SampleLogHeader) -> StepOrder:
    if training.batch_plan is None:
        return SeededSteps(
            SampleOrder(header.size, training.seed),
            microbatch=training.microbatch,
            accumulation=training.accumulation,
            world_size=header.world_size,
        )
    try:
        plan = load_batch_plan(training.batch_plan)
        order = PlannedSteps(
            plan,
            world_size=header.world_size,
            accumulation=training.accumulation,
            balance=training.balance,
        )
    except (BatchPlanError, OSError) as error:
        raise CannotRecomputeError(f"the batch plan cannot be read any more: {error}") from error
    if header.batch_plan and order.batch_plan != header.batch_plan:
        raise CannotRecomputeError(
            f"the batch plan in {training.batch_plan} has changed: the ranks used "
            f"{header.batch_plan[:12]}, it is {order.batch_plan[:12]}"
        )
    return order


def read_plan(path: Path) -> LaunchPlan | None:
    """Return the plan in a plan.json; None if there is no readable one."""
    try:
        return LaunchPlan.from_json(read_json(path))
    except (PlanFormatError, OSError):
        return None


def _training(layout: RunLayout, attempt: int) -> TrainingSettings:
    plan = read_plan(layout.attempt(attempt).plan)
    try:
        if plan is not None:
            return RecipeSettings.from_json(plan.nodes[0].env["TORCHDECK_RECIPE"]).training
    except (SettingsError, KeyError, IndexError) as error:
        raise CannotRecomputeError(f"the plan of attempt {attempt} has no training: {error}") from error
    raise CannotRecomputeError(f"the plan of attempt {attempt} cannot be read")


# History of the weights: the attempts whose steps count.


@dataclass(frozen=True)
class RecordedAttempt:
    """An attempt whose ranks recorded samples."""

    number: int
    header: SampleLogHeader
    """Header of the lowest rank that has one."""
    logs: Mapping[int, SampleLog]
    """By rank."""
    problems: tuple[str, ...]
    """Records that are missing, unreadable, or that begin differently from the others, one sentence each."""

    @property
    def start(self) -> int:
        """Optimizer steps completed when it began."""
        step = self.header.start.get("step")
        return step if isinstance(step, int) else 0


@dataclass(frozen=True)
class KeptSteps:
    """Steps of one attempt in the history of the weights: after `after`, up to `upto`."""

    attempt: RecordedAttempt
    after: int
    upto: int | None
    """None: to the end of the attempt."""


def ended_early(layout: RunLayout, attempts: Sequence[RecordedAttempt]) -> int | None:
    """Return the step after which rank 0 of the newest attempt reported that training is complete, if that is
    before its last: validation loss no longer fell, or a callback requested the end.
    """
    newest = attempts[-1].number
    progress = read_progress(layout.attempt(newest).rank(0).progress)
    if progress is None or progress.phase is not RankPhase.DONE or progress.total is None:
        return None
    return progress.step if progress.step < progress.total else None


def recorded_attempts(layout: RunLayout) -> list[RecordedAttempt]:
    """Return the attempts of a run that left records, in order."""
    found = (_recorded(layout, number) for number in layout.attempt_numbers())
    return [attempt for attempt in found if attempt is not None]


def kept_steps(attempts: Sequence[RecordedAttempt]) -> list[KeptSteps]:
    """Return the steps of each attempt that count: none after the step from which a later attempt started, as
    that attempt repeated them.
    """
    kept: list[KeptSteps] = []
    upto: int | None = None
    for attempt in reversed(attempts):
        if upto is None or attempt.start < upto:
            kept.append(KeptSteps(attempt, attempt.start, upto))
        upto = attempt.start if upto is None else min(upto, attempt.start)
    return kept[::-1]


def _recorded(layout: RunLayout, number: int) -> RecordedAttempt | None:
    ranks = layout.attempt(number).ranks
    names = (
        sorted(int(path.name) for path in ranks.iterdir() if path.name.isdecimal()) if ranks.is_dir() else []
    )
    logs: dict[int, SampleLog] = {}
    problems: list[str] = []
    for rank in names:
        path = layout.attempt(number).rank(rank).samples
        try:
            logs[rank] = SampleLog(path)
        except FileNotFoundError:
            problems.append(_missing(path, rank, number))
        except (SampleLogError, OSError) as error:
            problems.append(str(error))
    if not logs:
        return None
    header = next(iter(logs.values())).header
    problems += [
        _missing(layout.attempt(number).rank(rank).samples, rank, number)
        for rank in range(header.world_size)
        if rank not in names
    ]
    same = {rank: log for rank, log in logs.items() if _begins_as(log.header, header, rank)}
    problems += [
        f"the record of rank {rank} in attempt {number} starts differently from that of rank {header.rank}"
        for rank in sorted(logs.keys() - same.keys())
    ]
    return RecordedAttempt(number, header, same, tuple(problems))


def _missing(path: Path, rank: int, attempt: int) -> str:
    return f"rank {rank} of attempt {attempt} left no record of its samples: there is no {path}"


def _begins_as(header: SampleLogHeader, first: SampleLogHeader, rank: int) -> bool:
    ours = (header.size, header.world_size, dict(header.start), header.batch_plan, header.rank)
    return ours == (first.size, first.world_size, dict(first.start), first.batch_plan, rank)
