"""Beginning a conversation with a node: apart from what is asked, which can be loaded meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.probe_session import ProbeSession
from torchdeck.nodes.probe.sent_code import ARGUMENTS
from torchdeck.nodes.ssh.connection import Connection
from torchdeck.nodes.ssh.login_shell import start_in_shell
from torchdeck.nodes.start_line import python_line

LIMIT = 12.0
"""Seconds for all of it, from the first knock to the last answer; a launch is refused within 15."""

Connect = Callable[[str, float], Connection]
"""Node's name and seconds → a connection to it; raises SshError."""
Talking = Callable[[str, NodeEntry, Connect, float], AbstractContextManager[ProbeSession]]
"""What `talk` does."""


@contextmanager
def open_probe_session(name: str, entry: NodeEntry, connect: Connect, limit: float) -> Iterator[ProbeSession]:
    """A conversation with a node's Python, for as long as the block lasts.

    Args:
        name: of the node.
        entry: what the node inventory says of it.
        connect: how it is reached.
        limit: seconds until it can be asked; its `spent` says how many of them are gone.

    Raises:
        SshError, ProbeError: it cannot be reached, or its Python does not answer.
    """
    with connect(name, limit) as connection:
        until = time.monotonic() + limit - connection.seconds
        process = start_in_shell(connection, python_line(entry, ARGUMENTS), left(until))
        probe_session = ProbeSession(process, f"node {name}", limit - left(until))
        try:
            yield probe_session
        finally:
            probe_session.close()


def left(until: float) -> float:
    """Seconds until that moment of the monotonic clock; 0 where it is over."""
    return max(0.0, until - time.monotonic())
