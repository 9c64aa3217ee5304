"""Source of a batch plan, as the command line names it."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchdeck.cli.batchplan.progress import ProgressLine
from torchdeck.data.batch_plan import (
    BatchPlanError,
    Column,
    DataSource,
    content_fingerprint,
    lengths_fingerprint,
    listing_of,
    measure_dataset,
    read_lengths,
)

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig


_PLANNED = "byte-finetune"
"""The built-in recipe whose samples have lengths of their own."""


@dataclass(frozen=True, eq=False)
class PlanSource:
    """Lengths, their unit, and fingerprints; None if nothing was given."""

    lengths: Column | None
    unit: str
    dataset_fingerprint: str | None
    tokenizer_fingerprint: str | None
    seen: DataSource | None = None
    """The data as it lay there before it was read, where it can be looked at again."""


def read_source(args: argparse.Namespace, progress: ProgressLine) -> PlanSource:
    """Read the source that `--lengths`, `--dataset` or `--run`, and `--tokenizer`, name.

    Raises:
        BatchPlanError: a file is invalid.
        OSError: it cannot be read.
    """
    tokenizer = None if args.tokenizer is None else content_fingerprint(args.tokenizer)
    if args.lengths is not None:
        listing = _listing(args.lengths)
        lengths = read_lengths(args.lengths, progress=progress)
        fingerprint = lengths_fingerprint(lengths)
        seen = _source(args.lengths, "lengths", listing, fingerprint)
        return PlanSource(lengths, "tokens", fingerprint, tokenizer, seen)
    if args.dataset is not None:
        listing = _listing(args.dataset)
        measured = measure_dataset(args.dataset, progress=progress)
        seen = _source(args.dataset, "dataset", listing, measured.fingerprint)
        return PlanSource(measured.lengths, measured.unit, measured.fingerprint, tokenizer, seen)
    if args.run is not None:
        return _of_run(args.run, tokenizer)
    return PlanSource(None, "tokens", None, tokenizer)


def _of_run(run_file: str, tokenizer: str | None) -> PlanSource:
    """The training data of a run, as its recipe reads it."""
    from torchdeck.distributed.recipe_loading import RecipeError
    from torchdeck.recipes.prompt_pairs import data_options, read_pairs

    config = _config(run_file)
    source = str(config.data["source"])
    listing = _listing(source)
    try:
        pairs = read_pairs(data_options(config.model, config.data), "train")
    except RecipeError as error:
        raise BatchPlanError(str(error)) from error
    if pairs is None or not pairs.samples:
        raise BatchPlanError(f"{run_file}: its training data is empty")
    # the file's own fingerprint says nothing about a part of it
    seen = _source(source, "dataset", listing, pairs.fingerprint) if pairs.whole_file else None
    return PlanSource(np.array(pairs.lengths, dtype=np.int64), "bytes", pairs.fingerprint, tokenizer, seen)


@dataclass(frozen=True)
class PlanWishes:
    """Properties of a plan that the command line leaves open; None: the usual."""

    output: str | None = None
    epochs: int | None = None
    max_length: int | None = None


def wishes_of(run_file: str) -> PlanWishes:
    """Return the run's needs: where it looks for its plan, how long it trains, and its model's context.

    Raises:
        BatchPlanError: the run file is wrong, or its recipe is another.
    """
    config = _config(run_file)
    epochs = config.training.epochs
    return PlanWishes(
        config.training.batch_plan,
        None if epochs is None else math.ceil(epochs),
        config.model["context"],
    )


def _config(run_file: str) -> RunConfig:
    from torchdeck.config.loader import load_config
    from torchdeck.config.problems import ConfigError

    try:
        config = load_config(Path(run_file)).config
    except ConfigError as error:
        raise BatchPlanError(str(error)) from error
    if config.run.recipe != _PLANNED:
        raise BatchPlanError(
            f"{run_file} does not run recipe {_PLANNED}, so its samples are unknown: give --lengths or "
            "--dataset"
        )
    return config


def _listing(path: str) -> str | None:
    """Return the listing of a file or folder; None for a pipe, which cannot be read twice."""
    place = Path(path)
    return listing_of(place.absolute()) if place.is_file() or place.is_dir() else None


def _source(
    path: str, reading: Literal["dataset", "lengths"], listing: str | None, fingerprint: str
) -> DataSource | None:
    return None if listing is None else DataSource(str(Path(path).absolute()), reading, listing, fingerprint)


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
