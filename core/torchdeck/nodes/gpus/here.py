"""GPUs of this machine, sampled as those of a node are."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from torchdeck.agent.gpus import Sampler, UserLister, gpu_sampler, gpu_user_lister
from torchdeck.agent.leases import lease_holder
from torchdeck.agent.probe.gpu_processes import gpu_processes, user_name
from torchdeck.contract.inventory import LOCALHOST, Device
from torchdeck.contract.layout import Home
from torchdeck.nodes.gpus.gpu_now import NodeGpus
from torchdeck.nodes.probe.facts import GpuProcessHere
from torchdeck.nodes.this_machine import probe_gpus

PROCESSES_EVERY = 5
"""Samples between two lists of their processes, as for nodes."""


class GpusHere:
    """Sampler of this machine's GPUs. Use it from one thread at a time."""

    def __init__(
        self,
        home: Path,
        *,
        probe: Callable[[], tuple[Device, ...]] = probe_gpus,
        sampler: Sampler | None = None,
        lister: UserLister | None = None,
    ) -> None:
        """Sample the GPUs that runs of `home` lease; the others for tests."""
        self._leases = Home(home).leases
        self._probe, self._sampler, self._lister = probe, sampler, lister
        self._devices: tuple[Device, ...] | None = None
        self._processes: tuple[GpuProcessHere, ...] | None = None
        self._count = 0
        self._user = user_name(os.geteuid())

    def look(self) -> NodeGpus:
        """Return their state: takes as long as nvidia-smi if pynvml is not installed.

        Raises:
            OSError, subprocess.SubprocessError: nvidia-smi does not answer.
        """
        if self._devices is None:
            self._devices = self._probe()
            if self._devices:
                self._sampler = self._sampler or gpu_sampler(is_detailed=True)
                self._lister = self._lister or gpu_user_lister()
        values = self._sampler() if self._devices and self._sampler is not None else {}
        if self._count % PROCESSES_EVERY == 0:
            found = gpu_processes(self._lister)
            self._processes = None if found is None else tuple(map(GpuProcessHere.model_validate, found))
        self._count += 1
        owners = {
            device.key: (str(holder["run_id"]), str(holder["name"]))
            for device in self._devices
            if (holder := lease_holder(self._leases, device.key)) is not None
        }
        return NodeGpus(LOCALHOST, self._devices, time.time(), values, owners, self._processes, self._user)
