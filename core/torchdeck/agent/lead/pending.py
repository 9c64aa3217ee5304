"""Connections to the leader that have not proved themselves: few, few per address, none for long."""

from __future__ import annotations

import secrets
import socket
import sys
from collections import Counter

from torchdeck.agent.lead.channel import Channel

PENDING_LIMIT = 64
"""Connections of strangers at a time, in addition to one per node."""
ADDRESS_LIMIT = 16
"""The same per address: several nodes may share one."""
LOG_LINES = 5
"""Rejections logged in one interval; the rest is a count."""
LOG_INTERVAL = 60.0


class Rejections:
    """Logs closed connections at a bounded rate: a flood must not fill the disk."""

    def __init__(self) -> None:
        self._since = 0.0
        self._lines = 0
        self._unlogged: Counter[str] = Counter()

    def note(self, address: str, why: str, now: float) -> None:
        """A connection from `address` was closed; `now` in monotonic seconds."""
        self.look(now)
        if self._lines == 0:
            self._since = now
        if self._lines < LOG_LINES:
            print(f"a connection from {address} was closed: {why}", file=sys.stderr, flush=True)
        else:
            # addresses are counted up to a limit: an attacker may have a whole network of them
            known = address in self._unlogged or len(self._unlogged) < PENDING_LIMIT
            self._unlogged[address if known else "others"] += 1
        self._lines += 1

    def look(self, now: float) -> None:
        """Log the count of an interval that is over."""
        if self._lines == 0 or now - self._since < LOG_INTERVAL:
            return
        if self._unlogged:
            often = ", ".join(f"{address} {count}" for address, count in self._unlogged.most_common(3))
            count, seconds = sum(self._unlogged.values()), now - self._since
            print(f"{count} more connections were closed in {seconds:.0f} s ({often})", file=sys.stderr)
        self._lines = 0
        self._unlogged.clear()


class Pending:
    """Channels of strangers. A new one is always let in: at the limit, another one of the same address goes.

    Which one is drawn by lot, so that no order of connections keeps a node of the run out.
    """

    def __init__(self, nodes: int) -> None:
        """Expect `nodes` followers, which may all come at once and from one address."""
        self._limit, self._address_limit = PENDING_LIMIT + nodes, ADDRESS_LIMIT + nodes
        self._channels: dict[Channel, str] = {}

    @property
    def channels(self) -> list[Channel]:
        return list(self._channels)

    def address(self, channel: Channel) -> str:
        """Where a channel comes from."""
        return self._channels[channel]

    def add(self, channel: Channel, address: str) -> Channel | None:
        """Let one in; returns the one that is to be closed for it."""
        group = group_of(address)
        counts = Counter(group_of(other) for other in self._channels.values())
        victim = None
        if counts[group] >= self._address_limit:
            victim = self._drawn(group)
        elif len(self._channels) >= self._limit:
            victim = self._drawn(counts.most_common(1)[0][0])
        self._channels[channel] = address
        return victim

    def drop_any(self) -> Channel | None:
        """One of the address with the most channels, when there is no room at all; None: there is none."""
        counts = Counter(group_of(other) for other in self._channels.values())
        return self._drawn(counts.most_common(1)[0][0]) if counts else None

    def remove(self, channel: Channel) -> None:
        del self._channels[channel]

    def _drawn(self, group: str) -> Channel:
        return secrets.choice([each for each, other in self._channels.items() if group_of(other) == group])


def group_of(address: str) -> str:
    """What counts as one address: of IPv6 a network of 64 bits, since one machine has as many as it likes."""
    try:
        return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8].hex()
    except OSError:
        return address
