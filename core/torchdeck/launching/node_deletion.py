"""Deletes a run's data on its nodes. Blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.background import on_each
from torchdeck.runs.folders.node_parts import forget_left, left_on_nodes

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector

LIMIT = 60.0
"""Seconds within which one node must remove its data of one run."""
REACH_LIMIT = 15.0
"""Seconds for connecting to it, excluding the time that a user takes to answer."""
AT_ONCE = 16


@dataclass(frozen=True)
class NodeDeletion:
    """Result on one node."""

    node: str
    run_id: str
    removed: bool
    """Its folder was removed; also False if there was none."""
    why: str = ""
    """Why data of the run may still be there; empty if there is none."""

    @property
    def later(self) -> str:
        """Return the command that retries."""
        return f"torchdeck runs delete {self.run_id} --node {self.node}"

    def __str__(self) -> str:
        if self.why:
            return f"node {self.node}: not removed there: {self.why}; later: `{self.later}`"
        return f"node {self.node}: {'removed' if self.removed else 'already absent'}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def delete_on_nodes(
    run_id: str, names: Sequence[str], connector: Connector, limit: float = LIMIT
) -> tuple[NodeDeletion, ...]:
    """Remove the run's folder, and code that no other run uses, on each of the nodes concurrently.

    A node with a live process of the run keeps all of it. An unreachable node is returned with the reason.

    Args:
        run_id: id of a finished run.
        names: nodes.
        connector: connector for the nodes.
        limit: seconds for each of them.
    """
    return delete_runs(dict.fromkeys(names, (run_id,)), connector, limit)


def delete_noted(connector: Connector, limit: float = LIMIT) -> tuple[NodeDeletion, ...]:
    """Resume deletions that were interrupted or did not reach a node; nodes no longer in the inventory are
    skipped.

    Raises:
        ConfigError: the node inventory is wrong.
    """
    left = left_on_nodes(connector.home)
    node_inventory = connector.node_inventory().nodes if left else {}
    return delete_runs(
        {name: runs for name, runs in left.items() if name in node_inventory}, connector, limit
    )


def delete_runs(
    runs: Mapping[str, Sequence[str]], connector: Connector, limit: float = LIMIT
) -> tuple[NodeDeletion, ...]:
    """Delete several runs, as `delete_on_nodes` does, each within `limit`: node → ids.

    The notes of deleted ones are removed.
    """
    if not runs:
        return ()
    told = on_each(runs, lambda name: _delete(runs[name], name, connector, limit), "delete", AT_ONCE)
    found = tuple(each for of_node in told for each in of_node)
    for each in found:
        if not each.why:
            forget_left(connector.home, each.run_id, each.node)
    return found


def _delete(run_ids: Sequence[str], name: str, connector: Connector, limit: float) -> list[NodeDeletion]:
    """Delete one run after the other; if one takes too long, the next gets another probe session."""

    told: list[NodeDeletion] = []
    while len(told) < len(run_ids):
        connected = False
        try:
            entry = connector.node_inventory().nodes.get(name)
            if entry is None:
                return told + _kept(name, run_ids[len(told) :], "it is not in the node inventory any more")
            with connector.open_probe_session(name, min(limit, REACH_LIMIT)) as probe_session:
                connected = True
                for run_id in run_ids[len(told) :]:
                    said = probe_session.ask(
                        ProbeRequest.REMOVE_RUNS, limit, run_ids=[run_id], home=entry.home
                    )
                    told.append(_outcome(name, run_id, said))
        except (Refusal, OSError) as error:
            left = run_ids[len(told) :]
            told += _kept(name, left[:1] if connected else left, str(error) or type(error).__name__)
    return told


def _kept(name: str, run_ids: Sequence[str], why: str) -> list[NodeDeletion]:
    return [NodeDeletion(name, run_id, removed=False, why=why) for run_id in run_ids]


def _outcome(name: str, run_id: str, said: Mapping[str, Any]) -> NodeDeletion:
    kept, removed = said.get("kept"), said.get("removed")
    if not isinstance(kept, dict) or not isinstance(removed, list):
        return NodeDeletion(name, run_id, removed=False, why="it did not report what it removed")
    return NodeDeletion(name, run_id, removed=run_id in removed, why=str(kept.get(run_id, "")))
