"""Outcome of an attempt derived from its ranks' exits, if agent and shim were gone before they could write
it.
"""

from __future__ import annotations

import dataclasses
import re
import signal

from torchdeck.agent.ranks.failures import read_exit, signal_of
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.run_states import Outcome, StopCause
from torchdeck.runs.state import AttemptView, Failure, RankExit

_RANK = re.compile(r"[0-9]{1,7}", re.ASCII)
_CANCELLED = (StopCause.USER, StopCause.LIMIT)
"""Causes for which a run is stopped without having failed."""


def read_exit_files(layout: RunLayout, attempt: AttemptView, world_size: int | None) -> list[RankExit]:
    """Read the exits of ranks that no journal has, as written by each rank's parent."""
    folder, ranks = layout.attempt(attempt.number), attempt.world_size or world_size or 0
    known = {exit_.rank for exit_ in attempt.exits}
    try:
        names = [path.name for path in folder.ranks.iterdir() if _RANK.fullmatch(path.name)]
    except OSError:
        return []
    there = sorted(rank for name in names if (rank := int(name)) < ranks and rank not in known)
    codes = [(rank, read_exit(folder.rank(rank).exit)) for rank in there]
    return [RankExit(rank, code, _signal_name(code)) for rank, code in codes if code is not None]


def judged_by_ranks(
    attempt: AttemptView, world_size: int | None, stopping: tuple[str, str] | None
) -> AttemptView:
    """Return the attempt with the outcome of its ranks' exits; unchanged unless all of them ended.

    Args:
        attempt: attempt without any live process.
        world_size: world size of the run, for attempts that do not record their own.
        stopping: kind and cause of the stop request, if there was one.
    """
    ranks = attempt.world_size or world_size or 0
    exits = {exit_.rank: exit_ for exit_ in attempt.exits}
    if attempt.outcome is not None or ranks == 0 or len(exits) < ranks:
        return attempt
    if stopping is not None:
        return dataclasses.replace(
            attempt, outcome=Outcome.STOPPED if stopping[1] in _CANCELLED else Outcome.FAILED
        )
    failed = [exit_ for exit_ in exits.values() if exit_.code != 0]
    if not failed:
        return dataclasses.replace(attempt, outcome=Outcome.SUCCEEDED)
    # torchrun ends the others with SIGTERM if one fails
    first = min(failed, key=lambda exit_: exit_.signal == signal.SIGTERM.name)
    failure = Failure(first.rank, first.code, first.signal, node=first.node)
    return dataclasses.replace(attempt, outcome=Outcome.FAILED, first_failure=failure)


def _signal_name(code: int) -> str | None:
    number = signal_of(code)
    try:
        return None if number is None else signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
