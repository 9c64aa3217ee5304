"""A rank's plan and results of a save survive JSON, and nothing else is accepted."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult

from torchdeck.distributed.checkpoints.files.dcp import (
    plan_from_json,
    plan_to_json,
    results_from_json,
    results_to_json,
)


def _plan() -> SavePlan:
    tensors = {
        "weight": torch.zeros(2, 3, requires_grad=True),
        "scalar": torch.tensor(1, dtype=torch.int64),
        "half": torch.zeros(0, 4, dtype=torch.bfloat16),
    }
    planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    planner.set_up_planner(tensors, is_coordinator=True)
    return planner.create_local_plan()


def test_a_plan_survives() -> None:
    """Every field that `.metadata` has is the same afterwards."""
    plan = _plan()
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


def test_results_survive() -> None:
    """In the order of the plan, whatever order they were written in."""
    plan = _plan()
    results = [
        WriteResult(item.index, at, _StorageInfo("__2_0.distcp", at * 10, 10))
        for at, item in enumerate(plan.items)
    ]
    sent = json.loads(json.dumps(results_to_json(plan, results[::-1])))
    assert results_from_json(sent, plan, 2) == results


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, "bytes"),
        (1, 3),
        (2, [-1, 0]),
        (3, [1, 1]),
        (4, [3, 3]),
        (5, [2]),
        (6, "load"),
        (7, [True]),
    ],
)
def test_a_changed_field_is_refused(at: int, value: Any) -> None:
    """Kinds, names, shards outside their tensor, and dtypes that are none."""
    sent = plan_to_json(_plan())
    [whole] = [item for item in sent if item[1] == "weight"]
    whole[at] = value
    with pytest.raises(ValueError, match=r"."):
        plan_from_json(sent)


@pytest.mark.parametrize(
    "value",
    [[1, "../evil", 0, 1], [1, "__0_0.distcp", 0, 1], [-1, "__2_0.distcp", 0, 1], [1, None, 0, 1], []],
)
def test_results_that_no_rank_writes_are_refused(value: Any) -> None:
    """A file of another rank, or outside the folder, or a negative size."""
    plan = SavePlan(_plan().items[:1])
    with pytest.raises(ValueError, match=r"."):
        results_from_json([value], plan, 2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=9)
)


@given(st.lists(st.lists(JSON, max_size=9), max_size=3) | JSON)
def test_anything_else_is_refused_as_a_value_error(value: Any) -> None:
    """Never another error."""
    for read in (plan_from_json, lambda value: results_from_json(value, _plan(), 0)):
        try:
            read(value)
        except ValueError:
            continue
        assert value == []
