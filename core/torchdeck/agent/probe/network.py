"""Interfaces and addresses, the way to a peer, and whether this host's own name resolves."""

from __future__ import annotations

import contextlib
import hmac
import json
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME_LIMIT = 1.0
"""Seconds that finding this host's own name may take before it is called slow."""
_SYS = Path("/sys/class/net")
_SIOCGIFADDR = 0x8915


def interfaces(limit: float = 3.0) -> list[dict[str, Any]]:
    """Each interface with its addresses, whether it is up, and its speed in Mbit/s if known."""
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
    """Reported by iproute2; None if it is missing or too old for JSON."""
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


# Can nodes connect to each other: one listens, the others connect, say a word, and measure.

WORD_LENGTH = 64
"""Bytes of the word that who connects says first: a stranger's connection is closed."""
CHUNK = 1 << 16
PINGS = 5
_PING = b"?"
_BULK = b"="
_ENOUGH = 256 * 2**20
"""Bytes that one connection may send for a measurement."""


class Listener:
    """Listens for `seconds`, echoes pings, counts bulk; each connection in a thread of its own.

    Args:
        address: to listen on.
        port: 0 for an ephemeral one, such as ranks take.
        word: `WORD_LENGTH` characters that who connects must say.
        seconds: after which it closes by itself.

    Raises:
        OSError: the address or port cannot be listened on.
    """

    def __init__(self, address: str, port: int, word: str, seconds: float) -> None:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
            self._socket.listen(128)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._word = word.encode("ascii")
        self._until = time.monotonic() + seconds
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def wait(self, limit: float) -> bool:
        """Whether it has closed, at the latest after `limit` seconds."""
        self._thread.join(limit)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        with self._socket:
            while (left := self._until - time.monotonic()) > 0:
                self._socket.settimeout(left)
                with contextlib.suppress(OSError):
                    peer, _ = self._socket.accept()
                    threading.Thread(target=self._answer, args=(peer, left), daemon=True).start()

    def _answer(self, peer: socket.socket, seconds: float) -> None:
        with peer, contextlib.suppress(OSError, ValueError):
            peer.settimeout(seconds)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not hmac.compare_digest(_exactly(peer, WORD_LENGTH), self._word):
                return
            peer.sendall(_PING)
            while kind := peer.recv(1):
                if kind == _BULK:
                    size = int.from_bytes(_exactly(peer, 8), "big")
                    if size > _ENOUGH:
                        return
                    _drop(peer, size)
                peer.sendall(_PING)


def reach(peers: Sequence[Mapping[str, Any]], word: str, limit: float, size: int) -> list[dict[str, Any]]:
    """Connect to each of `peers` (`node`, `address`, `port`) at once; return the results in their order.

    Args:
        peers: addresses where a `Listener` with the same `word` should listen.
        word: to send.
        limit: seconds for each to answer.
        size: bytes to send for the measurement of bandwidth; 0 for none.

    Returns:
        For each `node`, `ok`, `latency` (seconds there and back, the quickest of a few), `bandwidth` (bytes
        per second, None if not requested), `error`.
    """
    found: list[dict[str, Any]] = [{} for _ in peers]

    def look(index: int, peer: Mapping[str, Any]) -> None:
        found[index] = _reach(peer, word, limit, size)

    threads = [
        threading.Thread(target=look, args=(index, peer), daemon=True) for index, peer in enumerate(peers)
    ]
    until = time.monotonic() + limit + 1.0
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [
        {"node": str(peer["node"]), **(item or _no(f"no answer within {limit:g} s"))}
        for peer, item in zip(peers, found, strict=True)
    ]


def _reach(peer: Mapping[str, Any], word: str, limit: float, size: int) -> dict[str, Any]:
    where = (str(peer["address"]), int(peer["port"]))
    try:
        with socket.create_connection(where, timeout=limit) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.sendall(word.encode("ascii"))
            _exactly(line, 1)
            latency = min(_timed(lambda: _ask(line, _PING)) for _ in range(PINGS))
            bandwidth = None
            if size:
                content = bytes(CHUNK)
                count = max(1, size // CHUNK)

                def send() -> None:
                    line.sendall(_BULK + (count * CHUNK).to_bytes(8, "big"))
                    for _ in range(count):
                        line.sendall(content)
                    _exactly(line, 1)

                bandwidth = count * CHUNK / _timed(send)
            return {"ok": True, "latency": latency, "bandwidth": bandwidth, "error": ""}
    except TimeoutError:
        return _no(f"no answer within {limit:g} s: a firewall that drops packets?")
    except (OSError, ValueError) as error:
        return _no(str(error))


def _no(why: str) -> dict[str, Any]:
    return {"ok": False, "latency": None, "bandwidth": None, "error": why}


def _ask(line: socket.socket, kind: bytes) -> None:
    line.sendall(kind)
    _exactly(line, 1)


def _timed(do: Callable[[], None]) -> float:
    started = time.perf_counter()
    do()
    return max(1e-9, time.perf_counter() - started)


def _exactly(line: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = line.recv(size - len(content))
        if not more:
            raise ValueError("the other side closed the connection: another program listens there?")
        content += more
    return content


def _drop(line: socket.socket, size: int) -> None:
    buffer = memoryview(bytearray(CHUNK))
    while size:
        count = line.recv_into(buffer, min(size, CHUNK))
        if not count:
            raise ValueError("the other side closed the connection")
        size -= count
