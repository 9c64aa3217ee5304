"""Communication of a step, in sentences."""

from __future__ import annotations

from torchdeck.plan.communication import Collective
from torchdeck.plan.preview.traffic import Traffic
from torchdeck.quantities import brief, size


def traffic_lines(traffic: Traffic) -> list[str]:
    """Lines on what each rank sends, what crosses the network, and how long that takes."""
    if not traffic.sent:
        return ["nothing is sent: there is one rank"]
    parts = ", ".join(map(_collective, traffic.collectives))
    lines = [f"each rank sends {size(traffic.sent)} a step: {parts}"]
    if traffic.between:
        who = f"{traffic.crossing:,} rank{'' if traffic.crossing == 1 else 's'}"
        lines.append(f"between nodes: {size(traffic.between)} a step in all, sent by {who}")
    if traffic.seconds is not None:
        busy = f"the links are busy for {brief(traffic.seconds)} a step or more"
        lines.append(f"{busy}, of which some hides behind computing")
    elif traffic.between:
        lines.append("how long that takes is not known: say cluster.inter_node, the speed of the network")
    return lines


def _collective(collective: Collective) -> str:
    times = f" in {collective.passes} passes" if collective.passes > 1 else ""
    return f"{size(collective.sent)} {collective.name} of {collective.what}{times}"
