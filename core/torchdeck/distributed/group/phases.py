"""Phases of work that ranks do together: after a failed collective, which ranks are late, or whether one is
gone.

Each rank records in the store of the process group which phase it has done. That is read only if a collective
fails: gloo reports neither who was late, nor whether a closed connection belongs to a living rank.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import torch.distributed as dist

# torch.distributed exposes it under its own name, which its type stubs lack
from torch._C._distributed_c10d import PrefixStore, Store

from torchdeck.distributed.group.roll_call import group_store

_PREFIX = "torchdeck/phases"
_NAMED = 8
"""Maximum number of ranks to name."""
_GRACE = 1.0
"""Seconds in which a rank that timed out says so to those whose connection it closed."""
_TIMED_OUT = ("timed out", "timeout")
"""Parts of gloo's messages about a rank that is late."""


def timed_out(error: BaseException) -> bool:
    """Return whether a collective failed because a rank was late; it may be alive."""
    return any(text in str(error).lower() for text in _TIMED_OUT)


class Phases:
    """Phases of one process group, counted by every rank.

    Args:
        group: its ranks do the phases together.
        timeout: timeout of the group's collectives, in seconds.
    """

    def __init__(self, group: dist.ProcessGroup, timeout: float) -> None:
        self._rank, self._world_size = dist.get_rank(group), dist.get_world_size(group)
        self._timeout = timeout
        self._done = 0
        self._store: Store = PrefixStore(f"{_PREFIX}/{group.group_name}", group_store())

    def done(self) -> None:
        """Record that this rank has done its part of a phase, and waits for the others."""
        self._done += 1
        with suppress(RuntimeError):  # without the store a failure is explained less well
            self._store.set(str(self._rank), str(self._done))

    def why_failed(self, error: RuntimeError) -> str:
        """Return why a collective failed after this phase: which ranks are late; empty if one is gone."""
        try:
            if timed_out(error):
                late = [rank for rank in range(self._world_size) if self._phase_of(rank) < self._done]
                # the first one decides for all: the others' connections break because of it
                self._store.compare_set(f"late/{self._done}", "", self._late(late))
            return self._said()
        except RuntimeError:  # the store is gone, and with it rank 0 or torchrun
            return ""

    def _late(self, ranks: Sequence[int]) -> str:
        more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
        who = ", ".join(map(str, ranks[:_NAMED])) + more
        subject = f"rank{'s' if len(ranks) > 1 else ''} {who}" if ranks else "a rank"
        return f"{subject} did not finish this phase within {self._timeout:g} s"

    def _said(self) -> str:
        """Return what the rank that timed out in this phase, or in one before, wrote."""
        deadline = time.monotonic() + _GRACE
        keys = [f"late/{number}" for number in (self._done, self._done + 1)]
        while True:
            for key in keys:
                if self._store.check([key]):
                    return self._store.get(key).decode(errors="replace")
            if time.monotonic() > deadline:
                return ""
            time.sleep(0.02)

    def _phase_of(self, rank: int) -> int:
        if not self._store.check([str(rank)]):
            return 0
        value = self._store.get(str(rank))
        return int(value) if value.isdigit() else 0
