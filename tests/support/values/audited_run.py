"""A recipe run that is over, by values: its plans, what its ranks recorded and measured."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from support.ranks.recipe_ranks import recipe_settings
from support.values.histories import ALIVE, controller_journal, ended, finished, fold, running_run
from support.values.made_runs import make_run
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan, RankPlacement
from torchdeck.contract.plan.policy import CheckpointPolicy, Policy, StdoutPolicy
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.data.order import SampleOrder
from torchdeck.data.sample_log import SampleLogHeader, SampleLogWriter
from torchdeck.data.step_order import SeededSteps, StepOrder
from torchdeck.runs.view import RunView
from torchdeck.telemetry.writer import MetricsWriter

SIZE, MICROBATCH, SEED = 20, 3, 4
WORLD = 2
PER_EPOCH = 4
"""Steps: 20 samples at 6 a step."""

Change = Callable[[int, list[list[int]]], list[list[int]] | None]
"""(step, planned ids of each microbatch) → what is recorded instead; None: no record."""


def steps_of(size: int = SIZE, world: int = WORLD) -> SeededSteps:
    return SeededSteps(SampleOrder(size, SEED), microbatch=MICROBATCH, accumulation=1, world_size=world)


@dataclasses.dataclass
class AuditedRun:
    """One run; make it, then let attempts record."""

    home: Path
    prediction: Prediction | None = None
    kind: str = "recipe"
    batch_plan: str | None = None
    device: str = "cpu"
    state: str = "SUCCEEDED"
    steps: int | None = 8
    """Of the whole training; None: the two epochs of the batch plan."""

    def __post_init__(self) -> None:
        end = [] if self.state == "RUNNING" else [ended(), finished(self.state)]
        self.events = [*running_run(), *end]
        self.layout: RunLayout = make_run(
            self.home, controller_journal(), self.events, plan=self.plan().document()
        )

    def plan(self) -> LaunchPlan:
        length = {"steps": self.steps, "epochs": 2.0 if self.steps is None else None}
        table: dict[str, Any] = {
            "microbatch": MICROBATCH,
            "seed": SEED,
            "batch_plan": self.batch_plan,
            **length,
        }
        settings = recipe_settings(self.home, **table)
        node = NodePlan(
            name="localhost",
            address="127.0.0.1",
            node_rank=0,
            nproc=WORLD,
            devices=(),
            working_dir=".",
            torchrun=(),
            rank_holder=(),
            command=(),
            env={"TORCHDECK_RECIPE": json.dumps(settings)},
            unset=(),
        )
        return LaunchPlan(
            name="gpt",
            kind=self.kind,
            target="byte-gpt",
            strategy="ddp",
            backend="gloo",
            world_size=WORLD,
            ranks=tuple(RankPlacement(rank, "localhost", 0, rank, self.device) for rank in range(WORLD)),
            nodes=(node,),
            batch=None,
            checkpoint=CheckpointPolicy("checkpoints", "auto", None, 3),
            stdout=StdoutPolicy(enabled=False),
            policy=Policy(),
            slots={},
            code=CodeTree(),
            prediction=self.prediction,
        )

    def attempt(
        self,
        number: int,
        first: int,
        last: int,
        *,
        changes: Mapping[int, Change] | None = None,
        order: StepOrder | None = None,
        world: int = WORLD,
        before: StepOrder | None = None,
    ) -> None:
        """Let an attempt record steps `first` to `last`, rank by rank as `changes` say.

        `order` is its own, and `before` gave the steps up to `first` where that was another one.
        """
        order = steps_of(world=world) if order is None else order
        position = order.start
        for step in (before or order).steps(order.start):
            if step.after.step >= first:
                break
            position = step.after
        layout = self.layout.attempt(number)
        layout.root.mkdir(exist_ok=True)
        layout.plan.write_text(json.dumps(self.plan().document()))
        for rank in range(world):
            header = SampleLogHeader(order.size, rank, world, position.to_json(), order.batch_plan)
            writer = SampleLogWriter(layout.rank(rank).samples, header)
            for step in order.steps(position):
                if step.after.step > last:
                    break
                planned = [part.tolist() for part in step.parts(rank)]
                change = (changes or {}).get(rank)
                used = planned if change is None else change(step.after.step, planned)
                if used is not None:
                    parts = [np.array(part, np.int64) for part in used]
                    writer.write(step.after.step, step.epoch, float(sum(map(len, used))), parts)
            writer.close()

    def measure(self, rank: int, values: Mapping[str, float], *, attempt: int = 1) -> None:
        """A row of metrics."""
        with MetricsWriter(self.layout.attempt(attempt).rank(rank).metrics, "trainer") as writer:
            writer.log(values, step=8)

    def view(self) -> RunView:
        return fold("r", controller_journal(), {"localhost": self.events}, {}, ALIVE, 110.0)
