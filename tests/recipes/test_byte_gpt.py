"""The byte GPT."""

import math
from pathlib import Path

import pytest
import torch

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes import byte_gpt

SMALL = {"layers": 2, "heads": 2, "width": 16, "context": 12, "dropout": 0.0}


def test_starts_at_the_loss_of_guessing() -> None:
    """Fresh weights know nothing: ln 256 nats a byte, over batch × context bytes."""
    torch.manual_seed(0)
    tokens = torch.randint(256, (8, 12))
    loss, count = byte_gpt.loss(byte_gpt.build_model(SMALL), (tokens, tokens))
    assert float(loss.detach()) == pytest.approx(math.log(256), abs=0.1)
    assert count == 8 * 12


def test_the_future_is_not_seen() -> None:
    """Changing byte 6 changes no logits before it, and does change later ones."""
    model = byte_gpt.build_model(SMALL).eval()
    tokens = torch.randint(256, (1, 12))
    changed = tokens.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 256
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :6], after[:, :6], atol=1e-6)
    assert not torch.allclose(before[:, 7:], after[:, 7:], atol=1e-6)


def test_tied_weights_are_one_parameter() -> None:
    """With tie_weights the output layer is the embedding's."""
    tied, untied = byte_gpt.build_model({**SMALL, "tie_weights": True}), byte_gpt.build_model(SMALL)
    assert tied.head.weight is tied.embedding.weight
    size = sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in tied.parameters())
    assert size == 256 * 16


def test_heads_that_do_not_divide_are_refused() -> None:
    """The message names both numbers."""
    with pytest.raises(RecipeError, match="width 16 cannot be divided among 3 heads"):
        byte_gpt.build_model({**SMALL, "heads": 3})


def test_data_has_the_models_context(tmp_path: Path) -> None:
    """A sample is as long as the model's context, unless [data] says otherwise."""
    path = tmp_path / "text"
    path.write_text("x" * 100)
    options = byte_gpt.data_options({"context": 12}, {"source": str(path)})
    data = byte_gpt.build_data(options, "train")
    assert data is not None
    assert data[0][0].shape == (12,)
    assert len(list(byte_gpt.blocks(byte_gpt.build_model(SMALL)))) == 2
