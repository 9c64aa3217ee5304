"""Who a process is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid

import pytest

from support.waiting import wait_until
from torchdeck.contract.processes import (
    RUN_ID_VARIABLE,
    ProcessIdentity,
    descendants,
    processes_of_run,
    read_stat,
    without_run_variables,
)


def test_an_identity_survives_json_and_names_only_its_process() -> None:
    """The same pid with another start time or boot is another process."""
    mine = ProcessIdentity.of(os.getpid())
    assert mine is not None
    assert ProcessIdentity.from_json(mine.to_json()) == mine
    assert mine.is_alive()
    for other in (mine._replace(start_ticks=mine.start_ticks + 1), mine._replace(boot="another")):
        assert not other.is_alive()
        assert not other.send(signal.SIGKILL)


@pytest.mark.parametrize("value", [None, 3, [], {}, {"pid": "x", "start_ticks": 1, "boot": "b"}, {"pid": 1}])
def test_what_is_no_identity_is_none(value: object) -> None:
    """Anything may stand in a file."""
    assert ProcessIdentity.from_json(value) is None


@pytest.mark.processes
def test_a_zombie_is_not_alive() -> None:
    """It has ended; only its parent has not asked."""
    child = subprocess.Popen(["sleep", "60"])
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    assert identity.send(signal.SIGKILL)
    wait_until(lambda: not identity.is_alive(), 5, "the child to end")
    stat = read_stat(child.pid)
    assert stat is not None
    assert stat.state == "Z"
    child.wait()
    assert read_stat(child.pid) is None
    assert not identity.send(signal.SIGKILL)


@pytest.mark.processes
def test_processes_are_found_by_run_id_and_by_tree() -> None:
    """In sessions of their own, and only with exactly this id."""
    run_id = uuid.uuid4().hex
    program = (
        "import subprocess, time; subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)"
    )
    env = {**os.environ, RUN_ID_VARIABLE: run_id}
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_ID_VARIABLE: run_id + "x"})
    parent = subprocess.Popen([sys.executable, "-c", program], env=env)
    try:
        found = wait_until(
            lambda: found if len(found := processes_of_run(run_id)) == 2 else [], 20, "parent and child"
        )
        assert {process.pid for process in found} == {
            parent.pid,
            *(child.pid for child in descendants(parent.pid)),
        }
        assert [process.pid for process in processes_of_run(run_id, exclude=[parent.pid])] != [parent.pid]
    finally:
        for process in processes_of_run(run_id):
            process.send(signal.SIGKILL)
        parent.wait()
        other.kill()
        other.wait()


def test_watchers_do_not_carry_a_runs_variables() -> None:
    """All else stays, TORCHDECK_HOME too."""
    environ = {"TORCHDECK_HOME": "/h", "PATH": "/bin", RUN_ID_VARIABLE: "r", "TORCHDECK_RUN_DIR": "/r"}
    assert without_run_variables(environ) == {"TORCHDECK_HOME": "/h", "PATH": "/bin"}
