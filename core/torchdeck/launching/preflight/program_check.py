"""A script's training, from its own arguments and config files, next to the plan."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.facts.program_facts import settings_of_program
from torchdeck.plan.check import Check, ok, warning
from torchdeck.trainers.contradictions import Ranks, contradictions, missing_files

NAME = "program"


def check_program(config: RunConfig, plan: LaunchPlan, node: str) -> Iterator[Check]:
    """Show the settings of a script's training, and warn of those that contradict the plan or each other."""
    settings = settings_of_program(config)
    if settings is None:
        return
    own_ranks = config.run.launcher != "torchrun"
    ranks = Ranks.of([part.nproc for part in plan.nodes])
    found = list(missing_files(settings) if own_ranks else contradictions(settings, ranks))
    summary = "" if own_ranks else settings.summary(plan.world_size)
    if summary and not found:
        yield ok(NAME, node, f"by its own arguments: {summary}")
    for each in found:
        yield warning(NAME, node, each.what, each.fix)
