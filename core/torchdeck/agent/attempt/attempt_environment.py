"""The environment of an attempt's ranks on this node, made with uv if the plan says so."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.agent.attempt.resume_points import AttemptError
from torchdeck.agent.environments.making import Making
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.processes import NODE_VARIABLE, RUN_ID_VARIABLE, without_run_variables

if TYPE_CHECKING:
    from torchdeck.agent.environments.make import Environment


def environment_for(
    layout: RunLayout, plan: LaunchPlan, name: str, values: Mapping[str, str], making: Making
) -> Environment | None:
    """Return the environment of node `name`, which may take minutes to make; None if the plan uses an
    existing Python.

    Args:
        layout: the run.
        plan: its slots empty.
        name: of this node.
        values: values of the slots in the node's working directory.
        making: progress, for other threads.

    Raises:
        AttemptError: it cannot be made, or lacks what torchrun needs.
        OSError: the disk does not allow it.
    """
    node = plan.node(name)
    if node.environment is None:
        return None
    # most runs need none of it
    from torchdeck.agent.environments.environment_files import (
        EnvironmentSourceError,
        find_source,
        platform_name,
    )
    from torchdeck.agent.environments.made import read_made, remove_unused
    from torchdeck.agent.environments.make import EnvironmentNotMadeError, use_environment

    home = layout.home
    try:
        source = find_source(_project(layout, plan, Path(fill(node.working_dir, values))))
        key = source.key(".".join(map(str, sys.version_info[:3])), platform_name())
        used = use_environment(home, source, key, sys.executable, _variables(layout, node), making)
    except (EnvironmentNotMadeError, EnvironmentSourceError) as error:
        raise AttemptError(str(error)) from error
    made = read_made(home, key)
    if node.torchrun and (made is None or made.torch is None):
        os.close(used.lock)
        raise AttemptError(
            f"there is no torch in the environment made from {source.name}: add it there (`uv add torch`)"
        )
    remove_unused(home)
    return used


def _project(layout: RunLayout, plan: LaunchPlan, start: Path) -> Path:
    """Return the folder of the project: the run's own copy, as the files of the user's may have changed."""
    folder = plan.code.folder
    if folder and start.is_relative_to(folder):
        copied = layout.code / start.relative_to(folder)
        return copied if copied.is_dir() else start
    return start


def _variables(layout: RunLayout, node: NodePlan) -> dict[str, str]:
    """Return the variables of uv: with the run's id, by which its processes are found and ended."""
    own = {name: fill(value, {}) for name, value in node.env.items() if name.startswith("UV_")}
    label = {NODE_VARIABLE: node.name} if NODE_VARIABLE in node.env else {}
    return {**without_run_variables(os.environ), **own, RUN_ID_VARIABLE: layout.root.name, **label}
