"""Source of a batch plan, as the command line names it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli.batchplan.progress import ProgressLine
from torchdeck.data.batch_plan import BatchPlanError
from torchdeck.use_cases.batch_plans.build import PlanNeeds, needs_of
from torchdeck.use_cases.batch_plans.source import (
    PlanSource,
    of_dataset,
    of_lengths,
    of_run,
    tokenizer_only,
)

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig


def read_source(args: argparse.Namespace, progress: ProgressLine) -> PlanSource:
    """Read the source that `--lengths`, `--dataset` or `--run`, and `--tokenizer`, name.

    Raises:
        BatchPlanError: a file is invalid.
        OSError: it cannot be read.
    """
    if args.lengths is not None:
        return of_lengths(args.lengths, args.tokenizer, progress)
    if args.dataset is not None:
        return of_dataset(args.dataset, args.tokenizer, progress)
    if args.run is not None:
        return of_run(_config(args.run), args.run, args.tokenizer)
    return tokenizer_only(args.tokenizer)


def needs_named(run_file: str | None) -> PlanNeeds:
    """Return what the run needs that `--run` names. Raises BatchPlanError."""
    return PlanNeeds() if run_file is None else needs_of(_config(run_file), run_file)


def _config(run_file: str) -> RunConfig:
    from torchdeck.config.loader import load_config
    from torchdeck.config.problems import ConfigError

    try:
        return load_config(Path(run_file)).config
    except ConfigError as error:
        raise BatchPlanError(str(error)) from error


# Options of `torchdeck batchplan`: those that need another, and those that a refusal should name.

_OPTIONS = {
    "(too_long: truncate or drop)": "(--too-long truncate or drop)",
    "raise the maximum length or token budget": "raise --max-length or --token-budget",
    "(empty: drop)": "(--empty drop)",
    "already exists: choose another place, or overwrite it": (
        "already exists: choose another --output, or give --overwrite"
    ),
}
"""Argument names of the library → options of the command line."""


def in_options(refusal: str) -> str:
    """A sentence of the library with the options of the command line in it."""
    for words, option in _OPTIONS.items():
        refusal = refusal.replace(words, option)
    return refusal


def check_dealing_options(args: argparse.Namespace) -> None:
    """Raises BatchPlanError where --balance, --window or --cost would have no effect, or is out of range."""
    from torchdeck.data.batch_plan import BatchPlanError
    from torchdeck.data.batch_plan.balance import check_dealing

    check_dealing(args.balance, args.window, args.cost)
    if args.balance != "none" and args.world_size is None:
        raise BatchPlanError("--balance needs --world-size")
    if args.window is not None and args.balance == "none":
        raise BatchPlanError("--window needs --balance tokens or --balance attention")
    if args.cost is not None and args.balance != "attention":
        raise BatchPlanError("--cost needs --balance attention")
