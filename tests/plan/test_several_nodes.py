"""What a plan says where there are several nodes, and that plans of one node are what they were."""

from __future__ import annotations

import dataclasses
import json

import pytest

from support.values.machines import config, node, plan
from torchdeck.contract.inventory import NodeInfo
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.policy import Policy

TWO = (node("a"), node("b"))
ON_TWO = {"nodes": ["a", "b"], "nproc": 1, "devices": "cpu"}


def with_interface(machine: NodeInfo, interface: str) -> NodeInfo:
    return dataclasses.replace(machine, interface=interface)


def test_each_node_has_its_own_interface_and_its_name() -> None:
    """One value for all nodes would break mixed clusters."""
    made = plan(config(distributed=ON_TWO), with_interface(TWO[0], "eth0"), with_interface(TWO[1], "ib@{0"))
    for part, interface in zip(made.nodes, ("eth0", "ib@@{0"), strict=True):
        assert part.env["GLOO_SOCKET_IFNAME"] == part.env["NCCL_SOCKET_IFNAME"] == interface
        assert part.env["TORCHDECK_NODE"] == part.name


def test_the_users_own_interface_stays() -> None:
    """What [run.env] says counts more than what was found out."""
    asked = config({"script": "/code/train.py", "env": {"NCCL_SOCKET_IFNAME": "mine"}}, distributed=ON_TWO)
    made = plan(asked, *(with_interface(machine, "eth0") for machine in TWO))
    assert {part.env["NCCL_SOCKET_IFNAME"] for part in made.nodes} == {"mine"}
    assert {part.env["GLOO_SOCKET_IFNAME"] for part in made.nodes} == {"eth0"}


def test_ranks_of_one_node_meet_on_the_loopback_interface() -> None:
    """Whatever interface leads to other nodes; what [run.env] says wins."""
    env = plan(None, with_interface(node(), "eth0")).nodes[0].env
    assert env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"] == "lo"
    assert "TORCHDECK_NODE" not in env
    own = config(run={"script": "/code/train.py", "env": {"NCCL_SOCKET_IFNAME": "ib0"}})
    assert plan(own, with_interface(node(), "eth0")).nodes[0].env["NCCL_SOCKET_IFNAME"] == "ib0"


def test_an_older_plan_keeps_its_fingerprint() -> None:
    """A plan from before there were several nodes says nothing of them, and is read with what is usual."""
    document = plan().document()
    assert not {"node_grace", "node_silent", "unattended", "lost_after"} & set(document["policy"])
    assert LaunchPlan.from_json(json.loads(json.dumps(document))).policy == plan().policy


@pytest.mark.parametrize(
    "policy",
    [
        Policy(node_grace=3.0),
        Policy(node_silent=1.0),
        Policy(unattended="continue"),
        Policy(lost_after=600.0),
    ],
)
def test_what_is_not_usual_stands_in_the_plan(policy: Policy) -> None:
    """And comes back."""
    made = dataclasses.replace(plan(), policy=policy)
    assert made.fingerprint != plan().fingerprint
    assert LaunchPlan.from_json(json.loads(json.dumps(made.document()))) == made


def test_the_run_file_says_what_a_silent_node_leads_to() -> None:
    """[launch] node_grace and unattended."""
    asked = config(launch={"node_grace": 5.0, "unattended": "continue"}, distributed=ON_TWO)
    assert (plan(asked, *TWO).policy.node_grace, plan(asked, *TWO).policy.unattended) == (5.0, "continue")
    lost = config(launch={"lost_after": 3600.0}, distributed=ON_TWO)
    assert (plan(lost, *TWO).policy.lost_after, plan(asked, *TWO).policy.lost_after) == (3600.0, None)


def test_a_plan_names_secrets_and_holds_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values come over a pipe when it is launched."""
    monkeypatch.setenv("THE_KEY", "canary-of-the-plan")
    made = plan(
        config({"script": "/code/train.py", "secrets": ["THE_KEY"]}),
        environ={"THE_KEY": "canary-of-the-plan"},
    )
    assert made.nodes[0].secrets == ("THE_KEY",)
    assert "canary-of-the-plan" not in json.dumps(made.document())


def test_a_limit_of_the_node_book_that_lowers_a_named_number_is_said() -> None:
    """Not where the run names no number, or none above it."""
    limited = [dataclasses.replace(machine, max_ranks=2) for machine in (*TWO, node("c"))]
    three = {"nodes": ["a", "b", "c"], "devices": "cpu"}
    limited[0] = dataclasses.replace(limited[0], max_ranks=4)
    made = plan(config(distributed={**three, "nproc": 4}), *limited)
    assert [part.nproc for part in made.nodes] == [4, 2, 2]
    assert made.warnings[0] == (
        "b and 1 more node run 2 of the 4 ranks that distributed.nproc requests, "
        "the limit of max_ranks in the node inventory"
    )
    for other in (three, {**three, "nproc": 2}):
        assert not any("max_ranks" in said for said in plan(config(distributed=other), *limited).warnings)


def test_a_script_that_may_live_on_beside_a_smaller_gang_is_warned_of() -> None:
    """Our checkpoints are guarded against that, and a script's own files are not."""
    ranged = {"nodes": "1:2", "nproc": 1, "devices": "cpu"}
    go_on = {"unattended": "continue"}
    recipe = {"distributed": ranged, "launch": go_on, "training": {"steps": 8}}
    asked = {
        "guarded": plan(config({"recipe": "digits"}, **recipe), *TWO),
        "ends": plan(config(distributed=ranged), *TWO),
        "all or none": plan(config(distributed=ON_TWO, launch=go_on), *TWO),
        "": plan(config(distributed=ranged, launch=go_on), *TWO),
    }
    warned = {
        name: any("cut off continue in parallel" in said for said in made.warnings)
        for name, made in asked.items()
    }
    assert warned == {"guarded": False, "ends": False, "all or none": False, "": True}
