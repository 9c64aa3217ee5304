"""Examples about strategies on real ranks: the same calls, and the weights of the same training by hand."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import AdamW

from support.documents import strategies_ranks as ranks
from support.ranks.measured_ranks import Job, measure
from support.system.deepspeed_python import ABSENT, deepspeed_python
from torchdeck.compat.strategies import DeepSpeedStrategy, DistributedStrategy, find_latest_checkpoint
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.recipe_loading import RecipeError

pytestmark = pytest.mark.processes

TRAINED = {"single": 1, "ddp": 2, "fsdp": 2}
KINDS = {"single": "SingleGPUStrategy", "ddp": "DDPStrategy", "fsdp": "FSDPStrategy"}
Found = dict[str, list[Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each rank of each job found; all of them forked from one process."""
    jobs: dict[str, Job] = {
        **{name: {"body": "trained", "strategy": name, "world_size": size} for name, size in TRAINED.items()},
        "class fsdp": {"body": "by_class", "strategy": "fsdp"},
        "class fsdp fp32": {"body": "by_class", "strategy": "fsdp", "mixed_precision": "no"},
        "class single": {"body": "by_class", "strategy": "single", "world_size": 1},
        "managed": {"body": "managed", "strategy": "ddp"},
        "practices ddp": {"body": "practices", "strategy": "ddp"},
        "practices single": {"body": "practices", "strategy": "single", "world_size": 1},
        "wrong": {"body": "wrong", "world_size": 1},
    }
    done = measure(
        "support.documents.strategies_ranks:body",
        [
            {"world_size": 2, "folder": str(tmp_path_factory.mktemp("experiment")), **job}
            for job in jobs.values()
        ],
    )
    return dict(zip(jobs, done, strict=True))


@pytest.mark.block("strategies", 1)
@pytest.mark.parametrize("name", TRAINED)
def test_one_interface(found: Found, name: str) -> None:
    """Ranks, gradients, clipping and checkpoints by the same calls under every strategy."""
    size = TRAINED[name]
    expected, norms = ranks.reference(size, 5)
    saved, _ = ranks.reference(size, 3)
    for rank, one in enumerate(found[name]):
        assert one["kind"] == KINDS[name]
        assert one["place"] == [rank, size, rank, rank == 0]
        assert one["norms"] == pytest.approx(norms, rel=1e-4)
        straight, resumed = one["weights"]
        assert straight == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert resumed == straight
        assert one["state"] == {"step": 3, "epoch": 1, "notes": ["kept"]}
        assert one["keys"] == ["epoch", "model", "notes", "optimizer", "step"]
        assert one["saved"] == pytest.approx(saved, rel=1e-4, abs=1e-5)


@pytest.mark.block("strategies", 2)
def test_fsdp(found: Found) -> None:
    """Everything is sharded, and it computes in bf16 unless the configuration says otherwise."""
    for one in found["class fsdp"]:
        assert one == {"computed": "torch.bfloat16", "sharded": True, "precision": "bf16"}
    for one in found["class fsdp fp32"]:
        assert one == {"computed": "torch.float32", "sharded": True, "precision": "fp32"}
    assert all(one["wrapped"] == [False, True] for one in found["fsdp"])


@pytest.mark.block("strategies", 3)
def test_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategy, stage, offload and precision of the configuration arrive, the rest is the loop's; without
    DeepSpeed, setup says what to install. What comes before prepare_optimizer is refused.
    """
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    config = ranks.config("deepspeed", mixed_precision="bf16")
    config.distributed.zero_stage, config.distributed.offload = 3, True
    strategy = DistributedStrategy.from_config(config)
    assert isinstance(strategy, DeepSpeedStrategy)
    assert strategy.library.settings.options["deepspeed"] == {"zero_stage": 3, "offload_optimizer": True}
    assert strategy.library.precision.name == "bf16"
    optimizer = AdamW(ranks.network().parameters())
    for call in (
        lambda: strategy.backward(torch.ones(())),
        lambda: strategy.optimizer_step(optimizer),
        lambda: strategy.library.accumulate(ranks.network(), last=True),
    ):
        with pytest.raises(RecipeError, match=r"call optimizer = strategy\.prepare_optimizer\(wrapped, opt"):
            call()
    if importlib.util.find_spec("deepspeed") is None:
        with pytest.raises(RecipeError, match="pip install 'torchdeck\\[deepspeed\\]'"):
            strategy.setup()


@pytest.mark.block("strategies", 3)
@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
@pytest.mark.parametrize(
    "stage", [pytest.param(1, marks=pytest.mark.soak), 2, pytest.param(3, marks=pytest.mark.soak)]
)
def test_deepspeed_trains(stage: int, tmp_path: Path) -> None:
    """With DeepSpeed itself: the same weights and norms, also after a checkpoint."""
    job = {"world_size": 2, "body": "zeroed", "stage": stage, "folder": str(tmp_path)}
    python = deepspeed_python()
    assert python is not None
    (found,) = measure("support.documents.strategies_ranks:body", [job], python=python)
    expected, norms = ranks.reference(2, 5)
    for one in found:
        assert one["norms"] == pytest.approx(norms, rel=1e-4)
        assert one["state"] == {"step": 3}
        straight, resumed = one["weights"]
        assert straight == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert resumed == straight


@pytest.mark.block("strategies", 4)
def test_one_gpu(found: Found) -> None:
    """The model is returned as it is; state dicts of a checkpoint continue like the checkpoint itself."""
    (one,) = found["single"]
    assert one["wrapped"] == [False, False]
    assert one["by state dicts"] == one["weights"][0]
    assert found["class single"][0]["precision"] == "fp32"


@pytest.mark.block("strategies", 5)
def test_rotation_and_resume(found: Found) -> None:
    """The newest three are kept, and the newest of all is loaded."""
    for one in found["managed"]:
        assert one["kept"] == ["step_00000003", "step_00000004", "step_00000005"]
        assert one["resumed"] == [False, True, True]
        assert one["loaded"] == ["step_00000005"]
        assert one["state"] == {"epoch": 2}


@pytest.mark.block("strategies", 5)
def test_the_newest_of_folders_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that were given to save_checkpoint, by the time of their last change."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with DistributedStrategy.from_config({"distributed": {"strategy": "single"}}) as strategy:
        model = strategy.wrap_model(ranks.network())
        optimizer = AdamW(model.parameters())
        for name in ("second", "first", "second"):
            strategy.save_checkpoint(tmp_path / "checkpoints" / name, model, optimizer, step=4)
        with pytest.raises(CheckpointError, match=r"has a checkpoint of step 4, which is later than step 0"):
            strategy.save_checkpoint(tmp_path / "checkpoints" / "second", model, optimizer)
    latest = find_latest_checkpoint(tmp_path)
    assert latest == tmp_path / "checkpoints" / "second" / "step_00000004"
    (latest / "manifest.json").write_text("{}")
    older = find_latest_checkpoint(tmp_path)
    assert older == tmp_path / "checkpoints" / "first" / "step_00000004", "the newest one is damaged"
    assert find_latest_checkpoint(tmp_path / "elsewhere") is None


@pytest.mark.block("strategies", 8, 9, 11)
@pytest.mark.parametrize(("name", "wrapped"), [("ddp", "DistributedDataParallel"), ("single", "Sequential")])
def test_practices(found: Found, name: str, wrapped: str) -> None:
    """The configuration selects the strategy, and wrap_model alone joins the ranks; rank 0 alone logs; the
    batch counts all ranks.
    """
    for rank, one in enumerate(found[f"practices {name}"]):
        assert one["wrapped"] == wrapped
        assert one["logged"] == (1 if rank == 0 else 0)
        assert one["effective"] == 4 * 2 * TRAINED[name]


@pytest.mark.block("strategies", 10)
@pytest.mark.parametrize("name", ["single", "fsdp"])
def test_configuration_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A YAML file, as mappings."""
    yaml: Any = import_module("yaml")  # has no types; a dependency of mkdocs
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(variable, raising=False)
    file = tmp_path / "distributed.yaml"
    file.write_text(f"distributed:\n  strategy: {name}  # a comment\n")
    strategy = DistributedStrategy.from_config(yaml.safe_load(file.read_text()))
    assert type(strategy).__name__ == KINDS[name]
    assert strategy.library.name == name
    # YAML reads "no" as false
    file.write_text(f"{file.read_text()}training:\n  mixed_precision: no\n")
    full = DistributedStrategy.from_config(yaml.safe_load(file.read_text()))
    assert full.library.precision.name == "fp32"


def test_what_is_refused(found: Found) -> None:
    (said,) = found["wrong"]
    assert "there is no strategy 'dpp': expected one of fsdp, deepspeed, ddp, single" in said["strategy"]
    assert "precision is 'fp8': expected one of fp32, bf16, fp16" in said["precision"]
    assert said["abstract"].startswith("ArgumentError: DistributedStrategy is no strategy itself: use ")
    assert said["none"].startswith("CheckpointError: there is no checkpoint in")
    assert said["half"].startswith("ArgumentError: only one of model and optimizer is given")
    assert "config has no experiment.output_dir" in said["folder"]
    assert said["unnamed"] == said["strategy"], "a base class of one's own is no strategy by name"
    assert "SingleStrategy, and not of torchdeck.compat.strategies" in said["manager"]
    assert said["timeout"].startswith("ArgumentError: timeout is '5': expected a number or None")
    assert said["step"].startswith("ArgumentError: step is '5': expected a whole number")
