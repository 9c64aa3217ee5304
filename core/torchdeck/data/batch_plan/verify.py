"""Consistency check of a plan's content."""

from __future__ import annotations

import numpy as np

from torchdeck.data.batch_plan.columns import Column, EpochColumns
from torchdeck.data.batch_plan.plan import BatchPlan


def check_plan(plan: BatchPlan) -> list[str]:
    """Return the faults of `plan`, one sentence each; empty if there are none.

    Ids must be in the data set and occur once per epoch; counts must match each other and the microbatches.
    """
    problems = []
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        problems += [f"epoch {epoch}: {problem}" for problem in _shape_problems(columns)]
        if problems:
            continue
        problems += [f"epoch {epoch}: {problem}" for problem in _id_problems(columns, plan)]
    return problems


def _shape_problems(columns: EpochColumns) -> list[str]:
    problems = []
    for name, values in (
        ("samples", columns.batch_size),
        ("rows", columns.rows),
        ("max_len", columns.max_len),
    ):
        wrong = np.flatnonzero(values < 1)
        if len(wrong):
            problems.append(f"microbatch {wrong[0]} has {values[wrong[0]]} {name}: it must have at least 1")
    wrong = np.flatnonzero((columns.tokens < 0) | (columns.tokens > columns.padded_tokens))
    if len(wrong):
        at = wrong[0]
        problems.append(
            f"microbatch {at} has {columns.tokens[at]} tokens, but room for {columns.padded_tokens[at]}"
        )
    return problems


def _id_problems(columns: EpochColumns, plan: BatchPlan) -> list[str]:
    ids = columns.sample_ids
    wrong = np.flatnonzero((ids < 0) | (ids >= plan.size))
    if len(wrong):
        at = _microbatch_of(columns, int(wrong[0]))
        rule = f"ids are 0 to {plan.size - 1}"
        return [f"microbatch {at} has sample {ids[wrong[0]]}, which the data set lacks: {rule}"]
    twice = repeated(ids)
    if len(twice):
        found = np.flatnonzero(ids == twice[0])
        first, second = (_microbatch_of(columns, int(place)) for place in found[:2])
        more = f"; {len(twice)} samples occur more than once" if len(twice) > 1 else ""
        return [f"sample {twice[0]} occurs {len(found)} times, in microbatches {first} and {second}{more}"]
    if plan.meta.shard is None and len(ids) != plan.meta.counts.used:
        return [f"it has {len(ids)} samples, but {plan.meta.counts.used} of the data set are used"]
    return []


def repeated(ids: Column) -> Column:
    """Return the ids that occur more than once, ascending; memory depends on their number, not their size."""
    ordered = np.sort(ids)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _microbatch_of(columns: EpochColumns, place: int) -> int:
    return int(np.searchsorted(columns.offsets, place, side="right")) - 1
