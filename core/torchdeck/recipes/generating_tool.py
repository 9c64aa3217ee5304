"""Process that writes text: `python -m torchdeck.recipes.generating_tool`.

Answers a `TextRequest` as `torchdeck.distributed.answering_process` does, with {"text": piece} any number of
times. It computes on the CPU, so that it takes no memory from a training.
"""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.distributed.answering_process import Say, answer_one_request

_LARGE = 20_000_000
"""Parameters from which several threads are worth it: next to a training they wait for each other most of the
time.
"""


def main() -> int:
    """Answer one request; return the process's exit code."""
    return answer_one_request(_answer)


def _answer(asked: Mapping[str, Any], say: Say) -> dict[str, Any]:
    import torch

    from torchdeck.distributed.trainer.initial_weights import InitialWeights, fill_model
    from torchdeck.recipes.generation.request import TextRequest
    from torchdeck.recipes.generation.sampling import GeneratingModel

    request = TextRequest.from_json(asked)
    recipe, options = _recipe(request)
    model = recipe.build_model(dict(options))
    assert isinstance(model, GeneratingModel)  # noqa: S101 - one of GENERATING; narrows the type
    fill_model(
        model,
        InitialWeights(Path(request.source)),
        recipe.init_names,
        ema=request.ema,
        progress=lambda *said: say({"progress": said}),
    )
    if sum(parameter.numel() for parameter in model.parameters()) < _LARGE:
        torch.set_num_threads(1)
    say({"progress": ["writing", 0, 0]})
    started, window = time.monotonic(), options.get("context")
    prompt = request.prompt.encode("utf-8", "surrogateescape")
    tokens = model.generate(
        prompt,
        max_tokens=request.sampling.max_tokens,
        temperature=request.sampling.temperature,
        top_k=request.sampling.top_k,
        seed=request.sampling.seed,
        window=window,
        stop=_end(request.recipe),
    )
    decoder, count = codecs.getincrementaldecoder("utf-8")("replace"), 0
    for token in tokens:
        count += 1
        piece = decoder.decode(bytes([token]))
        if piece:
            say({"text": piece})
    rest = decoder.decode(b"", final=True)
    if rest:
        say({"text": rest})
    return {
        "tokens": count,
        "seconds": time.monotonic() - started,
        "ended": count < request.sampling.max_tokens,
        "unread": max(0, len(prompt) - window) if window else 0,
    }


def _recipe(request: Any) -> tuple[Any, dict[str, Any]]:
    """Return the recipe and its [model] table; raises RecipeError if it does not write text of bytes."""
    from torchdeck.distributed.recipe_loading import RecipeError, load_recipe
    from torchdeck.recipes.generation.request import GENERATING
    from torchdeck.recipes.text_bytes import BYTES

    if request.recipe not in GENERATING:
        raise RecipeError(f"recipe {request.recipe} writes no text: only {', '.join(GENERATING)} do")
    options = {key: value for key, value in request.model.items() if not key.startswith("init_")}
    if options.get("vocabulary", BYTES) != BYTES:
        raise RecipeError(
            f"the model was trained on tokens of a vocabulary of {options['vocabulary']}, not on bytes: only "
            "the tokenizer of its data can read and write them. Use model.generate from Python"
        )
    recipe = load_recipe(request.recipe)
    return recipe, {**recipe.options_of_data(options, {}), **options}


def _end(recipe: str) -> int | None:
    from torchdeck.recipes.byte_finetune import END

    return END if recipe == "byte-finetune" else None


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the reading thread is not waited for
