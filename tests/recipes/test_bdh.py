"""The Dragon Hatchling, against its equations written down a second time."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes import bdh

SMALL: dict[str, Any] = {"layers": 3, "heads": 2, "width": 6, "neurons": 16, "dropout": 0.0, "context": 9}
Array = npt.NDArray[np.float64]


def model_of(seed: int = 0, **options: Any) -> bdh.DragonHatchling:
    torch.manual_seed(seed)
    model = bdh.build_model({**SMALL, **options}).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():  # of a size at which nothing vanishes
            parameter.normal_(std=0.5)
    return model


def normalised(x: Array) -> Array:
    scaled: Array = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return scaled


def turned(x: Array, time: int) -> Array:
    """Each pair of neurons as a complex number times e^(i · angle)."""
    size = len(x)
    result = np.empty(size)
    for pair in range(size // 2):
        angle = time * (2.0**16) ** (-2 * pair / size)
        point = complex(x[2 * pair], x[2 * pair + 1]) * np.exp(1j * angle)
        result[2 * pair], result[2 * pair + 1] = point.real, point.imag
    return result


def step_by_step(model: bdh.DragonHatchling, tokens: list[int]) -> Array:
    """Logits of one sequence by the recurrent equations: a state a layer and head, one token at a time."""
    weights = {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}
    decoder_x, decoder_y = weights["decoder_x"], weights["decoder_y"]
    heads, width, neurons = decoder_x.shape
    states = np.zeros((len(model.layers), heads, neurons, width))
    logits = []
    for time, token in enumerate(tokens):
        v = normalised(weights["embedding.weight"][token])
        for state in states:
            spikes = []
            for head in range(heads):
                x = np.maximum(v @ decoder_x[head], 0)
                seen = turned(x, time)
                a = seen @ state[head]
                state[head] += np.outer(seen, v)
                spikes.append(np.maximum(normalised(a) @ decoder_y[head], 0) * x)
            v = normalised(v + normalised(np.concatenate(spikes) @ weights["encoder"]))
        logits.append(v @ weights["readout"])
    return np.array(logits)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_forward_is_the_published_recurrence(seed: int) -> None:
    """What is computed for all times at once is what the equations give token by token."""
    model = model_of(seed)
    tokens = torch.randint(256, (2, 9))
    with torch.no_grad():
        logits = model(tokens).numpy()
    for sequence, made in zip(tokens.tolist(), logits, strict=True):
        # the angles are float32 in the model
        np.testing.assert_allclose(made, step_by_step(model, sequence), rtol=1e-4, atol=1e-4)


def test_the_future_is_not_seen_and_the_past_is() -> None:
    """Changing token 4 changes no logits before it, and those of every token from it on."""
    model = model_of()
    tokens = torch.randint(256, (1, 9))
    changed = tokens.clone()
    changed[0, 4] = (changed[0, 4] + 1) % 256
    with torch.no_grad():
        differs = (model(tokens) - model(changed)).abs().amax(-1)[0] > 1e-9
    assert differs.tolist() == [False] * 4 + [True] * 5


@pytest.mark.parametrize("layers", [1, 5])
def test_the_parameter_count_is_the_published_one(layers: int) -> None:
    """3 n d + 2 · 256 d, however many layers; at the paper's n = 32768 and d = 256, 25.3 million."""
    model = model_of(layers=layers)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == bdh.parameter_count(width=6, neurons=16) == 3 * 16 * 6 + 2 * 256 * 6
    assert bdh.parameter_count(width=256, neurons=32_768) == 25_296_896


def test_about_half_of_the_neurons_are_silent() -> None:
    """(z)₊ of weights that are symmetric about zero."""
    model = model_of(neurons=256)
    with torch.no_grad():
        v = bdh.normalised(model.embedding(torch.randint(256, (4, 9)))).unsqueeze(1)
        x = torch.relu(v @ model.decoder_x)
    assert 0.3 < float((x == 0).double().mean()) < 0.7


def test_neurons_that_cannot_be_paired_are_refused() -> None:
    """The message names both numbers and what is right."""
    with pytest.raises(
        RecipeError, match=r"neurons 18 cannot be shared out to 2 heads in pairs: .* multiple of 4"
    ):
        bdh.build_model({**SMALL, "neurons": 18})


@pytest.mark.processes
def test_it_learns_the_same_sharded_and_not(tmp_path: Path) -> None:
    """Two real ranks: the loss falls under DDP, and under FSDP, where layers share weights, just so."""
    (tmp_path / "text").write_bytes(b"the quick brown fox jumps over the lazy dog. " * 100)

    def run_of(strategy: str) -> ForkedRun:
        settings = recipe_settings(
            tmp_path / strategy,
            "bdh",
            model={"layers": 2, "heads": 2, "width": 16, "neurons": 64, "context": 32},
            data={"source": str(tmp_path / "text")},
            strategy=strategy,
            steps=30,
            lr=1e-2,
            eval_every=30,
            fsdp={"reshard_after_forward": True},
            final=False,
        )
        return ForkedRun(tmp_path / strategy, settings, world_size=2)

    ddp, fsdp = (ranks.succeeded() for ranks in run_forked(run_of("ddp"), run_of("fsdp")))
    assert ddp.heldout()[30] < 0.6 * ddp.heldout()[0]
    assert fsdp.losses() == pytest.approx(ddp.losses(), rel=1e-4)
    assert len(ddp.losses()) == 30
