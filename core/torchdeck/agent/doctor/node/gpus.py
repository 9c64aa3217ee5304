"""GPUs and NCCL of a node, asked in a thread while ranks write their stacks: a driver in trouble hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from torchdeck.agent.doctor import proc
from torchdeck.agent.doctor.node.nccl_ras import ADDRESS, RasError, ask
from torchdeck.agent.gpus import UNKNOWN_FIELD
from torchdeck.contract.atomic import write_bytes, write_json
from torchdeck.contract.layout import FORMAT_VERSION

_FIELDS = (
    "index,uuid,name,pstate,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,power.limit,"
    "clocks.sm,{reasons},pcie.link.width.current,ecc.errors.uncorrected.volatile.total"
)
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""Name of the field with the reasons for a lower clock, and its name in older drivers."""
LIMIT = 10.0
"""Seconds for nvidia-smi."""


class DeviceEvidence:
    """Writes the state of GPUs and NCCL; nothing on a node without GPUs."""

    def __init__(self, gpus: Path, ras: Path, pids: Collection[int], environ: Mapping[str, str]) -> None:
        """Begin.

        Args:
            gpus: file for the table of nvidia-smi.
            ras: file for the answer of NCCL.
            pids: processes of the ranks on this node.
            environ: variables that the ranks have besides this process's own.
        """
        self._gpus, self._ras, self._pids = gpus, ras, pids
        self._address = ras_address({**os.environ, **environ}.get("NCCL_RAS_ADDR", ""))
        self.nccl = ""
        """Ranks that stand out by NCCL's own account, once it has answered; empty if there are none."""
        self._program = shutil.which("nvidia-smi")
        if self._program is not None:
            threading.Thread(target=self._run, name="gpus of an examination", daemon=True).start()

    def _run(self) -> None:
        try:
            # a script may use NCCL in a child process
            state = ask({process for pid in self._pids for process in proc.tree(pid)}, self._address)
            self.nccl = state.sentence
            write_bytes(self._ras, state.text.encode(), durable=False, private=True)
        except (RasError, OSError) as error:
            print(f"no state of NCCL: {error}", file=sys.stderr, flush=True)
        try:
            table = _table(str(self._program))
            write_json(self._gpus, {"v": FORMAT_VERSION, "table": table}, durable=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"no state of the GPUs: {error}", file=sys.stderr, flush=True)


def _table(program: str) -> str:
    """Return the table of nvidia-smi, or its error. Raises OSError or subprocess.TimeoutExpired."""
    said = ""
    for reasons in _REASONS:
        words = [program, f"--query-gpu={_FIELDS.format(reasons=reasons)}", "--format=csv,nounits"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
        said = done.stdout or done.stderr
        if UNKNOWN_FIELD not in said:
            break
    return said


def ras_address(text: str) -> tuple[str, int]:
    """Return the address of NCCL's service by its variable; the default if it is not set or wrong."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return ADDRESS
    return host.strip("[]") or ADDRESS[0], int(port)
