"""Sources of batch plans: lengths of samples, a data set, or the training data of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

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
from torchdeck.data.batch_plan.files.length_files import Progress
from torchdeck.use_cases.batch_plans import RECIPE

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig


@dataclass(frozen=True, eq=False)
class PlanSource:
    """Lengths, their unit, and fingerprints; None if nothing was given."""

    lengths: Column | None
    unit: str
    dataset_fingerprint: str | None
    tokenizer_fingerprint: str | None
    seen: DataSource | None = None
    """The data as it lay there before it was read, where it can be looked at again."""


def tokenizer_only(tokenizer: str | None) -> PlanSource:
    """Return a source without lengths: the fingerprint of the file or folder `tokenizer`. Raises OSError."""
    return PlanSource(None, "tokens", None, None if tokenizer is None else content_fingerprint(tokenizer))


def of_lengths(path: str, tokenizer: str | None, progress: Progress) -> PlanSource:
    """Read a file of lengths.

    Raises:
        BatchPlanError: it is invalid.
        OSError: it cannot be read.
    """
    fingerprint_there = tokenizer_only(tokenizer).tokenizer_fingerprint
    listing = _listing(path)
    lengths = read_lengths(path, progress=progress)
    fingerprint = lengths_fingerprint(lengths)
    seen = _source(path, "lengths", listing, fingerprint)
    return PlanSource(lengths, "tokens", fingerprint, fingerprint_there, seen)


def of_dataset(path: str, tokenizer: str | None, progress: Progress) -> PlanSource:
    """Measure the samples of a data set; raises as `of_lengths`."""
    fingerprint_there = tokenizer_only(tokenizer).tokenizer_fingerprint
    listing = _listing(path)
    measured = measure_dataset(path, progress=progress)
    seen = _source(path, "dataset", listing, measured.fingerprint)
    return PlanSource(measured.lengths, measured.unit, measured.fingerprint, fingerprint_there, seen)


def of_run(config: RunConfig, named: str, tokenizer: str | None = None) -> PlanSource:
    """Read the training data of a run as its recipe does.

    Args:
        config: a run of recipe `RECIPE`.
        named: its run file, for errors.
        tokenizer: file or folder to include.

    Raises:
        BatchPlanError: the data is invalid or empty, or the recipe is another.
        OSError: it cannot be read.
    """
    from torchdeck.distributed.recipe_loading import RecipeError
    from torchdeck.recipes.prompt_pairs import data_options, read_pairs

    check_recipe(config, named)
    fingerprint_there = tokenizer_only(tokenizer).tokenizer_fingerprint
    source = str(config.data["source"])
    listing = _listing(source)
    try:
        pairs = read_pairs(data_options(config.model, config.data), "train")
    except RecipeError as error:
        raise BatchPlanError(str(error)) from error
    if pairs is None or not pairs.samples:
        raise BatchPlanError(f"{named}: its training data is empty")
    # the file's own fingerprint says nothing about a part of it
    seen = _source(source, "dataset", listing, pairs.fingerprint) if pairs.whole_file else None
    lengths = np.array(pairs.lengths, dtype=np.int64)
    return PlanSource(lengths, "bytes", pairs.fingerprint, fingerprint_there, seen)


def check_recipe(config: RunConfig, named: str) -> None:
    """Raise BatchPlanError if the run's samples are unknown."""
    if config.run.recipe != RECIPE:
        raise BatchPlanError(
            f"{named} does not run recipe {RECIPE}, so its samples are unknown: give --lengths or --dataset"
        )


def _listing(path: str) -> str | None:
    """Return the listing of a file or folder; None for a pipe, which cannot be read twice."""
    place = Path(path)
    return listing_of(place.absolute()) if place.is_file() or place.is_dir() else None


def _source(
    path: str, reading: Literal["dataset", "lengths"], listing: str | None, fingerprint: str
) -> DataSource | None:
    return None if listing is None else DataSource(str(Path(path).absolute()), reading, listing, fingerprint)
