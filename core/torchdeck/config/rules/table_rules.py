"""Contradictions between options of the recipes that come with Torchdeck."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchdeck.config.problems import shown
from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck.config.toml.document import KeyPath
from torchdeck.recipes.options.text import TextData

_RECIPE: KeyPath = ("run", "recipe")
_BYTES = 256
_GPTS = ("byte-gpt", "byte-finetune")


def heads_divide(given: Given) -> Iterator[Finding]:
    """Heads divide the width of a GPT evenly."""
    config = given.config
    if config.run.recipe not in _GPTS:
        return
    heads, width = config.model["heads"], config.model["width"]
    if width % heads:
        wrong = f"{heads} heads do not divide width = {width} evenly"
        fits = [count for count in range(1, min(width, 1024) + 1) if width % count == 0]
        near = min(fits, key=lambda count: (abs(count - heads), count))
        right = f"heads that divide the width, such as {near}"
        yield Finding(("model", "heads"), wrong, right, (("model", "width"), _RECIPE))


def neurons_of_heads(given: Given) -> Iterator[Finding]:
    """Heads of a Dragon Hatchling divide its neurons evenly, and rotate them in pairs."""
    config = given.config
    if config.run.recipe != "bdh":
        return
    heads, neurons = config.model["heads"], config.model["neurons"]
    if neurons % (2 * heads):
        wrong = f"{neurons} neurons are not pairs for {heads} heads"
        right = f"a multiple of {2 * heads}, such as {-(-neurons // (2 * heads)) * 2 * heads}"
        yield Finding(("model", "neurons"), wrong, right, (("model", "heads"), _RECIPE))


def text_source(given: Given) -> Iterator[Finding]:
    """The source is text or tokens, and enough for a sample."""
    config, source = given.config, ("data", "source")
    if config.run.recipe not in BUILTIN_RECIPES or BUILTIN_RECIPES[config.run.recipe][1] is not TextData:
        return
    tokens, most, context = config.data["tokens"], config.data["max_bytes"], config.model["context"]
    uses: tuple[KeyPath, ...] = (("model", "context"), _RECIPE)
    if most is not None and most <= context:
        wrong = f"{most} bytes of text are less than one sample, {context} bytes and the next one"
        yield Finding(("data", "max_bytes"), wrong, f"more than {context}", uses)
    for path in (source, ("data", "max_bytes")) if tokens is not None else ():
        if given.written(path):
            wrong = "it says which text is read, but with data.tokens no text is read"
            yield Finding(path, wrong, f"no {path[-1]}, or no tokens", (("data", "tokens"), _RECIPE))
    if tokens is None and given.written(("data", "token_dtype")):
        wrong = "it describes a file of tokens, but data.tokens is not set"
        yield Finding(("data", "token_dtype"), wrong, "data.tokens too, or no token_dtype", (_RECIPE,))


def vocabulary_of_bytes(given: Given) -> Iterator[Finding]:
    """Text is read as bytes, of which there are 256 values."""
    config = given.config
    if config.run.recipe not in BUILTIN_RECIPES or "vocabulary" not in config.model:
        return
    if config.data.get("tokens") is None and config.model["vocabulary"] < _BYTES:
        wrong = f"{config.model['vocabulary']} are fewer than the {_BYTES} values of a byte, as text is read"
        yield Finding(("model", "vocabulary"), wrong, f"at least {_BYTES}", (("data", "tokens"), _RECIPE))


def heldout_to_evaluate(given: Given) -> Iterator[Finding]:
    """An evaluation needs validation data."""
    config = given.config
    if config.run.recipe not in BUILTIN_RECIPES or config.run.recipe == "image-folder":
        return  # a folder of images may be split already
    if config.training.eval_every is not None and config.data["heldout"] == 0:
        wrong = "there is no validation data to evaluate on: data.heldout is 0"
        uses = (("data", "heldout"), _RECIPE)
        yield Finding(("training", "eval_every"), wrong, "data.heldout = 0.05, or no eval_every", uses)


def lora_only(given: Given) -> Iterator[Finding]:
    """LoRA's sizes are of no effect where all of the model is trained."""
    config = given.config
    if config.run.recipe != "hf-causal-lm" or config.model["method"] == "lora":
        return
    for name in ("rank", "alpha", "dropout", "targets"):
        path = ("model", name)
        if given.written(path):
            wrong = 'it is of LoRA, and has no effect with model.method = "full"'
            yield Finding(path, wrong, f'no {name}, or model.method = "lora"', (("model", "method"), _RECIPE))


RECIPE_RULES: tuple[Rule, ...] = (
    heads_divide,
    neurons_of_heads,
    text_source,
    vocabulary_of_bytes,
    heldout_to_evaluate,
    lora_only,
)


# Contradictions of the [checkpoint] table: checkpoints kept for a metric that none of them will have.

_EVERY: KeyPath = ("checkpoint", "every")
_EVAL_EVERY: KeyPath = ("training", "eval_every")
_KEEP_BEST: KeyPath = ("checkpoint", "keep_best")


def keep_best(given: Given) -> Iterator[Finding]:
    """Keeping the best by a metric of evaluations needs evaluations at steps that are saved."""
    checkpoint, training = given.config.checkpoint, given.config.training
    if given.config.run.recipe is None or checkpoint.keep_best == 0:
        return
    metric = checkpoint.best_metric
    if training.eval_every is None:
        wrong = f"no checkpoint will have {shown(metric)}: training.eval_every is not set"
        yield Finding(_KEEP_BEST, wrong, "training.eval_every = 100, or no keep_best", (_EVAL_EVERY,))
    elif isinstance(checkpoint.every, int) and training.steps is not None:
        together = math.lcm(checkpoint.every, training.eval_every)
        if together > training.steps:
            wrong = (
                f"no checkpoint will have {shown(metric)}: checkpoints every {checkpoint.every} steps and "
                f"evaluations every {training.eval_every} first meet at step {together}, after the last"
            )
            right = f"checkpoint.every = {training.eval_every}, or no keep_best"
            uses = (_EVERY, _EVAL_EVERY, ("training", "steps"))
            yield Finding(_KEEP_BEST, wrong, right, uses)


def best_of_none(given: Given) -> Iterator[Finding]:
    """The metric for the best matters only if some are kept for it."""
    if given.config.checkpoint.keep_best == 0:
        for name in ("best_metric", "best_is"):
            path = ("checkpoint", name)
            if given.written(path):
                wrong = "it has no effect with checkpoint.keep_best = 0"
                yield Finding(path, wrong, f"no {name}, or checkpoint.keep_best = 1", (_KEEP_BEST,))


CHECKPOINT_RULES: tuple[Rule, ...] = (keep_best, best_of_none)


# Contradictions in [estimate], and between it and the rest of a run file.

_TABLE: KeyPath = ("estimate",)
_OF_TRAINING = {
    "microbatch": "microbatch", "precision": "precision", "checkpointing": "activation_checkpointing",
    "optimizer": "optimizer",
}  # fmt: skip
"""Keys that a recipe's [training] has already."""


def estimate_size(given: Given) -> Iterator[Finding]:
    """The table gives the model's size, in a whole number of parameters."""
    estimate = given.config.estimate
    parameters, config, layers, width = (
        (*_TABLE, name) for name in ("parameters", "config", "layers", "width")
    )
    enough = estimate.layers is not None and estimate.width is not None
    if given.written(_TABLE) and estimate.parameters is None and estimate.config is None and not enough:
        right = 'parameters = 7e9, config = "config.json" of Hugging Face, or layers and width'
        yield Finding(_TABLE, "the size of the model is missing", right, (parameters, config, layers, width))
    if estimate.parameters is not None and estimate.parameters != int(estimate.parameters):
        wrong = f"{shown(estimate.parameters)} parameters are not a whole number"
        yield Finding(parameters, wrong, "a whole number, such as 7e9")
    if estimate.config is not None and given.written((*_TABLE, "architecture")):
        wrong = "estimate.config already determines the architecture"
        yield Finding((*_TABLE, "architecture"), wrong, "no architecture, or no config", (config,))


def estimate_heads(given: Given) -> Iterator[Finding]:
    """Heads divide the width; a config.json may give the head size explicitly."""
    estimate = given.config.estimate
    heads, kv_heads, width = ((*_TABLE, name) for name in ("heads", "kv_heads", "width"))
    if estimate.heads is None:
        return
    if estimate.config is None and estimate.width is not None and estimate.width % estimate.heads:
        wrong = f"{estimate.heads} heads do not divide width = {estimate.width} evenly"
        yield Finding(heads, wrong, "heads that divide the width", (width,))
    if estimate.kv_heads is not None and estimate.heads % estimate.kv_heads:
        wrong = f"{estimate.heads} heads cannot share {estimate.kv_heads} heads of keys and values evenly"
        yield Finding(kv_heads, wrong, "kv_heads that divide heads", (heads,))


def estimate_of_recipe(given: Given) -> Iterator[Finding]:
    """A recipe defines its training in [training]; a built-in one is traced."""
    recipe = given.config.run.recipe
    uses: tuple[KeyPath, ...] = (("run", "recipe"),)
    if recipe is None or not given.written(_TABLE):
        return
    if recipe in BUILTIN_RECIPES:
        wrong = f"the model of {recipe} can be traced, which is exact"
        yield Finding(_TABLE, wrong, "no [estimate]", uses)
    for name, key in _OF_TRAINING.items():
        if given.written((*_TABLE, name)):
            wrong = f"a recipe sets this with training.{key}"
            yield Finding((*_TABLE, name), wrong, f"no {name} here", uses)


ESTIMATE_RULES: tuple[Rule, ...] = (estimate_size, estimate_heads, estimate_of_recipe)
