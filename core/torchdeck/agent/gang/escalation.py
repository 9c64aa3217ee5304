"""How a living attempt is asked to end, then made to: stop file, SIGTERM, SIGKILL, a grace each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchdeck.agent.gang import commands as do
from torchdeck.agent.gang.attempt_state import AttemptState, Ending
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import StopKind

KILL_LIMIT = 15.0
"""Seconds after SIGKILL until a process in the kernel's hands is given up."""


class Step(NamedTuple):
    """Current action, and its deadline."""

    orders: list[do.Command]
    deadline: float | None
    """Monotonic seconds."""


class Escalation:
    """Chooses how urgently an attempt is asked to end; the last request is `AttemptState.ending`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def end(
        self, attempt: AttemptState, nodes: Sequence[str], kind: StopKind, now: float, deadline: float | None
    ) -> Step:
        """Ask the attempt to end, unless it was asked as urgently before.

        Args:
            attempt: the living one; its `ending` is updated.
            nodes: all that take part.
            kind: how urgent it is.
            now: monotonic seconds.
            deadline: what the gang waits for until now, if anything.
        """
        alive = attempt.alive(nodes)
        if not alive or attempt.ending is Ending.KILL:
            return Step([], deadline)  # only the sweep is left, which has a limit of its own
        cooperative = self._policy.cooperative_stop and attempt.progressed
        if kind is StopKind.GRACEFUL and cooperative and attempt.ending is None:
            attempt.ending = Ending.STOP_FILE
            return Step([do.TouchStop(attempt.number)], now + self._policy.stop_grace)
        # a script that is asked to stop may save on SIGTERM, so it has the long grace
        saving = kind is StopKind.GRACEFUL and not self._policy.cooperative_stop and attempt.announced
        until = now + (self._policy.stop_grace if saving else self._policy.kill_grace)
        if attempt.ending is Ending.TERM:
            return Step([], until if deadline is None else min(until, deadline))
        attempt.ending = Ending.TERM
        return Step([do.Terminate(node) for node in alive if node in attempt.launched], until)

    def kill(self, attempt: AttemptState, nodes: Sequence[str], now: float) -> Step:
        """SIGKILL to all that is left of it."""
        attempt.ending = Ending.KILL
        return Step([do.Kill(node) for node in attempt.alive(nodes)], now + KILL_LIMIT)
