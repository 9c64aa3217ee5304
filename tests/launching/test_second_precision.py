"""An fp32 run that does not fit is looked at in bf16 too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.values.machines import PYTHON, byte_gpt, node
from support.values.machines import config as config_of_script
from support.values.small_profile import profile, trace
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.contract.plan.model_profile import Event, ModelProfile
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.launching.facts import profiling
from torchdeck.launching.facts.model_and_data import look_at
from torchdeck.launching.prepare import ClusterFacts, plan_from, with_model
from torchdeck.plan.known import Known
from torchdeck.plan.memory.context import context_bytes
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.preview import make_preview

LARGE = 100_000
"""How much more blocks keep than in the profile that can be followed by hand: 200 MB for 2 samples."""
CONTEXT = context_bytes(StrategySpec("single", 1))
TRAINING = {"steps": 1, "microbatch": 4, "weight_decay": 0.0}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Precision and batch plan of every profile that is asked for; blocks keep half as much in bf16."""
    calls: list[tuple[str, Any]] = []

    def profile_model(config: RunConfig, _: Path, *, plan: Any, **__: Any) -> ModelProfile:
        precision = config.training.precision
        calls.append((precision, plan))
        made = [trace(count) for count in (4, 2)]
        for one in made:
            one.values[one.kinds == Event.ACTIVATION] *= LARGE if precision == "fp32" else LARGE // 2
        return profile(*made, precision=precision)

    monkeypatch.setattr(profiling, "profile_model", profile_model)
    return calls


def found(room: int, known: Known | None = None) -> ClusterFacts:
    """A machine with `room` bytes over what a process takes."""
    machine = replace(node(), memory_bytes=CONTEXT + room)
    return ClusterFacts(Inventory((machine,)), {"localhost": PYTHON}, {}, CodeTree(), (), known or Known())


def config(**training: Any) -> RunConfig:
    return byte_gpt(training={**TRAINING, **training}, distributed={"devices": "cpu", "nproc": 1})


def test_what_fits_is_looked_at_once(asked: list[tuple[str, Any]], tmp_path: Path) -> None:
    """No second trace, no other profile."""
    seen = with_model(config(), found(10**9), tmp_path)
    assert [precision for precision, _ in asked] == ["fp32"]
    assert seen.known.others == ()


def test_bf16_is_suggested_where_it_was_tried(asked: list[tuple[str, Any]], tmp_path: Path) -> None:
    """The suggestion's peak is that of the bf16 profile, half as high."""
    seen = with_model(config(), found(3 * 10**8), tmp_path)
    assert [precision for precision, _ in asked] == ["fp32", "bf16"]
    assert [one.precision for one in seen.known.others] == ["bf16"]
    made = make_preview(config(), plan_from(config(), seen), seen.inventory, seen.known)
    assert made.memory is not None
    assert made.memory.verdict == "does not fit"
    (narrow,) = [one for one in made.memory.suggestions if "training.precision" in one.change]
    assert narrow.change == {"training.precision": "bf16"}
    assert 2 * 10**8 < narrow.peak_bytes - CONTEXT < 2.1 * 10**8


def test_a_16_bit_run_has_no_narrower_one(asked: list[tuple[str, Any]], tmp_path: Path) -> None:
    """Nothing else is traced."""
    with_model(config(precision="bf16"), found(10**8), tmp_path)
    assert [precision for precision, _ in asked] == ["bf16"]


def test_a_batch_plan_is_traced_by_its_heaviest_microbatch(
    asked: list[tuple[str, Any]], tmp_path: Path
) -> None:
    """It goes to the tracer with what else it is asked."""
    plan = build_batch_plan(np.arange(1, 65), token_budget=64)
    with_model(config(), found(10**9, Known(batch_plan=plan)), tmp_path)
    assert asked == [("fp32", plan)]


def test_an_estimate_is_made_in_bf16_too(tmp_path: Path) -> None:
    """No process is needed for it."""
    described = config_of_script(
        estimate={"parameters": 1e9, "microbatch": 4}, distributed={"devices": "cpu", "nproc": 1}
    )
    known, _ = look_at(described)
    seen = with_model(described, found(2**30, known), tmp_path)
    assert [(one.source, one.precision) for one in seen.known.others] == [("closed form", "bf16")]
