"""What a plan needs to know of a run's model and data, found out before it is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.nodes.inventory import InterpreterFacts
from torchdeck.plan.known import Known
from torchdeck.plan.problems import problem

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan
    from torchdeck.plan.model_profile import ModelProfile

OnProgress = Callable[[str], None]
"""Told what is waited for, in a few words."""

BATCH_PLAN = "training.batch_plan"


def look_at(
    config: RunConfig,
    home: Path | None,
    interpreter: InterpreterFacts,
    on_progress: OnProgress | None = None,
) -> tuple[Known, tuple[Problem, ...]]:
    """What is known of model and data, and what is wrong with them; nothing for a script or module.

    Args:
        config: what is asked for.
        home: TORCHDECK_HOME, where profiles of models are kept; None: the model is not traced.
        interpreter: of the ranks; the model is traced by it.
        on_progress: see OnProgress.
    """
    if config.run.recipe is None:
        return Known(), ()
    plan, problems = _batch_plan(config)
    profile, failure = None, ""
    remarks: tuple[str, ...] = ()
    if config.limits.memory == "off":
        remarks = ('memory is not predicted: limits.memory is "off"',)
    elif home is not None:
        profile, failure = _profile(config, home, interpreter, on_progress)
    if plan is not None and profile is not None and profile.train_samples not in (None, plan.size):
        problems = (
            problem(
                BATCH_PLAN,
                f"the batch plan is of {plan.size:,} samples, and the data has {profile.train_samples:,}",
                "a plan that was built for this data",
            ),
        )
    return Known(profile, plan, failure, remarks), problems


def _batch_plan(config: RunConfig) -> tuple[BatchPlan | None, tuple[Problem, ...]]:
    path = config.training.batch_plan
    if path is None:
        return None, ()
    from torchdeck.data.batch_plan import BatchPlanError, load_batch_plan

    try:
        return load_batch_plan(path, verify=True), ()
    except (BatchPlanError, OSError) as error:
        right = "a folder that torchdeck batchplan build has written"
        return None, (problem(BATCH_PLAN, str(error), right),)


def _profile(
    config: RunConfig, home: Path, interpreter: InterpreterFacts, on_progress: OnProgress | None
) -> tuple[ModelProfile | None, str]:
    """The profile, or why there is none."""
    from torchdeck.launch.profiling import ProfilingError, profile_model

    try:
        return profile_model(config, home, interpreter=interpreter, on_progress=on_progress), ""
    except ProfilingError as error:
        return None, f"memory is not predicted: {error}"
