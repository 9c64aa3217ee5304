"""Watching one node over one channel: what it is, then once a second what it does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from torchdeck.config.problems import ConfigError
from torchdeck.nodes.book.schema import NodeEntry
from torchdeck.nodes.probe.conversation import Conversation, ProbeError
from torchdeck.nodes.probe.facts import facts_from
from torchdeck.nodes.probe.probing import Connect, talk
from torchdeck.nodes.ssh.connection import Connection
from torchdeck.nodes.ssh.errors import HostKeyUnknownError, SshError
from torchdeck_app.nodes.live.python_fix import python_fix
from torchdeck_app.nodes.live.sight import NodeSight, Standing, sample_from, standing_of

INTERVAL = 1.0
"""Seconds between two samples."""
REACH_LIMIT = 10.0
"""Seconds to connect, and for the first answer."""
ANSWER_LIMIT = 10.0
"""Seconds for a sample; a line that is cut is known to be after that."""
RUNS_EVERY = 5
"""Samples from one look at a node's processes to the next."""
_FIRST_REST, _LONGEST_REST = 2.0, 30.0
"""Seconds until a node that is not reached is tried again: doubled each time, up to the second."""
WAITS = (Standing.NEEDS_LOGIN, Standing.NEEDS_KEY, Standing.KEY_UNKNOWN, Standing.KEY_CHANGED)
"""Nothing changes until a person does something."""


class NodeWatch:
    """One thread that talks to one node until `stop`, and tells what it sees.

    Args:
        name: of the node.
        entry: what the book says of it.
        connect: connects, and asks nobody.
        gate: held while connecting, so that many nodes are not reached all at once.
        tell: called in the thread with each NodeSight, and never after `stop`.
        known: what was seen of it before.
    """

    def __init__(
        self,
        name: str,
        entry: NodeEntry,
        connect: Connect,
        gate: threading.Semaphore,
        tell: Callable[[NodeSight], None],
        known: NodeSight | None = None,
    ) -> None:
        self.name, self.entry = name, entry
        self._connect, self._gate, self._tell = connect, gate, tell
        self._sight = (
            NodeSight(name) if known is None else replace(known, standing=Standing.REACHING, why="", fix="")
        )
        self._wake = threading.Condition()
        self._is_stopped = False
        self._asking: Connect | None = None
        self._wants_retry = False
        self._thread = threading.Thread(target=self._run, name=f"node {name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float = 0.0) -> bool:
        """Tell nothing more, and close the channel; whether the thread has ended within `seconds`."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify_all()
        if seconds and self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def retry(self, connect: Connect | None = None) -> None:
        """Try again at once where it is not reached; by `connect` this time, which may ask a person."""
        with self._wake:
            self._asking, self._wants_retry = connect, True
            self._wake.notify_all()

    def _run(self) -> None:
        rest = _FIRST_REST
        while not self._is_stopped:
            try:
                self._watch()
                return
            except (SshError, ProbeError, ConfigError, OSError) as error:
                was_reached = self._sight.standing is Standing.REACHED
                standing = standing_of(error)
                if was_reached and standing is Standing.NO_PYTHON:
                    standing = Standing.UNREACHABLE  # it did run: somebody ended it
                fix = python_fix(self.entry) if standing is Standing.NO_PYTHON else ""
                self._say(standing=standing, why=_sentence(error), fix=fix)
            rest = _FIRST_REST if was_reached else min(2 * rest, _LONGEST_REST)
            self._rest(None if standing in WAITS else rest)

    def _watch(self) -> None:
        """Talk to it until it is stopped or lost."""
        with self._wake:
            asking, self._asking = self._asking, None
            wanted, self._wants_retry = self._wants_retry, False
        if wanted:  # else what was wrong stays to be read while it is tried again by itself
            self._say(standing=Standing.REACHING, why="", fix="")
        reach = self._gated if asking is None else asking
        with talk(self.name, self.entry, reach, REACH_LIMIT) as conversation:
            folders = [self.entry.working_dir] if self.entry.working_dir else []
            answer = conversation.ask("facts", REACH_LIMIT, home=self.entry.home, folders=folders)
            facts = facts_from(self.name, answer)
            self._say(standing=Standing.REACHED, facts=facts, runs=facts.runs, why="", fix="")
            count = 0
            while not self._is_stopped:
                self._wants_retry = False  # it is reached
                self._sample(conversation, with_runs=count % RUNS_EVERY == 0)
                count += 1
                self._rest(INTERVAL)

    def _gated(self, name: str, limit: float) -> Connection:
        with self._gate:
            if self._is_stopped:
                raise ProbeError(f"node {name} is not wanted any more")
            return self._connect(name, limit)

    def _sample(self, conversation: Conversation, *, with_runs: bool) -> None:
        facts = self._sight.facts
        devices = [] if facts is None else [gpu.uuid or str(gpu.index) for gpu in facts.gpu.devices]
        answer = conversation.ask(
            "sample", ANSWER_LIMIT, home=self.entry.home, devices=devices, runs=with_runs
        )
        sample = sample_from(self.name, answer)
        runs = self._sight.runs if sample.runs is None else sample.runs
        self._say(sample=sample, runs=runs)

    def _say(self, **newer: object) -> None:
        self._sight = replace(self._sight, **newer)  # type: ignore[arg-type]  # fields of its own
        with self._wake:
            if not self._is_stopped:
                self._tell(self._sight)

    def _rest(self, seconds: float | None) -> None:
        """Until `seconds` are over, or for ever; or until it is stopped, or shall try again."""
        with self._wake:
            if not self._is_stopped and not self._wants_retry:
                self._wake.wait(seconds)


def _sentence(error: Exception) -> str:
    """Of a key that nobody knows without what to do at a terminal: the window has a button for that."""
    if isinstance(error, HostKeyUnknownError):
        return f"Nobody has said yet that its host key is the right one: {error.key_type} {error.fingerprint}"
    text = str(error) or type(error).__name__
    return text[:1].upper() + text[1:]
