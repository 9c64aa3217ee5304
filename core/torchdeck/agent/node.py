"""This node, as the gang's commands see it: leases, one attempt at a time, signals, sweeps."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.agent.attempt.attempt_plan import Given, PreparedAttempt, describe_size
from torchdeck.agent.attempt.handover import NOTHING, Handover, MissingSecretError
from torchdeck.agent.attempt.local_attempt import LINGER_LIMIT, LocalAttempt
from torchdeck.agent.attempt.preparation import Preparation
from torchdeck.agent.gang import events
from torchdeck.agent.gang.events import Failure
from torchdeck.agent.gang.verdict import started_again
from torchdeck.agent.heartbeat import last_beat
from torchdeck.agent.node_devices import NodeDevices
from torchdeck.agent.processes.ending import INTERVAL as TREE_INTERVAL
from torchdeck.agent.processes.ending import OrphanCleanup, TorchrunTree, kill_all
from torchdeck.agent.ranks.failures import first_failure, torchrun_failure
from torchdeck.agent.ranks.full_disk import with_inodes
from torchdeck.agent.ranks.kill_cause import KillWitness, with_kill_cause
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import NODE_VARIABLE, ProcessIdentity, boot_id
from torchdeck.contract.run_states import StartReason
from torchdeck.contract.waiting import wait_for

if TYPE_CHECKING:
    from torchdeck.agent.environments.make import Environment

OWN_RANKS_INTERVAL = 2.0
"""Seconds between two looks at the tree of a plain process, which may start ranks at any time."""
MAKING_INTERVAL = 1.0
"""Seconds between two lines on the progress of an environment."""
SWEEP_LIMIT = 10.0
"""Seconds after SIGKILL until processes that are still alive are given up."""
RETIRE_LIMIT = 2.0
TOLD_LIMIT = 2.0
"""Seconds in which a torchrun that was asked to end does so after all of its ranks.

At the exit barrier, where it waits for other nodes, it hears nothing for minutes.
"""


class LocalNode:
    """Carries out what the gang orders on this node.

    Attributes:
        devices: what of this node's the run has leased.
        local: the current attempt, once there is one.
        prepared: its plan, slots filled.
        stopped_at: unix time of the first signal we sent in it.
    """

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        name: str,
        journal: JournalWriter,
        agent: Sequence[str],
        handover: Handover = NOTHING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        node = plan.node(name)
        self.local: LocalAttempt | None = None
        self.prepared: PreparedAttempt | None = None
        self.stopped_at: float | None = None
        self._layout = layout
        self._plan = plan
        self._name = name
        self._journal = journal
        self._agent = tuple(agent)
        self._handover = handover
        self._clock = clock
        self._label = name if NODE_VARIABLE in node.env else ""
        self._shipped = Path(__file__).resolve().parents[2]
        self._ranks = _ranks_on(plan, name)
        self.devices = NodeDevices(layout, plan, name, journal)
        self._attempt_plan = plan
        self._preparation: Preparation | None = None
        self._environment: Environment | None = None
        self._told_making = ""
        self._tell_making_again = 0.0
        self._number = 0
        self._killed = 0
        self._reason = StartReason.FIRST
        self._sweep: OrphanCleanup | None = None
        self._swept_at = 0.0
        self._tree = TorchrunTree()
        self._found_ranks: dict[int, int] = {}
        self._kills = KillWitness()
        self._former_holder: ProcessIdentity | None = None
        self._last_beat = 0.0
        """When the previous agent was last alive, in unix seconds."""

    @property
    def plan(self) -> LaunchPlan:
        """Plan of the current attempt, its slots filled once it is prepared; of all before the first."""
        return self._attempt_plan if self.prepared is None else self.prepared.plan

    @property
    def descriptors(self) -> list[int]:
        return self.local.descriptors if self.local is not None else []

    @property
    def urgent(self) -> bool:
        """Something is under way that no descriptor announces."""
        busy = self._preparation is not None or self._sweep is not None
        return busy or (self.local is not None and self.local.urgent)

    @property
    def torchrun(self) -> ProcessIdentity | None:
        return self.local.torchrun if self.local is not None else None

    @property
    def _holder(self) -> ProcessIdentity | None:
        return self.local.holder if self.local is not None else None

    # orders

    def launch(self, number: int, reason: StartReason, plan: LaunchPlan, given: Given | None = None) -> None:
        """Begin an attempt by its own plan, slots empty; `poll` tells when torchrun is up."""
        self._retire_holder()
        self._take_part(plan)
        if not self.devices.leases.held:
            self.devices.retake()
        self.local = None
        self.prepared, self.stopped_at, self._reason, self._number = None, None, reason, number
        self._killed = 0
        self._kills.begin()
        self._tree = TorchrunTree(OWN_RANKS_INTERVAL if not plan.node(self._name).torchrun else TREE_INTERVAL)
        self._found_ranks = {}
        devices = self.devices.names if number > 1 and (self._plan.smaller or self._plan.spares) else ()
        self._drop_environment()
        asked = self._handover.resume_args
        self._preparation = Preparation(
            self._layout, plan, number, self._shipped, devices, given, asked, self._name
        )

    def _take_part(self, plan: LaunchPlan) -> None:
        """Take what the attempt uses of this node; its unused devices are free for others."""
        self._attempt_plan = plan
        self._ranks = _ranks_on(plan, self._name)
        self.devices.narrow(plan.node(self._name).devices)

    def abandon(self) -> events.Event | None:
        """Give up an attempt whose torchrun has not been started; None when there is none such."""
        if self._preparation is None:
            return None
        self._preparation.making.cancel()
        number, self._preparation = self._preparation.number, None
        return events.TorchrunExited(self._name, number, None, completed=False)

    def remember_holder(self, attempt: int) -> None:
        """Remember the shim of a finished attempt: it ends once the next one has begun."""
        content = read_json(self._layout.attempt(attempt).node(self._name).holder)
        if isinstance(content, dict):
            self._former_holder = ProcessIdentity.from_json(content.get("holder"))

    def adopt(self, number: int, plan: LaunchPlan, stopped_at: float | None) -> None:
        """Take over an attempt that an earlier agent started."""
        self._number = number
        self._kills.adopt()
        self._take_part(plan)
        self.local = self._local(number, plan)
        self.local.adopt()
        self._last_beat = last_beat(self._layout.node(self._name).heartbeat)
        self.stopped_at = stopped_at
        self.devices.retake_if_free(self._holder)

    def terminate(self) -> int:
        """SIGTERM to torchrun; how many got it."""
        self._tree.look(self.torchrun)
        self.stopped_at = self.stopped_at or time.time()
        return self.local.terminate() if self.local is not None else 0

    def kill(self) -> int:
        """SIGKILL to everything of the run; how many got it."""
        self._tree.look(self.torchrun)
        self.stopped_at = self.stopped_at or time.time()
        count = kill_all(self._layout.root.name, self.torchrun, self._label)
        self._killed += count
        return count

    def sweep(self, grace: float) -> None:
        """Begin to end what torchrun left; `poll` tells when nothing is left."""
        self._swept_at = time.time()
        self._sweep = OrphanCleanup(
            self._layout.root.name, self.torchrun, grace, SWEEP_LIMIT, self._clock(), self._label
        )
        self._sweep.remember(self._tree.processes)
        self.devices.retake_if_free(self._holder)

    def release(self) -> None:
        """Finish the run: return the devices, end the shim."""
        self._retire_holder()
        self.devices.leases.release()

    # what happened

    def poll(self, exits: Mapping[int, int]) -> list[events.Event]:
        """Events since the last call.

        Args:
            exits: rank → exit code, as read from the ranks' files.
        """
        if self._preparation is not None:
            return self._poll_preparation()
        self._kills.look()
        happened = self.local.poll(self._name) if self.local is not None else []
        self._journal_strangers()
        if self._sweep is not None:
            happened += self._poll_sweep(exits)
        elif self._ends_torchrun(exits):
            self._journal.append("signalled", signal="SIGKILL", count=1)
        elif self.local is not None and self.local.torchrun_alive and self._tree.is_due:
            self._tree.look(self.torchrun)
            if self.local.is_plain:
                self._journal_found_ranks()
        if any(isinstance(event, events.AttemptLaunched) for event in happened):
            self.journal_start(self._reason)
        return happened

    def _journal_found_ranks(self) -> None:
        """Journal which processes of a plain process have become ranks, when that has changed."""
        found = self._tree.ranks(self._layout.attempt(self._number).spawned)
        if found and found != self._found_ranks:
            self._found_ranks = found
            ranks = {str(rank): pid for rank, pid in found.items()}
            self._journal.append("ranks_found", attempt=self._number, ranks=ranks)

    def _journal_strangers(self) -> None:
        news = self.local.strangers.news() if self.local is not None else None
        if news is not None:
            self._journal.append("strangers", **news)

    def _ends_torchrun(self, exits: Mapping[int, int]) -> bool:
        local = self.local
        if local is None or self._waits_for_others:
            return False
        linger = LINGER_LIMIT if len(self._attempt_plan.nodes) == 1 else TOLD_LIMIT
        return local.end_if_alone(exits, self._clock(), linger)

    @property
    def _waits_for_others(self) -> bool:
        """Return whether torchrun waits for other nodes' ranks too, as it does unless it was asked to end."""
        return len(self._attempt_plan.nodes) > 1 and self.stopped_at is None

    def journal_start(self, reason: StartReason) -> None:
        """Journal the attempt whose torchrun is up."""
        assert self.local is not None  # noqa: S101 - for the type checker: someone just found it running
        prepared, holder = self.prepared, self.local.holder
        fields = describe_size(self._attempt_plan, self._plan, self._name)
        if prepared is not None and prepared.from_scratch:
            fields["from_scratch"] = prepared.from_scratch
        self._journal.append(
            "attempt_started",
            attempt=self.local.number,
            port=prepared.port if prepared is not None else None,
            resume=prepared.resume if prepared is not None else "",
            resume_step=prepared.resume_step if prepared is not None else None,
            reason=reason,
            holder=None if holder is None else holder.to_json(),
            **fields,
        )

    def _poll_preparation(self) -> list[events.Event]:
        preparation = self._preparation
        if preparation is None:
            return []
        self._journal_making(preparation.making.text)
        if not preparation.done:
            return []
        self._preparation, self._environment = None, preparation.environment
        if self._environment is not None:
            self._journal.append(
                "environment_ready", key=self._environment.key, source=self._environment.source
            )
        for path, why in preparation.damaged:
            self._journal.append("checkpoint_damaged", path=path, why=why)
        number = preparation.number
        if preparation.prepared is None:
            return [events.LaunchFailed(self._name, number, preparation.error)]
        problem = self.devices.problem(preparation.gone)
        if problem is not None:
            return [events.LaunchFailed(self._name, number, *problem)]
        self.prepared = preparation.prepared
        self.local = self._local(number, self.prepared.plan)
        try:
            held = () if self._environment is None else (self._environment.lock,)
            self.local.start((*self.devices.leases.descriptors, *held), self._agent)
        except (OSError, MissingSecretError) as error:
            return [events.LaunchFailed(self._name, number, f"the shim could not be started: {error}")]
        return []

    def _journal_making(self, text: str) -> None:
        """Journal what is being done for the ranks' environment, when that has changed; empty: no more."""
        now = self._clock()
        if text != self._told_making and (not text or now >= self._tell_making_again):
            self._told_making, self._tell_making_again = text, now + MAKING_INTERVAL
            self._journal.append("environment", durable=False, node=self._name, text=text)

    def _drop_environment(self) -> None:
        """Let go of the former attempt's environment: its shim has a copy of the lock."""
        if self._environment is not None:
            os.close(self._environment.lock)
            self._environment = None

    def _poll_sweep(self, exits: Mapping[int, int]) -> list[events.Event]:
        local, sweep = self.local, self._sweep
        if sweep is None:
            return []
        left = sweep.step(self._clock())
        if left is None:
            return []
        if left:
            print(f"{left} processes of the run survived SIGKILL", file=sys.stderr, flush=True)
        self._sweep = None
        if local is None:
            return [events.NodeClean(self._name, self._number, self._killed + sweep.killed, left, None)]
        stopped = self.stopped_at is not None
        until = min(self.stopped_at or self._swept_at, self._swept_at)
        log = local.files.torchrun_log
        failure = first_failure(local.attempt, self._ranks, log, until, stopped=stopped)
        code = local.code if local.code is not None else local.ranks_say(exits)
        if failure is None and code != 0:
            failure = self._torchrun_failure(local, code, stopped=stopped)
        if failure is not None:
            failure = with_inodes(with_kill_cause(failure, local.attempt, self._kills), self._layout.root)
        local.close()
        return [events.NodeClean(self._name, local.number, self._killed + sweep.killed, left, failure)]

    def _torchrun_failure(self, local: LocalAttempt, code: int | None, *, stopped: bool) -> Failure | None:
        """Why torchrun ended, if no rank says it."""
        if local.torchrun is not None and local.torchrun.boot != boot_id():
            why = started_again(self._name, self._ranks)
            return Failure(None, None, None, why, None, self._last_beat, gone=True)
        return None if stopped or local.torchrun is None else torchrun_failure(code, local.files.torchrun_log)

    def _local(self, number: int, plan: LaunchPlan) -> LocalAttempt:
        node = plan.node(self._name)
        return LocalAttempt(
            number, node, self._layout.attempt(number), self._ranks, self._handover, self._clock
        )

    def _retire_holder(self) -> None:
        """End the former attempt's shim: it has nothing left to hold, the next keeps the agent alive."""
        holder = self.local.holder if self.local is not None else self._former_holder
        if holder is None or not holder.send(signal.SIGKILL):
            return
        wait_for(lambda: not holder.is_alive(), RETIRE_LIMIT, 0.002)


def _ranks_on(plan: LaunchPlan, name: str) -> list[int]:
    return [placement.rank for placement in plan.ranks if placement.node == name]
