"""What this machine does now."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_for_value
from torchdeck.agent.leases import Leases
from torchdeck.contract.inventory import Device
from torchdeck.nodes.activity import Activity, ActivityWatch


def test_the_machine_is_told_in_plausible_numbers(tmp_path: Path) -> None:
    watch = ActivityWatch(tmp_path / "not there yet", probe=lambda: ())
    watch.look()
    now = watch.look()
    assert 0 <= now.cpu <= 100
    assert 0 < now.memory_used < now.memory_total
    assert 0 < now.disk_free <= now.disk_total
    assert now.cores >= 1
    assert now.host
    assert now.devices == ()


def test_a_device_is_told_with_its_numbers_and_the_run_that_has_it(tmp_path: Path) -> None:
    devices = (Device(0, "GPU-a", "H100", 80 << 30), Device(1, "GPU-b", "H100", 80 << 30))
    watch = ActivityWatch(
        tmp_path, probe=lambda: devices, gpus=lambda: {"gpu0_util": 93.0, "gpu0_memory_used_bytes": 5e9}
    )
    leases = Leases(tmp_path / "leases", ["GPU-a"], "20261122T000000Z-gpt-000000", "gpt")
    leases.acquire()
    try:
        first, second = watch.look().devices
    finally:
        leases.release()
    assert (first.utilisation, first.memory_used, first.power) == (93.0, 5e9, None)
    assert first.owner is not None
    assert first.owner.name == "gpt"
    assert second.owner is None


@pytest.mark.processes
def test_a_busy_process_of_a_run_is_among_the_busiest(tmp_path: Path) -> None:
    busy = subprocess.Popen(
        [sys.executable, "-c", "while True: pass"], env={**os.environ, "TORCHDECK_RUN_ID": "a-run"}
    )
    try:
        watch = ActivityWatch(tmp_path, probe=lambda: ())

        def found() -> Activity | None:
            now = watch.look()
            mine = [item for item in now.processes if item.pid == busy.pid and item.cpu > 0]
            return now if mine else None

        now = wait_for_value(found, 20, "the busy process to be seen")
    finally:
        busy.kill()
        busy.wait()
    mine = next(item for item in now.processes if item.pid == busy.pid)
    assert mine.run_id == "a-run"
    assert mine.resident > 1 << 20
    assert [item.cpu for item in now.processes] == sorted((item.cpu for item in now.processes), reverse=True)
