"""Current activity of a run in words. Without Qt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.quantities import duration, epochs, size
from torchdeck.runs import reasons
from torchdeck.runs.links import LinkState
from torchdeck.runs.plots.units import throughput_text
from torchdeck.runs.run_state import RankView, RunState
from torchdeck.runs.training_progress import TrainingProgress, time_left
from torchdeck.runs.view import RunView

PHASES = {
    "": "starting",
    "saving": "saving a checkpoint",
    "evaluating": "evaluating validation data",
    "compiling": "compiling the model",
    "loading": "loading model and data",
    "stopping": "finishing the step and saving",
    "done": "finishing",
    "running": "running, reports no progress",
}
"""Text for each phase; a phase that is missing here is shown by its own name."""
_STATES = {
    RunState.PENDING: "starting controller",
    RunState.PREPARING: "preparing devices and code",
    RunState.RESTARTING: "starting again",
}
_BEGINNING = frozenset(
    {RunState.PENDING, RunState.PREPARING, RunState.STARTING, RunState.QUEUED, RunState.RESTARTING}
)
"""Phases in which the ranks may wait for code."""


def doing(view: RunView, sent_code: Sequence[LinkState] = ()) -> str:
    """Return the ranks' current activity as one phrase; for a run that is over, how it ended.

    Args:
        view: view of the run.
        sent_code: links over which its code is being sent, for which the ranks wait.
    """
    if view.is_over:
        return view.why
    if sent_code and view.state in _BEGINNING:
        return reasons.code_to_all(sent_code)
    if view.state is RunState.STARTING and view.why:
        return view.why
    if view.state in (RunState.QUEUED, RunState.STOPPING):
        return view.why or view.state.value.lower()
    if view.state in _STATES:
        return view.why or _STATES[view.state]
    return _phases(view.ranks, view.world_size)


def _phases(ranks: tuple[RankView, ...], world_size: int | None) -> str:
    """Return the phase of most ranks, with their number if not all are in it."""
    if not ranks:
        return f"starting {world_size or ''} rank{'' if world_size == 1 else 's'}".replace("  ", " ")
    phase, many = Counter(rank.phase for rank in ranks).most_common(1)[0]
    words = PHASES.get(phase, phase)
    total = max(world_size or 0, len(ranks))
    return words if many == total else f"{words} ({many} of {total} ranks)"


def rank_lines(view: RunView, limit: int = 32) -> str:
    """Return each rank's phase, step and memory, one per line, for a tooltip."""
    lines = []
    for rank in view.ranks[:limit]:
        parts = [f"rank {rank.rank}: {PHASES.get(rank.phase, rank.phase)}"]
        parts += [] if rank.step is None else [f"step {rank.step:,}"]
        parts += [] if rank.still is None or rank.still < 2 else [f"no progress for {duration(rank.still)}"]
        parts += [] if rank.rss_bytes is None else [size(rank.rss_bytes)]
        parts += [] if rank.pid is None else [f"pid {rank.pid}"]
        lines.append(", ".join(parts))
    if len(view.ranks) > limit:
        lines.append(f"and {len(view.ranks) - limit:,} more ranks")
    return "\n".join(lines)


def facts(view: RunView, progress: TrainingProgress | None, now: float) -> str:
    """Return step, epoch, time left, throughput, elapsed time, attempt and size:
    `step 1,240 / 2,000 · 2 min 14 s left · …`.
    """
    parts = []
    if progress is not None and progress.step is not None:
        total = "" if progress.total is None else f" / {progress.total:,}"
        last = "" if view.followed_until is None else "last seen "
        parts.append(f"{last}step {progress.step:,}{total}")
    if progress is not None and progress.epoch is not None:
        parts.append(f"epoch {epochs(progress.epoch)}")
    trains = view.followed_until is None and view.state is RunState.RUNNING
    if progress is not None and progress.eta is not None and trains:
        parts.append(f"{time_left(progress.eta)} left")
    steps = trains or view.state is RunState.STOPPING  # else it belongs to an earlier attempt
    if progress is not None and throughput_text(progress) and steps:
        parts.append(throughput_text(progress))
    if view.started is not None:
        parts.append(_time_taken(view, view.started, now))
    if view.attempt is not None and view.attempt > 1:
        parts.append(f"attempt {view.attempt}")
    if view.is_foreign:
        foreign = "only watched" if view.kind == WATCHED else "imported"
        parts.append(f"Slurm job {view.job}" if view.job else foreign)
    elif view.world_size is not None:
        ranks = f"{view.world_size:,} rank{'' if view.world_size == 1 else 's'}"
        # a script's strategy is its own matter
        parts.append(f"{ranks}, {view.strategy}" if view.strategy and view.kind == "recipe" else ranks)
    return "  ·  ".join(parts)


def _time_taken(view: RunView, started: float, now: float) -> str:
    if view.followed_until is not None:
        return f"{duration(max(0.0, view.followed_until - started))} until then"
    end = view.ended if view.ended is not None else now
    return f"{duration(end - started)}{' taken' if view.is_over else ' so far'}"
