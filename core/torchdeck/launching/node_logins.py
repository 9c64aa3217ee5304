"""What a controller needs to log in to a run's nodes, asked for beforehand: it has nobody to ask."""

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
"""Seconds for one node, without the time that a person takes to answer."""
AT_ONCE = 16


def gather_logins(layout: RunLayout, reach: Connector) -> Mapping[str, Any]:
    """Connect to each node of the run once, so that whatever is wanted is asked for now.

    A node that cannot be reached is none of this function's business: the run's links say so.

    Returns:
        What was given, as `Credentials.to_json` has it; secret.
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
