"""Settings that most runs need, in the order in which people think of them; search for any other."""

from __future__ import annotations

from collections.abc import Iterable

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.problems import dotted

_PLACES = ("distributed.nodes", "distributed.nproc", "distributed.devices")
_RECIPE = (
    "name",
    "run.recipe",
    "run.script",
    "run.module",
    "data",
    "data.source",
    "data.augmentation",
    "model",
    "model.path",
    "model.method",
    "model.network",
    "model.classes",
    "model.layers",
    "model.width",
    "model.neurons",
    "model.context",
    "training.microbatch",
    "training.lr",
    "training.steps",
    "training.epochs",
    "training.precision",
    "distributed.strategy",
    *_PLACES,
)
_PROGRAM = ("name", "run.recipe", "run.script", "run.module", "run.args", "run.interpreter", *_PLACES)
"""A script or module reads data, model and training from its own arguments."""


def basic_settings(kind: str, fields: Iterable[Key]) -> list[Key]:
    """Return those of `fields` that are basic, in order.

    Args:
        kind: what is run: `recipe`, `script` or `module`.
        fields: keys of the run, such as those of its recipe.
    """
    known = {dotted(key.path): key for key in fields}
    wanted = _RECIPE if kind == "recipe" else _PROGRAM
    return [known[name] for name in wanted if name in known]


OTHER_NAMES = {
    "run.args": "command line flags",
    "run.env": "environ export",
    "run.interpreter": "python venv conda",
    "run.environment": "venv virtualenv conda uv requirements",
    "data.source": "dataset path train file",
    "data.heldout": "eval test split",
    "data.workers": "num workers dataloader data loader",
    "training.steps": "max steps iterations",
    "training.epochs": "num train epochs",
    "training.microbatch": "batch size per device train batch size",
    "training.accumulation": "gradient accumulation steps",
    "training.lr": "learning rate step size",
    "training.clip": "max grad norm gradient clipping",
    "training.precision": "mixed precision amp autocast half fp16 bf16",
    "training.activation_checkpointing": "gradient checkpointing",
    "training.compile": "torch.compile inductor",
    "training.eval_every": "eval steps evaluation interval",
    "training.patience": "early stopping",
    "training.seed": "random state",
    "distributed.strategy": "parallelism zero",
    "distributed.nodes": "world size hosts machines num nodes nnodes",
    "distributed.nproc": "world size num processes nproc per node gpus",
    "distributed.devices": "cuda visible devices gpus",
    "checkpoint.every": "save steps interval",
    "checkpoint.keep_last": "save total limit",
    "checkpoint.directory": "output dir save path",
    "checkpoint.resume": "resume from checkpoint",
}
"""Words by which users of other trainers know a key."""


def finds(key: Key, words: Iterable[str]) -> bool:
    """Return whether `key` has all of `words`, which are lower case, in its names, description or choices."""
    also = OTHER_NAMES.get(dotted(key.path), "")
    choices = " ".join(map(str, key.choices))
    text = f"{key.name} {key.label} {also} {key.description} {choices}".lower()
    return all(word in text for word in words)


def find_keys(words: str) -> list[Key]:
    """Return the keys that have all of `words`; those with all of them in a name come first."""
    wanted = words.lower().split()

    def is_named(key: Key) -> bool:
        names = f"{key.name} {key.label} {OTHER_NAMES.get(dotted(key.path), '')}".lower()
        return all(word in names for word in wanted)

    found = [key for key in all_keys().values() if key.section is None and finds(key, wanted)]
    return sorted(found, key=lambda key: not is_named(key)) if wanted else []
