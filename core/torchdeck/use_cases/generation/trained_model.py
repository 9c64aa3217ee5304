"""The model that a checkpoint is of: recipe and [model] table, from the run that saved it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.loader import load_config
from torchdeck.config.problems import ConfigError
from torchdeck.contract.atomic import read_json
from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.refusal import Refusal
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.recipes.generation.request import GENERATING
from torchdeck.runs.registry import RunRegistry


class GenerateError(Refusal):
    """There is no answer; the message has the reason."""

    page = "recipes#try-a-trained-model"


@dataclass(frozen=True)
class TrainedModel:
    """A recipe that writes text, and the model's sizes."""

    recipe: str
    options: Mapping[str, Any]
    """[model] table."""


def model_of_run(layout: RunLayout) -> TrainedModel:
    """Return the model that a run trains.

    Raises:
        GenerateError: the run is not of a recipe that writes text.
    """
    plan: Any = read_json(layout.plan)
    try:
        settings = RecipeSettings.from_json(plan["nodes"][0]["env"]["TORCHDECK_RECIPE"])
    except (TypeError, KeyError, IndexError, SettingsError):
        raise _no_text(f"run {layout.root.name} is not of a built-in recipe") from None
    return _checked(settings.recipe, settings.model, f"run {layout.root.name}")


def interpreter_of_run(layout: RunLayout) -> str:
    """Return the Python of the run's ranks if it is on this machine, else the one that runs this program."""
    try:
        found = LaunchPlan.from_json(read_json(layout.plan)).nodes[0].interpreter
    except (PlanFormatError, OSError, IndexError):
        return sys.executable
    return found if os.access(found, os.X_OK) else sys.executable


def model_of_file(path: Path) -> TrainedModel:
    """Return the model of a run file.

    Raises:
        GenerateError: it cannot be read, or is not of a recipe that writes text.
    """
    try:
        config = load_config(path).config
    except (ConfigError, OSError) as error:
        raise GenerateError(f"{path} cannot be read: {error}") from error
    return _checked(config.run.recipe or "", config.model, str(path))


def model_of_checkpoint(source: Path, home: Path) -> TrainedModel:
    """Return the model of a checkpoint or an export, by the run that its manifest names.

    Args:
        source: its folder.
        home: TORCHDECK_HOME, in which the run is looked for; a checkpoint in a run's directory needs none.

    Raises:
        GenerateError: the run is not here, or not of a recipe that writes text.
    """
    unknown = GenerateError(
        f"the sizes of the model in {source} are unknown",
        "the run that trained it is not on this machine",
        fix="name its run file with --run",
    )
    try:
        run_id = read_manifest(source).run_id
    except (CheckpointError, OSError):
        raise unknown from None
    layouts = [RunLayout(folder) for folder in source.absolute().parents[1:2]]
    if run_id in RunRegistry(home).ids():
        layouts.append(RunLayout(home / "runs" / run_id))
    for layout in layouts:
        if layout.root.name == run_id and layout.plan.is_file():
            return model_of_run(layout)
    raise unknown


def _checked(recipe: str, options: Mapping[str, Any], of: str) -> TrainedModel:
    if recipe not in GENERATING:
        raise _no_text(f'{of} is of recipe "{recipe}"' if recipe else f"{of} is not of a recipe")
    return TrainedModel(recipe, options)


def _no_text(finding: str) -> GenerateError:
    return GenerateError(finding, f"only models of {', '.join(GENERATING)} write text")
