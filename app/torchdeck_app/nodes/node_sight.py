"""State of a node at one moment, and advice if runs cannot use its Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any

from pydantic import Field, ValidationError

from torchdeck.contract.inventory import Device, major_minor
from torchdeck.nodes.activity import DeviceActivity, Owner
from torchdeck.nodes.interpreter import OLDEST_PYTHON
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import NodeFacts, RunHere, Said
from torchdeck.nodes.probe.probe_session import ProbeError, PythonEndedError
from torchdeck.nodes.ssh.errors import HostKeyChangedError, HostKeyUnknownError, NeedsLoginError
from torchdeck.nodes.start_line import chosen_by

Number = Annotated[float, Field(allow_inf_nan=False)]


class Standing(Enum):
    """Connection state of a node."""

    REACHING = auto()
    REACHED = auto()
    UNREACHABLE = auto()
    NEEDS_LOGIN = auto()
    NEEDS_KEY = auto()
    """The node accepts none of the known keys and offers no method that could prompt the user."""
    KEY_UNKNOWN = auto()
    KEY_CHANGED = auto()
    NO_PYTHON = auto()
    """Login succeeds, but the configured Python does not start."""


class Holder(Said):
    """Run that has leased a device."""

    run_id: Annotated[str, Field(max_length=4096)]
    name: Annotated[str, Field(max_length=4096)] = ""


class NodeSample(Said):
    """Current activity of a node."""

    time: Number
    values: Mapping[str, Number]
    """Series as named by `torchdeck.agent.machine` and `.gpus`."""
    load: tuple[Number, Number, Number]
    owners: Mapping[str, Holder] = Field(default_factory=dict)
    """Owner of each device, by the device's key."""
    runs: tuple[RunHere, ...] | None = None
    """Runs with processes on the node; None if not queried."""


@dataclass(frozen=True)
class NodeSight:
    """Current state of one node; its last values remain after the connection is lost."""

    name: str
    standing: Standing = Standing.REACHING
    why: str = ""
    """Why the node is not connected, as a sentence."""
    fix: str = ""
    """Advice, if the reason does not include it."""
    facts: NodeFacts | None = None
    sample: NodeSample | None = None
    runs: tuple[RunHere, ...] = ()

    @property
    def orphans(self) -> tuple[RunHere, ...]:
        """Runs without supervision that have live processes."""
        return tuple(run for run in self.runs if not run.supervised)

    @property
    def devices(self) -> tuple[DeviceActivity, ...]:
        """Return the node's GPUs now."""
        if self.facts is None:
            return ()
        values = {} if self.sample is None else self.sample.values
        owners = {} if self.sample is None else self.sample.owners
        return tuple(
            _device(
                Device(gpu.index, gpu.uuid, gpu.name, gpu.memory, gpu.free),
                values,
                owners,
                None if gpu.free is None else float(gpu.memory - gpu.free),
            )
            for gpu in self.facts.gpu.devices
        )


def _device(
    device: Device, values: Mapping[str, float], owners: Mapping[str, Holder], used: float | None
) -> DeviceActivity:
    name, holder = f"gpu{device.index}", owners.get(device.key)
    return DeviceActivity(
        device,
        utilisation=values.get(f"{name}_util"),
        memory_used=values.get(f"{name}_memory_used_bytes", used),
        temperature=values.get(f"{name}_temperature_c"),
        power=values.get(f"{name}_power_w"),
        owner=None if holder is None else Owner(holder.run_id, holder.name or holder.run_id),
    )


def sample_from(node: str, answer: Mapping[str, Any]) -> NodeSample:
    """Parse the sample in a node's answer. Raises ProbeError naming the invalid value."""
    try:
        return NodeSample.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProbeError(f"{node} reported invalid facts: {where}: {first['msg']}") from error


def standing_of(error: Exception) -> Standing:
    """Return the connection state after `error`."""
    if isinstance(error, HostKeyUnknownError):
        return Standing.KEY_UNKNOWN
    if isinstance(error, HostKeyChangedError):
        return Standing.KEY_CHANGED
    if isinstance(error, PythonEndedError):
        return Standing.NO_PYTHON
    if isinstance(error, NeedsLoginError):
        return Standing.NEEDS_LOGIN if error.asking_helps else Standing.NEEDS_KEY
    return Standing.UNREACHABLE


# Advice for a node whose Python cannot be used by runs.

_NAMES = {
    "python": "Python",
    "venv": "virtual environment",
    "conda": "conda environment",
    "activate": "script that activates its environment",
}


def python_fix(entry: NodeEntry) -> str:
    """Return the fix if the node inventory names an interpreter that does not start."""
    return f"Choose another {_NAMES[chosen_by(entry)]} for it"


def python_fault(facts: NodeFacts) -> str:
    """Return why runs cannot use the node's Python; empty if they can."""
    python = facts.python
    if python.error:
        return f"{python.executable}: {python.error}"
    if major_minor(python.version) < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return f"{python.executable} is Python {python.version}; runs need {wanted} or newer"
    return "" if python.torch else f"{python.executable} has no torch. torch is required"
