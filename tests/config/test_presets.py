"""Presets are right, commented, and complete with the files they name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from torchdeck.config.loader import load_config
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck.config.starting_files import (
    UnknownPresetError,
    preset_companions,
    preset_names,
    preset_summary,
    preset_text,
)


def test_the_presets() -> None:
    """The default one comes first."""
    assert preset_names() == [
        "quickstart", "accelerate", "bdh", "cluster", "digits", "finetune", "fsdp", "hf-finetune",
        "hf-lora", "hf-sft", "image-folder", "lightning", "nanogpt", "own-recipe", "script", "torchtitan",
    ]  # fmt: skip


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_right(tmp_path: Path, name: str) -> None:
    """It loads without a problem, says in a sentence what it is, and the files it names can be written."""
    (tmp_path / "run.toml").write_text(preset_text(name), encoding="utf-8")
    config = load_config(tmp_path / "run.toml").config
    assert config.name == name
    assert preset_summary(name).endswith(".")
    if config.run.recipe is not None and config.run.recipe not in BUILTIN_RECIPES:
        assert list(preset_companions(name)) == [Path(str(config.run.recipe)).name]


@pytest.mark.parametrize(
    ("name", "steps", "saves"),
    [
        ("accelerate", "--steps", "--checkpointing_steps"),
        ("hf-lora", "--max_steps", "--save_steps"),
        ("hf-sft", "--max_steps", "--save_steps"),
        ("lightning", "--epochs", None),
        ("nanogpt", "--max_iters", "--eval_interval"),
        ("torchtitan", "--training.steps", "--checkpoint.interval"),
    ],
)
def test_a_preset_lasts_until_it_is_stopped_as_it_advises(name: str, steps: str, saves: str | None) -> None:
    """A minute or more on two cores, and several checkpoints before its end."""
    text = preset_text(name)
    args = tomllib.loads(text)["run"]["args"]
    total = int(args[args.index(steps) + 1])
    assert total >= (300 if saves is None else 1000)
    assert saves is None or 10 <= total / int(args[args.index(saves) + 1]) <= 20
    assert "runs resume latest" in text or "starting it again continues" in text


def test_every_built_in_recipe_has_one() -> None:
    """A run file to start each of them from."""
    recipes = {tomllib.loads(preset_text(name))["run"].get("recipe") for name in preset_names()}
    assert set(BUILTIN_RECIPES) <= recipes


def test_strategies_of_the_presets(tmp_path: Path) -> None:
    """quickstart is DDP on two CPU ranks, fsdp is FSDP in bf16."""
    (tmp_path / "a.toml").write_text(preset_text("quickstart"), encoding="utf-8")
    (tmp_path / "b.toml").write_text(preset_text("fsdp"), encoding="utf-8")
    quickstart, fsdp = (load_config(tmp_path / name).config for name in ("a.toml", "b.toml"))
    assert (quickstart.distributed.strategy, quickstart.distributed.nproc) == ("ddp", 2)
    assert quickstart.distributed.devices == "cpu"
    assert (fsdp.distributed.strategy, fsdp.training.precision) == ("fsdp", "bf16")
    assert fsdp.model == quickstart.model


def test_the_example_recipe_learns() -> None:
    """my_recipe.py fits the interface, and a few steps of it lower the loss."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    recipe: dict[str, object] = {"__name__": "my_recipe"}
    exec(compile(preset_companions("own-recipe")["my_recipe.py"], "my_recipe.py", "exec"), recipe)  # noqa: S102 - our own
    build_model, build_data, loss, blocks = (
        recipe[name] for name in ("build_model", "build_data", "loss", "blocks")
    )
    assert callable(build_model)
    assert callable(build_data)
    assert callable(loss)
    assert callable(blocks)
    torch.manual_seed(0)
    model, data = build_model({"width": 32, "depth": 2}), build_data({"samples": 256}, "train")
    assert len(list(blocks(model))) == 2
    assert len(build_data({"samples": 256}, "heldout")) == 32
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = [torch.stack(column) for column in zip(*(data[index] for index in range(len(data))), strict=True)]
    losses = []
    for _ in range(40):
        value = loss(model, batch)
        losses.append(float(value.detach()))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


def test_an_unknown_preset() -> None:
    """The names there are are said."""
    with pytest.raises(UnknownPresetError, match="quickstart, accelerate, bdh, cluster, digits"):
        preset_text("../secret")
