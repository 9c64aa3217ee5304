"""Contradictions in [estimate], and between it and the rest of a run file."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.problems import shown
from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck.config.toml.document import KeyPath

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
        yield Finding(
            _TABLE, "it does not say how large the model is", right, (parameters, config, layers, width)
        )
    if estimate.parameters is not None and estimate.parameters != int(estimate.parameters):
        wrong = f"{shown(estimate.parameters)} parameters are not a whole number"
        yield Finding(parameters, wrong, "a whole number, such as 7e9")
    if estimate.config is not None and given.written((*_TABLE, "architecture")):
        wrong = "estimate.config says the architecture already"
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
        wrong = f"the model of {recipe} is there to be traced, which is exact"
        yield Finding(_TABLE, wrong, "no [estimate]", uses)
    for name, key in _OF_TRAINING.items():
        if given.written((*_TABLE, name)):
            wrong = f"a recipe says this by training.{key}"
            yield Finding((*_TABLE, name), wrong, f"no {name} here", uses)


ESTIMATE_RULES: tuple[Rule, ...] = (estimate_size, estimate_heads, estimate_of_recipe)
