"""Tests a node step by step: each step passes or reports in a sentence what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torchdeck.contract.inventory import major_minor
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.interpreter import OLDEST_PYTHON
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import NodeFacts, facts_from
from torchdeck.nodes.probe.probe_session import ProbeError
from torchdeck.nodes.probe.probing import open_probe_session
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.errors import (
    HostKeyChangedError,
    HostKeyUnknownError,
    NeedsLoginError,
    SshError,
)
from torchdeck.nodes.ssh.target import target_for
from torchdeck.quantities import size

Status = Literal["waiting", "ok", "warning", "failed"]
NAMES = ("SSH answers", "Host key", "Login", "Python", "torch", "Torchdeck's home", "GPUs")
ANSWERS, KEY, LOGIN, PYTHON, TORCH, HOME, GPUS = range(len(NAMES))


@dataclass(frozen=True)
class Step:
    """Result of one step of the test."""

    number: int
    """Index into NAMES."""
    status: Status
    sentence: str
    asks: bool = False
    """Whether the user could fix it by answering a prompt."""
    page: str = ""
    """Page of the documentation that helps."""


def try_node(
    name: str, entry: NodeEntry, connector: Connector, limit: float, tell: Callable[[Step], None]
) -> None:
    """Connect to a node that need not be in the inventory, and probe it; `tell` receives each step.

    Args:
        name: current or future name of the node.
        entry: the node's settings.
        connector: connects to nodes, with its prompts.
        limit: seconds to connect, and seconds to respond.
        tell: called in this thread.
    """
    try:
        target = target_for(name, entry, connector.node_inventory(), connector.home)
    except Refusal as error:
        tell(Step(ANSWERS, "failed", _sentence(error), page=error.page))
        return

    def connected(_name: str, seconds: float) -> Connection:
        connection = connect(target, connector.credentials, connector.asker, seconds)
        through = f" through {len(target.jumps)} host(s)" if target.jumps else ""
        tell(Step(ANSWERS, "ok", f"{target.host}, port {target.port}, answers{through}"))
        tell(Step(KEY, "ok", "It is the host that is known"))
        tell(Step(LOGIN, "ok", f"Logged in as {target.user}"))
        return connection

    try:
        with open_probe_session(name, entry, connected, limit) as probe_session:
            facts = facts_from(
                name, probe_session.ask(ProbeRequest.FACTS, limit, home=entry.home, folders=[])
            )
    except SshError as error:
        for step in _of_connection(error):
            tell(step)
    except ProbeError as error:
        tell(Step(PYTHON, "failed", _sentence(error), page=error.page))
    else:
        for step in of_facts(facts):
            tell(step)


def of_facts(facts: NodeFacts) -> list[Step]:
    """Return the steps for a node that responded."""
    python = facts.python
    version = f"Python {python.version}, {python.executable}"
    old = major_minor(python.version) < OLDEST_PYTHON
    steps = [
        Step(PYTHON, "failed", f"{version}: Torchdeck needs 3.10 or newer")
        if old
        else Step(PYTHON, "ok", version)
    ]
    if python.error:
        steps.append(Step(TORCH, "failed", python.error))
    elif python.torch is None:
        why = f"{python.executable} has no torch: runs need it; name its venv, conda environment or Python"
        steps.append(Step(TORCH, "warning", why))
    else:
        steps.append(Step(TORCH, "ok", f"torch {python.torch}"))
    home = facts.disks[0] if facts.disks else None
    if home is not None and not home.writable:
        steps.append(Step(HOME, "failed", f"{home.path} cannot be written: name another home"))
    elif home is not None:
        steps.append(Step(HOME, "ok", f"{facts.home}, {size(home.free)} free"))
    steps.append(_gpus(facts))
    return steps


def _gpus(facts: NodeFacts) -> Step:
    if facts.gpu.error:
        return Step(GPUS, "warning", facts.gpu.error)
    names = [gpu.name for gpu in facts.gpu.devices]
    if not names:
        return Step(GPUS, "ok", f"None: runs train on its {facts.cpu.usable} CPUs, one process per rank")
    counts = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    return Step(GPUS, "ok", ", ".join(counts))


def _of_connection(error: SshError) -> list[Step]:
    answers = Step(ANSWERS, "ok", "It answers")
    if isinstance(error, HostKeyUnknownError):
        what = f"Host key not verified: {error.key_type} {error.fingerprint}"
        return [answers, Step(KEY, "warning", what, asks=True, page=error.page)]
    if isinstance(error, HostKeyChangedError):
        return [answers, Step(KEY, "failed", _sentence(error), page=error.page)]
    if isinstance(error, NeedsLoginError):
        known = Step(KEY, "ok", "It is the host that is known")
        status: Status = "warning" if error.asking_helps else "failed"
        login = Step(LOGIN, status, _sentence(error), error.asking_helps, error.page)
        return [answers, known, login]
    return [Step(ANSWERS, "failed", _sentence(error), page=error.page)]


def _sentence(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text[:1].upper() + text[1:]
