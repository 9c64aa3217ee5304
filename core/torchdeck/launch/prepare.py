"""From a config to a plan: gathers what a plan needs to know of this machine, and makes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.launch.code_tree import read_code_tree
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.nodes.inventory import InterpreterFacts, Inventory
from torchdeck.nodes.local import probe_local
from torchdeck.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.plan.planner import make_plan

LOCAL_NAMES = frozenset({"localhost"})
"""Nodes of a config that are this machine."""


@dataclass(frozen=True)
class Survey:
    """What was found out before planning."""

    inventory: Inventory
    interpreters: Mapping[str, InterpreterFacts]
    """By node name."""
    environ: Mapping[str, str]
    """The launching shell's."""
    code: CodeTree
    warnings: tuple[str, ...]


def survey(config: RunConfig, environ: Mapping[str, str] | None = None) -> Survey:
    """Look at the machine, the interpreter and the code that `config` names; imports none of it.

    Takes a few milliseconds where the interpreter is our own and there is no GPU.
    """
    local = [name for name in config.distributed.nodes if name in LOCAL_NAMES]
    interpreter = probe_interpreter(config.run.interpreter)
    code, warnings = read_code_tree(config, Path(config.run.working_dir or Path.cwd()))
    return Survey(
        inventory=Inventory(tuple(probe_local(name) for name in local)),
        interpreters=dict.fromkeys(local, interpreter),
        environ=dict(os.environ) if environ is None else environ,
        code=code,
        warnings=warnings,
    )


def plan_from(config: RunConfig, found: Survey) -> LaunchPlan:
    """The plan of `config` on the machines of `found`.

    Raises:
        PlanError: they do not fit each other.
    """
    return make_plan(
        config,
        found.inventory,
        found.code,
        interpreters=found.interpreters,
        environ=found.environ,
        warnings=found.warnings,
    )
