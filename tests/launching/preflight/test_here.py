"""What this machine's system allows a run of its own."""

import pytest

from support.values.machines import byte_gpt, plan
from torchdeck.agent.probe.system import memory_facts
from torchdeck.launching.preflight.devices_in_use import check_here
from torchdeck.launching.preflight.disk_space import LEAST_SHARED_MEMORY, check_shared_memory


def test_shared_memory_and_login_of_this_machine_are_looked_at() -> None:
    """As of every node; by what the system says of itself."""
    made = plan(byte_gpt(distributed={"nproc": 2, "devices": "cpu"}))
    memory, login = check_here(made, "localhost")
    assert (memory.name, login.name) == ("shared memory", "login")
    assert (memory.status == "ok") == (memory_facts()["shm_free"] >= 2 * LEAST_SHARED_MEMORY)
    assert (login.fix == "") == (login.status == "ok")
    assert [check.name for check in check_here(made, "another")] == ["login"]


@pytest.mark.parametrize(
    ("nproc", "free", "status", "said"),
    [
        (2, 2 * LEAST_SHARED_MEMORY, "ok", "128.0 MiB of shared memory free"),
        (2, 2 * LEAST_SHARED_MEMORY - 1, "warning", "2 ranks want 128.0 MiB"),
        (1, 0, "warning", "its rank wants 64.0 MiB"),
    ],
)
def test_each_rank_wants_its_share(nproc: int, free: int, status: str, said: str) -> None:
    """A container's 64 MiB are enough for one rank."""
    check = check_shared_memory("a", nproc, free)
    assert check.status == status
    assert said in check.what
    assert ("--shm-size" in check.fix) == (status == "warning")
