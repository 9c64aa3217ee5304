"""Looking at many nodes at once, each with a time limit of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from torchdeck.nodes.book.schema import NodeEntry
from torchdeck.nodes.probe.conversation import ClockOffset, Conversation, ProbeError, PythonEndedError
from torchdeck.nodes.probe.facts import NodeFacts, facts_from
from torchdeck.nodes.probe.sent_code import ARGUMENTS
from torchdeck.nodes.ssh.connection import Connection
from torchdeck.nodes.ssh.errors import HostKeyChangedError, HostKeyUnknownError, SshError
from torchdeck.nodes.start_line import chosen_by, python_line

LIMIT = 12.0
"""Seconds for all of it, from the first knock to the last answer; a launch is refused within 15."""
CLOCK_LIMIT = 5.0
"""Of these, for comparing clocks."""
DEEP_LIMIT = 90.0
"""The same where torch is imported there."""
AT_ONCE = 64

Connect = Callable[[str, float], Connection]
"""Node's name and seconds → a connection to it; raises SshError."""
Talking = Callable[[str, NodeEntry, Connect, float], AbstractContextManager[Conversation]]
"""What `talk` does."""


@dataclass(frozen=True)
class Question:
    """What is asked of each node."""

    deep: bool = False
    """Import torch there."""
    others: bool = False
    """Look for further Pythons, too."""
    folders: tuple[str, ...] = ()
    """Whose disks are looked at, beside the home's."""
    peers: tuple[str, ...] = ()
    """Addresses to ask the way to."""

    @property
    def limit(self) -> float:
        """Seconds."""
        return DEEP_LIMIT if self.deep else LIMIT


@dataclass(frozen=True)
class Probed:
    """One node, looked at."""

    node: str
    seconds: float
    """From the first knock to the last answer."""
    facts: NodeFacts | None = None
    clock: ClockOffset | None = None
    error: str = ""
    """Why nothing is known; empty when all is well."""
    fix: str = ""
    """What helps, where the node is reached and its Python is what fails; else empty."""
    is_untrusted: bool = False
    """It shows a host key that nobody has confirmed, or another one than before."""


def probe_nodes(
    entries: Mapping[str, NodeEntry],
    connect: Connect,
    question: Question | None = None,
    talking: Talking | None = None,
) -> Iterator[Probed]:
    """Look at all nodes at once; each as soon as it has answered, or its time is over.

    Args:
        entries: nodes by name.
        connect: how a node is reached; called in a thread for each.
        question: what is asked.
        talking: in place of `talk`.
    """
    asked = question or Question()
    pool = ThreadPoolExecutor(max(1, min(AT_ONCE, len(entries))), thread_name_prefix="probe")
    try:
        looks = [
            pool.submit(probe_node, name, entry, connect, asked, talking) for name, entry in entries.items()
        ]
        for look in as_completed(looks):
            yield look.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def probe_node(
    name: str, entry: NodeEntry, connect: Connect, question: Question, talking: Talking | None = None
) -> Probed:
    """Look at one node; what goes wrong stands in the result."""
    started = time.monotonic()
    try:
        with (talking or talk)(name, entry, connect, question.limit) as conversation:
            until = time.monotonic() + question.limit - conversation.spent
            said = conversation.ask("facts", _left(until), **fields_of(entry, question))
            facts = facts_from(name, said)
            clock = conversation.clock(min(CLOCK_LIMIT, _left(until)))
    except PythonEndedError as error:
        fix = f"`torchdeck nodes edit {name} --{chosen_by(entry)} …` names another"
        return Probed(name, time.monotonic() - started, error=str(error), fix=fix)
    except (SshError, ProbeError) as error:
        untrusted = isinstance(error, HostKeyUnknownError | HostKeyChangedError)
        return Probed(name, time.monotonic() - started, error=str(error), is_untrusted=untrusted)
    return Probed(name, time.monotonic() - started, facts, clock)


@contextmanager
def talk(name: str, entry: NodeEntry, connect: Connect, limit: float) -> Iterator[Conversation]:
    """A conversation with a node's Python, for as long as the block lasts.

    Args:
        name: of the node.
        entry: what the node book says of it.
        connect: how it is reached.
        limit: seconds until it can be asked; its `spent` says how many of them are gone.

    Raises:
        SshError, ProbeError: it cannot be reached, or its Python does not answer.
    """
    with connect(name, limit) as connection:
        until = time.monotonic() + limit - connection.seconds
        process = connection.start(python_line(entry, ARGUMENTS), _left(until))
        conversation = Conversation(process, f"node {name}", limit - _left(until))
        try:
            yield conversation
        finally:
            conversation.close()


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def clean_node(
    name: str, entry: NodeEntry, connect: Connect, run_ids: Sequence[str], limit: float = 60.0
) -> Mapping[str, Any]:
    """End the processes of the named runs on a node, unless somebody looks after them there.

    Returns:
        `ended` (run id → processes), `kept` (runs that are looked after), `left` (processes that do not end).

    Raises:
        SshError, ProbeError: it cannot be reached, or did not answer.
    """
    with talk(name, entry, connect, limit) as conversation:
        return conversation.ask("clean", limit, run_ids=list(run_ids), home=entry.home)


def fields_of(entry: NodeEntry, question: Question) -> dict[str, Any]:
    """What the question `facts` says to a node."""
    folders = (*question.folders, *((entry.working_dir,) if entry.working_dir else ()))
    return {
        "home": entry.home,
        "folders": list(folders),
        "peers": list(question.peers),
        "others": question.others,
        "deep": question.deep,
    }
