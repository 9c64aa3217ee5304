"""Probe sessions with all nodes of a plan at once, including this machine if it is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.background import on_each
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.probe_session import ProbeSession

AT_ONCE = 64


class ProbeSessions(NamedTuple):
    """Nodes that answer, and those that do not."""

    with_node: dict[str, ProbeSession]
    refused: dict[str, str]
    """Node → reason."""


@contextmanager
def probe_sessions_with(
    nodes: Sequence[NodePlan], connector: Connector, limit: float
) -> Iterator[ProbeSessions]:
    """Open probe sessions with `nodes`, in their order, for the duration of the block.

    Args:
        nodes: nodes of the plan.
        connector: connector to those that are not this machine.
        limit: timeout in seconds for each.
    """

    def way(node: NodePlan) -> AbstractContextManager[ProbeSession]:
        if node.name == LOCALHOST:
            return probe_session_here(node.name, node.interpreter)
        return connector.open_probe_session(node.name, limit)

    def opened(node: NodePlan) -> tuple[AbstractContextManager[ProbeSession], ProbeSession] | str:
        found = way(node)
        try:
            return found, found.__enter__()
        except Refusal as error:
            return str(error)

    with ExitStack() as stack:
        probe_sessions = ProbeSessions({}, {})
        for node, found in zip(nodes, on_each(nodes, opened, "talks", AT_ONCE), strict=True):
            if isinstance(found, str):
                probe_sessions.refused[node.name] = found
            else:
                stack.push(found[0])
                probe_sessions.with_node[node.name] = found[1]
        yield probe_sessions
