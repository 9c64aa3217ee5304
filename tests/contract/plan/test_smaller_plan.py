"""What a run continues with when ranks are lost: the plan of so many ranks, but for who is left out."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.values.machines import byte_gpt, config, node, plan
from support.values.previews import preview
from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.elastic import Elastic, Place, Roster, smaller_plan
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.check import PlanError
from torchdeck.plan.node_commands import RANK_ORDER

NAMES = ["n0", "n1", "n2"]
MACHINES = [{"name": "n[0-2]", "cores": 12}]


def shrunk(made: LaunchPlan, *left_out: Place) -> LaunchPlan:
    roster = Elastic.of_plan(made).without(left_out)
    assert roster is not None
    return smaller_plan(made, roster)


def asked(accumulation: int, backend: str, **distributed: Any) -> RunConfig:
    return byte_gpt(
        training={"steps": 10, "lr": 0.1, "scaling": "linear", "accumulation": accumulation},
        distributed={**distributed, "rendezvous": {"backend": backend}},
        cluster={"nodes": MACHINES},
        launch={"trusted_network": True},
    )


@settings(deadline=None)
@given(
    nodes=st.integers(1, 3),
    nproc=st.integers(1, 4),
    fewer=st.integers(1, 4),
    lost=st.sets(st.sampled_from(NAMES)),
    gpus=st.sampled_from([0, 4]),
    accumulation=st.integers(1, 5),
    backend=st.sampled_from(["static", "c10d"]),
)
def test_a_smaller_plan_is_the_plan_of_so_many_ranks(
    nodes: int, nproc: int, fewer: int, lost: set[str], gpus: int, accumulation: int, backend: str
) -> None:
    """Losing whole nodes and the last ranks leaves exactly what is executed when so many are asked for."""
    kept = [name for name in NAMES[:nodes] if name not in lost]
    assume(kept)
    assume(fewer <= nproc)
    machines = [node(name, gpus, cores=12) for name in NAMES[:nodes]]
    full = plan(asked(accumulation, backend, nproc=f"1:{nproc}", nodes=f"1:{nodes}"), *machines)
    places = [Place(name, None) for name in NAMES[:nodes] if name in lost]
    places += [Place(kept[0], local) for local in range(fewer, nproc)]
    roster = Elastic.of_plan(full).without(places)
    assert roster is not None
    count, ranks = len(roster.nodes), len(roster.local_ranks[0])
    assert roster.world_size >= len(kept) * fewer
    made = smaller_plan(full, roster)
    again = -(-accumulation * nproc * nodes // (count * ranks))
    other = plan(asked(again, backend, nproc=ranks, nodes=list(roster.nodes)), *machines)
    assert made.ranks == other.ranks
    for ours, theirs in zip(made.nodes, other.nodes, strict=True):
        assert _but_lr(ours.env) == _but_lr(theirs.env)
        assert dataclasses.replace(ours, env={}) == dataclasses.replace(theirs, env={})
    _assert_arithmetic(full, made)


def _but_lr(env: Any) -> dict[str, Any]:
    """An environment, its learning rate left out: that of a run that began smaller is for another batch."""
    recipe = json.loads(env["TORCHDECK_RECIPE"])
    recipe["training"].pop("scaled_lr")
    return {**env, "TORCHDECK_RECIPE": recipe}


def _assert_arithmetic(full: LaunchPlan, made: LaunchPlan) -> None:
    """The global batch is kept, or is the next one that can be divided and is said to be another."""
    before, after = full.batch, made.batch
    assert before is not None
    assert after is not None
    assert after.global_batch == after.microbatch * after.accumulation * made.world_size
    assert 0 <= after.global_batch - before.global_batch < after.microbatch * made.world_size
    told = json.loads(made.nodes[0].env["TORCHDECK_RECIPE"])["training"]
    assert (told["accumulation"], told["scaled_lr"]) == (after.accumulation, after.scaled_lr)
    ratio = after.global_batch / before.global_batch
    assert after.scaled_lr == pytest.approx(before.scaled_lr * ratio)
    if made.world_size == full.world_size:
        return
    said = [warning for warning in made.warnings if "global batch" in warning]
    if ratio == 1:
        assert (after.scaled_lr, said) == (before.scaled_lr, [])
    else:
        (warning,) = said
        assert f"is {after.global_batch} samples in place of {before.global_batch}:" in warning
        assert warning in full.warnings


def test_the_failed_ranks_device_is_left_out() -> None:
    """Whoever is lost, the others keep their devices, in their order, under new ranks."""
    full = plan(byte_gpt(distributed={"nproc": "1:3"}), node("localhost", gpus=3))
    made = shrunk(full, Place("localhost", 1))
    part = made.nodes[0]
    assert part.devices == ("GPU-localhost-0", "GPU-localhost-2")
    assert part.env["CUDA_VISIBLE_DEVICES"] == "GPU-localhost-0,GPU-localhost-2"
    assert [(rank.rank, rank.local_rank, rank.device) for rank in made.ranks] == [
        (0, 0, "cuda:0"),
        (1, 1, "cuda:2"),
    ]
    assert (made.world_size, made.smaller) == (2, ())


def test_the_plan_of_everybody_is_itself() -> None:
    """Nothing lost: the plan without its other sizes."""
    full = plan(byte_gpt(distributed={"nproc": "1:3"}))
    assert shrunk(full) == dataclasses.replace(full, smaller=())
    assert plan(byte_gpt(distributed={"nproc": 3})).nodes == full.nodes


def test_where_one_node_lost_a_rank_the_others_leave_out_their_last() -> None:
    """As many ranks on every node; one that stands idle comes in for the next that is lost beside it."""
    elastic = Elastic([("a", 3), ("b", 3)], [(2, 2), (1, 3)])
    once = elastic.without([Place("a", 0)])
    assert once == Roster(("a", "b"), ((1, 2), (0, 1)))
    twice = elastic.without([Place("a", 0), Place("b", 0)])
    assert twice == Roster(("a", "b"), ((1, 2), (1, 2)))
    assert elastic.without([Place("b", None)]) == Roster(("a",), ((0, 1, 2),))
    assert elastic.without([Place("a", 0), Place("a", 1)]) == Roster(("b",), ((0, 1, 2),))
    assert elastic.without([Place("a", 0), Place("a", 1), Place("b", 0), Place("b", 1)]) is None


def test_without_a_range_nothing_may_be_lost() -> None:
    """There is one size, and no other part of the plan."""
    made = plan(byte_gpt(distributed={"nproc": 3}))
    assert made.smaller == ()
    assert "smaller" not in made.document()
    assert Elastic.of_plan(made).without([Place("localhost", 0)]) is None


def test_sizes_survive_the_plans_file_and_count_in_its_fingerprint() -> None:
    """plan.json has them; what is executed at them is part of what was agreed to, their warnings are not."""
    made = plan(byte_gpt(distributed={"nproc": "1:3"}))
    document = made.document()
    assert LaunchPlan.from_json(json.loads(json.dumps(document))) == dataclasses.replace(
        made, warnings=made.warnings
    )
    assert plan(byte_gpt(distributed={"nproc": "2:3"})).fingerprint != made.fingerprint
    quiet = [dataclasses.replace(size, warnings=()) for size in made.smaller]
    assert dataclasses.replace(made, smaller=tuple(quiet)).fingerprint == made.fingerprint


def test_sizes_that_hsdp_cannot_divide_are_left_out_and_said() -> None:
    """Groups of two ranks: of four ranks one goes to two, never to three."""
    hsdp = {"strategy": "hsdp", "hsdp": {"shard": 2}}
    made = plan(byte_gpt(distributed={**hsdp, "nproc": "1:4"}))
    assert [size.world_size for size in made.smaller] == [2]
    assert any("sizes of 3, 1 ranks are left out" in warning for warning in made.warnings)
    assert shrunk(made, Place("localhost", 0)).world_size == 2


def test_a_batch_plan_that_ends_early_at_a_smaller_size_is_refused() -> None:
    """Steps of four microbatches use it up before steps of three do; it is said with how many ranks."""
    made = build_batch_plan(np.full(120, 8), token_budget=64, epochs=1)
    training = {"steps": -(-made.microbatches(0) // 3)}
    assert preview(gpus=3, batch_plan=made, training=training, distributed={"nproc": 3}).plan.smaller == ()
    with pytest.raises(PlanError, match="with the 2 ranks that it may shrink to, steps is"):
        preview(gpus=3, batch_plan=made, training=training, distributed={"nproc": "2:3"})


def test_nodes_of_a_range_have_as_many_ranks() -> None:
    """How many ranks are left when one of them is lost must not depend on which."""
    cluster = {"nodes": [{"name": "n[0-1]"}]}
    with pytest.raises(PlanError, match="must have as many ranks each: n0 has 2, n1 has 1"):
        plan(config(distributed={"nodes": "1:2"}, cluster=cluster), node("n0", gpus=2), node("n1", gpus=1))


def test_a_script_under_c10d_may_begin_with_fewer_nodes_and_a_recipe_may_not() -> None:
    """A recipe's arithmetic is of one world size; rank order is not guaranteed in either, and it is said."""
    machines = [node(name) for name in NAMES]
    tables: dict[str, Any] = {
        "distributed": {"nodes": "1:3", "rendezvous": {"backend": "c10d", "port": 29511}},
        "cluster": {"nodes": MACHINES},
        "launch": {"trusted_network": True},
    }
    for made, nnodes in (
        (plan(config(**tables), *machines), "1:3"),
        (plan(byte_gpt(**tables), *machines), "3"),
    ):
        argv = made.nodes[1].torchrun
        assert argv[argv.index("--nnodes") + 1] == nnodes
        assert argv[argv.index("--rdzv-endpoint") + 1] == "n0.test:29511"
        assert argv[argv.index("--rdzv-conf") + 1] == "is_host=0"
        assert argv[argv.index("--local-addr") + 1] == "n1.test"
        assert argv[argv.index("--max-restarts") + 1] == "0"
        assert "--master-addr" not in argv
        assert made.nodes[0].env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
        assert RANK_ORDER in made.warnings


def test_under_c10d_nodes_are_expected_in_the_order_of_their_addresses() -> None:
    """As texts: 10.0.0.10 comes before 10.0.0.9."""
    first, second = (
        dataclasses.replace(node(name), address=address)
        for name, address in (("a", "10.0.0.9"), ("b", "10.0.0.10"))
    )
    distributed = {"nodes": ["a", "b"], "rendezvous": {"backend": "c10d"}}
    made = plan(config(distributed=distributed, launch={"trusted_network": True}), first, second)
    assert [part.name for part in made.nodes] == ["b", "a"]
