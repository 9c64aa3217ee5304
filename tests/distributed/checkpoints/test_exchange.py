"""Checkpoints as a single file for other tools, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.checkpoint.state_dict_loader import load

from support.values.checkpoint_files import flip
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, read_manifest
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed import CheckpointManager, DistributedStrategy, auto_resume
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointStore, TrainState
from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors
from torchdeck.distributed.exchange import exchanging
from torchdeck.distributed.trainer.ema import Ema, EmaTensors


def _quiet(what: str, done: int, total: int) -> None:
    assert done <= total or total == 0, what


def _training(seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3, dtype=torch.float32)
    )
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 6)).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, dict[str, torch.Tensor], list[float]]:
    """A checkpoint, its weights, and the losses of three steps from there."""
    model, optimizer = _training()
    _train(model, optimizer, 2)
    with CheckpointManager(tmp_path / "run") as checkpoints:
        folder = checkpoints.save(
            2, model, optimizer, position={"epoch": 1}, extra={"x": 0.1}, metrics={"validation_loss": 0.5}
        )
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    return folder, weights, _train(model, optimizer, 3)


def _single(source: Path, target: Path, **options: Any) -> dict[str, Any]:
    given = {
        "export": False,
        "optimizer": False,
        "ema": False,
        "dtype": None,
        "max_file": 1 << 30,
        "trusted": False,
    }
    return exchanging.to_single(source, target, **{**given, "force": False, "progress": _quiet, **options})


def _sharded(source: Path, target: Path, **options: Any) -> dict[str, Any]:
    given = {"parts": None, "trusted": False, "force": False, "progress": _quiet}
    return exchanging.to_sharded(source, target, **{**given, **options})


def _same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value), name


Saved = tuple[Path, dict[str, torch.Tensor], list[float]]


def test_an_export_is_read_by_other_tools(saved: Saved, tmp_path: Path) -> None:
    """The safetensors package finds every weight under its bare name, bit for bit; JSON says what it is."""
    folder, weights, _ = saved
    told = _single(folder, tmp_path / "out", export=True)
    _same(load_file(tmp_path / "out" / "model.safetensors"), weights)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "model.safetensors",
        "model.json",
        "manifest.json",
    }
    said = json.loads((tmp_path / "out" / "model.json").read_text())
    assert (said["step"], said["position"], said["metrics"]) == (2, {"epoch": 1}, {"validation_loss": 0.5})
    assert {name for name, _, _ in said["model"]} == weights.keys()
    assert (told["step"], told["files"], verify(tmp_path / "out")) == (2, 2, [])


def test_an_export_of_the_moving_average(saved: Saved, tmp_path: Path) -> None:
    """Averages under the weights' names, what has none as it is; a checkpoint without them is refused."""
    with pytest.raises(CheckpointError, match="has no moving average of the weights: it was trained without"):
        _single(saved[0], tmp_path / "none", export=True, ema=True)
    model, optimizer = _training()
    strategy = DistributedStrategy.from_config({"strategy": "single"})
    strategy.setup()
    ema = Ema(model, strategy, 0.5)
    _train(model, optimizer, 2)
    ema.update()
    state = TrainState(
        model, [optimizer], tensors=EmaTensors(ModuleTensors(model, [optimizer]), ema, leads=True)
    )
    store = CheckpointStore(
        tmp_path / "averaged", Retention(1), run_id="r", attempt=1, rank=0, world_size=1, strategy="single"
    )
    folder = store.save(state, 2)
    store.close()
    _single(folder, tmp_path / "out", export=True, ema=True)
    found = load_file(tmp_path / "out" / "model.safetensors")
    _same(found, {**model.state_dict(), **ema.averages})
    assert not torch.equal(found["0.weight"], model.state_dict()["0.weight"])


def test_an_export_in_another_format_and_in_several_files(saved: Saved, tmp_path: Path) -> None:
    """bf16 weights (whole numbers stay), files of a size, and an index as Hugging Face lays them out."""
    folder, weights, _ = saved
    _single(folder, tmp_path / "out", export=True, optimizer=True, dtype="bfloat16", max_file=40)
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    found: dict[str, torch.Tensor] = {}
    for file in sorted(set(index["weight_map"].values())):
        part = load_file(tmp_path / "out" / file)
        assert part.keys() == {name for name, home in index["weight_map"].items() if home == file}
        found |= part
    converted = {
        name: value.to(torch.bfloat16) if value.is_floating_point() else value
        for name, value in weights.items()
    }
    _same(found, converted)
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in converted.values())
    assert (
        f"model-00001-of-{len(set(index['weight_map'].values())):05d}.safetensors"
        in index["weight_map"].values()
    )
    assert (tmp_path / "out" / "optimizer.safetensors.index.json").exists()


def test_parts_on_several_nodes_are_asked_for(saved: Saved, tmp_path: Path) -> None:
    """What lies elsewhere is named; once it is copied beside the rest the result is whole, and of no node."""
    folder, weights, _ = saved
    manifest = read_manifest(folder)
    far = "__0_0.distcp"
    files = {
        name: replace(entry, node="node 1 (b)" if name == far else "node 0 (a)")
        for name, entry in manifest.files.items()
    }
    (folder / MANIFEST_NAME).write_bytes(replace(manifest, files=files, node="node 0 (a)").render())
    (folder / far).rename(tmp_path / far)
    for convert in (_single, _sharded):
        with pytest.raises(CheckpointError, match=r"the part of node 0 \(a\), .* lie on node 1 \(b\): copy"):
            convert(folder, tmp_path / "out")
    (tmp_path / far).rename(folder / far)
    _sharded(folder, tmp_path / "out")
    assert (read_manifest(tmp_path / "out").node, verify(tmp_path / "out")) == (None, [])
    flip(tmp_path / "out" / far, 9)
    assert verify(tmp_path / "out") != []
    _single(folder, tmp_path / "single")
    _same(load_file(tmp_path / "single" / "model.safetensors"), weights)


@pytest.mark.parametrize("max_file", [1 << 30, 64])
def test_there_and_back_resumes_bit_exact(saved: Saved, tmp_path: Path, max_file: int) -> None:
    """Sharded → single → sharded in three files: random state, position and optimizer are all there."""
    folder, weights, losses = saved
    _single(folder, tmp_path / "one", max_file=max_file)
    assert verify(tmp_path / "one") == []
    (tmp_path / "again").mkdir()
    back = tmp_path / "again" / "step_00000002"
    _sharded(tmp_path / "one", back, parts=3)
    assert sorted(path.name for path in back.glob("*.distcp")) == [f"__{rank}_0.distcp" for rank in range(3)]
    assert read_manifest(back).metrics == {"validation_loss": 0.5}
    model, optimizer = _training(seed=5)
    loaded = auto_resume(tmp_path / "again", model, optimizer)
    assert loaded is not None
    assert (loaded.step, loaded.position, loaded.extra) == (2, {"epoch": 1}, {"x": 0.1})
    assert loaded.rng_restored
    _same(dict(model.state_dict()), weights)
    assert _train(model, optimizer, 3) == losses


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_plain_torch_reads_what_was_converted(saved: Saved, tmp_path: Path) -> None:
    """torch.distributed.checkpoint alone loads it, and more files from a sharded source too."""
    folder, weights, _ = saved
    _sharded(folder, tmp_path / "more", parts=2)
    state = {f"model.{name}": torch.zeros_like(value) for name, value in weights.items()}
    load(state, checkpoint_id=tmp_path / "more", no_dist=True)
    _same({name.removeprefix("model."): value for name, value in state.items()}, weights)


def test_large_files_are_divided(saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more tensors are in memory than one file has; a rank then has several, which load as one does."""
    monkeypatch.setattr("torchdeck.distributed.exchange.sharded.LARGEST_FILE", 100)
    _sharded(saved[0], tmp_path / "step_00000002", parts=2)
    assert len(list((tmp_path / "step_00000002").glob("__0_*.distcp"))) > 2
    model, optimizer = _training(seed=5)
    assert auto_resume(tmp_path, model, optimizer) is not None
    _same(dict(model.state_dict()), saved[1])
    assert _train(model, optimizer, 3) == saved[2]


@pytest.mark.parametrize("kind", ["plain", "inside", "wrapped", "safetensors"])
def test_weights_of_others_become_a_checkpoint(tmp_path: Path, kind: str) -> None:
    """A state dict by torch.save, alone, in a dict or of a DDP module, and a safetensors file."""
    model, _ = _training()
    weights = dict(model.state_dict())
    file = tmp_path / ("weights.safetensors" if kind == "safetensors" else "weights.pt")
    if kind == "safetensors":
        save_file(weights, file)
    else:
        prefix = "module." if kind == "wrapped" else ""
        named = {prefix + name: value for name, value in weights.items()}
        torch.save({"model": named, "epoch": 3} if kind == "inside" else named, file)
    told = _sharded(file, tmp_path / "made", parts=2)
    assert "weights only" in told["notice"]
    assert verify(tmp_path / "made") == []
    _single(tmp_path / "made", tmp_path / "out", export=True)
    _same(load_file(tmp_path / "out" / "model.safetensors"), weights)
    (tmp_path / "made").rename(tmp_path / "step_00000000")
    with pytest.raises(CheckpointError, match="it holds weights and no optimizer"):
        auto_resume(tmp_path, *_training())


def test_what_lies_there_is_not_replaced_unasked(saved: Saved, tmp_path: Path) -> None:
    """--force replaces an export or a checkpoint, never anything else; source and target do not overlap."""
    folder, _, _ = saved
    out = tmp_path / "out"
    _single(folder, out, export=True)
    with pytest.raises(CheckpointError, match="already exists: give --force"):
        _single(folder, out, export=True)
    _single(folder, out, export=True, optimizer=True, force=True)
    assert (out / "optimizer.safetensors").exists()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="neither a checkpoint nor an export"):
        _single(folder, out, export=True, force=True)
    for target in (folder, folder / "inside", folder.parent):
        with pytest.raises(CheckpointError, match="overlap"):
            _single(folder, target, export=True, force=True)
    with pytest.raises(CheckpointError, match="there is no folder"):
        _single(folder, tmp_path / "a" / "b", export=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert verify(folder) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_failure_leaves_nothing(saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops half-way, by a full disk too, leaves no folder; too little room is said before."""
    folder, _, _ = saved

    def stop(what: str, done: int, total: int) -> None:
        if what == "writing" and done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _single(folder, tmp_path / "out", progress=stop)
    monkeypatch.setattr(
        "torchdeck.distributed.exchange.exchanging.shutil.disk_usage",
        lambda _: type("Usage", (), {"free": 100})(),
    )
    with pytest.raises(CheckpointError, match=r"needs .*, and 0\.0 MiB are free"):
        _single(folder, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_an_export_is_no_checkpoint_to_go_on_from(saved: Saved, tmp_path: Path) -> None:
    """It is said what keeps all of it; another export can be made of it, and its weights be read."""
    _single(saved[0], tmp_path / "out", export=True)
    with pytest.raises(CheckpointError, match="lacks what going on takes"):
        _sharded(tmp_path / "out", tmp_path / "made")
    with pytest.raises(CheckpointError, match="lacks what going on takes"):
        _single(tmp_path / "out", tmp_path / "made")
    _single(tmp_path / "out", tmp_path / "again", export=True)
    _same(load_file(tmp_path / "again" / "model.safetensors"), saved[1])


@pytest.mark.parametrize("layout", ["sharded", "single"])
def test_a_damaged_source_is_refused(saved: Saved, tmp_path: Path, layout: str) -> None:
    """Hashes are checked before anything is read."""
    source = saved[0]
    if layout == "single":
        source = tmp_path / "one"
        _single(saved[0], source)
    for path in sorted(source.iterdir()):
        flip(path, 20, 1)
        with pytest.raises(CheckpointError, match="damaged"):
            _sharded(source, tmp_path / "made")
        flip(path, 20, 1)
    assert not (tmp_path / "made").exists()


def test_the_safetensors_package_agrees_on_every_kind_of_tensor(tmp_path: Path) -> None:
    """Numbers of all kinds, scalars, empty tensors and odd names go both ways."""
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]
    weights = {f"Ω.{kind}": torch.ones(3, 2).to(kind) for kind in kinds}
    weights |= {"scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "": torch.arange(3)}
    save_file(weights, tmp_path / "theirs.safetensors")
    _sharded(tmp_path / "theirs.safetensors", tmp_path / "made")
    _single(tmp_path / "made", tmp_path / "out", export=True)
    _same(load_file(tmp_path / "out" / "model.safetensors"), weights)
    with safetensors.safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
