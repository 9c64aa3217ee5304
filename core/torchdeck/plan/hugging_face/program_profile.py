"""Profile of a program's model, from its config.json and the program's training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torchdeck.contract.plan.model_profile import ModelProfile, TensorInfo
from torchdeck.plan.hugging_face.adapters import (
    adapted_tensors,
    adapter_gradients,
    lora_targets,
    whole_tensors,
)
from torchdeck.plan.hugging_face.config_keys import kept_by_activation
from torchdeck.plan.hugging_face.model_weights import model_weights
from torchdeck.plan.hugging_face.program_training import ProgramTraining
from torchdeck.plan.memory.closed_form_profile import FORMULA, SOURCE
from torchdeck.plan.memory.closed_form_trace import Activations, closed_form_trace
from torchdeck.plan.memory.model_shape import ModelWeights
from torchdeck.plan.memory.spec import PRECISION_SIZES, ZERO

_LONGEST_ASSUMED = 1024
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def program_profile(
    values: Mapping[str, Any], training: ProgramTraining, targets: str, name: str
) -> ModelProfile:
    """Return the profile of the model that a parsed config.json describes.

    Args:
        values: content of the config.json.
        training: how the program trains it.
        targets: modules with LoRA adapters, in the program's words; empty: peft's default.
        name: name of the file, for a person.

    Raises:
        UnknownModelError: the model is not known.
    """
    weights = model_weights(values)
    longest = weights.shape.context
    sequence = training.sequence or _LONGEST_ASSUMED
    if weights.shape.positions or training.sequence is None:
        sequence = min(sequence, longest)
    weights = replace(weights, shape=replace(weights.shape, context=sequence))
    notes = [
        f"{weights.parameters:,} parameters by {name}; {FORMULA}",
        f"samples are assumed to have {sequence:,} tokens; shorter ones need less",
    ]
    dtype = _DTYPES[training.stored]
    trained: dict[str, int] | None = None
    tensors: tuple[TensorInfo, ...] = whole_tensors(weights, dtype)
    if training.lora_rank is not None:
        chosen = lora_targets(str(values.get("model_type")), training.lora_rank, targets)
        flat = training.kind in ZERO
        engine = _DTYPES[training.precision] if flat else dtype
        tensors = adapted_tensors(weights, engine, chosen, training.quantized, flat=flat)
        trained = adapter_gradients(weights, chosen)
        if chosen.unknown:
            notes.append(f"unknown LoRA targets are left out: {', '.join(chosen.unknown)}")
    if training.assumed:
        notes.append(f"not given by the program, so assumed: {', '.join(training.assumed)}")
    return ModelProfile(
        source=SOURCE,
        parameters=tensors,
        buffers=(),
        units=("", *(f"blocks.{index}" for index in range(len(weights.blocks)))),
        precision=training.precision,
        traces=_traces(values, weights, training, trained),
        tokens_per_sample=float(sequence),
        notes=tuple(notes),
        facts={"parameters": weights.parameters},
    )


def _traces(
    values: Mapping[str, Any],
    weights: ModelWeights,
    training: ProgramTraining,
    trained: Mapping[str, int] | None,
) -> tuple[Any, ...]:
    """Return traces of the micro-batch and of another, from which others follow, with and without casts and
    checkpointing.
    """
    activations = Activations(
        weights.shape,
        PRECISION_SIZES[training.precision],
        eager=training.eager,
        dropout=False,
        more_in_mlp=kept_by_activation(values),
    )
    size = training.microbatch
    casts = (False,) if training.precision == "fp32" else (False, True)
    return tuple(
        closed_form_trace(activations, weights, count, cast=cast, checkpointing=again, trained=trained)
        for count in (size, size // 2 or 2)
        for cast in casts
        for again in (False, True)
    )
