"""Blocks that are computed again in backward: the same training in less memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from support.memory.allocator_events import real_allocations
from support.ranks.recipe_ranks import FinishedRanks, recipe_settings, run_ranks
from support.training.training import RECIPE
from torchdeck.contract.checkpoints.manifest import checkpoint_name
from torchdeck.distributed.fsdp_units import checkpoint_blocks
from torchdeck.distributed.recipe_loading import RecipeError, load_recipe

GPT = {"layers": 3, "heads": 2, "width": 32, "context": 32, "dropout": 0.1}


def train(
    folder: Path, strategy: str, world_size: int, *, checkpointing: bool, resume: str = "", **training: Any
) -> FinishedRanks:
    folder.mkdir()
    settings = recipe_settings(
        folder,
        model=GPT,
        data={"max_bytes": 20_000},
        strategy=strategy,
        activation_checkpointing=checkpointing,
        **({"steps": 6} | training),
    )
    return run_ranks(settings, folder, world_size, resume=resume).succeeded()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("strategy", "world_size", "precision"),
    [
        ("single", 1, "fp32"),
        pytest.param("ddp", 2, "fp32", marks=pytest.mark.soak),
        pytest.param("fsdp", 2, "fp32", marks=pytest.mark.soak),
        ("fsdp", 2, "bf16"),
    ],
)
def test_losses_are_the_same(strategy: str, world_size: int, precision: str, tmp_path: Path) -> None:
    """Real training with dropout: every printed loss is equal, digit for digit."""
    plain, again = (
        train(tmp_path / name, strategy, world_size, checkpointing=name == "again", precision=precision)
        for name in ("plain", "again")
    )
    assert len(plain.losses()) == 6
    assert again.losses() == plain.losses()


@pytest.mark.processes
@pytest.mark.soak  # half a minute of compiling; test_equivalence.py compiles, too
def test_compiled_blocks_train(tmp_path: Path) -> None:
    """torch.compile takes a model whose blocks are computed again; losses are close."""
    plain = train(tmp_path / "plain", "single", 1, checkpointing=False, steps=3)
    again = train(tmp_path / "again", "single", 1, checkpointing=True, steps=3, compile=True)
    # step 1 has drawn other dropout masks: compiled code draws in an order of its own
    assert list(again.losses()) == [1, 2, 3]
    assert list(again.losses().values()) == pytest.approx(list(plain.losses().values()), rel=0.05)


@pytest.mark.processes
def test_a_checkpoint_fits_with_and_without(tmp_path: Path) -> None:
    """A run without continues from what one with it saved: names of weights are what they were."""
    train(tmp_path / "first", "fsdp", 2, checkpointing=True, steps=3, every=2)
    saved = tmp_path / "first" / "checkpoints" / checkpoint_name(2)
    gone_on = train(tmp_path / "second", "fsdp", 2, checkpointing=False, steps=4, resume=str(saved))
    straight = train(tmp_path / "third", "fsdp", 2, checkpointing=True, steps=4)
    assert gone_on.losses() == {step: loss for step, loss in straight.losses().items() if step > 2}


@pytest.mark.long
def test_less_memory_by_the_allocators_events() -> None:
    """The peak of one forward and backward, weights not counted, falls by half or more."""
    recipe = load_recipe("byte-gpt")

    def peak(*, checkpointing: bool) -> int:
        model = recipe.build_model({**GPT, "layers": 6}).train()
        if checkpointing:
            checkpoint_blocks(model, recipe.blocks)
        return max(real_allocations(recipe, model, 16, "fp32").totals)

    assert peak(checkpointing=True) < 0.5 * peak(checkpointing=False)


def test_names_and_values_stay() -> None:
    """State dict, modules and gradients are those of the plain model."""
    recipe = load_recipe(str(RECIPE))
    torch.manual_seed(0)
    model = recipe.build_model({})
    torch.manual_seed(0)
    changed = recipe.build_model({})
    checkpoint_blocks(changed, recipe.blocks)
    assert list(changed.state_dict()) == list(model.state_dict())
    assert [name for name, _ in changed.named_modules()] == [name for name, _ in model.named_modules()]
    for one in (model, changed):
        torch.manual_seed(1)  # of dropout
        one(torch.ones(4, 16)).sum().backward()
    for (name, left), (_, right) in zip(model.named_parameters(), changed.named_parameters(), strict=True):
        assert left.grad is not None, name
        assert right.grad is not None, name
        assert torch.equal(left.grad, right.grad), name


@pytest.mark.parametrize("blocks", [None, lambda _: [], lambda model: [model]])
def test_a_recipe_without_blocks_is_told_so(blocks: Any) -> None:
    """Nothing to compute again: the sentence says what to define, or which key to change."""
    with pytest.raises(
        RecipeError, match=r"no function blocks\(model\).*or leave activation_checkpointing out"
    ):
        checkpoint_blocks(nn.Linear(2, 2), blocks)
