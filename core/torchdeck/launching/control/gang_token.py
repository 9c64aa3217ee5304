"""Recovery of the gang's token after a takeover: it is in no file, so agents are queried.

If no agent and no shim is alive any more, a new token excludes no one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torchdeck.agent.attempt.handover import Handover, HandoverError, handover_from
from torchdeck.launching.control.agent_watchdog import AgentUnavailableError, Handovers
from torchdeck.launching.transport import Transport
from torchdeck.runs.replay.history import RunHistory

AGAIN = 1.0
"""Seconds between two checks of what is alive, and so between an answer and the next query."""
PAUSE = 10.0
"""Seconds without a poll after which nodes get the full patience again: no agent was missing then."""


class Tell(Protocol):
    """Writes an event to the run's journal."""

    def __call__(self, name: str, /, **fields: Any) -> None: ...


def in_thread(act: Callable[[], None]) -> None:
    """Start it in a thread without waiting."""
    threading.Thread(target=act, name="token", daemon=True).start()


class GangToken:
    """Queries agents until the token is known, and never blocks on an answer: the run's lock is held during a
    poll.

    Args:
        transports: all nodes, the leader first.
        handovers: receives the token.
        patience: seconds to wait for a node that may know it, and is unreachable or does not answer:
            `launch.node_grace`, after which the gang has given up what is there.
        say: called with messages for the user.
        tell: journals what is being waited for.
        clock: seconds.
        begin: runs a query concurrently.
    """

    def __init__(
        self,
        transports: Sequence[Transport],
        handovers: Handovers,
        patience: float,
        say: Callable[[str], None],
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
        begin: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._questions = [_Question(transport, begin) for transport in transports]
        self._handovers = handovers
        self._patience = patience
        self._say = say
        self._tell = tell
        self._clock = clock
        self._until = self._due = 0.0
        self._looked = -PAUSE
        self._named: list[str] = []
        """Nodes that the journal says are waited for."""

    def look(self, history: RunHistory, wanting: str) -> bool:
        """Process answers, and query live agents a second after their last answer.

        Args:
            history: history of the run.
            wanting: the node whose agent cannot be started without the token.

        Returns:
            Whether the token is known, or a new one may be created.

        Raises:
            AgentUnavailableError: the leader is alive, and no node has answered within the patience.
        """
        now = self._clock()
        if now - self._looked >= PAUSE:
            self._until = now + self._patience
        self._looked = now
        for question in self._questions:
            if question.known is not None:
                self._handovers.learn(question.known)
                self._settled("told")
                return True
        if now < self._due:
            return False
        self._due = now + AGAIN
        return self._looked_at_all(history, wanting, now)

    def _looked_at_all(self, history: RunHistory, wanting: str, now: float) -> bool:
        unreached = False
        living: list[_Question] = []
        for question in self._questions:
            node = question.transport.node
            seen = question.transport.supervision(history.agents.get(node), history.holders.get(node))
            unreached = unreached or seen is None
            if seen is not None and (seen.agent or seen.holder):
                living.append(question)  # a shim starts an agent, which can be queried
                self._ask(question, agent=seen.agent)
        if any(question.asks and not question.why for question in living):
            return False  # allow its first answer, however short the patience is
        if (living or unreached) and now < self._until:
            self._name([question.transport.node for question in living])
            return False
        return self._given_up(living, wanting)

    def _ask(self, question: _Question, *, agent: bool) -> None:
        if question.why:
            self._say(
                f"the agent on {question.transport.node} does not report the gang's token: {question.why}"
            )
        if agent and not question.asks:
            question.ask()

    def _given_up(self, living: Sequence[_Question], wanting: str) -> bool:
        """Return whether no node is waited for any more."""
        leader = self._questions[0]
        if leader in living:  # it keeps its token
            self._settled("given up")
            raise AgentUnavailableError(
                wanting,
                f"the agent on {wanting} cannot be started: the one on {leader.transport.node}, which leads, "
                f"is alive, but has not reported the gang's token for {self._patience:g} s "
                "(launch.node_grace)",
            )
        for question in living:
            self._say(
                f"the agent on {question.transport.node} is given up: it is alive but has not "
                "reported the gang's "
                f"token for {self._patience:g} s (launch.node_grace)"
            )
        who = "other agent" if living else "agent"
        self._say(f"no {who} of the run is alive any more: the gang starts over, with a new token")
        self._settled("anew")
        self._handovers.replace_token()
        return True

    def _name(self, nodes: list[str]) -> None:
        """Report the nodes that are alive and do not answer, to show what the run waits for."""
        if nodes and nodes != self._named:
            self._named = nodes
            self._tell("token_asked", nodes=nodes, patience=self._patience)

    def _settled(self, how: str) -> None:
        if self._named:
            self._named = []
            self._tell("token_settled", how=how)


class _Question:
    """Query to the agent of one node, run concurrently.

    Attributes:
        asks: it is under way.
        known: the agent's bootstrap payload, once answered.
        why: the last reason why it was not answered.
    """

    def __init__(self, transport: Transport, begin: Callable[[Callable[[], None]], None]) -> None:
        self.transport = transport
        self.asks = False
        self.known: Handover | None = None
        self.why = ""
        self._begin = begin

    def ask(self) -> None:
        self.asks = True
        self._begin(self._ask)

    def _ask(self) -> None:
        try:
            known = handover_from(self.transport.ask_handover())
            if known.token:
                self.known = known
            else:
                self.why = "it was handed none"
        except (OSError, HandoverError) as error:
            self.why = str(error)
        finally:
            self.asks = False
