"""Contradictions of the [checkpoint] table: checkpoints kept for a metric that none of them will have."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchdeck.config.problems import shown
from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.toml.document import KeyPath

_EVERY: KeyPath = ("checkpoint", "every")
_EVAL_EVERY: KeyPath = ("training", "eval_every")
_KEEP_BEST: KeyPath = ("checkpoint", "keep_best")


def keep_best(given: Given) -> Iterator[Finding]:
    """Keeping the best by a metric of evaluations needs evaluations at steps that are saved."""
    checkpoint, training = given.config.checkpoint, given.config.training
    if given.config.run.recipe is None or checkpoint.keep_best == 0:
        return
    metric = checkpoint.best_metric
    if training.eval_every is None:
        wrong = f"nothing will have {shown(metric)}: no training.eval_every, so nothing is evaluated"
        yield Finding(_KEEP_BEST, wrong, "training.eval_every = 100, or no keep_best", (_EVAL_EVERY,))
    elif isinstance(checkpoint.every, int) and training.steps is not None:
        together = math.lcm(checkpoint.every, training.eval_every)
        if together > training.steps:
            wrong = (
                f"nothing will have {shown(metric)}: checkpoints every {checkpoint.every} steps and "
                f"evaluations every {training.eval_every} first meet at step {together}, after the last"
            )
            right = f"checkpoint.every = {training.eval_every}, or no keep_best"
            uses = (_EVERY, _EVAL_EVERY, ("training", "steps"))
            yield Finding(_KEEP_BEST, wrong, right, uses)


def best_of_none(given: Given) -> Iterator[Finding]:
    """The metric for the best matters only if some are kept for it."""
    if given.config.checkpoint.keep_best == 0:
        for name in ("best_metric", "best_is"):
            path = ("checkpoint", name)
            if given.written(path):
                wrong = "it has no effect with checkpoint.keep_best = 0"
                yield Finding(path, wrong, f"no {name}, or checkpoint.keep_best = 1", (_KEEP_BEST,))


CHECKPOINT_RULES: tuple[Rule, ...] = (keep_best, best_of_none)
