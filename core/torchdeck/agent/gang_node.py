"""A node of several: what all share of an attempt is asked for first, and given by the leader."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.agent.attempt.attempt_plan import Given
from torchdeck.agent.attempt.preparation import Vote
from torchdeck.agent.gang import commands, events
from torchdeck.agent.node import LocalNode
from torchdeck.contract.plan.launch_plan import LaunchPlan


class GangNode(LocalNode):
    """Takes every order as often as it comes: connections break, and either agent may be a new one."""

    leads = False
    _vote: Vote | None = None
    _gathered: tuple[int, LaunchPlan] | None = None
    _clean = 0
    """The attempt without remaining processes here."""
    _terminated = 0
    """Number of the attempt whose torchrun was asked to end."""
    _alone = 0
    """Number of the attempt that is detached here without a leader."""

    @property
    def number(self) -> int:
        """Number of the attempt that this node takes part in, 0 before the first."""
        return self._number

    @property
    def urgent(self) -> bool:
        return super().urgent or self._vote is not None

    def gather(self, command: commands.Gather, plan: LaunchPlan) -> None:
        """Find out what the node can begin the attempt with; what an earlier one left is ended first."""
        if command.attempt < self._number or (command.attempt == self._number and self._began):
            return
        self._gathered = (command.attempt, plan)
        if self._began and self._clean != self._number:
            self.kill()
            self.sweep(0.0)
        elif self._sweep is None:
            self._offer()

    def launch_given(self, command: commands.Launch, plan: LaunchPlan) -> None:
        """Begin the attempt with what the leader gives."""
        if command.attempt < self._number or (command.attempt == self._number and self._began):
            return
        self._gathered = self._vote = None
        given = Given(command.port, command.resume, self._name, self.leads)
        self.launch(command.attempt, command.reason, plan, given)

    def abandon_attempt(self, number: int) -> events.Event | None:
        """Give up an attempt that has not started torchrun here; None if it has."""
        started = self._began and number == self._number and self._preparation is None
        if started or number < self._number:
            return None
        if self.local is not None:
            self._former_holder = self.local.holder
        for pending in (self._preparation, self._vote):
            if pending is not None:
                pending.making.cancel()
        self._number, self._preparation = number, None
        self._gathered = self._vote = self.local = None
        return events.TorchrunExited(self._name, number, None, completed=False)

    def go_alone(self, number: int) -> None:
        """No one waits for this node in attempt `number`, nor is it to wait for anybody."""
        self._alone = number

    def go_together(self) -> None:
        """The leader is back: undo `go_alone`."""
        self._alone = 0

    def terminate(self) -> int:
        """End as on one node; a torchrun that was asked before is not asked again."""
        if self._terminated == self._number:
            return 0
        count = super().terminate()
        if count:
            self._terminated = self._number
        return count

    def poll(self, exits: Mapping[int, int]) -> list[events.Event]:
        happened = super().poll(exits)
        for event in list(happened):
            if isinstance(event, events.NodeClean):
                self._clean = event.attempt
                if self._gathered is not None and event.attempt < self._gathered[0]:
                    happened.remove(event)  # the leader has gone on
                    self._offer()
        if self._vote is not None:
            self._journal_making(self._vote.making.text)
        if self._vote is not None and self._vote.done:
            happened.append(self._offered(self._vote))
        return happened

    @property
    def _waits_for_others(self) -> bool:
        return super()._waits_for_others and self._alone != self._number

    @property
    def _began(self) -> bool:
        return self.local is not None or self._preparation is not None

    def _offer(self) -> None:
        if self._gathered is not None:
            number, plan = self._gathered
            self._gathered = None
            self._vote = Vote(self._layout, plan, number, self._name)

    def _offered(self, vote: Vote) -> events.Event:
        self._vote = None
        for path, why in vote.damaged:
            self._journal.append("checkpoint_damaged", path=path, why=why)
        return vote.offered
