"""Monitoring of nodes, each in a thread over one channel that is reopened whenever it breaks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import GpuProcessHere, NodeData, NodeFacts, RunHere, Text, facts_from
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.nodes.probe.probing import LIMIT, Connect, Question, fields_of, open_probe_session
from torchdeck.nodes.ssh.errors import HostKeyChangedError, HostKeyUnknownError, NeedsLoginError

if TYPE_CHECKING:
    from torchdeck.nodes.ssh.connection import Connection

INTERVAL = 1.0
"""Seconds between two samples of a node."""
RUNS_EVERY = 5
"""Samples between two polls of its processes, of which there may be very many."""
SAMPLE_LIMIT = 6.0
"""Timeout in seconds for one sample; after it the node counts as lost."""
FIRST_DELAY = 1.0
"""Seconds before the first reconnect; doubles each time."""
LAST_DELAY = 15.0
LOGIN_DELAY = 60.0
"""Seconds before a retry if user action is needed."""
NEEDS_USER = (NeedsLoginError, HostKeyUnknownError, HostKeyChangedError)
"""Errors that last until the user acts."""

Number = Annotated[float, Field(allow_inf_nan=False)]


class NodeState(StrEnum):
    """Connection state of a monitored node; its value is part of `nodes monitor --json`."""

    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"


class LeaseHolder(NodeData):
    """Run that has leased a device."""

    run_id: Text
    name: Text = ""


class Sample(NodeData):
    """Activity of a node at one moment."""

    time: Number
    """Time by the node's clock."""
    values: Mapping[str, Number]
    """Series of the machine and its GPUs: `agent.machine`, `agent.gpus`."""
    load: tuple[Number, Number, Number]
    owners: Mapping[str, LeaseHolder] = Field(default_factory=dict)
    """Device → the run that has leased it."""
    runs: tuple[RunHere, ...] | None = None
    """Runs with processes on the node; None if not queried."""
    gpu_processes: Annotated[tuple[GpuProcessHere, ...], Field(max_length=1024)] | None = None
    """Processes on its GPUs; None if not queried, or unknown."""


@dataclass(frozen=True)
class NodeNow:
    """Last known state of a node; its last values remain after the connection is lost."""

    node: str
    state: NodeState
    since: float
    """Time at which that state began, in seconds since 1970."""
    error: Exception | None = None
    """Reason for the loss."""
    heard: float | None = None
    """Time of its last answer; None: never."""
    facts: NodeFacts | None = None
    sample: Sample | None = None
    runs: tuple[RunHere, ...] = ()
    gpu_processes: tuple[GpuProcessHere, ...] | None = None
    """Processes on its GPUs; None if unknown."""

    @property
    def is_up(self) -> bool:
        return self.state is NodeState.UP

    @property
    def is_lost(self) -> bool:
        return self.state is NodeState.LOST

    @property
    def why(self) -> str:
        """Return the reason for the loss as a sentence; empty if there is none."""
        return "" if self.error is None else str(self.error) or type(self.error).__name__


@dataclass(frozen=True)
class Pace:
    """Intervals of a monitor, and what limits its connection attempts."""

    interval: float = INTERVAL
    """Seconds between two samples."""
    user_delay: float | None = LOGIN_DELAY
    """Seconds before a retry if user action is needed; None: until `retry`."""
    gate: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Held while connecting, such as a semaphore that limits concurrent attempts."""


class NodeMonitor:
    """Thread that monitors one node from `start` to `stop`. A lost node is retried forever.

    Args:
        name: name of the node.
        entry: its entry in the inventory.
        connect: opens a connection; called in the thread.
        on_news: called in the thread with every sample and change, never after `stop`.
        pace: intervals and limits.
        known: its last known state.
    """

    def __init__(
        self,
        name: str,
        entry: NodeEntry,
        connect: Connect,
        on_news: Callable[[NodeNow], None],
        pace: Pace,
        known: NodeNow | None = None,
    ) -> None:
        self.name, self.entry = name, entry
        self._connect, self._on_news, self._pace = connect, on_news, pace
        now = time.time()
        before = known or NodeNow(name, NodeState.CONNECTING, now)
        self._now = replace(before, state=NodeState.CONNECTING, since=now, error=None)
        self._wake = threading.Condition()
        self._is_stopped = False
        self._asking: Connect | None = None
        self._wants_retry = False
        self._thread = threading.Thread(target=self._run, name=f"node {name}", daemon=True)

    @property
    def now(self) -> NodeNow:
        """Return the last known state."""
        return self._now

    def start(self) -> None:
        """Begin to connect, without waiting."""
        self._thread.start()

    def stop(self, seconds: float = 0.0) -> bool:
        """Report nothing more and disconnect; return whether the thread ended within `seconds`."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify_all()
        if seconds and self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def retry(self, connect: Connect | None = None) -> None:
        """Retry at once if not connected, this time by `connect`, which may prompt the user."""
        with self._wake:
            self._asking, self._wants_retry = connect, True
            self._wake.notify_all()

    def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._is_stopped:
            before = self._now.heard
            try:
                self._follow()
                return
            except (Refusal, OSError) as error:
                self._tell(self._became(NodeState.LOST, error))
                needs_user = isinstance(error, NEEDS_USER)
            delay = FIRST_DELAY if self._now.heard != before else min(LAST_DELAY, delay * 2)
            wait = self._pace.user_delay if needs_user else delay
            # not all of a hundred nodes at once
            self._rest(None if wait is None else wait * random.uniform(0.8, 1.2))  # noqa: S311 - no secret

    def _follow(self) -> None:
        """Poll the node until stopped or disconnected."""
        with self._wake:
            asking, self._asking = self._asking, None
            wanted, self._wants_retry = self._wants_retry, False
        if (
            wanted and self._now.state is NodeState.LOST
        ):  # else the error stays readable during automatic retries
            self._tell(self._became(NodeState.CONNECTING, None))
        connect = self._gated if asking is None else asking
        with open_probe_session(self.name, self.entry, connect, LIMIT) as probe_session:
            said = probe_session.ask(ProbeRequest.FACTS, LIMIT, **fields_of(self.entry, Question()))
            facts = facts_from(self.name, said)
            news = replace(self._became(NodeState.UP, None), heard=time.time(), facts=facts, runs=facts.runs)
            self._tell(news)
            count, due = 0, time.monotonic()
            while not self._is_stopped:
                due = max(due + self._pace.interval, time.monotonic())
                sample = self._sample(probe_session, facts, with_runs=count % RUNS_EVERY == 0)
                if sample.runs is not None:
                    news = replace(news, runs=sample.runs, gpu_processes=sample.gpu_processes)
                news = replace(news, heard=time.time(), sample=sample)
                self._tell(news)
                count += 1
                self._wants_retry = False  # it is connected
                self._rest(max(0.0, due - time.monotonic()))

    def _gated(self, name: str, limit: float) -> Connection:
        with self._pace.gate:
            if self._is_stopped:
                raise ProbeError(f"node {name} is not monitored any more")
            return self._connect(name, limit)

    def _sample(self, probe_session: ProbeSession, facts: NodeFacts, *, with_runs: bool) -> Sample:
        devices = [gpu.uuid or str(gpu.index) for gpu in facts.gpu.devices]
        answer = probe_session.ask(
            ProbeRequest.SAMPLE, SAMPLE_LIMIT, home=self.entry.home, devices=devices, runs=with_runs
        )
        return sample_from(self.name, answer)

    def _became(self, state: NodeState, error: Exception | None) -> NodeNow:
        before = self._now
        since = before.since if before.state == state else time.time()
        return replace(before, state=state, error=error, since=since)

    def _tell(self, now: NodeNow) -> None:
        with self._wake:
            if not self._is_stopped:
                self._now = now
                self._on_news(now)

    def _rest(self, seconds: float | None) -> None:
        """Wait `seconds`, or forever if None, until stopped or retried."""
        with self._wake:
            if not self._is_stopped and not self._wants_retry:
                self._wake.wait(seconds)


def sample_from(node: str, answer: Mapping[str, Any]) -> Sample:
    """Parse the sample in a node's answer. Raises ProbeError naming the invalid value."""
    try:
        return Sample.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProbeError(f"node {node} reported an invalid sample: {where}: {first['msg']}") from error
