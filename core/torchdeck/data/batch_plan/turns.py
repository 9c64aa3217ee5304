"""Which rank takes which part of a balanced step, so that none has the heaviest part in every step.

Where a step has few microbatches for each rank, its parts cannot be even. Each step's heaviest part then goes
to the rank that has had least, and so on; of ranks that had as much the one whose turn it is, which the
number of the step says. What ranks have had is counted over some hundred steps, from one that the position
and the shape of a step alone determine: a run that goes on from a position deals as one that never stopped.
"""

from __future__ import annotations

import numpy as np

from torchdeck.data.batch_plan.balance import Balance, balanced, microbatch_costs
from torchdeck.data.batch_plan.columns import EpochColumns, Ints

_TOGETHER = 256
"""Steps over which what ranks had is counted, at most."""
_MICROBATCHES = 1 << 18
"""In these steps together, as they are dealt again where a run goes on from their midst."""


class Turns:
    """Deals out the steps of one epoch."""

    def __init__(
        self, columns: EpochColumns, shape: tuple[int, int], balance: Balance, cost: int | None
    ) -> None:
        """
        Args:
            columns: of the epoch.
            shape: world size and accumulation.
            balance: "tokens" or "attention".
            cost: c of attention.
        """
        self._columns = columns
        self._world_size, self._size = shape[0], shape[0] * shape[1]
        self._balance, self._cost = balance, cost
        self._together = min(_TOGETHER, max(1, _MICROBATCHES // self._size))
        self._loads = np.zeros(self._world_size, dtype=np.int64)
        self._next = -1

    def table(self, first: int, last: int) -> Ints:
        """Microbatches `first` to before `last` as ranks take them, shape (W, most).

        They are counted from `first`; −1 where a rank has none.
        """
        since = first // self._size % self._together
        if since == 0:
            self._loads[:] = 0
        elif first != self._next:
            self._loads[:] = 0
            for earlier in range(first - since * self._size, first, self._size):
                self._deal(earlier, earlier + self._size)
        self._next = last
        return self._deal(first, last)

    def _deal(self, first: int, last: int) -> Ints:
        loads = [0] * self._world_size
        costs = microbatch_costs(self._columns, self._balance, self._cost, slice(first, last))
        parts = balanced(costs, loads)
        turn = (np.arange(self._world_size) - first // self._size) % self._world_size
        ranks = np.lexsort((turn, self._loads))
        falling = np.argsort(-np.array(loads, dtype=np.int64), kind="stable")
        table = np.empty_like(parts)
        table[ranks] = parts[falling]
        self._loads[ranks] += np.array(loads, dtype=np.int64)[falling]
        # what all have had does not matter, and would not fit 64 bits in the end
        self._loads -= self._loads.min()
        return table
