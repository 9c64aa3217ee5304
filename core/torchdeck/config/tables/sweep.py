"""The [sweep] table: the variants of a run that `torchdeck sweep` tries."""

from __future__ import annotations

from typing import Literal

from torchdeck.options import Section, option


class Sweep(Section):
    """Parameters and goal of a sweep. A launch of the run file does not read it."""

    over: list[str] = option(
        "Keys to vary, or placeholders in run.args, each with its values: a range LOW..HIGH, evenly drawn; "
        "LOW..HIGH:log in the logarithm; LOW..HIGH:int whole numbers; or a list VALUE,VALUE.",
        label="Parameters",
        default=[],
        right='a list such as ["training.lr=1e-4..1e-2:log", "training.microbatch=8,16"]',
    )
    metric: str | None = option(
        "Metric to judge by: its last value, or one such as loss:best or loss@1000. A sweep needs it.",
        default=None,
        min_length=1,
        right='a metric, such as "validation_loss"',
    )
    direction: Literal["min", "max"] | None = option(
        "Whether low or high values are good. Default: by the metric's name.", default=None
    )
    strategy: Literal["grid", "zip", "random", "tpe"] | None = option(
        "grid: every combination. zip: the first values of all keys, then the second ones. random: drawn by "
        "the sweep's seed. tpe: suggested by Optuna from the results so far (extra [sweep]). Default: grid "
        "if the number of trials covers it, else random.",
        default=None,
    )
    trials: int | None = option(
        "Number of points to try. Default: all of a grid or zip.",
        label="Number of trials",
        default=None,
        unit="trials",
        ge=1,
        le=10_000,
    )
    seeds: int = option(
        "Runs of each point, with seeds that follow each other; their mean is judged.",
        label="Seeds per trial",
        default=1,
        ge=1,
        le=100,
    )
    seed: int = option("Seed of random points.", label="Seed of the sweep", default=0, ge=0, le=2**63 - 1)
    at_once: int = option("Most runs at a time.", label="Runs at a time", default=1, ge=1, le=1000)
    prune: Literal["asha", "median"] | None = option(
        "Stop trials early that are worse than others at the same step. asha: at steps that grow by "
        "prune_factor, only one in prune_factor continues. median: the best value so far is worse than the "
        "median of complete trials. Default: none.",
        label="Pruning",
        default=None,
        group="pruning",
    )
    prune_after: int | None = option(
        "First step at which a trial is pruned. Default: the length of the first complete trial, divided by "
        "the square of prune_factor.",
        label="Prune after",
        default=None,
        unit="steps",
        ge=1,
        group="pruning",
    )
    prune_factor: int = option(
        "One in so many trials continues at each step of asha.",
        label="Pruning factor",
        default=3,
        ge=2,
        le=100,
        group="pruning",
    )
