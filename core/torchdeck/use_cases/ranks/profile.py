"""Profiles chosen ranks of a running run for some seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.doctor.rank_profile import KIND, LEAST_SECONDS, MOST_RANKS, MOST_SECONDS, Wanted
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.rank_profiles import RankProfile, rank_profile
from torchdeck.use_cases.ranks.asked_ranks import AskedRanks
from torchdeck.use_cases.ui import Phase, Ui

SECONDS = 5.0
"""Default duration."""
MOST_CHOSEN = 8
"""World size up to which all ranks are profiled if none is chosen; of larger worlds rank 0."""
LIMIT = 120.0
"""Seconds in addition to the recording: two ways of the agent, writing, and copying from other nodes."""


def ranks_in(text: str) -> tuple[int, ...]:
    """Return the ranks in a list such as `0,3-5`; none if it is empty.

    Raises:
        ValueError: it is no such list, or names more than `MOST_RANKS` ranks.
    """
    found: list[int] = []
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        begin, end = int(first), int(last if dash else first)
        if begin > end:
            raise ValueError(f"{part.strip()} begins after its end")
        if len(found) + end - begin >= MOST_RANKS:
            raise ValueError(f"more than {MOST_RANKS} ranks")
        found += range(begin, end + 1)
    return tuple(found)


def profile_ranks(
    layout: RunLayout, ranks: Sequence[int], seconds: float, origin: str, ui: Ui
) -> tuple[RankProfile, ...]:
    """Profile ranks, and wait for their files. The program continues meanwhile.

    Args:
        layout: the run.
        ranks: ranks to profile; empty: all of a small world, else rank 0.
        seconds: duration of the recording.
        origin: `terminal`, `window` or `api`.
        ui: for logins, progress, and to cancel: a recording that has begun continues.

    Raises:
        Refusal: the run has no such ranks, is over or only watched, or no answer comes.
    """
    wanted = Wanted(_chosen(_world_size(layout.plan), ranks), _in_range(seconds))
    asked = AskedRanks(layout, KIND, origin, ui, "its ranks cannot be profiled", wanted)
    until = time.monotonic() + seconds + LIMIT
    found: dict[int, RankProfile] = {}
    with ui.waiting(Phase.PROFILE) as progress:
        progress(f"{len(wanted.ranks)} ranks record for {seconds:g} s")
        while True:
            for rank in set(wanted.ranks) - set(found):
                answer = rank_profile(layout, asked.request.id, rank)
                if answer is not None:
                    found[rank] = answer
                    progress(f"{len(found)} of {len(wanted.ranks)} traces are here")
            if len(found) == len(wanted.ranks):
                return tuple(found[rank] for rank in wanted.ranks)
            asked.wait("the ranks were profiled", until)


def _in_range(seconds: float) -> float:
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise Refusal(
            f"{seconds:g} s is no duration of a profile",
            fix=f"choose from {LEAST_SECONDS:g} to {MOST_SECONDS:g} s: traces of more are hard to open",
        )
    return float(seconds)


def _chosen(world_size: int, ranks: Sequence[int]) -> tuple[int, ...]:
    if not ranks:
        return tuple(range(world_size)) if world_size <= MOST_CHOSEN else (0,)
    absent = sorted({rank for rank in ranks if not 0 <= rank < world_size})
    if absent:
        named = ", ".join(map(str, absent))
        raise Refusal(f"the run has no rank {named}", fix=f"its ranks are 0 to {world_size - 1}")
    if len(set(ranks)) > MOST_RANKS:
        raise Refusal(f"{len(set(ranks))} ranks are too many", fix=f"choose {MOST_RANKS} of them at most")
    return tuple(sorted(set(ranks)))


def _world_size(plan: Path) -> int:
    try:
        return LaunchPlan.from_json(read_json(plan)).world_size
    except (OSError, PlanFormatError) as error:
        raise Refusal(f"the run's plan cannot be read: {error}") from error
