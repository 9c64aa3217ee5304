"""Leases of devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.agent.leases import Leases, lease_holder, lease_path


def test_a_device_has_one_holder(tmp_path: Path) -> None:
    """The second is told whose it is; when the first gives it back, it is free."""
    first = Leases(tmp_path, ["GPU-1"], "run-1", "one")
    second = Leases(tmp_path, ["GPU-1"], "run-2", "two")
    assert first.acquire() == []
    held_by = second.acquire()
    assert [(held["device"], held["run_id"], held["name"]) for held in held_by] == [("GPU-1", "run-1", "one")]
    assert not second.held
    first.release()
    assert second.acquire() == []
    holder = lease_holder(tmp_path, "GPU-1")
    assert holder is not None
    assert holder["run_id"] == "run-2"


def test_all_devices_or_none(tmp_path: Path) -> None:
    """A run that cannot have all keeps none."""
    first = Leases(tmp_path, ["b"], "run-1", "one")
    first.acquire()
    assert len(Leases(tmp_path, ["a", "b", "c"], "run-2", "two").acquire()) == 1
    assert lease_holder(tmp_path, "a") is None
    assert lease_holder(tmp_path, "never leased") is None


@pytest.mark.processes
def test_a_lease_goes_on_in_a_child_that_has_the_descriptor(tmp_path: Path) -> None:
    """What was handed over stays locked when it is given back here, and is free when the child dies."""
    leases = Leases(tmp_path, ["a"], "run-1", "one")
    leases.acquire()
    child = subprocess.Popen(["sleep", "60"], pass_fds=leases.descriptors)
    try:
        leases.release()
        assert lease_holder(tmp_path, "a") is not None
    finally:
        child.kill()
        child.wait()
    assert lease_holder(tmp_path, "a") is None


def test_a_device_that_is_not_needed_any_more_is_free(tmp_path: Path) -> None:
    """The others stay held, and one that is needed again is taken again."""
    leases = Leases(tmp_path, ["a", "b", "c"], "run-1", "one")
    leases.acquire()
    leases.narrow(["a", "c"])
    assert leases.held
    assert [lease_holder(tmp_path, device) is None for device in "abc"] == [False, True, False]
    other = Leases(tmp_path, ["b"], "run-2", "two")
    other.acquire()
    leases.narrow(["a", "b"])
    assert [(held["device"], held["run_id"]) for held in leases.acquire()] == [("b", "run-2")]
    assert lease_holder(tmp_path, "a") is not None
    other.release()
    assert leases.acquire() == []
    assert leases.held


def test_an_agent_goes_on_with_the_leases_that_it_is_given(tmp_path: Path) -> None:
    """In whatever order, and with fewer than all where the gang has become smaller."""
    first = Leases(tmp_path, ["a", "b", "c"], "run-1", "one")
    first.acquire()
    passed = [os.dup(descriptor) for descriptor in first.descriptors]
    first.release()
    os.close(passed.pop(1))
    second = Leases(tmp_path, ["a", "b", "c"], "run-1", "one")
    second.keep(passed[::-1])
    assert not second.held
    assert [lease_holder(tmp_path, device) is None for device in "abc"] == [False, True, False]
    second.release()
    assert lease_holder(tmp_path, "a") is None


def test_a_damaged_lease_file_still_locks(tmp_path: Path) -> None:
    """Its content is only for people."""
    leases = Leases(tmp_path, ["a"], "run-1", "one")
    leases.acquire()
    lease_path(tmp_path, "a").write_text("{")
    holder = lease_holder(tmp_path, "a")
    assert holder == {"run_id": "unknown", "name": "unknown", "device": "a"}


def test_a_device_key_cannot_leave_the_folder(tmp_path: Path) -> None:
    """Only plain characters make the file's name."""
    assert lease_path(tmp_path, "../../etc/x").parent == tmp_path
    assert os.sep not in lease_path(tmp_path, "a/b").name


def test_no_devices_need_no_lease(tmp_path: Path) -> None:
    """CPU ranks share."""
    leases = Leases(tmp_path / "leases", [], "run-1", "one")
    assert leases.held
    assert leases.acquire() == []


@pytest.mark.processes
def test_hosts_that_share_a_home_do_not_share_a_device_without_a_uuid(tmp_path: Path) -> None:
    """Both have a device 0, and each its own; a UUID is one device wherever it is asked for."""
    first = Leases(tmp_path, ["0", "GPU-1"], "run-1", "one")
    assert first.acquire() == []
    code = (
        "import sys; from pathlib import Path\n"
        "from torchdeck.agent.leases import lease_holder\n"
        "print([lease_holder(Path(sys.argv[1]), key) is not None for key in ('0', 'GPU-1')])"
    )
    python = [sys.executable, "-c", code, str(tmp_path)]
    here = subprocess.run(python, capture_output=True, text=True, check=True, timeout=30)
    assert here.stdout == "[True, True]\n"
    other = [
        "unshare",
        "--uts",
        "--map-root-user",
        "sh",
        "-c",
        'hostname another && exec "$@"',
        "sh",
        *python,
    ]
    there = subprocess.run(other, capture_output=True, text=True, check=False, timeout=30)
    if there.returncode != 0:
        pytest.skip(f"no other host name can be had here: {there.stderr.strip()}")
    assert there.stdout == "[False, True]\n"
