"""Looks of GPUs: a shape, a word and a colour for each state, and the same names everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.nodes.gpus.gpu_now import GpuNow, GpuState, Reason, reasons_of, slowdowns_of
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.widgets.state_badge import Look

LOOKS = {
    GpuState.IN_USE: Look("●", "in use", "busy"),
    GpuState.HELD: Look("◷", "reserved", "warn"),
    GpuState.FREE: Look("○", "free", "good"),
    GpuState.UNKNOWN: Look("?", "not connected", "quiet"),
}
_SLOW = {
    Reason.HOT: "too hot",
    Reason.HARDWARE_HOT: "too hot",
    Reason.POWER_BRAKE: "power brake",
    Reason.HARDWARE: "slowed down",
}
NORMAL = (Reason.IDLE, Reason.SETTING, Reason.DISPLAY)
"""Reasons for a lower clock that say nothing about the load."""
HERE = "This machine"


def look_of(gpu: GpuNow) -> Look:
    """Return the look of its state; of the first slowdown if there is one."""
    slow = slowdowns_of(gpu.reasons) if gpu.is_connected else ()
    return Look("!", _SLOW[slow[-1]], "bad") if slow else LOOKS[gpu.state]


def node_name(node: str) -> str:
    """Return the name of a node as it is shown."""
    return HERE if node == LOCALHOST else node


def title_of(gpu: GpuNow) -> str:
    """Return its node and index: `node-a · GPU 0`."""
    return f"{node_name(gpu.node)} · GPU {gpu.device.index}"


def model_of(gpu: GpuNow) -> str:
    """Return its model without the vendor, and whether it is divided."""
    return gpu.device.name.removeprefix("NVIDIA ") + (" · MIG" if gpu.mig else "")


def count_words(gpus: Sequence[GpuNow]) -> str:
    """Return how many are in which state: `8 GPUs: 5 in use, 3 free`."""
    counts = Counter(gpu.state for gpu in gpus)
    parts = [f"{counts[state]} {LOOKS[state].word}" for state in LOOKS if counts[state]]
    slow = sum(bool(slowdowns_of(gpu.reasons)) and gpu.is_connected for gpu in gpus)
    parts += [f"{slow} slowed down"] if slow else []
    return f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}: {', '.join(parts)}"


def reason_colour(mask: int) -> ColourName:
    """Return the colour of a moment with these reasons: bad, warn, or that of nothing special."""
    if slowdowns_of(mask):
        return "bad"
    return "warn" if any(reason not in NORMAL for reason in reasons_of(mask)) else "border"
