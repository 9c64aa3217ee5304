"""What clicks on the board ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.previews import machines, preview
from torchdeck.config.values.node_names import expand_all
from torchdeck_app.launch.preview.placement.placement_changes import (
    RefusedError,
    moved_node,
    shared_with,
    shortened,
    toggled_device,
    toggled_node,
)
from torchdeck_app.launch.preview.rank_grid_model import board_model

GPU_CLUSTER = {"nodes": [{"name": "n[0000-0003]", "gpus": 4, "memory": "80GiB"}]}


def test_a_node_goes_and_comes_back_in_its_place() -> None:
    made = preview(4, 2)
    everything = machines(4, 2)
    change = toggled_node(board_model(made, everything), made.config, 1)
    assert change == {"distributed.nodes": ["n0000", "n0002", "n0003"]}
    fewer = preview(4, 2, distributed={"nodes": change["distributed.nodes"]})
    assert toggled_node(board_model(fewer, everything), fewer.config, 1) == {
        "distributed.nodes": ["n[0000-0003]"]
    }


def test_one_node_is_left() -> None:
    made = preview(1, 2)
    with pytest.raises(RefusedError, match="n0000 is the only node of the run"):
        toggled_node(board_model(made, machines(1, 2)), made.config, 0)


def test_nodes_change_places() -> None:
    made = preview(3, 1)
    model = board_model(made, machines(3, 1))
    assert moved_node(model, made.config, 0, 2) == {"distributed.nodes": ["n0001", "n0000", "n0002"]}
    assert moved_node(model, made.config, 0, 3) == {"distributed.nodes": ["n0001", "n0002", "n0000"]}
    assert moved_node(model, made.config, 2, 0) == {"distributed.nodes": ["n0002", "n0000", "n0001"]}
    assert moved_node(model, made.config, 1, 1) == {}
    assert moved_node(model, made.config, 1, 2) == {}


def test_the_order_is_not_ours_to_say_where_nodes_meet_by_themselves() -> None:
    made = preview(2, 1, distributed={"rendezvous": {"backend": "c10d"}}, launch={"trusted_network": True})
    model = board_model(made, machines(2, 1))
    with pytest.raises(RefusedError, match="numbered by their addresses"):
        moved_node(model, made.config, 0, 2)


def test_a_range_of_nodes_is_not_replaced_by_a_click() -> None:
    made = preview(2, 1)
    config = made.config.model_copy(
        update={"distributed": made.config.distributed.model_copy(update={"nodes": "1:2"})}
    )
    with pytest.raises(RefusedError, match=r'"1:2" lets the launch choose; .* = \["n0000", "n0001"\]'):
        toggled_node(board_model(made, machines(2, 1)), config, 0)


def test_a_device_is_switched_off_and_on() -> None:
    made = preview(1, 4)
    model = board_model(made, machines(1, 4))
    assert toggled_device(model, made.config, 0, 2) == {"distributed.devices": [0, 1, 3]}
    fewer = preview(1, 4, distributed={"devices": [0, 3], "nproc": 2})
    model = board_model(fewer, machines(1, 4))
    assert toggled_device(model, fewer.config, 0, 1) == {
        "distributed.devices": [0, 1, 3],
        "distributed.nproc": 3,
    }
    assert toggled_device(model, fewer.config, 0, 0)["distributed.devices"] == [3]


def test_ranks_go_from_the_cpu_to_a_gpu() -> None:
    made = preview(1, 2, distributed={"devices": "cpu", "nproc": 2})
    model = board_model(made, machines(1, 2))
    assert toggled_device(model, made.config, 0, 3) == {
        "distributed.devices": [1],
        "distributed.nproc": 1,
    }
    with pytest.raises(RefusedError, match=r"distributed\.nproc"):
        toggled_device(model, made.config, 0, 0)


def test_a_node_that_is_not_in_the_run_has_neither_devices_nor_a_place_in_it() -> None:
    made = preview(2, 2)
    model = board_model(made, machines(3, 2))
    assert [node.is_on for node in model.nodes] == [True, True, False]
    with pytest.raises(RefusedError, match="n0002 is not in the run: switch it on first"):
        toggled_device(model, made.config, 2, 0)
    with pytest.raises(RefusedError, match="n0002 is not in the run"):
        moved_node(model, made.config, 2, 0)
    assert moved_node(model, made.config, 2, 2) == {}


def test_the_last_device_stays() -> None:
    made = preview(1, 1)
    with pytest.raises(RefusedError, match="cuda:0 is the only device in use on n0000"):
        toggled_device(board_model(made, machines(1, 1)), made.config, 0, 0)


def test_devices_of_described_machines_are_switched_where_they_are_described() -> None:
    made = preview(4, 4, cluster=GPU_CLUSTER)
    model = board_model(made, machines(4, 4))
    (change,) = toggled_device(model, made.config, 2, 3).items()
    assert change == (("cluster", "nodes", 0, "devices"), [0, 1, 2])
    assert shared_with(model, made.config, 2) == 3


@given(
    st.lists(
        st.sampled_from(["a", "b1-", "gpu"]).flatmap(
            lambda stem: st.integers(0, 120).flatmap(
                lambda number: st.sampled_from([f"{stem}{number}", f"{stem}{number:03d}"])
            )
        ),
        unique=True,
        max_size=40,
    )
)
def test_shortened_names_are_the_same_nodes(names: list[str]) -> None:
    assert expand_all(shortened(names)) == names


def test_long_stretches_become_ranges() -> None:
    assert shortened([f"gpu{number:02d}" for number in range(16)]) == ["gpu[00-15]"]
    assert shortened(["n8", "n9", "n10", "n12", "m"]) == ["n[8-10]", "n12", "m"]
