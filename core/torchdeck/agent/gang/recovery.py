"""Recovery after a failed attempt: the same gang again, one without the failed place, or nothing. Pure."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.agent.gang.attempt_state import AttemptState
from torchdeck.agent.gang.events import Failure
from torchdeck.agent.gang.recovered_state import RecoveredState, fruitless_attempts, is_new_save
from torchdeck.contract.plan.elastic import Elastic, Place, Roster
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import StartReason

PORT_RETRIES = 3
"""Attempts that follow a lost port; they do not count against max_restarts."""


NEVER_RAN_RETRIES = 10
"""Attempts in a row that may end before a rank was started, because a node does not answer; each waits for
it for `launch.node_grace`, and none counts against max_restarts."""


CRASH_LOOP = 3
"""Attempts in a row without a new step or checkpoint after which a run is not restarted."""


class Restart(NamedTuple):
    """Another attempt is due."""

    reason: StartReason
    suspect: Place | None = None
    """Place whose failure ended the attempt, if the gang may continue without it; given up if `smaller` or
    `replaced`.
    """
    why: str = ""
    """Why it is given up."""
    world_size: int | None = None
    """Ranks of the next attempt, if it is smaller."""
    instead: str = ""
    """The spare node that takes its place."""
    skipped: tuple[str, ...] = ()
    """Spare nodes that do not answer, and are given up too."""


class Recovery:
    """Counts restarts and remembers failed places.

    Attributes:
        left_out: places given up so far.
        roster: places that take part.
        at_least: reason, as a clause, that a run is over although restarts may be left; else empty.
    """

    def __init__(self, policy: Policy, elastic: Elastic) -> None:
        self.left_out: tuple[Place, ...] = ()
        self.roster: Roster = elastic.full
        self.at_least = ""
        self._policy = policy
        self._elastic = elastic
        self._restarts = 0
        self._port_retries = 0
        self._never_ran = 0
        self._ran = False
        self._fruitless = 0
        """Attempts in a row, the last ones, without a new step or checkpoint."""
        self._reached = 0
        """Most steps that an attempt before this one has reported."""
        self._step = 0
        self._saved = False
        self._saved_step: int | None = None
        """Highest step of a checkpoint so far, of any attempt."""
        self._traceback = ""
        self._suspect: Place | None = None
        self._away: set[str] = set()
        """Nodes that do not answer."""

    @property
    def finished(self) -> str:
        """How a run ended well, as a sentence."""
        ranks, asked = self.roster.world_size, self._elastic.full.world_size
        return "all ranks finished" if ranks == asked else f"all ranks finished, {ranks} in place of {asked}"

    @property
    def places(self) -> list[str]:
        """The node of each rank, by the plan."""
        return [place.node for place in self.roster.places]

    def resume(self, recovered: RecoveredState) -> None:
        """Continue after the end of the journal."""
        self._restarts, self._port_retries = recovered.restarts, recovered.port_retries
        self._never_ran = recovered.never_ran
        self._ran, self._suspect = recovered.ran, recovered.suspect
        self._traceback = recovered.traceback
        self._fruitless, self._reached = recovered.fruitless, recovered.reached
        self._step, self._saved, self._saved_step = recovered.step, recovered.saved, recovered.saved_step
        self.left_out = recovered.left_out
        self.roster = self._elastic.without(self.left_out) or self._elastic.full

    def running(self) -> None:
        """An attempt trains: what fails from now on need not be the program itself."""
        self._ran = True

    def checkpoint_saved(self, step: int | None) -> None:
        """There is progress since the last failure, unless a program saved an earlier `step` again."""
        if not is_new_save(step, self._saved_step):
            return
        self._saved_step = self._saved_step if step is None else step
        self._suspect = None
        self._saved = True

    @property
    def progress(self) -> tuple[int, bool]:
        """Return the most steps that a rank of the current attempt has reported, and whether it has saved."""
        return self._step, self._saved

    def step(self, step: int) -> None:
        """A rank of the current attempt has reported a step."""
        self._step = max(self._step, step)

    def same_again(self, failure: Failure | None) -> str:
        """Return, as a clause, that the attempt before failed with the same traceback; else empty.

        To be called once for each failed attempt.
        """
        before, self._traceback = self._traceback, "" if failure is None else failure.traceback or ""
        if not self._traceback or self._traceback != before:
            return ""
        return "; the attempt before failed with the same traceback, so the program itself is at fault"

    def after(self, attempt: AttemptState, failure: Failure | None, seconds: float = 0.0) -> Restart | None:
        """Return what follows the failed `attempt`, which took `seconds`; None if the run is over."""
        if attempt.port_lost and self._port_retries < PORT_RETRIES:
            self._port_retries += 1
            return Restart(StartReason.PORT)
        suspect = self._blamed(attempt, failure)
        used_up = self._restarts >= self._policy.max_restarts
        why = self._why(attempt, suspect, used_up=used_up)
        if suspect is not None and why and (changed := self._do_without(suspect, why)) is not None:
            return changed
        if attempt.gone_node and attempt.never_ran:
            if self._never_ran >= NEVER_RAN_RETRIES:
                return None
            self._never_ran += 1
            return Restart(StartReason.NEVER_RAN)
        self._never_ran = 0
        self._count(seconds)
        if used_up:
            if suspect is not None:
                self.at_least = self._at_least()
            return None
        if self._fruitless >= CRASH_LOOP:
            self.at_least = (
                f"; not restarted: {self._fruitless} attempts in a row ended without a new step or checkpoint"
            )
            return None
        self._restarts += 1
        self._suspect = suspect
        return Restart(StartReason.RESTART, suspect)

    def _count(self, seconds: float) -> None:
        """Whether the attempt that has failed brought anything; the next one begins to count."""
        self._fruitless = fruitless_attempts(
            self._fruitless, self._reached, self._step, seconds, saved=self._saved
        )
        self._begin_count()

    def _begin_count(self) -> None:
        self._reached = max(self._reached, self._step)
        self._step, self._saved = 0, False

    def lost_early(self, node: str, why: str) -> Restart | None:
        """Handle a node lost before the first attempt: return the restart without it; None if the run is
        over.
        """
        return self._do_without(Place(node, None), why)

    def heard(self, node: str, *, there: bool) -> None:
        """A node answers, or has been silent for too long; that counts for spares."""
        (self._away.discard if there else self._away.add)(node)

    def _at_least(self) -> str:
        if self._elastic.shrinks:
            return f"; it already ran on the minimum number of ranks, {self.roster.world_size}"
        return "; no spare node is left"

    def _blamed(self, attempt: AttemptState, failure: Failure | None) -> Place | None:
        """Return the failed place; None if no place can be lost, or no machine is to blame."""
        if not self._elastic.yields or attempt.port_lost:
            return None
        if attempt.gone is not None:
            return attempt.gone
        if attempt.hung is None and self._is_the_programs(failure):
            return None
        rank = attempt.hung if attempt.hung is not None else None if failure is None else failure.rank
        places = self.roster.places
        if rank is not None and 0 <= rank < len(places):
            return places[rank]
        if attempt.failed_node is not None and len(self._elastic.known) > 1:
            return Place(attempt.failed_node, None)
        return None

    def _is_the_programs(self, failure: Failure | None) -> bool:
        """Whether it would come without this rank too: nothing trained yet, or our trainer explains it."""
        if failure is None:
            return not self._ran
        return failure.signal is None and (not self._ran or failure.explained)

    def _why(self, attempt: AttemptState, suspect: Place | None, *, used_up: bool) -> str:
        """Return why it is not retried with `suspect`; empty if it is."""
        if attempt.gone is not None:
            return attempt.gone_why
        if suspect is not None and attempt.hung is not None and self._policy.on_hang == "exclude":
            return 'it hung, and launch.on_hang = "exclude" leaves it out'
        if suspect is not None and suspect == self._suspect:
            return "it failed twice with no new checkpoint in between"
        if not used_up:
            return ""
        allowed = self._policy.max_restarts
        if not allowed:
            return "it failed, and launch.max_restarts = 0 allows no other try at this size"
        tries = "1 restart" if allowed == 1 else f"{allowed} restarts"
        return f"it failed, and the {tries} at this size that launch.max_restarts allows are used up"

    def _do_without(self, suspect: Place, why: str) -> Restart | None:
        """Continue without `suspect`; None at the minimum."""
        before, skipped = self.roster, list[str]()
        while True:
            left_out = (*self.left_out, suspect, *(Place(node, None) for node in skipped))
            roster = self._elastic.without(left_out)
            if roster is None:
                return None
            fresh = [node for node in roster.nodes if node not in before.nodes]
            away = [node for node in fresh if node in self._away]
            if not away:
                break
            skipped += away
        self.roster, self.left_out = roster, left_out
        self._restarts, self._never_ran, self._suspect, self._fruitless = 0, 0, None, 0
        self._begin_count()
        if roster.world_size < before.world_size:
            size = roster.world_size
            return Restart(StartReason.SMALLER, suspect, why, size, skipped=tuple(skipped))
        return Restart(StartReason.REPLACED, suspect, why, None, ", ".join(fresh), tuple(skipped))
