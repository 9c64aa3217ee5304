"""A socket that listens on one address. A check sends this module to nodes, so it imports nothing of ours."""

from __future__ import annotations

import errno
import socket

_BACKLOG = 1024


def listening_on(address: str, port: int) -> socket.socket:
    """Return a socket that listens on `address`; on every address if no interface of this machine has it.

    Raises:
        OSError: the port is in use, or there is no such address.
    """
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            # other machines reach this one at an address that is translated on the way (NAT)
            listener.bind(("", port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
