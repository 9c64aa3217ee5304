"""All checks before a start, including failed ones, for callers that need to know what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.launching.facts.model_and_data import OnProgress, profile_finder
from torchdeck.launching.preflight import Check, check_model, preflight
from torchdeck.launching.prepare import ClusterFacts, Locate, plan_from, with_model
from torchdeck.plan.check import PlanError

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector


def all_checks(
    config: RunConfig,
    found: ClusterFacts,
    home: Path,
    locate: Locate | None = None,
    on_progress: OnProgress | None = None,
    files: Sequence[Path] = (),
    reach: Connector | None = None,
) -> tuple[list[Check], PlanError | None]:
    """Run all checks, and return why no plan can be made if so: memory is then not checked.

    A fault of a node is a check of that node alone, and not repeated as a problem of the plan; the list of
    problems may then be empty.

    Args:
        config: the requested configuration.
        found: result of `survey`.
        home: TORCHDECK_HOME.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.
        on_progress: called with what is being waited for: a trace of a model that is not known yet.
        files: files of `config`, `LoadedConfig.files`; empty if the user's own code made it.
        reach: connector for nodes; None: no login is requested.
    """
    try:
        plan = plan_from(config, found, locate)
        disks: dict[str, str] = {}
        checks = preflight(config, plan, found, home, reach, disks)
        found = with_model(config, found, home, on_progress, profile_finder(files))
        plan = plan_from(config, found, locate)
        return [*checks, *check_model(config, plan, found, home, disks)], None
    except PlanError as error:
        checks = preflight(config, None, found, home, reach)
        return checks, PlanError(_untold(error.problems, found, checks))


def _untold(problems: Sequence[Problem], found: ClusterFacts, checks: Sequence[Check]) -> list[Problem]:
    """Return the problems that no check of a node reports already, so that each is reported once."""
    failed = {(check.node, check.name) for check in checks if check.status == "failed"}
    told = {fault.what for fault in found.remote.faults if (fault.node, fault.check) in failed}
    return [problem for problem in problems if problem.wrong not in told]
