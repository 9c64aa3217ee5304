"""Goodput of a run, from its journals and metrics. Blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import Event, reader_of_node
from torchdeck.contract.layout import NodeLayout, RunLayout
from torchdeck.contract.run_states import StartReason
from torchdeck.runs.goodput.uses import AttemptTimes, Goodput, Slowness, Span, Steps, Use, divide
from torchdeck.runs.replay import typed
from torchdeck.runs.run_state import AttemptView
from torchdeck.runs.view import RunView
from torchdeck.trainers.metric_roles import LOSS, STEP_TIME

if TYPE_CHECKING:
    from torchdeck.metrics.run_metrics import RunMetrics
    from torchdeck.metrics.series import Series

SAVE_STALL = "save_stall"
"""Metric of recipes: seconds that training waited for a checkpoint."""
_POWER = "_power_w"
_LONGEST_GAP = 5.0
"""Longest time between two samples of a GPU's power that counts, as a multiple of the usual one."""
_MOST_RANKS = 16
"""Ranks whose metrics are looked for without a plan."""


def read_goodput(layout: RunLayout, view: RunView) -> Goodput | None:
    """Return the goodput of a run so far; None if no rank has written a metric in it.

    Raises:
        OSError: a file cannot be read.
    """
    from torchdeck.metrics.run_metrics import RunMetrics

    if view.is_foreign or view.created is None or not view.attempts:
        return None
    metrics = RunMetrics(layout.root)
    metrics.refresh()
    events = list(_events(layout))
    ranks = _ranks(layout) or {"": list(range(min(view.world_size or 1, _MOST_RANKS)))}
    found = {}
    for node, own in ranks.items():
        # the first rank that has rows: a script may log on some ranks only
        rank = next((rank for rank in own if _name(metrics, rank)), None)
        if rank is not None:
            found[node] = Goodput(_divided(metrics, view, rank, events), _joules(metrics, node))
    if not found:
        return None
    run = next(iter(found.values()))
    joules = [each.joules for each in found.values() if each.joules is not None]
    return replace(run, joules=sum(joules) if joules else None, nodes=found if len(ranks) > 1 else {})


def _divided(metrics: RunMetrics, view: RunView, rank: int, events: Sequence[Event]) -> dict[Use, float]:
    name = _name(metrics, rank)
    rows = metrics.series(name, rank)
    times = {STEP_TIME: rows} if name == STEP_TIME else {}
    saves = metrics.series(SAVE_STALL, rank) if rank in metrics.ranks(SAVE_STALL) else None
    attempts = [
        _attempt(each, view, rows, saves, seconds_known=bool(times), number=number)
        for number, each in enumerate(view.attempts)
    ]
    end = attempts[-1].end
    return divide(
        view.created or attempts[0].begin,
        attempts,
        _spans(events, "queued", ("leased", "attempt_started"), end),
        [
            _of_hang(span, event)
            for span, event in _pairs(events, "hang", ("hang_over", "attempt_ended"), end)
        ],
        [
            Slowness(
                Span(typed.number(event.fields, "since") or span.begin, span.end),
                typed.number(event.fields, "share") or 0.0,
            )
            for span, event in _pairs(events, "straggler", ("straggler_over", "attempt_ended"), end)
        ],
    )


def _attempt(
    attempt: AttemptView,
    view: RunView,
    rows: Series,
    saves: Series | None,
    *,
    seconds_known: bool,
    number: int,
) -> AttemptTimes:
    own = rows.picked((rows.attempts == attempt.number) & np.isfinite(rows.times))
    following = view.attempts[number + 1] if number + 1 < len(view.attempts) else None
    last = float(own.times[-1]) if len(own) else attempt.started
    end = attempt.ended
    if end is None:
        end = following.started if following is not None else view.ended or last
    stalls = None if saves is None else saves.picked(saves.attempts == attempt.number)
    resumed = attempt.resume_step if attempt.resume else 0 if number == 0 else None
    return AttemptTimes(
        attempt.started,
        end,
        Steps(own.times, own.steps, own.values if seconds_known else np.full(len(own), np.nan)),
        is_first=attempt.reason == StartReason.FIRST,
        is_last=following is None or following.reason == StartReason.FIRST,
        resumed=resumed,
        saves=() if stalls is None else list(zip(stalls.times.tolist(), stalls.values.tolist(), strict=True)),
    )


def _name(metrics: RunMetrics, rank: int) -> str:
    """Return the metric whose rows are the rank's steps; empty if it has none."""
    names = [name for name in metrics.names() if rank in metrics.ranks(name) and name != SAVE_STALL]
    return next((name for name in (STEP_TIME, LOSS) if name in names), names[0] if names else "")


def _ranks(layout: RunLayout) -> dict[str, list[int]]:
    """Return the ranks of each node, by the plan."""
    plan = read_json(layout.plan)
    found: dict[str, list[int]] = {}
    for placed in typed.mappings(plan, "ranks") if isinstance(plan, Mapping) else ():
        rank = typed.whole(placed, "rank")
        if rank is not None:
            found.setdefault(typed.text(placed, "node"), []).append(rank)
    return {node: sorted(ranks) for node, ranks in found.items()}


def _events(layout: RunLayout) -> Iterator[Event]:
    """Yield the events of all nodes, each node's in order."""
    for path in sorted(layout.nodes.glob("*/journal.jsonl")):
        yield from reader_of_node(NodeLayout(path.parent)).read_new()


def _pairs(
    events: Sequence[Event], begins: str, ends: Sequence[str], until: float
) -> Iterator[tuple[Span, Event]]:
    """Yield each time that an event begins and one of others, or `until`, ends."""
    since: Event | None = None
    for event in sorted(events, key=lambda event: event.time):
        if event.name == begins:  # a later report replaces the one before
            if since is not None:
                yield Span(since.time, event.time), since
            since = event
        elif event.name in ends and since is not None:
            yield Span(since.time, event.time), since
            since = None
    if since is not None and until > since.time:
        yield Span(since.time, until), since


def _spans(events: Sequence[Event], begins: str, ends: Sequence[str], until: float) -> list[Span]:
    return [span for span, _ in _pairs(events, begins, ends, until)]


def _of_hang(span: Span, event: Event) -> Span:
    """Return the time of a hang since the last progress, which is before it was noticed."""
    return Span(span.begin - max(0.0, typed.number(event.fields, "still") or 0.0), span.end)


def _joules(metrics: RunMetrics, node: str) -> float | None:
    """Return the energy of a node's GPUs, by samples of their power; None without samples."""
    names = [name for name in metrics.system_names() if name.endswith(_POWER) and node in metrics.nodes(name)]
    total = 0.0
    for name in names:
        power = metrics.series(name, node)
        gaps = np.diff(power.times)
        mean = (power.values[1:] + power.values[:-1]) / 2.0
        usual = float(np.median(gaps)) if len(gaps) else 0.0
        counted = (gaps > 0) & (gaps <= _LONGEST_GAP * usual) & np.isfinite(mean)
        total += float((gaps[counted] * mean[counted]).sum())
    return total if names else None
