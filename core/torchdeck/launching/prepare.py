"""From a config to a plan: gathers the facts about this machine that a plan needs, and makes the plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchdeck.config.chosen_nodes import is_here_alone, node_names
from torchdeck.config.problems import Problem
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.inventory import LOCALHOST, InterpreterFacts, Inventory
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.code.secret_contents import secrets_in_settings
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.facts.model_and_data import (
    FindProfile,
    OnProgress,
    UntracedError,
    look_at,
    narrower,
    trace,
)
from torchdeck.launching.facts.node_facts import inventory_from, planned_nodes
from torchdeck.launching.facts.own_module import own_module, problem_of, warning_of, without_callbacks
from torchdeck.launching.facts.planned_environments import without_uv
from torchdeck.launching.facts.probed_nodes import NodeReport, placeholder_nodes
from torchdeck.launching.facts.program_facts import with_program
from torchdeck.plan.check import PlanError
from torchdeck.plan.known import Known
from torchdeck.plan.planner import make_plan
from torchdeck.plan.sizes import begun_without
from torchdeck.trainers.arguments import named_values
from torchdeck.trainers.resume import ResumeRule
from torchdeck.trainers.resume_rules import Program, rule_of_program
from torchdeck.trust.trusted_entry import Held

Locate = Callable[[str], tuple[str, int | None]]
"""Key → file and line."""
SOURCE_LIMIT = 1 << 20
"""Most bytes of a script that are searched for how it resumes."""


@dataclass(frozen=True)
class ClusterFacts:
    """Facts gathered before planning."""

    inventory: Inventory
    interpreters: Mapping[str, InterpreterFacts]
    """Interpreters by node name."""
    environ: Mapping[str, str]
    """Environment of the launching shell."""
    code: CodeTree
    warnings: tuple[str, ...]
    known: Known = field(default_factory=Known)
    """Facts about model and data."""
    problems: tuple[Problem, ...] = ()
    """Reasons found by the probe why no plan can be made."""
    untraced: str = ""
    """Key of a model profile that would add facts, but was not traced because the caller did not want to
    wait.
    """
    remote: NodeReport = field(default_factory=NodeReport)
    """Facts of nodes reached over SSH."""
    tracer: InterpreterFacts | None = None
    """This machine's Python in which a model is traced; None: the first node's."""
    resuming: ResumeRule | None = None
    """How the script or module continues from its own checkpoint; None if unknown."""
    held: tuple[Held, ...] = ()
    """Code that would be executed but is not trusted yet: nothing is known about it."""
    own_module: Path | None = None
    """The user's module called `torchdeck`, which the script imports instead of ours."""


def cluster_facts(
    config: RunConfig,
    environ: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    looks: FactSources | None = None,
    files: Sequence[Path] = (),
) -> ClusterFacts:
    """Gather facts about the machine, the interpreter, the code and the data that `config` names; imports
    none of it.

    Takes a few milliseconds if the interpreter is our own and there is no GPU. It takes longer if a batch
    plan's data may have changed and is read, which is reported to `on_progress`. `looks` may cache its
    results. Code of `config` is executed only if it is trusted; `files` are the files it was read from.
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
    known = with_program(config, known)
    # nodes that are only described are assumed to have the Python found here
    interpreters = {**{node.name: interpreter for node in inventory}, **remote.interpreters}
    if config.run.environment == "uv":
        interpreters, wrong = looks.environments(config, interpreters, remote.uv)
        problems, warnings = (*problems, *wrong), (*warnings, *without_uv(interpreters))
    module = own_module(config)
    if module is not None and config.run.recipe is not None:
        problems = (*problems, problem_of(module))
    elif module is not None:
        config, warnings = without_callbacks(config), (*warnings, warning_of(module))
    absent = missing(config)
    if not names or LOCALHOST in names:
        known = replace(known, broken=absent)
    elif absent:  # the nodes may have it, and cannot be reached from here
        warnings = (*warnings, absent)
    return ClusterFacts(
        inventory=inventory,
        interpreters=interpreters,
        environ=dict(os.environ) if environ is None else environ,
        code=code,
        warnings=(*warnings, *secrets_in_settings(config)),
        known=known,
        problems=(*problems, *remote.in_the_way),
        remote=remote,
        tracer=interpreter,
        resuming=how_it_resumes(config),
        held=looks.gate.held(config, files),
        own_module=module,
    )


def how_it_resumes(config: RunConfig) -> ResumeRule | None:
    """Return how the script or module continues from its own checkpoint, as far as its source shows; it is
    not executed.
    """
    run = config.run
    if run.recipe is not None:
        return None
    source = ""
    if run.script is not None:
        try:
            source = read_bounded(Path(run.script), SOURCE_LIMIT).decode(errors="replace")
        except (OSError, UnreadableFileError):
            source = ""  # another check reports it
    given = named_values(("python", "program", *run.args), Path(run.working_dir or "."))
    settings = {name: named.value for name, named in reversed(given)}  # arguments go before files
    inside = config.telemetry.inside
    program = Program(run.module or "", run.script or "", source, tuple(run.args), inside, settings)
    return rule_of_program(program)


def _nodes(config: RunConfig, looks: FactSources) -> NodeReport:
    if is_here_alone(config):
        return NodeReport()
    from torchdeck.launching.facts.node_facts import (
        gather_node_facts,  # imports all that SSH and the node inventory need
    )

    return gather_node_facts(config, looks)


def missing(config: RunConfig) -> str:
    """Return that the file to run does not exist; a plan is made all the same, and a check blocks the
    start.
    """
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
    """Return `found` with facts about the recipe's model, which is traced the first time; that takes seconds.

    If an fp32 run does not fit well it is traced in bf16 too, for a tested suggestion.

    Args:
        config: config of the run.
        found: result of `survey`.
        home: TORCHDECK_HOME, with the profiles of models.
        on_progress: called with what is being waited for.
        find: replaces `profile_model`; if it raises UntracedError, its key is `untraced` of the result, which
            has all facts that do not need the trace.
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
    """Return `found` with the reason why nothing is executed to predict memory, if anything would be."""
    if config.run.recipe is None or found.known.profile is not None or config.limits.memory == "off":
        return found
    failure = f"memory is not predicted: {found.held[0].what}"
    return replace(found, known=replace(found.known, failure=failure))


def _is_short(config: RunConfig, found: ClusterFacts) -> bool:
    """Return whether predicted memory is tight, or not sufficient."""
    try:
        prediction = plan_from(config, found).prediction
    except PlanError:
        return False
    groups = () if prediction is None else prediction.memory
    return any(group.verdict in ("tight", "does not fit") for group in groups)


def plan_from(config: RunConfig, found: ClusterFacts, locate: Locate | None = None) -> LaunchPlan:
    """Return the plan of `config` on the machines of `found`.

    Args:
        config: config of the run.
        found: facts about the machines.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.

    Raises:
        PlanError: config and machines do not fit, or the batch plan is invalid.
    """
    problems = list(found.problems)
    plan = None
    try:
        if found.remote.in_the_way:  # a plan would only report unknown nodes less clearly
            problems += _behind(config, found)
        else:
            plan = _made(config, found)
    except PlanError as error:
        problems += error.problems
    if plan is None or problems:
        raise PlanError([problem if locate is None else _located(problem, locate) for problem in problems])
    return plan


def _made(config: RunConfig, found: ClusterFacts) -> LaunchPlan:
    if found.own_module is not None:
        config = without_callbacks(config)
    of = planned_nodes(config, found.remote, found.inventory, found.interpreters)
    plan = make_plan(
        of.config,
        of.inventory,
        found.code,
        interpreters=of.interpreters,
        environ=found.environ,
        known=found.known,
        warnings=found.warnings,
        resuming=found.resuming,
    )
    return begun_without(plan, found.remote.absent, of.missing) if found.remote.absent else plan


def _behind(config: RunConfig, found: ClusterFacts) -> list[Problem]:
    """Return the problems that remain if the faulty nodes were like the others."""
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
