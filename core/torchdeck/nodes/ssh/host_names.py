"""Checks of names from any source before a connection or a command uses them."""

from __future__ import annotations

from torchdeck.config.values.node_names import host_fault, user_fault
from torchdeck.nodes.ssh.errors import TargetError


def check_names(name: str, host: str, user: str, port: object = 22) -> None:
    """Raise TargetError if host, user or port is not allowed in a command.

    Args:
        name: display name of the host.
        host: its name or address.
        user: login user.
        port: port of its sshd, as written.
    """
    for what, value, fault in (
        ("host name", host, host_fault(host)),
        ("user's name", user, user_fault(user)),
        ("port", port, "" if str(port).isdecimal() else "it is not a number"),
    ):
        if fault:
            raise TargetError(name, f"{value!r} is no {what}: {fault}")
