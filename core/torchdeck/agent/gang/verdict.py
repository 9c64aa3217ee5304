"""The last sentence about a run: its final state and why."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.agent.gang.events import Failure
from torchdeck.contract.plan.elastic import Roster
from torchdeck.contract.run_states import FinalState, StopCause

_WANTED = (StopCause.USER, StopCause.LIMIT)
"""All other stops are failures."""
_SENTENCES = {
    StopCause.USER: "stopped by the user",
    StopCause.LIMIT: "stopped at its time limit",
    StopCause.DISK: "stopped because the disk is nearly full",
    StopCause.INODES: "stopped because the disk has nearly no inodes left",
    StopCause.HANG: "stopped because a rank was stalled",
    StopCause.GONE: "stopped because its run directory was deleted",
    StopCause.NODE: "stopped because a node cannot take part",
    StopCause.REPLACED: "this part of the run was replaced",
}


def final_state(why: StopCause, detail: str, failure: Failure | None) -> tuple[FinalState, str]:
    """State and sentence of a run that was stopped for `why`; what failed while it stopped is named too."""
    sentence = _SENTENCES.get(why, f"stopped ({why})")
    if detail:
        sentence = f"{sentence}: {detail}"
    if failure is not None and why is StopCause.USER:
        sentence = f"{sentence}; while stopping, {describe_failure(failure)}"
    return FinalState.CANCELLED if why in _WANTED else FinalState.FAILED, sentence


def describe_failure(failure: Failure | None) -> str:
    """One line: who failed first, how, and with what words."""
    if failure is None:
        return "the attempt failed"
    if failure.rank is None:
        return failure.message
    code = (
        "" if failure.signal is not None or "exit code" in failure.message else f" (exit code {failure.code})"
    )
    if failure.tied:
        others = ", ".join(map(str, failure.tied))
        return (
            f"rank {failure.rank} failed at the same time as rank {others}, as far as the clocks of their "
            f"nodes tell: {failure.message}{code}"
        )
    return f"rank {failure.rank} failed first: {failure.message}{code}"


def is_resumable(state: FinalState, checkpoint: str) -> bool:
    """Whether the run can continue later: it did not reach its end, and left a complete checkpoint."""
    return state is not FinalState.SUCCEEDED and bool(checkpoint)


# A node that does not answer any more, in words. Pure.


def not_answering(node: str, seconds: float, ranks: Sequence[int] = ()) -> str:
    """`node gpu3 has not answered for 41 s; its ranks 2 and 3 are gone`."""
    return f"node {node} has not answered for {seconds:.0f} s{_ranks_gone(ranks)}"


def started_again(node: str, ranks: Sequence[int] = ()) -> str:
    """Its ranks ended with the machine."""
    return f"node {node} lost power or was rebooted{_ranks_gone(ranks)}"


def ranks_on(roster: Roster, node: str) -> list[int]:
    """The ranks that a node has in a gang."""
    return [rank for rank, place in enumerate(roster.places) if place.node == node]


def _ranks_gone(ranks: Sequence[int]) -> str:
    if not ranks:
        return ""
    if len(ranks) == 1:
        return f"; its rank {ranks[0]} is gone"
    *first, last = map(str, ranks)
    return f"; its ranks {', '.join(first)} and {last} are gone"
