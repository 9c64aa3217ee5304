"""Built-in recipes are traced without memory, so that what a run takes is known before it starts."""

from pathlib import Path
from typing import Any

import pytest

from support.training.image_files import write_images
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import load_recipe
from torchdeck.tracing.request import PlannedBatch, TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_recipe

RECIPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bdh": ({"layers": 2, "heads": 2, "width": 16, "neurons": 64, "context": 32}, {"max_bytes": 50_000}),
    "digits": ({"width": 8}, {"augmentation": "mild"}),
    "byte-finetune": (
        {"layers": 2, "width": 16, "context": 64, "init_from": "/nowhere"},
        {"max_samples": 30},
    ),
    "image-folder": ({"width": 32, "classes": 3}, {"source": "images", "size": 32}),
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_is_traced(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter once, activations under both ways of keeping them, and nothing by real memory."""
    write_images(tmp_path / "images", 10)
    monkeypatch.chdir(tmp_path)
    model, data = RECIPES[name]
    batches = (PlannedBatch((0, 1, 2), 128, (2, 1)),) if name == "byte-finetune" else ()
    wanted = tuple(WantedTrace(4, checkpointing=again, batches=batches) for again in (False, True))
    request = TraceRequest(1, name, model, data, "fp32", FsdpSettings(), heldout=True, traces=wanted)
    profile = trace_recipe(request, lambda _: None)
    built = load_recipe(name).build_model({key: value for key, value in model.items() if key != "init_from"})
    assert {info.name: tuple(info.shape) for info in profile.parameters} == {
        key: tuple(value.shape) for key, value in built.named_parameters()
    }
    assert len(profile.traces) == 2
    assert not any("real" in note and "traced" in note for note in profile.notes)
    assert profile.heldout_samples
