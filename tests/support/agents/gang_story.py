"""Scripted histories of a gang, and a clock that only the test moves."""

from __future__ import annotations

import dataclasses

from torchdeck.agent.gang import commands as do
from torchdeck.agent.gang import events as on
from torchdeck.agent.gang.gang import Gang
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import StopCause, StopKind

POLICY = Policy(stop_grace=100.0, kill_grace=10.0, restart_delay=2.0)


RECIPE = dataclasses.replace(POLICY, cooperative_stop=True)


GRACEFUL = on.StopRequested(StopKind.GRACEFUL, StopCause.USER, "r1")


NOW = on.StopRequested(StopKind.NOW, StopCause.USER, "r2")


class Story:
    """A gang and its clock; `tell` feeds events and returns the commands they lead to."""

    def __init__(self, policy: Policy = POLICY, nodes: tuple[str, ...] = ("a",)) -> None:
        self.gang = Gang(nodes, policy)
        self.nodes = nodes
        self.now = 0.0

    def tell(self, *events: on.Event, after: float = 0.0) -> list[do.Command]:
        self.now += after
        return [command for event in events for command in self.gang.handle(event, self.now)]

    def launch(self) -> Story:
        """Up to torchrun running on every node."""
        self.tell(
            *(on.NodeReady(node) for node in self.nodes), *(on.LeasesGranted(node) for node in self.nodes)
        )
        return self.up()

    def up(self) -> Story:
        self.tell(*(on.AttemptLaunched(node, self.gang.number) for node in self.nodes))
        return self

    def train(self) -> Story:
        """Up to training."""
        self.launch()
        number = self.gang.number
        self.tell(*(on.RanksUp(node, number) for node in self.nodes), on.RankProgress(number, 0, 1))
        return self

    def exit(self, code: int | None, node: str = "a", *, completed: bool = False) -> list[do.Command]:
        return self.tell(on.TorchrunExited(node, self.gang.number, code, completed))

    def clean(self, node: str = "a", failure: on.Failure | None = None) -> list[do.Command]:
        return self.tell(on.NodeClean(node, self.gang.number, 0, 0, failure))


def kinds(commands: list[do.Command]) -> list[str]:
    return [type(command).__name__ for command in commands]


def finish(commands: list[do.Command]) -> do.Finish:
    last = commands[-1]
    assert isinstance(last, do.Finish)
    return last


def failure(rank: int | None = 1, time: float = 5.0) -> on.Failure:
    return on.Failure(rank, 1, None, "ValueError: no", None, time)
