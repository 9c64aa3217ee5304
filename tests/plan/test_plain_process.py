"""`run.launcher = "python"`: one plain process with all chosen GPUs, and none of torchrun's variables."""

from __future__ import annotations

import re

import pytest

from support.values.machines import config, node, plan
from torchdeck.plan.check import PlanError
from torchdeck.plan.export.shell_script import export_sh

PLAIN = {"script": "train.py", "launcher": "python"}


def test_command_is_the_script_alone() -> None:
    made = plan(config(run=PLAIN, distributed={"devices": "auto"}), node("localhost", gpus=4))
    (only,) = made.nodes
    assert only.torchrun == ()
    assert only.argv == (*only.rank_holder, *only.command)
    assert (made.world_size, only.nproc, len(made.ranks)) == (1, 1, 1)
    assert len(only.devices) == 4
    assert only.env["CUDA_VISIBLE_DEVICES"] == ",".join(only.devices)
    assert {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*"} <= {
        *only.unset
    }
    assert "port" not in made.slots
    assert any("one process is planned" in warning for warning in made.warnings)


def test_exported_script_starts_no_torchrun() -> None:
    made = plan(config(run={**PLAIN, "args": ["--lr", "0.1"]}))
    last = export_sh(made, made.nodes[0]).partition("\nexec ")[2]
    assert re.fullmatch(r'"\$PYTHON" -u \S*train\.py \\\n  --lr 0\.1\n', last)


def test_recipe_is_refused() -> None:
    with pytest.raises(PlanError, match="a recipe is chosen"):
        plan(config({"recipe": "byte-gpt", "launcher": "python"}, training={"steps": 1}))


@pytest.mark.parametrize(
    ("distributed", "what"),
    [
        ({"nodes": ["a", "b"]}, "one process on one node"),
        ({"nproc": "1:2"}, "one process on one node"),
        ({"nproc": 2, "devices": "cpu"}, "one process is started"),
    ],
)
def test_what_one_process_cannot_be_is_refused(distributed: dict[str, object], what: str) -> None:
    with pytest.raises(PlanError, match=what):
        plan(config(run=PLAIN, distributed=distributed), node("localhost"), node("a"), node("b"))
