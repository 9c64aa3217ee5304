"""Launching a script on several ranks by a Python call, without a run file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torchdeck
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.contract.refusal import Refusal

_SUCCEEDED = "SUCCEEDED"


class LaunchError(Refusal):
    """The launched script did not succeed; the message says why, and where its output is."""

    page = "trouble/failed"


@arguments()
def launch_distributed(
    script: str,
    config: str,
    num_nodes: int = 1,
    gpus_per_node: int = 8,
    master_addr: str = "localhost",
    master_port: int = 29500,
    *,
    nodes: Sequence[str] = (),
) -> Path:
    """Run `script config` on every rank, and wait until it has ended.

    It is a run like any other: `torchdeck runs list` shows it. `torchdeck.launch` also returns at once.

    Args:
        script: Python script, which torchrun starts.
        config: its argument.
        num_nodes: number of nodes.
        gpus_per_node: ranks per node.
        master_addr: with one node: this machine. With several, the first of `nodes` is the leader, whose
            address the node inventory knows.
        master_port: port at which the ranks meet.
        nodes: names of the nodes in the node inventory, if there are several.

    Returns:
        The run's directory.

    Raises:
        LaunchError: a rank failed, or the run was stopped.
        ArgumentError: `nodes` does not name `num_nodes` nodes.
        Refusal: nothing was started; see `torchdeck.launch`.
    """
    table: dict[str, Any] = {
        "run": {"script": script, "args": [config]},
        "distributed": {"nproc": gpus_per_node, "rendezvous": {"port": master_port}},
    }
    if num_nodes > 1 or nodes:
        if len(nodes) != num_nodes:
            raise ArgumentError(
                f"num_nodes is {num_nodes} and nodes names {len(nodes)}",
                fix=f"name every node, the one at {master_addr} first; add them by `torchdeck nodes add`",
            )
        table["distributed"]["nodes"] = list(nodes)
    run = torchdeck.launch(table)
    view = run.wait()
    if view.state != _SUCCEEDED:
        raise LaunchError(f"run {run.id} is {view.state}", view.why, f"see `torchdeck runs show {run.id}`")
    return run.directory
