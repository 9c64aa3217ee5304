"""The plan's file."""

from dataclasses import replace
from typing import Any

import pytest

from support.values.machines import plan
from torchdeck.contract.plan.launch_plan import PLAN_VERSION, LaunchPlan, PlanFormatError


def test_a_newer_plan_is_refused() -> None:
    """A plan of a later format is not guessed at."""
    value = {**plan().document(), "version": PLAN_VERSION + 1}
    with pytest.raises(PlanFormatError, match="newer Torchdeck"):
        LaunchPlan.from_json(value)


def test_an_edited_plan_is_refused() -> None:
    """What runs is what was shown: a changed file does not fit its fingerprint."""
    value = plan().document()
    value["nodes"][0]["command"][-1] = "/tmp/other.py"
    with pytest.raises(PlanFormatError, match="changed after it was made"):
        LaunchPlan.from_json(value)


@pytest.mark.parametrize(
    "value", [None, [], {}, {"version": "one"}, {"version": 1}, {"version": 1, "nodes": 3, "batch": None}]
)
def test_what_is_no_plan_is_refused(value: Any) -> None:
    """Anything may stand in a file; only a plan is one."""
    with pytest.raises(PlanFormatError, match="not a plan"):
        LaunchPlan.from_json(value)


def test_a_node_is_found_by_name() -> None:
    """An agent finds its own part."""
    made = plan()
    assert made.node("localhost") is made.nodes[0]
    with pytest.raises(KeyError):
        made.node("elsewhere")


@pytest.mark.parametrize(
    ("arguments", "backend"),
    [
        (("--rdzv-backend", "c10d"), "c10d"),
        (("--nnodes", "2"), "static"),
        (("--nnodes", "--rdzv-backend"), "static"),
    ],
)
def test_the_rendezvous_is_what_torchrun_is_told(arguments: tuple[str, ...], backend: str) -> None:
    """In a damaged plan it may be told nothing."""
    made = plan()
    told = replace(made, nodes=(replace(made.nodes[0], torchrun=arguments),))
    assert told.rendezvous == backend
