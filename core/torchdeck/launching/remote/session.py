"""One connection of a link while it holds: takes what comes, acknowledges it, asks, and notices silence."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchdeck.agent.link.names import NOTHING
from torchdeck.contract.frames import PROTOCOL, Frame, FrameError, FrameReader, encode
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.launching.remote.clock import ClockOffsets
from torchdeck.launching.remote.disk_space import DiskRoom
from torchdeck.launching.remote.mirror import Mirror, have_json
from torchdeck.launching.remote.stream import ByteStream
from torchdeck.quantities import size
from torchdeck.shown_text import shown_line

READ_SIZE = 1024 * 1024
TICK = 1.0
"""Seconds between two looks at the clock while nothing comes."""
PING_INTERVAL = 5.0
FIRST_PINGS = 4
"""Of which one goes each second: the clock's offset is wanted early."""
SILENCE = 10.0
"""Seconds without a word of a node, which speaks once a second: the connection is gone."""
SAID_LIMIT = 500
_HOLDS = 2
"""Version of the frames from which on a node can keep files back."""


class LinkLostError(OSError):
    """The link to a node is not there, or broke; what was asked may have been done or not."""


class RemoteRequestError(Exception):
    """The node could not do what was asked; the message is its own."""


class Reply(NamedTuple):
    """A node's answer."""

    fields: Mapping[str, Any]
    body: bytes


@dataclass
class Status:
    """What a node said of itself last."""

    shared: bool = False
    behind: int = 0
    starting: bool = False
    agent_exit: int | None = None
    alive: Mapping[str, bool] = field(default_factory=dict)
    told: bool = False
    """It has said anything at all."""


class _Waiting:
    """Who waits for a reply."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.reply: Reply | None = None


class LinkSession:
    """One connection. `run` belongs to one thread; `call` and `close` to any.

    Attributes:
        status: as the node said last.
        clock: the node's against ours.
        heard: when the node was heard last, unix seconds.
    """

    def __init__(self, stream: ByteStream, mirror: Mirror, say: Callable[[str], None]) -> None:
        """A session over a link server that was just started.

        Args:
            stream: the bytes of the link server.
            mirror: where its files go.
            say: called with what a person should know.
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
        """Version of the frames that the node's end knows; 0 before it has said so."""
        self._room = DiskRoom(mirror.root)
        self._asked_to_hold = NOTHING

    def greet(self, first: bytes, limit: float) -> None:
        """Wait until the node's end has said who it is.

        Args:
            first: bytes of it that came already.
            limit: seconds.

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
            LinkLostError: it broke, the node is silent, or our own disk does not take what came.
            FrameError, MirrorRefusedError: the node sent what it must not.
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
                    raise LinkLostError(f"nothing was heard of it for {SILENCE:.0f} s")
        finally:
            self.close()

    def call(self, do: LinkRequest, body: bytes = b"", *, limit: float, **fields: Any) -> Reply:
        """Ask the node for something and wait for its answer.

        Raises:
            LinkLostError: the link is not there, or no answer came within `limit` seconds.
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
        """End it; who waits for an answer gets none."""
        self._closed = True
        self._stream.close()
        for waiting in list(self._waiting.values()):
            waiting.done.set()

    # what comes

    def _read(self) -> bytes:
        """What came; nothing when there was nothing for a moment."""
        try:
            data = self._stream.read(READ_SIZE, TICK)
        except TimeoutError:
            return b""
        except OSError as error:
            raise LinkLostError(f"the connection broke: {error}") from error
        if not data and not self._closed:
            said = shown_line(self._stream.said[-SAID_LIMIT:])
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
            wall = time.time()  # first: what lies between the two clocks counts as time that the asking took
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
        """Have the node keep logs, then metrics, back while the disk here is nearly full.

        What is on its way then is passed over. It is taken again only once the node has said that it holds
        less: all that comes after that begins with a question what there is here.
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
