"""From a config to a plan: gathers what a plan needs to know of this machine, and makes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchdeck.config.chosen_nodes import is_here_alone, node_names
from torchdeck.config.problems import Problem
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.inventory import LOCALHOST, InterpreterFacts, Inventory
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.code.secret_settings import secrets_in_settings
from torchdeck.launching.facts.absent_nodes import planned_nodes
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.facts.model_and_data import (
    FindProfile,
    OnProgress,
    UntracedError,
    look_at,
    narrower,
    trace,
)
from torchdeck.launching.facts.node_report import NodeReport
from torchdeck.launching.facts.placeholder_nodes import placeholder_nodes
from torchdeck.nodes.described import inventory_from
from torchdeck.plan.absent_nodes import begun_without
from torchdeck.plan.known import Known
from torchdeck.plan.planner import make_plan
from torchdeck.plan.problems import PlanError
from torchdeck.trust.held import Held

Locate = Callable[[str], tuple[str, int | None]]
"""Key → file and line."""


@dataclass(frozen=True)
class ClusterFacts:
    """What was found out before planning."""

    inventory: Inventory
    interpreters: Mapping[str, InterpreterFacts]
    """By node name."""
    environ: Mapping[str, str]
    """The launching shell's."""
    code: CodeTree
    warnings: tuple[str, ...]
    known: Known = field(default_factory=Known)
    """What is known of model and data."""
    problems: tuple[Problem, ...] = ()
    """Why no plan can be made, seen while looking."""
    untraced: str = ""
    """Key of a model's profile that would tell more, and was not traced as nobody wanted to wait for it."""
    remote: NodeReport = field(default_factory=NodeReport)
    """What is known of nodes that are reached over SSH."""
    tracer: InterpreterFacts | None = None
    """The Python of this machine, in which a model is traced; None: the first node's."""
    held: tuple[Held, ...] = ()
    """What would be executed, and may not be yet: nothing is known of it."""


def cluster_facts(
    config: RunConfig,
    environ: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    looks: FactSources | None = None,
    files: Sequence[Path] = (),
) -> ClusterFacts:
    """Look at the machine, the interpreter, the code and the data that `config` names; imports none of it.

    Takes a few milliseconds where the interpreter is our own and there is no GPU; longer where a batch plan's
    data may have changed and is read, of which `on_progress` is told. `looks` may remember what it saw. What
    `config` would execute is executed only if it may be; `files` are what it was read from.
    """
    looks = FactSources() if looks is None else looks
    remote = _nodes(config, looks)
    names = remote.names or tuple(node_names(config))
    local = [looks.machine(name) for name in names if name == LOCALHOST and not remote.names]
    inventory = Inventory((*local, *remote.nodes, *inventory_from(config.cluster)))
    interpreter = looks.interpreter(
        config.run.interpreter, deepspeed=config.distributed.strategy == "deepspeed"
    )
    code, warnings = looks.code(config, Path(config.run.working_dir or Path.cwd()))
    known, problems = look_at(config, on_progress, looks.batch_plan)
    absent = missing(config)
    if not names or LOCALHOST in names:
        known = replace(known, broken=absent)
    elif absent:  # the nodes may have it, and are not reached from here
        warnings = (*warnings, absent)
    return ClusterFacts(
        inventory=inventory,
        # nodes that are only described are taken to have the Python that was found here
        interpreters={**{node.name: interpreter for node in inventory}, **remote.interpreters},
        environ=dict(os.environ) if environ is None else environ,
        code=code,
        warnings=(*warnings, *secrets_in_settings(config)),
        known=known,
        problems=(*problems, *remote.in_the_way),
        remote=remote,
        tracer=interpreter,
        held=looks.gate.held(config, files),
    )


def _nodes(config: RunConfig, looks: FactSources) -> NodeReport:
    if is_here_alone(config):
        return NodeReport()
    from torchdeck.launching.facts.node_facts import (
        gather_node_facts,  # with all that SSH and the node inventory need
    )

    return gather_node_facts(config, looks)


def missing(config: RunConfig) -> str:
    """That the file to run is not there; a plan is made all the same, and a check refuses the start."""
    run = config.run
    for kind, name in (("script", run.script), ("recipe", run.recipe)):
        if name is not None and name not in BUILTIN_RECIPES and not Path(name).is_file():
            return f"{kind} {name} does not exist here"
    return ""


def with_model(
    config: RunConfig,
    found: ClusterFacts,
    home: Path,
    on_progress: OnProgress | None = None,
    find: FindProfile | None = None,
) -> ClusterFacts:
    """`found` with what is known of the recipe's model, which is traced the first time; seconds, then.

    Where an fp32 run does not fit well it is traced in bf16 too, for a suggestion that was tried.

    Args:
        config: what is asked for.
        found: what `survey` found.
        home: TORCHDECK_HOME, where profiles of models are kept.
        on_progress: told what is waited for.
        find: in place of `profile_model`; where it raises UntracedError, its key is `untraced` of what
            is returned, in which all is that can be known without.
    """
    if found.held:
        return _unknown_model(config, found)
    interpreter = found.tracer or next(iter(found.interpreters.values()), None)
    if interpreter is None or found.known.broken:
        return found
    try:
        known, problems = trace(config, found.known, home, interpreter, on_progress, find)
        found = replace(found, known=known, problems=found.problems + problems)
        training = known.training or config.training
        may_be_narrower = known.profile is not None and training.precision == "fp32"
        if not may_be_narrower or found.problems or not _is_short(config, found):
            return found
        return replace(found, known=narrower(config, known, home, interpreter, on_progress, find))
    except UntracedError as error:
        return replace(found, untraced=error.key)


def _unknown_model(config: RunConfig, found: ClusterFacts) -> ClusterFacts:
    """`found` with the reason why nothing is executed to predict memory, if anything would be."""
    if config.run.recipe is None or found.known.profile is not None or config.limits.memory == "off":
        return found
    failure = f"memory is not predicted: {found.held[0].what}"
    return replace(found, known=replace(found.known, failure=failure))


def _is_short(config: RunConfig, found: ClusterFacts) -> bool:
    """Whether memory is predicted to be tight, or not to suffice."""
    try:
        prediction = plan_from(config, found).prediction
    except PlanError:
        return False
    groups = () if prediction is None else prediction.memory
    return any(group.verdict in ("tight", "does not fit") for group in groups)


def plan_from(config: RunConfig, found: ClusterFacts, locate: Locate | None = None) -> LaunchPlan:
    """The plan of `config` on the machines of `found`.

    Args:
        config: what is asked for.
        found: what there is.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.

    Raises:
        PlanError: they do not fit each other, or the batch plan is no good.
    """
    problems = list(found.problems)
    plan = None
    try:
        if found.remote.in_the_way:  # a plan would only say less well that those nodes are not known
            problems += _behind(config, found)
        else:
            plan = _made(config, found)
    except PlanError as error:
        problems += error.problems
    if plan is None or problems:
        raise PlanError([problem if locate is None else _located(problem, locate) for problem in problems])
    return plan


def _made(config: RunConfig, found: ClusterFacts) -> LaunchPlan:
    of = planned_nodes(config, found.remote, found.inventory, found.interpreters)
    plan = make_plan(
        of.config,
        of.inventory,
        found.code,
        interpreters=of.interpreters,
        environ=found.environ,
        known=found.known,
        warnings=found.warnings,
    )
    return begun_without(plan, found.remote.absent, of.missing) if found.remote.absent else plan


def _behind(config: RunConfig, found: ClusterFacts) -> list[Problem]:
    """What else would be in the way, once the nodes that are at fault now are like the others."""
    as_if = placeholder_nodes(config, found.remote, found.inventory, found.interpreters)
    if as_if is None:
        return []
    try:
        _made(config, replace(found, inventory=as_if.inventory, interpreters=as_if.interpreters))
    except PlanError as error:
        return as_if.not_about_them(error.problems)
    return []


def _located(problem: Problem, locate: Locate) -> Problem:
    file, line = locate(problem.path)
    return replace(problem, file=file, line=line)
