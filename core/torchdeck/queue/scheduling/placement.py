"""Placement of one ask on machines. The first possible choice in a fixed order, whatever is free besides.

That order is what backfilling relies on: a run that takes devices elsewhere never changes the choice of
another run whose devices it leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice

from torchdeck.queue.scheduling.ask import Ask, Gpu, Machine, Place, Places, Unit

Machines = Mapping[str, Machine]
IsFree = Callable[[Unit], bool]
MOST_SETS = 10_000
"""Sets of GPU indices that are tried for a run of several nodes, whose indices are the same on each."""


def place(ask: Ask, machines: Machines, is_free: IsFree) -> Places | None:
    """Return where a run can be placed; None: nowhere.

    Args:
        ask: what it needs.
        machines: machines by name; a node that is not among them is not used.
        is_free: whether a unit may be taken.
    """
    there = [machines[name] for name in ask.nodes if name in machines]
    models = _models(ask, there)
    if len(models) > 1:
        each = (place(replace(ask, model=model), machines, is_free) for model in models)
        return next((places for places in each if places is not None), None)
    if ask.count > 1 and ask.gpus and not ask.named:
        return _together(ask, there, is_free)
    found: list[Place] = []
    for machine in there:
        numbers = _numbers(ask, machine, is_free)
        if numbers is not None:
            found.append(Place(machine.name, numbers))
        if len(found) == ask.count:
            return tuple(found)
    return None


def _models(ask: Ask, there: list[Machine]) -> list[str]:
    """Return the models to choose from; empty if models do not matter."""
    if not ask.is_of_one_model:
        return []
    return list(dict.fromkeys(gpu.model for machine in there for gpu in fitting(ask, machine)))


def units_of(places: Places, free_slot: Callable[[str], Unit]) -> list[Unit]:
    """Return the units of places; `free_slot` chooses a CPU slot of a node."""
    return [
        unit
        for node, gpus in places
        for unit in ([Unit(node, number) for number in gpus] if gpus else [free_slot(node)])
    ]


def usable(ask: Ask, machines: Machines) -> Iterator[Unit]:
    """Yield every unit that a run could take, free or not."""
    for name in ask.nodes:
        machine = machines.get(name)
        if machine is None:
            continue
        if takes_slot(ask, machine):
            yield from slots(machine)
        else:
            yield from (Unit(name, gpu.index) for gpu in fitting(ask, machine))


def takes_slot(ask: Ask, machine: Machine) -> bool:
    """Return whether a run takes a CPU slot of the machine, and no GPU."""
    return ask.gpus == 0 or (ask.or_cpu and not machine.gpus)


def slots(machine: Machine) -> list[Unit]:
    """Return the CPU slots of a machine."""
    return [Unit(machine.name, -1 - number) for number in range(machine.slots)]


def fitting(ask: Ask, machine: Machine) -> list[Gpu]:
    """Return the GPUs of a machine that a run could take, by index."""
    return sorted(
        (
            gpu
            for gpu in machine.gpus
            if (not ask.named or any(gpu.has_name(name) for name in ask.named))
            and (not ask.model or gpu.is_model(ask.model))
            and gpu.memory >= ask.memory
        ),
        key=lambda gpu: gpu.index,
    )


def _numbers(ask: Ask, machine: Machine, is_free: IsFree) -> tuple[int, ...] | None:
    """Return the GPUs that a run takes on one machine, none for a CPU slot; None: it does not fit."""
    if takes_slot(ask, machine):
        return () if any(map(is_free, slots(machine))) else None
    gpus = fitting(ask, machine)
    free = tuple(gpu.index for gpu in gpus if is_free(Unit(machine.name, gpu.index)))
    if ask.gpus is None or ask.named:
        wanted = len(ask.named) or len(machine.gpus)
        return free if len(free) == wanted and wanted else None
    return free[: ask.gpus] if len(free) >= ask.gpus else None


def _together(ask: Ask, there: list[Machine], is_free: IsFree) -> Places | None:
    """Return places on several nodes with the same indices on each, as `distributed.devices` is one list."""
    free: dict[str, frozenset[int]] = {}
    without_gpus: list[str] = []
    for machine in there:
        if not takes_slot(ask, machine):
            found = (gpu.index for gpu in fitting(ask, machine))
            free[machine.name] = frozenset(each for each in found if is_free(Unit(machine.name, each)))
        elif any(map(is_free, slots(machine))):
            without_gpus.append(machine.name)
    if len(without_gpus) >= ask.count:
        return tuple(map(Place, without_gpus[: ask.count]))
    known = sorted(frozenset().union(*free.values()))
    shared = [each for each in known if sum(each in indices for indices in free.values()) >= ask.count]
    for chosen in islice(combinations(shared, ask.gpus or 0), MOST_SETS):
        names = [name for name, indices in free.items() if indices.issuperset(chosen)]
        if len(names) >= ask.count:
            return tuple(Place(name, chosen) for name in names[: ask.count])
    return None
