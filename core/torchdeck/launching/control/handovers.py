"""Bootstrap payload of each agent of a run, on standard input: the gang's token, the leader's address,
secrets.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from torchdeck.agent.attempt.handover import NOTHING, Handover
from torchdeck.contract.plan.launch_plan import LaunchPlan

TOKEN_BYTES = 32


class Handovers:
    """Bootstrap payloads of one controller. The gang's token is in no file: the starter of the leader creates
    it, others receive it.

    Args:
        plan: the run's.
        values: values of its secrets.
    """

    def __init__(self, plan: LaunchPlan, values: Mapping[str, str]) -> None:
        self._lead = plan.nodes[0].name
        self._alone = len(plan.all_nodes) == 1
        self._names = {node.name: node.secrets for node in plan.all_nodes}
        self._values = dict(values)
        self._token = ""

    def line(self, node: str, listening: tuple[str, int] | None) -> bytes | None:
        """Return the bootstrap payload for the agent of `node`; None if it cannot be started now.

        Args:
            node: the node's name.
            listening: leader's address in this session of the run, from its journal; None: not listening yet.
        """
        own = {name: self._values[name] for name in self._names[node] if name in self._values}
        if self._alone:
            return Handover(secrets=own).line() if own else NOTHING.line()
        if self.is_stranger(listening):
            return None
        if node == self._lead:
            if not self._token:
                self.begin_anew()
            return Handover(self._token, None, own).line()
        if listening is None or not self._token:
            return None
        return Handover(self._token, listening, own).line()

    def is_stranger(self, listening: tuple[str, int] | None) -> bool:
        """Return whether another controller started the gang, and its token is unknown here."""
        return not self._alone and listening is not None and not self._token

    def learn(self, known: Handover) -> None:
        """Adopt the bootstrap payload of an agent of the run; its secrets override those given here."""
        self._token = known.token
        self._values.update(known.secrets)

    def begin_anew(self) -> None:
        """Create another token: no process is left that knows the gang's previous one."""
        self._token = secrets.token_hex(TOKEN_BYTES)
