"""Scripted histories of a gang, and a clock that only the test moves."""

from __future__ import annotations

import dataclasses

from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import StopCause, StopKind

POLICY = Policy(stop_grace=100.0, kill_grace=10.0, restart_delay=2.0)


RECIPE = dataclasses.replace(POLICY, cooperative_stop=True)


GRACEFUL = events.StopRequested(StopKind.GRACEFUL, StopCause.USER, "r1")


NOW = events.StopRequested(StopKind.NOW, StopCause.USER, "r2")


class Story:
    """A gang and its clock; `tell` feeds events and returns the commands they lead to."""

    def __init__(self, policy: Policy = POLICY, nodes: tuple[str, ...] = ("a",)) -> None:
        self.gang = Gang(nodes, policy)
        self.nodes = nodes
        self.now = 0.0

    def tell(self, *happened: events.Event, after: float = 0.0) -> list[commands.Command]:
        self.now += after
        return [command for event in happened for command in self.gang.handle(event, self.now)]

    def launch(self) -> Story:
        """Up to torchrun running on every node."""
        self.tell(
            *(events.NodeReady(node) for node in self.nodes),
            *(events.LeasesGranted(node) for node in self.nodes),
        )
        return self.up()

    def up(self) -> Story:
        self.tell(*(events.AttemptLaunched(node, self.gang.number) for node in self.nodes))
        return self

    def train(self) -> Story:
        """Up to training."""
        self.launch()
        number = self.gang.number
        self.tell(*(events.RanksUp(node, number) for node in self.nodes), events.RankProgress(number, 0, 1))
        return self

    def exit(self, code: int | None, node: str = "a", *, completed: bool = False) -> list[commands.Command]:
        return self.tell(events.TorchrunExited(node, self.gang.number, code, completed))

    def clean(self, node: str = "a", failure: events.Failure | None = None) -> list[commands.Command]:
        return self.tell(events.NodeClean(node, self.gang.number, 0, 0, failure))


def kinds(orders: list[commands.Command]) -> list[str]:
    return [type(command).__name__ for command in orders]


def finish(orders: list[commands.Command]) -> commands.Finish:
    last = orders[-1]
    assert isinstance(last, commands.Finish)
    return last


def failure(rank: int | None = 1, time: float = 5.0) -> events.Failure:
    return events.Failure(rank, 1, None, "ValueError: no", None, time)
