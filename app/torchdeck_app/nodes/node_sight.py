"""State of a node at one moment, and advice if runs cannot use its Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from torchdeck.contract.inventory import Device, major_minor
from torchdeck.nodes.activity import DeviceActivity, Owner
from torchdeck.nodes.interpreter import OLDEST_PYTHON
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import NodeFacts, RunHere
from torchdeck.nodes.probe.probe_session import PythonEndedError
from torchdeck.nodes.ssh.errors import HostKeyChangedError, HostKeyUnknownError, NeedsLoginError
from torchdeck.nodes.start_line import chosen_by
from torchdeck.use_cases.nodes.monitor import LeaseHolder, NodeNow, Sample


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
    sample: Sample | None = None
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
    device: Device, values: Mapping[str, float], owners: Mapping[str, LeaseHolder], used: float | None
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


def sight_of(now: NodeNow, entry: NodeEntry, before: NodeSight | None) -> NodeSight:
    """Return a node's state for display.

    Args:
        now: its state.
        entry: its entry in the inventory.
        before: its state before.
    """
    standing, why, fix = Standing.REACHING, "", ""
    if now.is_up:
        standing = Standing.REACHED
    elif now.error is not None:
        standing, why = standing_of(now.error), _sentence(now.error)
        if standing is Standing.NO_PYTHON and before is not None and before.standing is Standing.REACHED:
            standing = Standing.UNREACHABLE  # it did run: it was killed
        fix = python_fix(entry) if standing is Standing.NO_PYTHON else ""
    return NodeSight(now.node, standing, why, fix, now.facts, now.sample, now.runs)


def _sentence(error: Exception) -> str:
    """Return the error as a sentence; for an unknown host key without terminal advice, as the window has a
    button for it.
    """
    if isinstance(error, HostKeyUnknownError):
        return f"Host key not verified: {error.key_type} {error.fingerprint}"
    text = str(error) or type(error).__name__
    return text[:1].upper() + text[1:]


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
