"""Nodes that do not answer at the start, and spare nodes that take the place of others."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.machines import byte_gpt, config, node, plan
from torchdeck.contract.plan.elastic import Elastic, Place, Roster, smaller_plan
from torchdeck.contract.plan.launch_plan import AbsentNode, LaunchPlan
from torchdeck.plan.check import PlanError
from torchdeck.plan.sizes import begun_without

NAMES = ["n0", "n1", "n2", "s0", "s1"]
CLUSTER: dict[str, Any] = {"cluster": {"nodes": [{"name": "n[0-2]"}, {"name": "s[0-1]"}]}}
TWO_SPARES = Elastic([("a", 2), ("b", 2)], (), [("s", 2), ("t", 2)])


def lost(*nodes: str) -> list[Place]:
    return [Place(node, None) for node in nodes]


def planned(gpus: int = 0, **distributed: Any) -> LaunchPlan:
    training = {"steps": 10, "accumulation": 2}
    asked = byte_gpt(training=training, distributed={"nproc": 2, **distributed}, **CLUSTER)
    return plan(asked, *(node(name, gpus) for name in NAMES))


@settings(deadline=None)
@given(st.lists(st.sampled_from(NAMES), max_size=2, unique=True), st.sampled_from([0, 4]))
def test_a_plan_with_a_spare_in_it_is_the_plan_of_these_nodes(gone: list[str], gpus: int) -> None:
    """Whichever nodes are lost, in any order: what is executed is what a plan of the others says."""
    full = planned(gpus, nodes=NAMES, spare=2)
    assert [part.name for part in full.nodes] == NAMES[:3]
    assert [part.name for part in full.spares] == NAMES[3:]
    roster = Elastic.of_plan(full).without(lost(*gone))
    assert roster is not None
    assert roster.world_size == full.world_size
    assert not set(gone) & set(roster.nodes)
    made = smaller_plan(full, roster)
    other = planned(gpus, nodes=list(roster.nodes))
    assert (made.nodes, made.ranks, made.batch) == (other.nodes, other.ranks, other.batch)
    assert (made.spares, made.spare_ranks, made.absent) == ((), (), ())


def test_a_spare_keeps_its_place() -> None:
    """Whatever is lost after; and one that is lost before it was needed is not taken."""
    assert TWO_SPARES.without(lost("b")) == Roster(("a", "s"), ((0, 1), (0, 1)))
    assert TWO_SPARES.without(lost("b", "a")) == Roster(("t", "s"), ((0, 1), (0, 1)))
    assert TWO_SPARES.without(lost("s", "b")) == Roster(("a", "t"), ((0, 1), (0, 1)))
    assert TWO_SPARES.without(lost("b", "s")) == Roster(("a", "t"), ((0, 1), (0, 1)))
    assert TWO_SPARES.without(lost("b", "s", "t")) is None


def test_a_node_that_lost_a_device_is_replaced_whole() -> None:
    """As many ranks as before come before fewer ranks; without a spare the others leave one out, too."""
    assert TWO_SPARES.without([Place("a", 1)]) == Roster(("s", "b"), ((0, 1), (0, 1)))
    one = Elastic([("a", 2), ("b", 2)], [(2, 1)], [("s", 2)])
    assert one.without([Place("a", 1)]) == Roster(("s", "b"), ((0, 1), (0, 1)))
    assert one.without([Place("a", 1), Place("b", 0)]) == Roster(("a", "b"), ((0,), (1,)))


def test_a_range_has_its_spares_beside() -> None:
    """So many more machines; a lost node is replaced first, and done without when no spare is left."""
    made = planned(nodes="2:3", spare=1)
    assert [part.name for part in (*made.nodes, *made.spares)] == ["n0", "n1", "n2", "s0"]
    elastic = Elastic.of_plan(made)
    for gone, kept in ((["n1"], ("n0", "s0", "n2")), (["n1", "n2"], ("n0", "s0"))):
        roster = elastic.without(lost(*gone))
        assert roster is not None
        assert roster.nodes == kept


def test_what_does_not_fit_is_said() -> None:
    """Nothing but spares, a range that too few machines are known for, and a spare with other ranks."""
    for wrong, distributed in (
        ("5 of 5 nodes would be spare: no node is left for ranks", {"nodes": NAMES, "spare": 5}),
        ("at least 6 nodes are requested, but only 5 are known", {"nodes": "6:7"}),
    ):
        with pytest.raises(PlanError, match=wrong):
            plan(config(distributed=distributed), *(node(name) for name in NAMES))
    asked = config(distributed={"nodes": ["n0", "n1"], "spare": 1})
    with pytest.raises(PlanError, match="all must have as many ranks each: n0 has 2, n1 has 1"):
        plan(asked, node("n0", gpus=2), node("n1", gpus=1))


def test_a_spare_with_less_memory_is_told() -> None:
    """What fits the others may not fit it."""
    machines = [node("n0", gpus=1), node("n1", gpus=1)]
    asked = config(distributed={"nodes": ["n0", "n1"], "spare": 1})
    said = "n1 has GPUs with less memory than those of the nodes that it may replace"
    assert not any(text.startswith(said) for text in plan(asked, *machines).warnings)
    small = dataclasses.replace(machines[1].devices[0], memory_bytes=2**29)
    machines[1] = dataclasses.replace(machines[1], devices=(small,))
    assert any(text.startswith(said) for text in plan(asked, *machines).warnings)


def test_spares_survive_the_plans_file_and_count_in_its_fingerprint() -> None:
    """They are part of what was agreed to; that a node was left out is not, and changes nothing."""
    made = planned(gpus=2, nodes=NAMES[:3], spare=1)
    again = LaunchPlan.from_json(json.loads(json.dumps(made.document())))
    assert again == made
    assert made.node("n2") in made.spares
    assert planned(gpus=2, nodes=NAMES[:2]).fingerprint != made.fingerprint
    told = dataclasses.replace(made, absent=(AbsentNode("n9", "silent"),))
    assert told.fingerprint == made.fingerprint
    assert LaunchPlan.from_json(json.loads(json.dumps(told.document()))) == told


def test_a_rank_that_hangs_cannot_be_left_out_of_a_range_without_a_smaller_size() -> None:
    """launch.on_hang = "exclude" is refused when the plan is made, with the reason."""
    hangs = {"on_hang": "exclude"}
    nodes = [node(name, 0) for name in NAMES]
    for allowed, able in (("2:2", False), ("1:2", True)):
        asked = byte_gpt(
            training={"steps": 10}, distributed={"nproc": 2, "nodes": allowed}, launch=hangs, **CLUSTER
        )
        if able:
            assert plan(asked, *nodes).policy.on_hang == "exclude"
            continue
        with pytest.raises(PlanError, match="no rank or node can be left out"):
            plan(asked, *nodes)


@pytest.mark.parametrize(("nodes", "left"), [("1:3", [(1, 2)]), ("2:3", [])])
def test_a_run_that_begins_smaller_keeps_the_arithmetic_of_the_size_that_was_asked_for(
    nodes: str, left: list[tuple[int, int]]
) -> None:
    """Two of three nodes: the global batch of three, and the sizes below two to continue with."""
    full = planned(nodes=nodes)
    made = begun_without(full, [AbsentNode("n1", "n1: no one answers")], ["n1"])
    assert [part.name for part in made.nodes] == ["n0", "n2"]
    assert full.batch is not None
    assert made.batch is not None
    assert (made.batch.accumulation, made.batch.global_batch) == (3, full.batch.global_batch)
    assert [(size.nodes, size.nproc) for size in made.smaller] == left
    assert "node n1 is left out: n1: no one answers" in made.warnings
    again = LaunchPlan.from_json(json.loads(json.dumps(made.document())))
    assert again == made
    with pytest.raises(PlanError, match="every size of the range needs n1, n2, n0"):
        begun_without(full, [AbsentNode(name, "") for name in ("n1", "n2", "n0")], ["n1", "n2", "n0"])
