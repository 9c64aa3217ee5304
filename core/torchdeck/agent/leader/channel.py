"""One connection between the leader and a follower: JSON lines, each authenticated; never blocks.

Both prove that they hold the run's token, by a challenge each, without sending it. Every later line carries
an HMAC-SHA-256 under a key of this connection, over its direction, its number and its content: a line that
was changed, repeated, left out or put in closes the connection. Nothing is hidden, only authenticated.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import socket
import time
from typing import Any, NamedTuple

from torchdeck.contract.byte_size import size

VERSION = 1
LINE_LIMIT = 1 << 20
"""Bytes of one line; the longest is a failure with its traceback."""
GREETING_LIMIT = 1024
"""Bytes of a line before the other side has proved who it is."""
HANDSHAKE_LIMIT = 10.0
"""Seconds in which it must."""
BACKLOG_LIMIT = 8 << 20
"""Bytes that may wait for the other side to read."""
LEADER = "lead"
FOLLOWER = "follower"
_CHUNK = 1 << 16


class ChannelError(Exception):
    """The connection is of no use any more; the message says why."""


class Channel:
    """One end.

    Attributes:
        node: the follower's name; at the leader empty until it proved itself.
        ready: both have.
        heard: monotonic seconds at which something came last.
    """

    def __init__(
        self, connection: socket.socket, role: str, token: bytes, run_id: str, node: str = ""
    ) -> None:
        """Begin at the end of `role`, LEADER or FOLLOWER; the follower says which `node` it is."""
        connection.settimeout(0)
        self.node = node if role == FOLLOWER else ""
        self.ready = False
        self.heard = self._since = time.monotonic()
        self._socket = connection
        self._role, self._token, self._run_id = role, token, run_id
        self._nonces = {role: os.urandom(16).hex()}
        self._claimed = node
        self._key = b""
        self._sent = self._received = 0
        self._incoming = bytearray()
        self._outgoing = bytearray()
        if role == FOLLOWER:
            self._write({"v": VERSION, "node": node, "nonce": self._nonces[role]})

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def awaits(self) -> int:
        """Events to poll for."""
        return select.POLLIN | (select.POLLOUT if self._outgoing else 0)

    def close(self) -> None:
        self._socket.close()

    def send(self, message: dict[str, Any]) -> None:
        """Queue one message and write what can be written now. Raises ChannelError."""
        text = json.dumps(message, separators=(",", ":")).encode()
        self._outgoing += self._seal(self._role, self._sent, text) + b" " + text + b"\n"
        self._sent += 1
        self.flush()

    def flush(self) -> None:
        """Write what the other side takes now. Raises ChannelError."""
        if len(self._outgoing) > BACKLOG_LIMIT:
            raise ChannelError(f"{self._claimed or 'a peer'} does not read")
        try:
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ChannelError(f"the connection is gone: {error.strerror or error}") from error

    def receive(self) -> list[dict[str, Any]]:
        """Messages that have come, after the other side proved itself.

        Raises:
            ChannelError: it is gone, too slow to prove itself, or sends what it must not.
        """
        gone = self._read()
        found = []
        while (end := self._incoming.find(b"\n")) >= 0:
            line = bytes(self._incoming[:end])
            del self._incoming[: end + 1]
            limit = LINE_LIMIT if self.ready else GREETING_LIMIT
            if len(line) > limit:
                raise ChannelError(f"a line of {size(len(line))} is too long; {size(limit)} are the most")
            if self._key:
                found.append(self._open(line))
            else:
                self._greeted(line)
        if len(self._incoming) > (LINE_LIMIT if self.ready else GREETING_LIMIT):
            raise ChannelError("a line is too long")
        if not self.ready and time.monotonic() - self._since > HANDSHAKE_LIMIT:
            raise ChannelError(f"it did not authenticate within {HANDSHAKE_LIMIT:.0f} s")
        if gone and not found:
            raise ChannelError("the other side closed the connection")
        return found

    def _read(self) -> bool:
        # of strangers no more than they may say: what a node sends right after its proof is read next time
        chunk, limit = (_CHUNK, LINE_LIMIT) if self.ready else (GREETING_LIMIT, GREETING_LIMIT)
        try:
            while True:
                data = self._socket.recv(chunk)
                if not data:
                    return True
                self.heard = time.monotonic()
                self._incoming += data
                if len(self._incoming) > limit:
                    return False
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelError(f"the connection is gone: {error.strerror or error}") from error

    # the nodes that are there

    def _greeted(self, line: bytes) -> None:
        greeting = _flat(_object(line))
        if self._role == LEADER and FOLLOWER not in self._nonces:
            self._hello(greeting)
        elif self._role == FOLLOWER and LEADER not in self._nonces:
            self._nonces[LEADER] = _nonce(greeting)
            self._check(LEADER, greeting)
            self._write({"proof": self._proof(FOLLOWER)})
            self._begin()
        else:
            self._check(FOLLOWER, greeting)
            self._begin()

    def _hello(self, greeting: dict[str, Any]) -> None:
        node = greeting.get("node")
        if greeting.get("v") != VERSION or not isinstance(node, str):
            raise ChannelError(f"it speaks format {repr(greeting.get('v'))[:20]}, this leader {VERSION}")
        self._claimed = node
        self._nonces[FOLLOWER] = _nonce(greeting)
        self._write({"nonce": self._nonces[LEADER], "proof": self._proof(LEADER)})

    def _check(self, role: str, greeting: dict[str, Any]) -> None:
        proof = greeting.get("proof")
        # compare_digest takes ASCII alone, and a lone surrogate cannot be encoded
        known = isinstance(proof, str) and proof.isascii() and hmac.compare_digest(proof, self._proof(role))
        if not known:
            raise ChannelError("it does not hold the token of this run")

    def _begin(self) -> None:
        self.node, self.ready = self._claimed, True
        self._key = self._derived("key")

    def _proof(self, role: str) -> str:
        return self._derived(role).hex()

    def _derived(self, what: str) -> bytes:
        parts = (what, self._run_id, self._claimed, self._nonces[LEADER], self._nonces[FOLLOWER])
        return hmac.new(self._token, json.dumps(parts).encode(), hashlib.sha256).digest()

    # lines

    def _write(self, greeting: dict[str, Any]) -> None:
        self._outgoing += json.dumps(greeting, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def _seal(self, role: str, number: int, text: bytes) -> bytes:
        content = f"{role}:{number}:".encode() + text
        return hmac.new(self._key, content, hashlib.sha256).hexdigest().encode()

    def _open(self, line: bytes) -> dict[str, Any]:
        seal, _, text = line.partition(b" ")
        other = FOLLOWER if self._role == LEADER else LEADER
        if not hmac.compare_digest(seal, self._seal(other, self._received, text)):
            raise ChannelError("a line is not what was sent")
        self._received += 1
        return _object(text)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ChannelError("a line is not JSON") from error
    if not isinstance(value, dict):
        raise ChannelError("a line is not a JSON object")
    return value


def _flat(greeting: dict[str, Any]) -> dict[str, Any]:
    """A greeting names texts and numbers; with anything nested in it, it is not one of ours."""
    if not all(isinstance(value, (str, int)) for value in greeting.values()):
        raise ChannelError("its greeting is not one of ours")
    return greeting


def _nonce(greeting: dict[str, Any]) -> str:
    nonce = greeting.get("nonce")
    if not isinstance(nonce, str) or not 16 <= len(nonce) <= 128:
        raise ChannelError("it sends no nonce")
    return nonce


# Messages of one side of a connection, delivered once each and in order. Pure.
#
# Connections break, and either process may be restarted. Each process numbers its messages; on every
# connect each reports the last number it received, and gets what it lacks of the current attempt.


class Entry(NamedTuple):
    """One sent message."""

    number: int
    attempt: int
    message: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"n": self.number, "a": self.attempt, "m": self.message}


class Exchange:
    """One side of the exchange with one other process."""

    def __init__(self, incarnation: str) -> None:
        """`incarnation` names this process among all that ever spoke for its node."""
        self._incarnation = incarnation
        self._told: list[Entry] = []
        self._count = 0
        self._peer = ""
        self._heard = 0
        self._acknowledged = 0

    @property
    def settled(self) -> bool:
        """The other side has heard all."""
        return self._acknowledged >= self._count

    def tell(self, attempt: int, message: dict[str, Any]) -> dict[str, Any]:
        """Number a message about `attempt`, and keep it; returns what is sent now."""
        self._count += 1
        entry = Entry(self._count, attempt, message)
        self._told.append(entry)
        return entry.to_json()

    def forget_before(self, attempt: int) -> None:
        """Keep nothing of attempts before this one, nor of what preceded the first."""
        self._told = [entry for entry in self._told if entry.attempt >= attempt]

    def forget(self, *names: str) -> None:
        """Drop messages of these kinds: they are not worth repeating."""
        self._told = [entry for entry in self._told if entry.message.get("is") not in names]

    def greeting(self) -> dict[str, Any]:
        """The first message on every connection."""
        return {"who": self._incarnation, "peer": self._peer, "heard": self._heard}

    def greeted(self, greeting: dict[str, Any]) -> list[dict[str, Any]]:
        """The other side's greeting; returns what it has not heard."""
        who, peer, heard = greeting.get("who"), greeting.get("peer"), greeting.get("heard")
        if not isinstance(who, str) or type(heard) is not int:
            raise ValueError("its hello message is invalid")
        if who != self._peer:
            self._peer, self._heard = who, 0
        known = heard if peer == self._incarnation else 0
        self.acknowledged(known)
        return [entry.to_json() for entry in self._told if entry.number > known]

    def take(self, value: dict[str, Any]) -> Entry | None:
        """A message that came; None when it came before."""
        number, attempt, message = value.get("n"), value.get("a"), value.get("m")
        if type(number) is not int or type(attempt) is not int or not isinstance(message, dict):
            raise ValueError("it is no numbered message")
        if number <= self._heard:
            return None
        self._heard = number
        return Entry(number, attempt, message)

    def acknowledgement(self) -> dict[str, Any]:
        """That everything so far has come."""
        return {"ack": self._heard}

    def acknowledged(self, number: object) -> None:
        """The other side has heard everything up to `number`."""
        if type(number) is int:
            self._acknowledged = max(self._acknowledged, min(number, self._count))
