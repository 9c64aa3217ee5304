"""Files of a run that belong to a node, by the plan: nodes that share a home see each other's, too."""

from __future__ import annotations

from collections.abc import Callable

from torchdeck.agent.link.names import rank_of
from torchdeck.contract.plan.elastic import Elastic
from torchdeck.contract.plan.launch_plan import LaunchPlan


def own_files(plan: LaunchPlan, node: str) -> Callable[[str], bool]:
    """Return a predicate: whether a mirrored file, by its path in the run directory, is written on `node`.

    The plan of an attempt is the leader's, and a rank's files are its node's. If the gang may continue
    without some node or rank, any rank may be on any node in a later attempt.
    """
    leader = plan.nodes[0].name == node
    yields = Elastic.of_plan(plan).yields
    ranks = {placed.rank for placed in plan.ranks if yields or placed.node == node}

    def own(path: str) -> bool:
        rank = rank_of(path)
        if rank is not None:
            return rank in ranks
        parts = path.split("/")
        return leader or parts[0] != "attempts" or len(parts) > 3

    return own
