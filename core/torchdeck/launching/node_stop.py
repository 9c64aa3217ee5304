"""Stops a run through each of its nodes, without its journals and its controller. Blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.lock_file import is_held
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.processes import processes_of_run
from torchdeck.contract.refusal import Refusal
from torchdeck.contract.waiting import wait_for
from torchdeck.launching.requests import Request, page_request, write_request

if TYPE_CHECKING:
    from torchdeck.launching.requests import Request
    from torchdeck.nodes.connector import Connector


ASK_LIMIT = 20.0
"""Seconds for one answer."""
REACH_LIMIT = 15.0
"""Seconds for connecting to a node, excluding the time that a user takes to answer."""
UNREACHED_LIMIT = 30.0
"""Seconds after which an unresponsive node is no longer waited for."""
AT_ONCE = 16
_POLL = 0.5


@dataclass
class NodeStop:
    """One node of a run that is being stopped."""

    node: str
    lived: bool = False
    """A process of the run was alive there."""
    why: str = "it has not been asked yet"
    """Why a process of the run may still be alive there, as a sentence; empty if none is."""
    unreached: bool = False
    """It was given up because it did not answer."""


def stop_on_nodes(
    run_id: str,
    names: Sequence[str],
    request: Request,
    connector: Connector,
    limit: float,
    say: Callable[[str], None] = lambda _text: None,
) -> tuple[NodeStop, ...]:
    """Deliver the request to the run's agents, and wait until no process of the run is alive on these nodes.

    Args:
        run_id: id of the run.
        names: its nodes, by their names in the node inventory.
        request: delivered to an agent, which treats a duplicate as one.
        connector: connector for the nodes.
        limit: seconds to wait; 0: each is queried once.
        say: called with each new thing that is waited for.
    """
    if not names:
        return ()
    begun = time.monotonic()
    with connector.keeping_probe_sessions() as kept, ThreadPoolExecutor(min(AT_ONCE, len(names))) as pool:
        waits = [_Wait(NodeStop(name), run_id, request, kept, begun) for name in names]
        while left := [wait for wait in waits if wait.stop.why and not wait.stop.unreached]:
            for text in pool.map(_Wait.look, left):
                if text:
                    say(text)
            if time.monotonic() - begun >= limit:
                break
            time.sleep(_POLL)
        return tuple(wait.stop for wait in waits)


class _Wait:
    """Wait for one node."""

    def __init__(
        self, stop: NodeStop, run_id: str, request: Request, connector: Connector, now: float
    ) -> None:
        self.stop = stop
        self._question = {"run_id": run_id, "node": stop.node}
        self._request = request.file_name
        self._reach = connector
        self._heard = now
        self._said = ""

    def look(self) -> str:
        """Query once; return what is waited for now, if that is new."""
        try:
            self._ask()
            said = "" if not self.stop.why else f"node {self.stop.node}: waiting for the run to end there"
        except (Refusal, OSError) as error:
            self.stop.why = str(error) or type(error).__name__
            if isinstance(error, Refusal) and error.is_usage:  # such as: it is not in the node inventory
                self.stop.unreached = True
                said = ""
            else:
                self.stop.unreached = time.monotonic() - self._heard > UNREACHED_LIMIT
                limit = f"{UNREACHED_LIMIT:.0f} s"
                said = f"node {self.stop.node} could not be reached within {limit}: {self.stop.why}"
        news = said if said != self._said else ""
        self._said = said
        return news

    def _ask(self) -> None:
        from torchdeck.nodes.probe.probe_session import ProbeError

        home = self._reach.entry(self.stop.node).home
        with self._reach.open_probe_session(self.stop.node, REACH_LIMIT) as probe_session:
            answer = probe_session.ask(
                ProbeRequest.STOP_RUN, ASK_LIMIT, home=home, request=self._request, **self._question
            )
        lives = answer.get("lives")
        if not isinstance(lives, str):
            raise ProbeError(f"node {self.stop.node} did not report what runs there")
        self._heard = time.monotonic()
        self._request = ""  # already delivered
        self.stop.why = lives
        self.stop.lived = self.stop.lived or bool(lives)


# Stops a run whose journals cannot be read, using only its request folders and processes.

_UNREAD_POLL = 0.1


def ask_to_stop(layout: RunLayout, kind: str, origin: str) -> Request:
    """Write the request for the controller, and for this machine's agent, which may have no controller.

    An agent treats a duplicate request as one.

    Raises:
        OSError: it cannot be written.
    """
    request = write_request(layout, kind, origin)
    inbox = layout.node(LOCALHOST).inbox
    if inbox.is_dir():
        page_request(inbox, request)
    return request


def lives_here(layout: RunLayout) -> bool:
    """Return whether processes of the run, or its agent, are alive on this machine."""
    return is_held(layout.node(LOCALHOST).lock) or bool(processes_of_run(layout.root.name))


def wait_until_gone(layout: RunLayout, limit: float) -> bool:
    """Wait at most `limit` seconds until no process of the run is alive on this machine; return whether that
    is so.
    """
    return wait_for(lambda: not lives_here(layout), limit, _UNREAD_POLL)
