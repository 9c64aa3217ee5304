"""Repeatedly polled list of all runs of a home: only active or modified runs cost anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.runs.folders.deletion import living_alone
from torchdeck.runs.folders.run_directory import open_run_directory
from torchdeck.runs.folders.settings import Settings, run_settings
from torchdeck.runs.follower import JournalFingerprints, RunPoller
from torchdeck.runs.links import read_links
from torchdeck.runs.query.metric_values import metric_values
from torchdeck.runs.registry import RunRegistry, why_unreadable
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import TrainingProgress, roles_of_run
from torchdeck.runs.view import RunView

BUDGET = 0.15
"""Seconds per poll for runs seen for the first time; the others wait for the next poll."""
CURVE_INTERVAL = 4.0
"""Seconds between two reads of the loss curve of an active run."""
RETRY = 5.0
"""Seconds between two attempts to read an unreadable run."""


@dataclass(frozen=True)
class RunEntry:
    """One run in a list."""

    id: str
    layout: RunLayout
    view: RunView | None = None
    """None if it has not been read yet, or cannot be."""
    progress: TrainingProgress | None = None
    loss_curve: tuple[float, ...] = ()
    """Loss over the run's steps in a few points, NaN if there is none."""
    why: str = ""
    """Why it cannot be read; else empty."""
    living_alone: tuple[str, ...] = ()
    """Other nodes on which ranks of it may continue though it is over."""
    settings: Settings = field(default_factory=dict)
    """Settings of its run file and overrides."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Last value of each metric by its name, and wanted values such as `loss:min`."""

    @property
    def state(self) -> RunState | None:
        return None if self.view is None else self.view.state

    @property
    def is_unreadable(self) -> bool:
        return bool(self.why)

    @property
    def is_live(self) -> bool:
        """Whether a process of it runs or is about to."""
        return self.view is not None and not self.view.is_over

    @property
    def name(self) -> str:
        """The run's name; its id if the name cannot be read."""
        return self.id if self.view is None else self.view.name


@dataclass(frozen=True)
class RunsSeen:
    """Result of one poll."""

    entries: tuple[RunEntry, ...]
    """Newest first."""
    unread: int = 0
    """Number of runs not read yet; the next polls read them."""
    notes: int = 0
    """Time of the last change of the notes, in ns since the epoch; 0: there are none."""


class RunList:
    """Poller of the runs of a home. Use it from one thread at a time.

    A run that is over, without live processes, is read once; from then on a poll costs it one `stat`.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        budget: float = BUDGET,
    ) -> None:
        self._registry = RunRegistry(home)
        self._clock = clock
        self._monotonic = monotonic
        self._budget = budget
        self._runs: dict[str, _Followed] = {}
        self.wanted: frozenset[str] = frozenset()
        """Values of metrics to read, such as `loss:min` and `loss@1000`; may be set from any thread."""

    def look(self) -> RunsSeen:
        """Return the current runs.

        Raises:
            OSError: the folder of the runs cannot be listed.
        """
        ids = self._registry.ids()[::-1]
        kept = self._runs
        self._runs = {id_: kept.get(id_) or self._followed(id_) for id_ in ids}
        wanted = self.wanted
        new = [run for run in self._runs.values() if not run.has_read(wanted)]
        for run in self._runs.values():
            if run.was_read:
                run.look(self._monotonic())
        deadline = self._monotonic() + self._budget
        for run in new:
            run.want(wanted)
            run.look(self._monotonic())
            if self._monotonic() >= deadline:
                break
        entries = tuple(run.entry for run in self._runs.values() if not run.is_gone)
        unread = sum(not run.has_read(wanted) for run in self._runs.values())
        return RunsSeen(entries, unread, self._notes_changed())

    def _notes_changed(self) -> int:
        try:
            return Home(self._registry.folder.parent).notes.stat().st_mtime_ns
        except OSError:  # none, or they cannot be read: who reads them says why
            return 0

    def _followed(self, run_id: str) -> _Followed:
        return _Followed(RunLayout(self._registry.folder / run_id), self._clock)


class _Followed:
    """One run of the list and the state needed to poll it again."""

    def __init__(self, layout: RunLayout, clock: Callable[[], float]) -> None:
        self.entry = RunEntry(layout.root.name, layout)
        self.was_read = False
        self.is_gone = False
        self._clock = clock
        self._follower: RunPoller | None = None
        self._settled: JournalFingerprints | None = None
        """Before they were read, where it was over and nothing of it lived."""
        self._curve_due = 0.0
        self._retry = 0.0
        self._settings: Settings | None = None
        self._wanted: frozenset[str] = frozenset()

    def has_read(self, wanted: frozenset[str]) -> bool:
        """Return whether it was read, with these values of metrics."""
        return self.was_read and self._wanted == wanted

    def want(self, wanted: frozenset[str]) -> None:
        """Read these values of metrics from now on; at once for a run that is not followed any more."""
        before, self._wanted = self._wanted, wanted
        if self.was_read and self._follower is None and not wanted <= before and self.entry.metrics:
            found = metrics_of(self.entry.layout, wanted)
            self._take(replace(self.entry, metrics=found or self.entry.metrics))

    def look(self, now: float) -> None:
        """Read what is new; `now` is monotonic."""
        layout = self.entry.layout
        if self._settled is not None and self._settled.are_current:
            return
        if self.entry.is_unreadable and now < self._retry:
            return
        try:
            self._read(layout, now)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one run, the others are listed
            self.is_gone = not layout.root.exists()
            self._follower = None
            self._retry = now + RETRY
            self._take(RunEntry(self.entry.id, layout, why=why_unreadable(error)))
        self.was_read = True

    def _read(self, layout: RunLayout, now: float) -> None:
        if self._follower is None:
            self._follower = RunPoller(open_run_directory(layout.root), clock=self._clock)
            self._curve_due = 0.0
        found = self._follower.look()
        view = found.view
        self.is_gone = not layout.root.exists()
        quiet = view.is_over and not (view.controller_alive or view.agent_alive or view.processes_alive)
        curve = self._curve(self._follower, now, last=quiet)
        # hardly any run needs this extra file
        alone = living_alone(view, read_links(layout)) if view.nodes_alone else ()
        if self._settings is None:
            self._settings = run_settings(layout, view.overrides)
        metrics = self._metrics(self._follower)
        self._take(
            RunEntry(self.entry.id, layout, view, found.progress, curve, "", alone, self._settings, metrics)
        )
        self._settled = None
        if quiet:
            # a resume begins in the controller's journal; an agent may come back and write first only if the
            # run's end was never written
            self._settled = found.before.of_controller if view.end_written else found.before
            self._follower = None

    def _metrics(self, follower: RunPoller) -> Mapping[str, float]:
        known = follower.metrics
        if known is None:
            return {}
        try:
            return metric_values(known[0], self._wanted, known[1])
        except OSError:  # removed meanwhile
            return self.entry.metrics

    def _curve(self, follower: RunPoller, now: float, *, last: bool) -> tuple[float, ...]:
        if not last and now < self._curve_due:
            return self.entry.loss_curve
        self._curve_due = now + CURVE_INTERVAL
        return follower.loss_curve()

    def _take(self, entry: RunEntry) -> None:
        """Keep the old object if nothing changed: comparing two lists is then fast."""
        if entry != self.entry:
            self.entry = entry


def metrics_of(layout: RunLayout, wanted: Collection[str]) -> dict[str, float]:
    """Read the metrics of a run once, as `metric_values`; nothing if they cannot be read."""
    from torchdeck.metrics import RunMetrics

    metrics = RunMetrics(layout.root)
    try:
        metrics.refresh()
        return metric_values(metrics, wanted, roles_of_run(layout))
    except (OSError, NewerFormatError):
        return {}
