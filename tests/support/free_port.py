"""A port for ranks that a test starts by hand."""

import socket


def free_port() -> int:
    """A port of the loopback address that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
