"""From a config to a plan: gathers what a plan needs to know of this machine, and makes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.launch.code_tree import read_code_tree
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.nodes.inventory import InterpreterFacts, Inventory
from torchdeck.nodes.local import probe_local
from torchdeck.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.plan.planner import make_plan
from torchdeck.plan.problems import PlanError

Locate = Callable[[str], tuple[str, int | None]]
"""Key → file and line."""

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


def plan_from(config: RunConfig, found: Survey, locate: Locate | None = None) -> LaunchPlan:
    """The plan of `config` on the machines of `found`.

    Args:
        config: what is asked for.
        found: what there is.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.

    Raises:
        PlanError: they do not fit each other.
    """
    try:
        return make_plan(
            config,
            found.inventory,
            found.code,
            interpreters=found.interpreters,
            environ=found.environ,
            warnings=found.warnings,
        )
    except PlanError as error:
        if locate is None:
            raise
        raise PlanError([_located(problem, locate) for problem in error.problems]) from None


def _located(problem: Problem, locate: Locate) -> Problem:
    file, line = locate(problem.path)
    return replace(problem, file=file, line=line)
