"""A script's training, by its own arguments and config files, beside the plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.check import Check, ok, warning
from torchdeck.trainers.arguments import named_values
from torchdeck.trainers.settings import program_settings

NAME = "program"


def check_program(config: RunConfig, plan: LaunchPlan, node: str) -> Iterator[Check]:
    """Show the settings of a script's training, and warn of those that contradict the plan or each other."""
    run = config.run
    if run.recipe is not None or run.launcher != "torchrun":
        return
    command = ("python", run.script or "-m", *(() if run.module is None else (run.module,)), *run.args)
    settings = program_settings(named_values(command, Path(run.working_dir or ".")))
    found = list(settings.contradictions(plan.world_size))
    summary = settings.summary(plan.world_size)
    if summary and not found:
        yield ok(NAME, node, f"by its own arguments: {summary}")
    for each in found:
        yield warning(NAME, node, each.what, each.fix)
