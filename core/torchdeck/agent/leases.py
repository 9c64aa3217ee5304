"""Leases of devices: one lock file each, held with flock by whoever uses it; none outlives its holders."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.lock_file import try_lock


def lease_path(folder: Path, device: str) -> Path:
    """The lock file of a device (its UUID, or its index, which hosts that share a home all have)."""
    name = f"{socket.gethostname()}-{device}" if device.isdecimal() else device
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock"


def lease_holder(folder: Path, device: str) -> dict[str, Any] | None:
    """Return the owner of a device: `{device, run_id, name, pid}`; None if it is free.

    Unlike `lock_file.is_held` it never reports a device free that it could not check: two runs would share
    it.

    Raises:
        OSError: the lock file exists and cannot be opened, or its file system has no locks.
    """
    path = lease_path(folder, device)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _content(path, device)
    finally:
        os.close(descriptor)


class Leases:
    """The leases of one run on one node.

    A lock belongs to the open file, so descriptors handed to a child keep it when this process dies.
    """

    def __init__(self, folder: Path, devices: Sequence[str], run_id: str, name: str) -> None:
        self._folder = folder
        self._devices = tuple(sorted(set(devices)))
        self._owner = {"run_id": run_id, "name": name}
        self._held: dict[str, int] = {}

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors of the held lock files, to hand over; empty if nothing is held."""
        return tuple(self._held.values())

    @property
    def held(self) -> bool:
        """Whether all devices are ours."""
        return len(self._held) == len(self._devices)

    def keep(self, descriptors: Sequence[int]) -> None:
        """Keep the locks that an earlier agent of this run took, as its supervisor passed them on."""
        files = {_identity(os.fstat(descriptor)): descriptor for descriptor in descriptors}
        for device in self._devices:
            path = lease_path(self._folder, device)
            descriptor = files.get(_identity(path.stat())) if path.exists() else None
            if descriptor is not None and device not in self._held:
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function takes it so
                self._held[device] = descriptor

    def narrow(self, devices: Sequence[str]) -> None:
        """Need no more than `devices` from now on, and give back the others."""
        self._devices = tuple(sorted(set(devices)))
        for device in self._held.keys() - set(self._devices):
            os.close(self._held.pop(device))

    def acquire(self) -> list[dict[str, Any]]:
        """Take all devices or none; returns who holds those that could not be had.

        Raises:
            OSError: the folder of leases cannot be written.
        """
        if self.held:
            return []
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        taken: dict[str, int] = {}
        held_by = []
        for device in self._devices:
            if device in self._held:
                continue
            descriptor = self._take(device)
            if descriptor is None:
                held_by.append(_content(lease_path(self._folder, device), device))
            else:
                taken[device] = descriptor
        if held_by:
            for descriptor in taken.values():
                os.close(descriptor)
            return held_by
        self._held.update(taken)
        return []

    def release(self) -> None:
        """Give all back; what was handed to a child stays locked by it."""
        held, self._held = self._held, {}
        for descriptor in held.values():
            os.close(descriptor)

    def _take(self, device: str) -> int | None:
        owner = {**self._owner, "device": device, "pid": os.getpid()}
        return try_lock(lease_path(self._folder, device), owner)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _content(path: Path, device: str) -> dict[str, Any]:
    content = read_json(path)
    known = content if isinstance(content, dict) else {}
    return {"run_id": "unknown", "name": "unknown", **known, "device": device}
