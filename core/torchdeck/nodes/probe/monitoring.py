"""Monitoring of many nodes, each over one channel that is reopened whenever it breaks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import ValidationError

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import NodeFacts, RunHere, Said, Text, facts_from
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.nodes.probe.probing import LIMIT, Connect, Question, fields_of, open_probe_session
from torchdeck.nodes.ssh.errors import NeedsLoginError, SshError

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

State = Literal["connecting", "up", "lost"]


class Owner(Said):
    """Run that has leased a device."""

    run_id: Text
    name: Text


class Sample(Said):
    """Activity of a node at one moment."""

    time: float
    """Time by the node's clock."""
    values: dict[str, float]
    """Series of the machine and its GPUs: `agent.machine`, `agent.gpus`."""
    load: tuple[float, float, float]
    owners: dict[str, Owner]
    """Device → the run that has leased it."""
    runs: tuple[RunHere, ...] | None = None


@dataclass(frozen=True)
class NodeNow:
    """Last known state of a node."""

    node: str
    state: State
    since: float
    """Time at which that state began, in seconds since 1970."""
    why: str = ""
    """Reason for the loss."""
    heard: float | None = None
    """Time of its last answer; None: never."""
    facts: NodeFacts | None = None
    sample: Sample | None = None
    runs: tuple[RunHere, ...] = ()


class Monitor:
    """Monitors nodes from `start` to `close`, with a thread each. A lost node is retried forever.

    Args:
        entries: nodes by name.
        connect: opens a connection to a node; called in its thread.
        on_news: called with every sample and change, in that node's thread.
        interval: seconds between two samples.
    """

    def __init__(
        self,
        entries: Mapping[str, NodeEntry],
        connect: Connect,
        on_news: Callable[[NodeNow], None] = lambda _now: None,
        interval: float = INTERVAL,
    ) -> None:
        self._entries = dict(entries)
        self._connect = connect
        self._on_news = on_news
        self._interval = interval
        self._closed = threading.Event()
        now = time.time()
        self._now = {name: NodeNow(name, "connecting", now) for name in entries}
        self._threads = [
            threading.Thread(target=self._keep, args=(name,), name=f"monitor {name}", daemon=True)
            for name in entries
        ]

    def start(self) -> None:
        """Begin to connect, without waiting."""
        for thread in self._threads:
            thread.start()

    def now(self) -> dict[str, NodeNow]:
        """Return the last known state of every node."""
        return dict(self._now)

    def close(self, limit: float = 2.0) -> None:
        """Disconnect all nodes; nothing is left on them. Waits at most `limit` seconds."""
        self._closed.set()
        until = time.monotonic() + limit
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _keep(self, name: str) -> None:
        delay = FIRST_DELAY
        while not self._closed.is_set():
            before = self._now[name].heard
            wait = None
            try:
                with open_probe_session(name, self._entries[name], self._connect, LIMIT) as probe_session:
                    self._follow(name, probe_session)
                return
            except NeedsLoginError as error:
                self._lost(name, error)
                wait = LOGIN_DELAY
            except (SshError, ProbeError, OSError) as error:
                self._lost(name, error)
            delay = FIRST_DELAY if self._now[name].heard != before else min(LAST_DELAY, delay * 2)
            # not all of a hundred nodes at once
            self._closed.wait((wait or delay) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret

    def _follow(self, name: str, probe_session: ProbeSession) -> None:
        entry = self._entries[name]
        facts = facts_from(name, probe_session.ask(ProbeRequest.FACTS, LIMIT, **fields_of(entry, Question())))
        devices = [gpu.uuid or str(gpu.index) for gpu in facts.gpu.devices]
        runs, count, due = facts.runs, 0, time.monotonic()
        while not self._closed.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._interval, time.monotonic())
            looks = count % RUNS_EVERY == 0
            answer = probe_session.ask(
                ProbeRequest.SAMPLE, SAMPLE_LIMIT, home=entry.home, devices=devices, runs=looks
            )
            sample = _sample(name, answer)
            count += 1
            runs = runs if sample.runs is None else sample.runs
            self._tell(
                replace(
                    self._became(name, "up", ""), heard=time.time(), facts=facts, sample=sample, runs=runs
                )
            )

    def _lost(self, name: str, error: Exception) -> None:
        if not self._closed.is_set():
            self._tell(self._became(name, "lost", str(error)))

    def _became(self, name: str, state: State, why: str) -> NodeNow:
        before = self._now[name]
        since = before.since if before.state == state else time.time()
        return replace(before, state=state, why=why, since=since)

    def _tell(self, now: NodeNow) -> None:
        self._now[now.node] = now
        self._on_news(now)


def _sample(node: str, answer: Mapping[str, Any]) -> Sample:
    try:
        return Sample.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProbeError(
            f"node {node} said something impossible of itself: {where}: {first['msg']}"
        ) from error
