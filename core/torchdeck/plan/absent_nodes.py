"""Plan of a run that starts without some of its nodes. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from torchdeck.contract.plan.elastic import Elastic, Place, smaller_plan
from torchdeck.contract.plan.launch_plan import AbsentNode, LaunchPlan
from torchdeck.plan.check import PlanError, problem


def begun_without(plan: LaunchPlan, absent: Sequence[AbsentNode], missing: Sequence[str]) -> LaunchPlan:
    """Return `plan` without the absent nodes.

    Args:
        plan: plan of the requested size.
        absent: nodes that do not answer.
        missing: those of them that have ranks in `plan`.

    Raises:
        PlanError: it has no size for so few nodes.
    """
    said = tuple(f"node {node.name} is left out: {node.why}" for node in absent)
    roster = Elastic.of_plan(plan).without([Place(name, None) for name in missing])
    if roster is None:
        wrong = f"no size of the range goes without {', '.join(missing)}, which did not answer"
        raise PlanError(
            [problem("distributed.nodes", wrong, "a range with smaller sizes, or nodes that answer")]
        )
    begun = smaller_plan(plan, roster) if missing else plan
    own = tuple(text for text in begun.warnings if text not in plan.warnings)
    nodes, nproc = len(begun.nodes), begun.nodes[0].nproc
    smaller = [
        size
        for size in plan.smaller
        if size.nodes <= nodes and size.nproc <= nproc and size.world_size < begun.world_size
    ]
    return dataclasses.replace(
        begun,
        warnings=(*plan.warnings, *said, *own),
        smaller=tuple(smaller) if missing else plan.smaller,
        absent=tuple(absent),
    )
