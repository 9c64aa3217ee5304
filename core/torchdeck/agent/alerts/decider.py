"""When an alert is due: a pure function of the journal, the rows of metrics and the progress of training.

Times are those of the events, not of the reading: another agent that reads the same again decides the same,
and the keys of alerts that were sent tell it what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torchdeck.contract.journal import Event
from torchdeck.contract.plan.alert_plan import AlertEvent, AlertPlan
from torchdeck.contract.run_states import FinalState, StartReason, StopCause
from torchdeck.trainers.metric_roles import LOSS, VALIDATION_LOSS

BASELINE = 60.0
"""Seconds of training after which the expected end is computed."""
BASELINE_STEPS = 5
"""Steps that it takes at least."""
DISK_MARGIN = 1.2
"""Multiple of the limit above which space is no longer low."""
LINE_LIMIT = 500
"""Characters of an error's first line."""
_FAILURES = (StartReason.RESTART, StartReason.SMALLER, StartReason.REPLACED)
_STATES = {
    "queued": "QUEUED",
    "leased": "PREPARING",
    "launching": "STARTING",
    "attempt_started": "STARTING",
    "running": "RUNNING",
    "stopping": "STOPPING",
    "restarting": "RESTARTING",
}
"""Event of the journal → state of the run after it."""


class Alert(NamedTuple):
    """One alert that is due."""

    event: AlertEvent
    key: str
    """Identity of what it reports, the same after another reading."""
    time: float
    """Unix seconds at which it happened."""
    what: str
    """The event in words, after the name of the run: `failed`."""
    error: str = ""
    """First line of the error, or the reason; may be empty."""
    held_back: int = 0
    """Alerts of this event since the last one that were not sent."""


class Sent(NamedTuple):
    """An alert that an earlier agent sent."""

    event: AlertEvent
    key: str
    time: float


class Expected(NamedTuple):
    """End that was expected after the first minute of training."""

    began: float
    """Unix seconds at which the measured steps began."""
    step: int
    """Step at that time."""
    total: int
    end: float
    """Unix seconds."""


class AlertDecider:
    """Decides for one session of a run.

    Attributes:
        state: of the run, as `runs.run_state.RunState` spells it.
        expected: end that was expected; None before it is known.
    """

    def __init__(self, rules: AlertPlan) -> None:
        self.state = "PREPARING"
        self.expected: Expected | None = None
        self._rules = rules
        self._keys: set[str] = set()
        self._last: dict[AlertEvent, float] = {}
        self._held: dict[AlertEvent, int] = {}
        self._error = ""
        self._queued_since: float | None = None
        self._odd: set[str] = set()
        """Roles whose last value was not finite."""
        self._best: float | None = None
        self._best_step = self._evaluated = -1
        self._since_best = 0
        self._disk_low = False
        self._begun: tuple[float, int, int] | None = None
        """Time, step and total at the first progress."""

    def know(self, sent: Iterable[Sent]) -> None:
        """Leave out what was sent already."""
        for each in sent:
            self._keys.add(each.key)
            self._last[each.event] = max(self._last.get(each.event, -math.inf), each.time)
            self._disk_low |= each.event is AlertEvent.DISK

    def take(self, event: Event) -> list[Alert]:
        """Process an event of the leader's journal."""
        self.state = _STATES.get(event.name, self.state)
        if event.name in ("leased", "launching", "attempt_started", "refused", "finished"):
            self._queued_since = None
        handler = _HANDLERS.get(event.name)
        return [] if handler is None else handler(self, event)

    def row(self, role: str, step: int, value: float, time: float, *, best: bool = False) -> list[Alert]:
        """Process a value of a metric.

        Args:
            role: role of the metric, or its name if it has none.
            step: step of the value.
            value: may be NaN or infinite.
            time: unix seconds.
            best: it is the metric whose best value counts.
        """
        found = []
        if role in (LOSS, VALIDATION_LOSS):
            if math.isfinite(value):
                self._odd.discard(role)
            elif role not in self._odd:
                self._odd.add(role)
                what = f"reports {role.replace('_', ' ')} {_odd(value)} at step {step}"
                found += self._raise(AlertEvent.NOT_FINITE, f"not_finite:{role}:{step}", time, what)
        return found + self._evaluate(step, value, time) if best else found

    def progress(self, step: int, total: int | None, time: float) -> list[Alert]:
        """Process the progress of training: steps done, of how many, and when (unix seconds)."""
        if total is None or total <= 0 or step <= 0:
            return []
        begun = self._begun
        if begun is None or begun[2] != total:
            known = self.expected if self.expected is not None and self.expected.total == total else None
            begun = (time, step, total) if known is None else (known.began, known.step, total)
            self._begun, self.expected = begun, known
        seconds, steps = time - begun[0], step - begun[1]
        if self.expected is None and (seconds < BASELINE or steps < BASELINE_STEPS):
            return []
        left = (total - step) * seconds / steps if steps > 0 and seconds > 0 else 0.0
        end = time + max(0.0, left)
        if self.expected is None:
            self.expected = Expected(begun[0], begun[1], total, end)
        return self._late(end, time)

    def disk(self, free: int, time: float) -> list[Alert]:
        """Process the bytes that are free for the run directory; -1 if unknown."""
        limit = self._rules.free_bytes
        if free < 0 or not limit:
            return []
        if free >= limit * DISK_MARGIN:
            self._disk_low = False
        if free >= limit or self._disk_low:
            return []
        self._disk_low = True
        what = f"has {free / 2**30:.1f} GiB of disk left"
        return self._raise(AlertEvent.DISK, f"disk:{time:.0f}", time, what)

    def tick(self, now: float) -> list[Alert]:
        """Process the passing of time (unix seconds)."""
        found = []
        since, end_by = self._queued_since, self._rules.end_by
        if since is not None and now - since >= self._rules.queued:
            what = f"has waited {duration_text(now - since)} for devices"
            found += self._raise(AlertEvent.QUEUED, f"queued:{since:.0f}", now, what, lasts=True)
        if end_by is not None and now > end_by and self.state not in FinalState.__members__:
            what = "should have ended by now"
            found += self._raise(AlertEvent.LATE, "late:end_by", now, what, lasts=True)
        return found

    def _late(self, end: float, time: float) -> list[Alert]:
        expected, end_by = self.expected, self._rules.end_by
        found = []
        if expected is not None:
            planned, now = expected.end - expected.began, end - expected.began
            if now > self._rules.late_factor * planned:
                what = f"takes {now / planned:.1f} times as long as expected"
                more = f"{duration_text(end - time)} left"
                found += self._raise(AlertEvent.LATE, "late", time, what, more, lasts=True)
        if end_by is not None and end > end_by:
            what = f"will end {duration_text(end - end_by)} after the time it should end by"
            found += self._raise(AlertEvent.LATE, "late:end_by", time, what, lasts=True)
        return found

    def _evaluate(self, step: int, value: float, time: float) -> list[Alert]:
        if step <= self._evaluated:
            return []  # of a less trusted source, or repeated after a restart
        self._evaluated = step
        better = self._best is None or (value < self._best if self._rules.lowest else value > self._best)
        if math.isfinite(value) and better:
            self._best, self._best_step, self._since_best = value, step, 0
            return []
        self._since_best += 1
        if self._since_best < self._rules.no_best:
            return []
        best = "" if self._best is None else f", best {self._best:.4g} at step {self._best_step}"
        what = f"has no new best in {self._since_best} evaluations"
        more = f"{self._rules.metric} {value:.4g}{best}"
        return self._raise(AlertEvent.NO_BEST, f"no_best:{self._best_step}", time, what, more)

    def _raise(
        self,
        event: AlertEvent,
        key: str,
        time: float,
        what: str,
        error: str = "",
        *,
        always: bool = False,
        lasts: bool = False,
    ) -> list[Alert]:
        """Return the alert unless it was sent or is held back; one that `lasts` is due again after the
        interval.
        """
        if event not in self._rules.events or key in self._keys:
            return []
        is_early = not always and time - self._last.get(event, -math.inf) < self._rules.interval
        if is_early and lasts:
            return []
        self._keys.add(key)
        if is_early:
            self._held[event] = self._held.get(event, 0) + 1
            return []
        self._last[event] = max(time, self._last.get(event, time))
        return [Alert(event, key, time, what, error, self._held.pop(event, 0))]

    # events of the journal

    def _queued(self, event: Event) -> list[Alert]:
        self._queued_since = event.time if self._queued_since is None else self._queued_since
        return []

    def _hang(self, event: Event) -> list[Alert]:
        fields = event.fields
        ranks = fields.get("ranks") or [fields.get("rank")]
        names = ", ".join(map(str, ranks))
        what = f"hangs (rank {names})" if len(ranks) == 1 else f"hangs (ranks {names})"
        key = f"hang:{fields.get('attempt')}:{fields.get('examination') or event.time}"
        return self._raise(AlertEvent.HANG, key, event.time, what, first_line(fields.get("detail")))

    def _low(self, event: Event) -> list[Alert]:
        if event.name == "stopping" and event.fields.get("why") not in (StopCause.DISK, StopCause.INODES):
            return []
        key, what = f"disk:{event.time:.0f}", "is stopped: the disk is almost full"
        return self._raise(AlertEvent.DISK, key, event.time, what, first_line(event.fields.get("detail")))

    def _attempt_ended(self, event: Event) -> list[Alert]:
        failure = event.fields.get("first_failure")
        self._error = "" if not isinstance(failure, Mapping) else _failure_line(failure)
        return []

    def _restarting(self, event: Event) -> list[Alert]:
        if event.fields.get("reason") not in _FAILURES:
            return []
        attempt = event.fields.get("attempt")
        what = "restarts after a failure"
        return self._raise(AlertEvent.FAILED, f"restart:{attempt}", event.time, what, self._error)

    def _finished(self, event: Event) -> list[Alert]:
        state, why = event.fields.get("state"), first_line(event.fields.get("why"))
        self.state = str(state)
        if state == FinalState.FAILED:
            # who wants to know of every end wants to know of this one
            kind = AlertEvent.FAILED if AlertEvent.FAILED in self._rules.events else AlertEvent.ENDED
            return self._raise(kind, "end", event.time, "failed", self._error or why, always=True)
        what = "succeeded" if state == FinalState.SUCCEEDED else "was stopped"
        return self._raise(AlertEvent.ENDED, "end", event.time, what, why, always=True)

    def _lost(self, event: Event) -> list[Alert]:
        """Process the end that a controller has journaled, as the leader cannot."""
        if event.fields.get("state") in FinalState.__members__:
            return self._finished(event)
        self.state = "LOST"
        kind = AlertEvent.FAILED if AlertEvent.FAILED in self._rules.events else AlertEvent.ENDED
        why = first_line(event.fields.get("why"))
        return self._raise(kind, "lost", event.time, "is lost", why, always=True)

    def _expected_end(self, event: Event) -> list[Alert]:
        found = [event.fields.get(name) for name in Expected._fields]
        if all(isinstance(each, (int, float)) for each in found):
            self.expected = Expected(*found)  # type: ignore[arg-type]
        return []


_HANDLERS: dict[str, Any] = {
    "queued": AlertDecider._queued,  # noqa: SLF001
    "hang": AlertDecider._hang,  # noqa: SLF001
    "stopping": AlertDecider._low,  # noqa: SLF001
    "attempt_ended": AlertDecider._attempt_ended,  # noqa: SLF001
    "restarting": AlertDecider._restarting,  # noqa: SLF001
    "finished": AlertDecider._finished,  # noqa: SLF001
    "lost": AlertDecider._lost,  # noqa: SLF001
    "expected_end": AlertDecider._expected_end,  # noqa: SLF001
}


def first_line(text: object) -> str:
    """Return the first line of a text that is not empty; empty if there is none."""
    lines = str(text).splitlines() if isinstance(text, str) else []
    return next((line.strip()[:LINE_LIMIT] for line in lines if line.strip()), "")


def duration_text(seconds: float) -> str:
    """Return `45 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _failure_line(failure: Mapping[str, Any]) -> str:
    line, rank = first_line(failure.get("message")), failure.get("rank")
    return line if rank is None else f"{line} (rank {rank})"


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "infinity")
