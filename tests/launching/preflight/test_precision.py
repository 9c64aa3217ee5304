"""bf16 on CPUs that have no instructions for it is said before the start, and stops nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.values.checked_config import CheckedConfig
from support.values.machines import config, node, plan
from torchdeck.agent.probe.system import bf16_here
from torchdeck.launching.preflight.devices_in_use import check_precision


@pytest.mark.parametrize(
    ("precision", "bf16", "warned"),
    [
        ("bf16", (), True),
        ("bf16", ("avx512f",), False),
        ("bf16", None, False),
        ("fp32", (), False),
    ],
)
def test_who_is_warned(precision: str, bf16: Sequence[str] | None, *, warned: bool) -> None:
    asked = config(
        {"recipe": "digits"}, training={"steps": 4, "precision": precision}, distributed={"devices": "cpu"}
    )
    part = plan(asked, node("localhost")).nodes[0]
    found = list(check_precision(asked, part, "localhost", bf16))
    assert [(check.name, check.status) for check in found] == [("precision", "warning")] * warned


def test_a_script_and_a_run_without_a_plan_are_passed_over() -> None:
    asked = config({"recipe": "digits"}, training={"steps": 4, "precision": "bf16"})
    script = config()
    assert list(check_precision(asked, None, "localhost", ())) == []
    assert list(check_precision(script, plan(script, node("localhost")).nodes[0], "localhost", ())) == []


def test_this_machine_says_what_it_has(checked: CheckedConfig) -> None:
    """A warning where it has none of these instructions, and nothing else."""
    warned = "precision" in checked.recipe(training={"steps": 1, "precision": "bf16"})
    assert warned == (bf16_here() == [])
    assert "precision" not in checked.recipe()
