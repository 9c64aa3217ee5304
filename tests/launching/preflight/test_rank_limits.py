"""Limits and variables that ranks inherit, against what the run needs."""

import dataclasses

import pytest

from support.values.machines import byte_gpt, plan
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.launching.preflight.rank_limits import (
    FILES_PER_PEER,
    LOCKED_PER_RANK,
    OWN_FILES,
    check_limits,
    files_wanted,
)
from torchdeck.launching.preflight.rank_variables import check_variables, uses_rdma, variables_of
from torchdeck.nodes.probe.facts import Limit, Limits
from torchdeck.plan.check import Check

PLAN = plan(byte_gpt(distributed={"nproc": 2, "devices": "cpu"}))
NODE = PLAN.nodes[0]
UNLIMITED = Limit(soft=None, hard=None)


def limits(files: Limit = UNLIMITED, locked: Limit = UNLIMITED) -> Limits:
    return Limits(open_files=files, locked_memory=locked)


def test_files_grow_with_the_world() -> None:
    assert files_wanted(1) == OWN_FILES
    assert files_wanted(1000) == OWN_FILES + 999 * FILES_PER_PEER


@pytest.mark.parametrize(
    ("files", "status", "fix"),
    [
        (Limit(soft=None, hard=None), "ok", ""),
        (Limit(soft=files_wanted(2), hard=files_wanted(2)), "ok", ""),
        (Limit(soft=files_wanted(2) - 1, hard=2**20), "warning", "`ulimit -n 65536` in the shell"),
        (Limit(soft=100, hard=1000), "warning", "`* - nofile 65536` in /etc/security/limits.conf"),
    ],
)
def test_open_files(files: Limit, status: str, fix: str) -> None:
    """The shell can raise a limit up to the hard one only."""
    check, _ = check_limits(PLAN, NODE, limits(files), rdma=False)
    assert (check.name, check.status) == ("open files", status)
    assert fix in check.fix
    assert ("ulimit -n" in check.fix) == (status == "warning" and files.hard == 2**20)


@pytest.mark.parametrize(
    ("soft", "rdma", "status"),
    [
        (2**23, False, "ok"),
        (2**23, True, "warning"),
        (2 * LOCKED_PER_RANK, True, "ok"),
        (None, True, "ok"),
    ],
)
def test_locked_memory_matters_to_infiniband_alone(soft: int | None, status: str, *, rdma: bool) -> None:
    _, check = check_limits(PLAN, NODE, limits(locked=Limit(soft=soft, hard=soft)), rdma=rdma)
    assert (check.name, check.status) == ("locked memory", status)
    assert ("memlock" in check.fix) == (status == "warning")


def test_infiniband_is_used_between_nodes_by_nccl() -> None:
    """Not on one node, by gloo, without a device, or when it is off."""
    two = dataclasses.replace(PLAN, backend="nccl", nodes=(NODE, dataclasses.replace(NODE, name="b")))
    assert uses_rdma(two, {}, ["mlx5_0"])
    assert not uses_rdma(two, {}, [])
    assert not uses_rdma(two, {"NCCL_IB_DISABLE": "1"}, ["mlx5_0"])
    assert not uses_rdma(two, {"NCCL_NET": "Socket"}, ["mlx5_0"])
    assert not uses_rdma(dataclasses.replace(two, backend="gloo"), {}, ["mlx5_0"])
    assert not uses_rdma(PLAN, {}, ["mlx5_0"])


def test_the_plan_wins_over_the_session() -> None:
    """What the plan unsets is gone; a value with a slot is not judged."""
    node = dataclasses.replace(
        NODE,
        env={"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "@{run_dir}/nccl", "GLOO_X": "a@@{b", "PATH": "/bin"},
        unset=("NCCL_NET",),
    )
    environ = {"NCCL_DEBUG": "TRACE", "NCCL_NET": "IB", "NCCL_ALGO": "Ring", "HOME": "/root"}
    assert variables_of(node, environ) == {"NCCL_DEBUG": "WARN", "GLOO_X": "a@{b", "NCCL_ALGO": "Ring"}


def test_variables_of_a_node() -> None:
    """Nothing is said of the interface alone; other variables are listed or reported."""
    interfaces = ["lo", "eth0"]
    assert list(check_variables(PLAN, NODE, {}, interfaces=interfaces)) == []
    (fine,) = check_variables(PLAN, NODE, {"NCCL_DEBUG": "WARN"}, interfaces=interfaces)
    assert (fine.status, fine.name) == ("ok", "variables")
    assert "NCCL_DEBUG" in fine.what
    (bad,) = check_variables(PLAN, NODE, {"NCCL_BLOCKING_WAIT": "1"}, interfaces=interfaces)
    assert (bad.status, bad.page) == ("warning", "machines#limits-and-variables")
    wrong = dataclasses.replace(NODE, env={"GLOO_SOCKET_IFNAME": "ib0"})
    (gone,) = check_variables(PLAN, wrong, {}, interfaces=interfaces)
    assert gone.status == "failed"
    assert "ib0" in gone.what


def test_without_nccls_times_a_note_says_that_a_slow_gpu_is_not_named() -> None:
    """Once per run of several ranks on NCCL; nothing is changed."""
    other = dataclasses.replace(NODE, name="b")
    two = dataclasses.replace(PLAN, backend="nccl", nodes=(NODE, other))
    interfaces = ["lo", "eth0"]

    def notes(plan: LaunchPlan, node: NodePlan, **variables: str) -> list[Check]:
        found = check_variables(plan, node, variables, interfaces=interfaces)
        return [check for check in found if check.name == "stragglers"]

    (note,) = notes(two, NODE)
    assert (note.status, note.fix) == ("ok", "")
    assert "TORCH_NCCL_ENABLE_TIMING" in note.what
    assert notes(two, other) == notes(PLAN, NODE) == notes(two, NODE, TORCH_NCCL_ENABLE_TIMING="1") == []
