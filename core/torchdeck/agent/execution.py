"""Carries out on this node what was decided, and journals what is news."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.agent.attempt.attempt_plan import Given, prepare_attempt
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.verdict import is_resumable
from torchdeck.agent.gang_node import GangNode
from torchdeck.agent.node import LocalNode
from torchdeck.agent.ranks.failures import signal_of
from torchdeck.agent.role import Role
from torchdeck.agent.snapshots.written_files import Bringing, Written, written_beside
from torchdeck.contract.atomic import write_bytes, write_json
from torchdeck.contract.file_names import text_of
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import PatientJournalWriter
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout
from torchdeck.contract.plan.elastic import Elastic, Place, smaller_plan
from torchdeck.contract.plan.launch_plan import LaunchPlan

if TYPE_CHECKING:
    from torchdeck.agent.ranks.observation import Observation

BRINGING_BEAT = 1.0
"""Seconds between heartbeats while files are brought to the project."""
SHOWN_RESULTS = 8
"""Maximum number of files written next to the code that are journaled by name."""


class Execution:
    """One node's hands.

    Attributes:
        finished: the run is over here.
    """

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        name: str,
        journal: PatientJournalWriter,
        node: LocalNode,
        part: Role,
        seen: Callable[[], Observation],
        beat: Callable[[], None],
    ) -> None:
        """Initialise; `beat` writes a heartbeat."""
        self.finished, self._beat = False, beat
        self._layout, self._plan, self._name, self._journal = layout, plan, name, journal
        self._node, self._role, self._seen = node, part, seen
        self._elastic = Elastic.of_plan(plan)

    def carry_out(self, command: commands.Command) -> list[events.Event]:
        """Do it; returns what that leads to at once."""
        if isinstance(command, commands.AcquireLeases):
            return [self._node.devices.acquire()]
        if isinstance(command, commands.ReleaseLeases):
            self._node.devices.leases.release()
        elif isinstance(command, commands.RetakeLeases):
            self._node.devices.retake()
        elif isinstance(command, commands.TouchStop):
            self._touch_stop(command.attempt)
        elif isinstance(command, commands.Terminate):
            self._signalled("SIGTERM", self._node.terminate())
        elif isinstance(command, commands.Kill):
            self._signalled("SIGKILL", self._node.kill())
        elif isinstance(command, (commands.Examine, commands.Profile)):
            self._look_into(command)
        elif isinstance(command, commands.CleanUp):
            self._node.sweep(command.grace)
        elif isinstance(command, commands.LaunchAttempt):
            self._node.launch(command.attempt, command.reason, self._plan_without(command.left_out))
        elif isinstance(
            command,
            (commands.Gather, commands.Launch, commands.Abandon, commands.GoAlone, commands.GoTogether),
        ):
            return self._among_nodes(command)
        elif isinstance(command, (commands.EndAttempt, commands.CloseAttempt)):
            return self._end_attempt(command)
        elif isinstance(command, (commands.Finish, commands.Leave)):
            self._finish(command)
        else:
            self._announce(command)
        return []

    def _look_into(self, command: commands.Examine | commands.Profile) -> None:
        doctor = self._seen().doctor
        if doctor is None:
            return
        if isinstance(command, commands.Examine):
            doctor.examine(command.examination)
        else:
            doctor.profile(command.profile, command.ranks, command.seconds)

    def _among_nodes(
        self,
        command: commands.Gather
        | commands.Launch
        | commands.Abandon
        | commands.GoAlone
        | commands.GoTogether,
    ) -> list[events.Event]:
        node = self._node
        if not isinstance(node, GangNode):
            raise TypeError(f"{type(command).__name__} is for a node of several")
        if isinstance(command, commands.Abandon):
            event = node.abandon_attempt(command.attempt)
            return [] if event is None else [event]
        if isinstance(command, commands.GoAlone):
            node.go_alone(command.attempt)
            return []
        if isinstance(command, commands.GoTogether):
            node.go_together()
            return []
        plan = self._plan_without(command.left_out)
        if self._name not in [part.name for part in plan.nodes]:
            return self._write_plan(command, plan)
        if isinstance(command, commands.Launch):
            node.launch_given(command, plan)
            return []
        ended = self._seen().end() if node.number and node.number < command.attempt else []
        node.gather(command, plan)
        return ended

    def _write_plan(self, command: commands.Gather | commands.Launch, plan: LaunchPlan) -> list[events.Event]:
        """A leader without ranks still decides, and keeps the record of decisions."""
        if isinstance(command, commands.Launch):
            shipped = Path(__file__).resolve().parents[2]
            given = Given(command.port, None, self._name, leads=True)
            prepare_attempt(self._layout, plan, command.attempt, shipped, lambda *_: None, given)
        return []

    def _plan_without(self, left_out: tuple[Place, ...]) -> LaunchPlan:
        return smaller_plan(self._plan, self._elastic.without(left_out) or self._elastic.full)

    def _signalled(self, name: str, count: int) -> None:
        if count or self._role.leads:
            self._journal.append("signalled", signal=name, count=count)

    def _announce(self, command: commands.Command) -> None:
        if isinstance(command, commands.AnnounceQueued):
            self._journal.append(
                "queued", devices=[held.get("device") for held in command.held_by], held_by=command.held_by
            )
        elif isinstance(command, commands.AnnounceRefused):
            self._journal.append("refused", held_by=command.held_by)
        elif isinstance(command, commands.AnnounceRunning):
            self._journal.append("running", attempt=command.attempt)
        elif isinstance(command, commands.AnnounceSavesOnStop):
            self._journal.append("saves_on_stop", **command._asdict())
        elif isinstance(command, commands.AnnounceHang):
            self._announce_verdict("hang", command)
        elif isinstance(command, commands.AnnounceExamined):
            self._announce_verdict("examined", command)
        elif isinstance(command, commands.AnnounceStraggler):
            self._journal.append("straggler", **command._asdict())
        elif isinstance(command, commands.AnnounceStragglerOver):
            self._journal.append("straggler_over", **command._asdict())
        elif isinstance(command, commands.AnnounceHangOver):
            for rank in command.ranks:
                self._journal.append("hang_over", rank=rank)
        elif isinstance(command, commands.AnnounceStopping):
            self._journal.append("stopping", **command._asdict())
        elif isinstance(command, commands.AnnounceLeftOut):
            suspect = command.suspect
            self._journal.append(
                "left_out", **{**command._asdict(), "suspect": suspect and suspect._asdict()}
            )
        elif isinstance(command, commands.AnnounceRestart):
            resume, suspect = self._seen().newest_checkpoint, command.suspect
            told = {**command._asdict(), "suspect": suspect and suspect._asdict()}
            self._journal.append("restarting", **told, resume=resume)

    def _announce_verdict(
        self, event: str, command: commands.AnnounceHang | commands.AnnounceExamined
    ) -> None:
        """Write the verdict next to its evidence, then journal it."""
        value = {**command._asdict(), "v": FORMAT_VERSION}
        folder = self._layout.attempt(command.attempt).examination(command.examination)
        try:
            write_json(folder.verdict, value)
        except OSError as error:
            print(f"the verdict cannot be written: {error}", file=sys.stderr, flush=True)
        self._journal.append(event, **command._asdict())

    def _touch_stop(self, attempt: int) -> None:
        try:
            write_bytes(self._layout.attempt(attempt).stop, b"")
        except OSError as error:
            # the stop's deadline still ends the ranks
            print(f"the ranks cannot be asked to stop: {error}", file=sys.stderr, flush=True)

    def _end_attempt(self, command: commands.EndAttempt | commands.CloseAttempt) -> list[events.Event]:
        happened = self._seen().end()
        if isinstance(command, commands.CloseAttempt):
            self._journal.append("attempt_over", attempt=command.attempt, outcome=command.outcome)
            return happened
        failure = command.failure
        if failure is not None and failure.signal is None:
            failure = failure._replace(signal=signal_of(failure.code))
        self._journal.append(
            "attempt_ended",
            attempt=command.attempt,
            outcome=command.outcome,
            first_failure=None if failure is None else failure._asdict(),
            killed=command.killed,
            step=command.step,
            saved=command.saved,
        )
        return happened

    def _journal_results(self) -> None:
        """Journal files that the program wrote next to its code, after bringing them to a project here."""
        if not self._plan.code.folder:
            return
        if self._name == LOCALHOST:
            bringing = Bringing(self._layout, Path(self._plan.code.folder))
            while not bringing.wait(BRINGING_BEAT):
                self._beat()
            written = bringing.written
        else:
            written = Written(left=tuple(written_beside(self._layout)))
        if written.brought or written.left:
            self._journal.append(
                "results",
                node=self._name,
                brought=_shortened(written.brought),
                left=_shortened(written.left),
            )

    def _finish(self, command: commands.Finish | commands.Leave) -> None:
        self.finished = True
        self._journal_results()
        if isinstance(command, commands.Leave):
            told = {"may_return": True} if command.may_return else {}
            self._journal.append("node_finished", why=command.why, attempt=self._role.number, **told)
            return
        checkpoint = self._seen().newest_checkpoint
        self._journal.append(
            "finished",
            state=command.state,
            why=command.why,
            resumable=is_resumable(command.state, checkpoint),
            checkpoint=checkpoint,
            attempt=self._role.number,
        )


def _shortened(names: Sequence[str]) -> dict[str, Any]:
    return {"count": len(names), "names": [text_of(name) for name in names[:SHOWN_RESULTS]]}
