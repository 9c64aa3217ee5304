"""Monitor of one run, off the GUI thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.deletion import living_alone
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.runs.folders.origin import Origin, origin_of
from torchdeck.runs.follower import RunPoller
from torchdeck.runs.links import Links, LinkState
from torchdeck.runs.metric_damage import MetricDamage
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView
from torchdeck.use_cases.attach import wants_controller
from torchdeck_app.bridge.background_loop import Poller

LIVE = 1.0
OVER = 2.0
"""Seconds between two polls of an active run, and of one that is over."""
ALONE = 3.0
"""Seconds without a controller until a run counts as detached: a starting one appears earlier."""

COMPARED = 10.0
"""Seconds between two comparisons of new metrics with their checksums."""


@dataclass(frozen=True)
class RunSeen:
    """Result of one poll of a run."""

    view: RunView
    progress: TrainingProgress | None
    is_gone: bool = False
    """Whether its directory was removed; the view is the last one seen."""
    origin: Origin | None = None
    """Run that it resumed from."""
    links: tuple[LinkState, ...] = ()
    """Links to its nodes in the order of their names, as its controller reports; none for a run that is over.
    """
    sent_code: tuple[LinkState, ...] = ()
    """Links over which its code is being sent now."""
    is_left_alone: bool = False
    """Whether it continues on other machines and no local controller follows all of it."""
    living_alone: tuple[str, ...] = ()
    """Other nodes on which ranks of it may continue though it is over."""
    damaged_metrics: tuple[str, ...] = ()
    """Sentences that name metrics which do not match their checksums."""


class RunWatch(Poller[RunSeen]):
    """Poller of a run while its page is open; `changed` carries a RunSeen, `failed` why it cannot be read."""

    def __init__(self, layout: RunLayout, parent: QObject | None = None) -> None:
        self._layout = layout
        self._follower = RunPoller(layout)
        self._seen: RunSeen | None = None
        self._origin: Origin | None = None
        self._remote: bool | None = None
        self._alone_since: float | None = None
        self._damage, self._compare_due = MetricDamage(layout), 0.0
        self._damaged: tuple[str, ...] = ()
        super().__init__(f"run {layout.root.name}", self._look_at, LIVE, parent)
        self.changed.connect(self._pace)

    def _look_at(self) -> RunSeen:
        """Do the work, in the thread."""
        before = self._seen
        if before is not None and not self._layout.root.exists():
            self._seen = replace(before, is_gone=True)
            return self._seen
        found = self._follower.look()
        view = found.view
        if not self._layout.root.exists():
            raise FileNotFoundError(f"there is no run directory {self._layout.root}: it was removed")
        origin = origin_of(view) if self._origin is None else self._origin
        self._origin = origin
        seen = RunSeen(view, found.progress, origin=origin, damaged_metrics=self._compared(view))
        self._seen = self._with_links(seen, found.links)
        return self._seen

    def _compared(self, view: RunView) -> tuple[str, ...]:
        now = time.monotonic()
        if now >= self._compare_due:
            self._compare_due = now + COMPARED
            self._damaged = self._damage.look(is_over=view.is_over)
        return self._damaged

    def _with_links(self, seen: RunSeen, links: Links | None) -> RunSeen:
        """Add the state of its nodes while it is active."""
        if self._remote is None:
            self._remote = links is not None or bool(remote_nodes(self._layout))
        if not self._remote:
            return seen
        if seen.view.is_over:
            return replace(seen, living_alone=living_alone(seen.view, links))
        now = time.time()
        if not wants_controller(seen.view, links, now):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        alone = self._alone_since is not None and time.monotonic() - self._alone_since > ALONE
        if links is None:
            return replace(seen, is_left_alone=alone)
        states = tuple(links.nodes[name] for name in sorted(links.nodes))
        return replace(seen, links=states, sent_code=links.sent_code(now), is_left_alone=alone)

    def _pace(self, seen: RunSeen) -> None:
        wanted = OVER if seen.view.is_over else LIVE
        if wanted != self._interval:
            self.set_interval(wanted)
