"""Checks that ranks can meet: the port, and this host's own name."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable

from torchdeck.plan.check import Check, failed, ok, warning

NAME_LIMIT = 1.0
"""Seconds that finding this host's own name may take before it is called slow."""


def check_port(port: int, node: str) -> Check:
    """Check that the configured port is free to listen on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a port just released is free, as for torch
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            return failed(
                "port", node, f"port {port} {why}", 'give distributed.rendezvous.port another, or "auto"'
            )
    return ok("port", node, f"port {port} is free")


def look_up_own_name() -> None:
    """Resolve this host's name as torchrun does: forward, then reverse.

    Raises:
        OSError: the name is not known.
    """
    name = socket.gethostname()
    socket.getaddrinfo(name, None)
    socket.getfqdn(name)


class HostNameCheck:
    """Resolves this host's own name concurrently with other checks: a resolver may hang for a minute."""

    def __init__(self, node: str, look_up: Callable[[], None] = look_up_own_name) -> None:
        self._node = node
        self._look_up = look_up
        self._error: OSError | None = None
        self._started = time.monotonic()
        # a daemon: a hung resolver must not delay the program's exit
        self._thread = threading.Thread(target=self._run, name="own host name", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._look_up()
        except OSError as error:
            self._error = error

    def result(self, limit: float = NAME_LIMIT) -> Check:
        """Return the verdict, at the latest `limit` seconds after the start."""
        self._thread.join(max(0.0, self._started + limit - time.monotonic()))
        name = socket.gethostname()
        fix = (
            f"add the line `127.0.1.1 {name}` to /etc/hosts; torchrun may wait a minute for it at each start"
        )
        if self._thread.is_alive():
            return warning(
                "host name",
                self._node,
                f"looking up this host's own name {name} takes more than {limit:g} s",
                fix,
            )
        if self._error is not None:
            return warning("host name", self._node, f"this host's own name {name} does not resolve", fix)
        return ok("host name", self._node, f"host name {name} resolves")
