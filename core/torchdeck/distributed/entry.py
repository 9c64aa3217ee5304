"""Program of every rank of a recipe run: `python -m torchdeck.distributed.entry`.

Reads TORCHDECK_RECIPE and the launcher's variables, trains, and exits with 0 at the end or if it was stopped,
and with 1 if it failed; the reason is then in the rank's error.json.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.contract.metrics.progress import ProgressFile
from torchdeck.contract.run_states import RankPhase
from torchdeck.data.batch_plan.columns import BatchPlanError
from torchdeck.data.order import PositionError
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.process_end import leave, torchrun_error_file, write_error
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.recipe_loading import RecipeError, RecipeImportError
from torchdeck.environment import LauncherVariableError, Place, RunContext
from torchdeck.telemetry.doctor.rank_heartbeat import start_heartbeat

EXPLAINED = (
    RecipeError,
    SettingsError,
    LauncherVariableError,
    CheckpointError,
    PositionError,
    BatchPlanError,
)
"""Errors whose message is enough for the user; their traceback is in error.json."""


def main() -> int:
    """Train as the environment specifies; return the process's exit code."""
    context, place = RunContext(), Place()
    try:
        place = Place.from_env()
        context = RunContext.from_env()
        _use_copy(os.environ)
        layout = context.rank_layout(place.rank)
        if layout is not None:
            # before importing torch, which takes seconds
            ProgressFile(layout.progress).report(RankPhase.STARTING, 0)
            start_heartbeat(layout)
        _train(_settings(os.environ), place, context)
    except Exception as error:  # noqa: BLE001 - whatever it is ends up in error.json
        _fail(error, place, context)
        return 1
    return 0


def _use_copy(environment: Mapping[str, str]) -> None:
    """Import modules of the working directory from the run's own copy of it, if there is one."""
    folder = environment.get("TORCHDECK_CODE")
    if folder:
        if sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - what `python -m` put there
            del sys.path[0]
        sys.path.insert(0, folder)


def _settings(environment: Mapping[str, str]) -> RecipeSettings:
    text = environment.get("TORCHDECK_RECIPE")
    if not text:
        raise SettingsError(
            "TORCHDECK_RECIPE is not set: start recipes with `torchdeck --no-gui run.toml`, or with the "
            "script that `torchdeck plan --export sh` writes"
        )
    return RecipeSettings.from_json(text)


def _train(settings: RecipeSettings, place: Place, context: RunContext) -> None:
    # torch depends on these
    from torchdeck.distributed.group.agreement import require_same
    from torchdeck.distributed.precision import Precision
    from torchdeck.distributed.recipe_loading import load_recipe
    from torchdeck.distributed.strategies.base import make_strategy
    from torchdeck.distributed.trainer.hooks import make_hooks
    from torchdeck.distributed.trainer.setup import recipe_callbacks
    from torchdeck.distributed.trainer.trainer import Trainer

    importlib.import_module("torch._dynamo")  # every optimizer does this; as slow as torch itself

    recipe = load_recipe(settings.recipe)
    strategy = make_strategy(settings.distributed, Precision(settings.training.precision), place)
    strategy.setup()
    require_same(strategy.group, settings.to_be_same())
    hooks = [
        *make_hooks(
            context.rank_layout(place.rank), place, strategy.device, settings.telemetry.profile_steps
        ),
        *recipe_callbacks(recipe, settings),
    ]
    try:
        trainer = Trainer(settings, recipe, strategy, context, hooks)
        finished = trainer.run()
    except Exception:
        for hook in hooks:
            with suppress(Exception):  # the reason why training failed has precedence
                hook.close()
        raise
    trainer.close()
    for hook in hooks:
        hook.close()
    strategy.close()
    if place.rank == 0:
        print("training is complete" if finished else "training was stopped and can be resumed", flush=True)


def _fail(error: Exception, place: Place, context: RunContext) -> None:
    layout = context.rank_layout(place.rank)
    if isinstance(error, RecipeImportError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # its traceback has only the line its author needs
    explained = isinstance(error, EXPLAINED)
    write_error(error, [*torchrun_error_file(), *([layout.error] if layout else [])], explained=explained)
    if explained:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(type(error), error, error.__traceback__)
        sys.stderr.flush()


if __name__ == "__main__":
    leave(main())
