"""Devices that another run has leased."""

import fcntl
import json
from collections.abc import Iterator

import pytest

from support.values.checked_config import CheckedConfig, assert_refused


@pytest.fixture
def held_lease(checked: CheckedConfig) -> Iterator[CheckedConfig]:
    """The second of two GPUs belongs to another run."""
    checked.gpus = 2
    leases = checked.home / "leases"
    leases.mkdir(parents=True, mode=0o700)
    checked.home.chmod(0o700)
    with (leases / "GPU-localhost-1.lock").open("w") as file:
        json.dump({"run_id": "20261121T000000Z-other-abcdef", "name": "other", "device": "1", "pid": 1}, file)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield checked


def test_a_leased_device_is_refused_with_whose_it_is(held_lease: CheckedConfig) -> None:
    """Name and id of the run that has it, and what can be done."""
    check = held_lease.script()["devices"]
    assert_refused(check, "GPU-localhost-1", "20261121T000000Z-other-abcdef", "(other)", "--queue")


def test_with_a_queue_a_leased_device_is_a_warning(held_lease: CheckedConfig) -> None:
    """The run will wait for it."""
    check = held_lease.script(launch={"queue": True})["devices"]
    assert (check.status, "waits in the queue" in check.fix) == ("warning", True)


def test_a_device_that_is_not_wanted_may_be_leased(held_lease: CheckedConfig) -> None:
    """Another run's GPU is no one else's business."""
    assert held_lease.script(distributed={"devices": [0]})["devices"].status == "ok"


def test_a_stale_lease_is_free(checked: CheckedConfig) -> None:
    """A lock file that no one locks is a left-over."""
    checked.gpus = 1
    leases = checked.home / "leases"
    leases.mkdir(parents=True)
    checked.home.chmod(0o700)
    (leases / "GPU-localhost-0.lock").write_text('{"run_id": "gone"}')
    assert checked.script()["devices"].status == "ok"
