"""A model on its ranks, which are joined at first use and left at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.distributed.seeding import make_deterministic
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.same_model import begin_alike
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.hooks import LinesHook, ProfileHook, make_hooks
from torchdeck.distributed.trainer.setup import build_parts
from torchdeck.distributed.trainer.step import TrainingParts
from torchdeck.environment import RunContext


class Session:
    """State shared by all calls of one DistributedTrainer.

    Args:
        strategy: left at the end, unless it is already set up.
        settings: settings of all calls; each rank's are compared with the others'.
        recipe: recipe to train.
        model: model of the recipe, not wrapped; starts with rank 0's weights.
        context: the Torchdeck run that this is part of, if there is one.
        verbose: rank 0 prints what would be reported to a run.

    Attributes:
        hooks: report to the run or the terminal, once the ranks have joined.
    """

    def __init__(
        self,
        strategy: DistributedStrategy,
        settings: RecipeSettings,
        recipe: Recipe,
        model: nn.Module,
        context: RunContext,
        *,
        verbose: bool,
    ) -> None:
        self.hooks: list[Callback] = []
        self.strategy = strategy
        self._was_up = strategy.is_set_up
        self.settings = settings
        self.recipe = recipe
        self._model = model
        self.context = context
        self._verbose = verbose
        self._parts: TrainingParts | None = None

    def parts(self) -> TrainingParts:
        """Return the wrapped model and its components; joins the other ranks the first time."""
        if self._parts is None:
            strategy = self.strategy
            if not strategy.is_set_up:
                strategy.setup()
            if self.settings.training.deterministic:
                make_deterministic()
            require_same(strategy.group, self.settings.to_be_same())
            begin_alike(strategy.group, self._model)
            self.hooks = self._make_hooks()
            self._parts = build_parts(self.settings, self.recipe, strategy)
        return self._parts

    def close(self, callbacks: Sequence[Callback]) -> None:
        """Close hooks and `callbacks`, then leave the other ranks, unless other code had joined them."""
        for hook in [*self.hooks, *callbacks]:
            hook.close()
        self.hooks, self._parts = [], None
        if not self._was_up and self.strategy.is_set_up:
            self.strategy.close()

    def _make_hooks(self) -> list[Callback]:
        place, device = self.strategy.place, self.strategy.device
        layout, profiled = self.context.rank_layout(place.rank), self.settings.telemetry.profile_steps
        if layout is not None:
            return make_hooks(layout, place, device, profiled)
        lines: list[Callback] = [LinesHook()] if self._verbose and place.rank == 0 else []
        if profiled is None:
            return lines
        return [*lines, ProfileHook(Path(f"trace-rank{place.rank}.json.gz"), profiled, device)]
