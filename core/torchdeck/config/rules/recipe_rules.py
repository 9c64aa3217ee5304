"""Contradictions between options of the recipes that come with Torchdeck."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck.config.toml.document import KeyPath
from torchdeck.recipes.text_settings import TextData

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
            wrong = "it says which text is read, and data.tokens says that none is"
            yield Finding(path, wrong, f"no {path[-1]}, or no tokens", (("data", "tokens"), _RECIPE))
    if tokens is None and given.written(("data", "token_dtype")):
        wrong = "it says what a file of tokens holds, and data.tokens names none"
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
    """An evaluation needs held-out data."""
    config = given.config
    if config.run.recipe not in BUILTIN_RECIPES:
        return
    if config.training.eval_every is not None and config.data["heldout"] == 0:
        wrong = "there is no held-out data to evaluate on: data.heldout is 0"
        uses = (("data", "heldout"), _RECIPE)
        yield Finding(("training", "eval_every"), wrong, "data.heldout = 0.05, or no eval_every", uses)


RECIPE_RULES: tuple[Rule, ...] = (
    heads_divide,
    neurons_of_heads,
    text_source,
    vocabulary_of_bytes,
    heldout_to_evaluate,
)
