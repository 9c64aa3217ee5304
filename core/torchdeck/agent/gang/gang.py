"""The gang's decisions, for any number of nodes: events in, commands out. No files, processes or clocks.

One gang is decided by one agent, the leader. An attempt lives from LaunchAttempt until every node reported
NodeClean; then it is judged, and the run continues (another attempt) or finishes. Stop requests are checked
before every start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.attempt_state import AttemptState, Ending, Escalation, ReadyBarrier, refusal_text
from torchdeck.agent.gang.events import StopRequested
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.gang.recovery import Recovery, Restart
from torchdeck.agent.gang.verdict import describe_failure, final_state, not_answering, ranks_on
from torchdeck.contract.plan.elastic import Elastic
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import FinalState, GangPhase, Outcome, StartReason, StopCause, StopKind

QUEUE_RETRY = 1.0
"""Seconds between two tries to lease devices while queued."""
NODE_GRACE = 120.0
"""Seconds that other nodes may take to end after one has ended well."""
SWEEP_SLACK = 20.0
"""Seconds a node may take over a sweep beyond the grace it was given."""


class Gang:
    """State of one run's processes on all nodes.

    Attributes:
        phase: of this side of the gang.
        number: the current attempt, 0 before the first.
        stop: the stop request that is being carried out; None: none.
        deadline: monotonic seconds at which a Tick may bring news; None when only events can.
    """

    def __init__(self, nodes: Sequence[str], policy: Policy, elastic: Elastic | None = None) -> None:
        """Lead `nodes`; with `elastic` the gang may continue without who fails for good."""
        self.phase: GangPhase = GangPhase.PREPARING
        self.number = 0
        self.stop: GangStop | None = None
        self.deadline: float | None = None
        self._policy = policy
        self._nodes = tuple(nodes)
        self._recovery = Recovery(policy, elastic or Elastic([(node, 1) for node in nodes]))
        self._ready_barrier = ReadyBarrier(nodes)
        self._escalation = Escalation(policy)
        self._reason = StartReason.FIRST
        self._attempt = AttemptState(0)
        self._began = 0.0
        """Monotonic seconds at which the current attempt was launched."""
        self._silent: dict[str, tuple[float, float]] = {}
        """Nodes that do not answer → when they were heard last: monotonic seconds, and since the epoch."""

    def handle(self, event: events.Event, now: float) -> list[commands.Command]:
        """Take in one event; `now` in monotonic seconds. Those of earlier attempts do nothing."""
        if self.phase is GangPhase.FINISHED:
            return []
        if isinstance(event, events.StopRequested):
            return self._stop(event, now)
        if isinstance(event, events.Tick):
            return [*self._tick(now), *self._examine(now)]
        if isinstance(event, (events.NodeReady, events.LeasesGranted, events.LeasesHeld)):
            return self._prepare(event, now)
        if isinstance(event, events.CheckpointSaved):
            self._recovery.checkpoint_saved(event.step)
            return []
        if isinstance(event, (events.NodeSilent, events.NodeBack, events.NodeLost)):
            return self._silence(event, now)
        if isinstance(event, (events.StacksAsked, events.ProfileAsked)):
            return self._attempt.asked(event, self._nodes, self._silent)
        if isinstance(event, events.Offered):
            return []
        if event.attempt != self.number or not self.phase.has_attempt:
            return []
        return self._attempt_event(event, now)

    def resume(self, recovered: RecoveredState, now: float) -> list[commands.Command]:
        """Continue after the journal of an earlier agent of this run."""
        self.number = recovered.attempt
        self._began = now - recovered.seconds
        self._recovery.resume(recovered)
        self._nodes = self._recovery.roster.nodes
        self._ready_barrier.change(self._nodes)
        if recovered.stop is not None:
            self.stop = GangStop(*recovered.stop)
        if recovered.gang_open:
            self._attempt = AttemptState(recovered.attempt)
            self._attempt.launched = set(self._nodes)
            self._attempt.progressed = self._attempt.announced = recovered.running
            self._attempt.hangs.resume(recovered)
            self._attempt.saves_on_stop = recovered.saves_on_stop
            self._attempt.asked_to_save = recovered.asked_to_save
            self.phase = GangPhase.RUNNING if recovered.running else GangPhase.STARTING
            if self.stop is not None:
                return self._end_attempt(StopKind.NOW if recovered.signalled else self.stop.kind, now)
            # the watch tells of a hang once, and what it was to lead to may not have begun
            return (
                []
                if recovered.hang is None
                else self._hang(events.HangFlagged(self.number, *recovered.hang), now)
            )
        if recovered.attempt == 0 or recovered.outcome is None:
            if self.stop is not None:
                return self._finish(*final_state(self.stop.why, self.stop.detail, None))
            return []
        self._reason = recovered.restart_reason or StartReason.RESTART
        if recovered.restart_reason is not None and self.stop is None:
            self.phase, self.deadline = GangPhase.WAITING, now + self._policy.restart_delay
            return []
        return self._go_on(recovered.outcome, recovered.failure, now)

    # before an attempt

    def _prepare(
        self, event: events.NodeReady | events.LeasesGranted | events.LeasesHeld, now: float
    ) -> list[commands.Command]:
        if isinstance(event, events.NodeReady):
            self._recovery.heard(event.node, there=True)
            if not self._ready_barrier.ready(event.node) or self.phase is not GangPhase.PREPARING:
                return []
            self.phase = GangPhase.LEASING
            return [commands.AcquireLeases(node) for node in self._nodes]
        if self.phase not in (GangPhase.LEASING, GangPhase.QUEUED):
            return []
        if isinstance(event, events.LeasesHeld):
            return self._leases_held(event, now)
        return self._launch(StartReason.FIRST) if self._ready_barrier.granted(event.node) else []

    def _leases_held(self, event: events.LeasesHeld, now: float) -> list[commands.Command]:
        holding, news = self._ready_barrier.refused(event)
        given_back: list[commands.Command] = [commands.ReleaseLeases(node) for node in holding]
        if not self._policy.queue:
            refused = commands.AnnounceRefused(event.held_by)
            return [*given_back, refused, *self._finish(FinalState.FAILED, refusal_text(event))]
        self.phase, self.deadline = GangPhase.QUEUED, now + QUEUE_RETRY
        return [*given_back, commands.AnnounceQueued(event.held_by)] if news else given_back

    def _begin_without(self, node: str, why: str) -> list[commands.Command]:
        """A node is lost before the first attempt: a spare, or fewer nodes, begin it."""
        change = self._recovery.lost_early(node, why)
        if change is None:
            return self._finish(FinalState.FAILED, why)
        self._nodes = self._recovery.roster.nodes
        told = commands.AnnounceLeftOut(*change)
        self.phase, self.deadline = GangPhase.PREPARING, None
        if not self._ready_barrier.change(self._nodes):
            return [told]
        self.phase = GangPhase.LEASING
        return [told, *(commands.AcquireLeases(node) for node in self._nodes)]

    def _launch(self, reason: StartReason) -> list[commands.Command]:
        self.number += 1
        self.phase, self.deadline = GangPhase.STARTING, None
        self._attempt = AttemptState(self.number)
        return [commands.LaunchAttempt(self.number, reason, self._recovery.left_out)]

    # while an attempt lives

    def _attempt_event(self, event: events.Event, now: float) -> list[commands.Command]:
        attempt = self._attempt
        if isinstance(event, events.AttemptLaunched):
            return self._launched(event, now)
        if isinstance(event, (events.RanksUp, events.RankProgress)):
            return self._progress(event)
        if isinstance(event, events.HolderLost):
            return [commands.RetakeLeases(event.node)]
        if isinstance(event, events.SavesOnStop):
            known, attempt.saves_on_stop = attempt.saves_on_stop, event.saves
            return [] if known is event.saves else [commands.AnnounceSavesOnStop(self.number, event.saves)]
        if isinstance(event, events.PortLost):
            attempt.port_lost = True
        elif isinstance(event, events.Arrived):
            return attempt.stragglers.arrived(event, self._recovery.places)
        elif isinstance(event, (events.RanksLate, events.Examined)):
            return self._suspicion(event, now)
        elif isinstance(event, events.HangFlagged):
            return self._hang(event, now)
        elif isinstance(event, events.LaunchFailed):
            attempt.place_gone(event.gone, event.why)
            return self._torchrun_gone(event.node, None, completed=False, now=now)
        elif isinstance(event, events.TorchrunExited):
            return self._torchrun_gone(event.node, event.code, completed=event.completed, now=now)
        elif isinstance(event, events.NodeClean):
            return self._node_clean(event, now)
        return []

    def _launched(self, event: events.AttemptLaunched, now: float) -> list[commands.Command]:
        attempt = self._attempt
        if not attempt.launched:
            self._began = now
        attempt.launched.add(event.node)
        # a stop that came while the node was starting could not reach it then
        if attempt.ending is Ending.TERM:
            return [commands.Terminate(event.node)]
        return [commands.Kill(event.node)] if attempt.ending is Ending.KILL else []

    def _progress(self, event: events.RanksUp | events.RankProgress) -> list[commands.Command]:
        attempt = self._attempt
        if isinstance(event, events.RanksUp):
            attempt.up.add(event.node)
        else:
            attempt.progressed = True
            self._recovery.step(event.step)
        if not attempt.is_running(self._nodes, cooperative=self._policy.cooperative_stop):
            return []
        if attempt.announced or self.phase is not GangPhase.STARTING:
            return []
        attempt.announced = True
        self.phase = GangPhase.RUNNING
        self._recovery.running()
        return [commands.AnnounceRunning(self.number)]

    def _suspicion(self, event: events.RanksLate | events.Examined, now: float) -> list[commands.Command]:
        hangs = self._attempt.hangs
        if isinstance(event, events.Examined):
            hangs.examined(event.node, event.examination, event.ranks)
            return self._examine(now)
        over = hangs.late(event.node, event.ranks)
        return [commands.AnnounceHangOver(over)] if over else self._examine(now)

    def _examine(self, now: float) -> list[commands.Command]:
        """Begin an examination if ranks are late; make the verdict once the evidence is there."""
        attempt = self._attempt
        if attempt.ending is not None or not self.phase.has_attempt:
            return []
        judged = attempt.hangs.judged(self._recovery.places, now)
        if judged is not None:
            flagged = judged.flagged(self.number)
            return [*judged.announced(self.number), *(self._hang(flagged, now) if flagged else ())]
        alive = [node for node in attempt.alive(self._nodes) if node not in self._silent]
        name = attempt.hangs.examine(alive, now)
        return [commands.Examine(node, self.number, name) for node in alive] if name else []

    def _hang(self, event: events.HangFlagged, now: float) -> list[commands.Command]:
        if self._policy.on_hang == "stop":
            return self._stop(events.StopRequested(StopKind.NOW, StopCause.HANG, None, event.detail), now)
        if self._policy.on_hang not in ("restart", "exclude") or self._attempt.ending is not None:
            return []
        self._attempt.hang, self._attempt.hung = event.detail, event.rank
        return self._end_attempt(StopKind.NOW, now)

    def _torchrun_gone(
        self, node: str, code: int | None, *, completed: bool, now: float
    ) -> list[commands.Command]:
        attempt = self._attempt
        if not attempt.torchrun_gone(node, code, completed=completed):
            return []
        grace = 0.0 if attempt.ending is Ending.KILL else self._policy.kill_grace
        orders: list[commands.Command] = [commands.CleanUp(node, self.number, grace)]
        if not attempt.alive(self._nodes):
            self.deadline = now + grace + SWEEP_SLACK
        elif attempt.ending is None and code != 0:
            # static rendezvous: the others would wait for ever
            orders += self._end_attempt(StopKind.NOW, now)
        elif attempt.ending is None and self.deadline is None:
            self.deadline = now + NODE_GRACE
        return orders

    def _node_clean(self, event: events.NodeClean, now: float) -> list[commands.Command]:
        news = self._attempt.node_clean(event)
        return self._judge(now) if news and self._attempt.clean == set(self._nodes) else []

    def _silence(
        self, event: events.NodeSilent | events.NodeBack | events.NodeLost, now: float
    ) -> list[commands.Command]:
        if isinstance(event, events.NodeBack):
            self._silent.pop(event.node, None)
            self._recovery.heard(event.node, there=True)
            return []
        # a new attempt gives a node another grace; the time since its last answer still counts
        self._silent.setdefault(event.node, (now - event.seconds, event.heard))
        return self._node_lost(event.node, now) if isinstance(event, events.NodeLost) else []

    def _node_lost(self, node: str, now: float) -> list[commands.Command]:
        """Continue as if its torchrun were gone, and nothing left there."""
        attempt = self._attempt
        self._recovery.heard(node, there=False)
        if node not in self._nodes or self.phase is GangPhase.WAITING:
            return []
        if not self.phase.has_attempt:
            return self._begin_without(node, not_answering(node, now - self._silent[node][0]))
        if node in attempt.clean:
            return []
        self._blame_silent(node, now)
        orders = self._torchrun_gone(node, None, completed=False, now=now)
        return orders + self._node_clean(events.NodeClean(node, self.number, 0, 0, None), now)

    def _blame_silent(self, node: str, now: float) -> None:
        """The attempt fails because this node does not answer."""
        monotonic, heard = self._silent[node]
        ranks = [] if self._attempt.never_ran else ranks_on(self._recovery.roster, node)
        self._attempt.node_gone(node, not_answering(node, now - monotonic, ranks), heard)

    # stopping

    def _stop(self, event: events.StopRequested, now: float) -> list[commands.Command]:
        before, self.stop = self.stop, GangStop.after(self.stop, event)
        if self.stop is before:
            again = (
                event.kind is StopKind.NOW
                and self._attempt.ending is Ending.TERM
                and self.phase is GangPhase.STOPPING
            )
            return self._kill(now) if again else []
        kind, why, detail = self.stop
        orders: list[commands.Command] = [commands.AnnounceStopping(kind, why, event.request, detail)]
        if self.phase.has_attempt:
            return orders + self._end_attempt(kind, now)
        return orders + self._finish(*final_state(why, detail, None))

    def _end_attempt(self, kind: StopKind, now: float) -> list[commands.Command]:
        self.phase = GangPhase.STOPPING
        orders, self.deadline = self._escalation.end(self._attempt, self._nodes, kind, now, self.deadline)
        return orders

    def _kill(self, now: float) -> list[commands.Command]:
        orders, self.deadline = self._escalation.kill(self._attempt, self._nodes, now)
        return orders

    def _tick(self, now: float) -> list[commands.Command]:
        if self.deadline is None or now < self.deadline:
            return []
        self.deadline = None
        if self.phase is GangPhase.QUEUED:
            return [commands.AcquireLeases(node) for node in self._nodes]
        if self.phase is GangPhase.WAITING:
            return self._launch(self._reason)
        if not self.phase.has_attempt:
            return []
        return self._overdue(now)

    def _overdue(self, now: float) -> list[commands.Command]:
        attempt = self._attempt
        alive = attempt.alive(self._nodes)
        if alive and attempt.ending is not Ending.KILL:
            return self._kill(now) if attempt.ending is Ending.TERM else self._end_attempt(StopKind.NOW, now)
        for node in self._nodes:
            if node in self._silent and node not in attempt.clean:
                self._blame_silent(node, now)
        # what SIGKILL does not end is in the kernel's hands: the run's verdict does not wait for it
        attempt.give_up(self._nodes)
        return self._judge(now)

    # after an attempt

    def _judge(self, now: float) -> list[commands.Command]:
        attempt = self._attempt
        self.deadline = None
        cooperative = self._policy.cooperative_stop or attempt.asked_to_save
        outcome = attempt.outcome(stopped=self.stop is not None, cooperative=cooperative)
        failure = attempt.failure_of(outcome)
        ended = commands.EndAttempt(self.number, outcome, failure, attempt.killed, *self._recovery.progress)
        return [ended, *self._go_on(outcome, failure, now)]

    def _go_on(self, outcome: Outcome, failure: events.Failure | None, now: float) -> list[commands.Command]:
        attempt = self._attempt
        if outcome is Outcome.SUCCEEDED:
            return self._finish(FinalState.SUCCEEDED, self._recovery.finished)
        if self.stop is not None:
            return self._finish(*final_state(self.stop.why, self.stop.detail, failure))
        again = self._recovery.same_again(failure)
        restart = self._recovery.after(attempt, failure, now - self._began)
        if restart is None:
            why = attempt.hang or describe_failure(failure)
            return self._finish(FinalState.FAILED, f"{why}{again}{self._recovery.at_least}")
        return self._restart(restart, now)

    def _restart(self, restart: Restart, now: float) -> list[commands.Command]:
        delay = self._policy.restart_delay
        self.phase, self.deadline, self._reason = GangPhase.WAITING, now + delay, restart.reason
        self._nodes = self._recovery.roster.nodes
        return [commands.AnnounceRestart(self.number, delay, *restart)]

    def _finish(self, state: FinalState, why: str) -> list[commands.Command]:
        self.phase, self.deadline = GangPhase.FINISHED, None
        return [commands.Finish(state, why)]


class GangStop(NamedTuple):
    """A stop request. It is never withdrawn, it only gets more urgent."""

    kind: StopKind
    why: StopCause
    detail: str

    @classmethod
    def after(cls, before: GangStop | None, event: StopRequested) -> GangStop:
        """Return the request after `event`: the more urgent kind, with the origin of the first."""
        if before is None:
            return cls(event.kind, event.why, event.detail)
        if before.kind is StopKind.NOW or event.kind is not StopKind.NOW:
            return before
        return before._replace(kind=event.kind)
