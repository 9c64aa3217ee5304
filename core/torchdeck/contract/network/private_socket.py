"""Sockets that the kernel closes to other processes, and whether this kernel can.

Packets are signed with a key (RFC 2385, TCP_MD5SIG), or filtered by their source ports with a classic BPF
program (socket(7), SO_ATTACH_FILTER). Some kernels allow that to root only.
"""

from __future__ import annotations

import ctypes
import secrets
import socket
import struct
from collections.abc import Collection

from torchdeck.contract.network.peer_owner import check_owners

KEY_BYTES = 40
"""Length of a key: half of what the kernel takes."""
_TCP_MD5SIG_EXT, _FOR_A_PREFIX = 32, 1
_LONGEST_KEY = 80
_SO_ATTACH_FILTER = 26
_LOAD_SOURCE_PORT, _IF_EQUAL, _RETURN = 0x28, 0x15, 0x06
_DROP, _PASS = 0, 0xFFFFFFFF


def why_open() -> str:
    """Return why this kernel cannot close a store to other users of the machine; empty if it can."""
    try:
        check_owners()
    except OSError as error:
        return f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
    with socket.socket() as probe:
        if sign(probe, secrets.token_bytes(KEY_BYTES)):
            return ""
        try:
            pass_only(probe, ())
        except OSError as error:
            return f"the kernel neither signs nor filters connections ({error.strerror})"
    return ""


def pass_only(listener: socket.socket, ports: Collection[int]) -> None:
    """Drop all packets except those from `ports`. Raises OSError if the kernel cannot."""
    program = _program(ports)
    code = ctypes.create_string_buffer(program)
    count = len(program) // 8
    listener.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", count, ctypes.addressof(code))
    )


def sign(connection: socket.socket, key: bytes) -> bool:
    """Sign all packets of an IPv4 socket, and accept no others; return False if the kernel cannot."""
    any_address = struct.pack("=HHI", socket.AF_INET, 0, 0).ljust(128, b"\0")
    order = struct.pack("=BBHi", _FOR_A_PREFIX, 0, len(key), 0) + key.ljust(_LONGEST_KEY, b"\0")
    try:
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, any_address + order)
    except OSError:
        return False
    return True


def _program(ports: Collection[int]) -> bytes:
    """Return a program that passes packets whose source port is in `ports`; a packet begins with it (RFC
    9293, 3.1).
    """
    left = len(ports)
    instructions = [(_LOAD_SOURCE_PORT, 0, 0, 0)]
    for port in ports:
        instructions.append((_IF_EQUAL, left, 0, port))
        left -= 1
    instructions += [(_RETURN, 0, 0, _DROP), (_RETURN, 0, 0, _PASS)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
