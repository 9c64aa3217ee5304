"""Interfaces and addresses, the way to a peer, and whether this host's own name resolves."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAME_LIMIT = 1.0
"""Seconds that finding this host's own name may take before it is called slow."""
_SYS = Path("/sys/class/net")
_SIOCGIFADDR = 0x8915


def interfaces(limit: float = 3.0) -> list[dict[str, Any]]:
    """Each interface with its addresses, whether it is up, and its speed in Mbit/s where the kernel knows."""
    addresses = _by_ip(limit)
    if addresses is None:
        addresses = {name: _first_address(name) for _, name in socket.if_nameindex()}
    return [
        {"name": name, "addresses": found, "up": _is_up(name), "speed": _speed(name)}
        for name, found in addresses.items()
    ]


def route_to(peer: str, known: Iterable[dict[str, Any]]) -> dict[str, str]:
    """(interface, address) that the kernel takes to `peer`, a name or address; `error` when it knows no way.

    Connecting a datagram socket sends nothing: the kernel only chooses the route.
    """
    try:
        family, _, _, _, target = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            address = str(probe.getsockname()[0])
    except OSError as error:
        return {"peer": peer, "interface": "", "address": "", "error": str(error)}
    name = next((item["name"] for item in known if address in item["addresses"]), "")
    return {"peer": peer, "interface": name, "address": address, "error": ""}


def own_name(limit: float = NAME_LIMIT) -> dict[str, Any]:
    """Whether this host's own name resolves, forward and back, as torchrun looks it up."""
    name = socket.gethostname()
    errors: list[str] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo(name, None)
            socket.getfqdn(name)
        except OSError as error:
            errors.append(str(error))

    started = time.monotonic()
    # a daemon: a resolver that hangs must not hold up the answer
    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(limit)
    slow = thread.is_alive()
    return {
        "name": name,
        "resolves": not slow and not errors,
        "slow": slow,
        "seconds": time.monotonic() - started,
        "error": errors[0] if errors else "",
    }


def _by_ip(limit: float) -> dict[str, list[str]] | None:
    """As iproute2 says it; None where it is not there or too old for JSON."""
    program = shutil.which("ip")
    if program is None:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        answer = subprocess.run(
            [program, "-j", "addr"], capture_output=True, text=True, timeout=limit, check=True
        )
        return {
            item["ifname"]: [
                address["local"] for address in item.get("addr_info", ()) if address.get("scope") != "link"
            ]
            for item in json.loads(answer.stdout)
        }
    return None


def _first_address(name: str) -> list[str]:
    """The IPv4 address by netdevice(7), for systems without iproute2."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return []
    return [socket.inet_ntoa(answer[20:24])]


def _is_up(name: str) -> bool:
    try:
        state = (_SYS / name / "operstate").read_text().strip()
    except OSError:
        return False
    return state == "up" or (state == "unknown" and name == "lo")


def _speed(name: str) -> int | None:
    try:
        speed = int((_SYS / name / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed if speed > 0 else None
