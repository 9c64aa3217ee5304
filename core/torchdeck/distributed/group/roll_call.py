"""Roll call of the ranks before they communicate: a call that some ranks do not make is reported by name.

Ranks announce their calls in the store of the process group. The last one to arrive compares them; the first
one to time out says who is missing. All waiting ranks read the same verdict.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch.distributed as dist

# torch.distributed exposes them under its own name, which its type stubs lack
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import distributed_c10d

from torchdeck.distributed.recipe_loading import RecipeError

Seen = Callable[[], Mapping[int, str]]
"""Returns what other ranks do instead, by rank, as far as this rank can see: "has ended"."""

_PREFIX = "torchdeck/calls"
_ALL = "all"
"""Verdict on a call that every rank made."""
_NAMED = 8
"""Maximum number of ranks to name."""
_SHOWN = 200
"""Maximum characters of another rank's call to show."""
_LINGER = 2.0
"""Seconds that rank 0 waits at most for the others to read a verdict, as they soon do."""
_LONGEST_PAUSE = 0.25


class MissingCallError(RecipeError):
    """Ranks did not all make the same collective call; the message names the ranks and their calls."""

    page = "library#every-rank-makes-the-same-calls"


def group_store() -> Store:
    """Return the store of the default process group."""
    store: Store = distributed_c10d._get_default_store()  # noqa: SLF001 - has no public name
    return store


def roll_call(what: str, detail: str = "", *, timeout: float, seen: Seen = dict) -> None:
    """Return once every rank of the default process group has made this call.

    Args:
        what: the call as users write it: "save".
        detail: what must be the same on every rank: "step 5".
        timeout: seconds to wait for the others.
        seen: says which ranks can be seen not to call.

    Raises:
        MissingCallError: on every rank that called: a rank did not call in time, was seen to do something
            else, or made another call.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return
    try:
        verdict = _Call(rank, world_size, what, detail, timeout).verdict(seen)
    except RuntimeError as error:
        raise MissingCallError(
            f"{what} failed: rank {rank} lost the connection to the store of the process group "
            f"({_first_line(error)}), which rank 0 or torchrun serves: see what rank 0 printed last"
        ) from error
    if verdict:
        raise MissingCallError(verdict)


class _Call:
    """One call of this rank, under its number: the ranks' n-th calls belong together."""

    def __init__(self, rank: int, world_size: int, what: str, detail: str, timeout: float) -> None:
        self._rank = rank
        self._world_size = world_size
        self._what = what
        self._detail = detail
        self._timeout = timeout
        calls = PrefixStore(_PREFIX, group_store())
        # counted in the store: it outlives a group that is joined again
        number = calls.add(f"number/{rank}", 1)
        self._store = PrefixStore(str(number), calls)
        self._last = PrefixStore(str(number - 1), calls)

    def verdict(self, seen: Seen) -> str:
        """Return why not all ranks made this call; empty if they did."""
        store, began = self._store, time.monotonic()
        store.set(str(self._rank), json.dumps([self._what, self._detail]))
        if store.add("count", 1) == self._world_size:
            self._decide(self._difference() or _ALL)
            for key in ("count", "verdict", "told"):
                self._last.delete_key(key)  # every rank has read them
        while not store.check(["verdict"]):
            waited = time.monotonic() - began
            elsewhere = {rank: why for rank, why in seen().items() if self._is_missing(rank)}
            if elsewhere:
                self._decide(self._absence(list(elsewhere), elsewhere))
            elif waited > self._timeout:
                missing = [rank for rank in range(self._world_size) if self._is_missing(rank)]
                self._decide(self._absence(missing, {}) if missing else self._undecided())
            else:
                time.sleep(min(_LONGEST_PAUSE, 1e-4 + waited / 20))
        verdict = store.get("verdict").decode(errors="replace")
        if verdict == _ALL:
            self._linger(self._world_size)
            with suppress(RuntimeError):  # as below
                store.delete_key(str(self._rank))
            return ""
        self._linger(sum(not self._is_missing(rank) for rank in range(self._world_size)))
        return verdict

    def _decide(self, verdict: str) -> None:
        # the first one decides for all: a rank arriving at this moment must not continue alone
        self._store.compare_set("verdict", "", verdict)

    def _is_missing(self, rank: int) -> bool:
        return not self._store.check([str(rank)])

    def _absence(self, missing: Sequence[int], elsewhere: Mapping[int, str]) -> str:
        who = _ranks(missing)
        if elsewhere:
            first = missing[0]
            subject = "it" if len(missing) == 1 else f"rank {first}"
            why = f"{who} did not call {self._what}: {subject} {elsewhere[first]}"
        else:
            why = f"{who} did not call {self._what} within {self._timeout:g} s"
        return f"{why}. Every rank must call {self._what}, not the main process alone"

    def _difference(self) -> str:
        """Return how the calls of the ranks differ; empty if they do not."""
        ranks: dict[tuple[str, str], list[int]] = {}
        for rank in range(self._world_size):
            ranks.setdefault(_read(self._store.get(str(rank))), []).append(rank)
        if len(ranks) == 1:
            return ""
        calls = [f"{_ranks(each)} called {_shown(*call)}" for call, each in ranks.items()]
        return f"{', '.join(calls[:_NAMED])}: every rank must make the same calls in the same order"

    def _undecided(self) -> str:
        return f"{self._what} failed: the last rank to call it ended before it compared the calls"

    def _linger(self, present: int) -> None:
        """Record that this rank has read the verdict. Rank 0 waits until all `present` ones have read it, as
        it may serve the store, and end now.
        """
        with suppress(RuntimeError):  # rank 0 has left, as all have read it
            told = self._store.add("told", 1)
            if self._rank == 0:
                deadline = time.monotonic() + _LINGER
                while told < present and time.monotonic() < deadline:
                    time.sleep(0.01)
                    told = self._store.add("told", 0)


def _read(value: bytes) -> tuple[str, str]:
    try:
        found: Any = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, list) or [type(part) for part in found] != [str, str]:
        return ("something else", "")
    return found[0][:_SHOWN], found[1][:_SHOWN]


def _shown(what: str, detail: str) -> str:
    return f"{what} ({detail})" if detail else what


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown, more = [str(rank) for rank in ranks[:_NAMED]], len(ranks) - _NAMED
    last = f"{more} more" if more > 0 else shown.pop()
    return f"ranks {', '.join(shown)} and {last}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
