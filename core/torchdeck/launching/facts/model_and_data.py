"""Facts about a run's model and data that a plan needs, gathered before it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torchdeck.config.estimate import Estimate
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.config.training import Training
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.check import problem
from torchdeck.plan.known import Known

if TYPE_CHECKING:
    from torchdeck.contract.plan.model_profile import ModelProfile
    from torchdeck.data.batch_plan import BatchPlan


OnProgress = Callable[[str], None]
"""Called with a short description of what is being waited for."""


class UntracedError(Exception):
    """A profile is unknown and may not be traced now; `key` is its key in a cache."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class FindProfile(Protocol):
    """Finds the profile of a recipe's model, as `launch.profiling.profile_model` does."""

    def __call__(
        self,
        config: RunConfig,
        home: Path,
        *,
        plan: BatchPlan | None,
        interpreter: InterpreterFacts | None,
        on_progress: OnProgress | None,
    ) -> ModelProfile: ...


def profile_finder(files: Sequence[Path]) -> FindProfile:
    """Return `profile_model` for a config read from `files`, see there."""

    def find(
        config: RunConfig,
        home: Path,
        *,
        plan: BatchPlan | None,
        interpreter: InterpreterFacts | None,
        on_progress: OnProgress | None,
    ) -> ModelProfile:
        from torchdeck.launching.facts.profiling import profile_model

        return profile_model(
            config, home, plan=plan, interpreter=interpreter, on_progress=on_progress, files=files
        )

    return find


ReadBatchPlan = Callable[[RunConfig, "OnProgress | None"], "tuple[BatchPlan | None, tuple[Problem, ...]]"]
"""Reads the batch plan of a config, as `read_batch_plan` does."""

BATCH_PLAN = "training.batch_plan"
_OFF = 'memory is not predicted: limits.memory is "off"'


def look_at(
    config: RunConfig, on_progress: OnProgress | None = None, read: ReadBatchPlan | None = None
) -> tuple[Known, tuple[Problem, ...]]:
    """Return known facts of model and data without running any of it, and their problems.

    The facts are the whole batch plan, verified and for unchanged data, and the model described by
    [estimate]. The plan's data is read only if sizes or times of its files have changed.

    Args:
        config: the requested configuration.
        on_progress: called with what is being waited for.
        read: replaces `read_batch_plan`.
    """
    plan, problems = (read or read_batch_plan)(config, on_progress)
    if config.limits.memory == "off":
        return Known(batch_plan=plan, remarks=(_OFF,) if config.run.recipe is not None else ()), problems
    if config.estimate == Estimate():
        return Known(batch_plan=plan), problems
    profile, training, wrong = _estimated(config)
    return Known(profile, plan, training), problems + wrong


def trace(
    config: RunConfig,
    known: Known,
    home: Path,
    interpreter: InterpreterFacts,
    on_progress: OnProgress | None = None,
    find: FindProfile | None = None,
) -> tuple[Known, tuple[Problem, ...]]:
    """Return `known` with the profile of a recipe's model, traced by a separate process the first time.

    A model that cannot be traced is not a problem, but a failure recorded in the result. A recipe that raises
    in every rank is recorded too.

    Args:
        config: the requested configuration.
        known: result of `look_at`.
        home: TORCHDECK_HOME, where profiles of models are cached.
        interpreter: Python of the ranks, which traces the model.
        on_progress: see OnProgress.
        find: replaces `profile_model`; exceptions other than ProfilingError propagate.
    """
    if config.run.recipe is None or config.limits.memory == "off" or config.estimate != Estimate():
        return known, ()
    from torchdeck.launching.facts.profiling import ProfilingError, profile_model

    try:
        profile = (find or profile_model)(
            config, home, plan=known.batch_plan, interpreter=interpreter, on_progress=on_progress
        )
    except ProfilingError as error:
        if error.certain:
            return replace(known, broken=f"the recipe fails: {error}"), ()
        return replace(known, failure=f"memory is not predicted: {error}"), ()
    return replace(known, profile=profile), _misfits(known.batch_plan, profile)


def narrower(
    config: RunConfig,
    known: Known,
    home: Path,
    interpreter: InterpreterFacts,
    on_progress: OnProgress | None = None,
    find: FindProfile | None = None,
) -> Known:
    """Return `known` with the profile of the same model in bf16 too, for an fp32 run that might then fit.

    Nothing is added if that cannot be traced: it is used only for a suggestion.
    """
    training = known.training or config.training
    if known.profile is None or training.precision != "fp32":
        return known
    estimate = config.estimate.model_copy(update={"precision": "bf16"})
    changed = config.model_copy(update={"training": training.model_copy(update={"precision": "bf16"})})
    if config.estimate != Estimate():
        profile, _, _ = _estimated(changed.model_copy(update={"estimate": estimate}))
    else:
        traced, _ = trace(changed, replace(known, profile=None), home, interpreter, on_progress, find)
        profile = traced.profile
    return known if profile is None else replace(known, others=(profile,))


def _misfits(plan: BatchPlan | None, profile: ModelProfile) -> tuple[Problem, ...]:
    # names are compared when the ranks start: a plan that names samples may leave some out
    if plan is None or plan.names is not None or profile.train_samples in (None, plan.size):
        return ()
    wrong = f"the batch plan has {plan.size:,} samples, but the data has {profile.train_samples:,}"
    return (problem(BATCH_PLAN, wrong, "a batch plan built for this data"),)


def _estimated(config: RunConfig) -> tuple[ModelProfile | None, Training | None, tuple[Problem, ...]]:
    """Return the profile that [estimate] describes, and how a script trains as far as configured."""
    from torchdeck.launching.facts.estimated_profile import estimate_profile, estimated_config
    from torchdeck.plan.memory.shape_derivation import EstimateError

    training = estimated_config(config).training if config.run.recipe is None else None
    try:
        return estimate_profile(config), training, ()
    except EstimateError as error:
        right = "numbers of a model, or the config.json of one"
        return None, None, (problem("estimate", str(error), right),)


def read_batch_plan(
    config: RunConfig, on_progress: OnProgress | None
) -> tuple[BatchPlan | None, tuple[Problem, ...]]:
    """Return the batch plan that `config` names, verified, if it names one; and its problems."""
    path = config.training.batch_plan
    if path is None or config.run.recipe is None:
        return None, ()
    from torchdeck.data.batch_plan import BatchPlanError, changed_source, load_batch_plan

    def reading(what: str, done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(
                f"reading the data again, because its files have changed: {what}: {done:,} of {total:,}"
            )

    try:
        plan = load_batch_plan(path, verify=True)
        changed = changed_source(path, progress=reading)
        if changed is None:
            return plan, ()
        wrong = f"the data the plan was made from has changed since ({changed.path})"
        return None, (problem(BATCH_PLAN, wrong, f"the plan built again with {changed.build} …"),)
    except (BatchPlanError, OSError) as error:
        right = "a folder that torchdeck batchplan build has written"
        return None, (problem(BATCH_PLAN, str(error), right),)
