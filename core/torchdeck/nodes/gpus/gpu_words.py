"""Texts about GPUs and their holders, the same in the window and in the terminal."""

from __future__ import annotations

import time

from torchdeck.nodes.gpus.gpu_now import GpuHolder, GpuNow, GpuProcess, GpuState, slowdowns_of
from torchdeck.quantities import duration, size

_DAY = 86400.0


def state_words(gpu: GpuNow) -> str:
    """Return its state, and why it is slowed down: `in use, too hot`."""
    if not gpu.is_connected:
        return GpuState.UNKNOWN
    return ", ".join((gpu.state, *slowdowns_of(gpu.reasons)))


def holder_words(gpu: GpuNow) -> str:
    """Return who holds it: the run's name or the process's command, and how many more; empty if free."""
    if not gpu.holders:
        return "a process that is not visible" if gpu.state is GpuState.IN_USE else ""
    what = _name_of(gpu.holders[0])
    more = len(gpu.holders) - 1
    return f"{what} and {more} more" if more else what


def all_holder_words(gpu: GpuNow, now: float) -> str:
    """Return each holder with its user and expected end; empty if it is free."""
    parts = []
    for holder in gpu.holders:
        user = f" ({holder.user})" if holder.user else ""
        until = "" if holder.until is None else f" until {until_words(holder.until, now)}"
        parts.append(f"{_name_of(holder)}{user}{until}")
    return "; ".join(parts) or holder_words(gpu)


def _name_of(holder: GpuHolder) -> str:
    if holder.run_id:
        return holder.what
    return short_command(holder.what) or f"process {holder.pid}"


def short_command(command: str) -> str:
    """Return a command without the folders of its program and script: `python train.py --lr 3e-4`."""
    words = command.split(" ")
    return " ".join([*(word.rpartition("/")[2] for word in words[:2]), *words[2:]])


def user_words(gpu: GpuNow) -> str:
    """Return the users of all holders: `ann, bob`; empty if there are none."""
    return ", ".join(dict.fromkeys(holder.user for holder in gpu.holders if holder.user))


def until_of(gpu: GpuNow) -> float | None:
    """Return when all holders are expected to be gone, in seconds since 1970; None if that is unknown."""
    ends = [holder.until for holder in gpu.holders]
    return max((end for end in ends if end is not None), default=None) if None not in ends else None


def until_words(until: float, now: float) -> str:
    """Return an expected end: `14:32, in 2 h 5 min`, with the date if it is not within a day."""
    left = until - now
    if left < 1:
        return "any moment"
    rounded = left if left < 600 else 60.0 * round(left / 60.0)
    clock = time.strftime("%H:%M" if left < _DAY else "%b %d %H:%M", time.localtime(until))
    return f"{clock}, in {duration(rounded).removesuffix(' 0 s')}"


def process_details(process: GpuProcess) -> str:
    """Return command and memory of a process, one per line."""
    memory = "not reported" if process.memory is None else size(process.memory)
    return f"Command: {process.command or 'unknown'}\nGPU memory: {memory}"


def process_words(process: GpuProcess, node: str) -> str:
    """Return pid, user, command and memory of a process, for a question before it is ended."""
    whose = process.user or "an unknown user"
    return f"Process {process.pid} of {whose} on {node}\n{process_details(process)}"


LOSS = (
    "It gets SIGTERM, and SIGKILL 5 s later if it does not exit. Everything it has not saved is lost: "
    "a training loses the steps since its last checkpoint. This cannot be undone."
)
"""Consequences of ending a process."""
