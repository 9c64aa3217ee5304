"""A node's link: connects, follows, and reconnects, for as long as it is needed."""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.frames import FrameError
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.launching.remote.bootstrap import Bootstrap, BootstrapError, ByteStream
from torchdeck.launching.remote.link_session import LinkLostError, LinkSession, Reply
from torchdeck.launching.remote.mirror import Mirror, MirrorRefusedError
from torchdeck.launching.runtime_bundle import BundleError
from torchdeck.runs.links import CONNECTING, LOST, NEEDS_LOGIN, REFUSED, UP, LinkState, write_links


class SharedToken:
    """Token file, for as long as a node is being queried about it."""

    def __init__(self, layout: RunLayout) -> None:
        # a new name each time: a network file system caches that a file did not exist
        self.name = f"link-{secrets.token_hex(8)}.token"
        self.content = secrets.token_hex(16)
        self._path = layout.root / self.name

    def __enter__(self) -> Self:
        """Create it; without space for it nothing is detected as shared."""
        with contextlib.suppress(OSError):
            write_bytes(self._path, self.content.encode("ascii"), private=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


CONNECT_LIMIT = 30.0
"""Timeout in seconds for connecting."""
BOOTSTRAP_LIMIT = 120.0
"""Timeout in seconds for the link server's start: an archive may have to be sent over a slow link."""
FIRST_DELAY = 0.5
"""Seconds before the first reconnect; doubles each time."""
LAST_DELAY = 30.0
LOGIN_DELAY = 60.0
"""Seconds before a reconnect if user action is needed, or the node is not the expected one: avoids constant
logins.
"""
STEADY = 10.0
"""Seconds a connection must hold for the delay to be reset."""
SAID = 100


class NeedsLoginError(Exception):
    """A password or passphrase is needed and not known; the message says which."""


class RefusedError(Exception):
    """The node must not be connected to: its host key is unknown or has changed. The message has details."""


Dial = Callable[[float], ByteStream]
"""Connects within so many seconds and starts the node's Python with `bootstrap.PYTHON_ARGUMENTS`.

Raises NeedsLoginError, RefusedError, or OSError if the node cannot be reached.
"""


@dataclass(frozen=True)
class LinkTarget:
    """Purpose of a link."""

    layout: RunLayout
    """The run, on this side."""
    node: str
    home: str
    """TORCHDECK_HOME on the node; `~` is the user's home there."""
    shipped: Path
    """The run's runtime bundle on this side."""
    wants: Callable[[str], bool] = lambda _path: True
    """Filter of the files mirrored from this node; see `own_files.own_files`."""


class NodeLink:
    """Link to one node, in a thread of its own. It is retried after any failure until `close`."""

    def __init__(self, target: LinkTarget, dial: Dial, first: Future[ByteStream] | None = None) -> None:
        """Nothing is connected before `start`.

        Args:
            target: what it is for.
            dial: how it connects, each time.
            first: a connection that is on its way, for the first time.
        """
        self.node = target.node
        self._target = target
        self._dial = dial
        self._first = first
        self._mirror = Mirror(target.layout.root, target.node, target.wants)
        self._state = LinkState(target.node, CONNECTING, since=time.time())
        self._session: LinkSession | None = None
        self._said: deque[str] = deque(maxlen=SAID)
        self._again = threading.Event()
        self._up = threading.Event()
        self._closed = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._keep, name=f"link {target.node}", daemon=True)

    def start(self) -> None:
        """Begin to connect, without waiting."""
        self._thread.start()

    @property
    def state(self) -> LinkState:
        """As of now."""
        session = self._session
        if session is None:
            return self._state
        clock, status = session.clock.best, session.status
        state = replace(
            self._state,
            clock_offset=None if clock is None else clock.offset,
            clock_error=None if clock is None else clock.error,
        )
        if state.state != UP:
            return state  # its clock offset is still needed for times in its files
        return replace(
            state,
            heard=session.heard,
            shared=status.shared,
            held=self._mirror.held_kinds,
            behind=status.behind,
            agent_alive=status.alive.get("agent"),
            holder_alive=status.alive.get("holder"),
            torchrun_alive=status.alive.get("torchrun"),
        )

    @property
    def agent_exit(self) -> int | None:
        """Exit code of the agent started over this connection; None while it is alive, or if there was
        none.
        """
        return None if self._session is None else self._session.status.agent_exit

    @property
    def agent_is_starting(self) -> bool:
        """Whether an agent of the run is alive on the node, as last reported."""
        return self._session is not None and self._session.status.starting

    def call(self, do: LinkRequest, body: bytes = b"", *, limit: float = 20.0, **fields: Any) -> Reply:
        """Send a request to the node; see `LinkSession.call`.

        Raises:
            LinkLostError: the link is not up, or broke, or no answer came in time.
            RemoteRequestError: the node could not do it.
        """
        session = self._session
        if session is None or not session.up.is_set():
            raise LinkLostError(f"{self.node} is not reachable: {self._state.why or self._state.state}")
        return session.call(do, body, limit=limit, **fields)

    def wait_up(self, limit: float) -> bool:
        """Wait at most `limit` seconds until the link is up. Return whether it is."""
        return self._up.wait(limit)

    def catch_up(self, limit: float) -> bool:
        """Wait until all data on the node is here; return False if that takes longer than `limit` s."""
        try:
            self.call(LinkRequest.CATCH_UP, limit=limit)
        except LinkLostError:
            return False
        return True

    def take_messages(self) -> list[str]:
        """Return messages from the node's end for the user; each once."""
        said = []
        while self._said:
            said.append(self._said.popleft())
        return said

    def retry(self) -> None:
        """Connect now instead of later, for example because a login was entered."""
        self._again.set()

    def close(self, limit: float = 5.0) -> None:
        """Close the link; processes on the node continue. Waits at most `limit` seconds for its thread."""
        self._closed.set()
        self._again.set()
        session = self._session
        if session is not None:
            session.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(limit)

    # the thread

    def _keep(self) -> None:
        while not self._closed.is_set():
            begun = time.monotonic()
            state, why, delay = self._once()
            steady = time.monotonic() - begun > STEADY
            self._failures = 0 if steady else self._failures + 1
            if self._closed.is_set():
                return
            self._become(state, why)
            self._again.wait(delay if delay is not None else self._delay())
            self._again.clear()

    def _delay(self) -> float:
        # not all of a hundred nodes at once
        delay = min(LAST_DELAY, FIRST_DELAY * 2.0 ** min(self._failures, 10))
        return delay * random.uniform(0.8, 1.2)  # noqa: S311 - no secret

    def _once(self) -> tuple[str, str, float | None]:
        """Run one connection from beginning to end. Return the state after it, the reason, and the time of
        the next try.
        """
        try:
            self._connect_and_follow()
            return LOST, "the link was closed", None
        except NeedsLoginError as error:
            return NEEDS_LOGIN, str(error), LOGIN_DELAY
        except (RefusedError, MirrorRefusedError, FrameError) as error:
            return REFUSED, str(error), LOGIN_DELAY
        except (BootstrapError, BundleError) as error:
            return REFUSED, str(error), None
        except OSError as error:  # includes LinkLostError and TimeoutError
            return LOST, str(error) or type(error).__name__, None
        except Exception as error:  # noqa: BLE001 - a link is tried again whatever happened, and says it
            return LOST, f"something unforeseen: {error!r}", None
        finally:
            self._state, self._session = self.state, None

    def _connect_and_follow(self) -> None:
        bootstrap = Bootstrap(self._dialled(), self._target.shipped, self._target.home)
        stream = bootstrap.stream
        try:
            with SharedToken(self._target.layout) as token:
                order = {
                    "run_id": self._target.layout.root.name,
                    "node": self.node,
                    "token_name": token.name,
                    "token": token.content,
                }
                first = bootstrap.begin(order, BOOTSTRAP_LIMIT)
                session = LinkSession(stream, self._mirror, self._said.append)
                self._session = session
                session.greet(first, BOOTSTRAP_LIMIT)
        except BaseException:
            stream.close()
            raise
        if self._closed.is_set():
            session.close()
        self._become(UP, "")
        session.run()

    def _dialled(self) -> ByteStream:
        first, self._first = self._first, None
        if first is not None:
            with contextlib.suppress(Exception):  # whatever it is: it is dialled again, and then reported
                return first.result(CONNECT_LIMIT)
        return self._dial(CONNECT_LIMIT)

    def _become(self, state: str, why: str) -> None:
        before = self._state
        since = before.since if before.state == state else time.time()
        self._state = replace(before, state=state, why=why, since=since)
        if state == UP:
            self._up.set()
        else:
            self._up.clear()


INTERVAL = 1.0


class LinkFile:
    """Writes the state of one run's links.

    Args:
        layout: layout of the run.
        links: links to its nodes.
        with_code: adds to a link's state the progress of code sent over it.
    """

    def __init__(
        self,
        layout: RunLayout,
        links: Sequence[NodeLink],
        with_code: Callable[[LinkState], LinkState] = lambda state: state,
    ) -> None:
        self._layout = layout
        self._links = tuple(links)
        self._with_code = with_code
        self._due = 0.0

    def look(self, *, at_once: bool = False) -> None:
        """Write it if it is due, or `at_once`. A full disk skips one write."""
        now = time.monotonic()
        if at_once or now >= self._due:
            self._due = now + INTERVAL
            with contextlib.suppress(OSError):
                states = {link.node: self._with_code(link.state) for link in self._links}
                write_links(self._layout, states, time.time())
