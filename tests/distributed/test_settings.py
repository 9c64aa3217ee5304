"""TORCHDECK_RECIPE and the launcher's variables, read and checked."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.ranks.recipe_ranks import recipe_settings
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.rank_settings import RecipeSettings


def whole() -> dict[str, Any]:
    return recipe_settings(Path("/run"), model={"width": 8})


def test_reads_what_the_planner_writes() -> None:
    """Every table comes back typed, whole numbers as floats where floats belong, lists as tuples."""
    value = whole()
    value["training"] |= {"lr": 1, "betas": [0.8, 0.9], "clip": None}
    settings = RecipeSettings.from_json(json.dumps(value))
    assert type(settings.training.lr) is float
    assert settings.training.betas == (0.8, 0.9)
    assert settings.training.clip is None
    assert settings.model == {"width": 8}
    assert settings.distributed.fsdp.wrap == "block"
    assert settings.checkpoint.directory == "/run/checkpoints"


@pytest.mark.parametrize(
    ("table", "key", "value", "sentence"),
    [
        ("training", "lr", "fast", "recipe.training.lr is 'fast': expected a number"),
        ("training", "microbatch", True, "recipe.training.microbatch is True: expected a whole number"),
        ("training", "microbatch", 0, "training.microbatch is 0: expected 1 or more"),
        ("training", "optimizer", "lion", "expected one of 'adamw', 'adam', 'sgd'"),
        ("training", "betas", [0.9], "recipe.training.betas is [0.9]: expected 2 values"),
        ("training", "epochs", 1.0, "exactly one of training.steps and training.epochs"),
        ("training", "scaled_lr", 0.0, "training.scaled_lr is 0.0: expected a number above 0"),
        ("training", "colour", "red", "recipe.training has unknown fields colour"),
        (
            "distributed",
            "ddp",
            {"bucket_size_mb": "big"},
            "recipe.distributed.ddp.bucket_size_mb is 'big': expected a number",
        ),
        ("distributed", "fsdp", [], "recipe.distributed.fsdp is []: expected a mapping"),
        ("checkpoint", "keep_last", 0, "checkpoint.keep_last is 0: expected 1 or more"),
        ("training", "ema", 1.0, "training.ema is 1.0: expected a number above 0 and below 1"),
        ("training", "min_delta", -0.1, "training.min_delta is -0.1: expected 0 or more"),
        ("telemetry", "profile_steps", [3, 2], "telemetry.profile_steps is [3, 2]: expected two steps"),
    ],
)
def test_names_the_field_that_is_wrong(table: str, key: str, value: Any, sentence: str) -> None:
    """A wrong type, value or name is refused with its path and what would be right."""
    settings = whole()
    settings[table][key] = value
    with pytest.raises(SettingsError) as refusal:
        RecipeSettings.from_json(json.dumps(settings))
    assert sentence in str(refusal.value)


def test_missing_field_is_named() -> None:
    """A field without a default has to be there."""
    settings = whole()
    del settings["training"]["lr"]
    with pytest.raises(SettingsError, match=r"recipe\.training\.lr is missing"):
        RecipeSettings.from_json(json.dumps(settings))
