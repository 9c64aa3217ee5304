"""Logins that a controller needs for a run's nodes, requested in advance: it cannot ask the user."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.node_parts import remote_nodes

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector

LIMIT = 30.0
"""Seconds for one node, excluding the time that a user takes to answer."""
AT_ONCE = 16


def gather_logins(layout: RunLayout, reach: Connector) -> Mapping[str, Any]:
    """Connect to each node of the run once, so that all prompts appear now.

    Unreachable nodes are ignored here: the run's links report them.

    Returns:
        The answers, as returned by `Credentials.to_json`; secret.
    """
    names = remote_nodes(layout)
    if not names:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(names))) as pool:
        list(pool.map(lambda name: _try(reach, name), names))
    return reach.credentials.to_json()


def _try(reach: Connector, name: str) -> None:
    from torchdeck.config.problems import ConfigError
    from torchdeck.nodes.ssh.errors import SshError, TargetError

    with contextlib.suppress(ConfigError, SshError, TargetError):
        reach.connect(name, LIMIT).close()
