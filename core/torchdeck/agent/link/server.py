"""The link server: sends what of a run's files the controller lacks, and answers what it asks. One loop."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.attempt.handover import HandoverAsk, remove_unread
from torchdeck.agent.link.abandoned import remove_abandoned
from torchdeck.agent.link.agent_start import AgentStart
from torchdeck.agent.link.files_to_send import Sources
from torchdeck.agent.link.flow_control import Outgoing, Window
from torchdeck.agent.link.start_order import LinkOrder
from torchdeck.agent.snapshots.receive import Receiver
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.frames import PROTOCOL, Frame, FrameError, FrameReader, encode
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.contract.processes import ProcessIdentity, boot_id

LOOK_INTERVAL = 0.25
"""Seconds between two looks at the files."""
EARLY_INTERVAL = 0.02
"""The same for `EARLY` seconds after an agent was started: what it says first is waited for."""
EARLY = 2.0
STATUS_INTERVAL = 1.0
SILENCE = 30.0
"""Seconds without a word of the controller, which speaks every few: its end of the link is gone."""
READ_SIZE = 256 * 1024
QUEUE = 1024 * 1024
"""Bytes that may wait for the pipe."""


class LinkServer:
    """One link's end on a node."""

    def __init__(self, order: LinkOrder, reading: int, writing: int) -> None:
        self._reading = reading
        os.set_blocking(reading, False)
        self._outgoing = Outgoing(writing)
        self._frames = FrameReader()
        self._window = Window()
        self._shared = order.shared()
        self._agent = AgentStart(order.layout, order.node, order.home)
        self._requests = Requests(order.layout, order.node, self._agent, shared=self._shared)
        self._requests.handlers[LinkRequest.CODE] = CodeRequests(order.home).take
        self._sources = Sources(order.layout.root, order.node)
        self._asking = Asking(order.layout.node(order.node).inbox)
        self._catching: list[int] = []
        self._over = False
        now = time.monotonic()
        self._heard = now
        self._early_until = 0.0
        self._look_due = self._status_due = now

    def run(self) -> None:
        """Serve until the controller says so, or is gone."""
        self._hello()
        try:
            while not self._over:
                self._wait()
                self._receive()
                now = time.monotonic()
                if now - self._heard > SILENCE:
                    return
                self._look(now)
                self._fill()
                self._outgoing.flush()
        finally:
            self._asking.close()

    def _hello(self) -> None:
        self._send(
            "hello",
            v=PROTOCOL,
            shared=self._shared,
            boot=boot_id(),
            python=".".join(map(str, sys.version_info[:3])),
            node_time=time.time(),
        )

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        poll.register(self._outgoing.descriptor, select.POLLOUT if self._outgoing.pending else 0)
        busy = len(self._sources) and self._window.room and not self._outgoing.pending
        until = 0.0 if busy else min(self._look_due, self._status_due) - time.monotonic()
        if self._asking:
            until = min(until, EARLY_INTERVAL)
        poll.poll(max(0.0, until) * 1000.0)

    # what comes

    def _receive(self) -> None:
        try:
            data = os.read(self._reading, READ_SIZE)
        except BlockingIOError:
            return
        self._heard = time.monotonic()
        if not data:
            self._over = True
        for frame in self._frames.feed(data):
            self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        if frame.kind == "ack":
            self._window.acknowledge(frame.number("total"), time.monotonic())
        elif frame.kind == "have":
            self._sources.resume(frame.text("path"), frame.head)
        elif frame.kind == "ping":
            self._send("pong", **pong(frame))
        elif frame.kind == "call":
            self._answer(frame)
        elif frame.kind == "hold":
            self._sources.hold(frame.number("level"))
            self._send("holds", level=frame.number("level"))  # what comes after it was sent knowing of it
        elif frame.kind == "bye":
            self._over = True
        else:
            raise FrameError(f"a frame of kind {frame.kind!r} is not known")

    def _answer(self, frame: Frame) -> None:
        number = frame.number("id")
        if frame.head.get("do") == LinkRequest.CATCH_UP:
            self._catching.append(number)
            self._sources.look_at_all()
            self._look_due = 0.0
            return
        fields: Mapping[str, Any]
        try:
            if frame.head.get("do") == LinkRequest.HANDOVER:
                self._asking.begin(number, time.monotonic())
                return
            fields, body = self._requests.answer(frame)
        except (RequestError, FrameError, OSError, ValueError) as error:
            fields, body = {"error": str(error)}, b""
        self._send("reply", body, **fields, id=number)
        self._look_due = 0.0  # it may have changed a file
        if frame.head.get("do") == LinkRequest.START_AGENT:
            self._early_until = time.monotonic() + EARLY
            self._status_due = 0.0  # or it would be asked for again

    # what goes

    def _look(self, now: float) -> None:
        if self._shared:
            self._look_due = now + STATUS_INTERVAL
        elif now >= self._look_due:
            self._look_due = now + (EARLY_INTERVAL if now < self._early_until else LOOK_INTERVAL)
            self._sources.look()
        if now >= self._status_due:
            self._status_due = now + STATUS_INTERVAL
            self._send(
                "status",
                alive=self._agent.alive(self._sources.attempt),
                exit=self._agent.exit_code(),
                starting=self._agent.starting(),
                behind=self._sources.behind,
            )

    def _fill(self) -> None:
        while self._window.room and self._outgoing.pending < QUEUE:
            message = self._sources.next(min(self._window.piece, max(4096, self._window.room)))
            if message is None:
                break
            kind, body, fields = message
            self._send(kind, body, **fields)
        if len(self._sources) and not self._window.room:
            self._window.wants()
        for number, answer, line in self._asking.take(time.monotonic()):
            self._send("reply", line, **answer, id=number)
        for text in self._sources.take_messages():
            self._send("say", text=text)
        if self._catching and (self._shared or self._sources.all_sent):
            for number in self._catching:
                self._send("reply", id=number)
            self._catching.clear()

    def _send(self, kind: str, body: bytes = b"", /, **fields: Any) -> None:
        data = encode(kind, body, **fields)
        self._outgoing.put(data)
        self._window.send(len(data), time.monotonic())


def serve(order: LinkOrder, reading: int, writing: int) -> int:
    """Serve a link over two descriptors until it ends; 0, or 1 when the other end broke the rules.

    Args:
        order: which run and node.
        reading: what the controller sends.
        writing: what goes to it; nothing else may be written there.
    """
    try:
        LinkServer(order, reading, writing).run()
        # at the end: nothing waits for it
        remove_abandoned(Home(order.home).shipped, time.time())
    except BrokenPipeError:
        return 0
    except (FrameError, ValueError) as error:
        print(f"torchdeck: the link is ended: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


class CodeRequests:
    """Feeds requests with `code` to a `Receiver`; an interrupted transfer starts again with `first`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._receiver = Receiver(home)
        self._frames = FrameReader()

    def take(self, frame: Frame) -> tuple[Mapping[str, Any], bytes]:
        """Frames of the transfer in the body; those it is answered with."""
        if frame.head.get("first") is True:
            self._receiver, self._frames = Receiver(self._home), FrameReader()
        answers = [
            answer for inner in self._frames.feed(frame.body) for answer in self._receiver.handle(inner)
        ]
        return {}, b"".join(answers)


# Requests of a controller to this node's agent, answered when the agent gets to them.

LIMIT = 5.0
"""Seconds in which an agent answers; it looks four times a second."""


class _Asked(NamedTuple):
    number: int
    until: float
    ask: HandoverAsk


class Asking:
    """Questions that are not answered yet."""

    def __init__(self, inbox: Path) -> None:
        remove_unread(inbox)  # of a link server that was killed while it asked
        self._inbox = inbox
        self._asked: list[_Asked] = []

    def __len__(self) -> int:
        return len(self._asked)

    def begin(self, number: int, now: float) -> None:
        """Ask for what the agent was handed; `number`: of the controller's call. Raises OSError."""
        self._asked.append(_Asked(number, now + LIMIT, HandoverAsk(self._inbox)))

    def take(self, now: float) -> list[tuple[int, Mapping[str, Any], bytes]]:
        """(number, fields, body) of what has been answered, or will not be any more."""
        found: list[tuple[int, Mapping[str, Any], bytes]] = []
        for asked in list(self._asked):
            line = asked.ask.read()
            if line is None and now < asked.until:
                continue
            error = {} if line is not None else {"error": f"the agent did not answer within {LIMIT:.0f} s"}
            found.append((asked.number, error, line or b""))
            asked.ask.close()
            self._asked.remove(asked)
        return found

    def close(self) -> None:
        """Ask no more."""
        for asked in self._asked:
            asked.ask.close()
        self._asked.clear()


# Requests of the controller to a node over a link. Each answer is a few fields and bytes.

Answer = tuple[Mapping[str, Any], bytes]
_REQUEST_NAME = re.compile(r"[0-9A-Za-z_-]{1,120}\.json")


class RequestError(ValueError):
    """The request cannot be fulfilled; the message says why."""


class Requests:
    """Answers one kind of question each.

    Attributes:
        handlers: name of what is asked → who answers; others may add theirs.
    """

    def __init__(self, layout: RunLayout, node: str, agent: AgentStart, *, shared: bool) -> None:
        self._layout = layout
        self._node = node
        self._agent = agent
        self._shared = shared
        self.handlers: dict[LinkRequest, Callable[[Frame], Answer]] = {
            LinkRequest.PLAN: self._plan,
            LinkRequest.START_AGENT: self._start_agent,
            LinkRequest.AGENT_LOG: lambda _frame: ({}, self._agent.log()),
            LinkRequest.DELIVER: self._deliver,
            LinkRequest.KILL: _kill,
        }

    def answer(self, frame: Frame) -> Answer:
        """Do what is asked.

        Raises:
            RequestError: it is unknown or cannot be done.
            OSError: the disk, or the system, does not let it be done.
        """
        what = frame.text("do")
        try:
            handler = self.handlers[LinkRequest(what)]
        except (KeyError, ValueError):
            raise RequestError(f"this node's Torchdeck does not know the request {what!r}") from None
        return handler(frame)

    def _plan(self, frame: Frame) -> Answer:
        """Lay the run's plan into its directory, which is made; the same plan again changes nothing."""
        if self._shared:
            return {}, b""
        root = self._layout.root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._layout.node(self._node).inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            there = self._layout.plan.read_bytes()
        except FileNotFoundError:
            write_bytes(self._layout.plan, frame.body, private=True)
            return {}, b""
        if there != frame.body:
            raise RequestError(f"{self._layout.plan} already exists, and is another plan")
        return {}, b""

    def _start_agent(self, frame: Frame) -> Answer:
        if not self._layout.plan.is_file():
            raise RequestError(f"there is no {self._layout.plan}: the plan comes before the agent")
        if self._agent.exit_code() is None and self._agent.starting():
            return {"pid": 0}, b""  # asked twice
        return {"pid": self._agent.start(frame.body, frame.number("life"))}, b""

    def _deliver(self, frame: Frame) -> Answer:
        """Deliver a request to the agent's inbox; an empty one is named."""
        name = frame.text("name")
        if not _REQUEST_NAME.fullmatch(name):
            raise RequestError(f"{name!r} is no name of a request")
        inbox = self._layout.node(self._node).inbox
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            write_bytes(inbox / name, frame.body, private=True)
        except OSError:
            (inbox / name).touch(mode=0o600)  # the disk is full: the name says it all
        return {}, b""


def _kill(frame: Frame) -> Answer:
    """Send SIGKILL to the named processes; ones that are gone are skipped."""
    named = frame.head.get("processes")
    for value in named if isinstance(named, list) else []:
        process = ProcessIdentity.from_json(value)
        if process is not None:
            process.send(signal.SIGKILL)
    return {}, b""


def pong(frame: Frame) -> dict[str, Any]:
    """Return this node's clock, in answer to a request sent at `t`."""
    return {"t": frame.time("t"), "node_time": time.time()}
