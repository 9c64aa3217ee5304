"""Replaces the leader's agent if it is alive but does not run, once a `stop --now` waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torchdeck.contract.layout import RunLayout
from torchdeck.launching.epoch import ControllerEpoch
from torchdeck.launching.requests import is_stop_now_asked
from torchdeck.launching.transport import Transport
from torchdeck.runs.replay.history import RunHistory

ATTEMPTS = 2
"""Attempts to replace an agent."""
NEXT_LIMIT = 30.0
"""Seconds for another agent to give its first sign of life."""


class Silence:
    """Measures for how long an agent has given no sign of life, and says what follows. Pure."""

    def __init__(self, grace: float, now: float) -> None:
        """Begin at `now` (monotonic seconds); `grace` is launch.node_grace."""
        self._grace, self._since = grace, now
        self._beat: object = None
        self.tried = 0
        """Attempts to replace it since its last sign of life: of the agent, and then of its shim, too."""

    def look(self, beat: object, now: float, *, reached: bool) -> float:
        """Return the seconds of silence; `beat` differs after each sign of life.

        While the node is not reached its agent may be alive: silence counts from the next contact.
        """
        if beat != self._beat or not reached:
            self._beat, self._since, self.tried = beat, now, 0
        return now - self._since

    def is_due(self, silent: float) -> bool:
        """Return whether the next attempt is due; after the last one: whether the agent is given up."""
        return silent >= self._grace + self.tried * NEXT_LIMIT


class Journal(Protocol):
    """The used part of the interface of a journal's writer."""

    def append(self, name: str, /, **fields: Any) -> None:
        """Write an event."""


class SilentAgent:
    """The leader's agent of one run, as its controller sees it.

    An agent under SIGSTOP, or one that waits for a dead disk, is alive, so nothing replaces it. After SIGKILL
    its shim or the controller starts another, which adopts the ranks and takes the stop.
    """

    def __init__(
        self,
        layout: RunLayout,
        lead: Transport,
        epoch: ControllerEpoch,
        journal: Journal,
        silence: Silence,
        say: Callable[[str], None],
    ) -> None:
        self._layout, self._lead, self._epoch = layout, lead, epoch
        self._journal, self._silence, self._say = journal, silence, say

    def look(self, history: RunHistory, now: float) -> str:
        """Replace the agent if a `stop --now` waits for it and it is silent; `now` in monotonic seconds.

        Returns:
            why the run is given up; empty unless the agent is silent although it was ended.
        """
        silent = self._silence.look(self._beat(), now, reached=not self._lead.unreached)
        if not self._silence.is_due(silent) or not is_stop_now_asked(self._layout):
            return ""
        if self._silence.tried == ATTEMPTS:
            return (
                f"the agent on node {self._lead.node} has given no sign of life for {silent:.0f} s and could "
                "not be replaced; a stop was asked for"
            )
        self._replace(history, silent, with_shim=self._silence.tried > 0)
        self._silence.tried += 1
        return ""

    def _replace(self, history: RunHistory, silent: float, *, with_shim: bool) -> None:
        node = self._lead.node
        known = (history.agents.get(node), history.holders.get(node) if with_shim else None)
        with self._epoch.held():
            try:
                self._lead.kill([process for process in known if process is not None])
            except OSError as error:
                self._say(f"the agent on {node} cannot be ended: {error}")
            else:
                self._journal.append("agent_killed", node=node, seconds=round(silent, 1), shim=with_shim)

    def _beat(self) -> object:
        try:
            status = self._layout.node(self._lead.node).heartbeat.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns
