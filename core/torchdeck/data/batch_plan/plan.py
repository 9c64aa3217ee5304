"""A batch plan: epochs of microbatches, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.batch_plan.columns import BatchPlanError, Column, EpochColumns, Microbatch
from torchdeck.data.batch_plan.meta import PlanMeta, ShardOf

if TYPE_CHECKING:
    from torchdeck.data.batch_plan.balance import Balance


class BatchPlan:
    """A precomputed schedule: which samples form a microbatch, in which order.

    Args:
        meta: data and settings it was made from.
        columns: one for each epoch.
        names: names of the samples, if they have some; index = sample id.
        fingerprint: the fingerprint, if it is known already.
    """

    def __init__(
        self,
        meta: PlanMeta,
        columns: Sequence[EpochColumns],
        *,
        names: Sequence[str] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self.meta = meta
        self.names = None if names is None else tuple(names)
        self._columns = tuple(columns)
        self._fingerprint = fingerprint

    @property
    def epochs(self) -> int:
        """Number of planned epochs."""
        return len(self._columns)

    @property
    def size(self) -> int:
        """Number of samples in the data set; ids are 0 to size − 1."""
        return self.meta.size

    @property
    def total_microbatches(self) -> int:
        """Number of microbatches of all epochs."""
        return sum(map(len, self._columns))

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 in hexadecimal over data set, tokenizer, settings and content."""
        if self._fingerprint is None:
            from torchdeck.data.batch_plan.meta import describe, plan_fingerprint

            described = [describe(name, array) for name, array in self.arrays()]
            self._fingerprint = plan_fingerprint(self.meta, described)
        return self._fingerprint

    def arrays(self) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """The arrays to store and hash, by name; see `plan_arrays`."""
        from torchdeck.data.batch_plan.meta import plan_arrays

        return plan_arrays(self._columns, self.names)

    @arguments(own_checks=True)
    def microbatches(self, epoch: int) -> int:
        """Number of microbatches of `epoch`, from 0.

        Raises:
            BatchPlanError: the plan has no such epoch.
        """
        return len(self.epoch_columns(epoch))

    @arguments(own_checks=True)
    def epoch_columns(self, epoch: int) -> EpochColumns:
        """Return all of `epoch` as arrays; same errors as `microbatches`."""
        if not 0 <= epoch < self.epochs:
            raise BatchPlanError(f"there is no epoch {epoch}: the plan has {self.epochs}, counted from 0")
        return self._columns[epoch]

    @arguments(own_checks=True)
    def microbatch(self, epoch: int, index: int) -> Microbatch:
        """Return microbatch `index` of `epoch`, both from 0.

        Raises:
            BatchPlanError: the plan has no such epoch or microbatch.
        """
        columns = self.epoch_columns(epoch)
        if not 0 <= index < len(columns):
            raise BatchPlanError(
                f"there is no microbatch {index}: epoch {epoch} has {len(columns)}, counted from 0"
            )
        return columns.microbatch(index)

    @arguments(own_checks=True)
    def iter_epoch(self, epoch: int) -> Iterator[Microbatch]:
        """Yield the microbatches of `epoch` in order; same errors as `microbatches`."""
        return self.epoch_columns(epoch).iterate()

    @arguments(own_checks=True)
    def iter_from(self, epoch: int, microbatch_idx: int = 0) -> Iterator[tuple[int, int, Microbatch]]:
        """Yield `(epoch, index, microbatch)` from that position to the end of the last epoch.

        The position behind the last microbatch of an epoch is the start of the next one.

        Raises:
            BatchPlanError: there is no such position.
        """
        at_end = epoch == self.epochs and microbatch_idx == 0
        if not at_end and not 0 <= microbatch_idx <= self.microbatches(epoch):
            raise BatchPlanError(
                f"there is no microbatch {microbatch_idx} to continue from: epoch {epoch} has "
                f"{self.microbatches(epoch)}, counted from 0"
            )
        return self._from(epoch, microbatch_idx)

    def _from(self, epoch: int, start: int) -> Iterator[tuple[int, int, Microbatch]]:
        for number in range(epoch, self.epochs):
            for microbatch in self._columns[number].iterate(start if number == epoch else 0):
                yield number, microbatch.index, microbatch

    @arguments(own_checks=True)
    def shard(
        self,
        rank: int,
        world_size: int,
        *,
        balance: Balance = "none",
        window: int | None = None,
        cost: int | None = None,
    ) -> BatchPlan:
        """Return the part of `rank`: a plan of its own, whose microbatches count from 0.

        Every microbatch is in exactly one shard. Sizes of shards differ by at most one; a shard is empty if
        there are more ranks than microbatches.

        Args:
            rank: 0 to world_size − 1.
            world_size: number of ranks.
            balance: "none": rank i takes microbatches i, i + W, …; "tokens" and "attention": see `balance`.
            window: with a balance: microbatches per rank that are balanced together.
            cost: with "attention": its c.

        Raises:
            BatchPlanError: rank, world size or balance is invalid.
        """
        from torchdeck.data.batch_plan.balance import (
            check_dealing,
            check_rank,
            check_world_size,
            rank_table,
        )

        rank, world_size = check_rank(rank, world_size), check_world_size(world_size)
        check_dealing(balance, window, cost)
        parts = []
        for columns in self._columns:
            if balance == "none":
                chosen = np.arange(rank, len(columns), world_size)
            else:
                row = rank_table(columns, world_size, balance, window=window, cost=cost)[rank]
                chosen = row[row >= 0]
            parts.append(columns.select(chosen))
        return self.part(parts, rank, world_size, balance)

    def part(self, columns: Sequence[EpochColumns], rank: int, world_size: int, balance: str) -> BatchPlan:
        """A shard of this plan with `columns`."""
        shard = ShardOf(self.fingerprint, rank, world_size, balance)
        meta = replace(self.meta, shard=shard)
        return BatchPlan(meta, columns, names=self.names)


# Consistency check of a plan's content.


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
