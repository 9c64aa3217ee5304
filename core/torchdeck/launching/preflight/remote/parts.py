"""Check whether the nodes keep checkpoints in one folder; if not, whether the run may continue without a
node's share of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from torchdeck.config.schema import RunConfig
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood
from torchdeck.plan.check import Check, failed, ok, warning

ASK_LIMIT = 10.0
_NAME = "checkpoints"
_FIX = (
    "set checkpoint.replicas = 1, which keeps a copy of each part on a second node, or name a folder that "
    "all nodes share in checkpoint.directory"
)


def disks_of(talks: Mapping[str, ProbeSession], folders: Mapping[str, str]) -> dict[str, str]:
    """Find nodes with the same folder: each creates a file there, and all check for those of the others.

    Args:
        talks: probe sessions with the nodes, in the order of node ranks.
        folders: by node, its checkpoint folder, or a parent of it.

    Returns:
        Node → the first node that has the same folder; itself if no earlier one has.

    Raises:
        ProbeError: a node did not answer, or the first cannot write there.
    """
    first, *others = talks

    def lay(node: str) -> str:
        try:
            with understood(node):
                return str(talks[node].ask(ProbeRequest.LAY_MARK, ASK_LIMIT, folder=folders[node])["name"])
        except ProbeError:
            if node == first:
                raise
            return ""  # another check reports this; it may still see the folder

    def sees(node: str) -> str:
        answer = talks[node].ask(ProbeRequest.SEE_MARK, ASK_LIMIT, folder=folders[node], names=list(laid))
        with understood(node):
            return next((owner for mark, owner in laid.items() if mark in answer["seen"]), node)

    with ThreadPoolExecutor(max(1, len(talks)), thread_name_prefix="marks") as pool:
        try:
            laid = {lay(first): first}
            laid |= {mark: node for node, mark in zip(others, pool.map(lay, others), strict=True) if mark}
            return {first: first, **dict(zip(others, pool.map(sees, others), strict=True))}
        finally:
            list(pool.map(lambda node: _remove(talks[node]), talks))


def _remove(talk: ProbeSession) -> None:
    with contextlib.suppress(ProbeError):  # it is removed with the session, too
        talk.ask(ProbeRequest.REMOVE_MARKS, ASK_LIMIT)


def check_parts(config: RunConfig, plan: LaunchPlan, disks: Mapping[str, str]) -> Iterator[Check]:
    """Yield one check for each node except the first, based on the result of `disks_of`.

    Nodes with disks of their own combine their shares if all of them take part. A run that continued without
    a node would find no complete checkpoint.
    """
    first, replicas = plan.nodes[0].name, config.checkpoint.replicas
    lossy = bool(plan.spares) or any(size.nodes < len(plan.nodes) for size in plan.smaller)
    # only a spare can be missing in that case
    one_folder = all(disks.get(node.name, first) == first for node in plan.nodes) and len(plan.nodes) > 1
    # without such saves there is a checkpoint only after a stop, and a lost node costs the usual amount
    saves = config.checkpoint.every is not None or config.checkpoint.every_epochs is not None
    for node in (name for name in disks if name != first):
        if disks[node] == first:
            yield ok(_NAME, node, f"has the same folder for checkpoints as {first}")
        elif one_folder:
            what = "the folder in which the others keep checkpoints is not there, so it could replace no node"
            yield failed(_NAME, node, what, "share the folder with it, too, or choose another spare node")
        elif replicas:
            more = "another node" if replicas == 1 else f"{replicas} other nodes"
            yield ok(_NAME, node, f"its part of each checkpoint lies on its own disk, with a copy on {more}")
        elif not lossy:
            yield ok(_NAME, node, "its part of each checkpoint lies on its own disk")
        else:
            lets = "a spare node" if plan.spares else f'distributed.nodes = "{config.distributed.nodes}"'
            what = (
                "its part of each checkpoint lies on its own disk, and without it the others cannot resume, "
                f"as {lets} lets them where a node is lost"
            )
            yield (failed if saves else warning)(_NAME, node, what, _FIX)
