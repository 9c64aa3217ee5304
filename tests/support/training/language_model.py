"""In a forked rank with transformers: what recipe hf-causal-lm makes of a model in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from support.ranks.measured_ranks import Job
from torchdeck.data.step_order import Layout
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import RecipeError, load_recipe
from torchdeck.distributed.trainer.setup import build_model as build_recipe_model
from torchdeck.recipes.hugging_face import blocks, build_data, build_model, collate, data_options, loss
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_recipe


def write(job: Job) -> None:
    """Write a tiny model into the folder `path`."""
    from support.training.tiny_language_model import write_model

    write_model(Path(job["path"]))


def samples(job: Job) -> dict[str, Any]:
    """Return the first samples, and their loss in rows of their own and in shared ones."""
    model = build_model({"path": job["path"], "method": "full"})
    data = build_data(data_options({"path": job["path"], "context": 64}, {"source": job["source"]}), "train")
    assert data is not None
    found = [data[index] for index in range(4)]
    length = max(len(tokens) for tokens, _ in found)
    shared = collate(found, Layout(2 * length, (2, 2)))
    return {
        "tokens": [tokens.tolist() for tokens, _ in found],
        "targets": [targets.tolist() for _, targets in found],
        "alone": [float(part) for part in loss(model, collate(found))],
        "shared": [float(part) for part in loss(model, shared)],
    }


def shared_rows(job: Job) -> str:
    """Return the sentence of the error for rows of two samples, or nothing."""
    built = build_model({"path": job["path"], "method": "full"})
    data = build_data(data_options({"path": job["path"]}, {"source": job["source"]}), "train")
    assert data is not None
    try:
        loss(built, collate([data[0], data[1]], Layout(100, (2,))))
    except RecipeError as error:
        return str(error)
    return ""


def model(job: Job) -> dict[str, Any]:
    """Return the sizes of what is trained and what is not, by the model and by a trace."""
    built = build_model(job["model"])
    names = [name for name, _ in built.named_parameters()]
    wanted = (WantedTrace(2, checkpointing=True),)
    traced = trace_recipe(
        TraceRequest(
            1, "hf-causal-lm", job["model"], {"source": job["source"]}, "fp32", FsdpSettings(), traces=wanted
        ),
        lambda _: None,
    )
    return {
        "trained": sum(each.numel() for each in built.parameters() if each.requires_grad),
        "frozen": sum(each.numel() for each in built.parameters() if not each.requires_grad),
        "traced": sum(each.numel for each in traced.parameters if each.trainable),
        "traced frozen": sum(each.numel for each in traced.parameters if not each.trainable),
        "blocks": [type(block).__name__ for block in blocks(built)],
        "layers": sorted({name.split(".lora_")[0].rpartition(".")[2] for name in names if ".lora_" in name}),
        "notes": list(traced.notes),
    }


def started(job: Job) -> dict[str, Any]:
    """Return whether a model that starts from the file `weights` has the values of the model saved there."""
    recipe = load_recipe("hf-causal-lm")
    first = build_recipe_model(recipe, job["model"])
    with torch.no_grad():
        for parameter in first.parameters():
            if parameter.requires_grad:
                parameter.normal_()
    weights = Path(job["weights"])
    torch.save(first.state_dict(), weights)
    second = build_recipe_model(recipe, {**job["model"], "init_from": str(weights)})
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    fresh = zip(first.parameters(), build_recipe_model(recipe, job["model"]).parameters(), strict=True)
    return {
        "equal": all(torch.equal(one, other) for one, other in pairs),
        "as fresh": all(torch.equal(one, other) for one, other in fresh),
    }


def refused(job: Job) -> str:
    """Return the sentence of the error for a wrong [model] table."""
    try:
        build_model(job["model"])
        build_data(data_options(job["model"], {"max_samples": 3}), "train")
    except RecipeError as error:
        return str(error)
    return ""
