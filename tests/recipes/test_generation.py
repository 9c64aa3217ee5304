"""Text from trained models, token by token."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.recipes import bdh, byte_finetune, byte_gpt
from torchdeck.recipes.generation.request import Sampling, TextRequest
from torchdeck.recipes.generation.sampling import GeneratingModel, chosen

CONTEXT = 12


def model_of(recipe: str) -> GeneratingModel:
    """A model with large weights, whose choices differ from one prompt to the next."""
    torch.manual_seed(3)
    model: GeneratingModel
    if recipe == "bdh":
        model = bdh.build_model({"layers": 2, "heads": 2, "width": 8, "neurons": 32, "dropout": 0.5})
    else:
        build = byte_gpt.build_model if recipe == "byte-gpt" else byte_finetune.build_model
        model = build({"layers": 2, "heads": 2, "width": 8, "context": CONTEXT, "dropout": 0.5})
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.7)
    return model


@pytest.mark.parametrize("recipe", ["byte-gpt", "byte-finetune", "bdh"])
def test_the_likeliest_token_is_chosen_at_temperature_0(recipe: str) -> None:
    """Each is that of the whole text before it, without dropout, and of no more than the context."""
    model = model_of(recipe).train()
    found = list(model.generate("prompt", temperature=0, max_tokens=20))
    assert model.training
    model.eval()
    tokens = list(b"prompt")
    for token in found:
        read = tokens if recipe == "bdh" else tokens[-CONTEXT:]
        with torch.no_grad():
            assert token == int(model(torch.tensor([read]))[0, -1].argmax())
        tokens.append(token)
    assert len(found) == 20
    assert len(set(found)) > 3


def test_a_window_limits_what_is_read() -> None:
    """The same end of two prompts has the same continuation."""
    model = model_of("bdh")
    one, other = (
        list(model.generate(text, temperature=0, window=4, max_tokens=20)) for text in ("abcdefgh", "xyefgh")
    )
    assert one == other
    assert one != list(model.generate("abcdefgh", temperature=0, max_tokens=20))


@pytest.mark.parametrize("recipe", ["byte-gpt", "bdh"])
def test_equal_seeds_give_equal_text(recipe: str) -> None:
    model = model_of(recipe)
    one, again, other = (bytes(model.generate("a", seed=seed, max_tokens=30)) for seed in (1, 1, 2))
    assert one == again != other
    assert list(model.generate([97], seed=1, max_tokens=30)) == [*one]
    assert bytes(model.generate("a", max_tokens=30)) != bytes(model.generate("a", max_tokens=30))


def test_a_token_is_there_before_the_next_is_computed() -> None:
    """One call of the model for each; none after the last that is taken."""
    model, calls = model_of("byte-gpt"), [0]
    model.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))
    assert len([*islice(model.generate("a", max_tokens=50), 3)]) == 3
    assert calls == [3]


def test_a_token_may_end_the_text() -> None:
    model = model_of("byte-gpt")
    whole = list(model.generate("a", seed=5, max_tokens=40))
    end = whole[10]
    assert list(model.generate("a", seed=5, max_tokens=40, stop=end)) == whole[: whole.index(end)]


@settings(deadline=None)
@given(
    st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=20, unique=True),
    st.integers(1, 25),
    st.sampled_from([1e-30, 0.5, 1.0, 100.0]),
    st.integers(0, 1000),
)
def test_only_the_likeliest_k_are_chosen(values: list[float], k: int, temperature: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    token = chosen(torch.tensor(values), Sampling(1, temperature, k), generator)
    best = sorted(range(len(values)), key=lambda each: values[each], reverse=True)
    assert token in best[:k]
    if temperature == 1e-30:
        assert token == best[0]


def test_temperature_scales_the_odds() -> None:
    """Logits 0 and log 4: odds of 1 to 4, and of 1 to 2 at temperature 2."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.0, 4.0]).clamp(min=1).log()
    for temperature, share in ((1.0, 4 / 5), (2.0, 2 / 3)):
        drawn = Counter(chosen(logits, Sampling(1, temperature), generator) for _ in range(4000))
        assert drawn[1] / 4000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_settings_are_refused_at_the_call(options: dict[str, Any], said: str) -> None:
    model = model_of("byte-gpt")
    with pytest.raises(ValueError, match=said):
        model.generate("a", **options)
    with pytest.raises(ValueError, match="prompt is empty"):
        model.generate("")


def test_a_request_is_the_same_after_a_pipe() -> None:
    request = TextRequest("/a", "bdh", {"width": 8}, "prompt", Sampling(3, 0.5, 2, 7), ema=True)
    assert TextRequest.from_json(request.to_json()) == request
