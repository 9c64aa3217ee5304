"""Every recipe starts from weights that a checkpoint, an export or another program's file has."""

import os
import pickle
import string
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from torchdeck.distributed.recipe_loading import RecipeError, load_recipe
from torchdeck.distributed.trainer.initial_weights import renamed
from torchdeck.distributed.trainer.setup import build_model

SIZES: dict[str, dict[str, Any]] = {
    "byte-gpt": {"layers": 2, "heads": 2, "width": 8, "context": 8},
    "byte-finetune": {"layers": 2, "heads": 2, "width": 8, "context": 8},
    "bdh": {"layers": 2, "heads": 2, "width": 6, "neurons": 16},
    "digits": {"width": 4},
    "image-folder": {"width": 32, "classes": 3},
}
OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.inner = nn.Linear(3, 3)
        self.outer = nn.Linear(3, 3, bias=False)
        self.outer.weight = self.inner.weight

def build_model(options):
    assert not options
    return Own()

def build_data(options, split):
    return None

def loss(model, batch):
    return model(batch).mean()
"""


def model_of(recipe: str, seed: int, **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    return build_model(load_recipe(recipe), {**SIZES.get(recipe, {}), **options})


def write(path: Path, tensors: dict[str, Tensor]) -> str:
    if path.suffix == ".safetensors":
        save_file({name: tensor.clone() for name, tensor in tensors.items()}, path)
    else:
        torch.save({"model": tensors, "epoch": 3}, path)
    return str(path)


def own_recipe(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
@pytest.mark.parametrize("recipe", [*sorted(SIZES), "own.py"])
def test_a_recipe_starts_from_a_file(recipe: str, name: str, tmp_path: Path) -> None:
    """All of its tensors, buffers too, are those of the file."""
    recipe = own_recipe(tmp_path) if recipe == "own.py" else recipe
    first = model_of(recipe, 1)
    for buffer in first.buffers():
        buffer.add_(2)
    start = write(tmp_path / name, dict(first.state_dict()))
    for one, other in zip(
        first.state_dict().items(), model_of(recipe, 2, init_from=start).state_dict().items(), strict=True
    ):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])


def test_tied_weights_may_have_one_name(tmp_path: Path) -> None:
    """As in files that keep one of the names, and buffers may be missing."""
    recipe = own_recipe(tmp_path)
    first = model_of(recipe, 1)
    kept = {name: first.state_dict()[name] for name in ("norm.weight", "norm.bias", "inner.bias")}
    for name in ("inner.weight", "outer.weight"):
        start = write(tmp_path / "weights.pt", {**kept, name: first.state_dict()["inner.weight"]})
        found = model_of(recipe, 2, init_from=start)
        assert torch.equal(found.state_dict()["outer.weight"], first.state_dict()["inner.weight"])


def test_names_that_differ_are_mapped(tmp_path: Path) -> None:
    """By patterns; a tensor with an empty name is left out."""
    first = model_of("byte-gpt", 1)
    there = {f"gpt.{name}".replace("blocks", "h"): value for name, value in first.state_dict().items()}
    start = write(tmp_path / "weights.pt", {**there, "gpt.h.0.bias": torch.zeros(3)})
    names = {"gpt.h.*.bias": "", "gpt.h.*.**": "blocks.*.**", "gpt.**": "**"}
    found = model_of("byte-gpt", 2, init_from=start, init_names=names)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), found.parameters(), strict=True))


def test_a_layer_may_begin_anew(tmp_path: Path) -> None:
    """Such as the last one for other classes; the source may have it, in another shape, or not."""
    first = model_of("image-folder", 1, classes=7)
    whole = dict(first.state_dict())
    start = str(tmp_path / "weights.pt")
    for there in (whole, {name: value for name, value in whole.items() if not name.startswith("fc.")}):
        write(tmp_path / "weights.pt", there)
        fresh = model_of("image-folder", 2).state_dict()
        found = model_of("image-folder", 2, init_from=start, init_new=["fc.*"]).state_dict()
        for name, value in found.items():
            assert torch.equal(value, (fresh if name.startswith("fc.") else whole)[name]), name
    with pytest.raises(RecipeError, match=r'init_new: the model has no tensor "head\.\*"'):
        model_of("image-folder", 2, init_from=start, init_new=["head.*"])


@given(st.lists(st.text(string.ascii_letters + ".*", max_size=8), unique=True, max_size=6))
def test_without_a_map_names_stay(names: list[str]) -> None:
    assert renamed(names, {}) == {name: name for name in names if name}


@pytest.mark.parametrize(
    ("patterns", "names", "message"),
    [
        ({"a": "c", "b": "c"}, ["a", "b"], "a and b both become c"),
        ({"a": "b"}, ["a", "b"], "a and b both become b"),
        ({"x": "y"}, ["a"], 'has no tensor "x"'),
        ({"a.*": "b.*.*"}, ["a.1"], "more"),
    ],
)
def test_a_wrong_map_is_refused(patterns: dict[str, str], names: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        renamed(names, patterns, first=patterns)


def test_another_models_weights_are_refused(tmp_path: Path) -> None:
    """Missing, additional and differently shaped tensors are named, with what to do."""
    tensors = dict(model_of("byte-gpt", 1).state_dict())
    cases = {
        "has no norm.bias; it has norm.shift, which model.init_names may": {
            **{name: tensors[name] for name in tensors if name != "norm.bias"},
            "norm.shift": tensors["norm.bias"],
        },
        'has no blocks.2.x; .*{"blocks.2.x" = ""}': {**tensors, "blocks.2.x": torch.zeros(1)},
        r"norm.bias is \(3,\) there and \(8,\) here": {**tensors, "norm.bias": torch.zeros(3)},
    }
    for message, there in cases.items():
        start = write(tmp_path / "weights.pt", there)
        with pytest.raises(RecipeError, match=message):
            model_of("byte-gpt", 2, init_from=start)


class Harmful:
    """What its pickle would do if it was executed: make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    """A pickle that asks for a call is refused, in the archive of torch.save and as a plain pickle."""
    mark = tmp_path / "executed"
    torch.save({"weight": Harmful(mark)}, tmp_path / "weights.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Harmful(mark)))
    for name in ("weights.pt", "plain.pt"):
        with pytest.raises(RecipeError, match=r"init_from: .* cannot be read"):
            model_of("digits", 1, init_from=str(tmp_path / name))
    assert not mark.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"init_from": 3},
        {"init_from": ""},
        {"init_names": {"a": "b"}},
        {"init_names": ["a"]},
        {"init_new": ["a"]},
        {"init_from": "w.pt", "init_new": "a"},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    options = {"init_from": "w.pt", **options} if options == {"init_names": ["a"]} else options
    with pytest.raises(RecipeError, match=r"model\.init_"):
        model_of("digits", 1, **options)


def reference_logits(weights: dict[str, Tensor], tokens: Tensor, layers: int) -> Tensor:
    """The authors' program, by its own names: encoder reads the width, encoder_v the attention."""

    def norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:])

    x = norm(weights["embed.weight"][tokens]).unsqueeze(1)
    neurons, time = weights["encoder"].shape[-1], tokens.shape[1]
    frequencies = (2.0**16) ** (-torch.arange(0, neurons, 2) / neurons)
    phases = torch.polar(torch.ones(()), torch.outer(torch.arange(time), frequencies))
    for _ in range(layers):
        sparse = functional.relu(x @ weights["encoder"])
        pairs = torch.view_as_complex(sparse.reshape(*sparse.shape[:-1], -1, 2))
        queries = torch.view_as_real(pairs * phases).flatten(-2)
        attention = norm((queries @ queries.mT).tril(-1) @ x)
        gated = sparse * functional.relu(attention @ weights["encoder_v"])
        x = norm(x + norm(gated.transpose(1, 2).flatten(2).unsqueeze(1) @ weights["decoder"]))
    return x.squeeze(1) @ weights["lm_head"]


def test_the_reference_bdh_is_read_by_its_own_names(tmp_path: Path) -> None:
    """Its `encoder` is not ours, which a map by equal names would take silently."""
    torch.manual_seed(1)
    weights = OrderedDict(
        {
            "decoder": torch.randn(16, 6),
            "encoder": torch.randn(2, 6, 8),
            "encoder_v": torch.randn(2, 6, 8),
            "embed.weight": torch.randn(256, 6),
            "lm_head": torch.randn(6, 256),
            "attn.freqs": torch.randn(1, 1, 1, 8),
        }
    )
    start = write(tmp_path / "bdh.pt", weights)
    model = model_of("bdh", 2, init_from=start)
    tokens = torch.randint(256, (2, 7))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), reference_logits(weights, tokens, 2), rtol=1e-4, atol=1e-4)
