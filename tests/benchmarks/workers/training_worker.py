"""One rank of bench_training: our trainer and a hand-written DDP loop take turns on the same model and ranks.

Reads TORCHDECK_RECIPE; writes one JSON object per rank to the path in argv[1] + rank. With argv[2] = "alone"
there is no hand-written loop, for measuring one rank against two.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.recipe_loading import Recipe, load_recipe
from torchdeck.distributed.strategies.base import make_strategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.hooks import make_hooks
from torchdeck.distributed.trainer.step import StepResult
from torchdeck.distributed.trainer.trainer import Trainer
from torchdeck.environment import Place, RunContext

TURN = 3
"""Steps before the other one has its turn."""


class HandWritten:
    """What a person writes who trains the same model with torch alone."""

    def __init__(self, recipe: Recipe, settings: RecipeSettings) -> None:
        training = settings.training
        self.model = DistributedDataParallel(recipe.build_model(settings.model), gradient_as_bucket_view=True)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=training.lr, betas=training.betas, fused=True
        )
        data = recipe.build_data(recipe.options_of_data(settings.model, settings.data), "train")
        loader = DataLoader(data, batch_size=training.microbatch, sampler=DistributedSampler(data))
        self.batches: Iterator[list[Tensor]] = iter(loader)

    def step(self) -> None:
        tokens, targets = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class Turns(Callback):
    """After every TURN steps of ours, as many of the other; all time between its turns counts as ours."""

    def __init__(self, other: HandWritten | None) -> None:
        self.other = other
        self.ours: list[float] = []
        self.theirs: list[float] = []
        self.since = time.perf_counter()

    def step(self, result: StepResult) -> None:
        if result.step % TURN:
            return
        now = time.perf_counter()
        self.ours.append((now - self.since) / TURN)
        if self.other is not None:
            for _ in range(TURN):
                self.other.step()
            self.theirs.append((time.perf_counter() - now) / TURN)
        self.since = time.perf_counter()


def main() -> None:
    settings = RecipeSettings.from_json(os.environ["TORCHDECK_RECIPE"])
    place, context = Place.from_env(), RunContext.from_env()
    recipe = load_recipe(settings.recipe)
    strategy = make_strategy(settings.distributed, Precision(settings.training.precision), place)
    strategy.setup()
    turns = Turns(None if sys.argv[2:] == ["alone"] else HandWritten(recipe, settings))
    hooks = [*make_hooks(context.rank_layout(place.rank), place, strategy.device), turns]
    trainer = Trainer(settings, recipe, strategy, context, hooks)
    trainer.run()
    strategy.close()
    Path(f"{sys.argv[1]}{place.rank}").write_text(json.dumps({"ours": turns.ours, "theirs": turns.theirs}))


if __name__ == "__main__":
    main()
