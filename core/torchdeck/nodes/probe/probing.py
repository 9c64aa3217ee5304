"""Probing of many nodes at once, each with a timeout of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.background import in_background
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import Cleaned, NodeFacts, ProcessEnd, facts_from
from torchdeck.nodes.probe.opening import LIMIT, Connect, Talking, left, open_probe_session
from torchdeck.nodes.probe.probe_session import ClockOffset, PythonEndedError, understood
from torchdeck.nodes.ssh.errors import (
    HostKeyChangedError,
    HostKeyRevokedError,
    HostKeyUnknownError,
)
from torchdeck.nodes.ssh.host_keys import Verdict as HostKey
from torchdeck.nodes.start_line import chosen_by

__all__ = [
    "LIMIT",
    "Connect",
    "Probed",
    "Question",
    "clean_node",
    "end_process",
    "fields_of",
    "open_probe_session",
    "probe_node",
    "probe_nodes",
]

CLOCK_LIMIT = 5.0
"""Seconds of these for comparing clocks."""
DEEP_LIMIT = 90.0
"""The same if torch is imported there."""
AT_ONCE = 64


@dataclass(frozen=True)
class Question:
    """Request sent to each node."""

    deep: bool = False
    """Import torch there."""
    others: bool = False
    """Whether to look for further Pythons, too."""
    folders: tuple[str, ...] = ()
    """Folders whose disks are checked, in addition to the home's."""
    peers: tuple[str, ...] = ()
    """Addresses whose routes are queried."""

    @property
    def limit(self) -> float:
        """Seconds."""
        return DEEP_LIMIT if self.deep else LIMIT


@dataclass(frozen=True)
class Probed:
    """Result of probing one node."""

    node: str
    seconds: float
    """Seconds from connecting to the last answer."""
    facts: NodeFacts | None = None
    clock: ClockOffset | None = None
    error: str = ""
    """Why nothing is known; empty if all is well."""
    fix: str = ""
    """How to fix it if the node is reached and its Python fails; else empty."""
    host_key: HostKey = HostKey.KNOWN
    """Problem of its host key, if that is why nothing is known."""


def probe_nodes(
    entries: Mapping[str, NodeEntry],
    connect: Connect,
    question: Question | None = None,
    talking: Talking | None = None,
) -> Iterator[Probed]:
    """Probe all nodes at once; yield each as soon as it has answered, or its timeout has passed.

    Args:
        entries: nodes by name.
        connect: opens a connection to a node; called in a thread for each.
        question: the request.
        talking: replaces `open_probe_session`.
    """
    asked = question or Question()
    calls = [partial(probe_node, name, entry, connect, asked, talking) for name, entry in entries.items()]
    looks = in_background(calls, AT_ONCE, "probe")
    try:
        for look in as_completed(looks):
            yield look.result()
    finally:
        for look in looks:
            look.cancel()


def probe_node(
    name: str, entry: NodeEntry, connect: Connect, question: Question, talking: Talking | None = None
) -> Probed:
    """Probe one node; errors are part of the result."""
    started = time.monotonic()
    try:
        with (talking or open_probe_session)(name, entry, connect, question.limit) as probe_session:
            until = time.monotonic() + question.limit - probe_session.spent
            said = probe_session.ask(ProbeRequest.FACTS, left(until), **fields_of(entry, question))
            facts = facts_from(name, said)
            clock = probe_session.clock(min(CLOCK_LIMIT, left(until)))
    except PythonEndedError as error:
        fix = f"`torchdeck nodes edit {name} --{chosen_by(entry)} …` names another"
        return Probed(name, time.monotonic() - started, error=str(error), fix=fix)
    except Refusal as error:
        return Probed(name, time.monotonic() - started, error=str(error), host_key=_host_key(error))
    return Probed(name, time.monotonic() - started, facts, clock)


def _host_key(error: Exception) -> HostKey:
    """Return the status of the host key according to an error."""
    kinds = (
        (HostKeyRevokedError, HostKey.REVOKED),
        (HostKeyChangedError, HostKey.CHANGED),
        (HostKeyUnknownError, HostKey.UNKNOWN),
    )
    return next((verdict for kind, verdict in kinds if isinstance(error, kind)), HostKey.KNOWN)


def clean_node(
    name: str, entry: NodeEntry, connect: Connect, run_ids: Sequence[str], limit: float = 60.0
) -> Mapping[str, Any]:
    """End the processes of the named runs on a node, unless they are supervised there.

    Returns:
        `ended` (run id → processes), `kept` (supervised runs), `left` (processes that do not exit).

    Raises:
        SshError, ProbeError: it cannot be reached, or did not answer.
    """
    with open_probe_session(name, entry, connect, limit) as probe_session:
        answer = probe_session.ask(ProbeRequest.CLEAN, limit, run_ids=list(run_ids), home=entry.home)
    with understood(name):
        return Cleaned.model_validate(answer).model_dump()


END_LIMIT = 20.0
"""Timeout in seconds to connect and end a process: more than the graces of `agent.probe.gpu_processes`."""


def end_process(name: str, entry: NodeEntry, connect: Connect, process: ProcessIdentity) -> ProcessEnd:
    """End one process on a node that uses a GPU there.

    Raises:
        SshError, ProbeError: the node cannot be reached, or did not answer.
    """
    with open_probe_session(name, entry, connect, LIMIT) as probe_session:
        answer = probe_session.ask(ProbeRequest.END_PROCESS, END_LIMIT, process=process.to_json())
    with understood(name):
        return ProcessEnd.model_validate(answer)


def fields_of(entry: NodeEntry, question: Question) -> dict[str, Any]:
    """Return the fields of the request `facts` for a node."""
    folders = (*question.folders, *((entry.working_dir,) if entry.working_dir else ()))
    return {
        "home": entry.home,
        "folders": list(folders),
        "peers": list(question.peers),
        "others": question.others,
        "deep": question.deep,
    }
