"""Opening of a probe session with a node: separate from the requests, which can be loaded meanwhile."""

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
"""Timeout in seconds from connecting to the last answer; a launch is rejected within 15."""

Connect = Callable[[str, float], Connection]
"""Node's name and seconds → a connection to it; raises SshError."""
Talking = Callable[[str, NodeEntry, Connect, float], AbstractContextManager[ProbeSession]]
"""Signature of `talk`."""


@contextmanager
def open_probe_session(name: str, entry: NodeEntry, connect: Connect, limit: float) -> Iterator[ProbeSession]:
    """Open a probe session with a node's Python for the duration of the block.

    Args:
        name: name of the node.
        entry: its entry in the node inventory.
        connect: opens the connection.
        limit: timeout in seconds until it accepts requests; the session's `spent` says how many were used.

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
    """Return the seconds until that moment of the monotonic clock; 0 if it is over."""
    return max(0.0, until - time.monotonic())
