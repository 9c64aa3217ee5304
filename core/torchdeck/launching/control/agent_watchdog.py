"""Ensures that each node has an agent, or a shim that keeps one running."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence

from torchdeck.agent.attempt.handover import Handover
from torchdeck.contract.plan.launch_plan import LaunchPlan
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


class AgentWatchdog:
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


# Bootstrap payload of each agent of a run, on standard input: the gang's token, the leader's address,
# secrets.

TOKEN_BYTES = 32


class Handovers:
    """Bootstrap payloads of one controller. The gang's token is in no file: the starter of the leader creates
    it, others receive it.

    Args:
        plan: the run's.
        values: values of its secrets.
        resume_args: arguments with which its script continues, as `runs resume` was given them.
    """

    def __init__(self, plan: LaunchPlan, values: Mapping[str, str], resume_args: Sequence[str] = ()) -> None:
        self._lead = plan.nodes[0].name
        self._alone = len(plan.all_nodes) == 1
        self._names = {node.name: node.secrets for node in plan.all_nodes}
        if plan.alerts is not None:  # the leader sends them
            of_alerts = sorted(plan.alerts.secrets - {*self._names[self._lead]})
            self._names[self._lead] = (*self._names[self._lead], *of_alerts)
        self._values = dict(values)
        self._arguments = tuple(resume_args)
        self._token = ""

    def line(self, node: str, listening: tuple[str, int] | None) -> bytes | None:
        """Return the bootstrap payload for the agent of `node`; None if it cannot be started now.

        Args:
            node: the node's name.
            listening: leader's address in this session of the run, from its journal; None: not listening yet.
        """
        own = {name: self._values[name] for name in self._names[node] if name in self._values}
        if self._alone:
            return Handover(secrets=own, resume_args=self._arguments).line()
        if self.is_stranger(listening):
            return None
        if node == self._lead:
            if not self._token:
                self.replace_token()
            return Handover(self._token, None, own, self._arguments).line()
        if listening is None or not self._token:
            return None
        return Handover(self._token, listening, own, self._arguments).line()

    @property
    def secrets(self) -> Mapping[str, str]:
        """Return the values of the run's secrets that are known here."""
        return self._values

    def is_stranger(self, listening: tuple[str, int] | None) -> bool:
        """Return whether another controller started the gang, and its token is unknown here."""
        return not self._alone and listening is not None and not self._token

    def learn(self, known: Handover) -> None:
        """Adopt the bootstrap payload of an agent of the run; its secrets override those given here."""
        self._token = known.token
        self._values.update(known.secrets)

    def replace_token(self) -> None:
        """Create another token: no process is left that knows the gang's previous one."""
        self._token = secrets.token_hex(TOKEN_BYTES)
