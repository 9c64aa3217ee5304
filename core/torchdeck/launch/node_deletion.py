"""Deleting what a run's nodes have of it. Blocks."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchdeck.launch.reach import Reach

LIMIT = 60.0
"""Seconds for one node, without the time that a person takes to answer."""
AT_ONCE = 16


@dataclass(frozen=True)
class NodeDeletion:
    """What came of it on one node."""

    node: str
    run_id: str
    removed: bool
    """Its folder was removed; False as well where there was none."""
    why: str = ""
    """Why something of the run may still be there; empty where nothing is."""

    @property
    def later(self) -> str:
        """The command that tries it again."""
        return f"torchdeck runs delete {self.run_id} --node {self.node}"

    def __str__(self) -> str:
        if self.why:
            return f"node {self.node}: not removed there: {self.why}; later: `{self.later}`"
        return f"node {self.node}: {'removed' if self.removed else 'nothing was there'}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def delete_on_nodes(
    run_id: str, names: Sequence[str], reach: Reach, limit: float = LIMIT
) -> tuple[NodeDeletion, ...]:
    """Remove the run's folder, and code that no other run uses, on each of the nodes, at the same time.

    A node on which a process of the run lives keeps all of it, and one that is not reached says why.

    Args:
        run_id: of a run that is over.
        names: nodes.
        reach: how they are connected to.
        limit: seconds for each.
    """
    if not names:
        return ()
    with ThreadPoolExecutor(min(AT_ONCE, len(names)), thread_name_prefix="delete") as pool:
        return tuple(pool.map(lambda name: _delete(run_id, name, reach, limit), names))


def _delete(run_id: str, name: str, reach: Reach, limit: float) -> NodeDeletion:
    from torchdeck.config.problems import ConfigError
    from torchdeck.nodes.probe.conversation import ProbeError
    from torchdeck.nodes.ssh.errors import SshError, TargetError

    try:
        entry = reach.book().nodes.get(name)
        if entry is None:
            return NodeDeletion(name, run_id, removed=False, why="it is not in the node book any more")
        with reach.talk(name, limit) as talk:
            said = talk.ask("remove_runs", limit, run_ids=[run_id], home=entry.home)
    except (ConfigError, ProbeError, SshError, TargetError, OSError) as error:
        return NodeDeletion(name, run_id, removed=False, why=str(error) or type(error).__name__)
    kept = said.get("kept")
    why = str(kept.get(run_id, "")) if isinstance(kept, dict) else "it did not say what it removed"
    return NodeDeletion(name, run_id, removed=run_id in said.get("removed", ()), why=why)
