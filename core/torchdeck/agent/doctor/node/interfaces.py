"""Counters of a node's network interfaces and InfiniBand ports, and their changes in an attempt.

Sources: Linux's `Documentation/ABI/testing/sysfs-class-net`, `sysfs-class-net-statistics` and
`sysfs-class-infiniband`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import FORMAT_VERSION

SYS = Path("/sys/class")
MOST = 64
"""Interfaces that are read."""
TEXT_LIMIT = 300
LIMIT = 0.5
"""Seconds to wait for a sample."""
_STATISTICS = (
    "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_crc_errors",
)  # fmt: skip
_PORT_COUNTERS = (
    "port_rcv_data", "port_xmit_data", "port_xmit_wait", "symbol_error", "port_rcv_errors",
    "port_xmit_discards", "link_downed",
)  # fmt: skip
_CARRIER, _LOST = "carrier", "carrier_down_count"
_FAULTS: Mapping[str, str] = {
    "rx_errors": "receive errors",
    "tx_errors": "transmit errors",
    "symbol_error": "symbol errors",
    "port_rcv_errors": "receive errors",
}
"""Counters that stay at 0 on a sound link → words. Drops are usual, so the file alone has them."""

Counters = dict[str, dict[str, int]]
"""Interface (`eth1`, `mlx5_0/1`) → counter → value. `carrier` is 1 if there is a link, else 0."""


def read_counters(root: Path = SYS) -> Counters:
    """Return the counters of all interfaces but loopback and ports of bridges, as far as they can be read.

    The first `MOST`: those of hardware come before those of containers.
    """
    found: Counters = {}
    interfaces = [folder for folder in _folders(root / "net") if folder.name != "lo"]
    for folder in sorted(interfaces, key=lambda folder: not (folder / "device").exists())[:MOST]:
        if not (folder / "brport").exists():
            counters = _numbers(folder / "statistics", _STATISTICS) | _numbers(folder, (_LOST,))
            # EINVAL if the interface is down
            found[folder.name] = counters | {_CARRIER: _numbers(folder, (_CARRIER,)).get(_CARRIER, 0)}
    for device in _folders(root / "infiniband")[:MOST]:
        for port in _folders(device / "ports"):
            active = int("ACTIVE" in _text(port / "state"))
            found[f"{device.name}/{port.name}"] = _numbers(port / "counters", _PORT_COUNTERS) | {
                _CARRIER: active
            }
    return found


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def _numbers(folder: Path, names: tuple[str, ...]) -> dict[str, int]:
    texts = {name: _text(folder / name) for name in names}
    return {name: int(text) for name, text in texts.items() if text.isascii() and text.isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[:64]
    except OSError:
        return ""


def faults(before: Counters, after: Counters) -> dict[str, str]:
    """Return interface → `120 receive errors, carrier lost`, of interfaces that are in both."""
    found = {}
    for name, now in after.items():
        if name in before:
            words = _changes(before[name], now)
            if words:
                found[name] = ", ".join(words)
    return found


def _changes(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    words = []
    for counter, named in _FAULTS.items():
        more = now.get(counter, 0) - before.get(counter, now.get(counter, 0))
        if more > 0:
            words.append(f"{more:,} {named if more > 1 else named[:-1]}")
    lost = any(now.get(name, 0) > before.get(name, now.get(name, 0)) for name in (_LOST, "link_downed"))
    if before[_CARRIER] and not now[_CARRIER]:
        words.append("carrier lost")
    elif lost:
        words.append("carrier lost for a time")
    return words


class InterfaceEvidence:
    """Counters when the attempt began, when an examination begins, and at its end.

    They are read in threads: an adapter in trouble may not answer.
    """

    def __init__(self, root: Path = SYS) -> None:
        """Read them for the first time."""
        self._root = root
        self._reading: threading.Thread | None = None
        self._first = self._sample("attempt")
        self._begun = self._first

    def _sample(self, when: str) -> dict[str, Any]:
        """Return a sample; its interfaces come later, or never, if reading takes long."""
        sample: dict[str, Any] = {"when": when, "t": time.time(), "interfaces": {}}

        def read() -> None:
            sample["interfaces"] = read_counters(self._root)

        if self._reading is None or not self._reading.is_alive():
            self._reading = threading.Thread(target=read, name="counters of interfaces", daemon=True)
            self._reading.start()
            self._reading.join(LIMIT)
        return sample

    def begin(self) -> None:
        """Read them as an examination begins."""
        self._begun = self._sample("examination")

    def end(self, file: Path) -> str:
        """Write all to `file`; return `eth1: 120 receive errors, carrier lost`, empty without faults."""
        last = self._sample("evidence")
        value = {"v": FORMAT_VERSION, "samples": [self._first, self._begun, last]}
        try:
            write_json(file, value, durable=False)
        except OSError as error:
            print(f"counters of interfaces cannot be written: {error}", file=sys.stderr, flush=True)
        found = faults(self._first["interfaces"], last["interfaces"])
        return "; ".join(f"{name}: {words}" for name, words in found.items())[:TEXT_LIMIT]
