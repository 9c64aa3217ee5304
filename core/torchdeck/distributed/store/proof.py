"""Two ends of a connection prove to each other that they hold the run's key, and seal subsequent data.

Each sends a random challenge and answers the other's with an HMAC-SHA-256; the key itself is never sent. Data
is then sent in frames with an HMAC over their number, so that nothing can be inserted, omitted or repeated.
Data is only authenticated, not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time

from torchdeck.contract.byte_size import size

HANDSHAKE_LIMIT = 10.0
"""Seconds within which the other end must have proved itself."""
_GREETING = b"torchdeck-store 1\n"
_NONCE = 32
_PROOF = 32
_SEAL = 16
_LENGTH = struct.Struct(">I")
_LONGEST = 1 << 16
"""Maximum bytes in one frame."""


class StrangerError(Exception):
    """The other end does not belong to this run; the message describes what it did."""


class ClosedEarlyError(StrangerError):
    """The other end closed the connection before it proved anything."""


class Sealing:
    """Seals sent data and checks received data, in the order of a connection."""

    def __init__(self, sending: bytes, receiving: bytes) -> None:
        self._sending, self._receiving = sending, receiving
        self._sent = self._received = 0
        self._incoming = bytearray()

    def seal(self, content: bytes) -> bytes:
        """Return `content` as frames."""
        frames = []
        for start in range(0, len(content), _LONGEST):
            piece = content[start : start + _LONGEST]
            frames += [_LENGTH.pack(len(piece)), _seal(self._sending, self._sent, piece), piece]
            self._sent += 1
        return b"".join(frames)

    def open(self, received: bytes) -> bytes:
        """Return the content of the frames received completely. Raises StrangerError."""
        self._incoming += received
        content = []
        while len(self._incoming) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._incoming)
            if length > _LONGEST:
                raise StrangerError(f"it sent a frame of {size(length)}")
            end = _LENGTH.size + _SEAL + length
            if len(self._incoming) < end:
                break
            seal = bytes(self._incoming[_LENGTH.size : _LENGTH.size + _SEAL])
            piece = bytes(self._incoming[_LENGTH.size + _SEAL : end])
            if not hmac.compare_digest(seal, _seal(self._receiving, self._received, piece)):
                raise StrangerError("a frame is not what was sent")
            self._received += 1
            content.append(piece)
            del self._incoming[:end]
        return b"".join(content)


def prove(connection: socket.socket, key: bytes) -> Sealing:
    """Run the handshake of the connecting end: the other proves itself first.

    Raises:
        StrangerError: it holds another key.
        OSError: the connection broke, or the other end was too slow.
    """
    until = _limited(connection)
    mine = os.urandom(_NONCE)
    connection.sendall(_GREETING + mine)
    answer = _exactly(connection, _NONCE + _PROOF, until)
    theirs, proof = answer[:_NONCE], answer[_NONCE:]
    if not hmac.compare_digest(proof, _derived(key, b"store", mine, theirs)):
        raise StrangerError("what listens there does not hold the key of this run")
    connection.sendall(_derived(key, b"node", mine, theirs))
    return Sealing(_derived(key, b"up", mine, theirs), _derived(key, b"down", mine, theirs))


def demand_proof(connection: socket.socket, key: bytes) -> Sealing:
    """Run the handshake of the accepting end. Raises as `prove`."""
    until = _limited(connection)
    greeting = _exactly(connection, len(_GREETING) + _NONCE, until)
    if not greeting.startswith(_GREETING):
        raise StrangerError("it does not speak as a node of a run does")
    theirs, mine = greeting[len(_GREETING) :], os.urandom(_NONCE)
    connection.sendall(mine + _derived(key, b"store", theirs, mine))
    if not hmac.compare_digest(_exactly(connection, _PROOF, until), _derived(key, b"node", theirs, mine)):
        raise StrangerError("it does not hold the key of this run")
    return Sealing(_derived(key, b"down", theirs, mine), _derived(key, b"up", theirs, mine))


def _derived(key: bytes, what: bytes, connecting: bytes, accepting: bytes) -> bytes:
    return hmac.new(key, what + b"\0" + connecting + accepting, hashlib.sha256).digest()


def _seal(key: bytes, number: int, content: bytes) -> bytes:
    return hmac.new(key, number.to_bytes(8, "big") + content, hashlib.sha256).digest()[:_SEAL]


def _limited(connection: socket.socket) -> float:
    """Return the deadline of the handshake, in monotonic seconds; it also limits sending."""
    connection.settimeout(HANDSHAKE_LIMIT)
    return time.monotonic() + HANDSHAKE_LIMIT


def _exactly(connection: socket.socket, count: int, until: float) -> bytes:
    """Read `count` bytes; a peer that trickles single bytes cannot hold a slot for long. Raises
    TimeoutError.
    """
    found = b""
    while len(found) < count:
        connection.settimeout(max(0.001, until - time.monotonic()))
        piece = connection.recv(count - len(found))
        if not piece:
            raise ClosedEarlyError("it closed the connection before it proved who it is")
        found += piece
    return found
