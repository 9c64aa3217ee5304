"""A port for ranks that a test starts by hand."""

import secrets
import socket
from contextlib import suppress

_LOWEST, _BEYOND = 20_000, 32_768
"""Below those that Linux gives to whoever asks for any port or connects: none goes before a rank opens it."""


def free_port() -> int:
    """A port of the loopback address that nothing listens on at this moment."""
    while True:
        port = _LOWEST + secrets.randbelow(_BEYOND - _LOWEST)  # of its own, as tests seed `random`
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
