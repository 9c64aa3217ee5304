"""The last look before a start: the plan of a config, and whether anything stands in its way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.launch.launcher import LaunchError
from torchdeck.launch.model_and_data import OnProgress
from torchdeck.launch.preflight import Check, check_memory, failures, preflight
from torchdeck.launch.prepare import Locate, plan_from, survey, with_model
from torchdeck.launch.trust import trust as trust_folder
from torchdeck.plan.launch_plan import LaunchPlan


class PreflightError(LaunchError):
    """Something would stop the run or make it hang; `.checks` says what. Nothing was started."""

    def __init__(self, checks: Sequence[Check]) -> None:
        super().__init__("; ".join(str(check) for check in checks))
        self.checks = tuple(checks)


def checked_plan(
    config: RunConfig, home: Path, locate: Locate | None = None, on_progress: OnProgress | None = None
) -> tuple[LaunchPlan, list[Check]]:
    """The plan of a config on this machine, and what the checks before the start found; none of them failed.

    Args:
        config: what is asked for.
        home: TORCHDECK_HOME.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.
        on_progress: told what is waited for, which is a trace of a recipe's model that is not known yet.

    Raises:
        PlanError: they do not fit each other.
        PreflightError: something would stop the run.
    """
    found = survey(config, on_progress=on_progress)
    plan = plan_from(config, found, locate)
    # what refuses at once comes before what takes seconds
    checks = _passed(preflight(config, plan, found, home))
    found = with_model(config, found, home, on_progress)
    plan = plan_from(config, found, locate)
    return plan, [*checks, *_passed(list(check_memory(config, plan, found)))]


def _passed(checks: list[Check]) -> list[Check]:
    failed = failures(checks)
    if failed:
        raise PreflightError(failed)
    return checks


def trust_recipe(config: RunConfig, home: Path) -> None:
    """Trust the folder of the recipe file that `config` names, if it names one. Raises TrustError."""
    recipe = config.run.recipe
    if recipe is not None and recipe not in BUILTIN_RECIPES and Path(recipe).is_file():
        trust_folder(Path(recipe).parent, home)
