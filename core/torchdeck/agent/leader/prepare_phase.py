"""Prepare phase: votes of an attempt's nodes, until all have voted and the leader has chosen. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.agent.attempt.resume_points import AttemptError, common_point
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.recovered_state import Launching
from torchdeck.contract.plan.elastic import Place


class PreparePhase:
    """One attempt before its start.

    Attributes:
        chosen: every node's order to start, once there is one.
        given_up: nothing of it will be started.
    """

    def __init__(self, command: commands.LaunchAttempt, nodes: Sequence[str], resume: str = "auto") -> None:
        """Nothing is asked yet; `resume` is checkpoint.resume, as in the plan."""
        self.number = command.attempt
        self.nodes = tuple(nodes)
        self.chosen: tuple[commands.Launch, ...] = ()
        self.given_up = False
        self._command = command
        self._resume = resume
        self._offers: dict[str, events.Offered] = {}

    @classmethod
    def resumed(cls, launching: Launching, nodes: Sequence[str]) -> PreparePhase:
        """One whose start an earlier lead has journaled."""
        prepare_phase = cls(
            commands.LaunchAttempt(launching.attempt, launching.reason, launching.left_out), nodes
        )
        prepare_phase.chosen = tuple(commands.Launch(node, *launching) for node in nodes)
        return prepare_phase

    @property
    def orders(self) -> list[commands.Command]:
        """Return the requests to every node."""
        return [commands.Gather(node, self.number, self.left_out) for node in self.nodes]

    @property
    def left_out(self) -> tuple[Place, ...]:
        return self._command.left_out

    def offered(self, offer: events.Offered) -> list[events.Event]:
        """Take a node's vote; return events for the gang if it cannot start."""
        if offer.attempt != self.number or offer.node not in self.nodes or self.chosen or self.given_up:
            return []
        if offer.error:
            return [events.LaunchFailed(offer.node, self.number, f"{offer.error} (on node {offer.node})")]
        if any(not point.has_plain_name for point in offer.points):
            why = f"node {offer.node} offers a checkpoint whose name is none of a folder"
            return [events.LaunchFailed(offer.node, self.number, why)]
        self._offers[offer.node] = offer
        if len(self._offers) < len(self.nodes):
            return []
        try:
            self._choose()
        except AttemptError as error:
            return [events.LaunchFailed(self.nodes[0], self.number, str(error))]
        return []

    def _choose(self) -> None:
        point = common_point({node: self._offers[node].points for node in self.nodes}, self._resume)
        port = self._offers[self.nodes[0]].port
        if port is None:
            raise AttemptError(f"node {self.nodes[0]} named no port for the rendezvous")
        reason = self._command.reason
        self.chosen = tuple(
            commands.Launch(node, self.number, reason, port, point, self.left_out) for node in self.nodes
        )
