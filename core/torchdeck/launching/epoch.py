"""Ownership of a run: the controller with the highest epoch in its lock file.

A controller acts only while it holds the file's lock and the file contains its own epoch. A later controller
can therefore take over the run at any time, and never interrupts the earlier one during an action.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from torchdeck.agent.inbox import REPLACED
from torchdeck.contract.layout import FORMAT_VERSION
from torchdeck.contract.lock_file import locked
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.requests import STOP_NOW, Request
from torchdeck.launching.transport import Transport
from torchdeck.runs.replay.history import RunHistory

LOCK_SIZE = 4096


class SupersededError(Exception):
    """A later controller has taken the run."""

    def __init__(self, by: ProcessIdentity | None) -> None:
        super().__init__("another controller has taken over this run")
        self.by = by


class ControllerEpoch:
    """This controller's claim on a run."""

    def __init__(self, path: Path, identity: ProcessIdentity) -> None:
        """Take the run from its current controller; raises OSError if the lock file cannot be written."""
        self._path = path
        with locked(path) as file:
            self.number = _read(file)[0] + 1
            content = {"v": FORMAT_VERSION, "epoch": self.number, "identity": identity.to_json()}
            os.pwrite(file, json.dumps(content).encode().ljust(LOCK_SIZE), 0)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run for the duration of one action.

        Raises:
            SupersededError: a later controller has the run, or its lock file is gone.
        """
        with locked(self._path) as file:
            number, by = _read(file)
            if number != self.number:
                raise SupersededError(by)
            yield

    def check(self) -> None:
        """Raise SupersededError if a later controller has the run."""
        try:
            content = self._path.read_bytes()
        except OSError:
            raise SupersededError(None) from None
        number, by = _parsed(content)
        if number > self.number:
            raise SupersededError(by)


def _read(file: int) -> tuple[int, ProcessIdentity | None]:
    return _parsed(os.pread(file, LOCK_SIZE, 0))


def _parsed(content: bytes) -> tuple[int, ProcessIdentity | None]:
    try:
        value = json.loads(content)
        return int(value["epoch"]), ProcessIdentity.from_json(value["identity"])
    except (ValueError, TypeError, KeyError):
        return 0, None


# Ends agents of earlier sessions of a run: a returning agent learns that it was replaced.


class Nodes(Protocol):
    """The used part of the interface of `ConnectedNodes`."""

    transports: Sequence[Transport]

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Return whether any process of the run is alive on `node`; None while unknown."""


class Journal(Protocol):
    """The used part of the interface of a journal's writer."""

    def append(self, name: str, /, **fields: Any) -> None:
        """Write an event."""


class Fence:
    """The fence of one controller.

    The request names the session that it protects, and agents of that session ignore it. It may therefore
    arrive at any time, and late mirroring does no harm.
    """

    def __init__(self, nodes: Nodes, epoch: ControllerEpoch, journal: Journal) -> None:
        self._nodes = nodes
        self._epoch = epoch
        self._journal = journal
        self._handed: set[tuple[str, int]] = set()
        """Nodes, and the sessions that were protected there."""
        self._fenced: set[tuple[str, int]] = set()
        """The same, once nothing of earlier sessions lives there."""

    def look(self, history: RunHistory) -> None:
        """Notify live agents that belong to an earlier session, or to the one that was given up.

        Of nodes that did not answer when the run was given up, record those without a live process of the
        run.
        """
        session = history.session + history.is_given_up
        for transport in self._nodes.transports:
            if (history.agent_session(transport.node) or 0) < session:
                self._tell(transport, session, history, "given up" if history.is_given_up else "resumed")
        for node in history.unfenced:
            if (node, session) not in self._fenced and self._nodes.lives(node, history) is False:
                self._fenced.add((node, session))
                self._journal.append("fenced", node=node, life=session)

    def _tell(self, transport: Transport, session: int, history: RunHistory, what: str) -> None:
        node = transport.node
        if (node, session) in self._handed:
            return
        seen = transport.supervision(history.agents.get(node), history.holders.get(node))
        if seen is None or not seen.agent:
            return
        request = Request(
            f"{time.time_ns()}-replaced-{os.urandom(4).hex()}",
            STOP_NOW,
            REPLACED,
            f"the run was {what} while this node did not answer",
            session,
        )
        with self._epoch.held(), suppress(OSError):  # retried at the next poll
            transport.deliver(request)
            self._handed.add((node, session))
