"""Checks made before a start: quick, without torch, each failure one sentence with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.schema import RunConfig
from torchdeck.launch.preflight.check import Check
from torchdeck.launch.preflight.data import check_data
from torchdeck.launch.preflight.devices import check_devices
from torchdeck.launch.preflight.folders import check_checkpoint_folder, check_home, check_room
from torchdeck.launch.preflight.interpreter import check_deepspeed, check_interpreter
from torchdeck.launch.preflight.memory import check_memory
from torchdeck.launch.preflight.network import HostNameCheck, check_port
from torchdeck.launch.preflight.reach import check_reach
from torchdeck.launch.preflight.resume import check_resume
from torchdeck.launch.preflight.sources import check_sources
from torchdeck.launch.prepare import Survey
from torchdeck.plan.launch_plan import LaunchPlan

__all__ = ["Check", "check_memory", "failures", "preflight"]


def preflight(config: RunConfig, plan: LaunchPlan | None, found: Survey, home: Path) -> list[Check]:
    """Everything that would stop a run or make it hang, looked for before the start.

    Memory is looked at apart, by `check_memory`, as a model's first trace takes seconds. This takes tens of
    milliseconds; up to a second where this host's own name does not resolve.

    Args:
        config: what is asked for.
        plan: what will happen; None where no plan could be made, and devices are then not looked at.
        found: what was found out about machines and interpreters.
        home: TORCHDECK_HOME; need not exist yet.
    """
    names = node_names(config)
    reach = check_reach(names, found.inventory)
    if reach.status == "failed":
        return [reach]  # what is not reached cannot be looked at
    node = names[0]
    name = HostNameCheck(node)
    checks = list(_checks(config, plan, found, home, node))
    return [reach, *checks, name.result()]


def failures(checks: list[Check]) -> list[Check]:
    """Those that forbid a start."""
    return [check for check in checks if check.status == "failed"]


def _checks(
    config: RunConfig, plan: LaunchPlan | None, found: Survey, home: Path, node: str
) -> Iterator[Check]:
    run = config.run
    user_path = run.env.get("PYTHONPATH", found.environ.get("PYTHONPATH", ""))
    yield from check_sources(run, node, home, user_path)
    if node in found.interpreters:
        yield from check_interpreter(found.interpreters[node], node, recipe=run.recipe is not None)
        if run.recipe is not None and config.distributed.strategy == "deepspeed":
            yield from check_deepspeed(found.interpreters[node], node)
    if plan is not None:
        yield from check_devices(plan, home)
    port = config.distributed.rendezvous.port
    if port != "auto":
        yield check_port(port, node)
    yield check_home(home, node)
    yield from check_checkpoint_folder(config.checkpoint.directory, node)
    yield from check_room(config, home, node)
    yield from check_data(config, node)
    yield from check_resume(config, node)
