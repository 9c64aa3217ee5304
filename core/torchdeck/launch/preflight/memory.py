"""Does the run fit the memory of its devices, as far as that was predicted."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.schema import RunConfig
from torchdeck.launch.preflight.check import Check, failed, ok, warning
from torchdeck.launch.prepare import Survey, missing
from torchdeck.plan.launch_plan import LaunchPlan
from torchdeck.plan.prediction import PredictedMemory
from torchdeck.plan.preview.memory import MemoryPreview, is_one, make_memory, ranks_text
from torchdeck.plan.shares import shares_of
from torchdeck.quantities import size

_ANYWAY = 'set limits.memory = "warn" to start all the same'
_LEFT_OUT = 'limits.memory = "off" leaves the prediction out'
_ANYHOW = 'limits.memory = "off" starts without looking at the model'
_GENERAL = "lower training.microbatch, or use a strategy that shards the weights"
_NOTHING = "nothing that was tried makes it fit, neither alone nor together"
_OF_THE_BATCH = ("activations", "logits", "inputs")
"""Terms that a smaller microbatch or shorter samples make smaller."""


def check_memory(config: RunConfig, plan: LaunchPlan, found: Survey) -> Iterator[Check]:
    """The prediction in `plan` against what the devices have; nothing where none was asked for."""
    if config.limits.memory == "off":
        return
    node = plan.nodes[0].name
    memory = None if plan.prediction is None else make_memory(plan.prediction)
    if memory is not None:
        yield _judged(config, plan, found, memory, node)
        if memory.verdict != "does not fit":
            yield from _smaller(config, plan, node)
    elif found.known.broken and not missing(config):
        yield failed("recipe", node, found.known.broken, f"mend it; {_ANYHOW}")
    elif found.known.failure:
        yield warning("memory", node, found.known.failure, _LEFT_OUT)


def _smaller(config: RunConfig, plan: LaunchPlan, node: str) -> Iterator[Check]:
    """The first of the sizes a run may go on with that does not fit: shards grow when ranks are lost."""
    for smaller in plan.smaller:
        memory = None if smaller.prediction is None else make_memory(smaller.prediction)
        if memory is None or memory.verdict != "does not fit":
            continue
        what = f"with {smaller.world_size} of {plan.world_size} left, {_needs(memory)}"
        right = "a range whose least is more, or a strategy that needs less there"
        if config.limits.memory == "refuse":
            yield failed("memory", node, what, f"{right}; {_ANYWAY}")
        else:
            yield warning("memory", node, what, right)
        return


def _needs(memory: MemoryPreview) -> str:
    """`ranks 0–1 need 5 GiB at the peak, and there are 4 GiB for each`."""
    group = memory.decisive
    what = f"{ranks_text(group)} need{'s' if is_one(group) else ''} {size(group.peak_bytes)} at the peak"
    return f"{what}, and {_there(group)}"


def _judged(config: RunConfig, plan: LaunchPlan, found: Survey, memory: MemoryPreview, node: str) -> Check:
    group = memory.decisive
    what = f"{ranks_text(group)} need{'s' if is_one(group) else ''} {size(group.peak_bytes)} at the peak"
    there = _there(group)
    if memory.verdict in ("fits", "unknown"):
        return ok("memory", node, f"{what}, and {there}")
    name, most = next(iter(group.terms.items()))
    what = f"{what}, most of it for {name} ({size(most)}), and {there}"
    from torchdeck.plan.fitting import spec_of, suggested  # numpy comes with it

    spec = spec_of(config, shares_of(plan, found.inventory), plan.backend, found.known)
    change = next(iter(suggested(spec, memory, found.known)), None)
    help_ = _unhelped(name, found) if change is None else change.sentence
    if memory.verdict == "does not fit" and config.limits.memory == "refuse":
        return failed("memory", node, what, f"{help_}; {_ANYWAY}")
    return warning("memory", node, what, help_)


def _unhelped(name: str, found: Survey) -> str:
    """What is left to do about the largest term, `name`, where no change of the config suffices."""
    if found.known.profile is None:
        return _GENERAL  # nothing could be tried
    if name in _OF_THE_BATCH:
        return f"{_NOTHING}; {name} need shorter samples, a smaller model, or devices with more memory"
    return (
        f"{_NOTHING}; {name} need more ranks to be sharded over, a smaller model, or devices with more memory"
    )


def _there(group: PredictedMemory) -> str:
    """What there is of memory: the smaller of what the device has and what is free of it."""
    each = "" if is_one(group) else " for each"
    if group.free_bytes is not None and group.free_bytes < (group.capacity_bytes or group.free_bytes + 1):
        return f"{size(group.free_bytes)} are free{each}"
    if group.capacity_bytes is not None:
        return f"there are {size(group.capacity_bytes)}{each}"
    return "how much there is is not known"
