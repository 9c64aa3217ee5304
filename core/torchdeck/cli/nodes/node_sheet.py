"""Details of one node, as `torchdeck nodes probe NODE` prints them, one line per item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.nodes.probe.facts import Disk, Gpu, Interface, NodeFacts, Python
    from torchdeck.nodes.probe.probing import Probed

LABELS = 14
"""Width of the label column, in characters."""


def sheet(probed: Probed, facts: NodeFacts) -> str:
    """Return everything that the node reported, as text."""
    lines, last = [f"{probed.node} is up, and answered in {probed.seconds:.2f} s"], ""
    for label, text in _lines(probed, facts):
        lines.append(f"{'' if label == last else label:<{LABELS}}{text}")
        last = label
    return "\n".join(lines)


def _lines(probed: Probed, facts: NodeFacts) -> Iterator[tuple[str, str]]:
    system, cpu, memory = facts.system, facts.cpu, facts.memory
    yield "system", f"{system.os}, kernel {system.kernel}, {system.machine}"
    own = facts.own_name
    how = "" if own.resolves else ", which takes long to look up" if own.slow else ", which does not resolve"
    yield "host", f"{own.name}{how}; user {system.user}"
    model = f", {cpu.model}" if cpu.model else ""
    yield "cpus", f"{cpu.usable} of {cpu.cores} cores usable{model}; load {cpu.load:.1f}"
    yield "memory", f"{size(memory.free)} of {size(memory.total)} free"
    yield "shared memory", f"{size(memory.shm_free)} of {size(memory.shm_total)} free"
    for disk in facts.disks:
        yield "disks", _disk(disk, facts.home)
    yield from (("gpus", text) for text in _gpus(facts))
    for python in facts.pythons:
        yield "pythons", _python(python)
    for interface in facts.interfaces:
        yield "interfaces", _interface(interface)
    if probed.clock is not None:
        offset, error = probed.clock.seconds * 1e3, probed.clock.error * 1e3
        yield "clock", f"{offset:+.0f} ms against ours (± {error:.0f})"
    for run in facts.runs:
        state = "" if run.supervised else ", an orphan: no one looks after it"
        pids = ", ".join(map(str, run.processes)) or "none"
        yield "runs", f"{run.run_id} of {run.user}, pids {pids}{state}"
    if facts.kills_after_logout:
        yield "login", "its login system ends what outlives a session (KillUserProcesses=yes)"


def _disk(disk: Disk, home: str) -> str:
    notes = [f"{size(disk.free)} of {size(disk.total)} free"]
    notes += ["Torchdeck's home"] if disk.path == home else []
    notes += [] if disk.there else ["not made yet"]
    notes += [] if disk.writable else ["cannot be written"]
    return f"{disk.path}: {', '.join(notes)}"


def _gpus(facts: NodeFacts) -> Iterator[str]:
    gpus = facts.gpu
    if gpus.driver:
        yield f"driver {gpus.driver}" + (f", for CUDA up to {gpus.cuda}" if gpus.cuda else "")
    if gpus.error:
        yield f"error: {gpus.error}"
    elif not gpus.devices:
        yield "none"
    for gpu in gpus.devices:
        yield f"{gpu.index}: {gpu.name}, {_gpu_memory(gpu)}{_users(gpu, facts)}"


def _gpu_memory(gpu: Gpu) -> str:
    return size(gpu.memory) if gpu.free is None else f"{size(gpu.free)} of {size(gpu.memory)} free"


def _users(gpu: Gpu, facts: NodeFacts) -> str:
    """Users of the GPU: processes, with their run and the memory they hold."""
    runs = {pid: run.run_id for run in facts.runs for pid in run.processes}
    users = []
    for user in gpu.users:
        notes = [f"run {runs[user.pid]}"] if user.pid in runs else []
        notes += [] if user.memory is None else [size(user.memory)]
        users.append(f"pid {user.pid}" + (f" ({', '.join(notes)})" if notes else ""))
    return f"; used by {', '.join(users)}" if users else ""


def _python(python: Python) -> str:
    said = [python.version] if python.version else []
    for name in ("torch", "numpy", "deepspeed", "cuda", "nccl"):
        known = getattr(python.deep, name, None) or getattr(python, name)
        said += (
            [f"{'CUDA' if name == 'cuda' else 'NCCL' if name == 'nccl' else name} {known}"] if known else []
        )
    said += [] if python.torch else ["no torch"]
    said += [f"error: {python.error}"] if python.error else []
    said += ["runs use this one"] if python.chosen else []
    return f"{python.executable}: {', '.join(said)}"


def _interface(interface: Interface) -> str:
    speed = f", {interface.speed:,} Mbit/s" if interface.speed else ""
    state = "" if interface.up else ", down"
    return f"{interface.name}: {', '.join(interface.addresses) or 'no address'}{speed}{state}"
