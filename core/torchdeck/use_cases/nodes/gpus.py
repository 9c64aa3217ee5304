"""GPUs of all nodes and of this machine: who holds which until when; and ending a process on one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.agent.probe.gpu_processes import end_process as end_here
from torchdeck.contract.inventory import LOCALHOST, Device
from torchdeck.contract.layout import RUN_ID, Home
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.gpus.gpu_now import GpuNow, GpuProcess, NodeGpus, RunHold, gpus_of, held_runs
from torchdeck.nodes.probe.facts import ProcessEnd
from torchdeck.nodes.probe.monitoring import NodeNow
from torchdeck.nodes.probe.probing import end_process as end_there
from torchdeck.runs.follower import RunPoller
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector


def gpus_of_node(now: NodeNow, runs: Mapping[str, RunHold]) -> tuple[GpuNow, ...]:
    """Return the GPUs of a monitored node; none before it has reported its hardware."""
    if now.facts is None:
        return ()
    sample = now.sample
    owners = {} if sample is None else sample.owners
    report = NodeGpus(
        now.node,
        [Device(gpu.index, gpu.uuid, gpu.name, gpu.memory, gpu.free) for gpu in now.facts.gpu.devices],
        None if sample is None else now.heard,
        {} if sample is None else sample.values,
        {key: (owner.run_id, owner.name) for key, owner in owners.items()},
        now.gpu_processes,
        now.facts.system.user,
        now.is_up,
    )
    return gpus_of(report, runs)


def without_twins(gpus: Iterable[GpuNow]) -> list[GpuNow]:
    """Return each GPU once if several names are one machine: under the first of them."""
    found: dict[str, GpuNow] = {}
    for gpu in gpus:
        key = gpu.device.uuid or f"{gpu.node} {gpu.device.index}"
        found.setdefault(key, gpu)
    return list(found.values())


# Expected ends of runs of this home.


def hold_of(view: RunView, progress: TrainingProgress | None, now: float) -> RunHold:
    """Return the run's name, and its expected end if it trains; `now` in seconds since 1970."""
    trains = view.state is RunState.RUNNING and view.followed_until is None
    eta = None if progress is None or not trains else progress.eta
    return RunHold(view.name, None if eta is None else now + eta)


def holds_of(entries: Iterable[RunEntry], now: float) -> dict[str, RunHold]:
    """Return the same for active runs of a list, by id."""
    return {
        entry.id: hold_of(entry.view, entry.progress, now)
        for entry in entries
        if entry.is_live and entry.view is not None
    }


class HeldRuns:
    """Reads the runs of a home that hold GPUs, and no others. Use it from one thread."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._home, self._clock = Home(home), clock
        self._pollers: dict[str, RunPoller] = {}

    def look(self, gpus: Iterable[GpuNow]) -> dict[str, RunHold]:
        """Return the known facts of the runs of this home that hold these GPUs, by id."""
        found = {}
        for run_id in held_runs(gpus):
            if (hold := self._hold(run_id)) is not None:
                found[run_id] = hold
        return found

    def _hold(self, run_id: str) -> RunHold | None:
        if RUN_ID.fullmatch(run_id) is None:
            return None
        layout = self._home.run(run_id)
        if not layout.journal.is_file():
            return None
        poller = self._pollers.setdefault(run_id, RunPoller(layout))
        try:
            found = poller.look()
        except (Refusal, OSError):
            return None
        return hold_of(found.view, found.progress, self._clock())


# Ending a process that uses a GPU.


class EndRefusal(Refusal):
    """A process cannot be ended from here."""

    page = "machines#gpus-and-who-holds-them"


class EndRequest(NamedTuple):
    """Process to end, as it was shown to the user."""

    node: str
    """Name in the inventory, or `localhost`."""
    process: GpuProcess


def why_not_endable(process: GpuProcess) -> str:
    """Return why a process cannot be ended here, as a sentence; empty if it can."""
    if process.run_id:
        return f"Process {process.pid} belongs to run {process.run_id}. Stop the run instead."
    if process.graphics:
        return f"Process {process.pid} draws on a screen of the node. End its session there."
    if process.process is None:
        return (
            f"Process {process.pid} is not visible on the node, "
            "perhaps because it runs in a container. End it where it was started."
        )
    if not process.endable:
        return f"Process {process.pid} belongs to {process.user}. Only {process.user} or root may end it."
    return ""


def refuse_end(process: GpuProcess) -> None:
    """Raise EndRefusal if a process cannot be ended here."""
    if why := why_not_endable(process):
        fix = f"`torchdeck runs stop {process.run_id}`" if process.run_id else ""
        raise EndRefusal(why.removesuffix("."), fix=fix)


def end_process(request: EndRequest, connector: Connector) -> ProcessEnd:
    """End exactly this process: SIGTERM, and SIGKILL 5 s later.

    The node compares its start time, so that another process that has got its pid is never hit; and it
    refuses processes of runs, of other users, and without a GPU.

    Raises:
        EndRefusal: it cannot be ended.
        SshError, ProbeError: the node cannot be reached, or did not answer.
    """
    refuse_end(request.process)
    identity = request.process.process
    assert identity is not None  # noqa: S101 - for the type checker: it would have been refused
    if request.node == LOCALHOST:
        return _end_here(identity)
    return end_there(request.node, connector.entry(request.node), connector.connect, identity)


def _end_here(identity: ProcessIdentity) -> ProcessEnd:
    return ProcessEnd.model_validate(end_here({"process": identity.to_json()}))


def end_words(request: EndRequest, end: ProcessEnd) -> str:
    """Return the result as a sentence."""
    process = f"process {request.process.pid} on {request.node}"
    texts = {
        "ended": f"Ended {process}.",
        "killed": f"Killed {process}: it ignored SIGTERM.",
        "gone": f"P{process[1:]} had already ended.",
    }
    return texts.get(end.outcome) or f"Did not end {process}: {end.why}."
