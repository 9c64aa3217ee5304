"""Sentences about entries that wait."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.contract.byte_size import size
from torchdeck.queue.scheduling.ask import Ask, Machine, Unit

MOST_NAMES = 4
"""Names of runs or machines that a sentence lists."""


def limit(whose: str, owners: Sequence[str], most: int) -> str:
    runs = "1 run" if most == 1 else f"{most} runs"
    return (
        f"the limit of {whose} is {runs} at once: {listed(owners)}"
        if owners
        else f"the limit of {whose} is 0"
    )


def away(machines: Sequence[Machine]) -> str:
    return "; ".join(
        f"{machine.name} cannot be used now: {machine.away}" for machine in machines[:MOST_NAMES]
    )


def misfit(ask: Ask, machines: Sequence[Machine]) -> str:
    """Return that no machine could ever run it, and what the machines have."""
    if not ask.nodes:
        return "the node inventory has no node for it"
    known = {machine.name for machine in machines}
    unknown = [name for name in ask.nodes if name not in known]
    if len(known) < ask.count:
        return f"unknown node{'s' * (len(unknown) != 1)}: {listed(unknown)}"
    have = "; ".join(f"{machine.name} has {_have(ask, machine)}" for machine in machines[:MOST_NAMES])
    more = "" if len(machines) <= MOST_NAMES else f"; and {len(machines) - MOST_NAMES} more"
    return f"it never fits: it needs {needs(ask)}, and {have}{more}"


def busy(ask: Ask, units: Sequence[Unit], owners: Sequence[str]) -> str:
    return f"it needs {needs(ask)}; {listed(owners)} use{'s' * (len(owners) == 1)} those of {_nodes(units)}"


def behind(ask: Ask, units: Sequence[Unit], ahead: Sequence[str]) -> str:
    return f"it needs {needs(ask)}; what is free on {_nodes(units)} is kept for {listed(ahead)}"


def needs(ask: Ask) -> str:
    """Return what a run needs, such as `2 GPUs (H100, 80 GiB each) on each of 2 nodes`."""
    if ask.gpus == 0:
        what = "a CPU slot"
    elif ask.named:
        what = f"GPU{'s' * (len(ask.named) != 1)} {listed([str(name) for name in ask.named])}"
    else:
        what = "all GPUs" if ask.gpus is None else f"{ask.gpus} GPU{'s' * (ask.gpus != 1)}"
    if ask.is_of_one_model:
        what += " of one model"
    if ask.or_cpu:
        what += " or a CPU slot"
    kind = [each for each in (ask.model, f"{size(ask.memory)} each" if ask.memory else "") if each]
    what += f" ({', '.join(kind)})" if kind else ""
    return what if ask.count < 2 else f"{what} on each of {ask.count} nodes"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and 3 more`."""
    shown, more = list(names[:MOST_NAMES]), len(names) - MOST_NAMES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _nodes(units: Sequence[Unit]) -> str:
    return listed(list(dict.fromkeys(unit.node for unit in units)))


def _have(ask: Ask, machine: Machine) -> str:
    if ask.gpus == 0 or (ask.or_cpu and not machine.gpus):
        return f"{machine.slots} CPU slot{'s' * (machine.slots != 1)}"
    if not machine.gpus:
        return "no GPU"
    models = [gpu.model or "of an unknown model" for gpu in machine.gpus]
    return ", ".join(f"{models.count(model)} {model}" for model in dict.fromkeys(models))
