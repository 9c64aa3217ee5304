"""Observation of the run by the agent: ranks, hangs, printed numbers, checkpoints, disk; journals news."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from torchdeck.agent.doctor.arrival_watch import gpus_of_ranks
from torchdeck.agent.doctor.node_doctor import NodeDoctor
from torchdeck.agent.gang import events
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.housekeeping import Housekeeping, Syncer
from torchdeck.agent.own_clock import OwnClock
from torchdeck.agent.ranks.checkpoint_watch import CheckpointWatch
from torchdeck.agent.ranks.failures import signal_of
from torchdeck.agent.ranks.file_series import FileSeries
from torchdeck.agent.ranks.printed_series import PrintedSeries
from torchdeck.agent.ranks.rank_watch import RankState, RankWatch
from torchdeck.agent.ranks.trainer_checkpoints import TrainerCheckpoints
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW, LogLengths, whole_rows
from torchdeck.contract.plan.launch_plan import WATCHED, LaunchPlan, PlanFormatError
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.run_states import StopCause, StopKind
from torchdeck.trainers.metric_roles import Roles

STOP_THREADS = 2.0
"""Seconds for the threads to end."""


class Observation:
    """One node's view of its ranks, over all attempts."""

    def __init__(
        self, layout: RunLayout, plan: LaunchPlan, node: str, journal: JournalWriter, clock: OwnClock
    ) -> None:
        self._layout = layout
        self._plan = plan
        self._clock = clock
        self._journal = journal
        self._node = node
        self._ranks: list[int] = []
        values = {"run_id": layout.root.name, "run_dir": str(layout.root)}
        self._directory = Path(fill(plan.checkpoint.directory, values))
        self._checkpoints = CheckpointWatch(self._directory, layout.root.name, frozenset())
        self._trainer_checkpoints = TrainerCheckpoints(layout, node, journal)
        self.doctor: NodeDoctor | None = None
        """Doctor of the attempt that is watched; None without one."""
        self._watch: RankWatch | None = None
        self._files: FileSeries | None = None
        self._attempt = 0
        self._printed = PrintedNumbers({})
        self._log_times: list[LogTimes] = []
        self._times_fail = False
        self._journaled: set[int] = set()
        self._trained: set[int] = set()
        self._up_told = False
        self._saves_told = False
        self._disk_told = False
        policy = plan.policy
        self._house = Housekeeping(
            layout, layout.node(node), self._directory, policy.min_free_bytes, policy.system_interval
        )

    @property
    def exits(self) -> Mapping[int, int]:
        return self._watch.exits if self._watch is not None else {}

    @property
    def states(self) -> Mapping[int, RankState]:
        return self._watch.states if self._watch is not None else {}

    @property
    def completed(self) -> bool:
        return self._watch is not None and self._watch.completed

    @property
    def disk_free(self) -> int:
        return self._house.disk_free

    @property
    def rss(self) -> Mapping[int, int]:
        return self._house.rss

    @property
    def newest_checkpoint(self) -> str:
        """Path of this run's newest complete checkpoint; empty when there is none."""
        return self._newest_by_manifest() or self._trainer_checkpoints.newest

    def _newest_by_manifest(self) -> str:
        if not self._directory.is_dir():
            return ""
        from torchdeck.contract.checkpoints.listing import list_checkpoints
        from torchdeck.contract.checkpoints.manifest import CheckpointError

        try:
            found = list_checkpoints(self._directory)
        except CheckpointError:
            return ""
        own = [
            info
            for info in found
            if info.manifest is not None and info.manifest.run_id == self._layout.root.name
        ]
        complete = [info for info in own if info.complete]
        return str(complete[-1].path) if complete else ""

    def know(self, recovered: RecoveredState) -> None:
        """Leave out what earlier agents journaled."""
        self._checkpoints = CheckpointWatch(self._directory, self._layout.root.name, recovered.checkpoints)

    def read_plan(self, attempt: int, *, leads: bool = True) -> LaunchPlan:
        """The plan of an attempt, its slots filled: the leader's, or what a follower wrote for its own node.

        Raises:
            PlanFormatError: it is damaged; it was whole when the attempt began.
        """
        layout = self._layout.attempt(attempt)
        path = layout.plan if leads else layout.node(self._node).plan
        try:
            return LaunchPlan.from_json(read_json(path))
        except PlanFormatError as error:
            raise PlanFormatError(f"{path}: {error}") from error

    def begin(self, attempt: int, plan: LaunchPlan, recovered: RecoveredState) -> None:
        """Watch the ranks of `attempt` in `plan`; `past` is already journaled."""
        self._ranks = [placement.rank for placement in plan.ranks if placement.node == self._node]
        layout = self._layout.attempt(attempt)
        self._attempt = attempt
        roles, watched = Roles(plan.metric_names), _watched_ranks(plan)
        self._watch = RankWatch(layout, self._ranks, self._clock, roles, watched)
        self._journaled = set(recovered.exited)
        self._trained.clear()
        self._up_told = False
        self._saves_told = False
        environ, gpus = plan.node(self._node).env if self._ranks else {}, gpus_of_ranks(plan, self._node)
        self.doctor = NodeDoctor(layout, self._plan.policy.hang_after, self._clock, environ, gpus)
        stdout = self._plan.stdout
        followed = self._ranks if stdout.enabled else []
        self._printed = PrintedNumbers(
            {
                rank: PrintedSeries(layout.rank(rank), stdout.patterns, self._watch.scripts[rank])
                for rank in followed
            }
        )
        self._files = FileSeries(layout, self._node, plan, self._ranks) if plan.kind != "recipe" else None
        self._log_times = [LogTimes(layout.rank(rank)) for rank in self._ranks]
        self._house.watch(layout.ranks)
        self._trainer_checkpoints.begin(attempt, plan)

    def look(self, node: str) -> list[events.Event]:
        """Return the events of the ranks' reports; cheap, several times per second."""
        watch = self._watch
        if watch is None:
            return []
        for rank, code in watch.look():
            if rank not in self._journaled:
                self._journaled.add(rank)
                self._journal.append(
                    "rank_exited", attempt=self._attempt, rank=rank, code=code, signal=signal_of(code)
                )
        self._house.pids = watch.pids
        if self._files is not None:
            self._files.pids = watch.pids
            self._files.report(watch.scripts)
        happened: list[events.Event] = []
        if watch.all_up and not self._up_told:
            self._up_told = True
            happened.append(events.RanksUp(node, self._attempt))
        for rank, step in watch.trained.items():
            if rank not in self._trained:
                self._trained.add(rank)
                happened.append(events.RankProgress(self._attempt, rank, step))
        if 0 in watch.inside and watch.inside[0].state.saves_on_stop != self._saves_told:
            self._saves_told = not self._saves_told
            happened.append(events.SavesOnStop(self._attempt, self._saves_told))
        examined = None if self.doctor is None else self.doctor.poll(watch.exits)
        if examined is not None:
            happened.append(events.Examined(self._node, self._attempt, *examined))
        return happened

    def reached(self) -> list[events.Event]:
        """Return the step of the rank that got furthest."""
        trained = {} if self._watch is None else self._watch.trained
        rank = max(trained, key=trained.__getitem__, default=None)
        return [] if rank is None else [events.RankProgress(self._attempt, rank, trained[rank])]

    def look_closely(self) -> list[events.Event]:
        """Once a second: hangs, checkpoints, disk."""
        self._note_log_times()
        return [*self.look_at_checkpoints(), *self._look_at_ranks(), *self._look_at_disk()]

    def parse(self, *, closely: bool) -> None:
        """Numbers that the ranks print: once a second (`closely`), and more often while some wait."""
        if closely or self._printed.behind:
            self._note_left_out(self._printed.look())

    def _note_left_out(self, ranks: Sequence[int]) -> None:
        if ranks:
            self._journal.append("numbers_left_out", attempt=self._attempt, ranks=ranks)

    def end(self) -> list[events.Event]:
        """The attempt is over: journal the last of it and watch no more. Twice is as good as once."""
        if self._watch is None:
            return []
        self.look("")
        self._note_log_times()
        self._note_left_out(self._printed.end())
        self._printed = PrintedNumbers({})
        if self._files is not None:
            self._files.end(self._watch.scripts)
            self._files = None
        self.look("")  # progress by the last lines and rows
        for book in self._watch.scripts.values():
            book.write(now=True)
        happened = [*self.look_at_checkpoints(), *self._trainer_checkpoints.end(self.states.values())]
        self._watch = None
        if self.doctor is not None:
            self.doctor.close()
            self.doctor = None
        Syncer([self._layout.attempt(self._attempt).ranks]).sync()
        return happened

    def close(self) -> None:
        self._trainer_checkpoints.close()
        if self._files is not None:
            self._files.close()
        self._house.stop(STOP_THREADS)

    def look_at_checkpoints(self) -> list[events.Event]:
        """Journal those that are complete now and were not before."""
        found = self._checkpoints.look()
        for seen in found:
            self._journal.append("checkpoint", **seen._asdict())
        of_trainer = self._trainer_checkpoints.look(self.states.values())
        self._house.last_checkpoint = max(self._checkpoints.last_size, self._trainer_checkpoints.last_size)
        return [*(events.CheckpointSaved(seen.step) for seen in found), *of_trainer]

    def _note_log_times(self) -> None:
        """Note log times. A full disk is reported by its own check, and log times are not worth a run: logged
        once.
        """
        try:
            for log in self._log_times:
                log.note()
        except OSError as error:
            if not self._times_fail:
                print(f"times of logs could not be written: {error}", file=sys.stderr, flush=True)
            self._times_fail = True
        else:
            self._times_fail = False

    def _look_at_ranks(self) -> list[events.Event]:
        """Return what ranks report on their collectives, and which make no progress."""
        if self._watch is None or self.doctor is None:
            return []
        standings = self._watch.standings()
        late = self.doctor.look(standings)
        arrived = self.doctor.arrived(standings, self._house.gpus)
        found: list[events.Event] = (
            [] if late is None else [events.RanksLate(self._node, self._attempt, late)]
        )
        return [*found, events.Arrived(self._node, self._attempt, arrived)] if arrived else found

    def _look_at_disk(self) -> list[events.Event]:
        low = self._house.low
        if low is None or self._disk_told:
            self._disk_told = self._disk_told and low is not None
            return []
        self._disk_told = True
        try:
            self._journal.append("disk_low", **low._asdict())
        except OSError as error:
            print(f"disk_low could not be journaled: {error}", file=sys.stderr, flush=True)
        cause = StopCause.INODES if low.inodes else StopCause.DISK
        return [events.StopRequested(StopKind.GRACEFUL, cause, None, low.text)]


def _watched_ranks(plan: LaunchPlan) -> dict[int, int]:
    """Return rank → process of a training that is only watched, 0 if unknown; empty for a run of ours."""
    pid = 0 if plan.watched is None else plan.watched.pid
    return {0: pid} if plan.kind == WATCHED else {}


# Notes how long a rank's logs are, so that a reader knows when a line was printed. No one else does.


class LogTimes:
    """Appends a row to one rank's log_times when its logs have grown since the last."""

    def __init__(self, rank: RankLayout) -> None:
        self._rank = rank
        self._last: LogLengths | None = None

    def note(self) -> bool:
        """Look at the logs; whether there was something to write down.

        Raises:
            OSError: it cannot be written.
        """
        (out, out_written), (err, err_written) = _written(self._rank.stdout), _written(self._rank.stderr)
        now = LogLengths(time.time(), out, err)
        if self._last is None:  # what came while no agent lived was printed by the last write
            self._last = self._newest_row()
            now = now._replace(time=min(now.time, max(out_written, err_written, self._last.time)))
        if now[1:] == self._last[1:]:
            return False
        with self._rank.log_times.open("ab") as file:
            torn = file.tell() % ROW.size
            if torn:  # an agent died, or the disk was full, in the middle of a row
                file.truncate(file.tell() - torn)
            file.write(ROW.pack(*now))
        self._last = now
        return True

    def _newest_row(self) -> LogLengths:
        """The last row that an agent wrote."""
        try:
            with self._rank.log_times.open("rb") as file:
                rows = file.seek(0, 2) // ROW.size
                file.seek(max(0, rows - 1) * ROW.size)
                found = whole_rows(file.read(ROW.size))
        except FileNotFoundError:
            found = []
        return found[-1] if found else LogLengths(0.0, 0, 0)


def _written(path: Path) -> tuple[int, float]:
    """Length of a file, and unix time of its last write."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0.0
    return status.st_size, status.st_mtime


LOOK_BUDGET = 0.05
"""Seconds of parsing per look, shared by the ranks."""
END_BUDGET = 0.5
"""Seconds for parsing the remaining output after the ranks have ended."""
LAST_BUDGET = 5.0
"""Seconds for the last lines after that, which take milliseconds unless the machine is very busy."""
PATIENCE = 10.0
"""Seconds that the parser may be behind before it leaves lines out. A burst is parsed whole."""


class PrintedNumbers:
    """The ranks' output, followed in turn. Logs are never touched, whatever is left out of the numbers."""

    def __init__(self, ranks: Mapping[int, PrintedSeries]) -> None:
        self._ranks = dict(ranks)
        self._behind: dict[int, float] = {}
        """rank → monotonic seconds since when lines wait to be parsed."""
        self._noted: set[int] = set()

    @property
    def behind(self) -> bool:
        """Some lines have not been parsed yet."""
        return bool(self._behind)

    def look(self, budget: float = LOOK_BUDGET) -> list[int]:
        """Parse new output; return ranks whose lines are skipped for the first time."""
        begun = monotonic()
        self._follow(begun, begun + budget)
        late = {rank for rank, since in self._behind.items() if begun - since >= PATIENCE}
        return self._leave_out(late)

    def end(self) -> list[int]:
        """Parse the last of it; otherwise as `look`. The last lines are parsed in any case."""
        begun = monotonic()
        self._follow(begun, begun + END_BUDGET)
        found = self._leave_out(set(self._behind))
        self._follow(begun, monotonic() + LAST_BUDGET)
        for series in self._ranks.values():
            series.close()
        return found

    def _follow(self, now: float, until: float) -> None:
        """Each rank has an equal share of the time; what one does not need is the others'."""
        left = len(self._ranks)
        for rank, series in self._ranks.items():
            clock = monotonic()
            if series.follow(clock + max(0.0, until - clock) / left):
                self._behind.setdefault(rank, now)
            else:
                self._behind.pop(rank, None)
            left -= 1

    def _leave_out(self, ranks: set[int]) -> list[int]:
        skipped = sorted(rank for rank in ranks if self._ranks[rank].skip() and rank not in self._noted)
        self._noted.update(skipped)
        return skipped
