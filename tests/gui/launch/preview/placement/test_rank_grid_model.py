"""What stands on the board."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.values.machines import PYTHON
from support.values.previews import machines, memory, preview, with_memory
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.facts.node_facts import inventory_from
from torchdeck.plan.known import Known
from torchdeck.plan.planner import make_plan
from torchdeck.plan.preview import Preview, make_preview
from torchdeck_app.launch.preview.placement.grid_layout import Detail
from torchdeck_app.launch.preview.placement.grid_legend import entries
from torchdeck_app.launch.preview.placement.selection_facts import placed_facts, run_facts
from torchdeck_app.launch.preview.rank_grid_model import board_model, merged_order
from torchdeck_app.theme.theme import Theme


def described(tables: dict[str, list[dict[str, object]]], **distributed: object) -> tuple[Preview, Inventory]:
    """A preview of a run on described machines."""
    config = config_from_dict(
        {
            "run": {"recipe": "byte-gpt"},
            "training": {"steps": 10},
            "cluster": tables,
            "distributed": distributed,
        },
        "/code",
    )
    inventory = inventory_from(config.cluster)
    chosen = [node.name for node in inventory] if "nodes" not in distributed else config.distributed.nodes
    config = config.model_copy(
        update={"distributed": config.distributed.model_copy(update={"nodes": chosen})}
    )
    interpreters = {node.name: PYTHON for node in inventory}
    plan = make_plan(config, inventory, CodeTree(), interpreters=interpreters)
    return make_preview(config, plan, inventory), inventory


def test_every_rank_is_on_the_board_once_with_its_memory() -> None:
    made = with_memory(preview(3, 4), memory(0, 7, peak=40), memory(8, 11, peak=90, verdict="does not fit"))
    model = board_model(made, machines(3, 4))
    slots = [slot for node in model.nodes for slot in node.slots]
    assert [slot.rank for slot in slots] == list(range(12))
    assert [slot.device for slot in model.nodes[1].slots] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert slots[0].need is not None
    assert slots[0].need.share == 0.5
    assert [slot.need.verdict for slot in slots if slot.need is not None].count("does not fit") == 4


def test_machines_and_devices_that_are_not_used_stand_there_too() -> None:
    tables: dict[str, list[dict[str, object]]] = {
        "nodes": [
            {"name": "a[0-2]", "gpus": 4, "gpu": "H100", "devices": [1, 3]},
            {"name": "b", "gpus": 2, "gpu": "H100"},
        ]
    }
    model = board_model(*described(tables, nodes=["b", "a0", "a2"]))
    assert [(node.name, node.is_on) for node in model.nodes] == [
        ("b", True),
        ("a0", True),
        ("a1", False),
        ("a2", True),
    ]
    assert [slot.rank for slot in model.nodes[1].slots] == [None, 2, None, 3]
    assert [slot.rank for slot in model.nodes[2].slots] == [None] * 4
    assert [node.entry for node in model.nodes] == [1, 0, 0, 0]


def test_ranks_on_the_cpu_have_a_slot_each_beside_the_idle_gpus() -> None:
    made = preview(1, 2, distributed={"devices": "cpu", "nproc": 3})
    (node,) = board_model(made, machines(1, 2)).nodes
    assert [(slot.device, slot.rank) for slot in node.slots] == [
        ("cpu", 0),
        ("cpu", 1),
        ("cpu", 2),
        ("cuda:0", None),
        ("cuda:1", None),
    ]


def test_groups_that_shard_and_ranks_that_replicate_each_other() -> None:
    model = board_model(preview(2, 4, distributed={"strategy": "hsdp"}), machines(2, 4))
    assert (model.shard, model.groups) == (4, 2)
    assert list(model.group_of(5)) == [4, 5, 6, 7]
    assert list(model.replicas_of(5)) == [1, 5]
    assert [slot.group for node in model.nodes for slot in node.slots] == [0] * 4 + [1] * 4


NAMES = st.lists(st.integers(0, 30).map(lambda number: f"n{number}"), unique=True, max_size=15)


@given(NAMES, st.data())
def test_what_is_switched_off_keeps_its_place(names: list[str], data: st.DataObject) -> None:
    on = [name for name in names if data.draw(st.booleans())]
    assert merged_order(on, names) == names
    shuffled = data.draw(st.permutations(on))
    merged = merged_order(shuffled, names)
    assert sorted(merged) == sorted(names)
    assert [name for name in merged if name in on] == shuffled


def test_of_a_script_nothing_is_said_of_a_model(theme: Theme) -> None:
    """No one knows what it trains; of a recipe that may not be traced it is not known either."""
    untrusted = preview(1, 2, known=Known())
    for made, said in ((preview(1, 2), True), (untrusted, False)):
        model = board_model(made, machines(1, 2))
        facts = {fact.name: fact.value for fact in run_facts(model)}
        assert facts["model"] == ("all of it on each" if said else "–")
        slot = placed_facts(model, model.nodes[0].slots[0])
        assert [fact.value for fact in slot if fact.name == "model"] == ["all of it" if said else "–"]
        texts = [entry.text for entry in entries(model, theme, Detail.WORDS)]
        assert ("each rank holds the whole model" in texts) is said
    sharded = board_model(preview(1, 2, known=Known(), distributed={"strategy": "fsdp"}), machines(1, 2))
    assert {fact.name: fact.value for fact in run_facts(sharded)}["model"] == "in 2 parts"
