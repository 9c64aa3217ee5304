"""One active connection of a link: receives and acknowledges data, sends requests, and detects silence."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.link.names import NOTHING, Level
from torchdeck.contract.frames import PROTOCOL, Frame, FrameError, FrameReader, encode
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.launching.remote.bootstrap import ByteStream
from torchdeck.launching.remote.mirror import Mirror, have_json
from torchdeck.quantities import size
from torchdeck.shown_text import shown_line

READ_SIZE = 1024 * 1024
TICK = 1.0
"""Seconds between two checks of the clock while no data arrives."""
PING_INTERVAL = 5.0
FIRST_PINGS = 4
"""Number of pings sent one per second at first, to get the clock's offset early."""
SILENCE = 10.0
"""Seconds without data from a node, which sends once a second, after which the connection counts as lost."""
SAID_LIMIT = 500
_HOLDS = 2
"""Version of the frames from which on a node can hold files back."""


class LinkLostError(OSError):
    """The link to a node is down, or broke; the request may have been executed or not."""


class RemoteRequestError(Exception):
    """The node could not execute the request; the message is its own."""


class Reply(NamedTuple):
    """A node's answer."""

    fields: Mapping[str, Any]
    body: bytes


@dataclass
class Status:
    """Last reported status of a node."""

    shared: bool = False
    behind: int = 0
    starting: bool = False
    agent_exit: int | None = None
    alive: Mapping[str, bool] = field(default_factory=dict)
    told: bool = False
    """Whether it has reported anything."""


class _Waiting:
    """Pending call that waits for a reply."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.reply: Reply | None = None


class LinkSession:
    """One connection. `run` belongs to one thread; `call` and `close` to any.

    Attributes:
        status: status as last reported by the node.
        clock: offset of the node's clock from ours.
        heard: time of the last data from the node, unix seconds.
    """

    def __init__(self, stream: ByteStream, mirror: Mirror, say: Callable[[str], None]) -> None:
        """Create a session over a link server that was just started.

        Args:
            stream: byte stream of the link server.
            mirror: destination of its files.
            say: called with messages for the user.
        """
        self.status = Status()
        self.clock = ClockOffsets()
        self.heard = time.time()
        self.up = threading.Event()
        self._stream = stream
        self._mirror = mirror
        self._say = say
        self._frames = FrameReader()
        self._received = 0
        self._writing = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = itertools.count(1)
        self._closed = False
        self._pings = 0
        self._ping_due = 0.0
        self._speaks = 0
        """Version of the frames that the node supports; 0 until it has reported it."""
        self._room = DiskRoom(mirror.root)
        self._asked_to_hold = NOTHING

    def greet(self, first: bytes, limit: float) -> None:
        """Wait until the node's end has identified itself.

        Args:
            first: bytes of it that have already arrived.
            limit: timeout in seconds.

        Raises:
            LinkLostError, FrameError, MirrorRefusedError: as `run`.
        """
        self._take(first)
        deadline = time.monotonic() + limit
        while not self.up.is_set():
            if time.monotonic() > deadline:
                raise LinkLostError(f"the link server did not begin within {limit:.0f} s")
            self._take(self._read())

    def run(self) -> None:
        """Follow the node until the connection ends.

        Raises:
            LinkLostError: it broke, the node is silent, or our own disk does not accept the data.
            FrameError, MirrorRefusedError: the node sent invalid data.
        """
        try:
            last = time.monotonic()
            while not self._closed:
                self._ping(time.monotonic())
                self._hold()
                data = self._read()
                now = time.monotonic()
                if data:
                    last = now
                    self._take(data)
                elif now - last > SILENCE:
                    raise LinkLostError(f"nothing was received from it for {SILENCE:.0f} s")
        finally:
            self.close()

    def call(self, do: LinkRequest, body: bytes = b"", *, limit: float, **fields: Any) -> Reply:
        """Send a request to the node and wait for its answer.

        Raises:
            LinkLostError: the link is down, or no answer came within `limit` seconds.
            RemoteRequestError: the node could not do it.
        """
        waiting = _Waiting()
        number = next(self._numbers)
        self._waiting[number] = waiting
        try:
            self._send("call", body, id=number, do=do, **fields)
            if not waiting.done.wait(limit):
                raise LinkLostError(f"the node did not answer {do.value!r} within {limit:g} s")
        finally:
            self._waiting.pop(number, None)
        if waiting.reply is None:
            raise LinkLostError(f"the link broke before {do.value!r} was answered")
        error = waiting.reply.fields.get("error")
        if error is not None:
            raise RemoteRequestError(str(error)[:SAID_LIMIT])
        return waiting.reply

    def close(self) -> None:
        """End the session; pending calls get no answer."""
        self._closed = True
        self._stream.close()
        for waiting in list(self._waiting.values()):
            waiting.done.set()

    # what comes

    def _read(self) -> bytes:
        """Return received data; empty if there is none at the moment."""
        try:
            data = self._stream.read(READ_SIZE, TICK)
        except TimeoutError:
            return b""
        except OSError as error:
            raise LinkLostError(f"the connection broke: {error}") from error
        if not data and not self._closed:
            said = shown_line(self._stream.stderr[-SAID_LIMIT:])
            code = self._stream.exit_code
            raise LinkLostError(f"the link's process ended (exit code {code}){said and ': '}{said}")
        return data

    def _take(self, data: bytes) -> None:
        if not data:
            return
        self._received += len(data)
        self.heard = time.time()
        try:
            for frame in self._frames.feed(data):
                self._handle(frame)
        except LinkLostError:
            raise
        except OSError as error:
            raise LinkLostError(f"what it sends cannot be written here: {error}") from error
        self._send("ack", total=self._received)

    def _handle(self, frame: Frame) -> None:
        if frame.kind == "put":
            self._mirror.put(frame.text("path"), frame.number("at"), frame.body)
        elif frame.kind == "piece":
            last = frame.head.get("last") is True
            self._mirror.piece(frame.text("path"), frame.number("at"), frame.body, last=last)
        elif frame.kind == "ask":
            path = frame.text("path")
            wanted = self._mirror.wants(path)
            known = have_json(self._mirror.have(path)) if wanted else {"unwanted": True}
            self._send("have", path=path, **known)
        elif frame.kind == "cut":
            self._mirror.cut(frame.text("path"), frame.number("size"))
        else:
            self._handle_other(frame)

    def _handle_other(self, frame: Frame) -> None:
        if frame.kind == "status":
            self._take_status(frame)
        elif frame.kind == "pong":
            wall = time.time()  # first: time between the reads counts as round trip
            self.clock.add(frame.time("t"), frame.time("node_time"), time.monotonic(), wall)
        elif frame.kind == "reply":
            waiting = self._waiting.get(frame.number("id"))
            if waiting is not None:
                waiting.reply = Reply(frame.head, frame.body)
                waiting.done.set()
        elif frame.kind == "hello":
            self._greet(frame)
        elif frame.kind == "holds":
            self._mirror.held = min(frame.number("level"), self._asked_to_hold)
        elif frame.kind == "say":
            self._say(shown_line(frame.text("text")[:SAID_LIMIT]))
        else:
            raise FrameError(f"a frame of kind {frame.kind[:20]!r} is not known")

    def _greet(self, frame: Frame) -> None:
        if frame.number("v") > PROTOCOL:
            raise FrameError(
                f"the node speaks a newer Torchdeck's link format ({frame.number('v')}, and this one speaks "
                f"{PROTOCOL}): update Torchdeck here"
            )
        self._speaks = frame.number("v")
        self.status.shared = frame.head.get("shared") is True
        self._mirror.held = NOTHING
        self.up.set()

    def _take_status(self, frame: Frame) -> None:
        alive, code = frame.head.get("alive"), frame.head.get("exit")
        if not isinstance(alive, dict) or not (code is None or isinstance(code, int)):
            raise FrameError("a status does not say who is alive")
        self.status.alive = {str(name): value is True for name, value in alive.items()}
        self.status.agent_exit = code
        self.status.starting = frame.head.get("starting") is True
        self.status.behind = frame.number("behind")
        self.status.told = True

    # what goes

    def _ping(self, now: float) -> None:
        if now >= self._ping_due:
            self._pings += 1
            self._ping_due = now + (TICK if self._pings < FIRST_PINGS else PING_INTERVAL)
            self._send("ping", t=now)

    def _hold(self) -> None:
        """Make the node hold back logs, then metrics, while the disk here is nearly full.

        Data in transit at that time is dropped. It is accepted again only once the node has confirmed that it
        holds back less: everything after that begins with a query of what is here.
        """
        held = self._room.held()
        if held == self._asked_to_hold or self._speaks < _HOLDS or self.status.shared:
            return
        self._asked_to_hold = held
        self._mirror.held = min(held, self._mirror.held)
        self._send("hold", level=held)
        if held != NOTHING:
            what = self._mirror.held_kinds
            self._say(f"the disk here has {size(self._room.free)} free: {what} stay on the node")

    def _send(self, kind: str, body: bytes = b"", /, **fields: Any) -> None:
        data = encode(kind, body, **fields)
        try:
            with self._writing:
                self._stream.write(data)
        except OSError as error:
            raise LinkLostError(f"the connection broke: {error}") from error


# Offset of a node's clock from ours, measured by requests for its time; accurate to half of the round
# trip.

KEPT = 24
"""Number of stored answers: the best of the last two minutes, since clocks drift and are set."""


class ClockOffset(NamedTuple):
    """Offset of a node's clock from ours, in seconds."""

    offset: float
    """Seconds by which the node's clock is ahead."""
    error: float
    """Error margin of the offset."""


class ClockOffsets:
    """Measured offsets, the best of which counts.

    Round-trip times are measured by the monotonic clock: setting ours in between changes nothing.
    One thread adds, and any may read.

    Attributes:
        best: the one with the smallest error; None before the first answer.
    """

    def __init__(self) -> None:
        self.best: ClockOffset | None = None
        self._found: deque[ClockOffset] = deque(maxlen=KEPT)

    def add(self, asked: float, node_time: float, now: float, wall: float) -> None:
        """Add an answer.

        Args:
            asked: time of the request, on our monotonic clock.
            node_time: the node's answer, unix seconds.
            now: our monotonic clock now.
            wall: our unix time now.
        """
        took = max(0.0, now - asked)
        self._found.append(ClockOffset(node_time - (wall - took / 2), took / 2))
        self.best = min(self._found, key=lambda found: found.error)


LOGS_ROOM = 1024 * 1024 * 1024
"""Free bytes below which logs stay on their nodes; less on a small disk, see `_SHARE`."""
METRICS_ROOM = 256 * 1024 * 1024
"""The same for metrics. Events and heartbeats are always accepted."""
_SHARE = 20
"""A twentieth of the disk is enough, however small it is."""
_AGAIN = 1.25
"""Multiple of these bytes that must be free before held-back data is accepted again."""
_INTERVAL = 1.0


class DiskRoom:
    """Decides by the free space of one disk. Queries the kernel at most once per second. For one thread.

    Args:
        folder: any on that disk.
        clock: monotonic seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._due = 0.0
        self._held = NOTHING
        self.free = 0
        """Bytes at the last look."""

    def held(self) -> int:
        """Level from which on nothing is to be sent; `NOTHING`: everything is."""
        now = self._clock()
        if now < self._due:
            return self._held
        self._due = now + _INTERVAL
        try:
            status = os.statvfs(self._folder)
        except OSError:
            return self._held
        self.free = status.f_bavail * status.f_frsize
        self._held = self._decided(self.free, status.f_blocks * status.f_frsize // _SHARE)
        return self._held

    def _decided(self, free: int, share: int) -> int:
        for level, room in ((Level.METRICS, METRICS_ROOM), (Level.LOGS, LOGS_ROOM)):
            least = min(room, share * room // LOGS_ROOM)
            if free < least * (_AGAIN if self._held <= level else 1.0):
                return level
        return NOTHING
