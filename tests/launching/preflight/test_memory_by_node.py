"""Memory that is free on each node against what the plan predicts for its ranks."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from support.values.machines import PYTHON
from support.values.previews import GIB, memory
from support.values.small_profile import profile
from torchdeck.cli.plan.bars import memory_lines
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.inventory import Device, Inventory, NodeInfo
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.launching.facts.program_facts import with_program
from torchdeck.launching.preflight.model import check_memory
from torchdeck.launching.prepare import ClusterFacts, plan_from
from torchdeck.plan.check import Check
from torchdeck.plan.known import Known
from torchdeck.plan.memory.fullness import MemoryPreview


def node(number: int, free: int, gpus: int) -> NodeInfo:
    """With `free` bytes on each of its GPUs; without any, in its main memory for two ranks."""
    devices = tuple(Device(gpu, f"GPU-{number}-{gpu}", "Tester", 80 * GIB, free) for gpu in range(gpus))
    return NodeInfo(f"n{number}", f"10.0.0.{number}", devices, 8, 160 * GIB, 2 * free)


def checked(folder: Path, frees: list[int], gpus: int, *groups: Any, **limits: Any) -> list[Check]:
    """Of three nodes of two ranks each; `groups`: in place of what is predicted."""
    asked = {
        "run": {"recipe": "byte-gpt"},
        "training": {"steps": 1, "microbatch": 1},
        "distributed": {"nodes": ["n0", "n1", "n2"], "nproc": 2, "devices": "auto" if gpus else "cpu"},
        "limits": limits,
        "cluster": {"nodes": [{"name": "n[0-2]"}]},
    }
    config = config_from_dict(asked, folder)
    inventory = Inventory(tuple(node(number, free, gpus) for number, free in enumerate(frees)))
    pythons = {each.name: PYTHON for each in inventory}
    found = ClusterFacts(inventory, pythons, {}, CodeTree(), (), Known(profile()))
    plan = plan_from(config, found)
    if groups:
        plan = dataclasses.replace(plan, prediction=Prediction("traced", groups))
    return list(check_memory(config, plan, found))


@pytest.mark.parametrize("gpus", [0, 2], ids=["cpu", "gpu"])
def test_the_node_that_is_full_is_named(gpus: int, tmp_path: Path) -> None:
    """By what is free there now; the others, whose ranks need the same, are fine."""
    checks = checked(tmp_path, [60 * GIB, 2**20, 60 * GIB], gpus)
    assert [(check.node, check.status) for check in checks] == [("n0", "ok"), ("n1", "failed"), ("n2", "ok")]
    bad = checks[1]
    assert bad.what.startswith("ranks 2–3 need ")
    assert bad.what.endswith("1.0 MiB are free for each")
    assert 'limits.memory = "warn"' in bad.fix
    assert checks[2].what.startswith("ranks 4–5 need ")


def test_the_fullest_of_a_nodes_ranks_is_said(tmp_path: Path) -> None:
    """Groups of the plan go over nodes: each node gets its part of them."""
    groups = (memory(0, 2, peak=20), memory(3, 5, peak=40))
    said = [check.what.partition(" at")[0] for check in checked(tmp_path, [60 * GIB] * 3, 2, *groups)]
    assert said == ["ranks 0–1 need 20.0 GiB", "rank 3 needs 40.0 GiB", "ranks 4–5 need 40.0 GiB"]


def test_what_does_not_fit_is_a_warning_if_that_is_asked_for(tmp_path: Path) -> None:
    frees = [2**20, 60 * GIB, 60 * GIB]
    assert [check.status for check in checked(tmp_path, frees, 2, memory="warn")] == ["warning", "ok", "ok"]
    assert checked(tmp_path, frees, 2, memory="off") == []


def test_a_script_starts_whatever_its_arguments_let_one_expect(tmp_path: Path) -> None:
    """Its samples may be shorter; the warning has its own flags."""
    model = {
        "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 4096,
    }  # fmt: skip
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(model))
    args = ["--model_name_or_path", "llama", "--per_device_train_batch_size", "4", "--max_length", "4096"]
    asked = {
        "run": {"script": "train.py", "args": [*args, "--bf16", "--fsdp", "full_shard"]},
        "distributed": {"nodes": ["n0"], "nproc": 2, "devices": "auto"},
        "cluster": {"nodes": [{"name": "n0"}]},
    }
    config = config_from_dict(asked, tmp_path)
    assert config.limits.memory == "refuse"
    inventory = Inventory((node(0, 80 * GIB, 2),))
    known = with_program(config, Known())
    found = ClusterFacts(inventory, {"n0": PYTHON}, {}, CodeTree(), (), known)
    (check,) = check_memory(config, plan_from(config, found), found)
    assert check.status == "warning"
    assert "there are 80.0 GiB for each" in check.what
    assert check.fix.startswith("--per_device_train_batch_size 1, --gradient_accumulation_steps 4: ")


def test_plan_and_check_name_the_same_largest_part(tmp_path: Path) -> None:
    """Logits are counted among the activations in both."""
    group = memory(0, 5, peak=160, verdict="does not fit")
    terms = {"activations": 121 * GIB, "gradients": 30 * GIB, "logits": 8 * GIB, "context": GIB}
    group = dataclasses.replace(group, terms=terms)
    bad = checked(tmp_path, [60 * GIB] * 3, 2, group)[0]
    assert "most of it for activations (129.0 GiB)" in bad.what
    shown = "\n".join(line.plain for line in memory_lines(MemoryPreview("traced", (group,)), 100))
    assert "activations 129.0 GiB" in shown
    assert "largest part is activations" in shown
