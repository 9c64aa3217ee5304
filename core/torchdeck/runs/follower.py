"""Follower of one run on disk: each poll reads only what was appended since the last one."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from torchdeck.contract.atomic import read_json
from torchdeck.contract.file_names import FolderNames
from torchdeck.contract.journal import Event, JournalReader, NodeJournalReader, reader_of_node
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import read_script_state
from torchdeck.contract.processes import ProcessIdentity, boot_id, processes_of_run
from torchdeck.quantities import duration, size
from torchdeck.runs import reasons
from torchdeck.runs.jobs.job_state import JOB_NODE, is_job, job_liveness, with_cause
from torchdeck.runs.links import UP, Links, LinkState, read_links
from torchdeck.runs.outcome import read_exit_files
from torchdeck.runs.replay.alerts_seen import AlertsSeen
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.replay.journal_damage import JournalDamage, rebuilt_created
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress
from torchdeck.runs.view import RunView, view

if TYPE_CHECKING:
    from torchdeck.metrics import RunMetrics
    from torchdeck.trainers.metric_roles import Roles

HEARTBEAT_LIMIT = 8 * 1024 * 1024
"""Maximum bytes of a node's heartbeat; each of its ranks takes some hundreds."""


class RunFollower:
    """Reader that turns the files of one run directory into a RunView on demand."""

    def __init__(self, layout: RunLayout, *, clock: Callable[[], float] = time.time) -> None:
        self.layout = layout
        self.run_id = layout.root.name
        self._clock = clock
        self._history = RunHistory(str(layout.root))
        self._journal = JournalReader(layout.journal)
        self._names_in = FolderNames()
        self._nodes: dict[str, JournalReader] = {}
        self._alerts = AlertsSeen()
        self._deliveries: dict[str, JournalReader] = {}
        self._lost_alerts = NodeJournalReader(layout.alerts)
        self._rebuilt: Event | None = None
        self._idle_note: str | None = None
        self.links: Links | None = None
        """How its nodes were reached at the last look; None for a run of this machine alone."""

    def refresh(self) -> RunView:
        """Return the current view. Data sent by a node never makes it raise.

        Raises:
            NewerFormatError: a journal of this machine is from a newer Torchdeck.
            OSError: this machine's own files cannot be read.
        """
        self._read()
        heartbeats = {node: self._heartbeat(self.layout.node(node).heartbeat) for node in self._nodes}
        now = self._clock()
        self.links = read_links(self.layout)
        damaged = any(damage.hides_events for damage in self._damage())
        if is_job(self._history):
            liveness = job_liveness(self._history, heartbeats, now)
        else:
            liveness = look(self.run_id, self._history, heartbeats, self.links, now, damaged=damaged)
        # a process that was dead at the probe has finished writing: read its output before judging
        self._read()
        found = view(self.run_id, self._history, heartbeats, liveness, self._clock(), self._damage())
        if found.state is RunState.LOST and self._read_exit_files(found):
            found = view(self.run_id, self._history, heartbeats, liveness, self._clock(), self._damage())
        return self._with_notes(found)

    def _with_notes(self, found: RunView) -> RunView:
        """Add alerts, and what only the files of the ranks tell; they are read once, at the end."""
        alerts = self._alerts.alerts
        if alerts:
            failed = tuple(reasons.alert(each) for each in alerts if each.has_failed)
            found = dataclasses.replace(found, alerts=alerts, warnings=(*found.warnings, *failed[-1:]))
        if found.state is not RunState.SUCCEEDED:
            return found
        if self._idle_note is None:
            self._idle_note = idle_note(self.layout, found)
        if not self._idle_note:
            return found
        return dataclasses.replace(found, warnings=(*found.warnings, self._idle_note))

    def has_taken(self, request_id: str) -> bool:
        """Return whether an agent had taken the request at the last poll."""
        return self._history.has_taken(request_id)

    @property
    def controller_pid(self) -> int | None:
        """PID of the run's newest controller at the last poll; it may have exited since."""
        return None if self._history.controller is None else self._history.controller.pid

    def _damage(self) -> tuple[JournalDamage, ...]:
        """Return damage of the journals, the controller's first."""
        found = [JournalDamage.of(self._journal, self._journal.path.name)]
        for node, reader in self._nodes.items():
            path = reader.path.relative_to(self.layout.root).as_posix()
            found.append(JournalDamage.of(reader, path, node))
        return tuple(damage for damage in found if damage is not None)

    def _read(self) -> None:
        for event in self._journal.read_new():
            self._history.controller_event(event)
            self._alerts.take(event)
        for event in self._lost_alerts.read_new():
            self._alerts.take(event)
        self._rebuild_created()
        for node in self._names_in(self.layout.nodes):
            if node not in self._nodes:
                if not self.layout.node(node).root.is_dir():
                    continue
                self._nodes[node] = reader_of_node(self.layout.node(node))
                self._deliveries[node] = NodeJournalReader(self.layout.node(node).alerts)
            for event in self._nodes[node].read_new():
                of_job = node == JOB_NODE and is_job(self._history)
                self._history.node_event(node, with_cause(self.layout, event) if of_job else event)
                self._alerts.take(event)
            for event in self._deliveries[node].read_new():
                self._alerts.take(event)

    def _read_exit_files(self, found: RunView) -> bool:
        """Read how the ranks of a lost run ended. Return whether that is new."""
        current = next((each for each in found.attempts if each.number == found.attempt), None)
        exits = [] if current is None else read_exit_files(self.layout, current, found.world_size)
        for each in exits:
            self._history.rank_ended(found.attempt or 0, each)
        return bool(exits)

    def _rebuild_created(self) -> None:
        """Rebuild the journal's first line from the plan if it is damaged."""
        if self._history.created is None:
            self._rebuilt = self._rebuilt or rebuilt_created(self.layout)
            self._history.created = self._rebuilt

    @staticmethod
    def _heartbeat(path: Path) -> Mapping[str, Any]:
        try:
            value = read_json(path, limit=HEARTBEAT_LIMIT)
        except OSError:
            return {}
        return value if isinstance(value, Mapping) else {}


def read_run(layout: RunLayout) -> RunView:
    """Return the current view of one run; raises as `RunFollower.refresh`."""
    return RunFollower(layout).refresh()


# Live processes of a run, by the identities in its files.


def look(
    run_id: str,
    history: RunHistory,
    heartbeats: Mapping[str, Mapping[str, Any]],
    links: Links | None = None,
    now: float = 0.0,
    *,
    damaged: bool = False,
) -> Liveness:
    """Check /proc for every process of this machine that `history` and `heartbeats` name.

    For nodes in `links` their last report is used if it is recent (`now`, unix seconds).

    If the journals are `damaged`, processes that they do not name are searched for, too.

    Read the journals again after this and before folding. The output of a process found dead is complete by
    then, so its end is never mistaken for its loss.
    """
    known = [*history.agents.values(), *history.holders.values()]
    nodes = {} if links is None else _linked(links, now)
    for node in {*history.agents, *history.holders, *heartbeats} - nodes.keys():
        beat = heartbeats.get(node, {})
        torchrun = ProcessIdentity.from_json(beat.get("torchrun"))
        holder = ProcessIdentity.from_json(beat.get("holder"))
        agent = ProcessIdentity.from_json(beat.get("agent"))
        known += [identity for identity in (torchrun, holder, agent) if identity is not None]
        nodes[node] = NodeLiveness(
            agent=_alive(agent) or _alive(history.agents.get(node)),
            holder=_alive(holder) or _alive(history.holders.get(node)),
            torchrun=_alive(torchrun),
        )
    if history.controller is not None:
        known.append(history.controller)
    boot = boot_id()
    controller = _alive(history.controller)
    # orphans of killed supervisors are found by their environment, which costs a walk over /proc
    named = controller or any(node.any for node in nodes.values())
    return Liveness(
        controller=controller,
        nodes=nodes,
        orphans=(damaged or _may_have_orphans(history)) and not named and bool(processes_of_run(run_id)),
        same_boot=not known or any(identity.boot == boot for identity in known),
        followed_until=None if links is None or controller or links.is_fresh(now) else links.time,
    )


def _linked(links: Links, now: float) -> dict[str, NodeLiveness]:
    fresh = links.is_fresh(now)
    return {name: _over(link, fresh=fresh) for name, link in links.nodes.items()}


def _over(link: LinkState, *, fresh: bool) -> NodeLiveness:
    if not fresh or link.state != UP or link.agent_alive is None:
        return NodeLiveness(link=link, known=False)
    return NodeLiveness(link.agent_alive, link.holder_alive is True, link.torchrun_alive is True, link)


def _may_have_orphans(history: RunHistory) -> bool:
    return bool(history.attempts) and history.end is None


def _alive(identity: ProcessIdentity | None) -> bool:
    return identity is not None and identity.is_alive()


# Check whether a run's journals have changed: one `stat` of each, without reading them.


@dataclass(frozen=True)
class JournalFingerprints:
    """State of a run's journals at one moment, the controller's first."""

    paths: tuple[str, ...]
    stamps: tuple[tuple[int, int], ...]
    """Size in bytes and modification time in ns of each; -1 and 0 if it does not exist."""

    @classmethod
    def taken(cls, layout: RunLayout) -> Self:
        """As of now."""
        paths = (str(layout.journal), *map(str, sorted(layout.nodes.glob("*/journal.jsonl"))))
        return cls(paths, _stamps(paths))

    @property
    def of_controller(self) -> JournalFingerprints:
        """Fingerprint of the controller's journal alone."""
        return JournalFingerprints(self.paths[:1], self.stamps[:1])

    @property
    def are_current(self) -> bool:
        """Whether these journals are unchanged since."""
        return self.stamps == _stamps(self.paths)


def _stamps(paths: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    found = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - a thousand a second: strings are five times quicker
        except OSError:
            found.append((-1, 0))
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return tuple(found)


@dataclass(frozen=True)
class RunLook:
    """Result of one poll of a run."""

    view: RunView
    progress: TrainingProgress | None
    links: Links | None
    """Links to its nodes; None for a run on this machine alone."""
    before: JournalFingerprints
    """Journals just before they were read: later writes may be missing from this poll."""


class RunPoller:
    """Polls one run and its progress; from one thread at a time."""

    def __init__(self, layout: RunLayout, *, clock: Callable[[], float] = time.time) -> None:
        self._follower = RunFollower(layout, clock=clock)
        self._progress = ProgressReader(layout)

    def look(self) -> RunLook:
        """Return the state of the run.

        Raises:
            NewerFormatError: a journal is from a newer Torchdeck.
            OSError: a file cannot be read.
        """
        before = JournalFingerprints.taken(self._follower.layout)
        view = self._follower.refresh()
        return RunLook(view, self._progress.read(view), self._follower.links, before)

    def loss_curve(self) -> tuple[float, ...]:
        """Return the same as `ProgressReader.loss_curve`, as of the last poll."""
        return self._progress.loss_curve()

    @property
    def metrics(self) -> tuple[RunMetrics, Roles] | None:
        """Return the same as `ProgressReader.metrics`, as of the last poll."""
        return self._progress.metrics


# A script that ended well and did nothing: no step, no metric, hardly any output.

LITTLE_OUTPUT = 200
"""Bytes that all ranks together printed at most."""


def idle_note(layout: RunLayout, view: RunView) -> str:
    """Return a sentence about a script that succeeded without any trace of work; empty for any other run."""
    if view.state is not RunState.SUCCEEDED or view.kind == "recipe" or view.checkpoint is not None:
        return ""
    if not view.attempts:
        return ""
    last = view.attempts[-1]
    printed = 0
    for rank in range(last.world_size or view.world_size or 0):
        files = layout.attempt(last.number).rank(rank)
        printed += _size(files.stdout) + _size(files.stderr)
        if printed > LITTLE_OUTPUT or files.progress.exists() or any(files.metrics.glob("*")):
            return ""
        state = read_script_state(files.script)
        if state is not None and state.step is not None:
            return ""
    output = f"{size(printed)} of output" if printed else "no output"
    seconds = "" if last.ended is None else f" after {duration(last.ended - last.started)}"
    return (
        f"All ranks ended with exit code 0{seconds}, with no step, no metric and {output}. "
        "If that is unexpected, check the arguments, and that the script calls its main function."
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
