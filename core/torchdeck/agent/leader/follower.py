"""A follower: tells the leader what happens on its node, and gets what is to be done here."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from typing import Any

from torchdeck.agent.attempt.attempt_plan import family_of
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.leader.channel import FOLLOWER, Channel, ChannelError, Entry, Exchange
from torchdeck.agent.leader.gang_messages import MessageError, command_from_json, to_json
from torchdeck.agent.leader.silence import Leaderless, NodeNews, SilenceWatch
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.run_states import GangPhase

FIRST_DELAY = 0.1
"""Seconds before a lost connection is made again; doubles with each that fails."""
LAST_DELAY = 2.0
"""Seconds at most, and less if `launch.node_grace` is short: the leader gives up a node that is not back by
then.
"""
CONNECT_LIMIT = 10.0
STALE = 8.0
"""Seconds without a message after which the connection is renewed; the leader asks every two."""
_ANY_TIME = (
    commands.AcquireLeases,
    commands.ReleaseLeases,
    commands.RetakeLeases,
    commands.Gather,
    commands.Leave,
)
LEADER_NAME = "lead"


class Follower:
    """One node's agent where another one leads.

    Attributes:
        leads: False.
        phase: what this side of the gang does.
        number: the attempt that it takes part in.
    """

    leads = False

    def __init__(
        self,
        plan: LaunchPlan,
        name: str,
        journal: JournalWriter,
        run_id: str,
        token: bytes,
        leader: tuple[str, int],
        now: float,
    ) -> None:
        self.phase: GangPhase = GangPhase.CONNECTING
        self.number = 0
        self._name, self._journal, self._policy = name, journal, plan.policy
        self._run_id, self._token, self._leader = run_id, token, leader
        self._exchange = Exchange(os.urandom(8).hex())
        self._silence = SilenceWatch([LEADER_NAME], plan.policy.node_silent, plan.policy.node_grace, now)
        self._stale = min(STALE, plan.policy.node_grace / 2)
        self._last_delay = min(LAST_DELAY, plan.policy.node_grace / 4)
        self._leaderless: Leaderless | None = None
        self._running = False
        self._exited: events.TorchrunExited | None = None
        self._asked: events.StopRequested | None = None
        """The last stop request: the leader may be lost before it receives it."""
        self._connecting: socket.socket | None = None
        self._channel: Channel | None = None
        self._since = self._now = now
        self._due, self._delay = now, FIRST_DELAY
        self._said = ""

    @property
    def deadline(self) -> float | None:
        times = [self._silence.deadline]
        if self._channel is None and self._connecting is None:
            times.append(self._due)
        if self._leaderless is not None:
            times.append(self._leaderless.deadline)
        return min((time for time in times if time is not None), default=None)

    @property
    def descriptors(self) -> list[tuple[int, int]]:
        if self._connecting is not None:
            return [(self._connecting.fileno(), select.POLLOUT)]
        return [] if self._channel is None else [(self._channel.fileno(), self._channel.awaits)]

    def resume(self, recovered: RecoveredState, now: float) -> list[commands.Command]:  # noqa: ARG002 - the leader's has it
        """Continue after an earlier agent of this node; the leader sends the commands."""
        self.number, self._running = recovered.attempt, recovered.open
        return []

    def handle(self, event: events.Event, now: float) -> list[commands.Command]:
        """Report to the leader; return the commands for this node if there is no leader."""
        self._now = now
        if isinstance(event, (events.Tick, events.NodeReady)):
            return []
        if isinstance(event, events.StopRequested):
            self._asked = event
        if isinstance(event, events.AttemptLaunched):
            self._running, self._exited = True, None
        elif isinstance(event, events.TorchrunExited):
            self._exited = event
        elif isinstance(event, events.NodeClean):
            self._running = False
        elif isinstance(event, events.Arrived):
            self._exchange.forget("Arrived")
        value = self._exchange.tell(getattr(event, "attempt", self.number), to_json(event))
        if self.phase is GangPhase.FOLLOWING:
            self._send(value)
        return [] if self._leaderless is None else self._leaderless.handle(event, now)

    def exchange(self, now: float) -> list[commands.Command]:
        """Hear the leader; returns what is to be done here."""
        here: list[commands.Command] = []
        self._now = now
        self._connect(now)
        for message in self._receive():
            here += self._heard(message, now)
        for news in self._silence.look(now):
            seconds = round(news.seconds, 3)
            if news.what is NodeNews.LOST:
                self._journal.append("lead_lost", seconds=seconds, unattended=self._policy.unattended)
                here += self._begin_leaderless(now)
            else:
                self._journal.append(f"lead_{news.what}", seconds=seconds)
        if self._channel is not None and time.monotonic() - self._channel.heard > self._stale:
            self._drop(f"the leader was silent for {self._stale:.0f} s")
        leaderless = self._leaderless
        if leaderless is not None and not self._silence.lost and not leaderless.ends_something:
            self._leaderless = None  # the leader decides again
            here.append(commands.GoTogether(self._name, self.number))
        return here + ([] if self._leaderless is None else self._leaderless.tick(now))

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._connecting is not None:
            self._connecting.close()

    # the connection

    def _connect(self, now: float) -> None:
        if self._connecting is not None:
            self._connected(now)
        elif self._channel is None and now >= self._due:
            try:
                found = socket.socket(family_of(self._leader[0]))
            except OSError as error:  # no descriptor is left, say
                self._retry(now, f"no connection to the leader: {error.strerror or error}")
                return
            found.settimeout(0)
            try:
                found.connect(self._leader)
            except BlockingIOError:
                pass
            except OSError as error:
                found.close()
                self._retry(now, f"no connection to the leader: {error.strerror or error}")
                return
            self._connecting, self._since = found, now

    def _connected(self, now: float) -> None:
        found = self._connecting
        if found is None:
            return
        if not select.select([], [found], [], 0)[1]:
            if now - self._since > CONNECT_LIMIT:
                self._hang_up(now, f"the leader did not answer for {CONNECT_LIMIT:.0f} s")
            return
        error = found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._hang_up(now, f"no connection to the leader: {os.strerror(error)}")
            return
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connecting = None
        try:
            self._channel = Channel(found, FOLLOWER, self._token, self._run_id, self._name)
        except ChannelError as wrong:
            found.close()
            self._retry(now, str(wrong))

    def _hang_up(self, now: float, why: str) -> None:
        if self._connecting is not None:
            self._connecting.close()
            self._connecting = None
        self._retry(now, why)

    def _retry(self, now: float, why: str) -> None:
        if why != self._said:
            print(why, file=sys.stderr, flush=True)
        self._said = why
        self._due, self._delay = now + self._delay, min(self._last_delay, self._delay * 2)

    def _drop(self, why: str) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None
        if self.phase is GangPhase.FOLLOWING:
            self.phase = GangPhase.CONNECTING
        self._retry(self._now, why)

    def _receive(self) -> list[dict[str, Any]]:
        channel = self._channel
        if channel is None:
            return []
        before = channel.ready
        try:
            channel.flush()
            found = channel.receive()
            if channel.ready and not before:
                channel.send(self._exchange.greeting())
        except ChannelError as error:
            self._drop(str(error))
            return []
        return found

    def _send(self, message: dict[str, Any]) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(message)
        except ChannelError as error:
            self._drop(str(error))

    # what the leader says

    def _heard(self, message: dict[str, Any], now: float) -> list[commands.Command]:
        for news in self._silence.heard(LEADER_NAME, now):
            self._journal.append("lead_back", seconds=round(news.seconds, 3))
        try:
            if "m" in message:
                entry = self._exchange.take(message)
                self._send(self._exchange.acknowledgement())
                return [] if entry is None else self._ordered(entry, now)
            if "who" in message:
                self._follow(message)
            elif "ping" in message:
                self._send({"pong": message["ping"], "wall": message.get("wall"), "time": time.time()})
            else:
                self._exchange.acknowledged(message.get("ack"))
        except (ValueError, MessageError) as error:
            self._drop(str(error))
        return []

    def _follow(self, greeting: dict[str, Any]) -> None:
        missing = self._exchange.greeted(greeting)
        self.phase, self._delay, self._said = GangPhase.FOLLOWING, FIRST_DELAY, ""
        for entry in missing:
            self._send(entry)

    def _ordered(self, entry: Entry, now: float) -> list[commands.Command]:
        command = command_from_json(entry.message)
        if getattr(command, "node", self._name) != self._name:
            raise MessageError("an order for another node")
        if isinstance(command, commands.Leave) and self._running:
            return self._leave(command.why, now)
        if isinstance(command, commands.Gather):
            if command.attempt < self.number:
                return []
            if command.attempt > self.number:
                self.number, self._running, self._leaderless = command.attempt, False, None
                self._exchange.forget_before(command.attempt)
        elif entry.attempt != self.number and not isinstance(command, _ANY_TIME):
            return []
        return [command]

    def _leave(self, why: str, now: float) -> list[commands.Command]:
        """End local ranks first: nothing would supervise them, and another attempt starts elsewhere."""
        self._leaderless = Leaderless(self._name, self._policy, self.number, now, running=True, leaving=why)
        return self._leaderless.begin(now, self._exited)

    def _begin_leaderless(self, now: float) -> list[commands.Command]:
        if self._leaderless is not None:
            return []
        self._leaderless = Leaderless(self._name, self._policy, self.number, now, running=self._running)
        begun = self._leaderless.begin(now, self._exited)
        return begun if self._asked is None else begun + self._leaderless.handle(self._asked, now)
