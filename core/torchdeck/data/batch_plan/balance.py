"""Assignment of microbatches to ranks, so that all have equal counts and equal work.

"tokens" balances true tokens: what a kernel without padding computes, and what the loss is weighted by.
"attention" balances `rows × (c·L + L²)` with L the padded length: the cost of a padded batch, with c weighing
the part of a transformer that grows with the length against the attention that grows with its square. A
layer of hidden size h computes 24·L·h² + 4·L²·h operations forward (Narayanan et al., arXiv:2104.04473,
appendix), which is in proportion to 6h·L + L²: c = 6h.

Largest first, each to the rank with the least so far (Graham, "Bounds on multiprocessing timing anomalies",
1969), among those that still lack one: every rank gets the same number; then the rank with most swaps with
the one with least. All values are integers with ties to the lower rank, so that every machine decides
alike. Since ranks then hold different numbers of tokens, a mean over tokens must weigh each microbatch by
its share of the step's tokens.
"""

from __future__ import annotations

import heapq
from typing import Literal, get_args

import numpy as np

from torchdeck.data.batch_plan.columns import BatchPlanError, EpochColumns, Ints
from torchdeck.data.checked import as_whole

Balance = Literal["none", "tokens", "attention"]
BALANCES: tuple[Balance, ...] = get_args(Balance)
DEFAULT_COST = 6 * 1024
"""c for a hidden size of 1,024."""
DEFAULT_WINDOW = 16
"""Microbatches of each rank that are balanced together: enough for the largest to find a counterweight."""
NONE = -1
"""Marks in a table of ranks that there is no microbatch."""
MOST_RANKS = 1 << 20
"""Most ranks: the numbers of all ranks must fit in memory."""
_LARGEST_COST = 1 << 24
_MOST_COSTS = 2.0**62
"""Most cost of all microbatches together, as loads are added up in 64 bits."""
_EVEN = 500
"""Ranks are even if none is over the mean by more than one part in this many."""
_SWAPS = 4
"""Most tries for each rank."""
_PAIRS = 1 << 24
"""Most swaps considered in one try: each takes some 16 bytes."""


def check_world_size(world_size: int) -> int:
    """Return `world_size` as an int; raises BatchPlanError unless it is from 1 to MOST_RANKS."""
    number = as_whole(world_size)
    if number is None or not 1 <= number <= MOST_RANKS:
        rule = "at least 1" if number is None or number < 1 else f"at most {MOST_RANKS}"
        raise BatchPlanError(f"world size {world_size!r} is out of range: it must be {rule}")
    return number


def check_rank(rank: int, world_size: int) -> int:
    """Return `rank` as an int; raises BatchPlanError unless it is one of `world_size` ranks."""
    world_size, number = check_world_size(world_size), as_whole(rank)
    if number is None or not 0 <= number < world_size:
        raise BatchPlanError(
            f"rank {rank!r} is out of range: with {world_size} ranks it must be from 0 to {world_size - 1}"
        )
    return number


def check_window(window: int | None) -> int:
    """Return `window`, or the default; raises BatchPlanError unless it is at least 1."""
    number = DEFAULT_WINDOW if window is None else as_whole(window)
    if number is None or number < 1:
        raise BatchPlanError(f"window must be a whole number of microbatches from 1, not {window!r}")
    return number


def check_balance(balance: str) -> None:
    """Raise BatchPlanError unless `balance` is valid."""
    if balance not in BALANCES:
        raise BatchPlanError(f"balance must be one of {', '.join(BALANCES)}, not {balance!r}")


def check_cost(cost: int | None) -> int:
    """Return c of the attention cost: `cost`, or the default; raises BatchPlanError unless it is valid."""
    number = DEFAULT_COST if cost is None else as_whole(cost)
    if number is None or not 0 <= number <= _LARGEST_COST:
        raise BatchPlanError(
            f"c of the attention cost must be a whole number from 0 to {_LARGEST_COST}, not {cost!r}"
        )
    return number


def check_dealing(balance: str, window: int | None, cost: int | None) -> int:
    """Return the window as a number; raises BatchPlanError unless all three are in range, used or not."""
    check_balance(balance)
    check_cost(cost)
    return check_window(window)


def microbatch_costs(
    columns: EpochColumns, balance: Balance, cost: int | None, part: slice = slice(None)
) -> Ints:
    """Return the cost of each microbatch of `part`, shape (m,).

    Raises:
        BatchPlanError: `cost` is out of range, or the costs are too large to be added up.
    """
    if balance == "tokens":
        return columns.tokens[part].astype(np.int64)
    c = check_cost(cost)
    longest = columns.max_len[part].astype(np.int64)
    starts = columns.offsets if columns.row_offsets is None else columns.row_offsets
    bounds = slice(part.start, None if part.stop is None else part.stop + 1)
    rows = np.diff(starts[bounds]).astype(np.int64)
    if float((rows * (longest * (c + longest.astype(np.float64)))).sum()) > _MOST_COSTS:
        raise BatchPlanError(
            f"with samples of up to {int(longest.max())} tokens the attention costs of all do not fit 64 "
            "bits: balance by tokens"
        )
    return rows * longest * (c + longest)


def rank_table(
    columns: EpochColumns,
    world_size: int,
    balance: Balance = "none",
    *,
    window: int | None = None,
    cost: int | None = None,
) -> Ints:
    """Return each rank's microbatches in the order it takes them, shape (world_size, most); −1 if it has
    none.

    Raises:
        BatchPlanError: an argument is out of range.
    """
    world_size, each = check_world_size(world_size), check_dealing(balance, window, cost)
    if balance == "none":
        return round_robin(len(columns), world_size)
    costs = microbatch_costs(columns, balance, cost)
    loads = [0] * world_size
    windows = [
        _window(costs, first, first + each * world_size, loads)
        for first in range(0, len(costs), each * world_size)
    ]
    return np.concatenate([np.empty((world_size, 0), dtype=np.int64), *windows], axis=1)


def _window(costs: Ints, first: int, last: int, loads: list[int]) -> Ints:
    """Return microbatches `first` to before `last`, balanced.

    Ranks take theirs by falling cost, so that microbatches that run at the same time take as long. These
    rows of similar cost are in the order of the plan, lest every window begin with its longest samples.
    """
    table = balanced(costs[first:last], loads)
    shared = table.shape[1] - bool((table < 0).any())
    order = np.append(np.argsort(table[0, :shared]), np.arange(shared, table.shape[1]))
    table = table[:, order]
    return np.where(table < 0, NONE, table + first)


def round_robin(count: int, world_size: int) -> Ints:
    """Assign i, i + W, … to rank i: shape (world_size, ⌈count / W⌉), −1 if it has none."""
    steps = -(-count // world_size)
    table = np.full(steps * world_size, NONE, dtype=np.int64)
    table[:count] = np.arange(count)
    return table.reshape(steps, world_size).T


def balanced(costs: Ints, loads: list[int]) -> Ints:
    """Assign largest first with a cap on the count: shape (W, ⌈n / W⌉), −1 if a rank has none.

    Args:
        costs: of each microbatch, shape (n,).
        loads: the present load of each of the W ranks; updated.
    """
    world_size = len(loads)
    floor, extra = divmod(len(costs), world_size)
    table = np.full((world_size, floor + (extra > 0)), NONE, dtype=np.int64)
    counts = [0] * world_size
    heap = [(load, rank) for rank, load in enumerate(loads)]
    heapq.heapify(heap)
    order = np.argsort(-costs, kind="stable")
    for item, cost in zip(order.tolist(), costs[order].tolist(), strict=True):
        while counts[heap[0][1]] == floor and not extra:
            heapq.heappop(heap)
        load, rank = heap[0]
        table[rank, counts[rank]] = item
        loads[rank] = load + cost
        counts[rank] += 1
        if counts[rank] > floor:
            extra -= 1
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (loads[rank], rank))
    if floor:
        shared = table[:, :floor]
        loads[:] = _even_out(costs, shared, np.array(loads, dtype=np.int64)).tolist()
        falling = np.argsort(-costs[shared], axis=1, kind="stable")
        table[:, :floor] = np.take_along_axis(shared, falling, axis=1)
    return table


def _even_out(costs: Ints, table: Ints, loads: Ints) -> Ints:
    """Swap items of the rank with most, in place, while that helps; return the resulting load of each rank.

    The cap on the count leaves ranks that began with the largest items no choice of their last ones.
    """
    world_size = len(table)
    enough = int(loads.sum()) * (_EVEN + 1) // (_EVEN * world_size)
    for _ in range(_SWAPS * world_size):
        most = int(loads.argmax())
        if loads[most] <= enough:
            break
        least = int(loads.argmin())
        if not _swap(costs, table, loads, most, np.array([least])) and not _swap(
            costs, table, loads, most, np.arange(world_size)
        ):
            break
    return loads


def _swap(costs: Ints, table: Ints, loads: Ints, most: int, others: Ints) -> bool:
    """Swap the item of `most` and the one of `others` that help most; return whether there were any."""
    if table.shape[1] ** 2 * len(others) > _PAIRS:
        return False
    less = costs[table[most]][None, :, None] - costs[table[others]][:, None, :]
    left = np.maximum(loads[most] - less, loads[others][:, None, None] + less)
    other, mine, theirs = np.unravel_index(int(left.argmin()), left.shape)
    if left[other, mine, theirs] >= loads[most]:
        return False
    rank, moved = others[other], less[other, mine, theirs]
    table[most, mine], table[rank, theirs] = table[rank, theirs], table[most, mine]
    loads[most] -= moved
    loads[rank] += moved
    return True
