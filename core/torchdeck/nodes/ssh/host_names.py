"""Names are checked before a connection or a command has them in it, wherever they come from."""

from __future__ import annotations

from torchdeck.config.values.host_names import host_fault, user_fault
from torchdeck.nodes.ssh.errors import TargetError


def check_names(name: str, host: str, user: str, port: object = 22) -> None:
    """Raise TargetError if host, user or port may not stand in a command.

    Args:
        name: what people call the host.
        host: its name or address.
        user: to log in as.
        port: of its sshd, as it is written.
    """
    for what, value, fault in (
        ("host name", host, host_fault(host)),
        ("user's name", user, user_fault(user)),
        ("port", port, "" if str(port).isdecimal() else "it is not a number"),
    ):
        if fault:
            raise TargetError(name, f"{value!r} is no {what}: {fault}")
