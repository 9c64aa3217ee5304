"""Stopping a run by what lives of it on this node, whatever its journals elsewhere say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.inbox import is_request_name
from torchdeck.agent.probe.run_folders import lives_here, lives_on_a_sharing_node
from torchdeck.contract.layout import RUN_ID, Home


def stop_run(home: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Hand a stop request to the run's agent, if something of the run lives on this node.

    Args:
        home: TORCHDECK_HOME here.
        question: `run_id`, `node` (its name in the plan), and `request`: the name of the request's file. The
            name says all of it. Without it this only looks.

    Returns:
        `lives`: what of the run lives here, as a sentence; empty if nothing does.

    Raises:
        ValueError: one of them is no such name.
        OSError: the request cannot be written.
    """
    run_id, node, name = (str(question.get(key) or "") for key in ("run_id", "node", "request"))
    if RUN_ID.fullmatch(run_id) is None or Path(node).name != node or node in ("", ".."):
        raise ValueError(f"{run_id!r} is no run's id, or {node!r} no node's name")
    if name and not is_request_name(name):
        raise ValueError(f"{name!r} is no name of a stop request")
    layout = Home(home).run(run_id)
    lives = lives_here(run_id, layout.root)
    if lives and name and layout.root.is_dir():
        inbox = layout.node(node).inbox
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        (inbox / name).touch(mode=0o600)
    return {"lives": lives or lives_on_a_sharing_node(layout.root)}
