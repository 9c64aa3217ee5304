"""Ensures that each node has an agent, or a shim that keeps one running."""

from __future__ import annotations

import time
from collections.abc import Callable

from torchdeck.launching.transport import Transport
from torchdeck.runs.replay.history import RunHistory

MAX_STARTS = 5
"""Consecutive agents that may exit before there is a shim."""
FIRST_DELAY = 0.2
"""Seconds before an agent is restarted; doubles each time."""
STEADY = 5.0
"""Seconds after which an agent that exits counts as started successfully."""
REACH_LIMIT = 90.0
"""Seconds within which a node that has had no agent must be reachable."""


class AgentUnavailableError(Exception):
    """No agent can be kept running on a node; the message includes its last error."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(why)
        self.node = node


class AgentKeeper:
    """Keeps one node's agent running.

    Attributes:
        begun: an agent or a shim was seen alive.
    """

    def __init__(
        self,
        transport: Transport,
        handover: Callable[[], bytes | None] = lambda: b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start keeping the agent.

        Args:
            transport: transport to the node.
            handover: function for an agent's bootstrap payload; None while none can be started.
            clock: seconds.
        """
        self._transport = transport
        self._handover = handover
        self._clock = clock
        self._begun = clock()
        self._starts = 0
        self._due = self._started = 0.0
        self.begun = False

    def look(self, history: RunHistory) -> bool:
        """Start an agent if one is missing; return True if it did.

        Raises:
            AgentUnavailableError: too many in a row have exited, or the node is not reachable.
        """
        node = self._transport.node
        seen = self._transport.supervision(history.agents.get(node), history.holders.get(node))
        if seen is None:
            self._check_reached(node, history)
            return False
        self.begun = self.begun or seen.agent or seen.holder
        if seen.holder:
            self._starts = 0  # the agent started, and the shim keeps the next ones
            return False
        if seen.agent or self._transport.agent_is_starting() or self._clock() < self._due:
            return False
        if self._transport.agent_exit() == 0 and self._clock() - self._started > STEADY:
            self._starts = 0  # it has left by itself, and may be needed again
        handover = self._handover()
        if handover is None:
            return False
        if self._starts >= MAX_STARTS:
            raise AgentUnavailableError(node, self._story())
        self._due = self._clock() + FIRST_DELAY * 2**self._starts
        self._starts += 1
        self._started = self._clock()
        try:
            self._transport.start_agent(handover)
        except OSError as error:
            raise AgentUnavailableError(node, f"the agent on {node} cannot be started: {error}") from error
        return True

    def _check_reached(self, node: str, history: RunHistory) -> None:
        """Check that the node was reached once. A link that breaks later is waited for; one never established
        blocks a start.
        """
        if not history.has_begun(node) and self._clock() - self._begun > REACH_LIMIT:
            raise AgentUnavailableError(
                node, f"node {node} was not reached within {REACH_LIMIT:.0f} s: {self._transport.unreached}"
            )

    def _story(self) -> str:
        log = self._transport.agent_log().splitlines()
        last = log[-1] if log else "it wrote nothing"
        return (
            f"the agent on {self._transport.node} ended {MAX_STARTS} times before it had started the ranks "
            f"(last exit code {self._transport.agent_exit()}): {last}"
        )
